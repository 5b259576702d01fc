"""Which process feeds which data slots, so that every process writes whole shards of its own.

A lane is a set of processes that holds the same slots of the data axis: one process where each
has its own, several where the model axis crosses processes. The lanes work on one shard each, in
step; the plan is the same everywhere, so each knows how many steps the slowest lane needs.
"""

from __future__ import annotations

import dataclasses

import jax
import numpy as np
from jax.sharding import Mesh

from mlm_consistency.errors import ConfigError


@dataclasses.dataclass(frozen=True)
class Lanes:
    """The lanes of a mesh as one process sees them.

    Attributes:
      count: number of lanes L.
      mine: the lane of this process.
      slots: data slots of each lane.
      writes: whether this process writes the shards of its lane.
    """

    count: int
    mine: int
    slots: int
    writes: bool


def lanes_of(mesh: Mesh, process: int | None = None) -> Lanes:
    """The lanes of `mesh` for `process` (this one by default).

    Raises:
      ConfigError: if processes share slots unevenly, which no mesh of equal hosts does.
    """
    process = jax.process_index() if process is None else process
    rows = [frozenset(device.process_index for device in row) for row in np.asarray(mesh.devices)]
    owners = list(dict.fromkeys(rows))
    held = [rows.count(owner) for owner in owners]
    taken = [p for owner in owners for p in owner]
    if len(set(held)) != 1 or len(taken) != len(set(taken)):
        raise ConfigError(
            f"mesh {dict(mesh.shape)}: the processes hold its data slots unevenly "
            f"({[sorted(owner) for owner in owners]} hold {held}). Choose a data axis that is a "
            "multiple of the number of processes, or a model axis that is a multiple of the "
            "devices of a process."
        )
    mine = next((i for i, owner in enumerate(owners) if process in owner), -1)
    if mine < 0:
        raise ConfigError(f"process {process} holds no device of mesh {dict(mesh.shape)}")
    return Lanes(len(owners), mine, held[mine], min(owners[mine]) == process)


def waves(shards: list[int], lanes: int) -> list[list[int | None]]:
    """Shards taken `lanes` at a time: wave -> the shard of each lane, None where none is left."""
    padded: list[int | None] = [*shards, *[None] * (-len(shards) % lanes)]
    return [padded[i : i + lanes] for i in range(0, len(padded), lanes)]
