"""Tables of the report as plain data: columns with units, cells with a text and an exact value.

The page, its CSV downloads and the terminal all draw these, so that a number is the same wherever
it stands.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mlm_consistency.report import quantities as q


@dataclass(frozen=True)
class Column:
    """A column: its key in CSV files, its label, its unit, whether it holds numbers."""

    key: str
    label: str
    unit: str = ""
    numeric: bool = True


@dataclass(frozen=True)
class Cell:
    """What a cell shows, the exact value behind it, and the bounds where it is an interval."""

    text: str
    value: float | int | str | None = None
    bounds: tuple[float, float] | None = None


NOTHING = Cell(q.MISSING)


@dataclass(frozen=True)
class Row:
    """Cells in the order of the columns; `mark` is a class name ("baseline") or empty."""

    cells: tuple[Cell, ...]
    mark: str = ""


@dataclass(frozen=True)
class Table:
    """A named table with a caption and, below it, a note on how to read it."""

    name: str
    caption: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    note: str = ""
    sortable: bool = True


def _exact(share: float) -> float:
    return round(100 * share, 6)


def share_cell(value: float) -> Cell:
    """A share of one, shown in percent."""
    return Cell(q.percent(value), _exact(value))


def points_cell(difference: float) -> Cell:
    """A difference of shares, shown in percentage points with its sign."""
    return Cell(q.points(difference), _exact(difference))


def interval_cell(bounds: Sequence[float]) -> Cell:
    """An interval of a share, shown in percent."""
    return Cell(q.interval(bounds), bounds=(_exact(bounds[0]), _exact(bounds[1])))


def p_cell(p: float) -> Cell:
    """A p-value."""
    return Cell(q.bare_p_value(p), p)


def count_cell(n: int) -> Cell:
    """A count."""
    return Cell(q.count(n), n)


def number_cell(value: float, digits: int = 3) -> Cell:
    """A number that is no share."""
    return Cell(q.fixed(value, digits), round(value, 9))


def number_interval_cell(bounds: tuple[float, float], digits: int = 3) -> Cell:
    """An interval of numbers that are no shares."""
    text = f"{q.fixed(bounds[0], digits)} to {q.fixed(bounds[1], digits)}"
    return Cell(text, bounds=(round(bounds[0], 9), round(bounds[1], 9)))
