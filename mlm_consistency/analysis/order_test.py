"""Order test on two masked positions: does it matter which is revealed first?

  j1 = p(a | both masked) p(b | a),   j2 = p(b | both masked) p(a | b),   d = log j1 - log j2

(Young et al., arXiv 2301.00068). d = 0 in every cell exactly when the conditionals are
compatible *and* the both-masked distributions are the marginals of their joint. Its two-way
decomposition keeps those two causes apart. Nats throughout.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mlm_consistency.analysis.divergences import jensen_shannon, kl_divergence
from mlm_consistency.analysis.joints import order_joints
from mlm_consistency.analysis.pair_tables import PairTables


def order_log_ratio(tables: PairTables) -> np.ndarray:
    """d_ij for every cell, [..., I, J]; NaN where either pseudo-joint is zero."""
    first, second = order_joints(tables)
    both = np.isfinite(first) & np.isfinite(second)
    return np.where(both, np.where(both, first, 0.0) - np.where(both, second, 0.0), np.nan)


def log_ratio_at(
    log_first: np.ndarray, log_second_given_first: np.ndarray,
    log_second: np.ndarray, log_first_given_second: np.ndarray,
) -> np.ndarray:  # fmt: skip
    """d [...] of single cells from four log-probabilities [...] each (one pair of gold tokens)."""
    return (log_first + log_second_given_first) - (log_second + log_first_given_second)


def relative_difference(d: np.ndarray) -> np.ndarray:
    """The paper's figure |j1 - j2| / ((j1 + j2) / 2) = 2 tanh(|d| / 2), between 0 and 2."""
    return 2.0 * np.tanh(np.abs(d) / 2.0)


@dataclass(frozen=True)
class OrderSplit:
    """d = marginal + interaction, cell by cell, [..., I, J] nats.

    `marginal` (a constant, a row and a column effect) is what wrong both-masked distributions can
    cause; `interaction` is what the cross-ratio sees: its second differences are D, those of
    `marginal` are 0. The two are orthogonal, so their mean squares add up to that of d.
    """

    marginal: np.ndarray
    interaction: np.ndarray

    @property
    def mean_squares(self) -> tuple[np.ndarray, np.ndarray]:
        """Mean over cells of marginal^2 and interaction^2, [...] nats squared."""
        return np.mean(self.marginal**2, axis=(-2, -1)), np.mean(self.interaction**2, axis=(-2, -1))


def split_order(d: np.ndarray) -> OrderSplit:
    """Splits d [..., I, J] by least squares (double centring); all NaN where a cell is NaN."""
    rows = d.mean(axis=-1, keepdims=True)
    columns = d.mean(axis=-2, keepdims=True)
    marginal = rows + columns - d.mean(axis=(-2, -1), keepdims=True)
    return OrderSplit(marginal, d - marginal)


@dataclass(frozen=True)
class OrderSummary:
    """Per table, [...]: mean |d| over the defined cells, mean of 2 tanh(|d|/2), and how far apart
    the two pseudo-joints are as distributions (NaN for tables of a subset). Nats."""

    mean_abs: np.ndarray
    mean_relative: np.ndarray
    kl_first_second: np.ndarray
    kl_second_first: np.ndarray
    jsd: np.ndarray


def summarize_order(tables: PairTables) -> OrderSummary:
    """The figures of `OrderSummary` for `tables`, which must hold the both-masked distributions."""
    d = order_log_ratio(tables)
    known = np.isfinite(d)
    count = known.sum(axis=(-2, -1))

    def mean(values: np.ndarray) -> np.ndarray:
        total = np.where(known, values, 0.0).sum(axis=(-2, -1))
        return np.where(count > 0, total / np.maximum(count, 1), np.nan)

    first, second = order_joints(tables)
    axes = (-2, -1)
    undefined = np.full(count.shape, np.nan)
    return OrderSummary(
        mean_abs=mean(np.abs(d)),
        mean_relative=mean(relative_difference(d)),
        kl_first_second=undefined if tables.subset else kl_divergence(first, second, axes),
        kl_second_first=undefined if tables.subset else kl_divergence(second, first, axes),
        jsd=undefined if tables.subset else jensen_shannon(first, second, axes),
    )
