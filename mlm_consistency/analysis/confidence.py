"""Agreement as a confidence signal: can the conditionals tell which answers to trust?

Three confidences in the ensemble's answer, each between 0 and 1: "agreement" (share of the
conditionals that prefer it), "pooled" (its mean probability over the conditionals, among the
candidates) and, to compare with, "baseline" (its probability under the baseline alone, in the
baseline's own answer).

- selective accuracy: accuracy over the examples with the highest confidence, against their share
- AURC: area under the risk-coverage curve, mean over examples i of the error rate among examples
  at least as confident as i (Geifman & El-Yaniv 2017); smaller is better
- ECE: sum over bins of n_b / n |accuracy_b - mean confidence_b|, ten bins of equal width; biased
  upwards for few examples
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from mlm_consistency.analysis.ensembles import get_reduction, reduce_mean_probability
from mlm_consistency.analysis.pair_tables import log_normalize
from mlm_consistency.analysis.predictions import correct, predict
from mlm_consistency.analysis.scores import Scores
from mlm_consistency.analysis.statistics import (
    binomial_interval,
    percentile_intervals,
    resample_weights,
)

BINS = 10


@dataclasses.dataclass(frozen=True, eq=False)
class Selective:
    """The selective accuracy curve: thresholds from the most confident down, groups of ties whole.

    Attributes:
      confidence: float64 [G], the distinct confidences, falling.
      coverage: float64 [G], share of the examples at least that confident.
      accuracy: float64 [G], share of right answers among them.
    """

    confidence: np.ndarray
    coverage: np.ndarray
    accuracy: np.ndarray


def _groups(confidence: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(distinct confidences, falling; the group of each example)."""
    levels, group = np.unique(-confidence, return_inverse=True)
    return -levels, group


def selective_accuracy(confidence: np.ndarray, right: np.ndarray) -> Selective:
    """The curve of answers that are `right` [N] with `confidence` [N]."""
    levels, group = _groups(confidence)
    count = np.cumsum(np.bincount(group, minlength=len(levels)))
    hits = np.cumsum(np.bincount(group, right, minlength=len(levels)))
    return Selective(levels, count / len(right), hits / count)


def _summed(weights: np.ndarray, group: np.ndarray, size: int) -> np.ndarray:
    """Sums of `weights` [b, N] within groups -> [b, size]."""
    rows = len(weights)
    place = group + size * np.arange(rows)[:, None]
    return np.bincount(place.ravel(), weights.ravel(), rows * size).reshape(rows, size)


def risk_coverage_area(
    confidence: np.ndarray, right: np.ndarray, weights: np.ndarray | None = None
) -> np.ndarray:
    """AURC [b], one for each row of example `weights` [b, N]; by default all weigh 1 -> [1]."""
    weights = np.ones((1, len(right))) if weights is None else weights
    levels, group = _groups(confidence)
    count = _summed(weights, group, len(levels))
    wrong = _summed(weights * ~np.asarray(right, bool), group, len(levels))
    risk = np.cumsum(wrong, 1) / np.maximum(np.cumsum(count, 1), 1)
    return (count * risk).sum(1) / count.sum(1)


def calibration_error(
    confidence: np.ndarray, right: np.ndarray, weights: np.ndarray | None = None
) -> np.ndarray:
    """ECE [b], one for each row of example `weights` [b, N]; by default all weigh 1 -> [1]."""
    weights = np.ones((1, len(right))) if weights is None else weights
    place = np.minimum((confidence * BINS).astype(int), BINS - 1)
    gap = _summed(weights * (np.asarray(right, np.float64) - confidence), place, BINS)
    return np.abs(gap).sum(1) / weights.sum(1)


def agreement(values: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    """Share of an example's conditionals that prefer `chosen` [N], of `values` [N, K, C] -> [N]."""
    return (predict(values) == chosen[:, None]).mean(1)


def _row(
    confidence: np.ndarray, right: np.ndarray, level: float, resamples: int, seed: int
) -> dict[str, Any]:
    blocks = [
        np.column_stack(
            [risk_coverage_area(confidence, right, w), calibration_error(confidence, right, w)]
        )
        for w in resample_weights(len(right), resamples, seed)
    ]
    bounds = percentile_intervals(np.concatenate(blocks), level)
    curve = selective_accuracy(confidence, right)
    # A continuous confidence has a threshold an example; a figure needs a hundred.
    shown = np.unique(np.linspace(0, len(curve.coverage) - 1, 100).round().astype(int))
    return {
        "n": len(right),
        "accuracy": float(right.mean()),
        "aurc": {
            "value": float(risk_coverage_area(confidence, right)[0]),
            "interval": bounds[0].tolist(),
        },
        "ece": {
            "value": float(calibration_error(confidence, right)[0]),
            "interval": bounds[1].tolist(),
        },
        "selective": [
            {
                "confidence": float(curve.confidence[i]),
                "coverage": float(curve.coverage[i]),
                "accuracy": float(curve.accuracy[i]),
                "n": round(curve.coverage[i] * len(right)),
                "interval": list(
                    binomial_interval(
                        round(curve.accuracy[i] * curve.coverage[i] * len(right)),
                        round(curve.coverage[i] * len(right)),
                        level,
                    )
                ),
            }
            for i in shown
        ],
    }


def confidence_report(
    scores: Scores,
    token_reduction: str = "mean",
    reduction: str = "max",
    *,
    level: float = 0.95,
    resamples: int = 1000,
    seed: int = 0,
) -> dict[str, Any]:
    """Selective accuracy, AURC and ECE of the three confidences, and accuracy by agreement.

    Intervals of AURC and ECE are percentile bootstrap over examples, of accuracies exact binomial
    (each threshold on its own). "parts" gives accuracies where all conditionals agree and where
    they do not.
    """
    common, _ = scores.complete()
    values = common.values(token_reduction)
    each = predict(values)
    chosen = predict(get_reduction(reduction)(values))
    ensemble = correct(chosen, common.labels)
    baseline = correct(each[:, 0], common.labels)
    pooled = np.exp(reduce_mean_probability(values))
    alone = np.exp(log_normalize(values[:, 0], -1))
    rows = np.arange(len(common))
    unanimous = (each == each[:, :1]).all(1)
    signals = {
        "agreement": (agreement(values, chosen), ensemble),
        "pooled": (np.minimum(pooled[rows, chosen], 1.0), ensemble),
        "baseline": (np.minimum(alone[rows, each[:, 0]], 1.0), baseline),
    }
    parts: dict[str, dict[str, Any]] = {}
    for name, part in (("agree", unanimous), ("disagree", ~unanimous)):
        parts[name] = {"n": int(part.sum())}
        for which, right in (("baseline", baseline), ("ensemble", ensemble)):
            hits = int(right[part].sum())
            parts[name][which] = {
                "accuracy": hits / int(part.sum()) if part.any() else None,
                "interval": list(binomial_interval(hits, int(part.sum()), level)),
            }
    return {
        "reduction": reduction,
        "signals": {
            name: _row(confidence, right, level, resamples, seed)
            for name, (confidence, right) in signals.items()
        },
        "parts": parts,
    }
