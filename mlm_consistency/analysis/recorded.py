"""Readers of the probabilities that the paper's authors recorded from real models.

Four shapes: order-test pairs of a BERT (JSON lines), bigrams and 5-gram/10-gram spans of a T5,
and connected bigrams of a RoBERTa. Readers return log-probabilities (nats, float64); the figures
come from the same functions as everybody's. Source: arXiv 2301.00068, the authors' repository.
"""

from __future__ import annotations

import gzip
import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mlm_consistency.analysis.cross_ratio import four_bigrams
from mlm_consistency.analysis.ngrams import (
    PreferenceSummary,
    span_preference,
    summarize_preferences,
)
from mlm_consistency.analysis.order_test import log_ratio_at, relative_difference
from mlm_consistency.errors import DataError


@dataclass(frozen=True)
class RecordedPairs:
    """Order-test pairs: log_masked [N, 2], log p(x_k | both masked); log_given [N, 2],
    log p(x_k | the other shown); texts and masked texts [N]; recorded [N], the authors' figure."""

    log_masked: np.ndarray
    log_given: np.ndarray
    texts: tuple[str, ...]
    masked: tuple[str, ...]
    recorded: np.ndarray

    @property
    def log_ratio(self) -> np.ndarray:
        """d = log j1 - log j2, [N] nats."""
        masked, given = self.log_masked, self.log_given
        return log_ratio_at(masked[:, 0], given[:, 1], masked[:, 1], given[:, 0])

    def figures(self) -> dict[str, float]:
        """n, mean and median of 2 tanh(|d| / 2)."""
        relative = relative_difference(self.log_ratio)
        return {
            "n": relative.size, "mean": float(relative.mean()), "median": float(np.median(relative))
        }  # fmt: skip


@dataclass(frozen=True)
class RecordedBigrams:
    """Two wordings (original, proposed) of N bigrams: log_bigram [N, 2, 3], both words masked
    (two words and the closing sentinel); log_word [N, 2, 2], only the word that differs masked
    (that word and the sentinel); differs_at [N], 0 or 1."""

    log_bigram: np.ndarray
    log_word: np.ndarray
    differs_at: np.ndarray

    def figures(self, *, closing_sentinel: bool = False) -> PreferenceSummary:
        """Joint against conditional preference."""
        joint, word = (
            span_preference(log[:, 0], log[:, 1], closing_sentinel=closing_sentinel)
            for log in (self.log_bigram, self.log_word)
        )
        return summarize_preferences(joint, word)


@dataclass(frozen=True)
class RecordedSpans:
    """log_short, log_long [N, 2]: the last five words, original and proposed, with 5 and with 10
    words masked (sums over tokens, no sentinel)."""

    log_short: np.ndarray
    log_long: np.ndarray

    def figures(self) -> PreferenceSummary:
        """Preference with 5 words masked against the preference with 10."""
        return summarize_preferences(
            self.log_short[:, 0] - self.log_short[:, 1], self.log_long[:, 0] - self.log_long[:, 1]
        )


@dataclass(frozen=True)
class RecordedConnected:
    """Connected bigrams: log_a_given_b, log_b_given_a [N, 2, 2]; recorded [N], the authors' mean
    discrepancy, which is |D|; keys [N]."""

    log_a_given_b: np.ndarray
    log_b_given_a: np.ndarray
    recorded: np.ndarray
    keys: tuple[str, ...]

    def cross_ratio(self) -> np.ndarray:
        """D [N] nats."""
        return four_bigrams(self.log_a_given_b, self.log_b_given_a)


def read_pairs(path: str | Path) -> RecordedPairs:
    """Reads JSON lines (gzip by suffix) with `marginal`, `conditional`, `inconsistency`, `text`,
    `masked`.

    Raises:
      DataError: for a line that is no JSON, lacks a field or holds no probability; so do the
        other readers.
    """
    rows = _json_lines(path, ("marginal", "conditional", "inconsistency", "text", "masked"))
    return RecordedPairs(
        _logs(path, rows, "marginal", (2,)), _logs(path, rows, "conditional", (2,)),
        tuple(row["text"] for row in rows), tuple(row["masked"] for row in rows),
        np.array([row["inconsistency"] for row in rows], dtype=np.float64),
    )  # fmt: skip


