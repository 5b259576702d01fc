"""The conditionals of two masked positions as tables, checked once.

Shapes: I words at position a, J words at position b, any leading batch axes. All values are
natural logarithms of probabilities (nats), float64; a zero probability is -inf.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mlm_consistency.errors import AnalysisError

SUM_TOLERANCE = 1e-5
"""How far from one a float32 softmax over a whole vocabulary may sum."""


def log_sum_exp(values: np.ndarray, axis: int | tuple[int, ...]) -> np.ndarray:
    """log sum exp over `axis`, that axis kept with length 1; -inf where every entry is -inf."""
    top = np.max(values, axis=axis, keepdims=True)
    top = np.where(np.isfinite(top), top, 0.0)
    with np.errstate(divide="ignore"):
        return np.log(np.sum(np.exp(values - top), axis=axis, keepdims=True)) + top


def log_normalize(values: np.ndarray, axis: int | tuple[int, ...]) -> np.ndarray:
    """values - log_sum_exp(values): a log distribution over `axis`; NaN where the mass is zero."""
    with np.errstate(invalid="ignore"):
        return values - log_sum_exp(values, axis)


def log_of(probabilities: np.ndarray) -> np.ndarray:
    """Natural logarithm in float64, log 0 = -inf without a warning."""
    with np.errstate(divide="ignore"):
        return np.log(np.asarray(probabilities, dtype=np.float64))


@dataclass(frozen=True)
class PairTables:
    """What a masked language model says about two positions, in nats.

    Attributes:
      log_a_given_b: [..., I, J], log p(a_i | b_j); sums to one over axis -2.
      log_b_given_a: [..., I, J], log p(b_j | a_i); sums to one over axis -1.
      log_a_masked: [..., I] or None, log p(a_i | both masked).
      log_b_masked: [..., J] or None, log p(b_j | both masked).
      logits_a_given_b, logits_b_given_a: [..., I, J] or None, the unnormalised scores behind the
        first two; only the MRF joint asks for them.
      subset: the tables hold only some words of the vocabulary, so the sums may stay below one.

    Sums within `SUM_TOLERANCE` of one are accepted, then made exact.

    Raises:
      AnalysisError: for shapes that disagree, NaN or +inf, or sums that are not one (above one,
        with `subset`); the message names the entry.
    """

    log_a_given_b: np.ndarray
    log_b_given_a: np.ndarray
    log_a_masked: np.ndarray | None = None
    log_b_masked: np.ndarray | None = None
    logits_a_given_b: np.ndarray | None = None
    logits_b_given_a: np.ndarray | None = None
    subset: bool = False

    def __post_init__(self) -> None:
        first = np.asarray(self.log_a_given_b, dtype=np.float64)
        if first.ndim < 2 or min(first.shape[-2:]) < 1:
            raise AnalysisError(
                f"a_given_b must have shape (..., I, J) with I, J >= 1. Got {first.shape}."
            )
        batch, (i, j) = first.shape[:-2], first.shape[-2:]
        expected = {
            "a_given_b": (*batch, i, j), "b_given_a": (*batch, i, j),
            "a_masked": (*batch, i), "b_masked": (*batch, j),
        }  # fmt: skip
        axes = {"a_given_b": -2, "b_given_a": -1, "a_masked": -1, "b_masked": -1}
        for name, shape in expected.items():
            value = getattr(self, f"log_{name}")
            if value is None:
                continue
            array = np.asarray(value, dtype=np.float64)
            _check_shape(name, array, shape)
            _check_entries(name, array)
            _check_sums(name, array, axes[name], self.subset)
            if not self.subset:
                array = log_normalize(array, axes[name])
            object.__setattr__(self, f"log_{name}", array)
        for name in ("logits_a_given_b", "logits_b_given_a"):
            if (value := getattr(self, name)) is not None:
                array = np.asarray(value, dtype=np.float64)
                _check_shape(name, array, first.shape)
                object.__setattr__(self, name, array)

    @classmethod
    def from_probabilities(
        cls, a_given_b, b_given_a, a_masked=None, b_masked=None, *, subset: bool = False
    ) -> PairTables:
        """Tables from probabilities in [0, 1]; shapes and errors as in the class."""
        given = {
            "a_given_b": a_given_b, "b_given_a": b_given_a,
            "a_masked": a_masked, "b_masked": b_masked,
        }  # fmt: skip
        logs = {}
        for name, value in given.items():
            if value is None:
                continue
            array = np.asarray(value, dtype=np.float64)
            bad = ~((array >= 0) & (array <= 1 + SUM_TOLERANCE))
            if bad.any():
                raise AnalysisError(
                    f"{_first(name, array, bad)}: a probability lies between 0 and 1 and is finite."
                )
            logs[f"log_{name}"] = log_of(array)
        return cls(**logs, subset=subset)

    @property
    def shape(self) -> tuple[int, ...]:
        """(..., I, J)."""
        return self.log_a_given_b.shape

    def masked(self, asker: str) -> tuple[np.ndarray, np.ndarray]:
        """(log_a_masked [..., I], log_b_masked [..., J]).

        Raises:
          AnalysisError: when either is missing; `asker` says who needs them.
        """
        if self.log_a_masked is None or self.log_b_masked is None:
            raise AnalysisError(
                f"{asker} needs the distributions with both positions masked (a_masked and "
                "b_masked), and at least one was not given."
            )
        return self.log_a_masked, self.log_b_masked

    def renormalized(self) -> PairTables:
        """The tables as distributions over the words that they hold ([..., I, J], no subset).

        Cross-ratios stay as they are; a word without any mass is an error as in the class.
        """

        def over(table: Any, axis: int) -> Any:
            if table is None:
                return None
            # a word without mass stays without: the class refuses it by name
            return np.nan_to_num(log_normalize(table, axis), nan=-np.inf, neginf=-np.inf)

        return PairTables(
            over(self.log_a_given_b, -2), over(self.log_b_given_a, -1),
            over(self.log_a_masked, -1), over(self.log_b_masked, -1),
            self.logits_a_given_b, self.logits_b_given_a,
        )  # fmt: skip

    def transposed(self) -> PairTables:
        """The same tables with the two positions exchanged, [..., J, I]."""

        def turn(table: Any) -> Any:
            return None if table is None else np.swapaxes(table, -1, -2)

        return PairTables(
            turn(self.log_b_given_a), turn(self.log_a_given_b), self.log_b_masked,
            self.log_a_masked, turn(self.logits_b_given_a), turn(self.logits_a_given_b),
            self.subset,
        )  # fmt: skip


def _first(name: str, array: np.ndarray, bad: np.ndarray) -> str:
    index = tuple(int(k) for k in np.argwhere(bad)[0])
    return f"{name}{''.join(f'[{k}]' for k in index)} = {float(array[index])!r}"


def _check_shape(name: str, array: np.ndarray, shape: tuple[int, ...]) -> None:
    if array.shape != shape:
        raise AnalysisError(
            f"{name} must have shape {shape} to agree with a_given_b. Got {array.shape}."
        )


def _check_entries(name: str, array: np.ndarray) -> None:
    bad = np.isnan(array) | (array == np.inf)
    if bad.any():
        raise AnalysisError(f"log {_first(name, array, bad)}: must be finite or -inf.")


def _check_sums(name: str, array: np.ndarray, axis: int, subset: bool) -> None:
    sums = np.squeeze(np.exp(log_sum_exp(array, axis)), axis=axis)
    excess = sums - 1.0 if subset else np.abs(sums - 1.0)
    if not (excess > SUM_TOLERANCE).any():
        return
    index = tuple(int(k) for k in np.argwhere(excess > SUM_TOLERANCE)[0])
    over = {"a_given_b": "over a for each b", "b_given_a": "over b for each a"}.get(name, "")
    if subset:
        wanted, way_out = "at most one", "a subset of a vocabulary cannot hold more than all of it."
    else:
        wanted = "one"
        way_out = (
            "normalise it, or mark the tables as a subset of the vocabulary "
            '("subset": true), which keeps the figures that stay defined.'
        )
    what = f"{name} must sum to {wanted}{' ' + over if over else ''}"
    raise AnalysisError(f"{what}. Got {float(sums[index])!r} at index {list(index)}: {way_out}")
