"""safetensors files by slices: a length, a JSON header, then the tensors' bytes.

Read and written without mapping the file into memory, so that the memory used is the slice's own,
and from a bucket by ranges of bytes.
"""

from __future__ import annotations

import dataclasses
import json
import math
import os

import ml_dtypes
import numpy as np

from mlm_consistency.checkpoints.addresses import Folder
from mlm_consistency.checkpoints.leaves import Index, Leaf
from mlm_consistency.checkpoints.stored_array import damaged
from mlm_consistency.errors import CheckpointError

DTYPES = {
    "F64": np.dtype("<f8"),
    "F32": np.dtype("<f4"),
    "F16": np.dtype("<f2"),
    "BF16": np.dtype(ml_dtypes.bfloat16),
    "I64": np.dtype("<i8"),
    "I32": np.dtype("<i4"),
    "I8": np.dtype("i1"),
    "U8": np.dtype("u1"),
    "BOOL": np.dtype("?"),
}
MAXIMAL_HEADER = 100_000_000


@dataclasses.dataclass(frozen=True)
class Tensor:
    """An entry of a header.

    Attributes:
      name: the tensor's name.
      dtype: of its elements.
      shape: as stored.
      start: offset of its first byte in the file.
    """

    name: str
    dtype: np.dtype
    shape: tuple[int, ...]
    start: int

    @property
    def stop(self) -> int:
        """Offset after its last byte."""
        return self.start + math.prod(self.shape) * self.dtype.itemsize


def read_header(folder: Folder, file: str) -> list[Tensor]:
    """The tensors of a file.

    Raises:
      CheckpointError: if the header is damaged, a dtype unknown, or the file ends before a
        tensor does; names the tensor.
    """
    place = f"{folder.address}/{file}"
    length = int.from_bytes(folder.read(file, 0, 8), "little")
    if not 2 <= length <= MAXIMAL_HEADER:
        raise CheckpointError(f"{place} is no safetensors file: header of {length} bytes")
    try:
        header = json.loads(folder.read(file, 8, 8 + length))
        header.pop("__metadata__", None)
        entries = {name: (e["dtype"], e["shape"], e["data_offsets"]) for name, e in header.items()}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CheckpointError(f"{place}: its header is damaged ({error})") from error
    size = folder.size(file)
    tensors = []
    for name, (dtype, shape, (start, stop)) in entries.items():
        if dtype not in DTYPES:
            raise CheckpointError(
                f"leaf {name} in {place}: dtype {dtype}; expected F32 or BF16 (quantized weights "
                "must be expanded first)"
            )
        tensor = Tensor(name, DTYPES[dtype], tuple(shape), 8 + length + start)
        if tensor.stop != 8 + length + stop:
            raise CheckpointError(f"leaf {name} in {place}: {stop - start} bytes for {shape}")
        if size is not None and tensor.stop > size:
            raise CheckpointError(
                f"leaf {name} of shape {tensor.shape} in {place}: the file ends at byte {size}, "
                f"the leaf at {tensor.stop}. Download the file again"
            )
        tensors.append(tensor)
    return tensors


@dataclasses.dataclass(frozen=True)
class TensorLeaf(Leaf):
    """A tensor of a safetensors file; `transposed` gives its transpose."""

    name: str
    source: str
    folder: Folder
    file: str
    tensor: Tensor
    transposed: bool

    @property
    def shape(self) -> tuple[int, ...]:  # type: ignore[override]
        return self.tensor.shape[::-1] if self.transposed else self.tensor.shape

    @property
    def dtype(self) -> np.dtype:  # type: ignore[override]
        return self.tensor.dtype

    @property
    def major_axis(self) -> int:  # type: ignore[override]
        return len(self.shape) - 1 if self.transposed else 0

    def read(self, index: Index) -> np.ndarray:
        stored = index[::-1] if self.transposed else index
        try:
            array = self._read_stored(stored)
        except (OSError, CheckpointError) as error:
            raise damaged(self.source, self.shape, index, error) from error
        return array.T if self.transposed else array

    def _read_stored(self, index: Index) -> np.ndarray:
        tensor = self.tensor
        shape = tuple(part.stop - part.start for part in index)
        if not shape or shape[1:] == tensor.shape[1:]:
            row = math.prod(tensor.shape[1:]) * tensor.dtype.itemsize
            first, rows = (index[0].start, shape[0]) if shape else (0, 1)
            start = tensor.start + first * row
            return self._bytes(start, rows * row).view(tensor.dtype).reshape(shape)
        if len(shape) != 2:
            raise CheckpointError(f"{self.source}: no part of a tensor of {len(shape)} axes")
        if self.folder.path is None:
            # One request for whole rows costs less in a bucket than one for each part of a row.
            whole = self._read_stored((index[0], slice(0, tensor.shape[1])))
            return whole[:, index[1]]
        return self._columns(index, shape)

    def _columns(self, index: Index, shape: tuple[int, ...]) -> np.ndarray:
        """Part of each row, one read a row, so that nothing else is read."""
        tensor = self.tensor
        item = tensor.dtype.itemsize
        out = np.empty((shape[0], shape[1] * item), np.uint8)
        path = os.path.join(self.folder.path or "", self.file)
        handle = os.open(path, os.O_RDONLY)
        try:
            for i in range(shape[0]):
                row = tensor.start + (index[0].start + i) * tensor.shape[1] * item
                got = os.preadv(handle, [out[i]], row + index[1].start * item)
                if got != out.shape[1]:
                    raise CheckpointError(f"{path} ends within row {index[0].start + i}")
        finally:
            os.close(handle)
        return out.view(tensor.dtype)

    def _bytes(self, start: int, count: int) -> np.ndarray:
        if self.folder.path is None:
            return np.frombuffer(self.folder.read(self.file, start, start + count), np.uint8)
        path = os.path.join(self.folder.path, self.file)
        data = np.fromfile(path, np.uint8, count=count, offset=start)
        if data.size != count:
            raise CheckpointError(f"{path} ends {count - data.size} bytes early")
        return data


def tensor_leaf(
    folder: Folder, file: str, tensor: Tensor, name: str, transposed: bool
) -> TensorLeaf:
    """The leaf `name` that `tensor` of `file` holds."""
    return TensorLeaf(name, tensor.name, folder, file, tensor, transposed)
