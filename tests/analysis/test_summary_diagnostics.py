"""Confidence, bias, clustering: worked cases and properties."""

from __future__ import annotations

import json

import numpy as np
import pytest

from mlm_consistency.analysis import confidence
from mlm_consistency.analysis.bias import bias_report, traits
from mlm_consistency.analysis.clustering import cluster_conditionals, lone_dissent
from mlm_consistency.analysis.scores import Scores
from mlm_consistency.analysis.summary import AnalysisConfig, analyze

NAMES = ("baseline", "offset_1", "offset_2", "span_3_5_1")


def scores_that_predict(predictions, labels, candidates: int = 3, **more) -> Scores:
    """Scores whose conditionals predict what is given, [N, K]."""
    values = -1.0 * (np.arange(candidates) != np.asarray(predictions)[..., None])
    names = NAMES[: values.shape[1]]
    return Scores.from_arrays(values, names, labels=np.asarray(labels), **more)


def test_selective_accuracy_by_hand():
    curve = confidence.selective_accuracy(
        np.array([0.9, 0.5, 0.9, 0.1]), np.array([True, False, True, True])
    )
    assert curve.confidence.tolist() == [0.9, 0.5, 0.1]
    assert curve.coverage.tolist() == [0.5, 0.75, 1.0]
    np.testing.assert_allclose(curve.accuracy, [1, 2 / 3, 3 / 4])
    area = confidence.risk_coverage_area(
        np.array([0.9, 0.5, 0.9, 0.1]), np.array([True, False, True, True])
    )
    np.testing.assert_allclose(area, (0 + 0 + 1 / 3 + 1 / 4) / 4)


def test_area_is_between_perfect_and_reversed_order():
    rng = np.random.default_rng(0)
    right = rng.random(200) < 0.7
    noise = rng.random(200) * 0.1
    perfect = confidence.risk_coverage_area(right + noise, right)[0]
    reverse = confidence.risk_coverage_area(~right + noise, right)[0]
    constant = confidence.risk_coverage_area(np.ones(200), right)[0]
    assert perfect < constant < reverse
    assert constant == pytest.approx(1 - right.mean())


def test_weights_are_repeated_examples():
    rng = np.random.default_rng(1)
    level, right = rng.integers(5, size=30) / 5, rng.random(30) < 0.5
    weights = rng.integers(3, size=(4, 30))
    for measure in (confidence.risk_coverage_area, confidence.calibration_error):
        by_hand = [measure(np.repeat(level, w), np.repeat(right, w))[0] for w in weights]
        np.testing.assert_allclose(measure(level, right, weights), by_hand, atol=1e-12)


def test_calibration_error_by_hand():
    level = np.array([0.95, 0.95, 0.25, 1.0])
    right = np.array([True, False, False, True])
    # Bin 9 holds three: |2/3 - 2.9/3|; bin 2 one: 0.25.
    expected = 3 / 4 * abs(2 / 3 - 2.9 / 3) + 1 / 4 * 0.25
    np.testing.assert_allclose(confidence.calibration_error(level, right), expected)
    assert confidence.calibration_error(np.array([0.5] * 4), np.array([1, 1, 0, 0], bool)) == 0


def test_confidence_report():
    predictions = [[0, 0, 0, 0], [1, 1, 1, 1], [0, 1, 1, 1], [2, 1, 0, 2]]
    report = confidence.confidence_report(
        scores_that_predict(predictions, [0, 1, 0, 0]), resamples=50
    )
    parts = report["parts"]
    assert parts["agree"]["n"] == parts["disagree"]["n"] == 2
    assert parts["agree"]["baseline"]["accuracy"] == 1.0
    # The max ensemble ties between candidates that any conditional prefers: the first wins.
    assert parts["disagree"]["baseline"]["accuracy"] == 0.5
    assert parts["disagree"]["ensemble"]["accuracy"] == 1.0
    agreement = report["signals"]["agreement"]
    assert [row["confidence"] for row in agreement["selective"]] == [1.0, 0.25]
    assert [row["n"] for row in agreement["selective"]] == [2, 4]
    for signal in report["signals"].values():
        assert signal["n"] == 4
        low, high = signal["ece"]["interval"]
        assert low <= high


def test_parts_without_examples():
    report = confidence.confidence_report(
        scores_that_predict([[0, 0]] * 3, [0, 1, 0]), resamples=20
    )
    assert report["parts"]["disagree"] == {
        "n": 0,
        "baseline": {"accuracy": None, "interval": [0.0, 1.0]},
        "ensemble": {"accuracy": None, "interval": [0.0, 1.0]},
    }


