"""The page's interactive figures as Vega-Lite specifications, made with Altair.

Each function takes plain rows (percent, not shares) and returns a specification as a dict with
its data inside. Colours of axes and text are left to the page, which draws every figure once a
theme; series take theirs from the theme's palette by order, and differ in shape too.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt

Rows = Sequence[Mapping[str, Any]]


def number_tooltip(field: str, title: str, digits: int = 1) -> alt.Tooltip:
    """A hover value with that many decimals."""
    return alt.Tooltip(field, type="quantitative", title=title, format=f".{digits}f")


def specification(chart: Any, description: str) -> dict[str, Any]:
    """The chart as a dict, as wide as its place, without a theme of its own."""
    made = chart.properties(width="container", description=description)
    # Through JSON once, so that the dict holds nothing but JSON and key order is settled.
    held = json.loads(made.to_json(sort_keys=True, indent=None))
    del held["config"]  # the page's theme takes its place
    return held


def _percent_scale(rows: Rows, fields: Sequence[str]) -> alt.Scale:
    """A scale that shows every interval whole, with a margin, and stays within 0 to 100."""
    values = [row[field] for row in rows for field in fields]
    margin = max(2.0, 0.06 * (max(values) - min(values)))
    return alt.Scale(
        domain=[max(0.0, min(values) - margin), min(100.0, max(values) + margin)],
        nice=True,
        zero=False,
    )


def accuracy_chart(rows: Rows, level: str) -> dict[str, Any]:
    """Accuracy with its interval for every conditional and every ensemble.

    Args:
      rows: dicts of name, kind ("conditional" or "ensemble"), n, accuracy, low, high (percent).
        The first is the baseline; a line at its accuracy makes the others comparable.
      level: of the intervals, "95 %".
    """
    base = alt.Chart(alt.Data(values=list(rows)))
    names = [row["name"] for row in rows]
    y = alt.Y("name:N", sort=names, title=None, axis=alt.Axis(labelLimit=170))
    scale = _percent_scale(rows, ["accuracy", "low", "high"])
    title = f"accuracy (%), with {level} interval"
    x = alt.X("accuracy:Q", title=title, scale=scale)
    kinds = ["conditional", "ensemble"]
    colour = alt.Color(
        "kind:N",
        scale=alt.Scale(domain=kinds),
        legend=alt.Legend(title=None, orient="top", symbolType="circle"),
    )
    tooltip = [
        alt.Tooltip("name:N", title="name"),
        number_tooltip("accuracy", "accuracy (%)"),
        number_tooltip("low", "interval from"),
        number_tooltip("high", "to"),
        alt.Tooltip("n:Q", title="n (examples)", format=",d"),
    ]
    baseline = alt.Chart(alt.Data(values=[{"baseline": rows[0]["accuracy"]}]))
    layers = [
        baseline.mark_rule(strokeDash=[3, 3], opacity=0.7).encode(
            x=alt.X("baseline:Q", scale=scale, title=title)
        ),
        base.mark_rule(strokeWidth=2).encode(
            y=y, x=alt.X("low:Q", scale=scale, title=title), x2="high:Q", color=colour
        ),
        base.mark_point(filled=True, size=64, opacity=1).encode(
            y=y,
            x=x,
            color=colour,
            shape=alt.Shape("kind:N", scale=alt.Scale(domain=kinds, range=["circle", "diamond"])),
            tooltip=tooltip,
        ),
    ]
    chart = alt.layer(*layers).properties(height=20 * len(rows))
    return specification(chart, f"Accuracy of {len(rows)} conditionals and ensembles in percent")


def curve_chart(rows: Rows, quantity: str, colour_index: int) -> dict[str, Any]:
    """One curve against the number of conditionals, averaged over all subsets, with its interval.

    Args:
      rows: dicts of conditionals, value, low, high (percent).
      quantity: "accuracy" or "disagreement", as the axis says.
      colour_index: place in the theme's palette.
    """
    base = alt.Chart(alt.Data(values=list(rows)))
    scale = _percent_scale(rows, ["value", "low", "high"])
    most = max((int(row["conditionals"]) for row in rows), default=1)
    x = alt.X(
        "conditionals:Q",
        title="number of conditionals (baseline among them)",
        axis=alt.Axis(tickMinStep=1, values=list(range(1, most + 1)), format="d", grid=False),
        scale=alt.Scale(domain=[1, max(most, 2)], nice=False, padding=8),
    )
    title = f"{quantity} (%)"
    y = alt.Y("value:Q", title=title, scale=scale)
    colour = {"expr": f"palette[{colour_index}]"}
    tooltip = [
        alt.Tooltip("conditionals:Q", title="conditionals", format="d"),
        number_tooltip("value", f"{quantity} (%)", 2),
        number_tooltip("low", "interval from", 2),
        number_tooltip("high", "to", 2),
    ]
    shape = ["circle", "square"][colour_index % 2]
    layers = [
        base.mark_area(opacity=0.18, color=colour).encode(
            x=x, y=alt.Y("low:Q", scale=scale, title=title), y2="high:Q"
        ),
        base.mark_line(strokeWidth=2, color=colour).encode(x=x, y=y),
        base.mark_point(filled=True, size=58, opacity=1, color=colour, shape=shape).encode(
            x=x, y=y, tooltip=tooltip
        ),
    ]
    chart = alt.layer(*layers).properties(height=240)
    return specification(chart, f"{quantity} in percent against the number of conditionals")


def pairwise_chart(
    rows: Rows, names: Sequence[str], quantity: str = "disagreement", unit: str = "%"
) -> dict[str, Any]:
    """The matrix of pairwise disagreement, or of another quantity, between conditionals.

    Args:
      rows: dicts of first, second, the quantity, n, for every ordered pair.
      names: the conditionals in the run's order.
      quantity: the rows' key, and what the legend says.
      unit: of the quantity.
    """
    title = f"{quantity} ({unit})"
    base = alt.Chart(alt.Data(values=list(rows))).encode(
        x=alt.X(
            "second:N",
            sort=list(names),
            title=None,
            axis=alt.Axis(labelAngle=-45, labelLimit=120, orient="bottom"),
        ),
        y=alt.Y("first:N", sort=list(names), title=None, axis=alt.Axis(labelLimit=120)),
    )
    tooltip = [
        alt.Tooltip("first:N", title="conditional"),
        alt.Tooltip("second:N", title="against"),
        number_tooltip(quantity, title),
        alt.Tooltip("n:Q", title="n (examples)", format=",d"),
    ]
    most = max((row[quantity] for row in rows), default=0.0) or 1.0
    cells = base.mark_rect().encode(
        color=alt.Color(
            f"{quantity}:Q",
            scale=alt.Scale(domain=[0, most], range="heatmap"),
            legend=alt.Legend(title=title, orient="top", gradientLength=160),
        ),
        tooltip=tooltip,
    )
    words = base.mark_text(fontSize=10).encode(
        text=alt.Text(f"{quantity}:Q", format=".0f"),
        color=alt.when(f"datum.{quantity} > {0.55 * most}")
        .then(alt.value({"expr": "inkOnHeat"}))
        .otherwise(alt.value({"expr": "inkOnPale"})),
    )
    layers = [cells, words] if len(names) <= 16 else [cells]
    chart = alt.layer(*layers).properties(height=24 * len(names))
    return specification(chart, f"Pairwise {quantity} between conditionals, {unit}")


def histogram_chart(rows: Rows, title: str) -> dict[str, Any]:
    """Examples counted by a quantity, those on which the answers agree and the others stacked.

    Args:
      rows: dicts of low, high (edges), part ("answers agree" or "answers differ"), n.
      title: of the axis, with its unit.
    """
    tooltip = [
        number_tooltip("low", "from", 3),
        number_tooltip("high", "to", 3),
        alt.Tooltip("part:N", title="examples"),
        alt.Tooltip("n:Q", title="n", format=",d"),
    ]
    parts = ["answers agree", "answers differ"]
    chart = (
        alt.Chart(alt.Data(values=list(rows)))
        .mark_bar(binSpacing=1)
        .encode(
            x=alt.X("low:Q", title=title, bin="binned", axis=alt.Axis(grid=False, tickCount=6)),
            x2="high:Q",
            y=alt.Y("sum(n):Q", title="examples", stack=True, axis=alt.Axis(tickMinStep=1)),
            color=alt.Color(
                "part:N",
                scale=alt.Scale(domain=parts),
                legend=alt.Legend(title=None, orient="top", symbolType="square"),
            ),
            tooltip=tooltip,
        )
        .properties(height=240)
    )
    return specification(chart, "Examples counted by how far their conditionals are apart")


def selective_chart(rows: Rows) -> dict[str, Any]:
    """Accuracy over the most confident answers against their share, a line a confidence.

    Args:
      rows: dicts of signal, coverage, accuracy, low, high (percent), n, in order of coverage.
    """
    base = alt.Chart(alt.Data(values=list(rows)))
    names = list(dict.fromkeys(row["signal"] for row in rows))
    shown = [row["accuracy"] for row in rows] or [0.0, 100.0]
    x = alt.X(
        "coverage:Q",
        title="answers kept, the most confident first (%)",
        scale=alt.Scale(domain=[0, 100], nice=False),
        axis=alt.Axis(grid=False),
    )
    y = alt.Y(
        "accuracy:Q",
        title="accuracy among them (%)",
        scale=alt.Scale(
            domain=[max(0.0, min(shown) - 3), min(100.0, max(shown) + 3)], nice=True, zero=False
        ),
    )
    told_by: dict[str, Any] = {
        "scale": alt.Scale(domain=names),
        "legend": alt.Legend(title=None, orient="top", columns=1, labelLimit=300),
    }
    encoded = base.encode(x=x, y=y, color=alt.Color("signal:N", **told_by), detail="signal:N")
    tooltip = [
        alt.Tooltip("signal:N", title="confidence"),
        number_tooltip("coverage", "answers kept (%)"),
        number_tooltip("accuracy", "accuracy (%)"),
        number_tooltip("low", "interval from"),
        number_tooltip("high", "to"),
        alt.Tooltip("n:Q", title="n (examples)", format=",d"),
    ]
    layers = [
        encoded.mark_line(strokeWidth=2).encode(strokeDash=alt.StrokeDash("signal:N", **told_by)),
        encoded.mark_point(filled=True, size=26, opacity=0.75).encode(tooltip=tooltip),
    ]
    chart = alt.layer(*layers).properties(height=240)
    return specification(chart, "Accuracy against the share of answers kept")
