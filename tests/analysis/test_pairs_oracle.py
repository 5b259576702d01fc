"""The exact answers for pairs: every number of `oracle_pairs.json` at its own tolerance."""

from __future__ import annotations

import numpy as np
import pytest
from pair_cases import CASES, JOINT_TOLERANCE, TABLE_CASES, TOLERANCE, of_joint, tables_of

from mlm_consistency.analysis import cross_ratio as cross
from mlm_consistency.analysis import divergences as dv
from mlm_consistency.analysis import joints
from mlm_consistency.analysis.compatibility import Status, compatibility, compatibility_score
from mlm_consistency.analysis.gibbs import gibbs_stationary
from mlm_consistency.analysis.joints_arnold_gokhale import fit_arnold_gokhale
from mlm_consistency.analysis.ngrams import preference_confused, span_preference
from mlm_consistency.analysis.order_test import (
    order_log_ratio,
    relative_difference,
    summarize_order,
)
from mlm_consistency.analysis.pair_tables import PairTables, log_of

every_table = pytest.mark.parametrize("name", TABLE_CASES)


def near(value, expected, tolerance=TOLERANCE):
    np.testing.assert_allclose(value, expected, rtol=0, atol=tolerance)


def keyed(values: np.ndarray, found: cross.Minors) -> dict[str, float]:
    return {
        f"{i}{k}|{j}{m}": values[p, q]
        for p, (i, k) in enumerate(found.row_pairs)
        for q, (j, m) in enumerate(found.column_pairs)
    }


@every_table
def test_cross_ratio(name):
    case, tables = CASES[name], tables_of(name)
    found = cross.minors(tables)
    for key, value in keyed(found.values, found).items():
        near(value, case["cross_ratio_log_discrepancy"][key])
    assert len(case["cross_ratio_log_discrepancy"]) == found.values.size
    for side, table in (("A", tables.log_a_given_b), ("B", tables.log_b_given_a)):
        for key, value in keyed(cross.log_odds_ratio(table), found).items():
            near(value, case[f"lor_from_{side}"][key])
    summary = cross.summarize_cross_ratio(tables)
    near(summary.max_abs, case["max_abs_cross"])
    near(summary.mean_abs, case["mean_abs_cross"])
    near(compatibility_score(tables), case["arnold_press_mean_sq"])


@every_table
def test_order(name):
    case, tables = CASES[name]["order"], tables_of(name)
    d = order_log_ratio(tables)
    near(d, case["log_ratio"])
    near(relative_difference(d), case["authors_rel"])
    summary = summarize_order(tables)
    near(summary.mean_abs, case["mean_abs_log"])
    near(summary.kl_first_second, case["KL_j12_j21"])
    near(summary.jsd, case["JSD"])


@every_table
def test_joints(name):
    case, tables = CASES[name], tables_of(name)
    near(np.exp(joints.naive(tables)), case["naive_joint"])
    near(np.exp(joints.mrf_local(tables)), case["MRF_local_joint"])
    by_pivot = case["HCB_joint_by_pivot"]
    found = {pivot: joints.hcb(tables, int(pivot)) for pivot in by_pivot}
    for pivot, joint in by_pivot.items():
        near(np.exp(found[pivot]), joint)
    spread = max(dv.jensen_shannon(found[p], found[q], (0, 1)) for p in by_pivot for q in by_pivot)
    near(spread, case["HCB_pivot_spread_max_JSD"])
    for joint in ("naive", "mrf_local"):
        divergences = dv.conditional_divergences(joints.coherent_joint(joint, tables), tables)
        key = {"naive": "naive", "mrf_local": "MRF_local"}[joint]
        near(divergences.objective, case[f"{key}_objective_sum_KL"])


@every_table
def test_arnold_gokhale(name):
    case, tables = CASES[name], tables_of(name)
    fitted = fit_arnold_gokhale(tables)
    near(np.exp(fitted.log_joint), case["AG_joint"], JOINT_TOLERANCE)
    near(fitted.objective, case["AG_objective_sum_KL"])
    divergences = dv.conditional_divergences(fitted.log_joint, tables)
    near(divergences.mean("forward"), case["AG_mean_KL_per_conditional"])
    if "true_joint" in case:
        near(np.exp(fitted.log_joint), case["true_joint"], JOINT_TOLERANCE)


@every_table
def test_gibbs(name):
    case, found = CASES[name], gibbs_stationary(tables_of(name))
    near(found.a, case["gibbs_pi_a"])
    near(found.b, case["gibbs_pi_b"])
    near(found.scan_max_abs, case["gibbs_scan_order_max_abs"])
    near(found.scan_jsd, case["gibbs_scan_order_JSD"])


