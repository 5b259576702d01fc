"""write_figures: the figures of a run as PDF, SVG and PNG for papers, drawn by matplotlib."""

from __future__ import annotations

import functools
import io
import os
from collections.abc import Callable, Mapping
from typing import Any

from etils import epath

from mlm_consistency.analysis.summary_file import read_summary
from mlm_consistency.records import storage
from mlm_consistency.report import series
from mlm_consistency.report.comparisons import level_of
from mlm_consistency.report.task_view import file_stem

# Okabe and Ito's palette, and shapes beside colours.
BLUE, VERMILLION, GREEN = "#0072b2", "#d55e00", "#009e73"
_FORMATS = ("pdf", "svg", "png")
_STYLE: Any = {
    "font.size": 8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.6,
    "grid.linewidth": 0.4,
    "grid.color": "#d8d9d4",
    "legend.frameon": False,
    "pdf.fonttype": 42,  # text stays text
    "svg.fonttype": "none",
    "svg.hashsalt": "mlm_consistency",  # the same run gives the same bytes
}
# No date: figures of the same records are the same files.
_METADATA: dict[str, dict[str, Any]] = {
    "pdf": {"CreationDate": None},
    "svg": {"Date": None},
    "png": {},
}


def _figure(width: float, height: float) -> Any:
    # A figure of its own, without pyplot: no display is asked for and nothing stays open.
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def styled_figure(width: float, height: float, draw: Callable[[Any], None]) -> Any:
    """A figure of that size in inches, drawn under this module's style and laid out once."""
    import matplotlib

    with matplotlib.rc_context(_STYLE):
        figure = _figure(width, height)
        draw(figure)
        figure.draw_without_rendering()
        figure.set_layout_engine("none")
    return figure


def _styled(draw: Callable[[Mapping[str, Any]], Any]) -> Callable[[Mapping[str, Any]], Any]:
    """Draws under this module's style, and lays the figure out once for all formats."""

    @functools.wraps(draw)
    def styled(summary: Mapping[str, Any]) -> Any:
        import matplotlib

        with matplotlib.rc_context(_STYLE):
            figure = draw(summary)
            figure.draw_without_rendering()
            figure.set_layout_engine("none")
        return figure

    return styled


@_styled
def accuracy_figure(summary: Mapping[str, Any]) -> Any:
    """Accuracy with its 95 % interval for every conditional and ensemble."""
    rows = series.accuracies(summary)
    figure = _figure(3.4, 0.19 * len(rows) + 0.7)
    axes = figure.add_subplot()
    for place, row in enumerate(rows):
        conditional = row["kind"] == "conditional"
        colour = BLUE if conditional else VERMILLION
        axes.plot([row["low"], row["high"]], [place, place], color=colour, linewidth=1.2)
        axes.plot(row["accuracy"], place, "o" if conditional else "D", color=colour, markersize=4)
    axes.axvline(rows[0]["accuracy"], color="#565e67", linestyle=(0, (3, 3)), linewidth=0.7)
    axes.set_yticks(range(len(rows)), [row["name"] for row in rows])
    axes.invert_yaxis()
    axes.grid(axis="x")
    axes.set_axisbelow(True)
    axes.set_xlabel(f"accuracy (%), {level_of(summary)} interval")
    return figure


@_styled
def curves_figure(summary: Mapping[str, Any]) -> Any:
    """Accuracy and disagreement against the number of conditionals, with intervals."""
    figure = _figure(6.4, 2.3)
    panels = figure.subplots(1, 2)
    parts = (("accuracy", BLUE, "o-"), ("disagreement", VERMILLION, "s-"))
    for axes, (quantity, colour, mark) in zip(panels, parts, strict=True):
        rows = series.curve(summary, quantity)
        numbers = [row["conditionals"] for row in rows]
        low, high = ([row[side] for row in rows] for side in ("low", "high"))
        axes.fill_between(numbers, low, high, color=colour, alpha=0.18, linewidth=0)
        axes.plot(numbers, [row["value"] for row in rows], mark, color=colour, markersize=3.5)
        axes.set_xlabel("number of conditionals")
        axes.set_ylabel(f"{quantity} (%)")
        axes.set_xticks(numbers)
        axes.grid(axis="y")
        axes.set_axisbelow(True)
    return figure


@_styled
def pairwise_figure(summary: Mapping[str, Any]) -> Any:
    """The matrix of pairwise disagreement, in percent."""
    import numpy as np
    from matplotlib.colors import LinearSegmentedColormap

    names = list(summary["conditionals"])
    place = {name: k for k, name in enumerate(names)}
    matrix = np.full((len(names), len(names)), np.nan)
    for row in series.pairwise(summary):
        matrix[place[row["first"]], place[row["second"]]] = row["disagreement"]
    figure = _figure(0.3 * len(names) + 1.5, 0.27 * len(names) + 1.1)
    axes = figure.add_subplot()
    most = float(np.nanmax(matrix)) if np.isfinite(matrix).any() else 1.0
    colours = LinearSegmentedColormap.from_list("heat", ["#f1f4f6", "#08487f"])
    image = axes.imshow(matrix, cmap=colours, vmin=0, vmax=most or 1.0)
    for i, j in zip(*np.nonzero(np.isfinite(matrix)), strict=True):
        ink = "white" if matrix[i, j] > 0.55 * most else "#1c2024"
        axes.text(j, i, f"{matrix[i, j]:.0f}", ha="center", va="center", color=ink, fontsize=6.5)
    axes.set_xticks(range(len(names)), names, rotation=45, ha="right", rotation_mode="anchor")
    axes.set_yticks(range(len(names)), names)
    figure.colorbar(image, ax=axes, label="disagreement (%)", shrink=0.7)
    return figure


def render(figure: Any, kind: str) -> bytes:
    """The file of a figure: "pdf", "svg" or "png". The same figure gives the same bytes."""
    import matplotlib

    with matplotlib.rc_context(_STYLE):
        buffer = io.BytesIO()
        figure.savefig(buffer, format=kind, dpi=200, metadata=_METADATA[kind])
    return buffer.getvalue()


def write_figures(run_folder: storage.PathLike) -> list[os.PathLike[str]]:
    """Writes RUN/figures/TASK-{accuracy,curves,pairwise}.{pdf,svg,png} and returns their paths.

    Raises:
      AnalysisError: where summary.json is missing or of another schema.
    """
    summary = read_summary(run_folder)
    folder = storage.join(run_folder, "figures")
    storage.make_folder(folder)
    written: list[os.PathLike[str]] = []
    for task, part in summary["tasks"].items():
        drawn = {"accuracy": accuracy_figure(part)}
        if len(part["conditionals"]) > 1:
            drawn |= {"curves": curves_figure(part), "pairwise": pairwise_figure(part)}
        for name, figure in drawn.items():
            for kind in _FORMATS:
                path = storage.join(folder, f"{file_stem(task)}-{name}.{kind}")
                storage.publish(path, render(figure, kind))
                written.append(epath.Path(path))
    return written
