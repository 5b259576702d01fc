"""Orbax checkpoints: T5X's newer ones and our own, in an OCDBT database or as loose folders.

    checkpoint_1000000/state/manifest.ocdbt   T5X: names `target.encoder...` (`state....` skipped)
    our_checkpoint/manifest.ocdbt             names `encoder...` or `params.encoder...`
    our_checkpoint/encoder.encoder_norm.scale/.zarray    loose: a folder a leaf

Layers are separate leaves (`layers_3`) or stacked on the first axis (`layers`): both are read.
"""

from __future__ import annotations

from typing import Any

import tensorstore as ts

from mlm_consistency.checkpoints.addresses import CONTEXT, Folder
from mlm_consistency.checkpoints.checkpoint import (
    Checkpoint,
    Form,
    checkpoint_of,
    read_architecture,
)
from mlm_consistency.checkpoints.naming import canonical
from mlm_consistency.checkpoints.stored_array import StoredLeaf, open_stores
from mlm_consistency.errors import CheckpointError

MANIFEST = "manifest.ocdbt"
DESCRIPTION = "_METADATA"
PLACES = ("", "state/", "default/", "params/")
METADATA = {".zarray": "zarr", "zarr.json": "zarr3"}


def _place(folder: Folder, file: str) -> Folder | None:
    """The folder, or the one of Orbax's items below it, that holds `file`."""
    for place in PLACES:
        if folder.holds(place + file):
            return folder.at(place.rstrip("/")) if place else folder
    return None


def _array_folders(names: list[str]) -> dict[str, str]:
    """Folder -> zarr driver, for each array among the files `names`."""
    found = {}
    for name in names:
        path, _, file = name.rpartition("/")
        if file in METADATA and path:
            found[path] = METADATA[file]
    return found


def _leaves(base: dict[str, Any], names: list[str]) -> list[StoredLeaf]:
    """The weights among the files `names` of the key-value store `base`."""
    prefix = base.get("path", "")
    by_driver: dict[str, dict[str, dict[str, Any]]] = {}
    for path, driver in _array_folders(names).items():
        if canonical(path) is not None:
            kvstore = {**base, "path": f"{prefix}{path}/"}
            by_driver.setdefault(driver, {})[path] = kvstore
    return [
        StoredLeaf(canonical(source) or source, source, store)
        for driver, kvstores in by_driver.items()
        for source, store in open_stores(kvstores, driver).items()
    ]


def open_database(folder: Folder) -> Checkpoint:
    """The checkpoint in a folder with an OCDBT database.

    Raises:
      CheckpointError: if the database is damaged or holds no weights.
    """
    place = _place(folder, MANIFEST) or folder
    base: dict[str, Any] = {"driver": "ocdbt", "base": place.spec}
    try:
        keys = ts.KvStore.open(base, context=CONTEXT).result().list().result()
    except (ValueError, OSError) as error:
        raise CheckpointError(
            f"{place.address}/{MANIFEST} cannot be read ({error}). Copy the checkpoint again"
        ) from error
    leaves = _leaves(base, [key.decode() for key in keys])
    return checkpoint_of(folder, "orbax", leaves, read_architecture(folder))


def open_loose(folder: Folder) -> Checkpoint:
    """The checkpoint in a folder with Orbax's metadata and a zarr folder a leaf.

    Raises:
      CheckpointError: if it holds no weights.
    """
    place = _place(folder, DESCRIPTION) or folder
    leaves = _leaves(place.spec, place.names())
    return checkpoint_of(folder, "orbax-loose", leaves, read_architecture(folder))


DATABASE = Form(lambda folder: _place(folder, MANIFEST) is not None, open_database)
LOOSE = Form(lambda folder: _place(folder, DESCRIPTION) is not None, open_loose)
