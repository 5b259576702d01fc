"""Writing a Hugging Face folder: safetensors shards that transformers loads, and config.json."""

from __future__ import annotations

import dataclasses
import functools
import json
import os

import numpy as np

from mlm_consistency.checkpoints.convert import Writer
from mlm_consistency.checkpoints.huggingface import ABSENT, CONFIG, INDEX, SAFETENSORS, their_name
from mlm_consistency.checkpoints.leaves import ComputedLeaf, Leaf
from mlm_consistency.checkpoints.naming import OPTIONAL, expected_shapes
from mlm_consistency.checkpoints.safetensors_file import DTYPES
from mlm_consistency.models.config import T5Config
from mlm_consistency.models.huggingface import config_to_huggingface

SHARD_BYTES = 5 * 10**9
DTYPE_NAMES = {dtype: name for name, dtype in DTYPES.items()}


@dataclasses.dataclass(frozen=True)
class Place:
    """Where a leaf goes: file, their name, whether transposed, and its first byte."""

    file: str
    name: str
    transposed: bool
    start: int


@dataclasses.dataclass(frozen=True)
class HuggingFaceWriter(Writer):
    """Every leaf has its bytes in a file from the start, so that a rerun fills what is missing."""

    folder: str
    leaves: dict[str, Leaf]
    config: T5Config

    @functools.cached_property
    def absent(self) -> dict[str, Leaf]:
        """Leaves that transformers needs and this checkpoint lacks: a norm's scale of ones."""
        dtype = next(iter(self.leaves.values())).dtype
        shapes = expected_shapes(self.config)
        return {
            name: ComputedLeaf(name, name, shapes[name], dtype, np.ones)
            for name in sorted(OPTIONAL - set(self.leaves))
        }

    @functools.cached_property
    def places(self) -> dict[str, Place]:
        """Leaf -> its place; the files are made here, their headers written."""
        shards: list[list[Leaf]] = [[]]
        size = 0
        for leaf in {**self.leaves, **self.absent}.values():
            if shards[-1] and size + leaf.nbytes > SHARD_BYTES:
                shards.append([])
                size = 0
            shards[-1].append(leaf)
            size += leaf.nbytes
        found = {}
        for i, shard in enumerate(shards, 1):
            stem, extension = SAFETENSORS.rsplit(".", 1)
            many = f"{stem}-{i:05d}-of-{len(shards):05d}.{extension}"
            file = SAFETENSORS if len(shards) == 1 else many
            found.update(self._begin(file, shard))
        return found

    def _begin(self, file: str, shard: list[Leaf]) -> dict[str, Place]:
        header: dict[str, object] = {"__metadata__": {"format": "pt"}}
        offset = 0
        relative = {}
        for leaf in shard:
            name, transposed = their_name(leaf.name)
            header[name] = {
                "dtype": DTYPE_NAMES[leaf.dtype],
                "shape": list(leaf.shape[::-1] if transposed else leaf.shape),
                "data_offsets": [offset, offset + leaf.nbytes],
            }
            relative[leaf.name] = Place(file, name, transposed, offset)
            offset += leaf.nbytes
        text = json.dumps(header).encode()
        text += b" " * (-len(text) % 8)
        path = os.path.join(self.folder, file)
        with open(path, "r+b" if os.path.exists(path) else "w+b") as handle:
            handle.write(len(text).to_bytes(8, "little") + text)
            handle.truncate(8 + len(text) + offset)
        begin = 8 + len(text)
        return {
            name: dataclasses.replace(place, start=begin + place.start)
            for name, place in relative.items()
        }

    def write(self, leaf: Leaf, array: np.ndarray) -> None:
        place = self.places[leaf.name]
        stored = np.ascontiguousarray(array.T if place.transposed else array)
        with open(os.path.join(self.folder, place.file), "r+b") as handle:
            handle.seek(place.start)
            handle.write(stored.view(np.uint8).reshape(-1).data)

    def finish(self) -> None:
        for leaf in self.absent.values():
            self.write(leaf, leaf.read_all())
        config = config_to_huggingface(self.config)
        config["torch_dtype"] = next(iter(self.leaves.values())).dtype.name
        if self.absent:
            config[ABSENT] = sorted(self.absent)
        files = sorted({place.file for place in self.places.values()})
        if len(files) > 1:
            index = {
                "metadata": {"total_size": sum(leaf.nbytes for leaf in self.leaves.values())},
                "weight_map": {place.name: place.file for place in self.places.values()},
            }
            self._write_json(SAFETENSORS + INDEX, index)
        self._write_json(CONFIG, config)

    def _write_json(self, file: str, value: object) -> None:
        with open(os.path.join(self.folder, file), "w", encoding="utf-8") as handle:
            json.dump(value, handle, indent=2, sort_keys=True)
            handle.write("\n")
