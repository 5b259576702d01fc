"""Cross-ratio, order test, compatibility, Gibbs: identities over random tables."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pair_cases import log_joints, of_joint, random_tables

from mlm_consistency.analysis import cross_ratio as cross
from mlm_consistency.analysis.compatibility import Status, compatibility, compatibility_score
from mlm_consistency.analysis.divergences import entropy, jensen_shannon, kl_divergence
from mlm_consistency.analysis.gibbs import gibbs_stationary
from mlm_consistency.analysis.order_test import (
    log_ratio_at,
    order_log_ratio,
    relative_difference,
    split_order,
    summarize_order,
)
from mlm_consistency.analysis.pair_tables import PairTables, log_of
from mlm_consistency.errors import AnalysisError


@settings(max_examples=60, deadline=None)
@given(tables=random_tables())
def test_d_is_the_second_difference_of_the_order_log_ratio(tables):
    d, found = order_log_ratio(tables), cross.minors(tables)
    for p, (i, k) in enumerate(found.row_pairs):
        for q, (j, col) in enumerate(found.column_pairs):
            expected = d[i, j] + d[k, col] - d[i, col] - d[k, j]
            assert found.values[p, q] == pytest.approx(expected, abs=1e-9)


@settings(max_examples=60, deadline=None)
@given(tables=random_tables())
def test_summary_equals_the_listed_minors(tables):
    values = np.abs(cross.minors(tables).values)
    summary = cross.summarize_cross_ratio(tables)
    assert summary.max_abs == pytest.approx(values.max(), abs=1e-9)
    assert summary.mean_abs == pytest.approx(values.mean(), abs=1e-9)
    assert summary.defined == summary.total == values.size


@settings(max_examples=60, deadline=None)
@given(tables=random_tables(least=3), data=st.data())
def test_d_does_not_change_on_a_subset(tables, data):
    rows = data.draw(st.permutations(range(tables.shape[0])))[:2]
    columns = data.draw(st.permutations(range(tables.shape[1])))[:2]
    cells = np.ix_(rows, columns)
    raw = PairTables(tables.log_a_given_b[cells], tables.log_b_given_a[cells], subset=True)
    d = cross.minors(raw).values[0, 0]
    assert cross.minors(raw.renormalized()).values[0, 0] == pytest.approx(d, abs=1e-9)
    a_solved, b_solved = cross.solved_conditionals(raw.log_a_given_b, raw.log_b_given_a)
    np.testing.assert_allclose(np.abs(a_solved - raw.log_a_given_b), abs(d), rtol=0, atol=1e-9)
    np.testing.assert_allclose(np.abs(b_solved - raw.log_b_given_a), abs(d), rtol=0, atol=1e-9)


@settings(max_examples=60, deadline=None)
@given(log_joint=log_joints())
def test_a_true_joint_passes_every_test(log_joint):
    tables = of_joint(log_joint)
    np.testing.assert_allclose(order_log_ratio(tables), 0.0, atol=1e-9)
    assert cross.summarize_cross_ratio(tables).max_abs == pytest.approx(0.0, abs=1e-9)
    assert compatibility_score(tables) == pytest.approx(0.0, abs=1e-9)
    assert compatibility(tables).status is Status.COMPATIBLE
    found = gibbs_stationary(tables)
    np.testing.assert_allclose(found.a, np.exp(tables.log_a_masked), atol=1e-9)
    assert found.scan_max_abs == pytest.approx(0.0, abs=1e-9)


@settings(max_examples=40, deadline=None)
@given(log_joint=log_joints(), seed=st.integers(0, 10**6))
def test_wrong_marginals_are_the_marginal_part_alone(log_joint, seed):
    tables, generator = of_joint(log_joint), np.random.default_rng(seed)
    wrong = PairTables(
        tables.log_a_given_b,
        tables.log_b_given_a,
        log_of(generator.dirichlet(np.ones(log_joint.shape[0]))),
        log_of(generator.dirichlet(np.ones(log_joint.shape[1]))),
    )
    split = split_order(order_log_ratio(wrong))
    np.testing.assert_allclose(split.interaction, 0.0, atol=1e-9)
    assert cross.summarize_cross_ratio(wrong).max_abs == pytest.approx(0.0, abs=1e-9)


@settings(max_examples=40, deadline=None)
@given(tables=random_tables())
def test_the_split_adds_up_and_keeps_d_in_the_interaction(tables):
    d = order_log_ratio(tables)
    split = split_order(d)
    np.testing.assert_allclose(split.marginal + split.interaction, d, atol=1e-9)
    assert sum(split.mean_squares) == pytest.approx(np.mean(d**2), abs=1e-9)
    rows, columns = np.diff(split.interaction, axis=0), np.diff(split.marginal, axis=0)
    np.testing.assert_allclose(
        np.diff(rows, axis=1) * -1 * -1, cross.minors(tables, "adjacent").values, atol=1e-9
    )
    np.testing.assert_allclose(np.diff(columns, axis=1), 0.0, atol=1e-9)


@given(d=st.floats(-30, 30))
def test_the_papers_figure(d):
    j1, j2 = np.exp(d) * 1e-5, 1e-5
    assert relative_difference(d) == pytest.approx(abs(j1 - j2) / ((j1 + j2) / 2), abs=1e-9)


def test_cells_agree_with_tables():
    tables = PairTables.from_probabilities(
        [[0.8, 0.25], [0.2, 0.75]], [[0.8, 0.2], [0.4, 0.6]], [0.5, 0.5], [0.6, 0.4]
    )
    cell = log_ratio_at(*np.log([0.5, 0.4, 0.6, 0.2]))  # a_1, b_0
    assert order_log_ratio(tables)[1, 0] == pytest.approx(cell, abs=1e-12)


def test_a_batch_equals_each_table_alone():
    generator = np.random.default_rng(0)
    a = generator.dirichlet(np.ones(3), size=(4, 5)).swapaxes(1, 2)
    b = generator.dirichlet(np.ones(5), size=(4, 3))
    am, bm = generator.dirichlet(np.ones(3), size=4), generator.dirichlet(np.ones(5), size=4)
    tables = PairTables.from_probabilities(a, b, am, bm)
    summary, order = cross.summarize_cross_ratio(tables), summarize_order(tables)
    for n in range(4):
        alone = PairTables.from_probabilities(a[n], b[n], am[n], bm[n])
        assert summary.max_abs[n] == cross.summarize_cross_ratio(alone).max_abs
        assert order.jsd[n] == pytest.approx(summarize_order(alone).jsd, abs=1e-12)
        assert compatibility_score(tables)[n] == pytest.approx(compatibility_score(alone))


def test_zeros_leave_only_their_own_minors_undefined():
    tables = PairTables.from_probabilities(
        [[0.0, 0.2, 0.3], [0.5, 0.3, 0.3], [0.5, 0.5, 0.4]],
        [[0.0, 0.4, 0.6], [0.2, 0.4, 0.4], [0.3, 0.3, 0.4]],
    )
    values = cross.minors(tables).values
    summary = cross.summarize_cross_ratio(tables)
    assert np.isnan(values).sum() == 4
    assert (summary.defined, summary.total) == (5, 9)
    assert summary.max_abs == pytest.approx(np.nanmax(np.abs(values)), abs=1e-12)
    assert summary.mean_abs == pytest.approx(np.nanmean(np.abs(values)), abs=1e-12)
    assert np.isnan(compatibility_score(tables))
    assert compatibility(tables).status is Status.INCOMPATIBLE


def test_four_verdicts():
    def verdict(a, b):
        return compatibility(PairTables.from_probabilities(a, b))

    different = verdict([[1.0, 0.25], [0.0, 0.75]], [[0.8, 0.2], [0.4, 0.6]])
    assert different.status is Status.INCOMPATIBLE
    assert "a_given_b[1][0] is zero and b_given_a[1][0] is not" in different.reason
    assert np.isnan(different.misfit)
    # a joint with one zero, 3 x 3: connected, exact on the positive cells
    joint = np.array([[0.0, 0.1, 0.2], [0.1, 0.1, 0.1], [0.2, 0.1, 0.1]])
    with_zero = compatibility(of_joint(log_of(joint)))
    assert with_zero.status is Status.UNDEFINED
    assert with_zero.joint_exists
    # the same pattern, contradicting itself around a cycle of three words each
    a = joint / joint.sum(axis=0)
    a[:, 2] = [0.6, 0.2, 0.2]
    assert verdict(a, joint / joint.sum(axis=1, keepdims=True)).status is Status.INCOMPATIBLE
    blocks = np.array([[0.3, 0.0, 0.0], [0.0, 0.3, 0.4]])
    assert compatibility(of_joint(log_of(blocks))).status is Status.NOT_UNIQUE


def test_a_six_cycle_without_any_2x2_minor():
    """Cross-ratios see nothing here; the cycle of six cells still decides."""
    pattern = np.array([[1.0, 1.0, 0.0], [0.0, 1.0, 1.0], [1.0, 0.0, 1.0]])
    a, b = pattern / 2, pattern / 2
    assert compatibility(PairTables.from_probabilities(a, b)).status is Status.UNDEFINED
    a = a.copy()
    a[:, 0] = [0.9, 0.0, 0.1]
    tables = PairTables.from_probabilities(a, b)
    assert np.isnan(cross.summarize_cross_ratio(tables).max_abs)
    found = compatibility(tables)
    assert found.status is Status.INCOMPATIBLE
    assert found.misfit == pytest.approx(np.log(9.0), abs=1e-9)


def test_gibbs_refuses_what_has_no_single_answer():
    blocks = PairTables.from_probabilities([[1.0, 0.0], [0.0, 1.0]], [[1.0, 0.0], [0.0, 1.0]])
    with pytest.raises(AnalysisError, match="2 blocks of words"):
        gibbs_stationary(blocks)
    # a_1 is left at once and never comes back: one closed block, mass there alone
    leaving = PairTables.from_probabilities([[1.0, 1.0], [0.0, 0.0]], [[0.5, 0.5], [0.2, 0.8]])
    np.testing.assert_allclose(gibbs_stationary(leaving).a, [1.0, 0.0])


def test_divergences_at_the_edges():
    p, q = log_of([0.5, 0.5, 0.0]), log_of([1.0, 0.0, 0.0])
    assert kl_divergence(p, q) == np.inf
    assert kl_divergence(q, p) == pytest.approx(np.log(2))
    assert kl_divergence(p, p) == jensen_shannon(p, p) == 0.0
    assert entropy(p) == pytest.approx(np.log(2))
    assert np.isnan(kl_divergence(p, np.full(3, np.nan)))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"b_given_a": [[0.5, 0.5]]}, r"b_given_a must have shape \(2, 2\).*Got \(1, 2\)"),
        ({"a_given_b": [[-0.1, 0.5], [1.1, 0.5]]}, r"a_given_b\[0\]\[0\] = -0.1"),
        ({"a_given_b": [[float("nan"), 0.5], [0.5, 0.5]]}, r"a_given_b\[0\]\[0\] = nan"),
        ({"a_given_b": [[0.6, 0.5], [0.5, 0.5]]}, r"a_given_b must sum to one over a.*Got 1\.1"),
        ({"b_given_a": [[0.6, 0.4], [0.5, 0.4]]}, r"b_given_a must sum .* at index \[1\]"),
        ({"a_masked": [0.2, 0.2]}, "a_masked must sum to one"),
        ({"b_masked": [1.0]}, "b_masked must have shape"),
        ({"a_given_b": [0.5, 0.5]}, r"shape \(\.\.\., I, J\)"),
    ],
)
def test_bad_tables_are_refused(change, message):
    tables = {"a_given_b": [[0.5, 0.5], [0.5, 0.5]], "b_given_a": [[0.5, 0.5], [0.5, 0.5]]}
    with pytest.raises(AnalysisError, match=message):
        PairTables.from_probabilities(**(tables | change))


def test_a_subset_may_stay_below_one_and_not_go_above():
    PairTables.from_probabilities([[0.1, 0.2]], [[0.3, 0.4]], subset=True)
    with pytest.raises(AnalysisError, match="at most one"):
        PairTables.from_probabilities([[0.1, 0.2]], [[0.7, 0.4]], subset=True)


def test_minors_need_two_words_and_a_known_kind():
    one = PairTables.from_probabilities([[1.0, 1.0]], [[0.5, 0.5]])
    with pytest.raises(AnalysisError, match="two words at each position"):
        cross.minors(one)
    two = PairTables.from_probabilities([[0.5, 0.5], [0.5, 0.5]], [[0.5, 0.5], [0.5, 0.5]])
    with pytest.raises(AnalysisError, match='"all" or "adjacent"'):
        cross.minors(two, "some")
    with pytest.raises(AnalysisError, match="2 x 2"):
        cross.four_bigrams(one.log_a_given_b, one.log_b_given_a)
