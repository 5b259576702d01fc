"""Which weights a checkpoint holds, in a number that its form does not change."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import numpy as np

from mlm_consistency.checkpoints.checkpoint import Checkpoint
from mlm_consistency.checkpoints.leaves import Leaf

# Norm scales and relative biases of every published size are smaller, and every training step
# changes them; kernels are larger, and reading one costs a whole chunk.
SMALL = 2**17


def leaf_digest(leaf: Leaf, array: np.ndarray) -> str:
    """SHA-256 of a leaf's name, dtype, shape and bytes in our orientation, rows first."""
    digest = hashlib.sha256(f"{leaf.name} {leaf.dtype.name} {leaf.shape}".encode())
    digest.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    return digest.hexdigest()


def combined(digests: Mapping[str, str]) -> str:
    """SHA-256 of the digests of all leaves, by name."""
    lines = "".join(f"{name} {digests[name]}\n" for name in sorted(digests))
    return hashlib.sha256(lines.encode()).hexdigest()


def digest(checkpoint: Checkpoint) -> str:
    """SHA-256 of all weights: equal exactly when every leaf is bit-equal. Reads everything."""
    return combined(
        {n: leaf_digest(leaf, leaf.read_all()) for n, leaf in checkpoint.leaves.items()}
    )


def fingerprint(checkpoint: Checkpoint) -> str:
    """SHA-256 of all names, shapes and dtypes and of the small leaves' contents.

    Cheap enough for every run, and the same for each form of the same weights. It tells steps of
    one training apart, since each step changes the norms; it does not vouch for every bit of the
    kernels: `digest` does.
    """
    digests = {}
    for name, leaf in checkpoint.leaves.items():
        array = leaf.read_all() if leaf.size <= SMALL else np.empty(0, leaf.dtype)
        digests[name] = leaf_digest(leaf, array)
    return combined(digests)
