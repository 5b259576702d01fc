"""What the tables of many pairs of words say together: `bigrams.json` from `tables.json`.

At each pair's true words the order test d, over all its words the largest cross-ratio D, the
ConTestS statistics of d, coherent joints by U-NLL and P-NLL, and the preference for the true first
word asked jointly and conditionally. Nats; intervals are BCa bootstrap intervals over pairs.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mlm_consistency.analysis.contests import QUARTILES, contests
from mlm_consistency.analysis.cross_ratio import summarize_cross_ratio
from mlm_consistency.analysis.divergences import pairwise_nll, unary_nll
from mlm_consistency.analysis.joints import coherent_joint, order_joints
from mlm_consistency.analysis.ngrams import summarize_preferences
from mlm_consistency.analysis.order_test import log_ratio_at, relative_difference
from mlm_consistency.analysis.pair_tables import PairTables, log_of
from mlm_consistency.analysis.statistics import bootstrap_intervals
from mlm_consistency.errors import DataError

THRESHOLDS = (0.5, 1.0, 2.0)
LEVEL = 0.95
COMPARED = ("naive", "order_mixture", "mrf_local", "hcb", "arnold_gokhale")
FINEST, MOST_BINS = 0.0625, 64  # of the histograms: nats, bins


@dataclasses.dataclass(frozen=True)
class BigramPairs:
    """N pairs of words of one model, the true words first at each position.

    Attributes:
      tables: [N, I, J], a subset of the vocabulary, with both-masked distributions.
      distance: int [N], tokens from the first word to the second.
      entropy: [N], of the two both-masked distributions over the whole vocabulary, added up.
      log_joint: [N, I, J] or None, the decoder's own joint, the first word first (T5 family).
    """

    tables: PairTables
    distance: np.ndarray
    entropy: np.ndarray
    log_joint: np.ndarray | None = None

    @property
    def order(self) -> np.ndarray:
        """d [N] at the true words."""
        t = self.tables
        a, b = t.masked("the order test")
        return log_ratio_at(a[:, 0], t.log_b_given_a[:, 0, 0], b[:, 0], t.log_a_given_b[:, 0, 0])

    @property
    def cross_ratio(self) -> np.ndarray:
        """Largest |D| [N] over the 2x2 minors of each table."""
        return summarize_cross_ratio(self.tables).max_abs


def read_pairs(cases: Sequence[Mapping[str, Any]]) -> BigramPairs:
    """The pairs in the content of a `tables.json` that `mlm-consistency bigrams` wrote.

    Raises:
      DataError: where it is not, as for tables of another origin.
    """
    needed = ("a_given_b", "b_given_a", "a_masked", "b_masked", "distance", "entropy")
    for number, case in enumerate(cases):
        for key in needed:
            if key not in case:
                raise DataError(
                    f"tables[{number}]: {key!r} is missing. Tables of another origin than "
                    "`mlm-consistency bigrams` go through `mlm-consistency diagnose`"
                )
    if not cases:
        raise DataError("tables: no pair is there")
    a_given_b, b_given_a, a_masked, b_masked = (
        log_of(np.array([case[key] for case in cases])) for key in needed[:4]
    )
    joint = None
    if "joint_ab" in cases[0]:
        joint = log_of(np.array([case["joint_ab"] for case in cases]))
    distance = np.array([case["distance"] for case in cases])
    entropy = np.array([case["entropy"] for case in cases])
    tables = PairTables(a_given_b, b_given_a, a_masked, b_masked, subset=True)
    return BigramPairs(tables, distance, entropy, joint)


def summarize_bigrams(pairs: BigramPairs) -> dict[str, Any]:
    """JSON values: order, cross_ratio (figures and histogram), by_distance, by_entropy (quartiles),
    contests, joints {name: {u_nll, p_nll}}."""
    d, largest = pairs.order, pairs.cross_ratio
    relative = relative_difference(d)
    return {
        "order": figures(d) | histogram(d) | {
            "mean_relative": float(relative.mean()), "median_relative": float(np.median(relative)),
        },
        "cross_ratio": figures(largest) | histogram(largest),
        "by_distance": {
            int(n): _both(d, largest, pairs.distance == n) for n in np.unique(pairs.distance)
        },
        "by_entropy": _quartiles(d, largest, pairs.entropy),
        "contests": dataclasses.asdict(contests(d, pairs.entropy)),
        "joints": joints(pairs),
    }  # fmt: skip


def figures(values: np.ndarray) -> dict[str, Any]:
    """n, mean of |values| with its interval, median (nats), and the shares above `THRESHOLDS`.

    Values that are not defined (NaN) are left out and counted as `lost`.
    """
    size = np.abs(values[np.isfinite(values)])
    lost = len(values) - len(size)
    if not size.size:
        none = dict.fromkeys(["mean_abs", "interval", "median_abs"])
        return {"n": 0, "lost": lost, **none, **{f"above_{x:g}": None for x in THRESHOLDS}}
    return {
        "n": len(size),
        "lost": lost,
        "mean_abs": float(size.mean()),
        "interval": bootstrap_intervals(size[:, None], LEVEL)[0].tolist(),
        "median_abs": float(np.median(size)),
        **{f"above_{limit:g}": float((size > limit).mean()) for limit in THRESHOLDS},
    }


def histogram(values: np.ndarray) -> dict[str, Any]:
    """{"histogram": {edges [n + 1], counts [n]}} of |values|; the bins end on the thresholds."""
    size = np.abs(values[np.isfinite(values)])
    width, most = FINEST, float(size.max(initial=0.0))
    while most > width * MOST_BINS:
        width *= 2
    edges = width * np.arange(max(1, int(np.ceil(most / width))) + 1)
    counts, _ = np.histogram(size, edges)
    return {"histogram": {"edges": edges.tolist(), "counts": counts.tolist()}}


def _both(d: np.ndarray, largest: np.ndarray, chosen: np.ndarray) -> dict[str, Any]:
    return {"order": figures(d[chosen]), "cross_ratio": figures(largest[chosen])}


def _quartiles(d: np.ndarray, largest: np.ndarray, entropy: np.ndarray) -> list[dict[str, Any]]:
    """By quartile of the entropy, as in `contests`: low < entropy <= high."""
    edges = np.quantile(entropy, QUARTILES)
    group = np.searchsorted(edges, entropy, side="left")
    bounds = [float(entropy.min()), *edges.tolist(), float(entropy.max())]
    return [
        {"low": bounds[k], "high": bounds[k + 1], **_both(d, largest, group == k)} for k in range(4)
    ]


def joints(pairs: BigramPairs) -> dict[str, Any]:
    """U-NLL and P-NLL (nats) of each joint at the true words, over the words that were asked for.

    "conditionals" are the model's own, which are no joint: U-NLL alone.
    """
    tables = pairs.tables.renormalized()
    own = -0.5 * (tables.log_a_given_b[:, 0, 0] + tables.log_b_given_a[:, 0, 0])
    found: dict[str, Any] = {"conditionals": {"u_nll": _mean(own), "p_nll": None}}
    for name in COMPARED:
        log = coherent_joint(name, tables)
        found[name] = {
            "u_nll": _mean(unary_nll(log, 0, 0)), "p_nll": _mean(pairwise_nll(log, 0, 0)),
        }  # fmt: skip
    return found


def _mean(values: np.ndarray) -> dict[str, Any]:
    """n, mean with its interval over the finite values, and how many are not."""
    kept = values[np.isfinite(values)]
    interval = bootstrap_intervals(kept[:, None], LEVEL)[0].tolist() if kept.size else None
    mean = float(kept.mean()) if kept.size else None
    return {"n": len(kept), "lost": len(values) - len(kept), "mean": mean, "interval": interval}


def preference(pairs: BigramPairs) -> dict[str, Any]:
    """The true first word x1 against the other one y1 before the true second word x2.

    Jointly, log p(x1, x2) - log p(y1, x2), by the decoder's own joint where there is one and
    p(x1) p(x2|x1) otherwise, against log p(x1|x2) - log p(y1|x2): equal for one joint. Keys: n,
    mean, median (nats), flips (share of opposite signs).
    """
    joint = order_joints(pairs.tables)[0] if pairs.log_joint is None else pairs.log_joint
    given = pairs.tables.log_a_given_b
    jointly, alone = (log[:, 0, 0] - log[:, 1, 0] for log in (joint, given))
    return dataclasses.asdict(summarize_preferences(jointly, alone))
