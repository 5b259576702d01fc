"""Fitted ensembles, selection, gains: worked cases, convexity, and that no own label is used."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.optimize import approx_fprime

from mlm_consistency.analysis import fitted, selection
from mlm_consistency.analysis.fitted import FITTERS, get_fitter
from mlm_consistency.analysis.folds import Fit, cross_fit, fold_of
from mlm_consistency.analysis.gains import MINIMUM_TO_FIT, ensemble_gains
from mlm_consistency.analysis.scores import Scores


def world(n: int = 200, seed: int = 0, signal=(1.0, 0.9, 0.2, 0.0), candidates: int = 4):
    """(values, labels): conditionals that know the answer more or less well."""
    rng = np.random.default_rng(seed)
    labels = np.arange(candidates) == rng.integers(candidates, size=(n, 1))
    values = np.array(signal)[:, None] * labels[:, None] + 0.7 * rng.normal(
        size=(n, len(signal), candidates)
    )
    values[::5, :, -1] = -np.inf
    labels[::5, -1] = False
    labels[~labels.any(1), 0] = True
    return values, labels


def test_folds_are_even():
    sizes = np.bincount(fold_of(23, 5, np.random.default_rng(0)))
    assert sorted(sizes.tolist()) == [4, 4, 5, 5, 5]


def test_no_examples_own_label_is_used():
    """Each example's prediction stays when its own label changes, for every fitter."""
    values, labels = world(60)
    for name in FITTERS:
        before = cross_fit(values, labels, get_fitter(name)).predictions
        for example in (1, 7, 33):
            changed = labels.copy()
            changed[example] = np.roll(labels[example], 1) & ~np.isneginf(values[example, 0])
            if not changed[example].any():
                changed[example, 0] = True
            after = cross_fit(values, changed, get_fitter(name)).predictions
            assert after[example] == before[example], name


def test_cross_fit_holds_out_each_example_once():
    seen = []

    def fitter(values, labels, rng):
        seen.append(values[:, 0, 0].copy())
        return Fit(score=lambda new: new[:, 0], passes=1, details={"found": len(values)})

    values = np.arange(20.0)[:, None, None] + np.zeros((1, 1, 2))
    labels = np.ones((20, 2), bool)
    labels[3] = False
    fits = cross_fit(values, labels, fitter, folds=4).fits
    counts = np.bincount(np.concatenate(seen).astype(int), minlength=20)
    assert counts.tolist() == [3] * 3 + [0] + [3] * 16, "an unanswerable example teaches nothing"
    assert sum(fit["found"] for fit in fits) == 3 * 19


@pytest.mark.parametrize("name", FITTERS)
def test_every_fitter(name):
    values, labels = world()
    fit = get_fitter(name)(values, labels, np.random.default_rng(0))
    score = fit.score(values)
    assert score.shape == labels.shape
    assert np.isneginf(score[::5, -1]).all()
    assert not np.isnan(score).any()
    assert 1 <= fit.passes <= 4
    again = get_fitter(name)(values, labels, np.random.default_rng(0))
    np.testing.assert_array_equal(score, again.score(values))


def test_temperature_is_found_again():
    rng = np.random.default_rng(1)
    q = rng.dirichlet(np.ones(4), size=20000)
    answers = (q.cumsum(1) > rng.random((20000, 1))).argmax(1)
    labels = np.arange(4) == answers[:, None]
    # Scores three times as sharp as the truth need a temperature of three.
    assert fitted.fit_temperature(3 * np.log(q), labels) == pytest.approx(3, rel=0.05)


def test_temperature_stays_finite_where_all_is_right():
    values = np.array([[0.0, -1.0]] * 5)
    temperature = fitted.fit_temperature(values, values == 0)
    assert 0.01 < temperature < 1


def test_slope_of_the_likelihood():
    rng = np.random.default_rng(2)
    scores = rng.normal(size=(3, 4))
    scores[0, 3] = -np.inf
    labels = np.array([[1, 0, 0, 0], [0, 1, 1, 0], [0, 0, 0, 1]], bool)
    loss, slope = fitted._loss_and_slope(scores, labels)
    p = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)
    np.testing.assert_allclose(loss, -np.log((p * labels).sum(1)), atol=1e-12)
    for row in range(1, 3):
        numeric = approx_fprime(
            scores[row],
            lambda s, row=row: fitted.negative_log_likelihood(s[None], labels[row : row + 1])[0],
            1e-7,
        )
        np.testing.assert_allclose(slope[row], numeric, atol=1e-6)


