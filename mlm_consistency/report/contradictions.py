"""Which examples the conditionals contradict each other on most.

Disagreement only says whether the argmaxes differ. To rank examples the report uses the
Jensen-Shannon divergence among the conditionals' distributions over the candidates, so that two
confident, opposite answers come before two hesitant ones.
"""

from __future__ import annotations

import numpy as np
from scipy.special import softmax, xlogy


def candidate_distributions(values: np.ndarray) -> np.ndarray:
    """Each conditional's distribution over the candidates, softmax of its scores.

    Args:
      values: [N, K, C] scores in nats; -inf at candidates an example does not have.

    Returns:
      [N, K, C] probabilities; rows without any finite score (not applicable) are NaN.
    """
    values = np.asarray(values, dtype=np.float64)
    scored = np.isfinite(values).any(axis=-1, keepdims=True)
    return np.where(scored, softmax(np.where(scored, values, 0.0), axis=-1), np.nan)


def divergence(distributions: np.ndarray) -> np.ndarray:
    """Jensen-Shannon divergence among the conditionals of each example, in nats.

    H(mean over conditionals of q) - mean over conditionals of H(q), over those that apply;
    0 when all are the same, at most log(min(K, C)).

    Args:
      distributions: [N, K, C], rows of conditionals that do not apply are NaN.

    Returns:
      [N] divergences, never below 0; 0 where no conditional applies.
    """
    applies = ~np.isnan(distributions).any(axis=-1)
    q = np.where(applies[..., None], distributions, 0.0)
    number = np.maximum(applies.sum(axis=1), 1)
    mixture = q.sum(axis=1) / number[:, None]
    mean_entropy = -xlogy(q, q).sum(axis=(1, 2)) / number
    return np.maximum(-xlogy(mixture, mixture).sum(axis=-1) - mean_entropy, 0.0)


def most_contradictory(divergences: np.ndarray, answers: np.ndarray, limit: int = 20) -> list[int]:
    """Indices of the examples whose conditionals give different answers, most divergent first.

    Args:
      divergences: [N] nats.
      answers: [N, K] predicted candidate, -1 where a conditional does not apply.
      limit: the most examples to name.

    Returns:
      At most `limit` indices; ties keep the task's order. Examples on which all agree are left out.
    """
    lowest = np.where(answers < 0, np.iinfo(answers.dtype).max, answers).min(axis=1)
    differ = answers.max(axis=1) > lowest
    order = np.argsort(-divergences, kind="stable")
    return [int(index) for index in order if differ[index]][:limit]
