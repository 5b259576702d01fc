"""From one form to another, leaf by leaf: bit-equal, resumable, with a digest.

Everything is written in `OUT.partial`. After every gibibyte the disk is synchronised and the
leaves written so far are noted with their digests in a journal there; when all are done the
folder gets its name. A second call with the same arguments goes on after the last noted leaf; one
from other weights or to another form is refused.
"""

from __future__ import annotations

import abc
import dataclasses
import json
import os
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from mlm_consistency.checkpoints.addresses import Folder
from mlm_consistency.checkpoints.bert_leaves import BERT_ARCHITECTURE, under_params
from mlm_consistency.checkpoints.checkpoint import (
    ARCHITECTURE,
    Checkpoint,
    checkpoint_of,
    open_checkpoint,
)
from mlm_consistency.checkpoints.describe import checked_network
from mlm_consistency.checkpoints.digest import combined, fingerprint, leaf_digest
from mlm_consistency.checkpoints.leaves import ArrayLeaf, Leaf
from mlm_consistency.checkpoints.naming import parameters
from mlm_consistency.errors import CheckpointError
from mlm_consistency.models.bert_config import BertConfig
from mlm_consistency.models.config import T5Config
from mlm_consistency.tables import lookup

# Adding a form to write: 1. a final subclass of `Writer`; 2. a line here.
WRITERS = {
    "t5x": "mlm_consistency.checkpoints.write_zarr:T5XWriter",
    "orbax": "mlm_consistency.checkpoints.write_zarr:OrbaxWriter",
    "huggingface": "mlm_consistency.checkpoints.write_huggingface:HuggingFaceWriter",
}
JOURNAL = "conversion.jsonl"
RECORD = "conversion.json"
SYNC_BYTES = 2**30

Progress = Callable[[int, int, str], None]


class Writer(abc.ABC):
    """Writes leaves into a folder, in any order.

    Attributes:
      folder: a local path that exists.
      leaves: all that will be written, by name.
      config: the network.
    """

    folder: str
    leaves: dict[str, Leaf]
    config: T5Config

    @abc.abstractmethod
    def write(self, leaf: Leaf, array: np.ndarray) -> None:
        """Writes one leaf, over whatever an interrupted run left of it."""

    @abc.abstractmethod
    def finish(self) -> None:
        """Writes what makes the folder a checkpoint: its index or configuration."""


@dataclasses.dataclass(frozen=True)
class Conversion:
    """What `convert` did.

    Attributes:
      address: the new checkpoint.
      form: its form.
      tensors: number of leaves.
      parameters: number of weights.
      digest: of all weights, the same for every form of them.
    """

    address: str
    form: str
    tensors: int
    parameters: int
    digest: str


def convert(
    source: str,
    out: str,
    to: str,
    config: T5Config | None = None,
    progress: Progress | None = None,
) -> Conversion:
    """Writes the checkpoint at `source` to the folder `out` in the form `to`.

    Weights keep their bits and dtypes; one leaf is in memory at a time (twice, while it is
    transposed).

    Args:
      source: an address that `open_checkpoint` takes.
      out: a local folder that does not exist yet, or the same conversion's, whole or begun.
      to: "t5x", "orbax" or "huggingface"; a checkpoint of the BERT family becomes orbax alone.
      config: what `source` is, where it does not say; see `architecture`.
      progress: called with (bytes done, bytes in all, leaf) after each leaf.

    Raises:
      CheckpointError: if `source` is not whole, or `out` holds something else.
      UnknownNameError: for an unknown form.
    """
    return write_checkpoint(open_checkpoint(source), out, to, config, progress)


def save(params: Any, config: T5Config, out: str, form: str) -> Conversion:
    """Writes a parameter tree of `models.t5`, all of it addressable, as a checkpoint.

    Raises:
      CheckpointError: if the tree is not this network's, or `out` holds something else.
    """
    return write_checkpoint(from_parameters(params, config), out, form, config)


def from_parameters(params: Any, config: T5Config) -> Checkpoint:
    """Weights in memory as a checkpoint, layers taken apart."""
    flat = {
        tuple(str(key.key) for key in keys): value
        for keys, value in jax.tree_util.tree_leaves_with_path(params)
    }
    leaves = []
    for parameter in parameters(config):
        if parameter.path not in flat:
            raise CheckpointError(f"parameter {'/'.join(parameter.path)} is not in the tree")
        array = flat.pop(parameter.path)
        for i, name in enumerate(parameter.leaves):
            leaves.append(ArrayLeaf(name, name, array[i] if parameter.stacked else array))
    if flat:
        raise CheckpointError(f"parameters of no {config.name}: {sorted(map('/'.join, flat))}")
    return checkpoint_of(Folder("memory"), "memory", leaves, config)


