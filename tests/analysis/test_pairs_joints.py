"""Coherent joints: contracts over the table of names, identities over random tables, speed."""

from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pair_cases import log_joints, of_joint, random_tables, tables_with_zeros
from scipy.optimize import minimize

from mlm_consistency.analysis import joints
from mlm_consistency.analysis.divergences import (
    conditional_divergences,
    jensen_shannon,
    pairwise_nll,
    unary_nll,
)
from mlm_consistency.analysis.joints_arnold_gokhale import fit_arnold_gokhale, fixed_point_step
from mlm_consistency.analysis.pair_tables import PairTables, log_normalize, log_of
from mlm_consistency.errors import AnalysisError, UnknownNameError


def with_logits(tables: PairTables) -> PairTables:
    return PairTables(
        tables.log_a_given_b, tables.log_b_given_a, tables.log_a_masked, tables.log_b_masked,
        tables.log_a_given_b + 0.5, tables.log_b_given_a - 0.25,
    )  # fmt: skip


def batch(count: int, rows: int, columns: int, sharpness: float, seed: int = 0) -> PairTables:
    generator = np.random.default_rng(seed)

    def table(shape, axis):
        return log_normalize(generator.normal(size=shape) * sharpness, axis)

    return with_logits(
        PairTables(
            table((count, rows, columns), -2), table((count, rows, columns), -1),
            table((count, rows), -1), table((count, columns), -1),
        )
    )  # fmt: skip


@pytest.mark.parametrize("name", joints.JOINTS)
@settings(max_examples=30, deadline=None)
@given(tables=random_tables())
def test_every_joint_is_a_distribution(name, tables):
    q = np.exp(joints.coherent_joint(name, with_logits(tables)))
    assert q.shape == tables.shape
    assert (q >= 0).all()
    assert q.sum() == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize("name", joints.JOINTS)
def test_a_batch_equals_each_table_alone(name):
    tables = batch(5, 3, 4, 2.0)
    together = joints.coherent_joint(name, tables)
    for n in range(5):
        alone = PairTables(
            *(
                getattr(tables, f"log_{part}")[n]
                for part in ("a_given_b", "b_given_a", "a_masked", "b_masked")
            ),
            tables.logits_a_given_b[n],
            tables.logits_b_given_a[n],
        )
        np.testing.assert_allclose(
            together[n], joints.coherent_joint(name, alone), rtol=0, atol=1e-9
        )


@settings(max_examples=60, deadline=None)
@given(log_joint=log_joints())
def test_hcb_arnold_gokhale_and_mixture_recover_a_true_joint(log_joint):
    tables = of_joint(log_joint)
    truth = np.exp(log_joint)
    for pivot in range(tables.shape[0]):
        np.testing.assert_allclose(np.exp(joints.hcb(tables, pivot)), truth, rtol=0, atol=1e-9)
    fitted = fit_arnold_gokhale(tables)
    np.testing.assert_allclose(np.exp(fitted.log_joint), truth, rtol=0, atol=1e-7)
    assert fitted.objective == pytest.approx(0.0, abs=1e-9)
    np.testing.assert_allclose(np.exp(joints.order_mixture(tables)), truth, rtol=0, atol=1e-9)


@settings(max_examples=60, deadline=None)
@given(tables=random_tables())
def test_arnold_gokhale_objective_is_the_lowest(tables):
    best = fit_arnold_gokhale(tables)
    for name in joints.JOINTS:
        other = joints.coherent_joint(name, with_logits(tables))
        assert best.objective <= conditional_divergences(other, tables).objective + 1e-9
    assert best.gap <= 1e-9


@settings(max_examples=15, deadline=None)
@given(tables=random_tables(most=4))
def test_arnold_gokhale_against_a_general_optimiser(tables):
    def objective(theta):
        joint = log_normalize(theta.reshape(tables.shape), (-2, -1))
        return float(conditional_divergences(joint, tables).objective)

    start = np.zeros(tables.shape).ravel()
    found = minimize(objective, start, method="BFGS", options={"gtol": 1e-7})
    best = fit_arnold_gokhale(tables).objective
    assert best <= found.fun + 1e-9
    assert best == pytest.approx(found.fun, abs=1e-6)


@settings(max_examples=30, deadline=None)
@given(tables=random_tables())
def test_classical_steps_never_raise_the_objective_and_stay_at_the_minimum(tables):
    q = np.full(tables.shape, -np.log(tables.log_a_given_b.size))
    values = []
    for _ in range(20):
        values.append(conditional_divergences(q, tables).objective)
        q = fixed_point_step(q, tables)
    assert (np.diff(values) <= 1e-12).all()
    best = fit_arnold_gokhale(tables).log_joint
    np.testing.assert_allclose(
        np.exp(fixed_point_step(best, tables)), np.exp(best), rtol=0, atol=1e-9
    )


