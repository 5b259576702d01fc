"""Pair tables of masked positions and of spans: against one text at a time, and their costs."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from bert_networks import (
    BERT,
    CLS,
    FIRST_WORD,
    MASK,
    SEP,
    SPECIAL,
    distributions_alone,
    scorer,
)

from mlm_consistency.analysis.diagnose import diagnose
from mlm_consistency.errors import ScoringError
from mlm_consistency.models.bert_config import BertConfig
from mlm_consistency.scoring.full_tables import full_conditional, write_full_tables
from mlm_consistency.scoring.masked_positions import COPIES, MaskedScorer
from mlm_consistency.scoring.masked_rows import lay_out_masked, masked_lengths
from mlm_consistency.scoring.packing import pack
from mlm_consistency.scoring.pair_tables import (
    MaskedPair,
    SpecialIds,
    pair_tables,
    ranked_words,
)
from mlm_consistency.vocabularies import load_vocabulary


def random_pairs(count: int, length: int = 12, words: int = 2) -> list[MaskedPair]:
    generator = np.random.default_rng(5)
    pairs = []
    for number in range(count):
        tokens = generator.integers(FIRST_WORD, 53, length).astype(np.int32)
        a, b = sorted(generator.choice(length, 2, replace=False).tolist())
        sets = (
            np.append(tokens[at], generator.choice(np.setdiff1d(np.arange(4, 53), tokens[at]),
                                                   words - 1, replace=False))
            for at in (a, b)
        )  # fmt: skip
        a_words, b_words = sets
        pairs.append(MaskedPair(tokens, (a, b), a_words, b_words, (0, 0), f"pair {number}"))
    return pairs


def filled(pair: MaskedPair, a: int, b: int) -> np.ndarray:
    tokens = np.array([CLS, *pair.token_ids, SEP])
    tokens[1 + pair.positions[0]], tokens[1 + pair.positions[1]] = a, b
    return tokens


def test_tables_hold_what_the_model_says_of_each_filled_text():
    pairs = random_pairs(3)
    tables = pair_tables(scorer(), pairs, SPECIAL, both_masked=True)
    for pair, table in zip(pairs, tables, strict=True):
        at_a, at_b = (1 + position for position in pair.positions)
        for j, word in enumerate(pair.b_words):
            alone = distributions_alone(filled(pair, MASK, word))[at_a, pair.a_words]
            np.testing.assert_allclose(table.log_a_given_b[:, j], alone, rtol=0, atol=1e-5)
        for i, word in enumerate(pair.a_words):
            alone = distributions_alone(filled(pair, word, MASK))[at_b, pair.b_words]
            np.testing.assert_allclose(table.log_b_given_a[i], alone, rtol=0, atol=1e-5)
        alone = distributions_alone(filled(pair, MASK, MASK))
        np.testing.assert_allclose(table.log_a_masked, alone[at_a, pair.a_words], atol=1e-5)
        np.testing.assert_allclose(table.log_b_masked, alone[at_b, pair.b_words], atol=1e-5)


def test_ten_thousand_sentences_take_four_rows_each():
    """Counted where rows are laid out: 25 tokens, 2 x 2 words; not one row more is computed."""
    large = MaskedScorer(BertConfig(), None)  # the size decides how rows are filled
    pairs = random_pairs(200, length=25) * 50
    assert sum(pair.rows() for pair in pairs) == 40_000
    contexts = [context for pair in pairs for context in pair.contexts(SPECIAL)]
    shape = large.shape_for(contexts[:2048])
    placed = np.zeros(len(contexts), int)
    batches = pack(masked_lengths(contexts), shape)
    for batch in batches:
        for row in (row for rows in batch.rows for row in rows):
            placed[list(row)] += 1
    assert len(contexts) == 40_000
    assert (placed == 1).all()
    assert len(batches) * shape.encoder_tokens < 1.05 * 40_000 * 27, "rows are filled"
    _, places = lay_out_masked(batches[0], contexts, shape)
    assert len(places) == sum(len(row) for rows in batches[0].rows for row in rows)


def test_the_steps_compute_four_rows_a_probe(monkeypatch):
    pairs, asked = random_pairs(6), []
    original = MaskedScorer.log_probs

    def counted(self, contexts, shape=None):
        asked.append(len(contexts))
        return original(self, contexts, shape)

    monkeypatch.setattr(MaskedScorer, "log_probs", counted)
    tables = list(pair_tables(scorer(), pairs, SPECIAL))
    assert asked == [24]
    assert all(table.log_a_masked is None for table in tables)


def test_diagnose_takes_the_tables():
    (table,) = pair_tables(scorer(), random_pairs(1), SPECIAL, both_masked=True)
    (result,) = diagnose(table.as_case())
    log_a, log_b = table.log_a_given_b, table.log_b_given_a
    ratio = (log_b - log_a).astype(float)
    d = ratio[0, 0] - ratio[0, 1] - ratio[1, 0] + ratio[1, 1]
    assert result["cross_ratio"]["max_abs"] == pytest.approx(abs(d), abs=1e-4)
    assert result["order"]["mean_abs"] is not None
    assert result["subset"] is True


def test_ranked_words_are_those_of_both_masked():
    pairs = random_pairs(2)
    texts = [(pair.token_ids, pair.positions) for pair in pairs]
    ranked = ranked_words(scorer(), texts, SPECIAL, 5)
    for pair, a, b in zip(pairs, ranked.a, ranked.b, strict=True):
        alone = distributions_alone(filled(pair, MASK, MASK))
        np.testing.assert_array_equal(a, np.argsort(-alone[1 + pair.positions[0]])[:5])
        np.testing.assert_array_equal(b, np.argsort(-alone[1 + pair.positions[1]])[:5])


def test_full_tables_come_in_chunks_that_fit(tmp_path):
    (pair,) = random_pairs(1, length=6)
    a, b = pair.positions
    one = COPIES * BERT.vocab_rows * 4
    sizes = []
    step_sizes = []
    original = MaskedScorer.distributions

    def watched(self, contexts, max_bytes):
        step_sizes.append(max_bytes)
        return original(self, contexts, max_bytes)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MaskedScorer, "distributions", watched)
        rows = np.zeros((53, 53))
        for chunk in full_conditional(scorer(), pair.token_ids, a, b, SPECIAL, max_bytes=40 * one):
            sizes.append(len(chunk.words))
            rows[chunk.words] = chunk.log_probs
    assert sizes == [20, 20, 13]
    assert set(step_sizes) == {20 * one}, "half for the step, half for the chunk"
    np.testing.assert_allclose(np.exp(rows).sum(axis=1), 1, atol=1e-5)
    for word in (4, 40):
        alone = distributions_alone(filled(pair, MASK, word))[1 + a]
        np.testing.assert_allclose(rows[word], alone, rtol=0, atol=1e-5)
    paths = write_full_tables(
        scorer(), pair.token_ids, (a, b), SPECIAL, tmp_path, max_bytes=40 * one
    )
    np.testing.assert_array_equal(np.load(paths[0], mmap_mode="r"), rows.astype(np.float32))
    assert np.load(paths[1]).shape == (53, 53)
    with pytest.raises(ScoringError, match="holds no distribution"):
        next(full_conditional(scorer(), pair.token_ids, a, b, SPECIAL, max_bytes=one))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"positions": (3, 3)}, "must be two of 12"),
        ({"positions": (3, 12)}, "must be two of 12"),
        ({"a_words": np.array([7, 7])}, "none twice"),
        ({"b_words": np.array([], int)}, "at least one word"),
    ],
)
def test_malformed_pairs_are_named(changes, words):
    pair = random_pairs(1)[0]
    with pytest.raises(ScoringError, match=rf"pair 'pair 0': .*{words}"):
        dataclasses.replace(pair, **changes)


def test_a_text_too_long_names_the_pair_and_the_bound():
    pairs = random_pairs(1, length=23)
    with pytest.raises(ScoringError, match=r"'pair 0' has 25 tokens.*positions for 24"):
        list(pair_tables(scorer(), pairs, SPECIAL))


def test_a_vocabulary_without_a_mask_is_sent_to_span_pairs():
    with pytest.raises(ScoringError, match="span_pairs"):
        SpecialIds.of(load_vocabulary("tiny"))
