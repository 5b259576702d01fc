"""Writing T5X's legacy form and an Orbax tree, both through TensorStore."""

from __future__ import annotations

import dataclasses
import json
import math
import os
import time
from typing import Any

import numpy as np
import tensorstore as ts

from mlm_consistency.checkpoints.addresses import kvstore_spec
from mlm_consistency.checkpoints.convert import Writer
from mlm_consistency.checkpoints.flax_msgpack import pack
from mlm_consistency.checkpoints.leaves import Leaf
from mlm_consistency.checkpoints.naming import nested
from mlm_consistency.checkpoints.orbax import DESCRIPTION
from mlm_consistency.checkpoints.t5x import INDEX
from mlm_consistency.models.config import T5Config

CHUNK_BYTES = 64 * 2**20
VERSION = 3
# `convert` synchronises the disk once a gibibyte instead of after each of thousands of files.
CONTEXT = ts.Context({"file_io_sync": False})


def chunk_shape(shape: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    """A shape of at most 64 MiB that divides `shape`: its longest axes are split first."""
    chunk = list(shape)
    while math.prod(chunk) * itemsize > CHUNK_BYTES:
        axis = chunk.index(max(chunk))
        size = chunk[axis]
        chunk[axis] = size // next(n for n in range(2, size + 1) if size % n == 0)
    return tuple(chunk)


def zarr_metadata(leaf: Leaf) -> dict[str, Any]:
    """What T5X says of an array in its index and beside its chunks."""
    return {
        "shape": list(leaf.shape),
        "chunks": list(chunk_shape(leaf.shape, leaf.dtype.itemsize)),
        "compressor": {"id": "gzip", "level": 1},
    }


def _store(kvstore: dict[str, Any], leaf: Leaf, array: np.ndarray) -> None:
    spec = {
        "driver": "zarr",
        "dtype": leaf.dtype.name,
        "kvstore": kvstore,
        "metadata": zarr_metadata(leaf),
    }
    ts.open(spec, create=True, delete_existing=True, context=CONTEXT).result().write(array).result()


@dataclasses.dataclass(frozen=True)
class T5XWriter(Writer):
    """A zarr folder a leaf, then the msgpack index without which the folder is no checkpoint."""

    folder: str
    leaves: dict[str, Leaf]
    config: T5Config

    def write(self, leaf: Leaf, array: np.ndarray) -> None:
        _store(kvstore_spec(os.path.join(self.folder, f"target.{leaf.name}")), leaf, array)

    def finish(self) -> None:
        target = {
            tuple(name.split(".")): {
                "driver": "zarr",
                "dtype": leaf.dtype.name,
                "kvstore": {"driver": "file", "path": f"target.{name}/"},
                "metadata": zarr_metadata(leaf),
            }
            for name, leaf in self.leaves.items()
        }
        optimizer = {"state": {"step": np.int32(0)}, "target": nested(target)}
        tree = {"version": VERSION, "optimizer": optimizer}
        with open(os.path.join(self.folder, INDEX), "wb") as file:
            file.write(pack(tree))


@dataclasses.dataclass(frozen=True)
class OrbaxWriter(Writer):
    """Leaves in an OCDBT database, and the descriptions from which Orbax restores a tree."""

    folder: str
    leaves: dict[str, Leaf]
    config: T5Config

    def write(self, leaf: Leaf, array: np.ndarray) -> None:
        base = kvstore_spec(self.folder)
        _store({"driver": "ocdbt", "base": base, "path": f"{leaf.name}/"}, leaf, array)

    def finish(self) -> None:
        tree = {}
        for name, leaf in self.leaves.items():
            keys = tuple(name.split("."))
            tree[str(keys)] = {
                "key_metadata": [{"key": key, "key_type": 2} for key in keys],
                "value_metadata": {
                    "value_type": "np.ndarray",
                    "skip_deserialize": False,
                    "write_shape": list(leaf.shape),
                },
            }
        description = {
            "tree_metadata": tree,
            "use_ocdbt": True,
            "use_zarr3": False,
            "store_array_data_equal_to_fill_value": True,
            "custom_metadata": None,
        }
        now = time.time_ns()
        checkpoint = {
            "item_handlers": (
                "orbax.checkpoint._src.handlers.pytree_checkpoint_handler.PyTreeCheckpointHandler"
            ),
            "metrics": {},
            "performance_metrics": {},
            "init_timestamp_nsecs": now,
            "commit_timestamp_nsecs": now,
            "custom_metadata": {},
        }
        for file, value in ((DESCRIPTION, description), ("_CHECKPOINT_METADATA", checkpoint)):
            with open(os.path.join(self.folder, file), "w", encoding="utf-8") as handle:
                json.dump(value, handle)
