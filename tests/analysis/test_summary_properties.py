"""What must hold for any scores: drawn by hypothesis."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from mlm_consistency.analysis.confidence import risk_coverage_area, selective_accuracy
from mlm_consistency.analysis.curve import ensemble_curve
from mlm_consistency.analysis.disagreement import (
    disagrees,
    mean_js_divergence,
    mean_pairwise_disagreement,
    pairwise_disagreement,
)
from mlm_consistency.analysis.predictions import correct, predict
from mlm_consistency.analysis.statistics import (
    binomial_interval,
    bootstrap_intervals,
    holm,
    mcnemar,
)

SHAPES = st.tuples(st.integers(1, 8), st.integers(1, 5), st.integers(1, 4))
LOG_PROBABILITIES = st.floats(-20, 0).map(lambda x: round(x, 1))  # ties happen
SHARES = st.floats(0, 1)


@st.composite
def examples(draw):
    values = draw(SHAPES.flatmap(lambda shape: arrays(float, shape, elements=LOG_PROBABILITIES)))
    n, _, c = values.shape
    answers = draw(arrays(int, n, elements=st.integers(0, c - 1)))
    return values, np.arange(c) == answers[:, None]


@settings(deadline=None, max_examples=60)
@given(examples())
def test_curve(drawn):
    values, labels = drawn
    curve = ensemble_curve(values, labels)
    predictions = predict(values)
    # One conditional is the baseline, all of them the whole ensemble.
    assert curve.accuracy[0] == correct(predictions[:, 0], labels).mean()
    assert curve.disagreement[0] == 0
    assert np.isclose(curve.accuracy[-1], correct(predict(values.max(1)), labels).mean())
    assert np.isclose(curve.disagreement[-1], disagrees(predictions).mean())
    # A larger set of conditionals cannot agree where a smaller one did not.
    assert (np.diff(curve.disagreement) >= -1e-12).all()
    assert curve.subsets.sum() == 2 ** (values.shape[1] - 1)


@settings(deadline=None, max_examples=60)
@given(examples())
def test_disagreement(drawn):
    values, _ = drawn
    predictions = predict(values)
    matrix = pairwise_disagreement(predictions)
    assert (matrix == matrix.T).all()
    assert (np.diag(matrix) == 0).all()
    nway, pairs = disagrees(predictions), mean_pairwise_disagreement(predictions)
    assert ((pairs > 0) == nway).all()
    if values.shape[1] > 1:
        upper = matrix[np.triu_indices(len(matrix), 1)]
        assert np.isclose(pairs.mean(), upper.mean())
    divergence = mean_js_divergence(values)
    assert (divergence >= 0).all()
    assert (divergence <= np.log(2) + 1e-12).all()
    # Adding a constant to a conditional's scores leaves its distribution as it is.
    np.testing.assert_allclose(mean_js_divergence(values - 3.0), divergence, atol=1e-9)


@settings(deadline=None, max_examples=40)
@given(arrays(bool, st.integers(1, 40)), st.sampled_from([0.8, 0.95]))
def test_intervals_hold_their_estimate_and_widen_with_the_level(hits, level):
    column = hits[:, None].astype(float)
    low, high = bootstrap_intervals(column, level, resamples=200)[0]
    assert 0 <= low <= hits.mean() <= high <= 1
    low, high = binomial_interval(int(hits.sum()), len(hits), level)
    wide_low, wide_high = binomial_interval(int(hits.sum()), len(hits), 0.99)
    assert wide_low <= low <= hits.mean() <= high <= wide_high


@given(st.integers(1, 30).flatmap(lambda n: arrays(bool, (2, n))))
def test_mcnemar_is_a_p_value(pair):
    first, second = pair
    assert 0 < mcnemar(first, second) <= 1
    assert mcnemar(first, second) == mcnemar(second, first) == mcnemar(~first, ~second)


@given(arrays(float, st.integers(0, 8), elements=SHARES))
def test_holm_keeps_the_order_and_never_lowers(p_values):
    adjusted = holm(p_values)
    assert (adjusted >= p_values).all()
    assert (adjusted <= np.minimum(1, len(p_values) * p_values) + 1e-12).all()
    order = np.argsort(p_values, kind="stable")
    assert (np.diff(adjusted[order]) >= 0).all()


@given(
    st.integers(1, 20).flatmap(
        lambda n: st.tuples(arrays(float, n, elements=SHARES), arrays(bool, n))
    )
)
def test_selective_accuracy(drawn):
    level, right = drawn
    curve = selective_accuracy(level, right)
    assert (np.diff(curve.confidence) < 0).all()
    assert curve.coverage[-1] == 1
    assert np.isclose(curve.accuracy[-1], right.mean())
    assert 0 <= risk_coverage_area(level, right)[0] <= 1
    # Only the order of confidences matters.
    ranks = np.unique(level, return_inverse=True)[1].astype(float)
    assert risk_coverage_area(ranks, right)[0] == risk_coverage_area(level, right)[0]
