"""Records of a beam search: what the model would say, and the candidates that came of it.

FOLDER/manifest.json                             what was searched, with which model
FOLDER/TASK-00000-of-00007.beams.parquet         one row a beam, best first
FOLDER/TASK.candidates.jsonl                     one line an example: what scoring reads; written
                                                 last, when every shard of the task is there

A shard is whole when its file exists: written beside, then renamed. A search that is started again
goes on after the whole shards; another configuration is refused with the name of what changed.
Scoring needs the candidates file alone, so it is rerun without the search.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol
from urllib.parse import quote

import numpy as np
import pyarrow as pa

from mlm_consistency.errors import RecordsError
from mlm_consistency.records import layout, parquet, storage
from mlm_consistency.records.manifest import Manifest, differences
from mlm_consistency.records.origins import timestamp

_NAMES = pa.dictionary(pa.int32(), pa.string())
BEAMS_SCHEMA = pa.schema(
    [
        pa.field("task", _NAMES, nullable=False),
        pa.field("example_index", pa.int64(), nullable=False),
        pa.field("example_id", pa.string(), nullable=False),
        pa.field("answer", pa.string(), nullable=False),
        pa.field("beam", pa.int32(), nullable=False),  # rank, 0 the best
        pa.field("score", pa.float32(), nullable=False),
        pa.field("tokens", pa.list_(pa.int32()), nullable=False),
        pa.field("token_log_probs", pa.list_(pa.float32()), nullable=False),  # nats
        pa.field("text", pa.string(), nullable=False),
        pa.field("candidate", pa.string()),  # null where the beam gives none
        pa.field("reason", pa.string()),  # why it gives none
        pa.field("is_right", pa.bool_(), nullable=False),
    ]
)
MANIFEST = "manifest.json"


class ReadBeam(Protocol):
    """A beam and what it was taken for."""

    tokens: np.ndarray
    log_probs: np.ndarray
    score: float
    text: str
    candidate: str
    reason: str
    is_right: bool


def beams_name(task: str, shard: int, shards: int) -> str:
    """File name of one shard's beams, `shard` counted from 0."""
    return layout.scores_name(task, shard, shards).replace(".scores.", ".beams.")


def candidates_name(task: str) -> str:
    """File name of a task's candidates."""
    return f"{quote(task, safe='')}.candidates.jsonl"


def beams_table(
    task: str, examples: Sequence[Any], beams: Sequence[Sequence[ReadBeam]]
) -> pa.Table:
    """Rows in (example, beam) order.

    Raises:
      RecordsError: where an example has no beams, or a log-probability is not finite.
    """
    columns: dict[str, list[Any]] = {field.name: [] for field in BEAMS_SCHEMA}
    for example, found in zip(examples, beams, strict=True):
        if not found:
            raise RecordsError(f"task {task!r}, example {example.id!r}: no beams came")
        for rank, beam in enumerate(found):
            if not np.isfinite(beam.log_probs).all():
                raise RecordsError(
                    f"task {task!r}, example {example.id!r}, beam {rank}: log-probabilities "
                    f"{np.asarray(beam.log_probs).tolist()} are not finite. Nothing of this shard "
                    "was written. Look for a damaged checkpoint, or compute in float32."
                )
            row = {
                "task": task,
                "example_index": example.index,
                "example_id": example.id,
                "answer": example.answer,
                "beam": rank,
                "score": beam.score,
                "tokens": np.asarray(beam.tokens).tolist(),
                "token_log_probs": np.asarray(beam.log_probs, np.float32),
                "text": beam.text,
                "candidate": beam.candidate or None,
                "reason": beam.reason or None,
                "is_right": beam.is_right,
            }
            for name, value in row.items():
                columns[name].append(value)
    arrays = [pa.array(columns[field.name], field.type) for field in BEAMS_SCHEMA]
    return pa.Table.from_arrays(arrays, schema=BEAMS_SCHEMA)


