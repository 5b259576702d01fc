"""Figures of many pairs: against the definitions, pair by pair."""

from __future__ import annotations

import numpy as np
import pytest

from mlm_consistency.analysis.bigrams import (
    figures,
    histogram,
    preference,
    read_pairs,
    summarize_bigrams,
)
from mlm_consistency.analysis.diagnose import diagnose
from mlm_consistency.errors import DataError


def cases(count: int, coherent: bool = False) -> list[dict]:
    generator = np.random.default_rng(3)
    made = []
    for number in range(count):
        joint = generator.dirichlet(np.ones(9)).reshape(3, 3)
        other = joint if coherent else generator.dirichlet(np.ones(9)).reshape(3, 3)
        made.append(
            {
                "name": str(number), "subset": True, "gold": [0, 0],
                "a_given_b": (joint / joint.sum(0))[:2, :2].tolist(),
                "b_given_a": (other / other.sum(1, keepdims=True))[:2, :2].tolist(),
                "a_masked": joint.sum(1)[:2].tolist(), "b_masked": other.sum(0)[:2].tolist(),
                "distance": 1 + number % 2, "entropy": float(number),
            }
        )  # fmt: skip
    return made


def test_figures_are_those_of_diagnose_pair_by_pair():
    made = cases(24)
    summary, results = summarize_bigrams(read_pairs(made)), diagnose(made)
    d = np.array([result["order_log_ratio"][0][0] for result in results])
    largest = np.array([result["cross_ratio"]["max_abs"] for result in results])
    assert summary["order"]["mean_abs"] == pytest.approx(np.abs(d).mean())
    assert summary["cross_ratio"]["median_abs"] == pytest.approx(np.median(largest))
    assert summary["cross_ratio"]["above_1"] == pytest.approx((largest > 1).mean())
    odd = np.arange(24) % 2 == 1
    assert summary["by_distance"][2]["order"]["mean_abs"] == pytest.approx(np.abs(d[odd]).mean())
    quartiles = summary["by_entropy"]
    assert [part["order"]["n"] for part in quartiles] == [6, 6, 6, 6]
    means = [np.abs(d[k : k + 6]).mean() for k in range(0, 24, 6)]
    assert [part["order"]["mean_abs"] for part in quartiles] == pytest.approx(means)
    contests = [part["statistics"]["n"] for part in summary["contests"]["quartiles"]]
    assert contests == [6, 6, 6, 6]
    low, high = summary["order"]["interval"]
    assert low < summary["order"]["mean_abs"] < high


def test_conditionals_of_one_joint_are_at_zero_and_its_joints_agree():
    summary = summarize_bigrams(read_pairs(cases(10, coherent=True)))
    assert summary["order"]["mean_abs"] == pytest.approx(0, abs=1e-12)
    assert summary["cross_ratio"]["mean_abs"] == pytest.approx(0, abs=1e-12)
    joints = summary["joints"]
    own = joints["conditionals"]["u_nll"]["mean"]
    for name in ("hcb", "arnold_gokhale"):
        assert joints[name]["u_nll"]["mean"] == pytest.approx(own, abs=1e-6)
        assert joints[name]["p_nll"]["mean"] == pytest.approx(joints["hcb"]["p_nll"]["mean"])


def test_preferences_follow_the_decoders_joint_where_there_is_one():
    made = cases(6)
    gaps, decoder = [], []
    for case in made:
        a, b, given = (np.log(case[key]) for key in ("a_masked", "b_given_a", "a_given_b"))
        alone = given[0, 0] - given[1, 0]
        gaps.append(abs(a[0] + b[0, 0] - a[1] - b[1, 0] - alone))
        joint = np.outer(case["a_masked"], case["b_masked"])
        case["joint_ab"] = joint.tolist()
        decoder.append(abs(np.log(joint[0, 0]) - np.log(joint[1, 0]) - alone))
    without = [{k: v for k, v in case.items() if k != "joint_ab"} for case in made]
    assert preference(read_pairs(without))["mean"] == pytest.approx(np.mean(gaps))
    assert preference(read_pairs(made))["mean"] == pytest.approx(np.mean(decoder))


def test_histograms_hold_every_value_and_end_on_the_thresholds():
    values = np.array([0.0, -0.3, 0.5, 1.2, -31.9, np.nan])
    held = histogram(values)["histogram"]
    assert sum(held["counts"]) == 5
    assert {0.5, 1.0, 2.0} <= set(held["edges"])
    assert figures(values)["lost"] == 1
    assert figures(values[-1:])["mean_abs"] is None


def test_tables_of_another_origin_are_refused():
    made = cases(2)
    del made[1]["entropy"]
    with pytest.raises(DataError, match=r"tables\[1\]: 'entropy' is missing"):
        read_pairs(made)
    with pytest.raises(DataError, match="no pair"):
        read_pairs([])
