"""Examples are ranked by how far apart the conditionals' distributions are."""

import numpy as np
import pytest

from mlm_consistency.report.contradictions import divergences, most_contradictory

SURE_A, SURE_B, UNSURE = np.log([0.98, 0.02]), np.log([0.02, 0.98]), np.log([0.5, 0.5])
ALL = np.ones((1, 2), bool)


def test_equal_conditionals_do_not_diverge():
    assert divergences(np.stack([[SURE_A, SURE_A]]), ALL)[0] == pytest.approx(0, abs=1e-12)


def test_opposite_answers_diverge_most():
    opposite = divergences(np.stack([[SURE_A, SURE_B]]), ALL)[0]
    hesitant = divergences(np.stack([[SURE_A, UNSURE]]), ALL)[0]
    assert np.log(2) > opposite > hesitant > 0


def test_what_does_not_apply_is_not_read():
    values = np.stack([[SURE_A, SURE_A, [np.nan, np.nan]], [SURE_A, SURE_B, SURE_B]])
    applicable = np.array([[True, True, False], [True, True, True]])
    found = divergences(values, applicable)
    assert found[0] == pytest.approx(0, abs=1e-12)
    assert found[1] > 0


def test_a_lone_conditional_cannot_contradict():
    values = np.stack([[SURE_A, [np.nan, np.nan]]])
    assert divergences(values, np.array([[True, False]]))[0] == 0


def test_only_different_answers_are_named_most_divergent_first():
    answers = np.array([[0, 0, -1], [0, 1, 1], [1, 0, -1], [1, 1, 1]])
    assert most_contradictory(np.array([0.9, 0.1, 0.4, 0.2]), answers) == [2, 1]
    assert most_contradictory(np.array([0.9, 0.1, 0.4, 0.2]), answers, limit=1) == [2]
