"""What a task is asked to be: one frozen dataclass, checked before any file is read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mlm_consistency.errors import ConfigError, DataError, MlmConsistencyError
from mlm_consistency.tables import unknown_name
from mlm_consistency.tasks.example_source import ExampleSource, unreadable
from mlm_consistency.vocabularies.load import as_path

FIRST_ROW = ("keep", "drop")
LAST_WORDS = ("by_word", "paper")


@dataclass(frozen=True)
class TaskConfig:
    """One task.

    Attributes:
      name: entry of the table of tasks: stories_choice, mmlu, bbh, lambada, jsonl, ...
      data_dir: folder (or, for jsonl, file) of the original data; local or gs://. None for tasks
        that ship.
      split: None: the usual one of the benchmark.
      subjects: subjects or files of it, in this order; (): all.
      form: how the question is put; "": the usual way. MMLU: zero_shot, options, five_shot.
        LAMBADA: plain_text, openai. TruthfulQA: several_right, one_right.
      first_row: MMLU: "keep", or "drop" to lose each file's first row as the paper did.
      encoder_longer_than: keep examples whose baseline encoder input, x_0 and `</s>` counted and
        in the run's mode, is longer than this. Counted so for every family, so that families are
        compared on the same examples.
      candidates_shorter_than: keep examples whose candidates all have fewer tokens than this, a
        sentinel counted to each.
      max_prompt_tokens: cut longer prompts at the left; None: never. Counted and recorded.
      limit: keep the first so many examples; the others are counted as dropped.
      beams: LAMBADA: folder of the beams (`mlm-consistency beams`) from which the candidates
        come; None: they are still to be searched for.
      last_words: LAMBADA: "by_word": `word.` and `word,` are one answer, and an example of which no
        beam gives a candidate is there and wrong; "paper": they disagree, and it is left out.
      label: name of the task in records; "": `name`.
    """

    name: str
    data_dir: str | None = None
    split: str | None = None
    subjects: tuple[str, ...] = ()
    form: str = ""
    first_row: str = "keep"
    encoder_longer_than: int | None = None
    candidates_shorter_than: int | None = None
    max_prompt_tokens: int | None = None
    limit: int | None = None
    beams: str | None = None
    last_words: str = "by_word"
    label: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "subjects", tuple(self.subjects))
        if self.first_row not in FIRST_ROW:
            raise ConfigError(f"TaskConfig.first_row must be keep or drop. Got {self.first_row!r}.")
        if self.last_words not in LAST_WORDS:
            raise ConfigError(
                f"TaskConfig.last_words must be by_word or paper. Got {self.last_words!r}."
            )
        for key in ("encoder_longer_than", "candidates_shorter_than", "max_prompt_tokens", "limit"):
            value = getattr(self, key)
            if value is not None and (not isinstance(value, int) or value < 1):
                raise ConfigError(
                    f"TaskConfig.{key} must be a whole number >= 1, or None for no limit. "
                    f"Got {value!r}."
                )

    @property
    def folder(self) -> Any:
        """`data_dir` as a path.

        Raises:
          ConfigError: if it was not given.
        """
        if not self.data_dir:
            raise ConfigError(f"task {self.name!r} needs TaskConfig.data_dir (DATA_DIR).")
        return as_path(self.data_dir)


def check_config(config: TaskConfig, source: ExampleSource) -> None:
    """Holds a configuration against its source, before anything runs.

    Raises:
      ConfigError: for a split, subject, form or first_row that the source does not have.
      DataError: for missing files, with what was expected where.
    """
    if config.split is not None and source.splits and config.split not in source.splits:
        raise unknown_name(f"split of task {config.name!r}", config.split, source.splits)
    if config.form and config.form not in source.forms:
        raise unknown_name(f"form of task {config.name!r}", config.form, source.forms)
    if config.subjects and not source.subjects:
        raise ConfigError(f"task {config.name!r} has no subjects. Got {config.subjects}.")
    for subject in config.subjects:
        if subject not in source.subjects:
            raise unknown_name(f"subject of task {config.name!r}", subject, source.subjects)
    if len(set(config.subjects)) != len(config.subjects):
        raise ConfigError(f"task {config.name!r}: a subject is given twice: {config.subjects}.")
    if config.first_row == "drop" and config.name != "mmlu":
        raise ConfigError(f"TaskConfig.first_row='drop' is for mmlu, not for {config.name!r}.")
    if config.beams and not source.candidates_from_beams:
        raise ConfigError(
            f"task {config.name!r} has candidates of its own. TaskConfig.beams is for tasks whose "
            f"candidates come from beam search. Got {config.beams!r}."
        )
    if not source.needs_data_dir and config.data_dir:
        raise ConfigError(f"task {config.name!r} ships with the package: leave data_dir out.")
    try:
        there = not source.needs_data_dir or config.folder.exists()
        missing = [file for file in source.files(config) if not file.is_file()] if there else []
    except MlmConsistencyError:
        raise
    except Exception as error:  # a bucket's library has errors of its own
        raise unreadable(config.data_dir, error) from error
    if not there:
        raise DataError(
            f"task {config.name!r}: no data at {config.data_dir!r}. Expected {source.expects}."
        )
    if missing:
        shown = ", ".join(str(file) for file in missing[:3])
        more = f" and {len(missing) - 3} more" if len(missing) > 3 else ""
        raise DataError(f"task {config.name!r}: missing {shown}{more}. Expected {source.expects}.")
