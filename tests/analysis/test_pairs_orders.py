"""Orders of more than two positions, ConTestS statistics and preferences."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import wilcoxon

from mlm_consistency.analysis import orders as o
from mlm_consistency.analysis.contests import contests
from mlm_consistency.analysis.joints import log_mean_exp
from mlm_consistency.analysis.ngrams import span_preference, summarize_preferences
from mlm_consistency.analysis.order_test import log_ratio_at
from mlm_consistency.errors import AnalysisError


def random_table(m: int, seed: int) -> np.ndarray:
    return np.log(np.random.default_rng(seed).uniform(0.01, 1.0, size=(m, 2**m)))


def random_model(m: int, words: int, seed: int) -> o.LogConditional:
    """p(x_i | x_S) for every value of x at once: arrays over the grid [words] * m."""
    generator = np.random.default_rng(seed)
    memory: dict[tuple[int, frozenset[int]], np.ndarray] = {}

    def conditional(i: int, revealed: frozenset[int]) -> np.ndarray:
        key = (i, revealed)
        if key not in memory:
            shape = [words if k in revealed or k == i else 1 for k in range(m)]
            raw = generator.normal(size=shape) * 2
            memory[key] = raw - np.logaddexp.reduce(raw, axis=i, keepdims=True)
        return np.broadcast_to(memory[key], (words,) * m)

    return conditional


def model_of_joint(log_joint: np.ndarray) -> o.LogConditional:
    m = log_joint.ndim

    def marginal(positions: frozenset[int]) -> np.ndarray:
        rest = tuple(k for k in range(m) if k not in positions)
        return np.logaddexp.reduce(log_joint, axis=rest, keepdims=True) if rest else log_joint

    def conditional(i: int, revealed: frozenset[int]) -> np.ndarray:
        return np.broadcast_to(marginal(revealed | {i}) - marginal(revealed), log_joint.shape)

    return conditional


@settings(max_examples=40, deadline=None)
@given(m=st.integers(1, 5), seed=st.integers(0, 10**6))
def test_nelbo_is_minus_the_mean_over_orders(m, seed):
    conditional = o.conditional_from_table(random_table(m, seed))
    joints = o.pseudo_joints(conditional, m)
    assert joints.exhaustive
    assert len(joints.orders) == math.factorial(m)
    spread = o.summarize_orders(joints)
    assert o.nelbo(conditional, m) == pytest.approx(-spread.mean, abs=1e-9)
    assert spread.minimum <= spread.mean <= spread.mixture + 1e-12 <= spread.maximum + 2e-12
    assert spread.spread == pytest.approx(spread.maximum - spread.minimum)
    assert spread.mean_error == 0.0


@settings(max_examples=25, deadline=None)
@given(m=st.integers(2, 4), seed=st.integers(0, 10**6))
def test_every_order_and_their_mixture_are_distributions(m, seed):
    joints = o.pseudo_joints(random_model(m, 3, seed), m)
    axes = tuple(range(1, m + 1))
    np.testing.assert_allclose(np.exp(joints.log_joint).sum(axis=axes), 1.0, atol=1e-9)
    mixture = log_mean_exp(joints.log_joint)
    assert np.exp(mixture).sum() == pytest.approx(1.0, abs=1e-9)
    np.testing.assert_array_equal(o.summarize_orders(joints).mixture, mixture)


@settings(max_examples=20, deadline=None)
@given(m=st.integers(2, 4), seed=st.integers(0, 10**6))
def test_one_joint_gives_one_answer_in_every_order(m, seed):
    raw = np.random.default_rng(seed).normal(size=(2,) * m) * 2
    log_joint = raw - np.logaddexp.reduce(raw, axis=None)
    conditional = model_of_joint(log_joint)
    spread = o.summarize_orders(o.pseudo_joints(conditional, m))
    np.testing.assert_allclose(spread.spread, 0.0, atol=1e-9)
    np.testing.assert_allclose(spread.mixture, log_joint, atol=1e-9)
    for swap in o.all_circulations(conditional, m):
        np.testing.assert_allclose(swap.value, 0.0, atol=1e-9)


@settings(max_examples=40, deadline=None)
@given(m=st.integers(2, 6), seed=st.integers(0, 10**6), data=st.data())
def test_circulations_sum_to_the_difference_of_two_orders(m, seed, data):
    conditional = o.conditional_from_table(random_table(m, seed))
    first = tuple(data.draw(st.permutations(range(m))))
    second = tuple(data.draw(st.permutations(range(m))))

    def log_joint(order):
        return sum(conditional(i, frozenset(order[:t])) for t, i in enumerate(order))

    path = o.swaps_between(conditional, first, second)
    total = sum(float(swap.value) for swap in path)
    assert total == pytest.approx(log_joint(first) - log_joint(second), abs=1e-9)


def test_two_positions_are_the_order_test():
    table = random_table(2, 3)
    conditional = o.conditional_from_table(table)
    (swap,) = o.all_circulations(conditional, 2)
    expected = log_ratio_at(table[0, 0], table[1, 1], table[1, 0], table[0, 2])
    assert float(swap.value) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("m", [2, 3, 5])
def test_the_number_of_circulations(m):
    found = list(o.all_circulations(o.conditional_from_table(random_table(m, 0)), m))
    assert len(found) == math.comb(m, 2) * 2 ** (m - 2)


@pytest.mark.parametrize("m", [2, 4])
def test_circulations_along_all_orders_are_all_of_them(m):
    conditional = o.conditional_from_table(random_table(m, 0))
    along = o.circulations_along(conditional, o.pseudo_joints(conditional, m).orders)
    found = {(c.i, c.j, c.revealed): float(c.value) for c in along}
    assert found == {
        (c.i, c.j, c.revealed): float(c.value) for c in o.all_circulations(conditional, m)
    }


def test_sampled_orders_are_distinct_seeded_and_close():
    conditional = o.conditional_from_table(random_table(7, 1))
    first, again = (o.pseudo_joints(conditional, 7, samples=200, seed=4) for _ in range(2))
    assert not first.exhaustive
    np.testing.assert_array_equal(first.orders, again.orders)
    assert len({tuple(order) for order in first.orders}) == 200
    assert not np.array_equal(first.orders, o.pseudo_joints(conditional, 7, 200, seed=5).orders)
    spread = o.summarize_orders(first)
    assert abs(spread.mean + o.nelbo(conditional, 7)) < 4 * spread.mean_error


def test_enough_samples_mean_all_orders():
    conditional = o.conditional_from_table(random_table(6, 1))
    joints = o.pseudo_joints(conditional, 6, samples=720)
    assert joints.exhaustive
    assert {tuple(x) for x in joints.orders} == set(itertools.permutations(range(6)))


def test_each_conditional_is_asked_once():
    table, asked = random_table(4, 0), []

    def conditional(i, revealed):
        asked.append((i, revealed))
        return table[i, sum(1 << j for j in revealed)]

    o.pseudo_joints(conditional, 4)
    assert len(asked) == len(set(asked)) == 4 * 2**3


def test_bad_orders_are_refused():
    with pytest.raises(AnalysisError, match="m >= 1"):
        o.pseudo_joints(lambda i, s: 0.0, 0)
    with pytest.raises(AnalysisError, match=r"\(m, 2\*\*m, \.\.\.\)"):
        o.conditional_from_table(np.zeros((3, 4)))
    with pytest.raises(AnalysisError, match="not two orders"):
        o.swaps_between(lambda i, s: 0.0, (0, 1), (0, 2))


# ConTestS


def test_contests_by_hand():
    d = np.array([1.0, -2.0, 3.0, 0.5, np.nan, 0.0, 4.0, -0.25, 2.5])
    found = contests(d, np.array([0.1, 0.2, 0.3, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8]))
    whole = found.overall
    kept = d[np.isfinite(d)]
    assert (whole.n, found.lost) == (8, 1)
    assert whole.mean == pytest.approx(kept.mean())
    assert whole.mean_abs == pytest.approx(13.25 / 8)
    assert whole.variance == pytest.approx(kept.var(ddof=1))
    assert whole.share_positive == pytest.approx(5 / 8)
    assert [q.statistics.n for q in found.quartiles] == [2, 2, 2, 2]
    assert found.quartiles[0].low == 0.1
    assert found.quartiles[-1].high == 0.8
    assert found.quartiles[0].statistics.mean == pytest.approx(-0.5)


def test_paired_test_is_wilcoxons():
    d = np.random.default_rng(0).normal(0.3, 1.0, size=200)
    test = contests(d).overall.test
    expected = wilcoxon(d)
    assert (test.n, test.statistic) == (200, expected.statistic)
    assert test.p_value == pytest.approx(expected.pvalue)
    assert test.effect > 0
    flipped = contests(-d).overall.test
    assert flipped.effect == pytest.approx(-test.effect)
    assert flipped.p_value == pytest.approx(test.p_value)


def test_contests_without_anything_to_test():
    assert contests(np.zeros(3)).overall.test.reason is not None
    empty = contests(np.array([]), np.array([]))
    assert (empty.overall.n, empty.overall.mean, empty.quartiles) == (0, None, ())
    with pytest.raises(AnalysisError, match="one entropy a pair"):
        contests(np.zeros(3), np.zeros(2))


# preferences


def test_the_closing_sentinel_counts_only_when_asked():
    original, proposed = np.log([0.3, 0.5, 0.9]), np.log([0.2, 0.6, 0.1])
    without = span_preference(original, proposed)
    assert without == pytest.approx(np.log(0.15 / 0.12))
    with_it = span_preference(original, proposed, closing_sentinel=True)
    assert with_it - without == pytest.approx(np.log(9.0))


def test_ties_do_not_flip_and_zero_probability_is_named():
    found = summarize_preferences([0.0, 1.0, -1.0], [1.0, 2.0, 1.0])
    assert (found.n, found.flips) == (3, pytest.approx(1 / 3))
    assert (found.mean, found.median) == (pytest.approx(4 / 3), 1.0)
    with pytest.raises(AnalysisError, match="pair 1 has a preference that is not finite"):
        summarize_preferences([0.0, np.inf], [0.0, 1.0])
    with pytest.raises(AnalysisError, match="two equal lists"):
        summarize_preferences([], [])
