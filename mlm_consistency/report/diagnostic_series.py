"""What the figures of a task's diagnostics draw, from its part of summary.json."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Summary = Mapping[str, Any]
SIGNALS = {
    "agreement": "share of conditionals with the ensemble’s answer",
    "pooled": "mean probability of the ensemble’s answer",
    "baseline": "the baseline alone",
}
PARTS = {"agree": "answers agree", "disagree": "answers differ"}


def vocabulary_pairs(summary: Summary) -> list[dict[str, Any]]:
    """Rows of first, second, divergence (thousandths of a nat), n for every ordered pair."""
    figures = summary["first_tokens"]
    return [
        {"first": first, "second": second, "divergence": 1000 * pair["js"], "n": figures["n"]}
        for first, others in figures["pairs"].items()
        for second, pair in others.items()
        if first != second
    ]


def vocabulary_histogram(summary: Summary) -> list[dict[str, Any]]:
    """Rows of low, high (nats), part, n."""
    histogram = summary["first_tokens"]["histogram"]
    edges = histogram["edges"]
    return [
        {"low": low, "high": high, "part": said, "n": n}
        for part, said in PARTS.items()
        for low, high, n in zip(edges[:-1], edges[1:], histogram[part], strict=True)
        if n
    ]


def selective(summary: Summary) -> list[dict[str, Any]]:
    """Rows of signal, coverage, accuracy, low, high (percent), n."""
    return [
        {
            "signal": SIGNALS[name],
            "coverage": 100 * point["coverage"],
            "accuracy": 100 * point["accuracy"],
            "low": 100 * point["interval"][0],
            "high": 100 * point["interval"][1],
            "n": point["n"],
        }
        for name, signal in summary["confidence"]["signals"].items()
        for point in signal["selective"]
        # The first few answers are right or wrong by luck: their interval is all of the axis.
        if point["n"] >= min(10, signal["n"])
    ]
