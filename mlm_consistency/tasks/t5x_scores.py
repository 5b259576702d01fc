"""Scores that `t5x.infer` wrote, held against the examples that they are of.

One JSON object a line: `inputs`, the features of a flat row (rows.FLAT; gin/t5x/score.gin has them
written), and `score`, the sum of log p over the candidate's tokens, in nats.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mlm_consistency.conditionals import EncodedExample, Masked
from mlm_consistency.errors import DataError
from mlm_consistency.tasks.asked import Asked, read_asked
from mlm_consistency.tasks.encoded import EncodedExamples
from mlm_consistency.tasks.example_source import field, read_jsonl
from mlm_consistency.tasks.rows import flat_rows

Key = tuple[int, int, int]  # example, conditional, candidate
SHOWN = 5
COMPARED = ("example_id", "conditional_name", "inputs_length", "targets_length")
TOKENS = ("inputs", "targets")


@dataclass(frozen=True)
class TaskScores:
    """The rows of one task.

    Attributes:
      asked: what they were asked as.
      rows: (example, conditional, candidate) -> (score, features, place).
    """

    asked: Asked
    rows: dict[Key, tuple[float, Mapping[str, Any], str]]


@dataclass(frozen=True)
class ImportedShard:
    """Examples with their scores, as records take them (records.schema.ScoredExamples)."""

    task: str
    shard: int
    examples: list[EncodedExample]
    token_log_probs: list[list[list[np.ndarray] | None]]


def read_scores(files: Sequence[Path]) -> dict[str, TaskScores]:
    """The rows of some files by task.

    Raises:
      DataError: for a line that is no scored flat row, a row that comes twice, or a task that was
        asked in two ways. Names file and line.
    """
    tasks: dict[str, TaskScores] = {}
    texts: dict[str, str] = {}
    for file in files:
        for place, line in read_jsonl(file):
            row = field(line, "inputs", dict, place)
            if "score" not in line:
                raise DataError(f"{place}: there is no 'score'. Run t5x.infer in score mode.")
            name, text = field(row, "task", str, place), field(row, "asked", str, place)
            if name not in tasks:
                tasks[name] = TaskScores(read_asked(text, place), {})
                texts[name] = text
            if texts[name] != text:
                raise DataError(
                    f"{place}: task {name!r} was asked otherwise than in the lines before: the "
                    "file joins two runs. Import them apart."
                )
            key = (
                _whole(row, "example", place),
                _whole(row, "conditional", place),
                _whole(row, "candidate", place),
            )
            rows = tasks[name].rows
            if key in rows:
                raise DataError(
                    f"{place}: task {name!r}, example {key[0]}, conditional {key[1]}, candidate "
                    f"{key[2]} is that of {rows[key][2]} already."
                )
            rows[key] = (float(line["score"]), row, place)
    return tasks


def scored_shards(
    name: str, scores: TaskScores, encoded: EncodedExamples, examples_per_shard: int
) -> Iterator[ImportedShard]:
    """The task's examples with their scores; every row is asked for, none may be left.

    T5X gives a sum over a candidate's m tokens, so each token gets sum / m: sums and means are
    T5X's, single tokens say nothing.

    Raises:
      DataError: if scores are missing, too many, or of other tokens; names the first of them.
    """
    left = dict(scores.rows)
    missing: list[str] = []
    shard: list[EncodedExample] = []
    values: list[list[list[np.ndarray] | None]] = []
    ready: list[ImportedShard] = []
    for example in encoded:
        shard.append(example)
        values.append(_values(example, name, encoded, left, missing))
        if len(shard) == examples_per_shard:
            ready.append(ImportedShard(name, len(ready), shard, values))
            shard, values = [], []
    if shard:
        ready.append(ImportedShard(name, len(ready), shard, values))
    if missing:
        some = "; ".join(missing[:SHOWN])
        more = f"; and {len(missing) - SHOWN} more" if len(missing) > SHOWN else ""
        raise DataError(
            f"task {name!r}: {len(missing)} of {len(missing) + len(scores.rows)} scores are "
            f"missing: {some}{more}. The run was cut short, or lost rows when it was resumed: "
            "score again into an empty folder, and give all files -00000-of-000NN."
        )
    if left:
        key, (_, _, place) = next(iter(left.items()))
        raise DataError(
            f"{place}: task {name!r} has no example {key[0]}, conditional {key[1]}, candidate "
            f"{key[2]} ({len(left)} such rows). The data or the filters have changed since."
        )
    yield from ready


def _whole(row: Mapping[str, Any], key: str, place: str) -> int:
    """A whole number of a row; T5X writes 3 as 3.0."""
    value = row.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float) or value != int(value):
        raise DataError(f"{place}: {key!r} must be a whole number. Got {value!r}.")
    return int(value)


def _values(
    example: EncodedExample,
    task: str,
    encoded: EncodedExamples,
    left: dict[Key, tuple[float, Mapping[str, Any], str]],
    missing: list[str],
) -> list[list[np.ndarray] | None]:
    found: list[list[np.ndarray] | None] = [
        [] if isinstance(masked, Masked) else None for masked in example.masked
    ]
    for wanted in flat_rows(example, task, encoded.conditionals):
        k, c = wanted["conditional"], wanted["candidate"]
        came = left.pop((example.index, k, c), None)
        if came is None:
            conditional = encoded.conditionals[k].name
            missing.append(f"example {example.id!r}, conditional {conditional!r}, candidate {c}")
            continue
        score, row, place = came
        _check_same(wanted, row, place)
        length = len(example.candidates[c])
        scores = found[k]
        assert scores is not None  # flat rows are those of conditionals that apply
        scores.append(np.full(length, score / length, np.float64))
    return found


def _check_same(wanted: Mapping[str, Any], row: Mapping[str, Any], place: str) -> None:
    for key in (*COMPARED, *(key for key in TOKENS if key in row)):
        mine, came = wanted[key], row.get(key)
        if key in TOKENS:  # padded by T5X
            mine, came = np.asarray(mine).tolist(), list(came or [])[: len(mine)]
        if came != mine:
            raise DataError(
                f"{place}: {key} is {came!r:.120}, the task's files now give {mine!r:.120}. The "
                "data have changed since, or TASK_FEATURE_LENGTHS cut the row."
            )
