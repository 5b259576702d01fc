"""TruthfulQA, multiple choice: several answers may be right."""

from __future__ import annotations

import json
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
    read_text,
)

TARGETS = {"several_right": "mc2_targets", "one_right": "mc1_targets"}


class TruthfulQa(ExampleSource):
    """Prompt `Q: QUESTION` and `A:`; candidates are the reference answers, right and wrong.

    several_right  MC2's answers: an example counts as right if the prediction is one of them.
    one_right      MC1's answers, of which one is right.

    Reads DATA_DIR/mc_task.json. Source: Lin et al. 2022, arXiv 2109.07958.
    """

    splits = ("validation",)
    forms = ("several_right", "one_right")
    expects = "mc_task.json as published"

    def files(self, config: TaskConfig) -> list[Any]:
        return [config.folder / "mc_task.json"]

    def read(self, config: TaskConfig) -> Iterator[SourceRow]:
        (file,) = self.files(config)
        try:
            rows = json.loads(read_text(file))
        except ValueError as error:
            raise DataError(f"{file}: not JSON: {error}.") from error
        if not isinstance(rows, list):
            raise DataError(f"{file}: expected a list of questions.")
        for number, row in enumerate(rows):
            place = f"{file} question {number}"
            if not isinstance(row, dict):
                raise DataError(f"{place}: expected an object. Got {type(row).__name__}.")
            targets = field(row, TARGETS[config.form or "several_right"], dict, place)
            example = TextExample(
                id=str(number),
                prompt=f"Q: {field(row, 'question', str, place)}\nA:",
                candidates=tuple(targets),
                labels=tuple(c for c, right in enumerate(targets.values()) if right == 1),
            )
            yield Located(example, place)