class BeamWriter:
    """Writes the beams of a run into a folder, going on after what is already there."""

    def __init__(self, folder: storage.PathLike, manifest: Manifest, *, process: int = 0):
        """Opens the folder, made where it is missing.

        Raises:
          RecordsError: where it holds beams of another configuration; names what changed.
        """
        self.folder = storage.join(folder)
        self._process = process
        path = storage.join(self.folder, MANIFEST)
        try:
            earlier = Manifest.from_json(storage.read_bytes(path), path)
        except FileNotFoundError:
            earlier = None
        if earlier is not None and (changed := differences(earlier, manifest)):
            raise RecordsError(
                f"{self.folder} holds beams of another configuration. What changed:\n  "
                + "\n  ".join(changed)
                + "\nRestore that, or take another OUTPUT_DIR."
            )
        storage.make_folder(self.folder)
        storage.remove_stale(self.folder)
        self.manifest = earlier or manifest.replace(created=timestamp())
        self._digest = self.manifest.fingerprint_digest()
        if earlier is None and process == 0:
            storage.publish(path, self.manifest.to_json().encode())

    def finished(self, task: str) -> set[int]:
        """The shards of `task` that are whole."""
        names = set(storage.names_in(self.folder))
        shards = self.manifest.tasks[task].shards
        return {shard for shard in range(shards) if beams_name(task, shard, shards) in names}

    def write(
        self, task: str, shard: int, examples: Sequence[Any], beams: Sequence[Sequence[ReadBeam]]
    ) -> None:
        """Publishes one shard, whole or not at all."""
        name = beams_name(task, shard, self.manifest.tasks[task].shards)
        table = beams_table(task, examples, beams)
        storage.publish(storage.join(self.folder, name), parquet.to_bytes(table, self._digest))

    def complete(self) -> dict[str, dict[str, int]]:
        """Reads all shards back, publishes the candidates, marks the manifest complete.

        Returns:
          task -> counts: examples, without a candidate, with a right one, right by their first.

        Raises:
          RecordsError: where examples or shards are missing, twice or damaged.
        """
        counts = {}
        for task, entry in self.manifest.tasks.items():
            lines = candidate_lines(self._rows(task))
            if [line["index"] for line in lines] != list(range(entry.examples)):
                raise RecordsError(
                    f"{self.folder}: the beams of task {task!r} are of {len(lines)} examples, "
                    f"expected {entry.examples}, each once and in order. Remove its shards and "
                    "give the command again."
                )
            counts[task] = _counts(lines)
            text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
            if self._process == 0:
                path = storage.join(self.folder, candidates_name(task))
                storage.publish(path, text.encode())
        if self._process == 0 and not self.manifest.complete:
            self.manifest = self.manifest.replace(
                complete=True,
                finished=timestamp(),
                information={**self.manifest.information, "counts": counts},
            )
            path = storage.join(self.folder, MANIFEST)
            storage.publish(path, self.manifest.to_json().encode())
        return counts

    def _rows(self, task: str) -> Iterable[dict[str, Any]]:
        shards = self.manifest.tasks[task].shards
        missing = sorted(set(range(shards)) - self.finished(task))
        if missing:
            raise RecordsError(
                f"{self.folder}: {len(missing)} of {shards} shards of task {task!r} are missing: "
                "give the command again to finish the search"
            )
        for shard in range(shards):
            path = storage.join(self.folder, beams_name(task, shard, shards))
            yield from read_beams(path, self._digest).to_pylist()


def read_beams(path: storage.PathLike, fingerprint: str | None = None) -> pa.Table:
    """The rows of one shard.

    Raises:
      RecordsError: where the file is damaged, or of another configuration than `fingerprint`.
    """
    name = storage.join(path)
    return parquet.from_bytes(storage.read_bytes(name), BEAMS_SCHEMA, name, fingerprint=fingerprint)


def candidate_lines(rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """One object an example: its distinct candidates in the order of the beams, and the right ones.

    `first_right` says whether the best beam that gives a candidate is right.
    """
    lines: list[dict[str, Any]] = []
    for row in rows:
        if not lines or lines[-1]["index"] != row["example_index"]:
            lines.append(
                {
                    "index": row["example_index"],
                    "id": row["example_id"],
                    "answer": row["answer"],
                    "candidates": [],
                    "labels": [],
                    "beams": 0,
                }
            )
        line = lines[-1]
        line["beams"] += 1
        if row["candidate"] is None or row["candidate"] in line["candidates"]:
            continue
        if row["is_right"]:
            line["labels"].append(len(line["candidates"]))
        line["candidates"].append(row["candidate"])
    return lines


def _counts(lines: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    return {
        "examples": len(lines),
        "candidates": sum(len(line["candidates"]) for line in lines),
        "without_candidate": sum(not line["candidates"] for line in lines),
        "with_right_candidate": sum(bool(line["labels"]) for line in lines),
        "first_candidate_right": sum(0 in line["labels"] for line in lines),
    }
