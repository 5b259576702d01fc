"""Intervals and tests against worked cases, SciPy, and their promised coverage."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from mlm_consistency.analysis.statistics import (
    binomial_interval,
    bootstrap_intervals,
    holm,
    mcnemar,
    resampled_means,
    simultaneous_level,
)
from mlm_consistency.errors import AnalysisError


def test_resamples_are_seeded_and_do_not_depend_on_block_size(monkeypatch):
    columns = np.random.default_rng(0).random((50, 3))
    means = resampled_means(columns, 100, seed=3)
    np.testing.assert_array_equal(means, resampled_means(columns, 100, seed=3))
    assert not np.array_equal(means, resampled_means(columns, 100, seed=4))
    monkeypatch.setattr("mlm_consistency.analysis.statistics._BLOCK", 170)
    np.testing.assert_allclose(means, resampled_means(columns, 100, seed=3), atol=1e-15)


def test_resamples_are_means_of_drawn_examples():
    columns = np.random.default_rng(1).random((7, 2))
    drawn = np.random.default_rng(5).integers(7, size=(20, 7))
    expected = columns[drawn].mean(1)
    np.testing.assert_allclose(resampled_means(columns, 20, seed=5), expected, atol=1e-12)


def test_columns_are_resampled_together():
    x = np.random.default_rng(2).random(40)
    means = resampled_means(np.column_stack([x, x + 1]), 50)
    np.testing.assert_allclose(means[:, 1] - means[:, 0], 1.0, atol=1e-12)


def test_intervals_agree_with_scipy():
    column = np.random.default_rng(3).exponential(size=80)
    ours = bootstrap_intervals(column[:, None], resamples=20000)[0]
    theirs = stats.bootstrap(
        (column,), np.mean, n_resamples=20000, method="BCa", rng=np.random.default_rng(9)
    ).confidence_interval
    np.testing.assert_allclose(ours, theirs, atol=0.015)


def test_intervals_cover_as_promised():
    rng = np.random.default_rng(4)
    columns = (rng.random((60, 400)) < 0.7).astype(float)
    intervals = bootstrap_intervals(columns, level=0.9, resamples=600)
    covered = ((intervals[:, 0] <= 0.7) & (intervals[:, 1] >= 0.7)).mean()
    assert 0.85 < covered < 0.95


def test_where_all_examples_are_equal_the_interval_is_not_a_point():
    columns = np.column_stack([np.ones(20), np.zeros(20), np.full(20, 0.5)])
    intervals = bootstrap_intervals(columns)
    low = 0.025 ** (1 / 20)  # exact: all 20 right has probability 0.025 under p = low
    np.testing.assert_allclose(intervals[0], [low, 1.0], atol=1e-12)
    np.testing.assert_allclose(intervals[1], [0.0, 1 - low], atol=1e-12)
    assert intervals[2].tolist() == [0.5, 0.5]


def test_equal_differences_may_lie_on_either_side():
    """Two ensembles that give the same answers to 20 examples are not known to differ upwards."""
    columns = np.column_stack([np.zeros(20), np.ones(20), -np.ones(20), np.zeros(20)])
    intervals = bootstrap_intervals(columns, reach=(1, 1, 1, 2))
    other = 1 - 0.025 ** (1 / 20)
    expected = [
        [-other, other],
        [1 - 2 * other, 1],
        [-1, 2 * other - 1],
        [-2 * other, 2 * other],
    ]
    np.testing.assert_allclose(intervals, expected, atol=1e-12)
    moving = np.array([1.0, 0.0, 0.0, -1.0, 1.0])[:, None]
    assert (bootstrap_intervals(moving, reach=1) == bootstrap_intervals(moving)).all()


def test_a_bootstrap_of_nothing_is_refused():
    with pytest.raises(AnalysisError, match="at least one example"):
        bootstrap_intervals(np.zeros((0, 2)))


def test_binomial_interval_is_that_of_scipy():
    for successes, trials in ((0, 9), (4, 9), (9, 9), (103, 225)):
        expected = stats.binomtest(successes, trials).proportion_ci(0.95, "exact")
        np.testing.assert_allclose(binomial_interval(successes, trials), expected, atol=1e-9)
    assert binomial_interval(0, 0) == (0.0, 1.0)


def test_mcnemar():
    first = np.array([1] * 1 + [0] * 6 + [1] * 3, bool)
    second = np.array([0] * 1 + [1] * 6 + [1] * 3, bool)
    # 7 differ, split 1 to 6: 2 (C(7,0) + C(7,1)) / 2^7
    assert mcnemar(first, second) == pytest.approx(16 / 128, abs=1e-12)
    assert mcnemar(second, first) == mcnemar(first, second)
    assert mcnemar(first, first) == 1.0
    assert mcnemar(first[:1], second[:1]) == 1.0
    rng = np.random.default_rng(0)
    a, b = rng.random((2, 300)) < [[0.5], [0.6]]
    p = stats.binomtest(int((a & ~b).sum()), int((a != b).sum())).pvalue
    assert mcnemar(a, b) == pytest.approx(p, abs=1e-9)


def test_holm():
    np.testing.assert_allclose(
        holm(np.array([0.04, 0.01, 0.03, 0.005])), [0.06, 0.03, 0.06, 0.02], atol=1e-12
    )
    np.testing.assert_allclose(holm(np.array([0.5, 0.9])), [1.0, 1.0])
    assert holm(np.array([])).shape == (0,)


def test_simultaneous_level():
    assert simultaneous_level(0.95, 1) == 0.95
    assert simultaneous_level(0.95, 9) ** 9 == pytest.approx(0.95)
