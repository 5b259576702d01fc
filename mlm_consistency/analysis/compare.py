"""Comparing runs: models, modes, presets, or the paper's recorded curves.

Each entrant (entrants.py) has a row of figures, each pair of entrants a difference. Two entrants
are paired on the examples that both have (same id, same candidates, same right answers): paired
bootstrap and exact McNemar. Where there are none, or the paper is one of them, the difference is
said to be unpaired: independent resamples, and Fisher's exact test.
"""

from __future__ import annotations

import collections
import dataclasses
import itertools
from collections.abc import Sequence

import numpy as np
from scipy import stats

from mlm_consistency.analysis import statistics
from mlm_consistency.analysis.entrants import Entrant, read_entrants
from mlm_consistency.errors import AnalysisError

FIGURES = ("baseline", "ensemble", "gain", "disagreement")
REACH = (1.0, 1.0, 2.0, 1.0)  # how far the difference of one example can be from 0


@dataclasses.dataclass(frozen=True)
class Difference:
    """second - first for one figure.

    Attributes:
      figure: one of FIGURES.
      paired: on the same examples; else the two are independent, and `reason` says why.
      n: examples (paired), or those of both.
      p_value: McNemar (paired) or Fisher (not); None for the gain, and where no test applies.
    """

    first: str
    second: str
    figure: str
    paired: bool
    reason: str
    n: tuple[int, ...]
    value: float
    interval: tuple[float, float]
    p_value: float | None
    p_value_holm: float | None = None


def _columns(entrant: Entrant, rows: np.ndarray | slice = slice(None)) -> np.ndarray:
    """[n, 4], in the order of FIGURES."""
    baseline, ensemble, apart = entrant.figures[rows].T
    return np.column_stack([baseline, ensemble, ensemble - baseline, apart])


def difference(
    first: Entrant, second: Entrant, level: float = 0.95, resamples: int = 2000, seed: int = 0
) -> list[Difference]:
    """The difference of each of FIGURES, paired where the two have examples in common."""
    place = {key: row for row, key in enumerate(second.keys)}
    rows = [(row, place[key]) for row, key in enumerate(first.keys) if key in place]
    if rows:
        return _paired(first, second, np.array(rows), level, resamples, seed)
    if not first.keys or not second.keys:
        reason = "only counts of the paper's runs are recorded"
    else:
        reason = "no example is the same in both"
    return _unpaired(first, second, reason, level, resamples, seed)


def _paired(
    first: Entrant, second: Entrant, rows: np.ndarray, level: float, resamples: int, seed: int
) -> list[Difference]:
    a, b = _columns(first, rows[:, 0]), _columns(second, rows[:, 1])
    bounds = statistics.bootstrap_intervals(b - a, level, resamples, seed, REACH)
    reason = "" if len(rows) == first.examples == second.examples else "the common examples alone"
    return [
        Difference(
            first.name,
            second.name,
            figure,
            paired=True,
            reason=reason,
            n=(len(rows),),
            value=float((b - a)[:, m].mean()),
            interval=(float(bounds[m, 0]), float(bounds[m, 1])),
            p_value=None
            if figure == "gain"
            else statistics.mcnemar(a[:, m].astype(bool), b[:, m].astype(bool)),
        )
        for m, figure in enumerate(FIGURES)
    ]


def _unpaired(
    first: Entrant, second: Entrant, reason: str, level: float, resamples: int, seed: int
) -> list[Difference]:
    a, b = _columns(first), _columns(second)
    means = [
        statistics.resampled_means(columns, resamples, seed + which)
        for which, columns in enumerate((a, b))
    ]
    bounds = statistics.percentile_intervals(means[1] - means[0], level)
    rows = []
    for m, figure in enumerate(FIGURES):
        test = None
        # The paper's gain has no known spread: which examples were gained was not recorded.
        if figure != "gain":
            table = [[int(x[:, m].sum()), int(len(x) - x[:, m].sum())] for x in (a, b)]
            test = float(stats.fisher_exact(table).pvalue)
        elif not (first.keys and second.keys):
            continue
        rows.append(
            Difference(
                first.name,
                second.name,
                figure,
                paired=False,
                reason=reason,
                n=(first.examples, second.examples),
                value=float(b[:, m].mean() - a[:, m].mean()),
                interval=(float(bounds[m, 0]), float(bounds[m, 1])),
                p_value=test,
            )
        )
    return rows


@dataclasses.dataclass(frozen=True, eq=False)
class Comparison:
    """All entrants and all differences; written as text by analysis/compare_text.py."""

    entrants: tuple[Entrant, ...]
    differences: tuple[Difference, ...]
    level: float
    token_reduction: str
    reduction: str


def _told_apart(found: Sequence[tuple[str, Entrant]]) -> list[Entrant]:
    """The entrants; those of equal names (folders of one name in two places) with their source."""
    names = collections.Counter(entrant.name for _, entrant in found)
    entrants = [
        entrant
        if names[entrant.name] == 1
        else dataclasses.replace(entrant, name=f"{entrant.name} ({source})")
        for source, entrant in found
    ]
    for name, count in collections.Counter(entrant.name for entrant in entrants).items():
        if count > 1:
            raise AnalysisError(f"{name} is named {count} times: name each entrant once")
    return entrants


def compare(
    sources: Sequence[str],
    token_reduction: str = "mean",
    reduction: str = "max",
    *,
    level: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
) -> Comparison:
    """Compares two or more entrants, each with each; p-values adjusted by Holm over all pairs.

    Raises:
      AnalysisError: where there are fewer than two entrants, or one is named twice.
      RecordsError: where a source is no run, or one that is not complete.
    """
    entrants = _told_apart(
        [(s, entrant) for s in sources for entrant in read_entrants(s, token_reduction, reduction)]
    )
    if len(entrants) < 2:
        raise AnalysisError(
            f"a comparison needs two entrants, {', '.join(sources) or 'nothing'} gives "
            f"{len(entrants)}: name two runs, a run of several tasks, or paper:NAME"
        )
    rows = [
        row
        for first, second in itertools.combinations(entrants, 2)
        for row in difference(first, second, level, resamples, seed)
    ]
    tested = [m for m, row in enumerate(rows) if row.p_value is not None]
    adjusted = statistics.holm(np.array([rows[m].p_value for m in tested], np.float64))
    for m, value in zip(tested, adjusted, strict=True):
        rows[m] = dataclasses.replace(rows[m], p_value_holm=float(value))
    return Comparison(tuple(entrants), tuple(rows), level, token_reduction, reduction)
