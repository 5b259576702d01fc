"""Compatibility: is there one joint distribution that has both conditional tables?

p(a|b) and p(b|a) are compatible exactly when they are positive in the same cells and
C_ij = p(a_i|b_j) / p(b_j|a_i) is a product u_i v_j on those cells; the joint is unique when the
cells connect all words (Arnold & Press 1989; Hennigen & Kim, arXiv 2305.15501).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from mlm_consistency.analysis.cross_ratio import log_conditional_ratio, summarize_cross_ratio
from mlm_consistency.analysis.pair_tables import PairTables, log_sum_exp
from mlm_consistency.analysis.support import components, potentials
from mlm_consistency.errors import AnalysisError

TOLERANCE = 1e-6
"""Nats by which log C may miss a product form and still count as rounding."""


class Status(StrEnum):
    """The four verdicts."""

    COMPATIBLE = "compatible"
    UNDEFINED = "undefined_by_zeros"
    INCOMPATIBLE = "incompatible"
    NOT_UNIQUE = "compatible_not_unique"


@dataclass(frozen=True)
class Compatibility:
    """The verdict on one pair of tables.

    Attributes:
      status: COMPATIBLE; INCOMPATIBLE (the zero patterns differ, or no joint fits);
        NOT_UNIQUE (a joint exists, its weight on each block of words is free); UNDEFINED (cells
        are zero in both tables, so cross-ratios through them do not exist, and the others show
        no contradiction).
      reason: one sentence for people.
      joint_exists, unique: what the product form says on the positive cells, zeros or not.
      blocks: number of connected components of the positive cells.
      misfit: largest |log C - log u - log v| on the positive cells, nats; the largest |D| when
        no cell is zero; NaN when the zero patterns differ.
    """

    status: Status
    reason: str
    joint_exists: bool
    unique: bool
    blocks: int
    misfit: float


def compatibility(tables: PairTables, tolerance: float = TOLERANCE) -> Compatibility:
    """Classifies one pair of tables [I, J]; `tolerance` in nats.

    Raises:
      AnalysisError: when the tables carry batch axes.
    """
    if len(tables.shape) != 2:
        raise AnalysisError(f"compatibility judges one table [I, J] at a time. Got {tables.shape}.")
    positive_a = np.isfinite(tables.log_a_given_b)
    positive_b = np.isfinite(tables.log_b_given_a)
    differs = positive_a != positive_b
    if differs.any():
        i, j = (int(k) for k in np.argwhere(differs)[0])
        zero, other = ("a_given_b", "b_given_a") if positive_b[i, j] else ("b_given_a", "a_given_b")
        return Compatibility(
            Status.INCOMPATIBLE,
            f"the zero patterns differ in {int(differs.sum())} cell(s): {zero}[{i}][{j}] is zero "
            f"and {other}[{i}][{j}] is not, which no joint distribution allows",
            joint_exists=False, unique=False, blocks=components(positive_a | positive_b)[0],
            misfit=float("nan"),
        )  # fmt: skip
    blocks = components(positive_a)[0]
    misfit = _misfit(tables, positive_a)
    if misfit > tolerance:
        return Compatibility(
            Status.INCOMPATIBLE,
            f"no joint distribution has both conditionals: they disagree by {misfit:.6g} nats "
            f"around a cycle of words (tolerance {tolerance:g})",
            joint_exists=False, unique=False, blocks=blocks, misfit=misfit,
        )  # fmt: skip
    if blocks > 1:
        return Compatibility(
            Status.NOT_UNIQUE,
            f"the positive cells fall into {blocks} blocks that share no word, so the conditionals "
            "do not say how much weight each block has; the distributions with both positions "
            "masked do",
            joint_exists=True, unique=False, blocks=blocks, misfit=misfit,
        )  # fmt: skip
    if not positive_a.all():
        return Compatibility(
            Status.UNDEFINED,
            f"{int((~positive_a).sum())} cell(s) are zero in both tables, so cross-ratios through "
            "them are undefined; on the positive cells one joint distribution fits",
            joint_exists=True, unique=True, blocks=blocks, misfit=misfit,
        )  # fmt: skip
    return Compatibility(
        Status.COMPATIBLE, "one joint distribution has both conditionals",
        joint_exists=True, unique=True, blocks=blocks, misfit=misfit,
    )  # fmt: skip


def compatibility_score(tables: PairTables) -> np.ndarray:
    """Mean over cells of (log C_ij + log C_.. - log C_i. - log C_.j)^2, C = p(a|b)/p(b|a), [...].

    Nats squared; 0 exactly for compatible positive tables; NaN where a cell is zero. Dots are
    sums. It depends on the normalisers, so a subset of the vocabulary has another score.
    """
    ratio = -log_conditional_ratio(tables)
    residual = (
        ratio + log_sum_exp(ratio, (-2, -1)) - log_sum_exp(ratio, -1) - log_sum_exp(ratio, -2)
    )
    return np.mean(residual**2, axis=(-2, -1))


def _misfit(tables: PairTables, support: np.ndarray) -> float:
    if not support.any():
        return 0.0
    if support.all():
        return float(np.nan_to_num(summarize_cross_ratio(tables).max_abs))
    ratio = np.where(support, -log_conditional_ratio(tables), 0.0)
    u, v = potentials(ratio, support)
    rest = np.where(support, ratio - u[:, None] - v[None, :], 0.0)
    return float(np.abs(rest).max())
