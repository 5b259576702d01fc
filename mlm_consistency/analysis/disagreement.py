"""Disagreement: how often conditionals that should be equal predict different candidates."""

from __future__ import annotations

import numpy as np

from mlm_consistency.analysis.divergences import jensen_shannon
from mlm_consistency.analysis.pair_tables import log_normalize


def disagrees(predictions: np.ndarray) -> np.ndarray:
    """Whether the predictions [N, K] of an example are not all the same -> bool [N]."""
    return (predictions != predictions[:, :1]).any(1)


def pairwise_disagreement(predictions: np.ndarray) -> np.ndarray:
    """Share of examples on which two conditionals differ: [N, K] -> [K, K], diagonal 0."""
    if not len(predictions):
        return np.full((predictions.shape[1],) * 2, np.nan)
    return np.stack(
        [(predictions != predictions[:, k : k + 1]).mean(0) for k in range(predictions.shape[1])]
    )


def mean_pairwise_disagreement(predictions: np.ndarray) -> np.ndarray:
    """Share of an example's K(K-1)/2 pairs that differ: [N, K] -> [N]; 0 for one conditional.

    Unlike the n-way disagreement it does not grow with the number of conditionals.
    """
    count = predictions.shape[1]
    if count < 2:
        return np.zeros(len(predictions))
    differing = sum(
        (predictions[:, k + 1 :] != predictions[:, k : k + 1]).sum(1) for k in range(count - 1)
    )
    return differing / (count * (count - 1) / 2)


def mean_js_divergence(values: np.ndarray) -> np.ndarray:
    """Mean Jensen-Shannon divergence over the pairs of an example's conditionals, nats -> [N].

    Of the distributions over the candidates, q_k = softmax of `values` [N, K, C]. Says how
    inconsistent where the disagreement says only whether; 0 for one conditional, at most log 2.
    """
    log_q = log_normalize(values, -1)
    count = values.shape[1]
    if count < 2:
        return np.zeros(len(values))
    total = sum(
        jensen_shannon(log_q[:, k : k + 1], log_q[:, k + 1 :]).sum(1) for k in range(count - 1)
    )
    return total / (count * (count - 1) / 2)
