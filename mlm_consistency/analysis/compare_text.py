"""A comparison as JSON values and as tables: one of entrants, one of differences."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from mlm_consistency.analysis import statistics
from mlm_consistency.analysis.compare import FIGURES, Comparison
from mlm_consistency.analysis.entrants import Entrant
from mlm_consistency.analysis.text_tables import (
    TextTable,
    p_value,
    percent,
    percent_interval,
)


def _figures(entrant: Entrant, level: float) -> dict[str, Any]:
    """Figure -> {value, interval}: bootstrap over examples; exact binomial for recorded counts.

    The gain of recorded counts has none: which examples were gained is not known.
    """
    baseline, ensemble, apart = entrant.figures.T
    columns = dict(zip(FIGURES, (baseline, ensemble, ensemble - baseline, apart), strict=True))
    if entrant.keys:
        bounds = {
            name: interval.tolist()
            for name, interval in statistics.named_intervals(columns, level).items()
        }
    else:
        bounds = {
            name: list(statistics.binomial_interval(int(column.sum()), len(column), level))
            for name, column in columns.items()
            if name != "gain"
        }
    return {
        name: {"value": float(column.mean()), "interval": bounds.get(name)}
        for name, column in columns.items()
    }


def to_dict(comparison: Comparison) -> dict[str, Any]:
    """The comparison as JSON values."""
    return {
        "schema": 1,
        "level": comparison.level,
        "token_reduction": comparison.token_reduction,
        "reduction": comparison.reduction,
        "entrants": [
            {
                "name": entrant.name,
                "n": entrant.examples,
                "lost": entrant.lost,
                "conditionals": entrant.conditionals,
                **_figures(entrant, comparison.level),
                "curve": [
                    {"conditionals": m + 1, "accuracy": accuracy, "disagreement": apart}
                    for m, (accuracy, apart) in enumerate(
                        zip(entrant.accuracy, entrant.disagreement, strict=True)
                    )
                ],
            }
            for entrant in comparison.entrants
        ],
        "differences": [
            {**dataclasses.asdict(row), "n": list(row.n), "interval": list(row.interval)}
            for row in comparison.differences
        ],
    }


def entrants_table(comparison: Comparison) -> TextTable:
    """A row an entrant: n, conditionals, and each figure in percent with its interval."""
    heads = ["", "n", "lost", "conditionals"]
    for figure in FIGURES:
        heads += [f"{figure} %", "interval"]
    rows = []
    for entrant in comparison.entrants:
        cells = [entrant.name, str(entrant.examples), str(entrant.lost), str(entrant.conditionals)]
        for figure in _figures(entrant, comparison.level).values():
            cells += [percent(figure["value"]), percent_interval(figure["interval"])]
        rows.append(tuple(cells))
    return TextTable(tuple(heads), tuple(rows))


def differences_table(comparison: Comparison) -> TextTable:
    """A row for each pair and figure: second - first in points, interval, test, and what paired."""
    heads = ("second - first", "figure", "difference", "interval", "p", "p (Holm)", "n", "test")
    rows = []
    for row in comparison.differences:
        test = "paired" if row.paired else "not paired"
        rows.append(
            (
                f"{row.second} - {row.first}",
                row.figure,
                percent(row.value),
                percent_interval(row.interval),
                p_value(row.p_value),
                p_value(row.p_value_holm),
                " + ".join(map(str, row.n)),
                f"{test}: {row.reason}" if row.reason else test,
            )
        )
    return TextTable(heads, tuple(rows))


def curves(comparison: Comparison) -> dict[str, dict[str, np.ndarray]]:
    """Entrant -> {conditionals, accuracy, disagreement}: what a figure draws."""
    return {
        entrant.name: {
            "conditionals": np.arange(1, len(entrant.accuracy) + 1),
            "accuracy": np.array(entrant.accuracy),
            "disagreement": np.array(entrant.disagreement),
        }
        for entrant in comparison.entrants
    }
