"""Reductions: the worked cases (oracle c9, c12) and what every entry of the table must satisfy."""

from __future__ import annotations

import numpy as np
import pytest

from mlm_consistency.analysis import ensembles
from mlm_consistency.analysis.disagreement import (
    disagrees,
    mean_js_divergence,
    mean_pairwise_disagreement,
    pairwise_disagreement,
)
from mlm_consistency.analysis.ensembles import REDUCTIONS, get_reduction
from mlm_consistency.analysis.predictions import correct, predict, tied
from mlm_consistency.analysis.scores import Scores
from mlm_consistency.errors import UnknownNameError

# Rows conditionals (the baseline first), columns candidates, mean log p a token.
CASES = {
    "all_differ": {
        "scores": [[-0.1, -1.0, -0.3], [-9.0, -1.0, -0.9], [-9.0, -1.0, -2.2]],
        "individual": [0, 2, 1],
        "js_divergence": 0.1672963628397498,
        "pairwise": 1.0,
        "max": 0,
        "mean_log": 1,
        "log_sum_exp": 2,
        "worst_case": 1,
        "vote": 0,
        "normalized_max": 1,
        "mean_probability": 1,
    },
    "four_candidates": {
        "scores": [
            [-1.0, -1.2, -2.0, -1.9],
            [-3.6, -1.3, -0.9, -1.0],
            [-3.5, -1.25, -3.4, -1.0],
            [-3.0, -2.3, -3.9, -1.9],
        ],
        "individual": [0, 2, 3, 3],
        "js_divergence": 0.09455180442387424,
        "pairwise": 5 / 6,
        "max": 2,
        "mean_log": 3,
        "log_sum_exp": 3,
        "worst_case": 3,
        "vote": 3,
        "normalized_max": 3,
        "mean_probability": 3,
    },
    "agree": {
        "scores": [[-1.0, -2.0, -3.0], [-0.5, -2.5, -2.0], [-1.5, -1.6, -4.0]],
        "individual": [0, 0, 0],
        "js_divergence": 0.04698106737526622,
        "pairwise": 0.0,
        "max": 0,
        "mean_log": 0,
        "log_sum_exp": 0,
        "worst_case": 0,
        "vote": 0,
        "normalized_max": 0,
        "mean_probability": 0,
    },
    "tie": {
        "scores": [[-1.0, -1.0, -2.0], [-1.5, -1.0, -2.0]],
        "individual": [0, 1],
        "js_divergence": 0.007172355392133939,
        "pairwise": 1.0,
        "max": 0,
        "mean_log": 1,
        "log_sum_exp": 1,
        "worst_case": 1,
        "vote": 0,
        "normalized_max": 1,
        "mean_probability": 1,
    },
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_worked_cases(case):
    values = np.array([case["scores"]])
    predictions = predict(values)
    assert predictions[0].tolist() == case["individual"]
    assert disagrees(predictions)[0] == (len(set(case["individual"])) > 1)
    assert mean_pairwise_disagreement(predictions)[0] == pytest.approx(case["pairwise"], abs=1e-9)
    assert mean_js_divergence(values)[0] == pytest.approx(case["js_divergence"], abs=1e-9)
    for name in case.keys() & REDUCTIONS.keys():
        assert predict(get_reduction(name)(values))[0] == case[name], name


def test_worked_columns():
    values = np.array(CASES["all_differ"]["scores"])
    np.testing.assert_allclose(ensembles.reduce_max(values), [-0.1, -1.0, -0.3], atol=1e-9)
    np.testing.assert_allclose(
        ensembles.reduce_mean_log(values),
        [-6.033333333333334, -1.0, -1.1333333333333335],
        atol=1e-9,
    )
    np.testing.assert_allclose(
        ensembles.reduce_log_sum_exp(values),
        [-0.09972725934415043, 0.09861228866810973, 0.22967500587811165],
        atol=1e-9,
    )
    np.testing.assert_array_equal(ensembles.reduce_vote(values), [1, 1, 1])


def test_ties_are_counted():
    values = np.array(CASES["tie"]["scores"])
    assert tied(values).tolist() == [True, False]
    assert tied(ensembles.reduce_max(values))
    assert not tied(np.array([-1.0, -np.inf]))


def test_mean_and_sum_over_tokens_prefer_different_candidates():
    tokens = [[-0.2, -0.2], [-0.1, -0.1, -0.4], [-0.35]]
    scores = Scores.from_arrays(
        [[sum(row) for row in tokens]], ["baseline"], lengths=[len(row) for row in tokens]
    )
    np.testing.assert_allclose(scores.values("mean")[0, 0], [-0.2, -0.2, -0.35], atol=1e-9)
    np.testing.assert_allclose(scores.values("sum")[0, 0], [-0.4, -0.6, -0.35], atol=1e-9)
    assert scores.predictions("mean").item() == 0
    assert scores.predictions("sum").item() == 2


def random_values(seed: int, n: int = 40, k: int = 5, c: int = 4) -> np.ndarray:
    rng = np.random.default_rng(seed)
    values = np.log(rng.dirichlet(np.ones(c), size=(n, k))) - rng.exponential(size=(n, k, 1))
    values[::3, :, -1] = -np.inf  # an example with fewer candidates
    return values


@pytest.mark.parametrize("name", REDUCTIONS)
class TestEveryReduction:
    def test_a_missing_candidate_is_never_preferred_and_nothing_is_nan(self, name):
        values = random_values(0)
        reduced = get_reduction(name)(values)
        assert reduced.shape == (40, 4)
        assert not np.isnan(reduced).any()
        assert np.isneginf(reduced[::3, -1]).all()
        assert np.isfinite(reduced[::3, :-1]).all()

    def test_one_conditional_keeps_its_prediction(self, name):
        values = random_values(1)[:, :1]
        np.testing.assert_array_equal(predict(get_reduction(name)(values)), predict(values[:, 0]))

    def test_equal_conditionals_keep_their_prediction(self, name):
        values = np.repeat(random_values(2)[:, :1], 3, axis=1)
        np.testing.assert_array_equal(predict(get_reduction(name)(values)), predict(values[:, 0]))

    def test_order_of_conditionals_does_not_matter(self, name):
        values = random_values(3)
        reduce = get_reduction(name)
        np.testing.assert_allclose(reduce(values[:, ::-1]), reduce(values), atol=1e-12)

    def test_candidates_may_be_in_any_order(self, name):
        values = random_values(4)
        reduce = get_reduction(name)
        order = [2, 0, 3, 1]
        np.testing.assert_allclose(
            reduce(values[..., order]), reduce(values)[..., order], atol=1e-12
        )

    def test_leading_shapes_are_kept(self, name):
        values = random_values(5, n=6)
        reduce = get_reduction(name)
        np.testing.assert_allclose(reduce(values.reshape(2, 3, 5, 4)).reshape(6, 4), reduce(values))


@pytest.mark.parametrize("name", ["mean_probability", "entropy_weighted"])
def test_linear_pools_are_distributions(name):
    total = np.exp(get_reduction(name)(random_values(6))).sum(-1)
    np.testing.assert_allclose(total, 1.0, atol=1e-12)


def test_entropy_weights_follow_perplexity():
    sure, unsure = [np.log(0.98), np.log(0.02)], [np.log(0.5), np.log(0.5)]
    h = -(0.98 * np.log(0.98) + 0.02 * np.log(0.02))
    weight = np.exp(-h) / (np.exp(-h) + 0.5)
    pooled = np.exp(ensembles.reduce_entropy_weighted(np.array([sure, unsure])))
    assert pooled[0] == pytest.approx(weight * 0.98 + (1 - weight) * 0.5, abs=1e-12)


def test_unknown_reduction_names_the_nearest():
    with pytest.raises(UnknownNameError, match="Did you mean 'mean_log'"):
        get_reduction("mean_logs")


def test_pairwise_disagreement_is_a_symmetric_matrix():
    predictions = np.array([[0, 1, 0], [2, 2, 2], [0, 1, 1], [1, 1, 0]])
    expected = [[0, 0.5, 0.5], [0.5, 0, 0.5], [0.5, 0.5, 0]]
    np.testing.assert_array_equal(pairwise_disagreement(predictions), expected)
    assert mean_pairwise_disagreement(predictions).mean() == pytest.approx(0.5)
    assert disagrees(predictions).tolist() == [True, False, True, True]


def test_several_right_answers():
    labels = np.array([[True, False, True], [False, True, False]])
    assert correct(np.array([2, 2]), labels).tolist() == [True, False]
    both = correct(np.array([[0, 1], [1, 1]]), labels)
    assert both.tolist() == [[True, False], [True, True]]