def read_bigrams(path: str | Path) -> RecordedBigrams:
    """Reads JSON lines with `p_bigram` [2][3], `p_token` [2][2] and `differs_at`."""
    rows = _json_lines(path, ("p_bigram", "p_token", "differs_at"))
    return RecordedBigrams(
        _logs(path, rows, "p_bigram", (2, 3)), _logs(path, rows, "p_token", (2, 2)),
        np.array([row["differs_at"] for row in rows], dtype=np.int64),
    )  # fmt: skip


def read_spans(path: str | Path) -> RecordedSpans:
    """Reads one JSON object with `columns` (a key, then four probabilities) and `rows`."""
    content = _json(path)
    columns = [f"p_{w}_{n}gram" for n in (5, 10) for w in ("original", "proposed")]
    if not isinstance(content, dict) or "rows" not in content:
        raise DataError(f"{path}: expected an object with columns and rows.")
    found = content.get("columns", [])
    if missing := [c for c in columns if c not in found]:
        raise DataError(f"{path}: missing column(s) {', '.join(missing)}. Got {found}.")
    rows = [dict(zip(found, row, strict=False)) for row in content["rows"]]
    logs = np.stack([_logs(path, rows, column, ()) for column in columns], axis=-1)
    return RecordedSpans(logs[:, :2], logs[:, 2:])


def read_connected(path: str | Path) -> RecordedConnected:
    """Reads {key: {"conditional_word_00_given_word_10": p, .., "avg_inconsistency": |D|}}.

    word_0k is word k of the first position (a_k), word_1k word k of the second (b_k).
    """
    content = _json(path)
    if not isinstance(content, dict) or not content:
        raise DataError(f"{path}: expected an object of records.")
    names_a = [[f"conditional_word_0{i}_given_word_1{j}" for j in (0, 1)] for i in (0, 1)]
    names_b = [[f"conditional_word_1{j}_given_word_0{i}" for j in (0, 1)] for i in (0, 1)]
    rows = []
    for key, record in content.items():
        for name in [*(n for line in names_a + names_b for n in line), "avg_inconsistency"]:
            if name not in record:
                raise DataError(f"{path}: record {key!r} has no {name}.")
        rows.append(
            {side: [[record[name] for name in line] for line in names]
             for side, names in (("a", names_a), ("b", names_b))}
        )  # fmt: skip
    return RecordedConnected(
        _logs(path, rows, "a", (2, 2)), _logs(path, rows, "b", (2, 2)),
        np.array([r["avg_inconsistency"] for r in content.values()], dtype=np.float64),
        tuple(content),
    )  # fmt: skip


def _json_lines(path: str | Path, fields: tuple[str, ...]) -> list[dict[str, Any]]:
    rows = []
    for number, line in enumerate(_text(path).splitlines(), start=1):
        try:
            row = json.loads(line)
        except json.JSONDecodeError as error:
            raise DataError(f"{path}, line {number}: not JSON ({error.msg}).") from None
        if missing := [f for f in fields if f not in row]:
            raise DataError(f"{path}, line {number}: no {', '.join(missing)}.")
        rows.append(row)
    if not rows:
        raise DataError(f"{path}: no records.")
    return rows


def _json(path: str | Path) -> Any:
    try:
        return json.loads(_text(path))
    except json.JSONDecodeError as error:
        raise DataError(f"{path}, line {error.lineno}: not JSON ({error.msg}).") from None


def _text(path: str | Path) -> str:
    try:
        raw = Path(path).read_bytes()
        return (gzip.decompress(raw) if str(path).endswith(".gz") else raw).decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: cannot be read ({error}).") from None


def _logs(
    path: str | Path, rows: list[dict[str, Any]], field: str, shape: tuple[int, ...]
) -> np.ndarray:
    values = np.empty((len(rows), *shape))
    for number, row in enumerate(rows, start=1):
        try:
            value = np.asarray(row.get(field, math.nan), dtype=np.float64)
        except (TypeError, ValueError):
            value = np.empty(0)  # ragged or not numbers: refused below with the others
        if value.shape != shape or not ((value > 0) & (value <= 1)).all():
            raise DataError(
                f"{path}, record {number}: {field} must hold probabilities in (0, 1] of shape "
                f"{shape}. Got {row.get(field)!r}."
            )
        values[number - 1] = value
    return np.log(values)
