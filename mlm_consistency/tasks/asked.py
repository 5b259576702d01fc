"""What a flat row was asked as: enough to make its task's examples again from their files.

Rows go through T5X and come back as scores; the text below travels with them, so that the scores
are held against every example that there should be.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace

from mlm_consistency.conditionals import parse_conditionals
from mlm_consistency.errors import DataError, MlmConsistencyError
from mlm_consistency.tasks.config import TaskConfig
from mlm_consistency.tasks.encoded import EncodedExamples
from mlm_consistency.tasks.task import load_task
from mlm_consistency.vocabularies import Vocabulary


@dataclass(frozen=True)
class Asked:
    """A task, how it was masked, and with which vocabulary.

    Attributes:
      task: its configuration.
      conditionals: names, in the order of the rows' numbers.
      mode, family: what prompts look like.
      vocabulary: name of the vocabulary.
      vocabulary_digest: sha256 of its files and its number of added sentinels.
    """

    task: TaskConfig
    conditionals: tuple[str, ...]
    mode: str
    family: str
    vocabulary: str
    vocabulary_digest: str

    def examples(self, vocabulary: Vocabulary, data_dir: str | None = None) -> EncodedExamples:
        """The task's examples as they were asked.

        Args:
          vocabulary: the same that the rows were made with.
          data_dir: where the task's files are now; None: where they were.

        Raises:
          DataError: if it is another vocabulary, or files are missing.
        """
        if vocabulary.digest != self.vocabulary_digest:
            raise DataError(
                f"the rows were made with vocabulary {self.vocabulary!r} of digest "
                f"{self.vocabulary_digest[:12]}; {vocabulary.name!r} has {vocabulary.digest[:12]}. "
                "Give the same file and the same number of added sentinels."
            )
        config = self.task if data_dir is None else replace(self.task, data_dir=data_dir)
        conditionals = parse_conditionals(self.conditionals)
        return load_task(config).encoded_examples(vocabulary, conditionals, self.mode, self.family)


def asked_text(encoded: EncodedExamples) -> str:
    """`Asked` of some examples as one line of JSON; of the task, what is not as usual."""
    asked = Asked(
        encoded.task.config,
        tuple(conditional.name for conditional in encoded.conditionals),
        encoded.mode,
        encoded.family,
        encoded.vocabulary.name,
        encoded.vocabulary.digest,
    )
    content = asdict(asked)
    plain = asdict(TaskConfig(asked.task.name))
    content["task"] = {
        key: value for key, value in content["task"].items() if key == "name" or value != plain[key]
    }
    return json.dumps(content, sort_keys=True)


def read_asked(text: str, place: str) -> Asked:
    """`Asked` from its JSON.

    Raises:
      DataError: if it is none, with its place.
    """
    try:
        content = json.loads(text)
        task = TaskConfig(**content.pop("task"))
        return Asked(task, tuple(content.pop("conditionals")), **content)
    except (ValueError, TypeError, KeyError, AttributeError, MlmConsistencyError) as error:
        raise DataError(
            f"{place}: 'asked' is not what our flat tasks write ({error}). The row must come from "
            "a task `mlmc_..._flat`."
        ) from error
