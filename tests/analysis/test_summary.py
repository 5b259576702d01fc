"""The curve (oracle c10) and summary.json, against counting by hand."""

from __future__ import annotations

import itertools
import json
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from mlm_consistency.analysis.breakdown import breakdown, length_bins
from mlm_consistency.analysis.curve import ensemble_curve
from mlm_consistency.analysis.ensembles import REDUCTIONS, get_reduction
from mlm_consistency.analysis.scores import Scores
from mlm_consistency.analysis.statistics import mcnemar
from mlm_consistency.analysis.summary import AnalysisConfig, analyze
from mlm_consistency.analysis.summary_file import analyze_run, read_summary, write_summary
from mlm_consistency.errors import AnalysisError, ConfigError, UnknownNameError
from mlm_consistency.records import open_run

sys.path.append(str(Path(__file__).parents[1] / "records"))
import fake_scorer

# 6 examples x 4 conditionals (the baseline first) x 3 candidates.
VALUES = np.array(
    [
        [
            [-2.0, -1.82, -2.16],
            [-2.53, -2.27, -2.59],
            [-1.96, -1.2, -2.3],
            [-2.37, -1.71, -1.79],
        ],
        [
            [-1.94, -2.56, -2.02],
            [-1.58, -2.81, -2.27],
            [-3.14, -2.77, -3.11],
            [-2.14, -2.76, -1.84],
        ],
        [
            [-1.91, -2.11, -3.51],
            [-2.32, -2.03, -1.93],
            [-2.92, -2.29, -2.59],
            [-2.49, -1.36, -2.48],
        ],
        [
            [-2.02, -1.47, -2.35],
            [-2.07, -1.93, -1.96],
            [-2.74, -1.95, -1.18],
            [-2.93, -1.48, -1.93],
        ],
        [
            [-2.38, -0.8, -1.54],
            [-2.72, -1.96, -1.65],
            [-2.11, -1.59, -2.04],
            [-1.6, -1.14, -2.41],
        ],
        [
            [-1.88, -2.28, -1.92],
            [-2.71, -2.35, -2.12],
            [-1.46, -1.31, -2.79],
            [-2.48, -1.61, -3.2],
        ],
    ]
)
LABELS = np.arange(3) == np.array([[1], [0], [2], [2], [1], [2]])
NAMES = ("baseline", "offset_1", "offset_2", "span_3_5_1")


def test_worked_curve():
    curve = ensemble_curve(VALUES, LABELS)
    assert curve.sizes.tolist() == [1, 2, 3, 4]
    assert curve.subsets.tolist() == [1, 3, 3, 1]
    assert curve.exhaustive.all()
    accuracy = [0.5, 0.49999999999999994, 0.5555555555555555, 0.6666666666666666]
    disagreement = [0.0, 0.5555555555555555, 0.7222222222222222, 0.8333333333333334]
    np.testing.assert_allclose(curve.accuracy, accuracy, atol=1e-9)
    np.testing.assert_allclose(curve.disagreement, disagreement, atol=1e-9)


@pytest.mark.parametrize("name", REDUCTIONS)
def test_curve_is_the_mean_over_subsets(name):
    curve = ensemble_curve(VALUES, LABELS, name)
    for size in range(4):
        right = []
        for subset in itertools.combinations((1, 2, 3), size):
            reduced = get_reduction(name)(VALUES[:, [0, *subset]])
            right.append(LABELS[np.arange(6), reduced.argmax(1)].mean())
        assert curve.accuracy[size] == pytest.approx(np.mean(right), abs=1e-12)


def test_too_many_subsets_are_sampled_and_said_so():
    rng = np.random.default_rng(0)
    values = rng.normal(size=(30, 9, 3))
    labels = np.arange(3) == rng.integers(3, size=(30, 1))
    whole = ensemble_curve(values, labels)
    some = ensemble_curve(values, labels, max_subsets=20, seed=1)
    assert some.subsets.tolist() == [1, 8, 20, 20, 20, 20, 20, 8, 1]
    assert some.exhaustive.tolist() == [True, True, *[False] * 5, True, True]
    same = ensemble_curve(values, labels, max_subsets=20, seed=1)
    np.testing.assert_array_equal(some.correct, same.correct)
    np.testing.assert_allclose(some.accuracy, whole.accuracy, atol=0.1)
    np.testing.assert_array_equal(some.accuracy[[0, -1]], whole.accuracy[[0, -1]])


