"""Candidates that a beam search wrote, for the examples that they were searched for.

FOLDER/TASK.candidates.jsonl, one object a line: `id`, `answer`, `candidates` in the order of the
beams; see `mlm-consistency beams`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import quote

from mlm_consistency.conditionals import TextExample
from mlm_consistency.errors import DataError
from mlm_consistency.tasks.config import TaskConfig
from mlm_consistency.tasks.example_source import (
    Dropped,
    Located,
    SourceRow,
    field,
    read_jsonl,
    texts,
)
from mlm_consistency.tasks.last_words import NO_CANDIDATE, labels_of
from mlm_consistency.vocabularies.load import as_path

SUFFIX = ".candidates.jsonl"
NOT_FOUND = "no beam gives a word and a mark"


@dataclass(frozen=True)
class FoundCandidates:
    """What was found for one example, the answer that it was found for, and where it stands."""

    candidates: tuple[str, ...]
    answer: str
    place: str


def candidates_file(config: TaskConfig) -> Any:
    """The file of a task's candidates in the folder of its beams.

    A folder with one task's candidates serves a task of another name too (`lambada` reads those of
    `lambada_ul2`): ids and answers are compared.
    """
    folder = as_path(str(config.beams))
    file = folder / f"{quote(config.label or config.name, safe='')}{SUFFIX}"
    if not file.is_file() and folder.is_dir():
        others = [path for path in folder.iterdir() if path.name.endswith(SUFFIX)]
        return others[0] if len(others) == 1 else file
    return file


def read_candidates(config: TaskConfig) -> dict[str, FoundCandidates]:
    """Example id -> what was found for it.

    Raises:
      DataError: for a line that is malformed, with file and line.
    """
    found = {}
    for place, row in read_jsonl(candidates_file(config)):
        name = field(row, "id", str, place)
        found[name] = FoundCandidates(
            texts(row, "candidates", place), field(row, "answer", str, place), place
        )
    return found


def with_candidates(
    example: TextExample,
    place: str,
    candidates: Mapping[str, FoundCandidates],
    config: TaskConfig,
) -> SourceRow:
    """The example with its candidates, or why it is left out.

    Where no beam gives a candidate, `(none)` stands for them and is wrong, so that the example
    counts; the paper left such examples out.

    Raises:
      DataError: if there was no search for the example, or one for another answer.
    """
    found = candidates.get(example.id)
    if found is None:
        if config.limit is not None:
            return Dropped(f"beyond the limit of {config.limit} examples", place)
        raise DataError(
            f"{place}: {candidates_file(config)} has no example {example.id!r}. Search again with "
            "`mlm-consistency beams`, into another OUTPUT_DIR."
        )
    if found.answer != example.answer:
        raise DataError(
            f"{place}: the answer is {example.answer!r}, but {found.place} was searched for "
            f"{found.answer!r}. The beams are of another split, form or file."
        )
    if not found.candidates:
        if config.last_words == "paper":
            return Dropped(NOT_FOUND, place)
        return Located(replace(example, candidates=(NO_CANDIDATE,)), place)
    labels = labels_of(found.candidates, example.answer)
    return Located(replace(example, candidates=found.candidates, labels=labels), place)
