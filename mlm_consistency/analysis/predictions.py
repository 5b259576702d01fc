"""Predictions: the candidate with the largest score, ties to the first, and counted."""

from __future__ import annotations

import numpy as np


def predict(values: np.ndarray) -> np.ndarray:
    """argmax over candidates of `values` [.., C] -> int [..]; of equal ones the first."""
    return values.argmax(-1)


def tied(values: np.ndarray) -> np.ndarray:
    """Whether more than one candidate has the largest of `values` [.., C] -> bool [..]."""
    return (values == values.max(-1, keepdims=True)).sum(-1) > 1


def correct(predictions: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Whether predictions are right answers.

    Args:
      predictions: int [N] or [N, K].
      labels: bool [N, C], true at each right candidate; there may be several.
    Returns:
      bool, the shape of `predictions`.
    """
    index = predictions[:, None] if predictions.ndim == 1 else predictions
    return np.take_along_axis(labels, index, axis=1).reshape(predictions.shape)
