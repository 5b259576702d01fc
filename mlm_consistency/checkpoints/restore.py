"""Weights from a checkpoint to sharded arrays, in bounded host memory.

Each process reads the slices that its own devices hold and no others. A shard is put together on
the host from pieces of about 32 MiB that a few threads read, check and cast, goes to its
device, and is forgotten: at most one shard and the pieces in flight are on the host at a time.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jax
import numpy as np

from mlm_consistency.checkpoints.architecture import check_leaves
from mlm_consistency.checkpoints.checkpoint import Checkpoint
from mlm_consistency.checkpoints.leaves import ComputedLeaf, Index, LayerLeaf, Leaf
from mlm_consistency.checkpoints.naming import Parameter, nested, parameters
from mlm_consistency.errors import CheckpointError
from mlm_consistency.models.config import T5Config
from mlm_consistency.models.t5 import abstract_parameters

PIECE_BYTES = 32 * 2**20
IN_FLIGHT_BYTES = 128 * 2**20
THREADS = 4
ALIGNMENT = 64

Progress = Callable[[int, int, str], None]


def restore(
    checkpoint: Checkpoint,
    config: T5Config,
    shardings: Any = None,
    dtype: Any = None,
    progress: Progress | None = None,
) -> Any:
    """The parameter tree of `models.t5` with the checkpoint's weights.

    Args:
      checkpoint: from `open_checkpoint`.
      config: the network, as `architecture(checkpoint)` gives it.
      shardings: a tree of `jax.sharding.Sharding`, one a parameter, as
        `scoring.mesh.weight_shardings` makes; one sharding for all; or None for the first device.
      dtype: of the arrays in memory, `config.param_dtype` by default.
      progress: called with (bytes done, bytes in all, name) after each parameter; bytes as in
        memory, of this process.

    Raises:
      CheckpointError: for missing, extra, misshapen, damaged or non-finite leaves; names them.
    """
    return nested(dict(stream(checkpoint, config, shardings, dtype, progress)))


def stream(
    checkpoint: Checkpoint,
    config: T5Config,
    shardings: Any = None,
    dtype: Any = None,
    progress: Progress | None = None,
) -> Iterator[tuple[tuple[str, ...], jax.Array]]:
    """Path and array of each parameter of `restore`, one after another."""
    check_leaves(checkpoint, config)
    dtype = np.dtype(dtype or config.param_dtype)
    wanted = parameters(config)
    placed = _shardings(shardings, config, len(wanted))
    sizes = [_held_bytes(p, s, dtype) for p, s in zip(wanted, placed, strict=True)]
    done, total = 0, sum(sizes)
    with ThreadPoolExecutor(THREADS) as pool:
        for parameter, sharding, size in zip(wanted, placed, sizes, strict=True):
            sources = [_leaf(checkpoint, name, parameter, dtype) for name in parameter.leaves]
            yield parameter.path, _array(parameter, sources, sharding, dtype, pool)
            done += size
            if progress is not None:
                progress(done, total, ".".join(parameter.path))


def _shardings(shardings: Any, config: T5Config, count: int) -> Sequence[jax.sharding.Sharding]:
    if shardings is None:
        shardings = jax.sharding.SingleDeviceSharding(jax.local_devices()[0])
    if isinstance(shardings, jax.sharding.Sharding):
        return [shardings] * count
    tree = jax.tree.map(lambda _, sharding: sharding, abstract_parameters(config), shardings)
    return jax.tree.leaves(tree)


def _leaf(checkpoint: Checkpoint, name: str, parameter: Parameter, dtype: np.dtype) -> Leaf:
    if name in checkpoint.leaves:
        return checkpoint.leaves[name]
    # Only an optional leaf gets past `check_leaves`: the scale of a norm.
    return ComputedLeaf(name, f"{name} (absent, ones)", parameter.leaf_shape, dtype, np.ones)


def _distinct(
    shape: tuple[int, ...], sharding: jax.sharding.Sharding
) -> list[tuple[Index, list[jax.Device]]]:
    """The distinct slices that this process's devices hold, and the devices that hold each."""
    found: dict[tuple[tuple[int, int], ...], list[jax.Device]] = {}
    for device, index in sharding.addressable_devices_indices_map(shape).items():
        bounds = tuple(s.indices(n)[:2] for s, n in zip(index or (), shape, strict=True))
        found.setdefault(bounds, []).append(device)
    return [(tuple(slice(*b) for b in bounds), devices) for bounds, devices in found.items()]