def test_doubled_odds_give_ln_2():
    case = CASES["c4_perturbed_2x2_ln2"]
    summary = cross.summarize_cross_ratio(tables_of("c4_perturbed_2x2_ln2"))
    near(summary.max_abs, case["expected_abs_D"])
    near(summary.max_abs, np.log(2.0))


@pytest.mark.parametrize("which", ["coherent", "perturbed"])
def test_eight_conditionals_of_a_subset(which):
    case = CASES["c5_restricted_vocab_eight_conditionals"][which]

    def grids(values):
        a = [[values[f"p0{i}_1{j}"] for j in (0, 1)] for i in (0, 1)]
        b = [[values[f"p1{j}_0{i}"] for j in (0, 1)] for i in (0, 1)]
        return log_of(a), log_of(b)

    given = grids(case["given"])
    near(cross.four_bigrams(*given), case["D"])
    for solved, expected, raw, gap in zip(
        cross.solved_conditionals(*given),
        grids(case["solved"]),
        given,
        grids({k: np.exp(v) for k, v in case["abs_log_diff"].items()}),
        strict=True,
    ):
        near(np.exp(solved), np.exp(expected))
        near(np.abs(solved - raw), gap)
    # two-way renormalisation over the subset leaves D as it is
    whole = PairTables(*given, subset=True).renormalized()
    near(cross.minors(whole).values[0, 0], case["D"])


def test_t5_bigrams():
    for case in CASES["c11_t5_bigram"]["cases"]:
        joint = span_preference(
            np.log([*case["joint_original"], 1.0]), np.log([*case["joint_proposed"], 1.0])
        )
        word = span_preference(
            np.log([case["cond_original"], 1.0]), np.log([case["cond_proposed"], 1.0])
        )
        near(joint, case["pref_joint"])
        near(word, case["pref_cond"])
        near(abs(joint - word), case["abs_diff"])
        assert bool(preference_confused(joint, word)) is case["confused"]


def test_jensen_shannon_and_kl():
    case = CASES["c13_jsd"]
    p, q = log_of(case["p"]), log_of(case["q"])
    near(dv.jensen_shannon(p, q), case["JSD_nats"])
    near(dv.jensen_shannon(p, q) / np.log(2), case["JSD_bits"])
    near(np.sqrt(dv.jensen_shannon(p, q)), case["JS_distance_scipy"])
    near(dv.kl_divergence(p, q), case["KL_pq"])
    near(dv.kl_divergence(q, p), case["KL_qp"])
    near(dv.jensen_shannon(log_of([1.0, 0.0]), log_of([0.0, 1.0])), case["max_JSD_nats"])


def test_shared_zero_leaves_the_cross_ratio_undefined():
    case = CASES["c15_structural_zero"]
    tables = PairTables.from_probabilities(case["A"], case["B"])
    assert case["cross_ratio"] is None
    assert np.isnan(cross.minors(tables).values).all()
    assert np.isnan(cross.summarize_cross_ratio(tables).max_abs)
    verdict = compatibility(tables)
    assert verdict.status is Status.UNDEFINED
    assert verdict.joint_exists
    assert verdict.unique
    fitted = fit_arnold_gokhale(tables)
    near(np.exp(fitted.log_joint), case["AG_joint"], JOINT_TOLERANCE)
    near(np.exp(fitted.log_joint), case["true_joint"], JOINT_TOLERANCE)
    valid = np.flatnonzero(joints.valid_pivots(tables)).tolist()
    assert valid == case["HCB_valid_pivots"]
    near(np.exp(joints.hcb(tables, 1)), case["true_joint"])
    assert np.isnan(joints.hcb(tables, 0)).all()


def test_disjoint_modes_are_compatible_but_not_unique():
    case = CASES["c16_disjoint_modes"]
    with_3, with_7 = (of_joint(log_of(case[f"J_w0{w}"])) for w in (3, 7))
    for tables in (with_3, with_7):
        near(np.exp(tables.log_a_given_b), case["A"])
        near(np.exp(tables.log_b_given_a), case["B"])
        verdict = compatibility(tables)
        assert (verdict.status, verdict.blocks) == (Status.NOT_UNIQUE, 2)
        assert (verdict.joint_exists, verdict.unique) == (case["compatible"], case["unique"])
    near(np.exp(with_3.log_a_masked), case["p_a_w03"])
    near(np.exp(with_7.log_a_masked), case["p_a_w07"])
    # the both-masked distributions resolve the weight of the modes
    near(np.exp(fit_arnold_gokhale(with_3).log_joint), case["J_w03"], JOINT_TOLERANCE)
    near(np.exp(fit_arnold_gokhale(with_7).log_joint), case["J_w07"], JOINT_TOLERANCE)
