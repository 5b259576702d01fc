"""Pair tables of a T5-style model: every cell against one candidate of one prompt at a time."""

from __future__ import annotations

import numpy as np
import pytest
from reference_t5 import ReferenceT5
from tiny_networks import RELU_TIED, random_parameters

from mlm_consistency.errors import ScoringError
from mlm_consistency.scoring.shapes import PackingConfig
from mlm_consistency.scoring.span_pairs import (
    Sentinels,
    SpanPair,
    ranked_fillings,
    span_pair_tables,
)
from mlm_consistency.scoring.span_scorer import SpanScorer

X0, X1, X2, EOS = 60, 59, 58, 1
SENTINELS = Sentinels((X0, X1, X2), EOS)
A = (np.array([10, 11]), np.array([12]))
B = (np.array([20]), np.array([21, 22, 23]), np.array([24]))
APART = SpanPair(np.arange(30, 40), ((2, 4), (6, 7)), A, B, (0, 1), "apart")
TOUCHING = SpanPair(np.arange(30, 40), ((2, 4), (4, 5)), A, B, None, "touching")


@pytest.fixture(scope="module")
def reference():
    return ReferenceT5(RELU_TIED, random_parameters(RELU_TIED))


@pytest.fixture(scope="module")
def scorer():
    return SpanScorer(
        RELU_TIED, random_parameters(RELU_TIED), packing=PackingConfig(tokens_per_batch=256)
    )


def ids(*parts):
    return np.concatenate([np.atleast_1d(np.asarray(part, np.int32)) for part in parts])


@pytest.mark.parametrize("closing", [False, True])
def test_every_cell_equals_the_reference(reference, scorer, closing):
    t, end = APART.token_ids, [X1] if closing else []

    def p(encoder, answer, prefix=(X0,)):
        return reference.candidate(encoder, ids(*prefix), ids(answer)).sum()

    (table,) = span_pair_tables(scorer, [APART], SENTINELS, closing_sentinel=closing)
    forward = ids(t[:2], X0, t[4:6], X1, t[7:], EOS)
    backward = ids(t[:2], X1, t[4:6], X0, t[7:], EOS)
    last = [X2] if closing else []
    for i, a in enumerate(A):
        for j, b in enumerate(B):
            alone = p(ids(t[:2], X0, t[4:6], b, t[7:], EOS), ids(a, end))
            assert table.log_a_given_b[i, j] == pytest.approx(alone, abs=1e-4)
            alone = p(ids(t[:2], a, t[4:6], X0, t[7:], EOS), ids(b, end))
            assert table.log_b_given_a[i, j] == pytest.approx(alone, abs=1e-4)
            first, then = p(forward, ids(a, end)), p(forward, ids(b, last), (X0, *a, X1))
            assert table.log_a_masked[i] == pytest.approx(first, abs=1e-4)
            assert table.log_joint_ab[i, j] == pytest.approx(first + then, abs=1e-4)
            first, then = p(backward, ids(b, end)), p(backward, ids(a, last), (X0, *b, X1))
            assert table.log_b_masked[j] == pytest.approx(first, abs=1e-4)
            assert table.log_joint_ba[i, j] == pytest.approx(first + then, abs=1e-4)
    case = table.as_case()
    assert case["gold"] == [0, 1]
    assert {"a_given_b", "b_given_a", "a_masked", "b_masked", "joint_ab", "joint_ba"} <= set(case)


def test_touching_spans_may_share_a_sentinel(reference, scorer):
    (table,) = span_pair_tables(scorer, [TOUCHING], SENTINELS, one_span=True)
    t = TOUCHING.token_ids
    encoder = ids(t[:2], X0, t[5:], EOS)
    for i, a in enumerate(A):
        for j, b in enumerate(B):
            alone = reference.candidate(encoder, ids(X0), ids(a, b)).sum()
            assert table.log_joint_ab[i, j] == pytest.approx(alone, abs=1e-4)
    assert table.log_b_masked is None
    assert table.log_joint_ba is None
    with pytest.raises(ScoringError, match="'apart': one_span needs spans that touch"):
        list(span_pair_tables(scorer, [APART], SENTINELS, one_span=True))


def test_proposals_are_those_of_the_span_that_is_written_first(reference, scorer):
    t, positions = APART.token_ids, (2, 6)
    ranked = ranked_fillings(scorer, [(t, positions)], SENTINELS, 3)
    forward = ids(t[:2], X0, t[3:6], X1, t[7:], EOS)
    backward = ids(t[:2], X1, t[3:6], X0, t[7:], EOS)
    for encoder, words, entropy in (
        (forward, ranked.a[0], ranked.a_entropy[0]),
        (backward, ranked.b[0], ranked.b_entropy[0]),
    ):
        log_probs = np.array(
            [reference.candidate(encoder, ids(X0), ids(w))[0] for w in range(RELU_TIED.vocab_size)]
        )
        np.testing.assert_array_equal(words, np.argsort(-log_probs)[:3])
        assert entropy == pytest.approx(-(np.exp(log_probs) * log_probs).sum(), abs=1e-4)


def test_malformed_spans_are_named():
    with pytest.raises(ScoringError, match=r"pair 'x': spans .* in order and apart"):
        SpanPair(np.arange(5), ((2, 4), (3, 5)), A, B, None, "x")
    with pytest.raises(ScoringError, match="a_words has none, or an empty filling"):
        SpanPair(np.arange(5), ((0, 1), (3, 5)), (np.array([], int),), B)
