"""Cross-ratio test: do p(a|b) and p(b|a) carry the same interaction between two positions?

For words a_i, a_k at one position and b_j, b_l at the other (Young et al., arXiv 2301.00068):

  D(ik|jl) = log [p(b_j|a_i)/p(b_l|a_i) . p(a_i|b_l)/p(a_k|b_l)]
           - log [p(a_i|b_j)/p(a_k|b_j) . p(b_j|a_k)/p(b_l|a_k)]
           = L_ij - L_il - L_kj + L_kl,   L = log p(b|a) - log p(a|b)   (nats)

Conditionals of one joint distribution give 0. D needs no normaliser, so a subset of the
vocabulary leaves it unchanged, and it is the second difference of the order log-ratio.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mlm_consistency.analysis.pair_tables import PairTables
from mlm_consistency.errors import AnalysisError


@dataclass(frozen=True)
class Minors:
    """D of 2x2 minors: values [..., P, Q] (nats) for row_pairs [P, 2] and column_pairs [Q, 2].

    NaN marks a minor with a zero probability in one of its cells: D is undefined there.
    """

    values: np.ndarray
    row_pairs: np.ndarray
    column_pairs: np.ndarray


@dataclass(frozen=True)
class CrossRatioSummary:
    """Over *all* 2x2 minors of each table, without listing them; every field has shape [...].

    max_abs, mean_abs in nats over the defined minors (NaN when there is none); defined and total
    count minors.
    """

    max_abs: np.ndarray
    mean_abs: np.ndarray
    defined: np.ndarray
    total: int


def log_conditional_ratio(tables: PairTables) -> np.ndarray:
    """L = log p(b_j|a_i) - log p(a_i|b_j), [..., I, J] nats; NaN where either is zero."""
    a, b = tables.log_a_given_b, tables.log_b_given_a
    both = np.isfinite(a) & np.isfinite(b)
    return np.where(both, np.where(both, b, 0.0) - np.where(both, a, 0.0), np.nan)


def log_odds_ratio(log_table: np.ndarray) -> np.ndarray:
    """log t_ij t_kl / (t_il t_kj) of every 2x2 minor of one table [..., I, J], [..., P, Q]."""
    rows, columns = _all_pairs(log_table.shape[-2]), _all_pairs(log_table.shape[-1])
    return _second_difference(np.where(np.isfinite(log_table), log_table, np.nan), rows, columns)


def minors(tables: PairTables, kind: str = "all") -> Minors:
    """D of the 2x2 minors of each table.

    Args:
      kind: "all" (every pair of rows with every pair of columns) or "adjacent" (neighbouring
        rows and columns only, which span the others when no probability is zero).

    Raises:
      AnalysisError: for another kind, or when a table is smaller than 2 x 2.
    """
    i, j = tables.shape[-2:]
    if min(i, j) < 2:
        raise AnalysisError(f"a cross-ratio needs two words at each position. Got {i} x {j}.")
    if kind not in ("all", "adjacent"):
        raise AnalysisError(f'kind of minors must be "all" or "adjacent". Got {kind!r}.')
    pairs = _all_pairs if kind == "all" else _adjacent_pairs
    rows, columns = pairs(i), pairs(j)
    return Minors(_second_difference(log_conditional_ratio(tables), rows, columns), rows, columns)


def summarize_cross_ratio(tables: PairTables) -> CrossRatioSummary:
    """Largest and mean |D| over all 2x2 minors, in O(I^2 J log J) instead of O(I^2 J^2).

    For two rows i, k every minor is a difference of two entries of v = L_i - L_k, so the largest
    is the range of v, and the sum of all comes from v in sorted order.
    """
    ratio = log_conditional_ratio(tables)
    i, j = ratio.shape[-2:]
    batch = ratio.shape[:-2]
    largest = np.full(batch, -np.inf)
    total, defined = np.zeros(batch), np.zeros(batch, dtype=np.int64)
    rank = np.arange(j)
    for row in range(i - 1):
        ordered = np.sort(ratio[..., row + 1 :, :] - ratio[..., row : row + 1, :], axis=-1)
        known = np.isfinite(ordered)  # sorting puts NaN last
        count = known.sum(axis=-1, keepdims=True)
        weights = 2 * rank - count + 1
        filled = np.where(known, ordered, 0.0)
        total += np.sum(np.where(known, weights * filled, 0.0), axis=(-1, -2))
        defined += np.sum(count * (count - 1) // 2, axis=(-1, -2))
        last = np.take_along_axis(filled, np.maximum(count - 1, 0), axis=-1)[..., 0]
        spread = np.where(count[..., 0] >= 2, last - filled[..., 0], -np.inf)
        largest = np.maximum(largest, spread.max(axis=-1))
    none = defined == 0
    return CrossRatioSummary(
        max_abs=np.where(none, np.nan, largest),
        mean_abs=np.where(none, np.nan, total / np.maximum(defined, 1)),
        defined=defined,
        total=(i * (i - 1) // 2) * (j * (j - 1) // 2),
    )


def four_bigrams(log_a_given_b: np.ndarray, log_b_given_a: np.ndarray) -> np.ndarray:
    """D [...] of the four connected bigrams a0b0, a0b1, a1b0, a1b1; inputs [..., 2, 2], nats."""
    if np.shape(log_a_given_b)[-2:] != (2, 2):
        raise AnalysisError(
            f"four connected bigrams make 2 x 2 tables. Got {np.shape(log_a_given_b)}."
        )
    tables = PairTables(log_a_given_b, log_b_given_a, subset=True)
    return minors(tables).values[..., 0, 0]


def solved_conditionals(
    log_a_given_b: np.ndarray, log_b_given_a: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Each of the eight conditionals as the other seven demand it, [..., 2, 2] twice, nats.

    Setting D = 0 and solving for one conditional moves its logarithm by exactly D or -D, so all
    eight |log solved - log given| are equal (the authors' eight discrepancies).
    """
    d = four_bigrams(log_a_given_b, log_b_given_a)[..., None, None]
    sign = np.array([[1.0, -1.0], [-1.0, 1.0]])
    return np.asarray(log_a_given_b) + sign * d, np.asarray(log_b_given_a) - sign * d


def _all_pairs(size: int) -> np.ndarray:
    return np.stack(np.triu_indices(size, k=1), axis=-1)


def _adjacent_pairs(size: int) -> np.ndarray:
    return np.stack([np.arange(size - 1), np.arange(1, size)], axis=-1)


def _second_difference(table: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    across = table[..., rows[:, 0], :] - table[..., rows[:, 1], :]
    return across[..., columns[:, 0]] - across[..., columns[:, 1]]
