"""The harness' requests and answers, without the harness."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from mlm_consistency.analysis.ensembles import REDUCTIONS
from mlm_consistency.errors import ConfigError, DataError, UnknownNameError
from mlm_consistency.harness.answers import RELATIVE, answers, check_choice
from mlm_consistency.harness.requests import questions_of


def request(context, continuation, document=0, task="t"):
    return SimpleNamespace(args=(context, continuation), doc_id=document, task_name=task)


def test_requests_of_a_question_and_context_come_together():
    questions = questions_of(
        [
            request("a", " x"),
            request("", " x"),  # the same choice without its context
            request("a", " y"),
            request("a", " x", document=1),  # the same text in another question
            request("a", " x", task="u"),
            request("a", " x"),
        ]
    )
    assert [(q.context, q.continuations, q.places) for q in questions] == [
        ("a", ("x", "y", "x"), (0, 2, 5)),
        ("", ("x",), (1,)),
        ("a", ("x",), (3,)),
        ("a", ("x",), (4,)),
    ]
    assert questions[2].name == "task 't', document 1"
    bare = [SimpleNamespace(args=("a", "x")), SimpleNamespace(args=("a", "y"))]
    assert questions_of(bare)[0].continuations == ("x", "y")


def test_space_around_a_continuation_says_nothing():
    texts = [" x y", "x y", "\nx y ", "x y\t"]
    (question,) = questions_of([request("a", text) for text in texts])
    assert question.continuations == ("x y",) * 4


@pytest.mark.parametrize("blank", ["", " ", "\n", "\t  "])
def test_blank_continuations_are_refused_or_left_out(blank):
    requests = [request("What is it?", " x"), request("What is it?", blank, 0)]
    with pytest.raises(DataError, match=r"task 't', document 0: the continuation .* has no tokens"):
        questions_of(requests)
    (question,) = questions_of(requests, "zero")
    assert question.places == (0,)
    with pytest.raises(ConfigError, match="refuse or zero"):
        questions_of(requests, "ignore")


def test_what_is_no_pair_of_texts_is_refused():
    with pytest.raises(DataError, match="expected \\(context, continuation\\)"):
        questions_of([SimpleNamespace(args=("a text to be rolled over",))])


SUMS = np.log([[0.5, 0.1, 0.2], [0.3, 0.4, 0.2]])
GREEDY = np.array([[True, False, False], [True, True, False]])
LENGTHS = np.array([1, 2, 1])


def scores(ensemble, score="sum", sums=SUMS):
    found = answers(sums, GREEDY[: len(sums)], LENGTHS, ensemble, score)
    return [value for value, _ in found]


def test_ensembles_by_hand():
    np.testing.assert_allclose(np.exp(scores("max")), [0.5, 0.4, 0.2])
    np.testing.assert_allclose(np.exp(scores("worst_case")), [0.3, 0.1, 0.2])
    np.testing.assert_allclose(np.exp(scores("log_sum_exp")), [0.4, 0.25, 0.2])
    np.testing.assert_allclose(np.exp(scores("mean_log")), [0.15**0.5, 0.04**0.5, 0.2])
    shares = (np.exp(SUMS[0]) / 0.8 + np.exp(SUMS[1]) / 0.9) / 2
    np.testing.assert_allclose(np.exp(scores("mean_probability")), shares)
    np.testing.assert_allclose(np.exp(scores("max", "mean")), [0.5, 0.4**0.5, 0.2])
    assert scores("vote") == [1, 1, 0]


@pytest.mark.parametrize("ensemble", REDUCTIONS)
def test_every_ensemble_with_one_conditional(ensemble):
    found = scores(ensemble, sums=SUMS[:1])
    assert np.argmax(found) == 0
    if ensemble not in RELATIVE:
        np.testing.assert_allclose(found, SUMS[0])


def test_greedy_is_what_most_conditionals_decode():
    assert [greedy for _, greedy in answers(SUMS, GREEDY, LENGTHS)] == [True, False, False]
    assert [greedy for _, greedy in answers(SUMS[1:], GREEDY[1:], LENGTHS)] == [True, True, False]


@pytest.mark.parametrize("ensemble", RELATIVE)
def test_weighing_one_choice_is_refused(ensemble):
    with pytest.raises(DataError, match=r"question 3: .* but this context has one"):
        answers(SUMS[:, :1], GREEDY[:, :1], LENGTHS[:1], ensemble, name="question 3")


def test_unknown_ensembles_and_scores():
    with pytest.raises(UnknownNameError, match="Did you mean 'max'"):
        check_choice("maxx", "sum")
    with pytest.raises(ConfigError, match="sum or mean"):
        check_choice("max", "total")
