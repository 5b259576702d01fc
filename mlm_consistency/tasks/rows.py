"""Rows: one encoded example as flat records of numbers and texts, and back. Pure numpy.

Grouped form: one row a conditional, holding all candidates; K rows an example, lossless.
Flat form: one row an applicable conditional and candidate, the shape that T5X scores.

Lengths stand beside every sequence, so that a cut or padded row is noticed, and an id 0 inside a
candidate is a token and no padding.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from mlm_consistency.conditionals import Conditional, EncodedExample, Masked, NotApplicable
from mlm_consistency.errors import DataError

Row: TypeAlias = dict[str, Any]


@dataclass(frozen=True)
class RowFeature:
    """One feature of a row.

    Attributes:
      dtype: "int32" or "string".
      rank: 0 or 1.
      provenance: where its value comes from.
      length: for rank 1, the feature that holds its length.
    """

    dtype: str
    rank: int
    provenance: str
    length: str = ""


_SHARED = {
    "task": RowFeature("string", 0, "name of the task in records: TaskConfig.label or .name"),
    "example": RowFeature("int32", 0, "position after the filters, counted from 0 without gaps"),
    "conditional": RowFeature("int32", 0, "position in the run's list of conditionals"),
    "num_conditionals": RowFeature("int32", 0, "K: length of that list"),
    "example_id": RowFeature("string", 0, "the source's id: file and row, or its own"),
    "conditional_name": RowFeature("string", 0, "Conditional.name: baseline, offset_3, ..."),
    "inputs": RowFeature(
        "int32", 1, "encoder input: the prompt's tokens and sentinels as the conditional lays "
        "them, </s> at the end; empty where it does not apply", "inputs_length",
    ),
    "inputs_length": RowFeature("int32", 0, "S: length of inputs, </s> counted"),
}  # fmt: skip

GROUPED: dict[str, RowFeature] = {
    **_SHARED,
    "prefix": RowFeature(
        "int32", 1, "decoder targets before the answer: x_0, moved or masked tokens, the last "
        "sentinel", "prefix_length",
    ),
    "prefix_length": RowFeature("int32", 0, "P: length of prefix"),
    "moved": RowFeature("int32", 0, "tokens at the start of every candidate that inputs show; 0 "
                        "but under negative offsets"),
    "candidates": RowFeature(
        "int32", 1, "tokens of all candidates, one behind the other, each encoded on its own",
        "candidates_length",
    ),
    "candidates_length": RowFeature("int32", 0, "sum of candidate_lengths"),
    "candidate_lengths": RowFeature(
        "int32", 1, "m of each candidate: where to cut candidates", "num_candidates"
    ),
    "num_candidates": RowFeature("int32", 0, "C: number of candidates"),
    "candidate_texts": RowFeature("string", 1, "the candidates as the source has them",
                                  "num_candidates"),
    "labels": RowFeature("int32", 1, "positions of the right candidates", "num_labels"),
    "num_labels": RowFeature("int32", 0, "number of right candidates"),
    "subject": RowFeature("string", 0, "the source's subject or file; empty for none"),
    "prompt": RowFeature("string", 0, "text before the answer, without mode word"),
    "answer": RowFeature("string", 0, "right answer as text where candidates come from beams"),
    "reason": RowFeature("string", 0, "why the conditional does not apply; empty where it does"),
    "mode": RowFeature("string", 0, "mode word in front of the prompt; empty for none"),
    "prompt_ids": RowFeature("int32", 1, "the prompt's tokens, mode word among them; empty where "
                             "the family has no such mode", "prompt_length"),
    "prompt_length": RowFeature("int32", 0, "n: length of prompt_ids"),
    "truncated": RowFeature("int32", 0, "prompt tokens cut at the left, 0 unless asked for"),
}  # fmt: skip

FLAT: dict[str, RowFeature] = {
    **_SHARED,
    "candidate": RowFeature("int32", 0, "position among the example's candidates"),
    "num_candidates": RowFeature("int32", 0, "C: number of candidates"),
    "is_label": RowFeature("int32", 0, "1 if the candidate is right"),
    "targets": RowFeature("int32", 1, "decoder targets: prefix, then the candidate's tokens, "
                          "without those that inputs show", "targets_length"),
    "targets_length": RowFeature("int32", 0, "T: length of targets"),
    "target_loss_weights": RowFeature("int32", 1, "1 on the candidate's tokens, 0 on the prefix",
                                      "targets_length"),
    "asked": RowFeature("string", 0, "JSON, the same in every row: the task's configuration, the "
                        "conditionals, mode, family and vocabulary (tasks.asked)"),
}  # fmt: skip


def grouped_rows(
    example: EncodedExample, task: str, conditionals: Sequence[Conditional], mode: str
) -> list[Row]:
    """K rows in the order of the conditionals. See GROUPED for the features."""
    candidates = [np.asarray(ids, np.int32) for ids in example.candidates]
    flat = np.concatenate([np.zeros(0, np.int32), *candidates])
    rows = []
    for row, masked in _shared_rows(example, task, conditionals):
        own = conditionals[row["conditional"]].mode
        word = mode if own is None else own
        prompt_ids = example.prompt_ids.get(word, np.zeros(0, np.int32))
        prefix = masked.prefix if isinstance(masked, Masked) else np.zeros(0, np.int32)
        row |= {
            "prefix": prefix,
            "prefix_length": len(prefix),
            "moved": masked.moved if isinstance(masked, Masked) else 0,
            "candidates": flat,
            "candidates_length": len(flat),
            "candidate_lengths": np.asarray([len(ids) for ids in candidates], np.int32),
            "num_candidates": len(candidates),
            "candidate_texts": list(example.candidate_texts),
            "labels": np.asarray(example.labels, np.int32),
            "num_labels": len(example.labels),
            "subject": example.subject,
            "prompt": example.prompt,
            "answer": example.answer,
            "reason": "" if isinstance(masked, Masked) else masked.reason,
            "mode": word,
            "prompt_ids": prompt_ids,
            "prompt_length": len(prompt_ids),
            "truncated": example.truncated,
        }
        rows.append(row)
    return rows


def flat_rows(
    example: EncodedExample,
    task: str,
    conditionals: Sequence[Conditional],
    mode: str = "",
    asked: str = "",
) -> list[Row]:
    """A row for each candidate under each conditional that applies. See FLAT for the features."""
    rows = []
    for row, masked in _shared_rows(example, task, conditionals):
        if not isinstance(masked, Masked):
            continue
        for position, ids in enumerate(example.candidates):
            targets = np.concatenate([masked.prefix, ids[masked.moved :]]).astype(np.int32)
            weights = np.zeros(len(targets), np.int32)
            weights[len(masked.prefix) :] = 1
            rows.append(
                row
                | {
                    "candidate": position,
                    "num_candidates": len(example.candidates),
                    "is_label": int(position in example.labels),
                    "targets": targets,
                    "targets_length": len(targets),
                    "target_loss_weights": weights,
                    "asked": asked,
                }
            )
    return rows


def read_rows(rows: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, EncodedExample]]:
    """Puts grouped rows together again: (task, example), each task's in the order of the task.

    Rows of several tasks may alternate, as in a mixture, and rows may come in any order, as from
    an offline cache: an example waits until those before it are out, or the rows are at their end.
    Strings may be bytes, sequences may be padded.

    Raises:
      DataError: if a row was cut, comes twice, or rows of an example are missing at the end.
    """
    waiting: dict[tuple[str, int], dict[int, Mapping[str, Any]]] = {}
    whole: dict[str, dict[int, EncodedExample]] = {}
    following: dict[str, int] = {}
    for row in rows:
        task, example = _text(row["task"]), int(row["example"])
        conditional = int(row["conditional"])
        group = waiting.setdefault((task, example), {})
        ready = whole.setdefault(task, {})
        if conditional in group or example in ready or example < following.setdefault(task, 0):
            raise DataError(
                f"task {task!r} example {example}: conditional {conditional} comes twice. Read "
                "the dataset with num_epochs=1."
            )
        group[conditional] = row
        if len(group) < int(row["num_conditionals"]):
            continue
        del waiting[task, example]
        ready[example] = _example([group[k] for k in sorted(group)])
        while following[task] in ready:
            yield task, ready.pop(following[task])
            following[task] += 1
    if waiting:
        (task, example), group = next(iter(waiting.items()))
        raise DataError(
            f"task {task!r} example {example}: only conditionals {sorted(group)} came, and "
            f"{len(waiting)} examples in all are incomplete. Rows were lost: read every shard."
        )
    # What is left lacks examples before it: a part of a dataset was asked for.
    for task, ready in whole.items():
        for example in sorted(ready):
            yield task, ready[example]


def _shared_rows(
    example: EncodedExample, task: str, conditionals: Sequence[Conditional]
) -> Iterator[tuple[Row, Masked | NotApplicable]]:
    for k, (conditional, masked) in enumerate(zip(conditionals, example.masked, strict=True)):
        inputs = masked.encoder if isinstance(masked, Masked) else np.zeros(0, np.int32)
        row: Row = {
            "task": task,
            "example": example.index,
            "conditional": k,
            "num_conditionals": len(conditionals),
            "example_id": example.id,
            "conditional_name": conditional.name,
            "inputs": inputs,
            "inputs_length": len(inputs),
        }
        yield row, masked


def _example(rows: Sequence[Mapping[str, Any]]) -> EncodedExample:
    first = rows[0]
    lengths = _sequence(first, "candidate_lengths")
    ends = np.cumsum(lengths)
    candidates = tuple(np.split(_sequence(first, "candidates"), ends[:-1])) if len(ends) else ()
    prompt_ids = {}
    masked: list[Masked | NotApplicable] = []
    for row in rows:
        if int(row["prompt_length"]):
            prompt_ids[_text(row["mode"])] = _sequence(row, "prompt_ids")
        if reason := _text(row["reason"]):
            masked.append(NotApplicable(reason))
        else:
            moved = int(row["moved"])
            masked.append(Masked(_sequence(row, "inputs"), _sequence(row, "prefix"), moved))
    return EncodedExample(
        index=int(first["example"]),
        id=_text(first["example_id"]),
        subject=_text(first["subject"]),
        prompt=_text(first["prompt"]),
        candidate_texts=tuple(_text(t) for t in _sequence(first, "candidate_texts")),
        labels=tuple(int(label) for label in _sequence(first, "labels")),
        candidates=candidates,
        prompt_ids=prompt_ids,
        masked=tuple(masked),
        answer=_text(first["answer"]),
        truncated=int(first["truncated"]),
    )


def _sequence(row: Mapping[str, Any], name: str) -> Any:
    length = int(row[GROUPED[name].length])
    values = np.asarray(row[name])
    if len(values) < length:
        raise DataError(
            f"task {_text(row['task'])!r} example {_text(row['example_id'])!r}: {name!r} was cut "
            f"from {length} to {len(values)}. Raise TASK_FEATURE_LENGTHS[{name!r}] to {length}, "
            "or give no lengths."
        )
    return values[:length]


def _text(value: Any) -> str:
    return value.decode("utf-8") if isinstance(value, bytes) else str(value)
