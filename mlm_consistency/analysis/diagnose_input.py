"""Reading cases for `diagnose`: plain JSON data in, checked `PairTables` out."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from mlm_consistency.analysis.pair_tables import PairTables
from mlm_consistency.errors import AnalysisError, DataError

TABLES = {"a_given_b": 2, "b_given_a": 2, "a_masked": 1, "b_masked": 1}
KEYS = (*TABLES, "subset", "gold", "name")


@dataclass(frozen=True)
class Case:
    """One case: its tables, its name, the gold pair (i, j) or None, keys that nobody reads."""

    tables: PairTables
    name: str
    gold: tuple[int, int] | None
    ignored: tuple[str, ...]


def read_cases(tables: Any) -> list[Case]:
    """The cases of one mapping or of a list of mappings.

    Raises:
      DataError: naming the case ("tables", or "tables[k]" in a list) and the entry.
    """
    if isinstance(tables, Mapping):
        return [_case("tables", tables)]
    if not isinstance(tables, list | tuple) or not tables:
        raise DataError(
            'tables: expected an object with "a_given_b" and "b_given_a", or a list of such. '
            f"Got {_kind(tables)}."
        )
    return [_case(f"tables[{k}]", entry) for k, entry in enumerate(tables)]


def _case(where: str, entry: Any) -> Case:
    if not isinstance(entry, Mapping):
        raise DataError(f"{where}: expected an object. Got {_kind(entry)}.")
    ignored = []
    for key in entry:
        if key in KEYS:
            continue
        if near := difflib.get_close_matches(str(key), KEYS, n=1, cutoff=0.75):
            raise DataError(f"{where}: unknown key {key!r}. Did you mean {near[0]!r}?")
        ignored.append(str(key))
    for key in ("a_given_b", "b_given_a"):
        if entry.get(key) is None:
            raise DataError(f'{where}: "{key}" is missing; "a_given_b" and "b_given_a" are needed.')
    subset = entry.get("subset", False)
    if not isinstance(subset, bool):
        raise DataError(f"{where}.subset: expected true or false. Got {subset!r}.")
    arrays = {
        key: _numbers(f"{where}.{key}", entry[key], axes)
        for key, axes in TABLES.items()
        if entry.get(key) is not None
    }
    try:
        checked = PairTables.from_probabilities(**arrays, subset=subset)
    except AnalysisError as error:
        raise DataError(f"{where}: {error}") from None
    name = str(entry.get("name", where))
    return Case(checked, name, _gold(where, entry.get("gold"), checked), tuple(ignored))


def _numbers(where: str, value: Any, axes: int) -> np.ndarray:
    """A list (of lists) of numbers as float64; every row of the same length."""
    if axes == 2:
        if isinstance(value, np.ndarray):
            value = value.tolist()
        if not isinstance(value, list | tuple) or not value:
            raise DataError(f"{where}: expected a list of rows. Got {_kind(value)}.")
        rows = [_numbers(f"{where}[{i}]", row, 1) for i, row in enumerate(value)]
        for i, row in enumerate(rows):
            if row.size != rows[0].size:
                raise DataError(
                    f"{where}[{i}] has {row.size} entries and {where}[0] has {rows[0].size}: all "
                    "rows need the same length."
                )
        return np.stack(rows)
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if not isinstance(value, list | tuple) or not value:
        raise DataError(f"{where}: expected a list of numbers. Got {_kind(value)}.")
    for j, number in enumerate(value):
        # bool is an int in Python, and no probability
        if isinstance(number, bool) or not isinstance(number, int | float | np.number):
            raise DataError(f"{where}[{j}]: expected a number. Got {_kind(number)}.")
    return np.asarray(value, dtype=np.float64)


def _gold(where: str, gold: Any, tables: PairTables) -> tuple[int, int] | None:
    if gold is None:
        return None
    rows, columns = tables.shape[-2:]
    fits = (
        isinstance(gold, list | tuple)
        and len(gold) == 2
        and all(isinstance(k, int) and not isinstance(k, bool) for k in gold)
        and 0 <= gold[0] < rows
        and 0 <= gold[1] < columns
    )
    if not fits:
        raise DataError(
            f"{where}.gold: expected [i, j] with 0 <= i < {rows} and 0 <= j < {columns}. "
            f"Got {gold!r}."
        )
    return int(gold[0]), int(gold[1])


def _kind(value: Any) -> str:
    names = {dict: "an object", list: "a list", str: "a string", bool: "true or false"}
    if value is None:
        return "null"
    if isinstance(value, list | tuple) and not value:
        return "an empty list"
    return names.get(type(value), repr(value))
