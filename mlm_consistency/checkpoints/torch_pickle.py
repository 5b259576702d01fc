"""Hugging Face's older pickles, read by torch without running what they hold."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Container
from typing import Any

import ml_dtypes
import numpy as np

from mlm_consistency.checkpoints.addresses import Folder
from mlm_consistency.checkpoints.leaves import Index, Leaf
from mlm_consistency.errors import CheckpointError


@dataclasses.dataclass(frozen=True)
class TorchLeaf(Leaf):
    """A torch tensor mapped from its file; `transposed` gives its transpose."""

    name: str
    source: str
    tensor: Any
    transposed: bool

    @property
    def shape(self) -> tuple[int, ...]:  # type: ignore[override]
        shape = tuple(self.tensor.shape)
        return shape[::-1] if self.transposed else shape

    @property
    def dtype(self) -> np.dtype:  # type: ignore[override]
        name = str(self.tensor.dtype).removeprefix("torch.")
        return np.dtype(ml_dtypes.bfloat16) if name == "bfloat16" else np.dtype(name)

    @property
    def major_axis(self) -> int:  # type: ignore[override]
        return len(self.shape) - 1 if self.transposed else 0

    def read(self, index: Index) -> np.ndarray:
        import torch

        part = self.tensor[index[::-1] if self.transposed else index]
        if part.dtype == torch.bfloat16:
            array = part.contiguous().view(torch.int16).numpy().view(ml_dtypes.bfloat16)
        else:
            array = part.numpy()
        return array.T if self.transposed else array


def pickle_leaves(
    folder: Folder,
    file: str,
    our_name: Callable[[str], tuple[str, bool]],
    redundant: Container[str],
) -> list[Leaf]:
    """The leaves of a `pytorch_model*.bin`, loaded with `weights_only=True`.

    Raises:
      CheckpointError: if torch is not installed, the folder is not local, or the file damaged.
    """
    place = f"{folder.address}/{file}"
    way_out = (
        "Either install torch (`pip install -e '.[parity]'`), or take a revision of the "
        "model with model.safetensors, or convert once where torch is: "
        "`T5ForConditionalGeneration.from_pretrained(IN).save_pretrained(OUT)`"
    )
    try:
        import torch
    except ImportError as error:
        raise CheckpointError(f"{place} is a pickle, which torch must read. {way_out}") from error
    if folder.path is None:
        raise CheckpointError(f"{place} is a pickle, which is read from a disk only. Copy it there")
    path = os.path.join(folder.path, file)
    try:
        try:
            tensors = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
        except RuntimeError:  # files of torch before 1.6 cannot be mapped
            tensors = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:
        raise CheckpointError(
            f"{place} cannot be read with weights_only=True ({error}). {way_out}"
        ) from error
    leaves: list[Leaf] = []
    for name, tensor in tensors.items():
        if name not in redundant:
            ours, transposed = our_name(name)
            leaves.append(TorchLeaf(ours, name, tensor, transposed))
    return leaves
