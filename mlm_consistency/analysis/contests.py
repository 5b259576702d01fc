"""ConTestS statistics: order inconsistency of many pairs, by entropy quartile.

d = log j1 - log j2 of adjacent tokens (`order_test`), one value a pair, in nats
(*ConTestS: a Framework for Consistency Testing of Span Probabilities*, arXiv 2409.19984).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.stats import rankdata, wilcoxon

from mlm_consistency.errors import AnalysisError

QUARTILES = (0.25, 0.5, 0.75)


@dataclass(frozen=True)
class PairedTest:
    """Wilcoxon signed-rank test of log j1 against log j2, two-sided; pairs with d = 0 are left out.

    statistic is the smaller sum of ranks; p_value None with a reason when nothing can be tested.
    effect is the matched-pairs rank-biserial correlation, in [-1, 1]; positive: j1 is larger.
    """

    n: int
    statistic: float | None
    p_value: float | None
    effect: float | None
    reason: str | None = None


@dataclass(frozen=True)
class OrderStatistics:
    """n pairs; mean, mean_abs (nats), sample variance (nats squared, None below 2 pairs), share
    of pairs with d > 0, and the paired test."""

    n: int
    mean: float | None
    mean_abs: float | None
    variance: float | None
    share_positive: float | None
    test: PairedTest


@dataclass(frozen=True)
class EntropyQuartile:
    """Pairs with low < entropy <= high (the first also holds its low end), nats."""

    low: float
    high: float
    statistics: OrderStatistics


@dataclass(frozen=True)
class Contests:
    """All pairs together, and by quartile of the entropy (empty when none was given)."""

    overall: OrderStatistics
    quartiles: tuple[EntropyQuartile, ...]
    lost: int


def contests(d: np.ndarray, entropy: np.ndarray | None = None) -> Contests:
    """ConTestS statistics of d [N], with entropy [N] (nats) if the quartiles are wanted.

    Pairs whose d or entropy is not finite are left out and counted in `lost`.

    Raises:
      AnalysisError: when the two have different lengths.
    """
    d = np.asarray(d, dtype=np.float64).reshape(-1)
    keep = np.isfinite(d)
    if entropy is not None:
        entropy = np.asarray(entropy, dtype=np.float64).reshape(-1)
        if entropy.shape != d.shape:
            raise AnalysisError(f"one entropy a pair is needed. Got {entropy.size} for {d.size}.")
        keep &= np.isfinite(entropy)
    kept = d[keep]
    quartiles: tuple[EntropyQuartile, ...] = ()
    if entropy is not None and kept.size:
        spread = entropy[keep]
        edges = np.quantile(spread, QUARTILES)
        group = np.searchsorted(edges, spread, side="left")
        bounds = [spread.min(), *edges, spread.max()]
        quartiles = tuple(
            EntropyQuartile(float(bounds[k]), float(bounds[k + 1]), statistics(kept[group == k]))
            for k in range(4)
        )
    return Contests(statistics(kept), quartiles, int(d.size - kept.size))


def statistics(d: np.ndarray) -> OrderStatistics:
    """The figures of `OrderStatistics` for finite d [N]; undefined ones are None."""
    n = int(d.size)
    return OrderStatistics(
        n=n,
        mean=float(d.mean()) if n else None,
        mean_abs=float(np.abs(d).mean()) if n else None,
        variance=float(d.var(ddof=1)) if n > 1 else None,
        share_positive=float((d > 0).mean()) if n else None,
        test=paired_test(d),
    )


def paired_test(d: np.ndarray) -> PairedTest:
    """Wilcoxon signed-rank test of the differences d [N]."""
    nonzero = d[d != 0]
    if not nonzero.size:
        return PairedTest(0, None, None, None, "no pair has a difference other than zero")
    found = wilcoxon(nonzero)
    ranks = nonzero.size * (nonzero.size + 1) / 2
    positive = float(rankdata(np.abs(nonzero))[nonzero > 0].sum())
    return PairedTest(
        int(nonzero.size), float(found.statistic), float(found.pvalue),
        (2 * positive - ranks) / ranks,
    )  # fmt: skip
