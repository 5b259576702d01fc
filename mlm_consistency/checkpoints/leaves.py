"""One array of a checkpoint, described before it is read and read by slices.

Every form of checkpoint gives its arrays as leaves with our names and in our orientation, so that
nothing after this module knows how a file transposes, splits or compresses.
"""

from __future__ import annotations

import abc
import dataclasses
import math
from collections.abc import Callable
from typing import Any

import numpy as np

Index = tuple[slice, ...]


class Leaf(abc.ABC):
    """An array of a checkpoint.

    Attributes:
      name: our name, as T5X has it: `encoder.layers_3.attention.query.kernel`.
      source: the name in the file, for messages.
      shape: in our orientation.
      dtype: as stored.
      major_axis: the axis along which reading in blocks is cheapest.
      grain: rows of that axis that are stored (and decompressed) together.
    """

    name: str
    source: str
    shape: tuple[int, ...]
    dtype: np.dtype
    major_axis: int = 0
    grain: int = 1

    @abc.abstractmethod
    def read(self, index: Index) -> np.ndarray:
        """The slice `index` (one bounded slice an axis, step 1), of the stored dtype.

        Raises:
          CheckpointError: if the bytes are missing or damaged; names the leaf.
        """

    @property
    def size(self) -> int:
        """Number of weights."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes as stored, uncompressed."""
        return self.size * self.dtype.itemsize

    def read_all(self) -> np.ndarray:
        """The whole array."""
        return self.read(tuple(slice(0, size) for size in self.shape))

    def block(self, limit: int) -> int:
        """Rows of the major axis that fill at most `limit` bytes, in whole grains, at least one."""
        row = self.nbytes // max(1, self.shape[self.major_axis]) if self.shape else self.nbytes
        return max(1, limit // max(1, row * self.grain)) * self.grain


@dataclasses.dataclass(frozen=True)
class ArrayLeaf(Leaf):
    """An array in memory: an inline leaf, or a parameter about to be written."""

    name: str
    source: str
    array: Any

    @property
    def shape(self) -> tuple[int, ...]:  # type: ignore[override]
        return tuple(self.array.shape)

    @property
    def dtype(self) -> np.dtype:  # type: ignore[override]
        return np.dtype(self.array.dtype)

    def read(self, index: Index) -> np.ndarray:
        return np.asarray(self.array[index])


@dataclasses.dataclass(frozen=True)
class LayerLeaf(Leaf):
    """One layer of an array that is stored with its layers stacked on the first axis."""

    name: str
    stack: Leaf
    layer: int

    @property
    def source(self) -> str:  # type: ignore[override]
        return f"{self.stack.source}[{self.layer}]"

    @property
    def shape(self) -> tuple[int, ...]:  # type: ignore[override]
        return self.stack.shape[1:]

    @property
    def dtype(self) -> np.dtype:  # type: ignore[override]
        return self.stack.dtype

    def read(self, index: Index) -> np.ndarray:
        return self.stack.read((slice(self.layer, self.layer + 1), *index))[0]


@dataclasses.dataclass(frozen=True)
class ComputedLeaf(Leaf):
    """A leaf that no file holds: `make(shape)` gives each slice of it."""

    name: str
    source: str
    shape: tuple[int, ...]
    dtype: np.dtype
    make: Callable[[tuple[int, ...]], np.ndarray]

    def read(self, index: Index) -> np.ndarray:
        return self.make(tuple(part.stop - part.start for part in index)).astype(self.dtype)
