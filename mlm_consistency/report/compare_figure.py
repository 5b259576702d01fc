"""The figure of a comparison: accuracy and disagreement of each entrant as conditionals join."""

from __future__ import annotations

from typing import Any

from mlm_consistency.analysis.compare import Comparison
from mlm_consistency.analysis.compare_text import curves
from mlm_consistency.report.figures import styled_figure

# Okabe and Ito; shapes and dashes tell the lines apart without colour.
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
_MARKS = "osD^vPX"
_DASHES = ("-", "--", "-.", ":")


def comparison_figure(comparison: Comparison) -> Any:
    """A matplotlib figure of two panels, a line an entrant; `figures.render` makes files of it."""
    lines = curves(comparison)

    def draw(figure: Any) -> None:
        panels = figure.subplots(1, 2)
        most = 1
        for number, (name, curve) in enumerate(lines.items()):
            style: dict[str, Any] = {
                "color": _COLOURS[number % len(_COLOURS)],
                "marker": _MARKS[number % len(_MARKS)],
                "linestyle": _DASHES[number // len(_COLOURS) % len(_DASHES)],
                "markersize": 3.5,
            }
            most = max(most, len(curve["conditionals"]))
            for axes, quantity in zip(panels, ("accuracy", "disagreement"), strict=True):
                axes.plot(curve["conditionals"], 100 * curve[quantity], label=name, **style)
        for axes, quantity in zip(panels, ("accuracy", "disagreement"), strict=True):
            axes.set_xlabel("number of conditionals")
            axes.set_ylabel(f"{quantity} (%)")
            axes.set_xticks(range(1, most + 1))
            axes.grid(axis="y")
            axes.set_axisbelow(True)
        handles, names = panels[0].get_legend_handles_labels()
        figure.legend(handles, names, loc="outside lower center", ncols=min(3, len(names)))

    return styled_figure(6.4, 2.4 + 0.17 * -(-len(lines) // 3), draw)
