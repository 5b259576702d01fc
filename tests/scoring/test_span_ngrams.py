"""Last words of a text: tokens against one prompt at a time; proposals are the beams."""

from __future__ import annotations

import numpy as np
import pytest
from reference_t5 import ReferenceT5
from tiny_networks import RELU_TIED, random_parameters

from mlm_consistency.analysis.ngrams import ngram_preferences
from mlm_consistency.errors import ScoringError
from mlm_consistency.scoring.beams import BeamConfig
from mlm_consistency.scoring.shapes import PackingConfig
from mlm_consistency.scoring.span_ngrams import TextEnd, end_log_probs, propose_ends
from mlm_consistency.scoring.span_pairs import Sentinels
from mlm_consistency.scoring.span_scorer import SpanScorer

X0, X1, X2, EOS = 60, 59, 58, 1
SENTINELS = Sentinels((X0, X1, X2), EOS)
ENDS = [
    TextEnd(np.arange(30, 38), np.array([40, 41, 42]), np.array([43, 44]), np.array([7])),
    TextEnd(np.arange(31, 35), np.array([45]), np.array([46, 47, 48]), np.array([], int)),
]
PROPOSALS = [np.array([50, 51, 52]), np.array([53])]


@pytest.fixture(scope="module")
def weights():
    return random_parameters(RELU_TIED)


@pytest.fixture(scope="module")
def scorer(weights):
    return SpanScorer(RELU_TIED, weights, packing=PackingConfig(tokens_per_batch=128))


def test_every_token_equals_the_reference(weights, scorer):
    reference = ReferenceT5(RELU_TIED, weights)
    for end, proposal, found in zip(
        ENDS, PROPOSALS, end_log_probs(scorer, ENDS, PROPOSALS, SENTINELS), strict=True
    ):
        short = [*end.context, *end.between, X0, *end.after, EOS]
        long = [*end.context, X0, *end.after, EOS]
        for name, words in (("original", end.last), ("proposed", proposal)):
            for kind, encoder, before in (("short", short, []), ("long", long, end.between)):
                answer = np.array([*before, *words, X1])
                alone = reference.candidate(np.array(encoder), np.array([X0]), answer)
                values = getattr(found, f"{kind}_{name}")
                np.testing.assert_allclose(values, alone, atol=1e-4)


def test_preferences_with_and_without_the_closing_sentinel(scorer):
    found = end_log_probs(scorer, ENDS, PROPOSALS, SENTINELS)
    for closing, stop in ((False, -1), (True, None)):
        gaps = []
        for one in found:
            short = one.short_original[:stop].sum() - one.short_proposed[:stop].sum()
            long = one.long_original[:stop].sum() - one.long_proposed[:stop].sum()
            gaps.append(abs(short - long))
        figures = ngram_preferences(found, closing)
        assert figures["n"] == 2
        assert figures["mean"] == pytest.approx(np.mean(gaps), rel=1e-5)


def test_proposals_are_the_beams_that_end(scorer):
    # Random weights end with no token in particular: the likeliest first one does here.
    stop = int(scorer.top([ENDS[0].masked(SENTINELS, False)], 1)[0]["words"][0])
    sentinels = Sentinels((X0, stop, X2), EOS)
    config = BeamConfig(
        width=12, max_tokens=2, length_penalty=0.0, tokens_per_batch=64, max_row_lengths=1
    )
    found = propose_ends(scorer, ENDS, sentinels, RELU_TIED.vocab_size, config)
    assert len(found) == 2
    assert found[0], "the sentinel alone, at least"
    for end, beams in zip(ENDS, found, strict=True):
        assert all(stop not in beam for beam in beams)
        values = end_log_probs(scorer, [end] * len(beams), beams, sentinels)
        ranks = [float(v.short_proposed.sum()) for v in values]
        assert ranks == pytest.approx(sorted(ranks, reverse=True), abs=1e-5)
    with pytest.raises(ScoringError, match="no text"):
        propose_ends(scorer, [], SENTINELS, RELU_TIED.vocab_size, config)
