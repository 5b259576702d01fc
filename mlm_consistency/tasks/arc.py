"""ARC-Challenge: school science questions, from AI2's jsonl."""

from __future__ import annotations

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
)

FILES = {"test": "Test", "dev": "Dev", "train": "Train"}


class ArcChallenge(ExampleSource):
    """Prompt `Question: STEM` and `Answer:` on a line of its own; three to five options.

    Options are lettered or numbered in the files; the key may be either.

    Source: Clark et al. 2018, arXiv 1803.05457.
    """

    splits = ("test", "dev", "train")
    expects = "ARC-Challenge-{Test,Dev,Train}.jsonl as published"

    def files(self, config: TaskConfig) -> list[Any]:
        return [config.folder / f"ARC-Challenge-{FILES[config.split or 'test']}.jsonl"]

    def read(self, config: TaskConfig) -> Iterator[SourceRow]:
        for file in self.files(config):
            for place, row in read_jsonl(file):
                question = field(row, "question", dict, place)
                choices = field(question, "choices", list, place)
                if not all(isinstance(choice, dict) for choice in choices):
                    raise DataError(f"{place}: every choice must be an object.")
                keys = [field(choice, "label", str, place) for choice in choices]
                key = field(row, "answerKey", str, place)
                if key not in keys:
                    raise DataError(f"{place}: answerKey {key!r} is none of {', '.join(keys)}.")
                example = TextExample(
                    id=field(row, "id", str, place),
                    prompt=f"Question: {field(question, 'stem', str, place)}\nAnswer:",
                    candidates=tuple(field(choice, "text", str, place) for choice in choices),
                    labels=(keys.index(key),),
                )
                yield Located(example, place)
