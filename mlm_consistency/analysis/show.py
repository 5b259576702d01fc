"""What a notebook or a terminal shows of scores: plain tables, as text and as HTML."""

from __future__ import annotations

import dataclasses
import html

import numpy as np


def _number(value: float) -> str:
    return "n/a" if np.isnan(value) else f"{value:.3f}"


@dataclasses.dataclass(frozen=True, eq=False)
class ScoreTable:
    """One example's scores.

    Attributes:
      conditionals: names, K.
      candidates: texts, C.
      values: float64 [K, C], log-probabilities; NaN in the rows of conditionals that do not apply.
      labels: C, whether each candidate is a right answer.
      unit: of the values.
    """

    conditionals: tuple[str, ...]
    candidates: tuple[str, ...]
    values: np.ndarray
    labels: tuple[bool, ...]
    unit: str

    @property
    def predictions(self) -> tuple[str | None, ...]:
        """The candidate's text that each conditional prefers; None where it does not apply."""
        return tuple(
            None if np.isnan(row).any() else self.candidates[int(row.argmax())]
            for row in self.values
        )

    def to_dict(self) -> dict[str, dict[str, float]]:
        """conditional -> candidate -> log-probability."""
        return {
            name: dict(zip(self.candidates, map(float, row), strict=True))
            for name, row in zip(self.conditionals, self.values, strict=True)
        }

    def _rows(self) -> list[list[str]]:
        rows = []
        for name, row in zip(self.conditionals, self.values, strict=True):
            best = -1 if np.isnan(row).any() else int(row.argmax())
            cells = [_number(v) + ("*" if c == best else " ") for c, v in enumerate(row)]
            rows.append([name, *cells])
        return rows

    def __str__(self) -> str:
        heads = [
            text + (" (right)" if right else "")
            for text, right in zip(self.candidates, self.labels, strict=True)
        ]
        rows = [["conditional", *(f"{head} " for head in heads)], *self._rows()]
        widths = [max(len(row[c]) for row in rows) for c in range(len(rows[0]))]
        lines = [
            row[0].ljust(widths[0])
            + "".join(f"  {cell:>{w}}" for cell, w in zip(row[1:], widths[1:], strict=True))
            for row in rows
        ]
        return "\n".join(line.rstrip() for line in lines) + f"\n{self.unit}; * preferred"

    def _repr_html_(self) -> str:
        heads = "".join(
            f"<th>{html.escape(text)}{' &#10003;' if right else ''}</th>"
            for text, right in zip(self.candidates, self.labels, strict=True)
        )
        body = []
        for name, *cells in self._rows():
            shown = "".join(
                f"<td><strong>{cell[:-1]}</strong></td>"
                if cell.endswith("*")
                else f"<td>{cell.strip()}</td>"
                for cell in cells
            )
            body.append(f"<tr><th>{html.escape(name)}</th>{shown}</tr>")
        return (
            f"<table><caption>{html.escape(self.unit)}; bold: preferred</caption>"
            f"<thead><tr><th>conditional</th>{heads}</tr></thead>"
            f"<tbody>{''.join(body)}</tbody></table>"
        )


@dataclasses.dataclass(frozen=True, eq=False)
class EnsembleTable:
    """What the conditionals prefer together.

    Attributes:
      reduction: how they were put together.
      values: float64 [N, C], the ensemble's score of each candidate.
      predictions: int [N], the preferred candidate.
      texts: N, its text.
      accuracy: share of right predictions; None where right answers are not known.
      lost: examples left out because some conditional does not apply.
    """

    reduction: str
    values: np.ndarray
    predictions: np.ndarray
    texts: tuple[str, ...]
    accuracy: float | None
    lost: int

    @property
    def prediction(self) -> str:
        """The preferred text of the only (or first) example."""
        return self.texts[0]

    def __str__(self) -> str:
        if len(self.texts) == 1:
            return f"{self.reduction}: {self.prediction!r}"
        known = "" if self.accuracy is None else f", accuracy {self.accuracy:.4f}"
        lost = f", {self.lost} lost" if self.lost else ""
        return f"{self.reduction}: {len(self.texts)} examples{lost}{known}"

    def _repr_html_(self) -> str:
        return f"<p>{html.escape(str(self))}</p>"
