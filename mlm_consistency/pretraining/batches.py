"""Training batches: a pure function of (seed, step), so that a restart sees the same stories.

Stories differ in length, so several share a row, each with its own segment: the network masks
them from one another exactly as it does when it scores.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable

import numpy as np

Batch = dict[str, np.ndarray]


@dataclasses.dataclass(frozen=True)
class TrainingExample:
    """One denoised text.

    Attributes:
      inputs: int32 [s], encoder tokens with `</s>`.
      targets: int32 [t], decoder targets with the closing sentinel and `</s>`.
      weights: float32 [t], weight of each target in the loss.
    """

    inputs: np.ndarray
    targets: np.ndarray
    weights: np.ndarray


@dataclasses.dataclass(frozen=True)
class BatchShape:
    """Rows B of a batch, encoder length S and decoder length T."""

    rows: int = 16
    encoder_length: int = 128
    decoder_length: int = 40


def pack_batch(
    examples: Iterable[TrainingExample], shape: BatchShape, start_id: int
) -> tuple[Batch, int]:
    """Lays examples into rows, first fit, until one fits nowhere.

    Returns:
      The arrays `encoder_tokens`, `encoder_segments` [B, S]; `tokens`, `positions`, `end`,
      `segments`, `targets` [B, T] (int32), `weights` [B, T] (float32); and how many examples
      went in. An example longer than a whole row is passed over.
    """
    rows, enc, dec = shape.rows, shape.encoder_length, shape.decoder_length
    batch: Batch = {
        name: np.zeros((rows, length), np.int32)
        for name, length in (
            [("encoder_tokens", enc), ("encoder_segments", enc)]
            + [(n, dec) for n in ("tokens", "positions", "end", "segments", "targets")]
        )
    }
    batch["weights"] = np.zeros((rows, dec), np.float32)
    used = np.zeros((rows, 2), np.int64)
    segments = np.zeros(rows, np.int32)
    taken = 0
    for example in examples:
        size = np.array([len(example.inputs), len(example.targets)])
        if (size > (enc, dec)).any():
            continue
        fits = np.flatnonzero((used + size <= (enc, dec)).all(axis=1))
        if not fits.size:
            break
        row = fits[0]
        (a, b), (m, n) = used[row], size
        segments[row] += 1
        batch["encoder_tokens"][row, a : a + m] = example.inputs
        batch["encoder_segments"][row, a : a + m] = segments[row]
        batch["tokens"][row, b] = start_id
        batch["tokens"][row, b + 1 : b + n] = example.targets[:-1]
        batch["positions"][row, b : b + n] = np.arange(n)
        batch["end"][row, b : b + n] = b + n
        batch["segments"][row, b : b + n] = segments[row]
        batch["targets"][row, b : b + n] = example.targets
        batch["weights"][row, b : b + n] = example.weights
        used[row] += size
        taken += 1
    return batch, taken


def batch_at(
    step: int, example: Callable[[int], TrainingExample], shape: BatchShape, stride: int, start: int
) -> tuple[Batch, int]:
    """The batch of a step: examples `step * stride`, `step * stride + 1`, ... that fit.

    `stride` is how many indices belong to a step; those that no longer fit are left out, so
    that the batch depends on its step alone.
    """
    first = step * stride
    return pack_batch((example(i) for i in range(first, first + stride)), shape, start)
