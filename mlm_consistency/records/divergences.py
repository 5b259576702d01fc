"""Divergences between conditionals as records: the third file of a shard, where a run has them.

divergences.parquet, one row for each (example, pair of conditionals), in that order, about the
first token of the answer and the whole vocabulary:

    task, example_index, example_id    which example
    first, second                      the two conditionals, in the run's order
    applicable                         whether both fit the prompt; if not, js, tv, top1 are null
    js                                 Jensen-Shannon divergence, nats, float32, 0 to log 2
    tv                                 total variation, float32, 0 to 1
    top1                               whether both put the same token first
    first_entropy, second_entropy      entropy of each, nats; null where it does not fit
    first_token, second_token          the likeliest token of each; null where it does not fit
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from mlm_consistency.errors import RecordsError, ScoringError
from mlm_consistency.records.manifest import Manifest

_NAMES = pa.dictionary(pa.int32(), pa.string())
KEYS = ["task", "example_index", "example_id", "first", "second"]

DIVERGENCES_SCHEMA = pa.schema(
    [
        pa.field("task", _NAMES, nullable=False),
        pa.field("example_index", pa.int64(), nullable=False),
        pa.field("example_id", pa.string(), nullable=False),
        pa.field("first", _NAMES, nullable=False),
        pa.field("second", _NAMES, nullable=False),
        pa.field("applicable", pa.bool_(), nullable=False),
        pa.field("js", pa.float32()),
        pa.field("tv", pa.float32()),
        pa.field("top1", pa.bool_()),
        pa.field("first_entropy", pa.float32()),
        pa.field("second_entropy", pa.float32()),
        pa.field("first_token", pa.int32()),
        pa.field("second_token", pa.int32()),
    ]
)


def has_divergences(manifest: Manifest) -> bool:
    """Whether each shard of the run has a file of divergences; one conditional has no pairs."""
    return bool(manifest.settings.get("divergence")) and len(manifest.conditionals) > 1


def divergences_table(shard: Any, conditionals: Sequence[str]) -> pa.Table:
    """The divergences of a shard as a table of DIVERGENCES_SCHEMA, rows in order.

    Args:
      shard: what the scoring loop hands over; `divergences` holds js and tv [E, pairs], pairs in
        the order of `np.triu_indices(K, 1)`, entropy and top [E, K].
      conditionals: K names.

    Raises:
      RecordsError: where there are none, or of other shapes than the examples.
      ScoringError: where a divergence is not finite; names example and conditionals.
    """
    found, examples = shard.divergences, shard.examples
    first, second = np.triu_indices(len(conditionals), 1)
    pairs, shape = len(first), (len(examples), len(conditionals))
    came = None if found is None else (found.js.shape, found.tv.shape, found.entropy.shape)
    expected = ((len(examples), pairs), (len(examples), pairs), shape)
    if came != expected:
        raise RecordsError(
            f"task {shard.task!r}, shard {shard.shard}: expected divergences of shapes {expected} "
            f"(js, tv, entropy), came {came}"
        )
    fits = np.array(
        [
            # A conditional that shows the answer's first tokens is not asked for the first.
            [getattr(m, "reason", None) is None and not getattr(m, "moved", 0) for m in e.masked]
            for e in examples
        ],
        bool,
    ).reshape(shape)
    both = fits[:, first] & fits[:, second]
    for name, values, wanted in (
        ("js", found.js, both),
        ("tv", found.tv, both),
        ("entropy", found.entropy, fits),
    ):
        bad = np.argwhere(wanted & ~np.isfinite(values))
        if len(bad):
            row, place = bad[0]
            which = (first[place], second[place]) if name != "entropy" else (place,)
            raise ScoringError(
                f"task {shard.task!r}, example {examples[row].id!r}, "
                f"{' against '.join(repr(conditionals[k]) for k in which)}: the {name} is not "
                f"finite: {values[row, place]}. Nothing of this shard was written. Look for a "
                "damaged checkpoint, or compute in float32 where the model overflows."
            )

    def column(values: np.ndarray, wanted: np.ndarray, kind: pa.DataType) -> pa.Array:
        return pa.array(values.reshape(-1), kind, mask=~wanted.reshape(-1))

    def named(places: np.ndarray, names: Sequence[str]) -> pa.DictionaryArray:
        codes = pa.array(np.asarray(places, np.int32))
        return pa.DictionaryArray.from_arrays(codes, pa.array(names, pa.string()))

    per_conditional = [
        column(table[:, side], fits[:, side], kind)
        for table, kind in ((found.entropy, pa.float32()), (found.top, pa.int32()))
        for side in (first, second)
    ]
    columns = [
        named(np.zeros(len(examples) * pairs), [shard.task]),
        pa.array(np.repeat([e.index for e in examples], pairs), pa.int64()),
        pa.array([e.id for e in examples for _ in range(pairs)], pa.string()),
        named(np.tile(first, len(examples)), conditionals),
        named(np.tile(second, len(examples)), conditionals),
        pa.array(both.reshape(-1)),
        column(found.js, both, pa.float32()),
        column(found.tv, both, pa.float32()),
        column(found.top[:, first] == found.top[:, second], both, pa.bool_()),
        *per_conditional,
    ]
    return pa.Table.from_arrays(columns, schema=DIVERGENCES_SCHEMA)


def check_rows(table: pa.Table, index: np.ndarray, conditionals: Sequence[str], name: str) -> None:
    """Refuses a table that does not have each (example, pair) once and in order.

    Args:
      index: the example indices of the shard, in order.
      name: of the file.
    """
    first, second = np.triu_indices(len(conditionals), 1)
    fault = ""
    if table.num_rows != len(index) * len(first):
        fault = (
            f"{table.num_rows} rows, expected {len(index) * len(first)} ({len(index)} examples x "
            f"{len(first)} pairs of conditionals)"
        )
    else:
        rows = {
            "example_index": (table["example_index"].to_numpy(), np.repeat(index, len(first))),
            "first": (_codes(table["first"], conditionals), np.tile(first, len(index))),
            "second": (_codes(table["second"], conditionals), np.tile(second, len(index))),
        }
        for column, (came, expected) in rows.items():
            wrong = np.flatnonzero(came != expected)
            if len(wrong):
                fault = f"row {wrong[0]} is of another {column} than expected"
                break
    if fault:
        raise RecordsError(
            f"{name}: {fault}. Remove this shard's files and give the score command again."
        )


def _codes(column: pa.ChunkedArray, names: Sequence[str]) -> np.ndarray:
    place = {value: k for k, value in enumerate(names)}
    found = column.combine_chunks()
    codes = np.array([place.get(value, -1) for value in found.dictionary.to_pylist()], int)
    return codes[found.indices.to_numpy()]
