"""The figures of a bigrams page as Vega-Lite specifications; see `charts`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt

from mlm_consistency.report.charts import Rows, number_tooltip, specification

QUANTITIES = ("order |d|", "cross-ratio |D|")


def threshold_histogram(
    histogram: Mapping[str, Any], thresholds: Sequence[float], title: str, colour_index: int
) -> dict[str, Any]:
    """Pairs counted by |d| or |D|, with a dashed line at each threshold.

    Args:
      histogram: edges [n + 1] in nats, counts [n].
      title: of the axis, with its unit.
      colour_index: place in the theme's palette.
    """
    edges, counts = histogram["edges"], histogram["counts"]
    bins = [
        {"low": low, "high": high, "n": n}
        for low, high, n in zip(edges[:-1], edges[1:], counts, strict=True)
    ]
    tooltip = [
        number_tooltip("low", "from", 3),
        number_tooltip("high", "to", 3),
        alt.Tooltip("n:Q", title="pairs", format=",d"),
    ]
    x = alt.X("low:Q", title=title, bin="binned", axis=alt.Axis(grid=False, tickCount=6))
    bars = (
        alt.Chart(alt.Data(values=bins))
        .mark_bar(binSpacing=1, color={"expr": f"palette[{colour_index}]"})
        .encode(
            x=x,
            x2="high:Q",
            y=alt.Y("n:Q", title="pairs", axis=alt.Axis(tickMinStep=1)),
            tooltip=tooltip,
        )
    )
    lines = (
        alt.Chart(alt.Data(values=[{"low": limit} for limit in thresholds]))
        .mark_rule(strokeDash=[4, 3], strokeWidth=1.2)
        .encode(x=alt.X("low:Q", title=title))
    )
    return specification(alt.layer(bars, lines).properties(height=220), f"Pairs by {title}")


def group_chart(rows: Rows, title: str, level: str) -> dict[str, Any]:
    """Mean |d| and |D| of groups of pairs, with intervals, the two side by side in each group.

    Args:
      rows: dicts of group, quantity (of `QUANTITIES`), mean, low, high (nats), n.
      title: what the groups are.
      level: of the intervals, "95 %".
    """
    groups = list(dict.fromkeys(row["group"] for row in rows))
    base = alt.Chart(alt.Data(values=list(rows)))
    x = alt.X("group:N", sort=groups, title=title, axis=alt.Axis(labelAngle=0, labelLimit=90))
    place = alt.XOffset("quantity:N", sort=list(QUANTITIES))
    legend = alt.Legend(title=None, orient="top")
    colour = alt.Color(
        "quantity:N",
        scale=alt.Scale(domain=list(QUANTITIES)),
        legend=legend,
    )
    axis = f"mean (nats), with {level} interval"
    tooltip = [
        alt.Tooltip("group:N", title=title),
        alt.Tooltip("quantity:N", title="figure"),
        number_tooltip("mean", "mean (nats)", 3),
        number_tooltip("low", "interval from", 3),
        number_tooltip("high", "to", 3),
        alt.Tooltip("n:Q", title="pairs", format=",d"),
    ]
    layers = [
        base.mark_rule(strokeWidth=2).encode(
            x=x, xOffset=place, color=colour, y=alt.Y("low:Q", title=axis), y2="high:Q"
        ),
        base.mark_point(filled=True, size=64, opacity=1).encode(
            x=x,
            xOffset=place,
            color=colour,
            y=alt.Y("mean:Q", title=axis, scale=alt.Scale(zero=True)),
            shape=alt.Shape(
                "quantity:N",
                scale=alt.Scale(domain=list(QUANTITIES), range=["circle", "square"]),
                legend=legend,
            ),
            tooltip=tooltip,
        ),
    ]
    return specification(alt.layer(*layers).properties(height=220), f"{axis} by {title}")