def write_checkpoint(
    checkpoint: Checkpoint,
    out: str,
    to: str,
    config: T5Config | None = None,
    progress: Progress | None = None,
) -> Conversion:
    """`convert` for a checkpoint that is open."""
    writer_class = lookup(WRITERS, to, "form to write")
    network = checked_network(checkpoint, config)
    bert = isinstance(network, BertConfig)
    if bert and to != "orbax":
        raise CheckpointError(
            f"{checkpoint.address} is of the BERT family, which is written as orbax alone, not "
            f"as {to}"
        )
    folder = Folder(out)
    if folder.path is None:
        raise CheckpointError(
            f"cannot write to {out}: expected a local folder. Convert on a disk, then copy the "
            "folder (`gcloud storage cp -r`)"
        )
    request = {"form": to, "fingerprint": fingerprint(checkpoint)}
    if os.path.exists(folder.path):
        return _finished(folder, request)
    partial = f"{folder.path}.partial"
    os.makedirs(partial, exist_ok=True)
    done = _journal(partial, request)
    leaves = dict(checkpoint.leaves)
    if bert:
        leaves = {f"params.{name}": leaf for name, leaf in leaves.items()}
    writer = writer_class(partial, leaves, network)
    total = sum(leaf.nbytes for leaf in checkpoint.leaves.values())
    read = 0
    unsynced: list[Leaf] = []
    for name, leaf in checkpoint.leaves.items():
        if name not in done:
            array = leaf.read_all()
            done[name] = leaf_digest(leaf, array)
            writer.write(under_params(leaf, array) if bert else leaf, array)
            del array
            unsynced.append(leaf)
            if sum(leaf.nbytes for leaf in unsynced) >= SYNC_BYTES:
                _note(partial, unsynced, done)
                unsynced = []
        read += leaf.nbytes
        if progress is not None:
            progress(read, total, name)
    writer.finish()
    conversion = Conversion(
        folder.address, to, len(checkpoint.leaves), checkpoint.parameter_count, combined(done)
    )
    record = {**request, **dataclasses.asdict(conversion)}
    del record["address"]  # the folder may move
    _write_json(os.path.join(partial, RECORD), record)
    if to != "huggingface":
        name = BERT_ARCHITECTURE if bert else ARCHITECTURE
        _write_json(os.path.join(partial, name), dataclasses.asdict(network))
    os.remove(os.path.join(partial, JOURNAL))
    os.sync()  # the name promises that everything is there
    os.replace(partial, folder.path)
    return conversion


def _note(partial: str, leaves: list[Leaf], digests: dict[str, str]) -> None:
    """Notes leaves in the journal once they are on the disk."""
    os.sync()
    with open(os.path.join(partial, JOURNAL), "a", encoding="utf-8") as journal:
        for leaf in leaves:
            entry = {"leaf": leaf.name, "sha256": digests[leaf.name]}
            journal.write(json.dumps(entry) + "\n")
        journal.flush()
        os.fsync(journal.fileno())


def _write_json(path: str, value: dict[str, Any]) -> None:
    with open(path, "w", encoding="utf-8") as file:
        json.dump(value, file, indent=2, sort_keys=True)
        file.write("\n")


def _finished(folder: Folder, request: dict[str, str]) -> Conversion:
    """The record of a conversion that was finished before, if it is this one."""
    record = folder.read_json(RECORD) if folder.holds(RECORD) else {}
    if any(record.get(key) != value for key, value in request.items()):
        raise CheckpointError(
            f"{folder.address} exists and is not this conversion's result: remove it or choose "
            "another OUT"
        )
    fields = {f.name for f in dataclasses.fields(Conversion)} - {"address"}
    return Conversion(folder.address, **{name: record[name] for name in fields})


def _journal(partial: str, request: dict[str, str]) -> dict[str, str]:
    """Leaf -> digest of what an interrupted run finished; begins the journal if there is none."""
    path = os.path.join(partial, JOURNAL)
    if not os.path.exists(path):
        with open(path, "w", encoding="utf-8") as file:
            file.write(json.dumps(request) + "\n")
        return {}
    with open(path, "rb+") as file:
        lines = file.readlines()
        whole = [line for line in lines if line.endswith(b"\n")]
        file.truncate(sum(map(len, whole)))  # a line that a crash cut short counts for nothing
    entries = [json.loads(line) for line in whole]
    if not entries or entries[0] != request:
        raise CheckpointError(
            f"{partial} was begun from other weights or for another form: remove it or choose "
            "another OUT"
        )
    return {entry["leaf"]: entry["sha256"] for entry in entries[1:]}
