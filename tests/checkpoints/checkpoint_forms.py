"""One small network's weights in every form in which people publish them."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import jax
import ml_dtypes
import numpy as np
import safetensors.numpy
import tensorstore

from mlm_consistency.checkpoints.convert import from_parameters, save
from mlm_consistency.checkpoints.flax_msgpack import pack
from mlm_consistency.checkpoints.huggingface import their_name
from mlm_consistency.checkpoints.naming import nested
from mlm_consistency.models.config import T5Config
from mlm_consistency.models.huggingface import config_to_huggingface
from mlm_consistency.models.t5 import abstract_parameters

UNSYNCED = tensorstore.Context({"file_io_sync": False})
CONFIG = T5Config(
    name="tiny-for-tests",
    vocab_size=48,
    d_model=16,
    num_heads=2,
    head_dim=12,
    mlp_dim=20,
    encoder_layers=2,
    decoder_layers=1,
    mlp_activations=("silu", "linear"),
)
UNTIED = dataclasses.replace(CONFIG, mlp_activations=("gelu", "linear"), tied_embeddings=False)


def random_parameters(config: T5Config, seed: int = 0, dtype: Any = np.float32) -> Any:
    """A parameter tree of NumPy arrays, every weight random."""
    rng = np.random.default_rng(seed)
    return jax.tree.map(
        lambda leaf: rng.normal(0.3, 1.0, leaf.shape).astype(dtype), abstract_parameters(config)
    )


def leaf_arrays(params: Any, config: T5Config) -> dict[str, np.ndarray]:
    """Canonical name -> array, one a layer."""
    leaves = from_parameters(params, config).leaves
    return {name: np.asarray(leaf.read_all()) for name, leaf in leaves.items()}


def write_t5x(folder: Path, params: Any, config: T5Config) -> None:
    """T5X's legacy form by our writer."""
    save(params, config, str(folder), "t5x")


def write_t5x_inline(folder: Path, params: Any, config: T5Config) -> None:
    """T5X's legacy form as for unpartitioned parameters: every leaf in the msgpack index."""
    folder.mkdir(parents=True)
    arrays = leaf_arrays(params, config)
    target = nested({tuple(name.split(".")): array for name, array in arrays.items()})
    tree = {"version": 3, "optimizer": {"state": {"step": np.int32(5)}, "target": target}}
    (folder / "checkpoint").write_bytes(pack(tree))


def _zarr(kvstore: dict[str, Any], array: np.ndarray) -> None:
    spec = {
        "driver": "zarr",
        "dtype": array.dtype.name,
        "kvstore": kvstore,
        "metadata": {"shape": array.shape, "chunks": [max(1, n // 2) for n in array.shape]},
    }
    tensorstore.open(spec, create=True, context=UNSYNCED).result().write(array).result()


def write_orbax_loose_index(folder: Path, params: Any, config: T5Config) -> None:
    """Orbax's first form under T5X: placeholders in a msgpack index, zarr folders beside it."""
    state = folder / "state"
    state.mkdir(parents=True)
    target = {}
    for name, array in leaf_arrays(params, config).items():
        _zarr({"driver": "file", "path": f"{state}/target.{name}/"}, array)
        target[tuple(name.split("."))] = f"PLACEHOLDER://target.{name}"
    _zarr({"driver": "file", "path": f"{state}/state.step/"}, np.ones(2, np.int32))
    index = {"target": nested(target), "state": {"step": "PLACEHOLDER://state.step"}}
    (state / "checkpoint").write_bytes(pack(index))


def write_orbax_loose(folder: Path, params: Any, config: T5Config) -> None:
    """Orbax without a database: its metadata and a zarr folder a leaf, optimizer's among them."""
    folder.mkdir(parents=True)
    for name, array in leaf_arrays(params, config).items():
        _zarr({"driver": "file", "path": f"{folder}/params.{name}/"}, array)
    _zarr({"driver": "file", "path": f"{folder}/opt_state.0.mu/"}, np.ones(2, np.float32))
    (folder / "_METADATA").write_text(json.dumps({"tree_metadata": {}, "use_ocdbt": False}))


def write_orbax(folder: Path, params: Any, config: T5Config) -> None:
    """Our own Orbax form."""
    save(params, config, str(folder), "orbax")


def write_orbax_stacked(folder: Path, params: Any, config: T5Config) -> None:
    """A training state by Orbax itself, layers stacked as in memory."""
    import orbax.checkpoint

    del config
    state = {"params": jax.tree.map(jax.numpy.asarray, params), "step": np.asarray(3)}
    with orbax.checkpoint.PyTreeCheckpointer() as checkpointer:
        checkpointer.save(folder.resolve(), state)


def write_t5x_orbax(folder: Path, params: Any, config: T5Config) -> None:
    """T5X's newer form: an OCDBT database in `state/`, leaves under `target.`."""
    base = {"driver": "file", "path": f"{folder}/state/"}
    for name, array in leaf_arrays(params, config).items():
        _zarr({"driver": "ocdbt", "base": base, "path": f"target.{name}/"}, array)
    _zarr({"driver": "ocdbt", "base": base, "path": "state.step/"}, np.ones(2, np.int32))


def huggingface_tensors(params: Any, config: T5Config) -> dict[str, np.ndarray]:
    """Tensors under Hugging Face's names, transposed as there."""
    tensors = {}
    for name, array in leaf_arrays(params, config).items():
        theirs, transposed = their_name(name)
        tensors[theirs] = np.ascontiguousarray(array.T if transposed else array)
    return tensors


def write_huggingface(folder: Path, params: Any, config: T5Config) -> None:
    """A Hugging Face folder by the safetensors package."""
    folder.mkdir(parents=True)
    tensors = huggingface_tensors(params, config)
    safetensors.numpy.save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    (folder / "config.json").write_text(json.dumps(config_to_huggingface(config)))


def write_huggingface_sharded(folder: Path, params: Any, config: T5Config) -> None:
    """The same in three files with an index, by the safetensors package."""
    folder.mkdir(parents=True)
    tensors = huggingface_tensors(params, config)
    files = [f"model-{i:05d}-of-00003.safetensors" for i in (1, 2, 3)]
    weight_map = {name: files[i % 3] for i, name in enumerate(tensors)}
    for file in files:
        part = {n: t for n, t in tensors.items() if weight_map[n] == file}
        safetensors.numpy.save_file(part, folder / file, {"format": "pt"})
    index = {"metadata": {}, "weight_map": weight_map}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    (folder / "config.json").write_text(json.dumps(config_to_huggingface(config)))


# Form as recognised, and the function that writes it.
WRITTEN = {
    "t5x": ("t5x", write_t5x),
    "t5x_inline": ("t5x", write_t5x_inline),
    "t5x_orbax": ("orbax", write_t5x_orbax),
    "orbax_loose_index": ("t5x", write_orbax_loose_index),
    "orbax_loose": ("orbax-loose", write_orbax_loose),
    "orbax": ("orbax", write_orbax),
    "orbax_stacked": ("orbax", write_orbax_stacked),
    "huggingface": ("huggingface", write_huggingface),
    "huggingface_sharded": ("huggingface", write_huggingface_sharded),
}
BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
