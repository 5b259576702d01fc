"""A table of strings as Markdown, LaTeX, CSV, or aligned text."""

from __future__ import annotations

import csv
import dataclasses
import io
from collections.abc import Sequence

_LATEX = str.maketrans(
    {
        "&": r"\&",
        "%": r"\%",
        "$": r"\$",
        "#": r"\#",
        "_": r"\_",
        "{": r"\{",
        "}": r"\}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "\\": r"\textbackslash{}",
        "<": r"\textless{}",
        ">": r"\textgreater{}",
    }
)


def percent(value: float | None, digits: int = 2) -> str:
    """0.4578 -> "45.78"; "-" for None."""
    return "-" if value is None else f"{100 * value:.{digits}f}"


def percent_interval(interval: Sequence[float] | None, digits: int = 2) -> str:
    """(0.39, 0.52) -> "[39.00, 52.00]"; "-" for None."""
    if interval is None:
        return "-"
    return f"[{percent(interval[0], digits)}, {percent(interval[1], digits)}]"


def p_value(value: float | None) -> str:
    """Three significant digits; "<0.0001" below that; "-" for None."""
    if value is None:
        return "-"
    return "<0.0001" if value < 1e-4 else f"{value:.3g}"


@dataclasses.dataclass(frozen=True)
class TextTable:
    """Heads and rows of strings, the first column to the left, numbers to the right."""

    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def to_markdown(self) -> str:
        """GitHub's pipe table."""

        def line(cells: Sequence[str]) -> str:
            return "| " + " | ".join(cell.replace("|", r"\|") for cell in cells) + " |"

        rule = ["---", *["---:"] * (len(self.heads) - 1)]
        return "\n".join([line(self.heads), line(rule), *map(line, self.rows)]) + "\n"

    def to_latex(self) -> str:
        """A booktabs tabular."""

        def line(cells: Sequence[str]) -> str:
            return " & ".join(cell.translate(_LATEX) for cell in cells) + r" \\"

        return "\n".join(
            [
                r"\begin{tabular}{l" + "r" * (len(self.heads) - 1) + "}",
                r"\toprule",
                line(self.heads),
                r"\midrule",
                *map(line, self.rows),
                r"\bottomrule",
                r"\end{tabular}",
                "",
            ]
        )

    def to_csv(self) -> str:
        """Comma-separated, heads first."""
        out = io.StringIO()
        csv.writer(out, lineterminator="\n").writerows([self.heads, *self.rows])
        return out.getvalue()

    def __str__(self) -> str:
        lines = [self.heads, *self.rows]
        widths = [max(len(line[c]) for line in lines) for c in range(len(self.heads))]
        return "\n".join(
            (
                line[0].ljust(widths[0])
                + "".join(f"  {cell:>{w}}" for cell, w in zip(line[1:], widths[1:], strict=True))
            ).rstrip()
            for line in lines
        )
