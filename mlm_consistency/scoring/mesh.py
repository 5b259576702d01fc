"""Devices as a (data, model) mesh, and which logical axis lies on which of its axes.

Logical axis names are T5X's. `data` holds batches (and, when asked, a share of the weights);
`model` holds heads, the wide feed-forward layer and the vocabulary.
"""

from __future__ import annotations

import dataclasses
import logging
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from mlm_consistency.errors import ConfigError
from mlm_consistency.models.config import T5Config

log = logging.getLogger(__name__)
DATA, MODEL = "data", "model"

# Logical axis -> mesh axis. Activations use batch, length, embed, heads, kv, joined_kv, mlp;
# weights use embed, joined_kv, mlp, vocab, heads, layers, relpos_buckets.
RULES: dict[str, str | None] = {
    "batch": DATA,
    "length": None,
    "embed": None,
    "heads": MODEL,
    "kv": None,
    "joined_kv": MODEL,
    "mlp": MODEL,
    "vocab": MODEL,
    "layers": None,
    "relpos_buckets": None,
}


@dataclasses.dataclass(frozen=True)
class MeshConfig:
    """Shape of the mesh.

    Attributes:
      data: devices along which batches are split; 0 takes all devices that `model` leaves.
      model: devices along which every layer is split; it must divide the number of heads. With
        data = 0 it is the most: see `fitted`.
      shard_weights_over_data: split the embed axis of the weights over `data` too. It saves
        memory and costs an all-gather of each layer's weights in every step.
    """

    data: int = 0
    model: int = 1
    shard_weights_over_data: bool = False


def make_mesh(config: MeshConfig, devices: Sequence[Any] | None = None) -> Mesh:
    """The mesh of `config` over `devices` (all of them by default).

    Raises:
      ConfigError: if the number of devices is not data * model.
    """
    if devices is None:
        # A process's devices side by side, so that each process feeds whole data slots.
        devices = sorted(jax.devices(), key=lambda device: (device.process_index, device.id))
    devices = list(devices)
    model = config.model
    if model < 1 or config.data < 0:
        raise ConfigError(f"MESH_SHAPE must be (data >= 0, model >= 1), got {config}")
    data = config.data or max(1, len(devices) // model)
    if data * model != len(devices):
        raise ConfigError(
            f"MESH_SHAPE = ({data}, {model}) needs {data * model} devices, but there are "
            f"{len(devices)} ({devices[0].platform}). Set MESH_SHAPE so that data * model = "
            f"{len(devices)}, or data = 0 to take all that the model axis leaves."
        )
    return Mesh(np.asarray(devices).reshape(data, model), (DATA, MODEL))


def fitted(config: MeshConfig, model: Any) -> MeshConfig:
    """`config`, its model axis narrowed to what a network allows where the data axis is open.

    The file of a slice can so serve every network: (0, 16) is 1 x 16 for 16 heads on 16 devices,
    and 4 x 4 for 4 heads. A data axis that is given leaves nothing open: a model axis that does
    not fit is refused later.

    Args:
      config: as given.
      model: a T5Config, or anything with `num_heads`, `mlp_dim` and `vocab_size`.
    """
    if config.data or config.model < 1:
        return config
    axis = math.gcd(config.model, model.num_heads, model.mlp_dim, model.vocab_size)
    if axis != config.model:
        log.warning(
            "MESH_SHAPE = (0, %d): the model axis is %d, since %s has %d heads",
            config.model, axis, model.name, model.num_heads,
        )  # fmt: skip
    return dataclasses.replace(config, model=axis)


def check_model_fits_mesh(config: T5Config, mesh: Mesh) -> None:
    """Refuses a model axis that would split a head, the feed-forward layer or the vocabulary.

    Raises:
      ConfigError: with the largest model axis that this network allows.
    """
    size = mesh.shape[MODEL]
    widths = {"heads": config.num_heads, "mlp": config.mlp_dim, "vocabulary": config.vocab_size}
    bad = {name: width for name, width in widths.items() if width % size}
    if bad:
        fits = [
            n for n in range(1, config.num_heads + 1) if not any(w % n for w in widths.values())
        ]
        what = ", ".join(f"{width} {name}" for name, width in bad.items())
        raise ConfigError(
            f"model axis {size} does not divide {what} of {config.name}. A head lives on one "
            f"device, so its model axis is at most {config.num_heads}; possible: {fits}. "
            f"Put further devices on the data axis."
        )


def rules_for(config: MeshConfig) -> dict[str, str | None]:
    """The table for weights under `config`."""
    return {**RULES, "embed": DATA} if config.shard_weights_over_data else dict(RULES)


def partition_spec(axes: Sequence[str | None], rules: dict[str, str | None]) -> PartitionSpec:
    """Logical axis names -> mesh axes."""
    return PartitionSpec(*(None if axis is None else rules[axis] for axis in axes))


def weight_shardings(axes: Any, mesh: Mesh, config: MeshConfig) -> Any:
    """A `NamedSharding` for each weight from the tree of its logical axes."""
    rules = rules_for(config)

    def sharding(spec: PartitionSpec) -> NamedSharding:
        return NamedSharding(mesh, partition_spec(tuple(spec), rules))

    return jax.tree.map(sharding, axes, is_leaf=lambda x: isinstance(x, PartitionSpec))


def activation_constraint(mesh: Mesh) -> Callable[[jax.Array, tuple[str | None, ...]], jax.Array]:
    """A function that lays an activation with the given logical axes out on `mesh`."""

    def constrain(x: jax.Array, axes: tuple[str | None, ...]) -> jax.Array:
        return jax.lax.with_sharding_constraint(x, NamedSharding(mesh, partition_spec(axes, RULES)))

    return constrain


def batch_sharding(mesh: Mesh) -> NamedSharding:
    """Leading axis over `data`, everything else whole: the layout of every input array."""
    return NamedSharding(mesh, PartitionSpec(DATA))
