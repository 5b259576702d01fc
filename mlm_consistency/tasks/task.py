"""A task: checked text examples, and encoded ones after the filters, in one order always."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from mlm_consistency.conditionals import Conditional, TextExample, check_mode, parse_conditionals
from mlm_consistency.errors import DataError
from mlm_consistency.tables import lookup
from mlm_consistency.tasks.config import TaskConfig, check_config
from mlm_consistency.tasks.encoded import EncodedExamples
from mlm_consistency.tasks.example_source import Dropped, ExampleSource, Located
from mlm_consistency.tasks.names import TASKS
from mlm_consistency.vocabularies import Vocabulary

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Task:
    """A benchmark as configured.

    Attributes:
      config: what was asked for.
      source: what reads the files.
    """

    config: TaskConfig
    source: ExampleSource

    @property
    def name(self) -> str:
        """Name in records."""
        return self.config.label or self.config.name

    def rows(self) -> Iterator[Located | Dropped]:
        """Checked examples with their places, and the rows that the source drops, in file order.

        Raises:
          DataError: for a malformed row, an empty prompt or candidate, a label out of range, an id
            that comes twice. Names file and line.
        """
        places: dict[str, str] = {}
        for row in self.source.read(self.config):
            if isinstance(row, Located):
                check_example(row.example, row.place, self.source.candidates_from_beams)
                before = places.setdefault(row.example.id, row.place)
                if before is not row.place:
                    raise DataError(
                        f"{row.place}: the id {row.example.id!r} is that of {before} already. "
                        "Ids must be unique within a task."
                    )
            yield row
        if not places:
            raise DataError(f"task {self.name!r}: no example in {self.config.data_dir!r}.")

    def text_examples(self) -> Iterator[TextExample]:
        """The checked examples, before any filter that counts tokens.

        Raises:
          DataError: as `rows`.
        """
        for row in self.rows():
            if isinstance(row, Located):
                yield row.example

    def encoded_examples(
        self,
        vocabulary: Vocabulary,
        conditionals: str | Sequence[str | Conditional],
        mode: str | None = None,
        family: str = "t5",
    ) -> EncodedExamples:
        """The examples that pass the filters, as ids under every conditional.

        May be gone through any number of times and gives the same examples each time. `.survey()`
        is a first pass that keeps lengths and counts only.

        Raises:
          ConfigError: for unknown conditionals, or a mode that the family has not.
        """
        word = check_mode(mode, family)
        return EncodedExamples(self, vocabulary, parse_conditionals(conditionals), word, family)


def load_task(config: TaskConfig) -> Task:
    """The task of a configuration; sees to it that every file is there.

    Raises:
      UnknownNameError: if there is no such task, split, subject or form.
      ConfigError: if settings do not go together.
      DataError: if files are missing.
    """
    source = lookup(TASKS, config.name, "task")()
    check_config(config, source)
    return Task(config, source)


def check_example(example: TextExample, place: str, candidates_to_come: bool = False) -> None:
    """Refuses an example that cannot be scored.

    Raises:
      DataError: naming the place, what was expected and what came.
    """
    if not example.prompt.strip():
        raise DataError(f"{place}: the prompt is empty.")
    if candidates_to_come:
        return
    if not example.candidates:
        raise DataError(f"{place}: there are no candidates. Expected at least one.")
    for position, candidate in enumerate(example.candidates):
        if not candidate.strip():
            raise DataError(f"{place}: candidate {position} is empty or blank ({candidate!r}).")
    if not example.labels:
        raise DataError(f"{place}: no candidate is right. Expected at least one label.")
    for label in example.labels:
        if not 0 <= label < len(example.candidates):
            raise DataError(
                f"{place}: label {label} is out of range. Expected 0 to "
                f"{len(example.candidates) - 1} for {len(example.candidates)} candidates."
            )
    if len(set(example.labels)) != len(example.labels):
        raise DataError(f"{place}: a label comes twice: {list(example.labels)}.")
