"""Flax's msgpack encoding of a tree of arrays, which T5X and old Orbax keep their index in.

Arrays travel as extension type 1 (shape, dtype name, bytes), scalars as type 3; arrays over a
gigabyte are cut into chunks under a marked dictionary.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import msgpack
import numpy as np

from mlm_consistency.errors import CheckpointError

ARRAY, COMPLEX, SCALAR = 1, 2, 3
CHUNKED = "__msgpack_chunked_array__"


def numpy_dtype(name: str) -> np.dtype:
    """The dtype of that name, bfloat16 among them."""
    return np.dtype(ml_dtypes.bfloat16) if name == "bfloat16" else np.dtype(name)


def _decode(code: int, data: bytes) -> Any:
    if code in (ARRAY, SCALAR):
        shape, dtype, raw = msgpack.unpackb(data, raw=False)
        array = np.frombuffer(raw, numpy_dtype(dtype)).reshape(shape)
        return array if code == ARRAY else array[()]
    if code == COMPLEX:
        return complex(*msgpack.unpackb(data))
    return msgpack.ExtType(code, data)


def _encode(value: Any) -> msgpack.ExtType:
    array = np.asarray(value)
    packed = msgpack.packb((array.shape, array.dtype.name, array.tobytes()), use_bin_type=True)
    return msgpack.ExtType(SCALAR if isinstance(value, np.generic) else ARRAY, packed)


def _joined(tree: Any) -> Any:
    """`tree` with its chunked arrays put together and lists kept as dictionaries."""
    if not isinstance(tree, dict):
        return tree
    if tree.get(CHUNKED):
        shape = [tree["shape"][str(i)] for i in range(len(tree["shape"]))]
        chunks = [tree["chunks"][str(i)] for i in range(len(tree["chunks"]))]
        return np.concatenate([np.ravel(chunk) for chunk in chunks]).reshape(shape)
    return {key: _joined(value) for key, value in tree.items()}


def unpack(data: bytes, place: str) -> Any:
    """The tree in `data`.

    Raises:
      CheckpointError: if it is no msgpack, or cut short; names `place`.
    """
    try:
        tree = msgpack.unpackb(data, ext_hook=_decode, raw=False, strict_map_key=False)
        return _joined(tree)
    except (ValueError, TypeError, KeyError, msgpack.UnpackException) as error:
        raise CheckpointError(
            f"{place} is not a whole Flax msgpack file ({error}). Copy the checkpoint again"
        ) from error


def pack(tree: Any) -> bytes:
    """The bytes of a tree of dictionaries, strings, numbers and small NumPy arrays."""
    return msgpack.packb(tree, default=_encode, strict_types=True)