def test_fifteen_thousand_examples_take_seconds():
    rng = np.random.default_rng(0)
    values = rng.normal(size=(15000, 10, 4))
    labels = np.arange(4) == rng.integers(4, size=(15000, 1))
    start = time.process_time()
    ensemble_curve(values, labels)
    assert time.process_time() - start < 10


@pytest.fixture(scope="module")
def scores() -> Scores:
    applicable = np.ones((8, 4), bool)
    applicable[6, 3] = applicable[7, 3] = applicable[7, 2] = False
    return Scores.from_arrays(
        np.concatenate([VALUES, VALUES[:2]]),
        NAMES,
        labels=np.concatenate([LABELS, LABELS[:1], LABELS[:1]]),
        applicable=applicable,
        subjects=["a", "a", "a", "b", "b", "b", "c", "c"],
        prompt_lengths=[5, 5, 7, 9, 9, 12, 1, 1],
        task="worked",
        dropped={"too long": 3},
        truncated=2,
    )


def test_summary_by_hand(scores):
    summary = analyze(scores)
    assert summary["examples"] == 8
    assert summary["dropped"] == {"too long": 3}
    assert summary["truncated"] == 2
    assert summary["common"] == 6
    assert summary["lost"] == {"examples": 2, "by_conditional": {"offset_2": 1, "span_3_5_1": 2}}
    # Predictions by hand: baseline 1 0 0 1 1 0; offset_1 1 0 2 1 2 2; offset_2 1 1 1 2 1 1;
    # span_3_5_1 1 2 1 1 1 1; right answers 1 0 2 2 1 2.
    accuracies = [row["accuracy"] for row in summary["conditionals"].values()]
    assert accuracies == pytest.approx([3 / 6, 4 / 6, 3 / 6, 2 / 6])
    assert list(summary["conditionals"]) == list(NAMES)
    assert all(row["n"] == 6 for row in summary["conditionals"].values())
    baseline = summary["conditionals"]["baseline"]["applicable"]
    assert (baseline["n"], baseline["accuracy"]) == (8, 4 / 8)
    assert summary["conditionals"]["offset_2"]["applicable"]["n"] == 7
    assert summary["disagreement"]["value"] == pytest.approx(5 / 6)
    pairs = summary["pairwise_disagreement"]
    assert pairs["baseline"]["offset_1"] == pairs["offset_1"]["baseline"] == pytest.approx(3 / 6)
    assert pairs["offset_2"]["offset_2"] == 0
    assert summary["oracle"]["accuracy"] == 1.0
    assert [row["conditionals"] for row in summary["curve"]] == [1, 2, 3, 4]
    assert summary["curve"][3]["accuracy"] == pytest.approx(4 / 6)
    assert summary["curve"][0]["disagreement_interval"] == [0, 0]
    maximum = summary["ensembles"]["max"]
    assert maximum["accuracy"] == pytest.approx(4 / 6)
    assert maximum["gained"] - maximum["forfeited"] == 1
    assert set(summary["subjects"]) == {"a", "b"}
    assert summary["subjects"]["a"]["n"] == 3
    assert summary["chance"] == pytest.approx(1 / 3)


def test_every_figure_has_its_n_and_an_interval_around_it(scores):
    content = analyze(scores).content
    rows = [*content["conditionals"].values(), *content["ensembles"].values(), content["oracle"]]
    for row in rows:
        assert row["n"] == 6
        assert row["interval"][0] <= row["accuracy"] <= row["interval"][1]
    for row in content["curve"]:
        low, high = row["accuracy_interval"]
        assert low <= row["accuracy"] <= high


