"""Exact cases and random tables that the pair tests share."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import strategies as st

from mlm_consistency.analysis.pair_tables import PairTables, log_normalize

CASES: dict[str, Any] = json.loads(
    (Path(__file__).parent / "oracle_pairs.json").read_text(encoding="utf-8")
)["cases"]
TABLE_CASES = ("c1_coherent_2x2", "c2_coherent_3x3", "c4_perturbed_2x2_ln2", "c7_perturbed_3x3")
TOLERANCE = 1e-9
JOINT_TOLERANCE = 1e-7


def tables_of(name: str) -> PairTables:
    case = CASES[name]
    return PairTables.from_probabilities(
        case["A_p(a|b)"], case["B_p(b|a)"], case["pair_masked_p(a)"], case["pair_masked_p(b)"]
    )


def of_joint(log_joint: np.ndarray) -> PairTables:
    """The conditionals and marginals of a joint [..., I, J]."""
    return PairTables(
        log_normalize(log_joint, -2),
        log_normalize(log_joint, -1),
        np.logaddexp.reduce(log_joint, axis=-1),
        np.logaddexp.reduce(log_joint, axis=-2),
    )


@st.composite
def shapes(draw, least: int = 2, most: int = 6) -> tuple[int, int]:
    return draw(st.integers(least, most)), draw(st.integers(least, most))


@st.composite
def log_joints(draw, least: int = 2, most: int = 6) -> np.ndarray:
    """A positive joint [I, J] of up to moderate sharpness."""
    shape = draw(shapes(least, most))
    generator = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    sharpness = draw(st.sampled_from([0.3, 1.0, 3.0]))
    return log_normalize(generator.normal(size=shape) * sharpness, (-2, -1))


@st.composite
def random_tables(draw, least: int = 2, most: int = 6) -> PairTables:
    """Positive conditionals and both-masked distributions that owe each other nothing."""
    i, j = draw(shapes(least, most))
    generator = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    sharpness = draw(st.sampled_from([0.3, 1.0, 3.0]))

    def table(shape: tuple[int, ...], axis: int) -> np.ndarray:
        return log_normalize(generator.normal(size=shape) * sharpness, axis)

    return PairTables(table((i, j), -2), table((i, j), -1), table((i,), -1), table((j,), -1))


@st.composite
def tables_with_zeros(draw) -> PairTables:
    """Conditionals with zeros in places of their own, every context still a distribution."""
    i, j = draw(shapes())
    generator = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    share = draw(st.sampled_from([0.2, 0.5, 0.8]))

    def table(axis: int) -> np.ndarray:
        values = generator.random((i, j)) * (generator.random((i, j)) > share)
        empty = values.sum(axis=axis, keepdims=True) == 0
        values = np.where(empty, 1.0, values)
        return values / values.sum(axis=axis, keepdims=True)

    return PairTables.from_probabilities(table(0), table(1))
