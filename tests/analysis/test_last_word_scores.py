"""`word.` and `word,` are one answer, in accuracy and in disagreement; in the paper's way apart."""

from __future__ import annotations

import dataclasses
import json
from types import SimpleNamespace

import numpy as np
import pytest

from mlm_consistency.analysis.disagreement import disagrees
from mlm_consistency.analysis.last_words import (
    MARKS,
    NO_CANDIDATE,
    by_word,
    last_word_figures,
    task_setting,
    word_of,
)
from mlm_consistency.analysis.predictions import correct, predict
from mlm_consistency.analysis.scores import Scores
from mlm_consistency.analysis.summary import AnalysisConfig, analyze
from mlm_consistency.tasks import last_words

TEXTS = (
    ("signs.", "you.", "signs,"),  # the second conditional prefers the other form
    ("it.", "that.", "it!"),
    ("no.", "yes."),
    (NO_CANDIDATE,),
)
MISSING = -np.inf
SUMS = np.array(
    [
        [[-1.0, -1.5, -2.0], [-3.0, -1.6, -1.2]],
        [[-1.0, -0.5, -2.0], [-1.0, -2.0, -0.4]],
        [[-1.0, -0.5, MISSING], [-1.0, -2.0, MISSING]],
        [[-9.0, MISSING, MISSING], [-9.0, MISSING, MISSING]],
    ]
)
LABELS = np.array([[1, 0, 1], [0, 1, 0], [1, 0, 0], [0, 0, 0]], bool)
MASK = np.isfinite(SUMS[:, 0])


@pytest.fixture
def forms():
    return Scores.from_arrays(
        2 * SUMS, ("baseline", "offset_1"), lengths=2 * MASK, labels=LABELS, candidate_mask=MASK,
        candidate_texts=TEXTS,
    )  # fmt: skip


def test_one_candidate_a_word_with_the_best_of_its_forms(forms):
    words = by_word(forms)
    assert words.candidate_texts == (
        ("signs", "you"), ("it", "that"), ("no", "yes"), (NO_CANDIDATE,)
    )  # fmt: skip
    expected = [
        [[-1.0, -1.5], [-1.2, -1.6]], [[-1.0, -0.5], [-0.4, -2.0]],
        [[-1.0, -0.5], [-1.0, -2.0]], [[-9.0, MISSING], [-9.0, MISSING]],
    ]  # fmt: skip
    np.testing.assert_allclose(words.values("mean"), expected)
    np.testing.assert_allclose(words.values("sum"), 2 * np.array(expected))
    assert words.labels.tolist() == [[True, False], [False, True], [True, False], [False, False]]
    assert words.candidate_mask.tolist() == [
        [True, True],
        [True, True],
        [True, True],
        [True, False],
    ]


def test_accuracy_is_the_same_and_disagreement_is_not(forms):
    words = by_word(forms)
    apart, together = predict(forms.values()), predict(words.values())
    assert correct(apart, forms.labels).tolist() == correct(together, words.labels).tolist()
    assert disagrees(apart).tolist() == [True, True, True, False]
    assert disagrees(together).tolist() == [False, True, True, False]


def test_what_each_conditional_says_is_the_word_it_said(forms):
    rng = np.random.default_rng(0)
    texts = tuple(
        tuple(f"w{rng.integers(4)}{MARKS[c % len(MARKS)]}" for c in range(6)) for _ in range(40)
    )
    sums = rng.normal(size=(40, 3, 6))
    scores = Scores.from_arrays(sums, ("baseline", "a", "b"), candidate_texts=texts)
    words = by_word(scores)
    for form, word, had, have in zip(
        predict(scores.values()), predict(words.values()), texts, words.candidate_texts, strict=True
    ):
        assert [word_of(had[c]) for c in form] == [have[c] for c in word]


def test_forms_of_other_lengths_are_compared_by_their_mean():
    scores = Scores.from_arrays(
        [[[-2.0, -2.4]]], ("baseline",), lengths=[[2, 3]], candidate_texts=[("é.", "é;")]
    )
    words = by_word(scores)
    np.testing.assert_allclose(words.values("mean"), [[[-0.8]]])
    assert words.lengths.tolist() == [[2]]


def test_conditionals_that_do_not_apply_stay_so(forms):
    fits = np.array([[True, True], [True, False], [True, True], [True, True]])
    scores = Scores.from_arrays(
        2 * SUMS, forms.conditionals, labels=LABELS, candidate_mask=MASK, applicable=fits,
        candidate_texts=TEXTS,
    )  # fmt: skip
    words = by_word(scores)
    assert np.isnan(words.sums[1, 1]).all()
    assert len(words.complete()[0]) == 3


def test_what_the_summary_says(forms):
    assert last_word_figures(forms, "by_word", "mean") == {
        "setting": "by_word",
        "without_candidate": 1,
        "without_right_word": 1,
        "disagreement_forms_apart": {"value": 0.75, "n": 4},
    }


def test_the_rules_are_those_by_which_candidates_were_made():
    assert MARKS == last_words.MARKS
    assert NO_CANDIDATE == last_words.NO_CANDIDATE
    assert word_of("signs.") == last_words.word_of("signs.")
    assert word_of(NO_CANDIDATE) == NO_CANDIDATE


def test_a_run_says_how_its_last_words_count():
    tasks = [
        {"name": "lambada", "label": "", "beams": "RUN/beams", "last_words": "by_word"},
        {"name": "lambada", "label": "lambada_ul2", "beams": "RUN/beams", "last_words": "paper"},
        {"name": "mmlu", "label": "", "beams": None, "last_words": "by_word"},
    ]
    run = SimpleNamespace(manifest=SimpleNamespace(information={"tasks": tasks}))
    assert [task_setting(run, t) for t in ("lambada", "lambada_ul2", "mmlu", "own")] == [
        "by_word", "paper", "", "",
    ]  # fmt: skip


@pytest.mark.parametrize("right", [0, 3])
def test_a_model_that_hardly_ever_finds_the_word_is_analysed_all_the_same(right):
    """Beam search may propose no right word for all but a few examples; nothing is fitted then."""
    rng = np.random.default_rng(1)
    n, k, c = 60, 3, 4
    labels = np.zeros((n, c), bool)
    labels[:right, 0] = True
    mask = np.arange(c) < rng.integers(1, c + 1, n)[:, None]
    scores = dataclasses.replace(
        Scores.from_arrays(
            rng.normal(size=(n, k, c)), ("baseline", "a", "b"), labels=labels, candidate_mask=mask
        ),
        answers_known=True,
    )
    content = analyze(scores, AnalysisConfig(resamples=50)).content
    assert content["without_right_candidate"] == n - right
    assert content["conditionals"]["baseline"]["accuracy"] <= right / n
    assert all(gain["kind"] != "fitted" for gain in content["ensemble_gains"])
    json.dumps(content, allow_nan=False)
