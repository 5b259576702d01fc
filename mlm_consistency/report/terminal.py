"""The short table that a run ends with: on a terminal with rules, elsewhere as plain text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from mlm_consistency.report import quantities as q
from mlm_consistency.report.comparisons import gain_of, level_of
from mlm_consistency.report.task_tables import reduction_name

# Where the output is no terminal there is no width to ask for; rich would take 80 and wrap.
_PLAIN_WIDTH = 100


def summary_table(summary: Mapping[str, Any]) -> Table:
    """Accuracy of each conditional, disagreement and ensembles of every task, with n and intervals.

    Args:
      summary: what summary.json holds.

    Returns:
      A table of at most 80 columns for names of ordinary length.
    """
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    levels = {level_of(task) for task in summary["tasks"].values()}
    table.add_column("accuracy", no_wrap=True)
    table.add_column("n", justify="right")
    table.add_column("%", justify="right")
    table.add_column(f"{' and '.join(sorted(levels))} interval", justify="right", no_wrap=True)
    table.add_column("against the baseline", no_wrap=True)
    for name, task in summary["tasks"].items():
        _add_task(table, name, task)
    return table


def _add_task(table: Table, name: str, task: Mapping[str, Any]) -> None:
    conditionals = task["conditionals"]
    baseline = next(iter(conditionals))
    table.add_row(name, style="bold")
    for conditional, entry in conditionals.items():
        differs = ""
        if conditional != baseline:
            share = task["pairwise_disagreement"][baseline][conditional]
            differs = f"differs on {q.percent(share)} %"
        _add_measure(table, conditional, entry["n"], entry["accuracy"], entry["interval"], differs)
    if len(conditionals) > 1:
        table.add_row()
        for reduction, entry in task["ensembles"].items():
            gain = gain_of(task, reduction)
            against = f"{q.points(gain.difference)} points, {q.p_value(gain.p_value)}"
            label = reduction_name(reduction)
            _add_measure(table, label, gain.n, gain.ensemble, entry["interval"], against)
        table.add_row()
        apart = task["disagreement"]
        among = f"among {q.number_word(len(conditionals))} conditionals"
        _add_measure(table, "disagreement", apart["n"], apart["value"], apart["interval"], among)
    for label, n in (
        ("dropped before scoring", sum(task["dropped"].values())),
        ("not applicable to all", task["lost"]["examples"]),
    ):
        if n:
            table.add_row(f"  {label}", q.count(n), style="dim")
    table.add_section()


def _add_measure(
    table: Table, label: str, n: int, share: float, interval: Sequence[float], against: str
) -> None:
    table.add_row(f"  {label}", q.count(n), q.percent(share), q.interval(interval), against)


def print_summary(summary: Mapping[str, Any], console: Console | None = None) -> None:
    """Prints `summary_table` to standard output or to the console that is given."""
    if console is None:
        console = Console()
        if not console.is_terminal:
            console = Console(width=_PLAIN_WIDTH, no_color=True)
    console.print(summary_table(summary))
