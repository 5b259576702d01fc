"""T5X's legacy checkpoints: a msgpack index beside zarr folders.

    checkpoint_1000000/
      checkpoint                                     msgpack {version, optimizer: {state, target}}
      target.encoder.layers_0.mlp.wo.kernel/.zarray
                                            0.0  1.0 ...

A leaf of the index is an array (kept inline), a TensorStore specification of a folder beside it,
or, in Orbax's first layout, the text `PLACEHOLDER://name`. The specification's bucket is a dummy
and its driver that of whoever wrote it: the folder is looked for beside the index instead.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from mlm_consistency.checkpoints.addresses import Folder
from mlm_consistency.checkpoints.checkpoint import (
    Checkpoint,
    Form,
    checkpoint_of,
    read_architecture,
)
from mlm_consistency.checkpoints.flax_msgpack import unpack
from mlm_consistency.checkpoints.leaves import ArrayLeaf, Leaf
from mlm_consistency.checkpoints.naming import canonical
from mlm_consistency.checkpoints.stored_array import StoredLeaf, open_stores
from mlm_consistency.errors import CheckpointError

INDEX = "checkpoint"
PLACES = ("", "state/")
PLACEHOLDER = "PLACEHOLDER://"


def recognises(folder: Folder) -> bool:
    """Whether the folder holds a msgpack index."""
    return any(folder.holds(place + INDEX) for place in PLACES)


def _is_spec(node: Any) -> bool:
    return isinstance(node, dict) and "driver" in node and "kvstore" in node


def _walk(tree: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    """Dotted name and value of each leaf of the index."""
    if isinstance(tree, dict) and not _is_spec(tree):
        for key, value in tree.items():
            yield from _walk(value, (*path, str(key)))
    elif tree is not None:
        yield ".".join(path), tree


def _stored_at(value: Any) -> str | None:
    """The folder beside the index that holds the leaf, None for an inline one."""
    if isinstance(value, str) and value.startswith(PLACEHOLDER):
        return value.removeprefix(PLACEHOLDER)
    if _is_spec(value):
        if value.get("dtype") == "uint16" or value.get("metadata", {}).get("dtype") == "<u2":
            raise CheckpointError(
                f"leaf {value['kvstore'].get('path')}: stored as uint16, as T5X wrote bfloat16 "
                "before June 2021 (version 2). Save the checkpoint again with a newer T5X"
            )
        path = value["kvstore"].get("path") or value.get("path", "")
        return path.strip("/")
    return None


def open_folder(folder: Folder) -> Checkpoint:
    """The checkpoint in a folder that holds a msgpack index.

    Raises:
      CheckpointError: if the index is damaged, holds no weights, or names a folder that is not
        there.
    """
    if not folder.holds(INDEX):
        folder = folder.at("state")
    place = f"{folder.address}/{INDEX}"
    tree = unpack(folder.read(INDEX), place)
    if not isinstance(tree, dict):
        raise CheckpointError(f"{place} is no T5X checkpoint: expected a tree with `target`")
    root = tree.get("optimizer") or tree.get("_optimizer") or tree
    if "target" not in root and "params" not in root:
        raise CheckpointError(
            f"{place} has neither `target` nor `params`, but {sorted(root)}: no T5X checkpoint"
        )
    leaves: list[Leaf] = []
    kvstores = {}
    spec = folder.spec
    for name, value in _walk({key: root[key] for key in ("target", "params") if key in root}):
        beside = _stored_at(value)
        if beside is not None:
            kvstores[beside] = {**spec, "path": f"{spec['path']}{beside}/"}
        elif isinstance(value, np.ndarray):
            leaves.append(ArrayLeaf(canonical(name) or name, f"{name} (inline)", value))
    for source, store in open_stores(kvstores, "zarr").items():
        leaves.append(StoredLeaf(canonical(source) or source, source, store))
    return checkpoint_of(folder, "t5x", leaves, read_architecture(folder))


FORM = Form(recognises, open_folder)