def _held_bytes(parameter: Parameter, sharding: jax.sharding.Sharding, dtype: np.dtype) -> int:
    parts = _distinct(parameter.shape, sharding)
    return sum(math.prod(s.stop - s.start for s in index) * dtype.itemsize for index, _ in parts)


def _array(
    parameter: Parameter,
    sources: list[Leaf],
    sharding: jax.sharding.Sharding,
    dtype: np.dtype,
    pool: ThreadPoolExecutor,
) -> jax.Array:
    shards = []
    for index, devices in _distinct(parameter.shape, sharding):
        shard = read_shard(sources, parameter.stacked, index, dtype, pool)
        shards += [jax.device_put(shard, device) for device in devices]
        del shard
        # Wait, so that the next shard is not read while this one is still on the host.
        shards[-1].block_until_ready()
    return jax.make_array_from_single_device_arrays(parameter.shape, sharding, shards)


@dataclasses.dataclass(frozen=True)
class Piece:
    """A part of a leaf and where it goes: `out` is a view of the shard."""

    leaf: Leaf
    index: Index
    out: np.ndarray

    def read(self) -> None:
        """Reads, checks and casts into `out`.

        Raises:
          CheckpointError: if a value is NaN or infinite; names the leaf and the place.
        """
        block = self.leaf.read(self.index)
        finite = np.isfinite(block)
        if not finite.all():
            first = np.argwhere(~finite)[0]
            place = [int(part.start + i) for part, i in zip(self.index, first, strict=True)]
            raise CheckpointError(
                f"leaf {self.leaf.source} of shape {self.leaf.shape} holds "
                f"{float(block[tuple(first)])} at {place}: the checkpoint is damaged, or its "
                "training diverged. Use another step"
            )
        self.out[...] = block


def read_shard(
    sources: list[Leaf], stacked: bool, index: Index, dtype: np.dtype, pool: ThreadPoolExecutor
) -> np.ndarray:
    """The slice `index` of a parameter: of its only leaf, or of its layers stacked."""
    shard = _aligned(tuple(part.stop - part.start for part in index), dtype)
    if not stacked:
        pieces = list(_pieces(sources[0], index, shard))
    elif (whole := _whole_stack(sources)) is not None:
        pieces = list(_pieces(whole, index, shard))
    else:
        layers = range(index[0].start, index[0].stop)
        pieces = [
            piece
            for row, layer in enumerate(layers)
            for piece in _pieces(sources[layer], index[1:], shard[row])
        ]
    largest = max(piece.out.size * piece.leaf.dtype.itemsize for piece in pieces)
    together = max(1, min(THREADS, IN_FLIGHT_BYTES // max(1, largest)))
    for start in range(0, len(pieces), together):
        # Waits for a handful at a time: the bound on memory, and the first error comes at once.
        list(pool.map(Piece.read, pieces[start : start + together]))
    return shard


def _whole_stack(sources: list[Leaf]) -> Leaf | None:
    """The stacked leaf whose layers `sources` are, in order; None if they are not."""
    first = sources[0]
    if not isinstance(first, LayerLeaf) or len(sources) != first.stack.shape[0]:
        return None
    same = all(
        isinstance(leaf, LayerLeaf) and leaf.stack is first.stack and leaf.layer == i
        for i, leaf in enumerate(sources)
    )
    return first.stack if same else None


def _pieces(leaf: Leaf, index: Index, out: np.ndarray) -> Iterator[Piece]:
    """Cuts `index` along the leaf's major axis into pieces that begin at its grain."""
    axis = leaf.major_axis
    part = index[axis]
    others = math.prod(s.stop - s.start for i, s in enumerate(index) if i != axis)
    row = max(1, others * leaf.dtype.itemsize)
    step = max(1, PIECE_BYTES // (row * leaf.grain)) * leaf.grain
    start = part.start
    while start < part.stop:
        stop = min(part.stop, (start // step + 1) * step)
        here = (*index[:axis], slice(start, stop), *index[axis + 1 :])
        into = [slice(None)] * out.ndim
        into[axis] = slice(start - part.start, stop - part.start)
        yield Piece(leaf, here, out[tuple(into)])
        start = stop


def _aligned(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """An uninitialised array at an address from which the CPU backend takes it without a copy."""
    count = math.prod(shape) * dtype.itemsize
    raw = np.empty(count + ALIGNMENT, np.uint8)
    offset = -raw.ctypes.data % ALIGNMENT
    return raw[offset : offset + count].view(dtype).reshape(shape)