def test_traits_by_hand():
    scores = scores_that_predict(
        [[0], [0]],
        [0, 1],
        lengths=np.array([[1, 2, 1], [3, 2, 0]]),
        candidate_mask=np.array([[1, 1, 1], [1, 1, 0]], bool),
        candidate_texts=[["yes", "no", "may be"], ["no", "yes indeed"]],
    )
    found = {name: value.tolist() for name, value in traits(scores).items()}
    assert found == {
        "first": [[1, 0, 0], [1, 0, 0]],
        "last": [[0, 0, 1], [0, 1, 0]],
        "shortest": [[1, 0, 1], [0, 1, 0]],
        "longest": [[0, 1, 0], [1, 0, 0]],
        "frequent": [[0, 1, 0], [1, 0, 0]],
        "tokens": [[1, 2, 1], [3, 2, 0]],
    }


def test_bias_by_hand():
    # Right answers are first in 1 of 4; the baseline always takes the first.
    predictions = np.column_stack([[0, 0, 0, 0], [0, 1, 2, 1]])
    report = bias_report(scores_that_predict(predictions, [0, 1, 2, 1]))
    assert set(report) == {"first", "last"}, "all candidates have one token and are offered alike"
    first = report["first"]
    assert first["right"] == 0.25
    assert first["conditionals"]["baseline"]["bias"] == 0.75
    assert first["conditionals"]["offset_1"]["bias"] == 0.0
    assert report["last"]["conditionals"]["baseline"]["bias"] == -0.25


def test_several_right_answers_count_in_parts():
    labels = np.array([[True, True, False], [False, False, True]])
    report = bias_report(scores_that_predict([[0], [2]], labels))
    assert report["first"]["right"] == 0.25


def test_a_shuffled_task_has_no_bias_to_the_first():
    rng = np.random.default_rng(0)
    predictions, labels = rng.integers(3, size=(600, 4)), rng.integers(3, size=600)
    report = bias_report(scores_that_predict(predictions, labels))
    for row in report["first"]["conditionals"].values():
        assert row["interval"][0] < 0 < row["interval"][1]


def test_clusters_find_the_two_families():
    rng = np.random.default_rng(0)
    one, other = rng.integers(3, size=(2, 300))
    noise = rng.random((300, 4)) < 0.1
    predictions = np.where(noise, rng.integers(3, size=(300, 4)), np.column_stack([one, other] * 2))
    tree = cluster_conditionals(scores_that_predict(predictions, one), resamples=50)
    assert tree["merges"][0]["members"] in (["baseline", "offset_2"], ["offset_1", "span_3_5_1"])
    assert {tuple(m["members"]) for m in tree["merges"]} == {
        ("baseline", "offset_2"),
        ("offset_1", "span_3_5_1"),
        NAMES,
    }
    assert all(merge["support"] == 1.0 for merge in tree["merges"])
    assert tree["merges"][2]["distance"] > 0.5
    assert sorted(tree["order"]) == sorted(NAMES)


def test_one_conditional_has_no_tree():
    assert cluster_conditionals(scores_that_predict([[0], [1]], [0, 1]))["merges"] == []


def test_lone_dissent_by_hand():
    predictions = [[0, 1, 1, 1], [0, 0, 0, 2], [1, 0, 0, 0], [1, 1, 0, 0], [0, 0, 0, 0]]
    rows = lone_dissent(scores_that_predict(predictions, [1, 2, 1, 1, 0]))
    assert {name: row["alone"] for name, row in rows.items()} == {
        "baseline": 2,
        "offset_1": 0,
        "offset_2": 0,
        "span_3_5_1": 1,
    }
    assert (rows["baseline"]["right"], rows["baseline"]["others_right"]) == (1, 1)
    assert (rows["span_3_5_1"]["right"], rows["span_3_5_1"]["others_right"]) == (1, 0)
    assert rows["baseline"]["interval"][0] < 0.4 < rows["baseline"]["interval"][1]
    two = lone_dissent(scores_that_predict([[0, 1]], [0]))
    assert all(row["alone"] == 0 for row in two.values())


def test_all_of_it_is_in_the_summary_and_is_json():
    rng = np.random.default_rng(0)
    scores = scores_that_predict(rng.integers(3, size=(60, 4)), rng.integers(3, size=60))
    content = analyze(scores, AnalysisConfig(resamples=50)).content
    added = {"ensemble_gains", "confidence", "bias", "clusters", "lone_dissent", "breakdown"}
    assert added < content.keys()
    assert json.loads(json.dumps(content, allow_nan=False)) == content
    assert (
        not added & analyze(scores, AnalysisConfig(resamples=50, diagnostics=False)).content.keys()
    )
