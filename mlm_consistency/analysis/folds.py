"""Cross-fitting: what is fitted to right answers never sees the example that it predicts."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from mlm_consistency.analysis.predictions import predict


@dataclasses.dataclass(frozen=True, eq=False)
class Fit:
    """What a fitter learnt from its training examples.

    Attributes:
      score: `values` [n, K, C] -> the ensemble's score of each candidate [n, C].
      passes: forward passes an example that it needs: conditionals with a part in the score.
      details: what was learnt, as JSON values.
    """

    score: Callable[[np.ndarray], np.ndarray]
    passes: float
    details: dict[str, Any]


# (values [n, K, C], labels bool [n, C], generator) -> Fit
Fitter = Callable[[np.ndarray, np.ndarray, np.random.Generator], Fit]


@dataclasses.dataclass(frozen=True, eq=False)
class CrossFitted:
    """Predictions for every example by a fit to the others.

    Attributes:
      predictions: int [N].
      passes: mean forward passes an example.
      fits: one for each fold: what was learnt, and from how many examples.
    """

    predictions: np.ndarray
    passes: float
    fits: list[dict[str, Any]]


def fold_of(examples: int, folds: int, rng: np.random.Generator) -> np.ndarray:
    """The fold of each example -> int [N]; sizes differ by at most one."""
    return rng.permutation(np.arange(examples) % folds)


def cross_fit(
    values: np.ndarray, labels: np.ndarray, fitter: Fitter, folds: int = 5, seed: int = 0
) -> CrossFitted:
    """Fits on all folds but one and predicts that one, for each fold.

    Examples without a right candidate teach nothing; they are left out of fitting, and predicted.

    Args:
      values: float64 [N, K, C] in nats; labels: bool [N, C].
      seed: of the folds, and of what the fitter draws (its own inner folds).
    """
    rng = np.random.default_rng(seed)
    fold = fold_of(len(values), folds, rng)
    answerable = labels.any(1)
    predictions = np.zeros(len(values), np.int64)
    fits, passes = [], np.zeros(len(values))
    for held_out in range(folds):
        inside = fold == held_out
        train = ~inside & answerable
        fit = fitter(values[train], labels[train], rng)
        predictions[inside] = predict(fit.score(values[inside]))
        passes[inside] = fit.passes
        fits.append({"examples": int(train.sum()), "passes": fit.passes, **fit.details})
    return CrossFitted(predictions, float(passes.mean()), fits)