@settings(max_examples=80, deadline=None)
@given(tables=tables_with_zeros())
def test_arnold_gokhale_respects_zero_patterns(tables):
    fitted = fit_arnold_gokhale(tables)
    shared = ~np.isfinite(tables.log_a_given_b) & ~np.isfinite(tables.log_b_given_a)
    assert (np.isfinite(fitted.log_joint) == ~shared).all()
    assert np.exp(fitted.log_joint).sum() == pytest.approx(1.0)
    slow = np.full(tables.shape, -np.log(shared.size))
    for _ in range(300):
        slow = fixed_point_step(slow, tables)
    assert fitted.objective <= conditional_divergences(slow, tables).objective + 1e-9


def test_minimum_at_infinity():
    """p(a|b) rules a_1 out and p(b|a) does not: its mass goes to zero, and so does f."""
    tables = PairTables.from_probabilities([[1.0, 1.0], [0.0, 0.0]], [[0.5, 0.5], [0.5, 0.5]])
    fitted = fit_arnold_gokhale(tables)
    assert fitted.objective == pytest.approx(0.0, abs=1e-9)
    assert np.exp(fitted.log_joint)[1].max() < 1e-9


@settings(max_examples=30, deadline=None)
@given(tables=random_tables())
def test_hcb_pivots_agree_exactly_when_compatible(tables):
    found = [joints.hcb(tables, pivot) for pivot in range(tables.shape[0])]
    spread = max(jensen_shannon(found[0], other, (0, 1)) for other in found)
    assert spread > 1e-12
    assert fit_arnold_gokhale(tables).objective > 1e-9


def test_transposing_transposes():
    tables = batch(3, 3, 5, 2.0)
    for name in ("naive", "mrf", "mrf_local", "arnold_gokhale", "order_mixture"):
        np.testing.assert_allclose(
            joints.coherent_joint(name, tables.transposed()),
            np.swapaxes(joints.coherent_joint(name, tables), 1, 2),
            rtol=0,
            atol=1e-9,
        )


@pytest.mark.parametrize("sharpness", [10.0, 30.0])
def test_sharp_tables_converge(sharpness):
    fitted = fit_arnold_gokhale(batch(40, 8, 6, sharpness))
    assert (fitted.gap <= 1e-9).all()
    assert np.isfinite(fitted.objective).all()


def test_a_thousand_tables_take_seconds():
    tables = batch(1000, 30, 30, 3.0)
    start = time.process_time()
    for name in joints.JOINTS:
        joints.coherent_joint(name, tables)
    assert time.process_time() - start < 5.0


def test_gold_pair():
    log_joint = log_of([[0.4, 0.1], [0.2, 0.3]])
    assert pairwise_nll(log_joint, 0, 1) == pytest.approx(-np.log(0.1), abs=1e-12)
    expected = -0.5 * (np.log(0.1 / 0.4) + np.log(0.1 / 0.5))
    assert unary_nll(log_joint, 0, 1) == pytest.approx(expected, abs=1e-12)
    many = np.stack([log_joint, log_joint])
    np.testing.assert_allclose(
        pairwise_nll(many, np.array([0, 1]), np.array([1, 0])), -np.log([0.1, 0.2])
    )
    with pytest.raises(AnalysisError, match=r"gold index b must lie in 0\.\.1"):
        pairwise_nll(log_joint, 0, 2)


def test_what_is_missing_is_named():
    tables = PairTables.from_probabilities([[0.5, 0.5], [0.5, 0.5]], [[0.5, 0.5], [0.5, 0.5]])
    for name, needed in (
        ("naive", "a_masked"), ("order_mixture", "a_masked"), ("hcb", "pivot"), ("mrf", "logits"),
    ):  # fmt: skip
        with pytest.raises(AnalysisError, match=needed):
            joints.coherent_joint(name, tables)
    with pytest.raises(UnknownNameError, match="Did you mean 'mrf_local'"):
        joints.coherent_joint("mrf_locl", tables)
    subset = PairTables.from_probabilities([[0.1, 0.2]], [[0.1, 0.2]], subset=True)
    with pytest.raises(AnalysisError, match="subset"):
        fit_arnold_gokhale(subset)
    with pytest.raises(AnalysisError, match=r"pivot must lie in 0\.\.1"):
        joints.hcb(tables, 2)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_block_weights_follow_the_masked_distributions(seed):
    generator = np.random.default_rng(seed)
    joint = np.zeros((4, 5))
    joint[:2, :3] = generator.random((2, 3)) + 0.1
    joint[2:, 3:] = generator.random((2, 2)) + 0.1
    joint /= joint.sum()
    tables = of_joint(log_of(joint))
    np.testing.assert_allclose(
        np.exp(fit_arnold_gokhale(tables).log_joint), joint, rtol=0, atol=1e-7
    )
    bare = PairTables(tables.log_a_given_b, tables.log_b_given_a)
    q = np.exp(fit_arnold_gokhale(bare).log_joint)
    assert q[:2].sum() == pytest.approx(5 / 9)  # (I_block + J_block) / (I + J)
