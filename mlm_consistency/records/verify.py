"""Every example x conditional x candidate exactly once: read back from the files, not remembered.

A run is called complete only after this, so that nothing that was killed, restarted or spread over
processes can have left a hole or a double.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mlm_consistency.errors import RecordsError
from mlm_consistency.records import divergences, layout, parquet, schema, storage
from mlm_consistency.records.manifest import Manifest

_KEYS = ["task", "example_index", "example_id", "conditional", "candidate"]


def finished_shards(folder: str, manifest: Manifest, task: str) -> set[int]:
    """The shards of a task whose files are all there.

    Raises:
      RecordsError: where a file belongs to another number of shards or to another configuration,
        or is damaged.
    """
    entry = manifest.tasks[task]
    names = set(storage.names_in(folder))
    finished = set()
    for name in sorted(names):
        parsed = layout.parse_scores_name(name)
        if parsed is None or parsed[0] != task:
            continue
        _, shard, shards = parsed
        if shards != entry.shards or shard >= shards:
            raise RecordsError(
                f"{storage.join(folder, name)} is a shard of {shards}, but the run cuts task "
                f"{task!r} into {entry.shards}: move it out of the run folder"
            )
        # The others are published first; without them the shard is not whole.
        needed = {layout.examples_name(task, shard, shards)}
        if divergences.has_divergences(manifest):
            needed.add(layout.divergences_name(task, shard, shards))
        if needed <= names:
            finished.add(shard)
    return finished


def _rows_of(
    scores: pa.Table, examples: pa.Table, conditionals: list[str], name: str
) -> np.ndarray:
    """The example indices of one shard, after its rows have been compared with its examples."""

    def refuse(what: str) -> RecordsError:
        return RecordsError(
            f"{name}: {what}. Remove this shard's files and give the score command again."
        )

    index = examples["example_index"].to_numpy()
    if len(np.unique(index)) != len(index):
        raise refuse("an example stands twice in the shard")
    candidates = pc.list_value_length(examples["candidate_texts"]).to_numpy()
    per_example = candidates * len(conditionals)
    if scores.num_rows != per_example.sum():
        raise refuse(
            f"{scores.num_rows} rows of scores, expected {per_example.sum()} "
            f"({len(index)} examples x {len(conditionals)} conditionals x their candidates)"
        )
    expected_candidate = np.concatenate(
        [np.tile(np.arange(c), len(conditionals)) for c in candidates] or [np.zeros(0, int)]
    )
    expected_conditional = np.concatenate(
        [np.repeat(np.arange(len(conditionals)), c) for c in candidates] or [np.zeros(0, int)]
    )
    position = {value: k for k, value in enumerate(conditionals)}
    found = scores["conditional"].combine_chunks()
    codes = np.array([position.get(v, -1) for v in found.dictionary.to_pylist()], int)
    pairs = (
        ("example_index", scores["example_index"].to_numpy(), np.repeat(index, per_example)),
        ("conditional", codes[found.indices.to_numpy()], expected_conditional),
        ("candidate", scores["candidate"].to_numpy(), expected_candidate),
    )
    for column, came, expected in pairs:
        wrong = np.flatnonzero(came != expected)
        if len(wrong):
            raise refuse(
                f"row {wrong[0]} has {column} {came[wrong[0]]}, expected {expected[wrong[0]]}"
            )
    return index


def check_shard(
    scores: pa.Table, examples: pa.Table, manifest: Manifest, task: str, shard: int
) -> np.ndarray:
    """The example indices of a shard that was read whole, after its rows have been checked.

    Raises:
      RecordsError: where rows are missing, twice or in another order than its examples ask for,
        or an example is none of the task's.
    """
    entry = manifest.tasks[task]
    name = layout.scores_name(task, shard, entry.shards)
    index = _rows_of(scores, examples, list(manifest.conditionals), name)
    if len(index) and (index.min() < 0 or index.max() >= entry.examples):
        raise RecordsError(
            f"{name}: example {index.max()} of task {task!r}, which has {entry.examples}"
        )
    return index


def read_shard(
    folder: str, manifest: Manifest, task: str, shard: int, *, keys_only: bool = False
) -> tuple[pa.Table, pa.Table]:
    """(scores, examples) of one shard, or only the columns that say which row is what."""
    shards = manifest.tasks[task].shards
    digest = manifest.fingerprint_digest()
    tables = []
    for name, expected, columns in (
        (layout.scores_name(task, shard, shards), schema.SCORES_SCHEMA, _KEYS),
        (
            layout.examples_name(task, shard, shards),
            schema.EXAMPLES_SCHEMA,
            ["task", "example_index", "example_id", "candidate_texts"],
        ),
    ):
        path = storage.join(folder, name)
        tables.append(
            parquet.from_bytes(
                storage.read_bytes(path),
                expected,
                path,
                fingerprint=digest,
                columns=columns if keys_only else None,
            )
        )
    return tables[0], tables[1]


def read_divergences(
    folder: str, manifest: Manifest, task: str, shard: int, *, keys_only: bool = False
) -> pa.Table:
    """The divergences of one shard of a run that has them."""
    name = layout.divergences_name(task, shard, manifest.tasks[task].shards)
    path = storage.join(folder, name)
    return parquet.from_bytes(
        storage.read_bytes(path),
        divergences.DIVERGENCES_SCHEMA,
        path,
        fingerprint=manifest.fingerprint_digest(),
        columns=divergences.KEYS if keys_only else None,
    )


def _shards(folder: str, manifest: Manifest, task: str) -> Iterator[tuple[str, pa.Table, pa.Table]]:
    for shard in range(manifest.tasks[task].shards):
        name = layout.scores_name(task, shard, manifest.tasks[task].shards)
        yield name, *read_shard(folder, manifest, task, shard, keys_only=True)


def verify(folder: str, manifest: Manifest) -> dict[str, int]:
    """Counts the examples of each task in the records folder, and that each row is there once.

    Returns:
      task -> examples found.
    Raises:
      RecordsError: names the task and the shard, example or row that is missing or twice.
    """
    counts = {}
    for task, entry in manifest.tasks.items():
        missing = sorted(set(range(entry.shards)) - finished_shards(folder, manifest, task))
        if missing:
            raise RecordsError(
                f"task {task!r}: {len(missing)} of {entry.shards} shards are missing "
                f"({', '.join(map(str, missing[:10]))}{', ..' if len(missing) > 10 else ''}): "
                "give the score command again to finish the run"
            )
        seen = np.zeros(entry.examples, np.int64)
        identifiers: dict[str, str] = {}
        for shard, (name, scores, examples) in enumerate(_shards(folder, manifest, task)):
            index = check_shard(scores, examples, manifest, task, shard)
            if divergences.has_divergences(manifest):
                table = read_divergences(folder, manifest, task, shard, keys_only=True)
                other = layout.divergences_name(task, shard, entry.shards)
                divergences.check_rows(table, index, manifest.conditionals, other)
            seen[index] += 1
            _unique(examples["example_id"].to_pylist(), identifiers, name, task)
        for what, wrong in (("missing", seen == 0), ("there twice", seen > 1)):
            if wrong.any():
                raise RecordsError(
                    f"task {task!r}: {wrong.sum()} of {entry.examples} examples are {what}, the "
                    f"first is number {np.flatnonzero(wrong)[0]}: the run is not complete"
                )
        counts[task] = entry.examples
    return counts


def _unique(ids: list[str], seen: dict[str, str], name: str, task: str) -> None:
    for identifier in ids:
        if identifier in seen:
            raise RecordsError(
                f"task {task!r}: example id {identifier!r} is in {seen[identifier]} and again in "
                f"{name}: give the task's examples distinct ids"
            )
        seen[identifier] = name
