"""Who wrote which shard: notes kept while a run is under way, gathered into its manifest.

Each start of each process keeps one small file: the process, its device and mesh, and the shards
that it is about to publish. A shard is named there before it appears, so a kill never leaves one
of unknown origin; where two starts name the same shard, the later one wrote it.
"""

from __future__ import annotations

import datetime
import json
import os
import socket
from collections.abc import Iterable
from typing import Any

from mlm_consistency.records import layout, storage
from mlm_consistency.records.manifest import Manifest

Shard = tuple[str, int]


def timestamp() -> str:
    """The time now, UTC, to the microsecond, as text that sorts."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="microseconds")


class Origin:
    """The note of one start of one process; made on disk with the first shard."""

    def __init__(self, folder: str, manifest: Manifest, process: int, processes: int):
        taken = [
            parsed[1]
            for name in storage.names_in(folder)
            if (parsed := layout.parse_origin_name(name)) and parsed[0] == process
        ]
        self._path = storage.join(folder, layout.origin_name(process, max(taken, default=-1) + 1))
        self._content: dict[str, Any] = {
            "process": process,
            "processes": processes,
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "started": timestamp(),
            "device": manifest.device,
            "mesh": dict(manifest.mesh),
            "versions": dict(manifest.versions),
            "revision": manifest.revision,
            "shards": {},
        }

    def announce(self, task: str, shard: int) -> None:
        """Says that this process is about to publish a shard."""
        shards = self._content["shards"].setdefault(task, [])
        if shard not in shards:
            shards.append(shard)
            storage.publish(self._path, (json.dumps(self._content) + "\n").encode())


def note_paths(folder: str) -> list[str]:
    """The paths of all notes in the records folder."""
    names = storage.names_in(folder)
    return [storage.join(folder, name) for name in names if layout.parse_origin_name(name)]


def gather(folder: str, earlier: Iterable[Any], present: set[Shard]) -> list[Any]:
    """The starts of a run, each with the present shards that it was the last to name.

    `earlier` are origins that the manifest holds already, from before a shard was scored anew.
    """
    notes = [*earlier, *(json.loads(storage.read_bytes(path)) for path in note_paths(folder))]
    notes.sort(key=lambda note: (note["started"], note["process"]))
    last: dict[Shard, int] = {}
    for place, note in enumerate(notes):
        for task, shards in note["shards"].items():
            last.update({(task, shard): place for shard in shards})
    origins = []
    for place, note in enumerate(notes):
        shards = {
            task: [s for s in sorted(found) if last[task, s] == place and (task, s) in present]
            for task, found in note["shards"].items()
        }
        shards = {task: found for task, found in shards.items() if found}
        if shards:
            origins.append({**note, "shards": shards})
    return origins
