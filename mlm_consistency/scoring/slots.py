"""Laid-out slots through a jitted step, and every slot's numbers back on every process.

For jobs whose results are wanted whole by each process (pair tables); runs that are recorded in
shards, each by one process, go through `scoring.loop`.
"""

from __future__ import annotations

import collections
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

import jax
import numpy as np
from jax.sharding import Mesh

from mlm_consistency.scoring.mesh import DATA, batch_sharding

Arrays = dict[str, np.ndarray]
Places = TypeVar("Places")


def run_slots(
    step: Callable[[Any, dict[str, jax.Array]], Any],
    params: Any,
    mesh: Mesh,
    slots: Iterable[tuple[Arrays, Places]],
    empty: Arrays,
    ahead: int = 1,
) -> Iterator[tuple[Places, Any]]:
    """(places, numbers of that slot) of each slot, in order.

    Args:
      step: (weights, arrays [G, ...]) -> a tree of arrays [G, ...].
      params: weights on `mesh`.
      mesh: G is its data axis.
      slots: arrays of each slot, the same on every process, and whatever tells what lies where.
      empty: a slot that has nothing to do; fills up the last step.
      ahead: steps that run while the numbers of another are looked at.
    """
    waiting: collections.deque[tuple[list[Places], Any]] = collections.deque()
    for group in _groups(slots, mesh.shape[DATA]):
        arrays = [a for a, _ in group] + [empty] * (mesh.shape[DATA] - len(group))
        batch = {name: _put(np.stack([a[name] for a in arrays]), mesh) for name in empty}
        waiting.append(([places for _, places in group], step(params, batch)))
        if len(waiting) > ahead:
            yield from _slots_of(*waiting.popleft())
    while waiting:
        yield from _slots_of(*waiting.popleft())


def _groups(
    slots: Iterable[tuple[Arrays, Places]], size: int
) -> Iterator[list[tuple[Arrays, Places]]]:
    group: list[tuple[Arrays, Places]] = []
    for slot in slots:
        group.append(slot)
        if len(group) == size:
            yield group
            group = []
    if group:
        yield group


def _put(array: np.ndarray, mesh: Mesh) -> jax.Array:
    """Every process has laid out the same batch; each device takes its slot."""
    return jax.make_array_from_callback(
        array.shape, batch_sharding(mesh), lambda index: array if index is None else array[index]
    )


def _slots_of(places: list[Places], result: Any) -> Iterator[tuple[Places, Any]]:
    if jax.process_count() > 1:
        from jax.experimental import multihost_utils

        result = multihost_utils.process_allgather(result, tiled=True)
    values = jax.tree.map(np.asarray, result)
    for slot, place in enumerate(places):
        yield place, jax.tree.map(lambda array, slot=slot: array[slot], values)