def test_p_values_are_paired_tests_against_the_baseline(scores):
    whole = scores.complete()[0]
    content = analyze(scores).content
    baseline = whole.labels[np.arange(6), whole.values()[:, 0].argmax(1)]
    for name, row in content["ensembles"].items():
        right = whole.labels[np.arange(6), get_reduction(name)(whole.values()).argmax(1)]
        assert row["p_value"] == mcnemar(baseline, right)
        assert row["p_value_holm"] >= row["p_value"]


def test_the_same_seed_gives_the_same_summary(scores):
    config = AnalysisConfig(resamples=200)
    assert analyze(scores, config).content == analyze(scores, config).content


def test_conditionals_may_be_left_out(scores):
    summary = analyze(scores, AnalysisConfig(conditionals=("baseline", "offset_1")))
    assert (summary["common"], summary["lost"]["examples"]) == (8, 0)
    assert len(summary["curve"]) == 2


def test_an_example_without_a_right_candidate_is_wrong_and_counted():
    labels = LABELS.copy()
    labels[0] = False
    summary = analyze(Scores.from_arrays(VALUES, NAMES, labels=labels))
    assert summary["without_right_candidate"] == 1
    assert summary["conditionals"]["baseline"]["accuracy"] == pytest.approx(2 / 6)
    with pytest.raises(AnalysisError, match="no example of 6 has a right answer"):
        analyze(Scores.from_arrays(VALUES, NAMES))


def test_settings_are_checked():
    with pytest.raises(UnknownNameError, match="Did you mean 'mean_log'"):
        AnalysisConfig(ensembles=("mean_logg",))
    with pytest.raises(UnknownNameError, match="token reduction 'average'"):
        AnalysisConfig(token_reduction="average")
    with pytest.raises(ConfigError, match="level should lie between 0 and 1"):
        AnalysisConfig(level=95)
    with pytest.raises(ConfigError, match="resamples should be at least 1"):
        AnalysisConfig(resamples=0)


def test_summary_file_has_the_published_schema(tmp_path):
    fake_scorer.write_run(tmp_path)
    summary = analyze_run(open_run(tmp_path), AnalysisConfig(resamples=100))
    write_summary(tmp_path, summary)
    read = read_summary(tmp_path)
    assert read == json.loads(json.dumps(summary))
    assert read["schema"] == 1
    assert list(read["tasks"]) == list(fake_scorer.TASKS)
    for task in read["tasks"].values():
        assert isinstance(task["examples"], int)
        assert task["dropped"] == {"too long": 1}
        for row in (*task["conditionals"].values(), *task["ensembles"].values()):
            assert isinstance(row["accuracy"], float)
            assert len(row["interval"]) == 2
        assert {"value", "interval"} <= task["disagreement"].keys()
        assert all("p_value" in row for row in task["ensembles"].values())
        assert all({"conditionals", "accuracy", "disagreement"} <= r.keys() for r in task["curve"])
    with pytest.raises(AnalysisError, match=r"summary\.json is missing"):
        read_summary(tmp_path / "nowhere")
    (tmp_path / "summary.json").write_text('{"schema": 9}')
    with pytest.raises(AnalysisError, match="not of schema 1"):
        read_summary(tmp_path)


def test_length_bins_are_disjoint_ranges():
    bins = length_bins(np.array([5, 5, 5, 5, 7, 9, 12, 100]), 4)
    assert bins.tolist() == ["005-005"] * 4 + ["007-009"] * 2 + ["012-100"] * 2
    assert length_bins(np.full(9, 3)).tolist() == ["3-3"] * 9


def test_breakdown_rows_add_up_and_widen_with_their_number(scores):
    rows = breakdown(scores)
    assert list(rows) == ["subject", "prompt_length", "candidate_length"]
    for groups in rows.values():
        assert sum(row["n"] for row in groups.values()) == 6
        assert sum(row["n"] * row["accuracy"]["value"] for row in groups.values()) == (
            pytest.approx(3)
        )
    one = Scores.from_arrays(VALUES[:3], NAMES, labels=LABELS[:3])
    alone = breakdown(one)["subject"][""]["accuracy"]["interval"]
    among_two = rows["subject"]["a"]["accuracy"]["interval"]
    assert among_two[0] < alone[0]
    assert among_two[1] > alone[1]
