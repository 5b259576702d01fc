"""What the figures draw, in percent, from one task's part of summary.json.

The interactive figures of the page (charts.py) and the printed ones (figures.py) draw these same
rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mlm_consistency.report.task_tables import reduction_name

Summary = Mapping[str, Any]


def _bounds(interval: Any) -> dict[str, float]:
    return {"low": 100 * interval[0], "high": 100 * interval[1]}


def accuracies(summary: Summary) -> list[dict[str, Any]]:
    """Rows of name, kind, n, accuracy, low, high: conditionals in the run's order, ensembles."""
    parts = [("conditional", name, entry) for name, entry in summary["conditionals"].items()]
    if len(parts) > 1:
        parts += [
            ("ensemble", reduction_name(name), entry)
            for name, entry in summary["ensembles"].items()
        ]
    return [
        {
            "name": name,
            "kind": kind,
            "n": entry["n"],
            "accuracy": 100 * entry["accuracy"],
            **_bounds(entry["interval"]),
        }
        for kind, name, entry in parts
    ]


def curve(summary: Summary, quantity: str) -> list[dict[str, Any]]:
    """Rows of conditionals, value, low, high for "accuracy" or "disagreement"."""
    return [
        {
            "conditionals": entry["conditionals"],
            "value": 100 * entry[quantity],
            **_bounds(entry[f"{quantity}_interval"]),
        }
        for entry in summary["curve"]
    ]


def pairwise(summary: Summary) -> list[dict[str, Any]]:
    """Rows of first, second, disagreement, n for every ordered pair of different conditionals."""
    return [
        {"first": first, "second": second, "disagreement": 100 * share, "n": summary["common"]}
        for first, others in summary["pairwise_disagreement"].items()
        for second, share in others.items()
        if first != second
    ]
