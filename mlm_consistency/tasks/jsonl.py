"""One's own questions in a JSONL file, and the stories that ship in the same form."""

from __future__ import annotations

import importlib.resources
from collections.abc import Iterator
from typing import Any

from mlm_consistency.conditionals import TextExample
from mlm_consistency.errors import DataError
from mlm_consistency.tasks.config import TaskConfig
from mlm_consistency.tasks.example_source import (
    ExampleSource,
    Located,
    SourceRow,
    field,
    read_jsonl,
    texts,
)


class OwnQuestions(ExampleSource):
    """One JSON object a line.

    prompt      string, the text before the answer
    candidates  list of at least one string
    label       position of the right candidate, 0-based, or a list of positions
    id          optional, unique; default: the line number
    subject     optional, group for per-subject rows

    Other keys are ignored. `data_dir` is the file, or a folder that holds SPLIT.jsonl.
    """

    splits = ()
    expects = "a .jsonl file with prompt, candidates and label on each line"

    def files(self, config: TaskConfig) -> list[Any]:
        if config.folder.is_dir():
            return [config.folder / f"{config.split or 'test'}.jsonl"]
        return [config.folder]

    def read(self, config: TaskConfig) -> Iterator[SourceRow]:
        for file in self.files(config):
            for place, row in read_jsonl(file):
                yield Located(question(row, place), place)


class ShippedStories(ExampleSource):
    """Stories held out from the shipped model's training, written by `pretraining/`.

    Args:
      file_name: of the package data in tasks/assets.
    """

    needs_data_dir = False
    expects = "the package's own tasks/assets; install the package again"

    def __init__(self, file_name: str):
        self._file_name = file_name

    def files(self, config: TaskConfig) -> list[Any]:
        return [importlib.resources.files("mlm_consistency.tasks") / "assets" / self._file_name]

    def read(self, config: TaskConfig) -> Iterator[SourceRow]:
        for file in self.files(config):
            for place, row in read_jsonl(file):
                yield Located(question(row, place), place)


def question(row: dict[str, Any], place: str) -> TextExample:
    """A row of the form above as a text example.

    Raises:
      DataError: naming the place and the key.
    """
    label = row.get("label")
    if isinstance(label, list):
        labels = tuple(label)
        if not labels or any(not isinstance(k, int) or isinstance(k, bool) for k in labels):
            raise DataError(
                f"{place}: 'label' must be a position or a list of them. Got {label!r}."
            )
    else:
        labels = (field(row, "label", int, place),)
    name = row.get("id", place.rpartition(" ")[2])
    if not isinstance(name, str | int) or isinstance(name, bool):
        raise DataError(f"{place}: 'id' must be a string or a whole number. Got {name!r}.")
    subject = field(row, "subject", str, place) if row.get("subject") is not None else ""
    return TextExample(
        id=str(name),
        prompt=field(row, "prompt", str, place),
        candidates=texts(row, "candidates", place),
        labels=labels,
        subject=subject,
    )


def stories_choice() -> ExampleSource:
    """A question about a story and four short answers."""
    return ShippedStories("stories_choice.jsonl")


def stories_last_word() -> ExampleSource:
    """The last word of a story and five that the story makes plausible."""
    return ShippedStories("stories_last_word.jsonl")
