"""The worst pairs of a bigrams page: each in its sentence, with its 2x2 tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mlm_consistency.analysis.bigrams import BigramPairs
from mlm_consistency.analysis.cross_ratio import minors
from mlm_consistency.analysis.pair_tables import PairTables
from mlm_consistency.report import quantities as q

MOST = 20
Case = Mapping[str, Any]


def worst_pairs(
    cases: Sequence[Case], pairs: BigramPairs, most: int = MOST
) -> list[dict[str, Any]]:
    """The pairs with the largest |D|, largest first.

    Returns:
      dicts of sentence ([(text, 0, 1 or None)]: the two words bear their number), name, D, d,
      distance, rows and columns (two words each) and given_b, given_a ([2][2] texts of p(a|b) and
      p(b|a) in percent), of the 2x2 minor that D is of.
    """
    size, d = np.nan_to_num(pairs.cross_ratio, nan=-1.0), pairs.order
    found = []
    for number in np.argsort(-size, kind="stable")[:most].tolist():
        if size[number] < 0:
            break  # undefined from here on
        case = cases[number]
        i, j, value = _largest_minor(pairs.tables, number)
        words = [[shown(case[key][k]) for k in at] for key, at in (("first", i), ("second", j))]
        tables = [
            [[probability(case[key][row][column]) for column in j] for row in i]
            for key in ("a_given_b", "b_given_a")
        ]
        found.append(
            {
                "sentence": sentence(case),
                "name": case["name"],
                "cross_ratio": q.fixed(value, 2),
                "order": q.fixed(float(d[number]), 2),
                "distance": case["distance"],
                "rows": words[0],
                "columns": words[1],
                "given_b": tables[0],
                "given_a": tables[1],
            }
        )
    return found


def _largest_minor(tables: PairTables, number: int) -> tuple[list[int], list[int], float]:
    """Rows, columns and D of the 2x2 minor of table `number` with the largest |D|."""
    one = PairTables(tables.log_a_given_b[number], tables.log_b_given_a[number], subset=True)
    all_of_it = minors(one)
    place = np.nanargmax(np.abs(all_of_it.values))
    p, s = np.unravel_index(place, all_of_it.values.shape)
    value = float(all_of_it.values[p, s])
    return all_of_it.row_pairs[p].tolist(), all_of_it.column_pairs[s].tolist(), value


def shown(piece: str) -> str:
    """A vocabulary piece as a reader expects it: without the mark of a word's start."""
    return piece.lstrip("▁Ġ") or piece


def probability(p: float) -> str:
    """A probability in percent with three significant digits: "97.1", "0.0042"."""
    percent = 100 * p
    if percent >= 0.001 or p == 0:
        return f"{percent:.3g}" if percent < 99.95 else f"{percent:.2f}"
    return f"{percent:.1e}".replace("e-0", "e-").replace("-", q.MINUS)


def sentence(case: Case) -> list[tuple[str, int | None]]:
    """The text in parts, the two words with their numbers; in one part where they are not told."""
    text, spans = case["text"], case["spans"]
    if not spans:
        return [(text, None)]
    (a, a_stop), (b, b_stop) = spans
    parts = [
        (text[:a], None), (text[a:a_stop], 0), (text[a_stop:b], None), (text[b:b_stop], 1),
        (text[b_stop:], None),
    ]  # fmt: skip
    return [part for part in parts if part[0]]