def test_weights_go_to_the_conditionals_that_know():
    values, labels = world(2000, signal=(1.0, 0.9, 0.0, 0.0))
    fit = fitted.fit_weights(values, labels, np.random.default_rng(0))
    weights = np.array(fit.details["weights"])
    assert weights.sum() == pytest.approx(1)
    assert weights[:2].sum() > 0.9


def test_weights_are_equal_where_conditionals_are():
    values, labels = world(150, signal=(0.5,) * 4)
    fit = fitted.fit_weights(values, labels, np.random.default_rng(0))
    assert fit.details["penalty"] is None
    assert fit.details["weights"] == pytest.approx([0.25] * 4)


def test_large_penalties_shrink_weights_to_equal_ones():
    values, labels = world(300)
    spreads = [u.std() for u in fitted._weights_by_penalty(values, labels)]
    assert spreads[0] == 0
    assert all(a <= b + 1e-6 for a, b in itertools.pairwise(spreads))


def test_greedy_path_by_hand():
    # The baseline is right on example 0. Conditional 2 adds examples 1 and 2, conditional 1 one.
    labels = np.array([[True, False]] * 4)
    sure, no, off = [-0.1, -2.0], [-2.0, -0.5], [-3.0, -3.1]
    values = np.array(
        [
            [sure, off, off],
            [no, sure, sure],
            [no, off, sure],
            [no, off, off],
        ]
    )
    assert selection.greedy_path(values, labels) == [0, 2, 1]
    fit = selection.fit_greedy(
        np.repeat(values, 5, 0), np.repeat(labels, 5, 0), np.random.default_rng(0)
    )
    assert fit.details["members"] == [0, 2], "the third helps nothing, so it is not paid for"
    assert fit.passes == 2


def test_divergent_path_takes_the_different_one_first_and_no_labels():
    values = np.log(np.array([[[0.9, 0.1], [0.9, 0.1], [0.1, 0.9], [0.6, 0.4]]]))
    path = selection.divergent_path(values, np.zeros((1, 2), bool))
    assert path[:2] == [0, 2]


@pytest.fixture(scope="module")
def scores() -> Scores:
    values, labels = world(120)
    return Scores.from_arrays(
        values,
        ["baseline", "offset_1", "offset_2", "span_3_5_1"],
        labels=labels,
        candidate_mask=~np.isneginf(values[:, 0]),
    )


def test_gains(scores):
    rows = {row.name: row for row in ensemble_gains(scores, resamples=200)}
    assert list(rows)[:2] == ["baseline", "max"]
    assert set(FITTERS) < set(rows)
    assert list(rows)[-1] == "oracle"
    baseline = rows["baseline"]
    assert (baseline.gain, baseline.gain_interval, baseline.passes) == (0.0, (0.0, 0.0), 1.0)
    assert baseline.p_baseline is None
    for row in rows.values():
        assert row.n == 120
        assert row.interval[0] <= row.accuracy <= row.interval[1]
        assert row.gain_interval[0] <= row.gain <= row.gain_interval[1]
        assert row.gain == pytest.approx(row.accuracy - baseline.accuracy)
        assert row.accuracy <= rows["oracle"].accuracy or row.kind == "fitted"
        if row.p_baseline is not None:
            assert row.p_baseline_holm >= row.p_baseline
    assert rows["max"].p_max is None
    assert rows["vote"].gain_per_pass == pytest.approx(rows["vote"].gain / 3)
    assert rows["oracle"].p_baseline is None
    assert len(rows["learned_weights"].details) == 5
    assert 1 <= rows["greedy"].passes <= 4


def test_too_few_examples_are_not_fitted(scores):
    few = scores.select(np.arange(MINIMUM_TO_FIT - 1))
    names = [row.name for row in ensemble_gains(few, resamples=50)]
    assert not set(FITTERS) & set(names)


def test_divergences_along_the_path_are_symmetric():
    values, labels = world(40)
    order = selection.divergent_path(values, labels)
    assert sorted(order) == [0, 1, 2, 3]
    log_q = values - np.log(np.exp(values).sum(-1, keepdims=True))
    apart = [selection.jensen_shannon(log_q[:, 0], log_q[:, k]).mean() for k in range(4)]
    assert order[1] == int(np.argmax(apart))
