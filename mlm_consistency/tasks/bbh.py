"""BIG-Bench Hard, its multiple-choice files: DATA_DIR/TASK.json as published."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from mlm_consistency.conditionals import TextExample
from mlm_consistency.errors import DataError
from mlm_consistency.tasks.config import TaskConfig
from mlm_consistency.tasks.example_source import (
    Dropped,
    ExampleSource,
    Located,
    SourceRow,
    field,
    read_text,
)

OPTIONS_HEAD = "Options:\n"
LETTERED = re.compile(r"\(([A-Z])\) ?(.*)")
DASHED = re.compile(r"- (.*)")
# Files whose answers are a closed set that the text does not list.
CLOSED_ANSWERS = {
    "boolean_expressions": ("True", "False"),
    "sports_understanding": ("yes", "no"),
    "web_of_lies": ("Yes", "No"),
}
FREE_ANSWERS = ("dyck_languages", "multistep_arithmetic_two", "object_counting", "word_sorting")
_WITH_OPTIONS = """
causal_judgement date_understanding disambiguation_qa formal_fallacies geometric_shapes hyperbaton
logical_deduction_five_objects logical_deduction_seven_objects logical_deduction_three_objects
movie_recommendation navigate penguins_in_a_table reasoning_about_colored_objects ruin_names
salient_translation_error_detection snarks temporal_sequences
tracking_shuffled_objects_five_objects tracking_shuffled_objects_seven_objects
tracking_shuffled_objects_three_objects
"""
SUBJECTS = tuple(sorted([*CLOSED_ANSWERS, *_WITH_OPTIONS.split()]))
NO_OPTION = "the target is none of the options"


class BigBenchHard(ExampleSource):
    """23 files of questions with options.

    The prompt is the text before `Options:`, less one line end; the candidates are the options
    without their letters. Options may be lettered, `(A) ..`, or dashed, `- ..`. Three files list
    no options and have a closed set of answers (True and False, yes and no).

    A few rows of movie_recommendation and ruin_names were split at commas by their makers, so that
    the target is none of the options: they are dropped and counted.

    Four files have free answers and are no multiple choice: dyck_languages,
    multistep_arithmetic_two, object_counting, word_sorting.

    Source: Suzgun et al. 2022, arXiv 2210.09261. Carries a canary: never train on it.
    """

    subjects = SUBJECTS
    expects = "BIG-Bench Hard's bbh folder: date_understanding.json and so on"

    def files(self, config: TaskConfig) -> list[Any]:
        return [config.folder / f"{name}.json" for name in config.subjects or SUBJECTS]

    def read(self, config: TaskConfig) -> Iterator[SourceRow]:
        for name in config.subjects or SUBJECTS:
            file = config.folder / f"{name}.json"
            for number, row in enumerate(_examples(file)):
                yield _question(name, number, row, f"{file} example {number}")


def _examples(file: Any) -> list[Any]:
    try:
        content = json.loads(read_text(file))
    except ValueError as error:
        raise DataError(f"{file}: not JSON: {error}.") from error
    if not isinstance(content, dict):
        raise DataError(f"{file}: expected an object with 'examples'.")
    return field(content, "examples", list, str(file))


def _question(name: str, number: int, row: Any, place: str) -> SourceRow:
    if not isinstance(row, dict):
        raise DataError(f"{place}: expected an object. Got {type(row).__name__}.")
    text, target = field(row, "input", str, place), field(row, "target", str, place).strip()
    keys: tuple[str, ...]
    candidates: tuple[str, ...]
    if name in CLOSED_ANSWERS:
        prompt, keys, candidates = text, CLOSED_ANSWERS[name], CLOSED_ANSWERS[name]
    else:
        prompt, head, options = text.partition(OPTIONS_HEAD)
        if not head:
            raise DataError(f"{place}: no 'Options:' line in the input.")
        prompt = prompt.removesuffix("\n")
        keys, candidates = _options(options, place)
    if target not in keys:
        return Dropped(f"{name}: {NO_OPTION}", place)
    labels = (keys.index(target),)
    return Located(TextExample(f"{name}/{number}", prompt, candidates, labels, name), place)


def _options(text: str, place: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What targets call the options, and their texts."""
    keys, candidates = [], []
    for line in text.rstrip("\n").split("\n"):
        if match := LETTERED.fullmatch(line):
            keys.append(f"({match.group(1)})")
            candidates.append(match.group(2))
        elif match := DASHED.fullmatch(line):
            keys.append(match.group(1).strip())
            candidates.append(match.group(1).strip())
        else:
            raise DataError(f"{place}: expected '(A) ..' or '- ..' as an option. Got {line!r}.")
    return tuple(keys), tuple(candidates)
