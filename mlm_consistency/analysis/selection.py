"""Fewer conditionals: which ones, in what order, and how many are worth their forward passes.

A path starts at the baseline and adds one conditional at a time, either the one that helps most on
training examples (greedy) or the one whose answers differ most from those already in (divergent,
which needs no right answers). How far to go along the path is chosen on inner folds.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from mlm_consistency.analysis.divergences import jensen_shannon
from mlm_consistency.analysis.ensembles import reduce_max
from mlm_consistency.analysis.folds import Fit, fold_of
from mlm_consistency.analysis.pair_tables import log_normalize
from mlm_consistency.analysis.predictions import correct, predict

_INNER_FOLDS = 4

# (values [n, K, C], labels [n, C]) -> an order of all conditionals, 0 first
Path = Callable[[np.ndarray, np.ndarray], list[int]]


def _accuracy_of(values: np.ndarray, labels: np.ndarray, members: list[int]) -> tuple[float, float]:
    """(accuracy, mean log share of the right candidates) of the max ensemble of `members`."""
    scores = reduce_max(values[:, members])
    log_q = np.where(labels, log_normalize(scores, -1), -np.inf)
    likelihood = float(log_q.max(1).mean()) if len(log_q) else 0.0
    return float(correct(predict(scores), labels).mean()), likelihood


def greedy_path(values: np.ndarray, labels: np.ndarray) -> list[int]:
    """Adds the conditional that makes the max ensemble most accurate; of equal ones the likelier.

    Args:
      values: float64 [n, K, C] in nats; labels: bool [n, C].
    """
    path = [0]
    while len(path) < values.shape[1]:
        rest = [k for k in range(values.shape[1]) if k not in path]
        path.append(max(rest, key=lambda k: _accuracy_of(values, labels, [*path, k])))
    return path


def divergent_path(values: np.ndarray, labels: np.ndarray) -> list[int]:
    """Adds the conditional whose mean Jensen-Shannon divergence from those in is the largest."""
    del labels
    log_q = log_normalize(values, -1)
    apart = np.zeros((values.shape[1],) * 2)
    for k in range(values.shape[1] - 1):
        apart[k, k + 1 :] = jensen_shannon(log_q[:, k : k + 1], log_q[:, k + 1 :]).mean(0)
    apart += apart.T
    path = [0]
    while len(path) < values.shape[1]:
        rest = [k for k in range(values.shape[1]) if k not in path]
        path.append(max(rest, key=lambda k: apart[k, path].mean()))
    return path


def _fit(path: Path, values: np.ndarray, labels: np.ndarray, rng: np.random.Generator) -> Fit:
    count = values.shape[1]
    fold = fold_of(len(values), _INNER_FOLDS, rng)
    right = np.zeros(count)
    for inner in range(_INNER_FOLDS):
        inside = fold == inner
        if not inside.any() or inside.all():
            continue
        order = path(values[~inside], labels[~inside])
        for size in range(count):
            chosen = predict(reduce_max(values[inside][:, order[: size + 1]]))
            right[size] += correct(chosen, labels[inside]).sum()
    # The first of equal sizes is the cheapest.
    members = path(values, labels)[: int(right.argmax()) + 1]
    return Fit(
        score=lambda new: reduce_max(new[:, members]),
        passes=len(members),
        details={"members": members, "inner_accuracy": (right / max(len(values), 1)).tolist()},
    )


def fit_greedy(values: np.ndarray, labels: np.ndarray, rng: np.random.Generator) -> Fit:
    """The max ensemble of conditionals picked by their accuracy together on training examples."""
    return _fit(greedy_path, values, labels, rng)


def fit_divergent(values: np.ndarray, labels: np.ndarray, rng: np.random.Generator) -> Fit:
    """The max ensemble of conditionals picked for being different from one another."""
    return _fit(divergent_path, values, labels, rng)
