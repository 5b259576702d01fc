"""Comparisons with the baseline that follow from a summary's counts: differences and intervals."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from mlm_consistency.analysis.statistics import binomial_interval, bootstrap_intervals

Summary = Mapping[str, Any]


@dataclass(frozen=True)
class Gain:
    """An ensemble's accuracy minus the baseline's on the same n examples, with its interval."""

    baseline: float
    ensemble: float
    difference: float
    interval: tuple[float, float]
    p_value: float
    n: int

    @property
    def beyond_chance(self) -> bool:
        """Whether the interval leaves out 0 and the test agrees at 0.05."""
        low, high = self.interval
        return (low > 0 or high < 0) and self.p_value < 0.05


def gain_of(summary: Summary, reduction: str) -> Gain:
    """What an ensemble changes.

    The difference's interval is the bootstrap over examples, as for every other figure: an example
    counts 1 where the ensemble alone is right, -1 where the baseline alone is, else 0, so that the
    counts that the summary holds are all that it takes.
    """
    entry = summary["ensembles"][reduction]
    n, gained, forfeited = entry["n"], entry["gained"], entry["forfeited"]
    settings = summary["level"], summary["resamples"], summary["seed"]
    return Gain(
        baseline=next(iter(summary["conditionals"].values()))["accuracy"],
        ensemble=entry["accuracy"],
        difference=(gained - forfeited) / n,
        interval=_change_interval(gained, forfeited, n, *settings),
        p_value=entry["p_value"],
        n=n,
    )


@functools.cache
def _change_interval(
    gained: int, forfeited: int, n: int, level: float, resamples: int, seed: int
) -> tuple[float, float]:
    change = np.repeat([1.0, -1.0, 0.0], [gained, forfeited, n - gained - forfeited])
    low, high = bootstrap_intervals(change[:, None], level, resamples, seed, reach=1)[0]
    return float(low), float(high)


def pair_disagreement(
    summary: Summary, first: str, second: str
) -> tuple[float, tuple[float, float]]:
    """Share of examples on which two conditionals differ, with its exact binomial interval."""
    share = summary["pairwise_disagreement"][first][second]
    n = summary["common"]
    return share, binomial_interval(round(share * n), n, summary["level"])


def level_of(summary: Summary) -> str:
    """The level of the intervals as it is said: "95 %"."""
    return f"{100 * summary['level']:g} %"
