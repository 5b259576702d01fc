"""Scores from records and from arrays, what is refused, what a notebook shows."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from mlm_consistency.analysis.scores import Scores
from mlm_consistency.errors import AnalysisError, UnknownNameError
from mlm_consistency.records import RunWriter, open_run

sys.path.append(str(Path(__file__).parents[1] / "records"))
import fake_scorer


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    fake_scorer.write_run(folder)
    return open_run(folder)


def test_from_run_holds_what_was_written(run):
    scores = Scores.from_run(run, "stories")
    assert len(scores) == 11
    assert scores.conditionals == fake_scorer.CONDITIONALS
    assert scores.dropped == {"too long": 1}
    assert scores.example_ids.tolist() == [f"stories/{i}" for i in range(11)]
    assert scores.subjects[:2].tolist() == ["astronomy", "marketing"]
    values = {name: scores.values(name) for name in ("mean", "sum")}
    for shard in range(3):
        part = fake_scorer.shard_of("stories", shard)
        for example, log_probs in zip(part.examples, part.token_log_probs, strict=True):
            i, count = example.index, len(example.candidates)
            assert scores.candidate_mask[i].sum() == count
            assert np.flatnonzero(scores.labels[i]).tolist() == list(example.labels)
            assert scores.candidate_texts[i] == example.candidate_texts
            assert scores.prompt_lengths[i] == len(example.prompt_ids[""])
            for k, row in enumerate(log_probs):
                assert scores.applicable[i, k] == (row is not None)
                if row is None:
                    assert np.isnan(scores.sums[i, k]).all()
                    continue
                exact = [x.astype(np.float64) for x in row]
                np.testing.assert_allclose(
                    values["sum"][i, k, :count], [x.sum() for x in exact], atol=1e-12
                )
                np.testing.assert_allclose(
                    values["mean"][i, k, :count], [x.mean() for x in exact], atol=1e-12
                )
                assert np.isneginf(values["mean"][i, k, count:]).all()


def test_complete_says_what_was_lost(run):
    scores = Scores.from_run(run, "stories")
    whole, lost = scores.complete()
    assert lost == (~scores.applicable.all(1)).sum() > 0
    assert len(whole) + lost == 11
    assert np.isfinite(whole.values()).any(2).all()
    baseline, lost = scores.with_conditionals(["baseline"]).complete()
    assert (len(baseline), lost) == (11, 0)
    with pytest.raises(UnknownNameError, match="Did you mean 'offset_1'"):
        scores.with_conditionals(["offset1"])


def test_no_example_to_which_all_apply():
    scores = Scores.from_arrays(
        np.zeros((2, 2, 2)), ["baseline", "offset_9"], applicable=[[True, False]] * 2, task="t"
    )
    with pytest.raises(AnalysisError, match=r"no example of 2 .* the fewest: offset_9 to 0"):
        scores.complete()


def test_a_run_without_records_of_a_task(tmp_path):
    RunWriter(tmp_path, fake_scorer.manifest())
    run = open_run(tmp_path, allow_incomplete=True)
    with pytest.raises(AnalysisError, match="no records of task 'stories' yet"):
        Scores.from_run(run, "stories")


def test_arrays_that_do_not_fit_are_refused():
    names = ["baseline", "offset_1"]
    with pytest.raises(AnalysisError, match=r"came shape \(2, 3, 4\)"):
        Scores.from_arrays(np.zeros((2, 3, 4)), names)
    with pytest.raises(AnalysisError, match=r"lengths should have shape \(3, 4\); came \(4, 3\)"):
        Scores.from_arrays(np.zeros((3, 2, 4)), names, lengths=np.ones((4, 3)))
    with pytest.raises(AnalysisError, match=r"labels should be candidates 0\.\.3; came \[0 4 1\]"):
        Scores.from_arrays(np.zeros((3, 2, 4)), names, labels=np.array([0, 4, 1]))
    with pytest.raises(
        AnalysisError, match="conditional 'offset_1', candidate 2: the score is NaN"
    ):
        Scores.from_arrays([[0, 0, 0], [0, 0, np.nan]], names)
    with pytest.raises(AnalysisError, match="example 1 has no candidate"):
        Scores.from_arrays(np.zeros((2, 2, 1)), names, candidate_mask=np.array([[True], [False]]))
    with pytest.raises(UnknownNameError, match="token reduction 'men'"):
        Scores.from_arrays(np.zeros((2, 3)), names).values("men")


@pytest.fixture
def apples() -> Scores:
    return Scores.from_arrays(
        [[-1.0, -2.0, -3.0], [-4.0, -0.5, -3.0], [0.0, 0.0, 0.0]],
        ["baseline", "offset_1", "span_3_5_1"],
        candidate_texts=[["2", "<4>", "6"]],
        applicable=[[True, True, False]],
    )


def test_table_of_a_sentence(apples):
    table = apples.table()
    assert table.predictions == ("2", "<4>", None)
    assert table.to_dict()["offset_1"]["<4>"] == -0.5
    assert str(table) == (
        "conditional       2      <4>        6\n"
        "baseline     -1.000*  -2.000   -3.000\n"
        "offset_1     -4.000   -0.500*  -3.000\n"
        "span_3_5_1      n/a      n/a      n/a\n"
        "log p, nats a token; * preferred"
    )
    html = table._repr_html_()
    assert "&lt;4&gt;" in html
    assert "<4>" not in html
    assert "<strong>-0.500</strong>" in html


def test_disagreement_and_ensemble_of_a_sentence(apples):
    both = apples.with_conditionals(["baseline", "offset_1"])
    assert both.disagreement == 1.0
    answer = both.ensemble("max")
    assert answer.prediction == "<4>"
    assert answer.accuracy is None
    assert str(answer) == "max: '<4>'"
    with pytest.raises(AnalysisError, match="span_3_5_1 to 0, baseline to 1"):
        apples.ensemble("max")


def test_predictions_where_a_conditional_does_not_apply(apples):
    assert apples.predictions().tolist() == [[0, 1, -1]]


def test_ensemble_of_many(run):
    scores = Scores.from_run(run, "stories")
    answer = scores.ensemble("max")
    whole, lost = scores.complete()
    assert answer.lost == lost
    right = [whole.labels[i, p] for i, p in enumerate(answer.predictions)]
    assert answer.accuracy == np.mean(right)
