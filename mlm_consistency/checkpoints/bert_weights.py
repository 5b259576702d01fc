"""Weights of the BERT family: from a folder to sharded arrays, and to Orbax and back.

open_bert(address)                Hugging Face folder, or an Orbax one that `save_bert` wrote
restore_bert(checkpoint, ...)     its weights as (sharded) `jax.Array`s
save_bert(params, config, out)    an Orbax folder with `bert_architecture.json`
"""

from __future__ import annotations

import dataclasses
import json
import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jax
import numpy as np

from mlm_consistency.checkpoints.addresses import Folder
from mlm_consistency.checkpoints.bert_leaves import (
    BERT_ARCHITECTURE,
    bert_parameters,
    check_bert_leaves,
    under_params,
)
from mlm_consistency.checkpoints.checkpoint import Checkpoint, Form, open_checkpoint
from mlm_consistency.checkpoints.huggingface_bert import bert_config
from mlm_consistency.checkpoints.leaves import ArrayLeaf, Leaf
from mlm_consistency.checkpoints.naming import Parameter, nested
from mlm_consistency.checkpoints.orbax import DATABASE
from mlm_consistency.checkpoints.restore import THREADS, read_shard
from mlm_consistency.checkpoints.write_zarr import OrbaxWriter
from mlm_consistency.errors import CheckpointError, ConfigError
from mlm_consistency.models.bert import abstract_parameters
from mlm_consistency.models.bert_config import BertConfig


def open_bert(address: str) -> Checkpoint:
    """Opens a checkpoint of the BERT family; its `config` is a `BertConfig`. Reads no weights.

    Raises:
      CheckpointError: if nothing is there, files are damaged, or it is of another family.
      ConfigError: for a variant of the family that is not built here.
    """
    checkpoint = open_checkpoint(address)
    bert_config(checkpoint)
    return checkpoint


def _open_orbax(folder: Folder) -> Checkpoint:
    try:
        config = BertConfig(**folder.read_json(BERT_ARCHITECTURE))
    except (TypeError, ConfigError) as error:
        raise CheckpointError(f"{folder.address}/{BERT_ARCHITECTURE}: {error}") from error
    opened = DATABASE.open_folder(folder)
    return dataclasses.replace(opened, form="orbax-bert", config=config)


ORBAX = Form(lambda folder: folder.holds(BERT_ARCHITECTURE), _open_orbax)


def restore_bert(
    checkpoint: Checkpoint, config: BertConfig | None = None, shardings: Any = None
) -> Any:
    """The parameter tree of `models.bert` with the checkpoint's weights.

    Args:
      checkpoint: from `open_bert`.
      config: the network; the checkpoint's own by default (another dtype of the weights, say).
      shardings: a tree of `jax.sharding.Sharding` as `scoring.mesh.weight_shardings` makes from
        `models.bert.logical_axes`; one for all; or None for the first device.

    Raises:
      CheckpointError: for missing, extra, misshapen, damaged or non-finite leaves; names them.
    """
    config = config or bert_config(checkpoint)
    check_bert_leaves(checkpoint, config)
    dtype = np.dtype(config.param_dtype)
    wanted = bert_parameters(config)
    if shardings is None:
        shardings = jax.sharding.SingleDeviceSharding(jax.local_devices()[0])
    if isinstance(shardings, jax.sharding.Sharding):
        placed = [shardings] * len(wanted)
    else:
        tree = jax.tree.map(lambda _, sharding: sharding, abstract_parameters(config), shardings)
        placed = jax.tree.leaves(tree)
    found = {}
    with ThreadPoolExecutor(THREADS) as pool:
        for parameter, sharding in zip(wanted, placed, strict=True):
            sources = [checkpoint.leaves[name] for name in parameter.leaves]
            found[parameter.path] = _array(parameter, sources, sharding, dtype, pool)
    return nested(found)


def _array(
    parameter: Parameter,
    sources: list[Leaf],
    sharding: jax.sharding.Sharding,
    dtype: np.dtype,
    pool: ThreadPoolExecutor,
) -> jax.Array:
    """Each process reads the slices that its own devices hold."""

    def shard(index: tuple[slice, ...] | None) -> np.ndarray:
        parts = index or (slice(None),) * len(parameter.shape)
        bounds = [part.indices(size)[:2] for part, size in zip(parts, parameter.shape, strict=True)]
        whole = tuple(slice(*bound) for bound in bounds)
        return read_shard(sources, parameter.stacked, whole, dtype, pool)

    return jax.make_array_from_callback(parameter.shape, sharding, shard)


def save_bert(params: Any, config: BertConfig, out: str) -> None:
    """Writes a parameter tree of `models.bert`, all of it addressable, as an Orbax folder.

    Raises:
      CheckpointError: if the tree is not this network's, or `out` exists.
    """
    if os.path.exists(out):
        raise CheckpointError(f"{out} exists: remove it or choose another folder")
    flat = {
        tuple(str(key.key) for key in keys): value
        for keys, value in jax.tree_util.tree_leaves_with_path(params)
    }
    wanted = bert_parameters(config)
    if {p.path for p in wanted} != set(flat):
        differ = {p.path for p in wanted} ^ set(flat)
        raise CheckpointError(f"parameters of no {config.name}: {sorted(map('/'.join, differ))}")
    leaves: dict[str, Leaf] = {}
    for parameter in wanted:
        array = np.asarray(flat[parameter.path])
        for i, name in enumerate(parameter.leaves):
            single = ArrayLeaf(name, name, array[i] if parameter.stacked else array)
            renamed = under_params(single, single.array)
            leaves[renamed.name] = renamed
    partial = f"{out}.partial"
    os.makedirs(partial, exist_ok=True)
    writer = OrbaxWriter(partial, leaves, config)  # type: ignore[arg-type]
    for leaf in leaves.values():
        writer.write(leaf, leaf.read_all())
    writer.finish()
    with open(os.path.join(partial, BERT_ARCHITECTURE), "w", encoding="utf-8") as file:
        json.dump(dataclasses.asdict(config), file, indent=2, sort_keys=True)
        file.write("\n")
    os.replace(partial, out)
