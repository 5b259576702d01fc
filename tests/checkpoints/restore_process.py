"""Run by the tests in processes of its own: restores a checkpoint and prints what it cost.

    python restore_process.py peak FOLDER ...
    python restore_process.py half PORT PROCESS FOLDER ...

One line of JSON a folder.
"""

from __future__ import annotations

import dataclasses
import json
import sys
from pathlib import Path

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from mlm_consistency.checkpoints.architecture import architecture
from mlm_consistency.checkpoints.checkpoint import open_checkpoint
from mlm_consistency.checkpoints.leaves import Index, Leaf
from mlm_consistency.checkpoints.restore import stream
from mlm_consistency.models.t5 import logical_axes

MODEL_AXES = ("joined_kv", "mlp", "vocab", "heads")
BYTES_READ = {"all": 0}


@dataclasses.dataclass(frozen=True)
class CountedLeaf(Leaf):
    """A leaf that counts the bytes it gives."""

    leaf: Leaf

    def __getattribute__(self, name):
        own = ("leaf", "read", "__class__", "__dict__")
        return object.__getattribute__(self if name in own else self.leaf, name)

    def read(self, index: Index) -> np.ndarray:
        array = self.leaf.read(index)
        BYTES_READ["all"] += array.nbytes
        return array


def memory(field: str) -> int:
    """Bytes of this process: VmRSS now, or VmHWM at most."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) * 1024
    raise LookupError(field)


def peak(folder: str) -> dict[str, int]:
    """Restores one parameter after another, as to a device with memory of its own."""
    jax.device_put(np.zeros(4)).block_until_ready()
    checkpoint = open_checkpoint(folder)
    config = architecture(checkpoint)
    logical_axes(config)
    Path("/proc/self/clear_refs").write_text("5")  # the peak counts from here
    before = memory("VmRSS")
    largest = 0
    for _, array in stream(checkpoint, config, dtype="bfloat16"):
        largest = max(largest, array.nbytes)
        array.delete()
    return {
        "peak": memory("VmHWM") - before,
        "largest": largest,
        "checkpoint": sum(leaf.nbytes for leaf in checkpoint.leaves.values()),
    }


def connect(port: str, process: str) -> None:
    """Makes this process one of two."""
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.distributed.initialize(f"127.0.0.1:{port}", 2, int(process))


def half(folder: str) -> dict[str, int]:
    """Restores this process's half of the model axis; compares it with the whole."""
    BYTES_READ["all"] = 0
    mesh = Mesh(np.asarray(jax.devices()).reshape(1, 2), ("data", "model"))
    checkpoint = open_checkpoint(folder)
    config = architecture(checkpoint)
    counted = {name: CountedLeaf(leaf) for name, leaf in checkpoint.leaves.items()}

    def sharding(axes: PartitionSpec) -> NamedSharding:
        parts = ("model" if axis in MODEL_AXES else None for axis in axes)
        return NamedSharding(mesh, PartitionSpec(*parts))

    shardings = jax.tree.map(
        sharding, logical_axes(config), is_leaf=lambda x: isinstance(x, PartitionSpec)
    )
    arrays = dict(stream(dataclasses.replace(checkpoint, leaves=counted), config, shardings))
    held = sum(shard.data.nbytes for array in arrays.values() for shard in array.addressable_shards)
    read = BYTES_READ["all"]
    whole = dict(stream(checkpoint, config))
    for path, array in arrays.items():
        for shard in array.addressable_shards:
            np.testing.assert_array_equal(shard.data, np.asarray(whole[path])[shard.index])
    return {"read": read, "held": held, "whole": sum(a.nbytes for a in whole.values())}


if __name__ == "__main__":
    command, arguments = sys.argv[1], sys.argv[2:]
    if command == "half":
        connect(arguments.pop(0), arguments.pop(0))
    for folder in arguments:
        print(json.dumps({"peak": peak, "half": half}[command](folder)))
