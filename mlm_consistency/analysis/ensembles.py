"""Reductions: many conditionals' scores of the same candidates -> one score a candidate.

A reduction is a function of `values` [.., K, C], log-probabilities in nats with -inf where an
example has fewer than C candidates, that returns [.., C]; the ensemble predicts the largest.
Each example needs at least one candidate.

Adding one: 1. write the function here or in a file beside, 2. add its line to REDUCTIONS; the
contract tests in tests/analysis/test_ensembles.py then cover it.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from mlm_consistency.analysis.divergences import entropy
from mlm_consistency.analysis.pair_tables import log_normalize, log_sum_exp
from mlm_consistency.analysis.predictions import predict
from mlm_consistency.tables import lookup

Reduction = Callable[[np.ndarray], np.ndarray]

REDUCTIONS = {
    "max": "mlm_consistency.analysis.ensembles:reduce_max",
    "mean_log": "mlm_consistency.analysis.ensembles:reduce_mean_log",
    "mean_probability": "mlm_consistency.analysis.ensembles:reduce_mean_probability",
    "log_sum_exp": "mlm_consistency.analysis.ensembles:reduce_log_sum_exp",
    "vote": "mlm_consistency.analysis.ensembles:reduce_vote",
    "normalized_max": "mlm_consistency.analysis.ensembles:reduce_normalized_max",
    "entropy_weighted": "mlm_consistency.analysis.ensembles:reduce_entropy_weighted",
    "worst_case": "mlm_consistency.analysis.ensembles:reduce_worst_case",
}

# Those that are fitted to right answers are in fitted.py and selection.py.
DEFAULT_REDUCTIONS = tuple(REDUCTIONS)


def get_reduction(name: str) -> Reduction:
    """The reduction of that name. Raises UnknownNameError with the nearest names."""
    return lookup(REDUCTIONS, name, "ensemble reduction")


def _sum(values: np.ndarray) -> np.ndarray:
    return log_sum_exp(values, -2)[..., 0, :]


def reduce_max(values: np.ndarray) -> np.ndarray:
    """max_k s_kc: the paper's Ensemble of Conditionals. The sharpest conditional decides."""
    return values.max(-2)


def reduce_mean_log(values: np.ndarray) -> np.ndarray:
    """mean_k s_kc: the geometric mean (log-linear pool). Normalising first changes no argmax."""
    return values.mean(-2)


def reduce_mean_probability(values: np.ndarray) -> np.ndarray:
    """log mean_k q_kc, q_k = softmax over the candidates: the linear opinion pool."""
    return _sum(log_normalize(values, -1)) - np.log(values.shape[-2])


def reduce_log_sum_exp(values: np.ndarray) -> np.ndarray:
    """log sum_k exp s_kc: the mean of probabilities that are not normalised over candidates."""
    return _sum(values)


def reduce_vote(values: np.ndarray) -> np.ndarray:
    """sum_k [c = argmax_c' s_kc']: votes; a conditional's tie goes to its first candidate."""
    count = values.shape[-1]
    votes = (predict(values)[..., None] == np.arange(count)).sum(-2).astype(np.float64)
    return np.where(np.isneginf(values).all(-2), -np.inf, votes)


def reduce_normalized_max(values: np.ndarray) -> np.ndarray:
    """max_k log q_kc, q_k = softmax over the candidates: the most confident conditional decides."""
    return log_normalize(values, -1).max(-2)


def reduce_entropy_weighted(values: np.ndarray) -> np.ndarray:
    """log sum_k w_k q_kc, w_k proportional to exp(-H(q_k)): one over the perplexity of q_k.

    A conditional that is sure counts up to C times one that has no idea.
    """
    normalized = log_normalize(values, -1)
    log_weight = log_normalize(-entropy(normalized), -1)
    return _sum(normalized + log_weight[..., None])


def reduce_worst_case(values: np.ndarray) -> np.ndarray:
    """min_k s_kc: the candidate that no conditional finds very unlikely (max-min)."""
    return values.min(-2)
