"""Leaves that TensorStore reads: zarr folders, loose or inside an OCDBT database."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorstore as ts

from mlm_consistency.checkpoints.addresses import CONTEXT
from mlm_consistency.checkpoints.leaves import Index, Leaf
from mlm_consistency.errors import CheckpointError


@dataclasses.dataclass(frozen=True)
class StoredLeaf(Leaf):
    """A zarr array; a slice reads the chunks that it touches and no others."""

    name: str
    source: str
    store: ts.TensorStore

    @property
    def shape(self) -> tuple[int, ...]:  # type: ignore[override]
        return tuple(self.store.shape)

    @property
    def dtype(self) -> np.dtype:  # type: ignore[override]
        return self.store.dtype.numpy_dtype

    @property
    def grain(self) -> int:  # type: ignore[override]
        chunk = self.store.chunk_layout.read_chunk.shape
        return chunk[0] or 1 if chunk else 1

    def read(self, index: Index) -> np.ndarray:
        try:
            return self.store[index].read().result()
        except (ValueError, OSError) as error:
            raise damaged(self.source, self.shape, index, error) from error


def damaged(source: str, shape: tuple[int, ...], index: Index, error: object) -> CheckpointError:
    """The error for a leaf whose bytes are not all there."""
    part = ", ".join(f"{axis.start}:{axis.stop}" for axis in index)
    return CheckpointError(
        f"leaf {source} of shape {shape}: its part [{part}] is missing, truncated or damaged "
        f"({error}). Copy the checkpoint again"
    )


def open_stores(kvstores: Mapping[str, dict[str, Any]], driver: str) -> dict[str, ts.TensorStore]:
    """Opens the arrays at `kvstores` (source name -> key-value store), all at once.

    Raises:
      CheckpointError: if one has no metadata, or of another kind; names it.
    """
    futures = {}
    for source, kvstore in kvstores.items():
        # A chunk that is not there would be read as zeros otherwise.
        spec = {"driver": driver, "kvstore": kvstore, "fill_missing_data_reads": False}
        futures[source] = ts.open(ts.Spec(spec), open=True, read=True, context=CONTEXT)
    stores = {}
    for source, future in futures.items():
        try:
            stores[source] = future.result()
        except (ValueError, OSError, NotImplementedError) as error:
            raise CheckpointError(
                f"leaf {source}: its array cannot be opened ({error}). Copy the checkpoint again"
            ) from error
    return stores
