"""Ensembles that are fitted to right answers: calibrated, and with learned weights.

Both are fitted to training examples alone (`folds.cross_fit`). Fitters are listed in FITTERS;
adding one: 1. a function (values, labels, generator) -> Fit, 2. its line in the table.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize, minimize_scalar

from mlm_consistency.analysis.ensembles import reduce_mean_probability
from mlm_consistency.analysis.folds import Fit, Fitter, fold_of
from mlm_consistency.tables import lookup

FITTERS = {
    "calibrated": "mlm_consistency.analysis.fitted:fit_calibrated",
    "learned_weights": "mlm_consistency.analysis.fitted:fit_weights",
    "greedy": "mlm_consistency.analysis.selection:fit_greedy",
    "divergent": "mlm_consistency.analysis.selection:fit_divergent",
}

# Standard deviation of the prior on log temperature: a factor of e^2 either way is usual.
_LOG_TEMPERATURE_SPREAD = 2.0
_PENALTIES = (10.0, 1.0, 0.1, 0.01)
_INNER_FOLDS = 4
_LARGEST_WEIGHT = 100.0  # in units of the scores' spread: all but an argmax


def get_fitter(name: str) -> Fitter:
    """The fitter of that name. Raises UnknownNameError with the nearest names."""
    return lookup(FITTERS, name, "fitted ensemble")


def negative_log_likelihood(scores: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """- log of the share of the right candidates under softmax of `scores` [n, C] -> nats [n]."""
    return _loss_and_slope(scores, labels)[0]


def _loss_and_slope(scores: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(NLL [n], d NLL / d scores [n, C]): softmax over all candidates minus over the right ones."""
    odds = np.exp(scores - scores.max(-1, keepdims=True))
    right = odds * labels
    total = odds.sum(-1, keepdims=True)
    # A right candidate so unlikely that its odds are 0 in float64 still has a finite loss.
    share = np.maximum(right.sum(-1, keepdims=True), np.finfo(np.float64).tiny)
    return np.log(total / share)[:, 0], odds / total - right / share


def _finite(values: np.ndarray) -> np.ndarray:
    """`values` with 0 where there is no candidate; such cells always have weight 0."""
    return np.where(np.isneginf(values), 0.0, values)


def fit_temperature(values: np.ndarray, labels: np.ndarray) -> float:
    """The T > 0 that makes softmax(values / T) most likely to give the right answers.

    Minimises sum NLL + (log T)^2 / (2 * 2^2), the second a weak prior that keeps T finite where
    every training example is right.

    Args:
      values: float64 [n, C] in nats; labels: bool [n, C], one right candidate at least.
    """

    def loss(log_temperature: float) -> float:
        scores = values * np.exp(-log_temperature)
        prior = 0.5 * (log_temperature / _LOG_TEMPERATURE_SPREAD) ** 2
        return float(negative_log_likelihood(scores, labels).sum() + prior)

    bound = 5 * _LOG_TEMPERATURE_SPREAD
    found = minimize_scalar(loss, bounds=(-bound, bound), method="bounded")
    return float(np.exp(found.x))


def fit_calibrated(values: np.ndarray, labels: np.ndarray, rng: np.random.Generator) -> Fit:
    """A temperature for each conditional, then the mean of their probabilities (linear pool)."""
    del rng
    temperatures = np.array([fit_temperature(values[:, k], labels) for k in range(values.shape[1])])
    return Fit(
        score=lambda new: reduce_mean_probability(new / temperatures[:, None]),
        passes=values.shape[1],
        details={"temperatures": temperatures.tolist()},
    )


def _minimize_weights(
    plain: np.ndarray, mask: np.ndarray, labels: np.ndarray, penalty: float, start: np.ndarray
) -> np.ndarray:
    """u >= 0 that minimises mean NLL of softmax(sum_k u_k s_k) + penalty sum_k (u_k - mean u)^2.

    Args:
      plain: float64 [K, n, C], 0 where there is no candidate; mask, labels: bool [n, C].
    """
    flat = plain.reshape(len(plain), -1)

    def loss(u: np.ndarray) -> tuple[float, np.ndarray]:
        scores = np.where(mask, (u @ flat).reshape(mask.shape), -np.inf)
        losses, slopes = _loss_and_slope(scores, labels)
        apart = u - u.mean()
        total = losses.mean() + penalty * (apart**2).sum()
        return float(total), flat @ slopes.ravel() / len(mask) + 2 * penalty * apart

    # L-BFGS-B calls threaded LAPACK on tiny matrices, many times as slow where cores are shared.
    bounds = [(0.0, _LARGEST_WEIGHT)] * len(start)
    found = minimize(loss, start, jac=True, method="SLSQP", bounds=bounds, options={"ftol": 1e-9})
    return np.clip(found.x, 0.0, _LARGEST_WEIGHT)


def _weights_by_penalty(values: np.ndarray, labels: np.ndarray) -> list[np.ndarray]:
    """Weights for an infinite penalty (equal weights, only their size fitted), then _PENALTIES."""
    mask = ~np.isneginf(values[:, 0])
    plain = np.ascontiguousarray(np.moveaxis(_finite(values), 1, 0))
    count = len(plain)
    mean = plain.mean(0, keepdims=True)
    size = _minimize_weights(mean, mask, labels, 0.0, np.ones(1))
    found = [np.full(count, size[0] / count)]
    for penalty in _PENALTIES:
        found.append(_minimize_weights(plain, mask, labels, penalty, found[-1]))
    return found


def fit_weights(values: np.ndarray, labels: np.ndarray, rng: np.random.Generator) -> Fit:
    """A weight for each conditional: candidates are scored by sum_k u_k s_kc, u_k >= 0.

    The weights minimise the mean negative log-likelihood plus penalty * sum_k (u_k - mean u)^2,
    so that a large penalty shrinks them to equal ones. The penalty is the largest (infinite
    among them) whose loss on inner folds is within one standard error of the best.
    """
    spread = _finite(values - values.max(-1, keepdims=True)).std()
    scaled = values / (spread or 1.0)
    fold = fold_of(len(values), _INNER_FOLDS, rng)
    held_out = np.zeros((len(_PENALTIES) + 1, len(values)))
    for inner in range(_INNER_FOLDS):
        inside = fold == inner
        if not inside.any() or inside.all():
            continue
        for p, u in enumerate(_weights_by_penalty(scaled[~inside], labels[~inside])):
            scores = _weighted(scaled[inside], u)
            held_out[p, inside] = negative_log_likelihood(scores, labels[inside])
    loss = held_out.mean(1)
    best = int(loss.argmin())
    # Paired: the error of the difference, not of each loss.
    error = (held_out - held_out[best]).std(1) / np.sqrt(len(values))
    chosen = int(np.flatnonzero(loss <= loss[best] + error)[0])
    u = _weights_by_penalty(scaled, labels)[chosen]
    return Fit(
        score=lambda new: _weighted(new, u),
        passes=int((u > 1e-9).sum()) or values.shape[1],
        details={
            "weights": (u / u.sum() if u.sum() else u).tolist(),
            "penalty": None if chosen == 0 else _PENALTIES[chosen - 1],
        },
    )


def _weighted(values: np.ndarray, u: np.ndarray) -> np.ndarray:
    scores = np.einsum("k,nkc->nc", u, _finite(values))
    return np.where(np.isneginf(values[:, 0]), -np.inf, scores)
