"""Models side by side by their pairs of words: BERT against T5 in one table.

Two models are paired on the pairs that both were asked about (the same text, the same two words):
paired bootstrap and Wilcoxon's signed-rank test of |d| and |D|. Where they share fewer than
`FEWEST`, the difference is not paired, and said so: independent resamples, Mann and Whitney's
test. D is over the true words and each model's own proposals, so its words may differ.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy import stats

from mlm_consistency.analysis import statistics
from mlm_consistency.analysis.bigrams import LEVEL, THRESHOLDS, read_pairs
from mlm_consistency.analysis.text_tables import TextTable, p_value, percent
from mlm_consistency.errors import AnalysisError

FEWEST = 10
FIGURES = {"order": "order |d|", "cross_ratio": "cross-ratio |D|"}
Entry = tuple[str, Mapping[str, Any], Sequence[Mapping[str, Any]]]


def compare_bigrams(entries: Sequence[Entry], resamples: int = 2000, seed: int = 0) -> dict:
    """JSON values: `entrants` (figures of each) and `differences` (each pair, each figure).

    Args:
      entries: (label, content of bigrams.json, content of tables.json) of each model.

    Raises:
      AnalysisError: for fewer than two.
    """
    if len(entries) < 2:
        raise AnalysisError(f"two or more are compared, got {len(entries)}")
    values = [_values(cases) for _, _, cases in entries]
    found = []
    for (one, first), (other, second) in itertools.combinations(enumerate(entries), 2):
        shared = sorted(values[one].keys() & values[other].keys())
        for number, figure in enumerate(FIGURES):
            sides = [
                np.array([v[key][number] for key in (shared if len(shared) >= FEWEST else v)])
                for v in (values[one], values[other])
            ]
            row = _difference(sides, len(shared) >= FEWEST, len(shared), resamples, seed)
            found.append({"first": first[0], "second": second[0], "figure": figure, **row})
    adjusted = statistics.holm(np.array([row["p_value"] for row in found]))
    for row, p in zip(found, adjusted, strict=True):
        row["p_value_holm"] = float(p)
    return {
        "schema": 1,
        "level": LEVEL,
        "entrants": [
            {
                "name": label, "text": summary["text"],
                **{key: summary[key] for key in ("counts", *FIGURES, "joints", "preferences")},
            }
            for label, summary, _ in entries
        ],
        "differences": found,
    }  # fmt: skip


def _values(cases: Sequence[Mapping[str, Any]]) -> dict[tuple[Any, ...], tuple[float, float]]:
    """(text, where the words are) -> (|d|, |D|) of each pair."""
    pairs = read_pairs(cases)
    sizes = zip(np.abs(pairs.order), pairs.cross_ratio, strict=True)
    return {
        (case["text"], tuple(map(tuple, case["spans"] or [])), tuple(case["words"])): (d, largest)
        for case, (d, largest) in zip(cases, sizes, strict=True)
    }


def _difference(
    sides: Sequence[np.ndarray], paired: bool, shared: int, resamples: int, seed: int
) -> dict[str, Any]:
    """second - first of the means (nats), its interval and test; values not finite are left out."""
    first, second = sides
    if paired:
        known = np.isfinite(first) & np.isfinite(second)
        apart = second[known] - first[known]
        interval = statistics.bootstrap_intervals(apart[:, None], LEVEL, resamples, seed)[0]
        changed = apart[apart != 0]
        p = float(stats.wilcoxon(changed).pvalue) if changed.size else 1.0
        value, n, reason = float(apart.mean()), [len(apart)], ""
    else:
        first, second = first[np.isfinite(first)], second[np.isfinite(second)]
        drawn = [
            statistics.resampled_means(side[:, None], resamples, seed + k)
            for k, side in enumerate((first, second))
        ]
        interval = statistics.percentile_intervals(drawn[1] - drawn[0], LEVEL)[0]
        p = float(stats.mannwhitneyu(first, second).pvalue)
        value, n = float(second.mean() - first.mean()), [len(first), len(second)]
        reason = f"{shared} pairs in common, {FEWEST} are needed"
    return {
        "value": value, "interval": interval.tolist(), "p_value": p, "n": n, "paired": paired,
        "reason": reason,
    }  # fmt: skip


def entrants_table(comparison: Mapping[str, Any]) -> TextTable:
    """A row a model: mean |d| and |D| with intervals (nats), shares above the thresholds."""
    heads = ["", "pairs"]
    for title in FIGURES.values():
        heads += [f"{title} nats", "interval", *(f">{x:g} %" for x in THRESHOLDS)]
    rows = []
    for entrant in comparison["entrants"]:
        cells = [entrant["name"], str(entrant["counts"]["pairs"])]
        for key in FIGURES:
            figures = entrant[key]
            cells += [_nats(figures["mean_abs"]), _interval(figures["interval"])]
            cells += [percent(figures[f"above_{x:g}"], 1) for x in THRESHOLDS]
        rows.append(tuple(cells))
    return TextTable(tuple(heads), tuple(rows))


def differences_table(comparison: Mapping[str, Any]) -> TextTable:
    """A row for each two models and figure: second - first (nats), interval, test."""
    heads = ("second - first", "figure", "nats", "interval", "p", "p (Holm)", "n", "test")
    rows = []
    for row in comparison["differences"]:
        test = "paired" if row["paired"] else f"not paired: {row['reason']}"
        rows.append(
            (
                f"{row['second']} - {row['first']}", FIGURES[row["figure"]], _nats(row["value"]),
                _interval(row["interval"]), p_value(row["p_value"]), p_value(row["p_value_holm"]),
                " + ".join(map(str, row["n"])), test,
            )
        )  # fmt: skip
    return TextTable(heads, tuple(rows))


def _nats(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _interval(bounds: Sequence[float] | None) -> str:
    return "-" if bounds is None else f"[{bounds[0]:.3f}, {bounds[1]:.3f}]"
