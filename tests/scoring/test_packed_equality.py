"""Packed scores equal one-at-a-time scores, whatever the network, family, batch size and order."""

from __future__ import annotations

import dataclasses

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_networks import (
    EOS,
    FIRST_WORD,
    GELU_UNTIED,
    LAST_WORD,
    NETWORKS,
    PACKING,
    RELU_TIED,
    SILU_TIED,
    flat,
    largest_difference,
    make_example,
    random_examples,
    random_parameters,
    score_alone,
    score_packed,
    sentinel,
    shape_for,
)

from mlm_consistency.conditionals import Masked, NotApplicable
from mlm_consistency.scoring.assemble import empty_batch, lay_out, lengths_of, prompts_of
from mlm_consistency.scoring.mesh import MeshConfig, make_mesh
from mlm_consistency.scoring.packing import pack
from mlm_consistency.scoring.step import BatchShape, make_step, pair_log_probs

TOLERANCE = 1e-5  # nats, float32
BFLOAT16_TOLERANCE = 0.15  # nats a token; three significant digits through two stacks of layers
EXAMPLES = random_examples(12, seed=1)
ALONE = {RELU_TIED: score_alone(RELU_TIED, EXAMPLES)}
# Room for any dozen examples like these: tests that share it share one compilation.
ROOMY = BatchShape(((64, 3), (96, 1)), 2, 192, 112, 64, 96)


def test_the_examples_are_no_easy_ones():
    masked = [m for e in EXAMPLES for m in e.masked]
    assert any(isinstance(m, NotApplicable) for m in masked)
    assert {len(e.masked) for e in EXAMPLES} == {10}
    assert len({len(e.candidates) for e in EXAMPLES}) > 2
    candidates = [y.tolist() for e in EXAMPLES for y in e.candidates]
    assert any(0 in y for y in candidates), "the padding id inside a candidate"
    assert any(len(y) == 1 for y in candidates)
    assert any(
        a[: len(b)] == b for e in EXAMPLES for i, a in enumerate(map(list, e.candidates))
        for j, b in enumerate(map(list, e.candidates)) if i != j
    ), "one candidate begins another"  # fmt: skip
    assert flat(ALONE[RELU_TIED]).std() > 0.5, "scores that could hardly differ prove nothing"


@pytest.mark.parametrize("config", [RELU_TIED, GELU_UNTIED, SILU_TIED], ids=list(NETWORKS))
def test_packed_equals_alone_for_every_kind_of_network(config):
    packed = score_packed(config, EXAMPLES, ROOMY)
    alone = ALONE.setdefault(config, score_alone(config, EXAMPLES))
    assert largest_difference(packed, alone) < TOLERANCE
    assert all(y.dtype == np.float32 for e in packed for k in e if k for y in k)


def test_packed_equals_alone_for_flan_which_has_no_prefix_under_the_baseline():
    examples = random_examples(8, seed=2, conditionals="flan_mmlu", family="flan")
    assert any(len(m.prefix) == 0 for e in examples for m in e.masked if isinstance(m, Masked))
    packed = score_packed(GELU_UNTIED, examples, ROOMY)
    assert largest_difference(packed, score_alone(GELU_UNTIED, examples)) < TOLERANCE


@pytest.mark.parametrize(
    "packing",
    [
        dataclasses.replace(PACKING, tokens_per_batch=80, memory_length=80),
        dataclasses.replace(PACKING, tokens_per_batch=4096, memory_length=4096),
        dataclasses.replace(PACKING, row_lengths=(24, 40, 128)),
    ],
    ids=["one_prompt_a_row", "all_in_one_batch", "three_row_lengths"],
)
def test_the_batch_shape_changes_no_score(packing):
    shape = shape_for(EXAMPLES, packing)
    packed = score_packed(RELU_TIED, EXAMPLES, shape)
    assert largest_difference(packed, ALONE[RELU_TIED]) < TOLERANCE


def test_the_order_of_the_examples_changes_no_score():
    for seed in range(3):
        order = np.random.default_rng(seed).permutation(len(EXAMPLES))
        packed = score_packed(RELU_TIED, [EXAMPLES[i] for i in order], ROOMY)
        back = [packed[list(order).index(i)] for i in range(len(EXAMPLES))]
        assert largest_difference(back, ALONE[RELU_TIED]) < TOLERANCE


@pytest.mark.parametrize("size", [1, 5, 12])
def test_the_size_of_shards_changes_no_score(size):
    packed = score_packed(RELU_TIED, EXAMPLES, ROOMY, examples_per_shard=size)
    assert largest_difference(packed, ALONE[RELU_TIED]) < TOLERANCE


def test_a_batch_of_two_very_different_lengths_equals_each_alone():
    rng = np.random.default_rng(5)
    short = make_example(0, rng.integers(FIRST_WORD, LAST_WORD, 5), [np.asarray([7])], "baseline")
    long = make_example(
        1, rng.integers(FIRST_WORD, LAST_WORD, 60), [rng.integers(3, 9, 20)], "baseline"
    )
    together = score_packed(SILU_TIED, [short, long], ROOMY)
    for example, scores in zip([short, long], together, strict=True):
        assert largest_difference([scores], score_packed(SILU_TIED, [example], ROOMY)) < TOLERANCE
        assert largest_difference([scores], score_alone(SILU_TIED, [example])) < TOLERANCE


def test_prompts_past_the_last_relative_bucket():
    """More than 128 tokens: distances that share the farthest bucket, from both sides."""
    rng = np.random.default_rng(6)
    examples = [
        make_example(
            0, rng.integers(FIRST_WORD, LAST_WORD, 200), [rng.integers(3, 9, 40)],
            "baseline,offset_150",
        )
    ]  # fmt: skip
    packed = score_packed(RELU_TIED, examples, shape_for(examples))
    assert largest_difference(packed, score_alone(RELU_TIED, examples)) < TOLERANCE


def test_a_candidate_is_scored_the_same_whatever_stands_beside_it():
    rng = np.random.default_rng(7)
    prompt = rng.integers(FIRST_WORD, LAST_WORD, 30)
    mine = np.asarray([3, 0, 4, 4], np.int32)
    crowds = ([mine], [mine, mine], [mine[:2], mine, mine[:3]], [mine[::-1], mine + 5, mine])
    scores = []
    for others in crowds:
        at = next(i for i, y in enumerate(others) if np.array_equal(y, mine))
        packed = score_packed(RELU_TIED, [make_example(0, prompt, others)], ROOMY)
        scores.append([under[at] if under else None for under in packed[0]])
    for other in scores[1:]:
        assert largest_difference(scores[0], other) < TOLERANCE


def test_repeated_candidates_have_equal_scores_to_the_bit():
    example = make_example(0, np.arange(3, 30), [[5, 6], [7], [5, 6]])
    for under in score_packed(RELU_TIED, [example], ROOMY)[0]:
        assert np.array_equal(under[0], under[2])


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**31), st.integers(1, 6))
def test_random_examples_in_one_shape(seed, count):
    examples = random_examples(count, seed=seed, lengths=(1, 50))
    packed = score_packed(RELU_TIED, examples, ROOMY)
    assert largest_difference(packed, score_alone(RELU_TIED, examples)) < TOLERANCE


def test_bfloat16_stays_near_float32():
    config = dataclasses.replace(RELU_TIED, dtype="bfloat16", param_dtype="bfloat16")
    packed = score_packed(config, EXAMPLES, ROOMY)
    values = flat(packed)
    assert all(y.dtype == np.float32 for e in packed for k in e if k for y in k)
    difference = np.abs(values - flat(ALONE[RELU_TIED]))
    assert 1e-4 < difference.max() < BFLOAT16_TOLERANCE
    assert difference.mean() < BFLOAT16_TOLERANCE / 5


def test_float32_sums_over_bfloat16_products():
    """Norms, softmax and logits do not lose digits: probabilities of all tokens sum to one."""
    logits = jax.random.normal(jax.random.key(0), (1, 1, 160)) * 3
    every = np.arange(160)[None]
    log_probs = pair_log_probs(logits, np.zeros((1, 160), np.int32), every)
    assert log_probs.dtype == np.float32
    assert abs(float(np.exp(np.asarray(log_probs)).sum()) - 1) < 1e-5


def test_all_tokens_as_candidates_are_one_distribution():
    example = make_example(0, np.arange(3, 25), [[token] for token in range(160)])
    shape = BatchShape(((64, 3),), 1, 192, 40, 16, 1600)
    for under in score_packed(SILU_TIED, [example], shape)[0]:
        assert abs(np.exp(np.concatenate(under).astype(np.float64)).sum() - 1) < 1e-5


def test_padding_and_idle_slots_change_nothing_and_stay_finite():
    prompts = prompts_of(EXAMPLES[:1])
    batch, *_ = pack(lengths_of(prompts), ROOMY)
    arrays, places = lay_out(batch, prompts, ROOMY, 0)
    idle = empty_batch(ROOMY)
    mesh = make_mesh(MeshConfig(1, 1), jax.devices()[:1])
    step, params = make_step(RELU_TIED, mesh), random_parameters(RELU_TIED)
    stacked = {name: np.stack([arrays[name], idle[name]]) for name in arrays}
    out = np.asarray(step(params, stacked))
    assert out.shape == (2, ROOMY.pairs)
    assert np.isfinite(out).all()
    reversed_slots = np.asarray(step(params, {k: v[::-1] for k, v in stacked.items()}))
    assert np.abs(out - reversed_slots[::-1]).max() < TOLERANCE
    assert len(places) == sum(map(len, batch.decoder_rows))


def test_the_arrays_of_a_slot_by_hand():
    """Two prompts in one row; each tree attends to its own prompt alone."""
    a = make_example(0, np.asarray([5, 6]), [[7, 8], [7, 9]], "baseline")
    b = make_example(1, np.asarray([4, 4, 4]), [[3]], "baseline")
    prompts = prompts_of([a, b])
    lengths = lengths_of(prompts)
    assert lengths.encoder.tolist() == [4, 5]
    assert lengths.decoder.tolist() == [3, 2]
    assert lengths.reads.tolist() == [2, 1]
    assert lengths.pairs.tolist() == [3, 1]
    x0 = sentinel(0)
    shape = BatchShape(((12, 1),), 1, 12, 8, 4, 6)
    (batch,) = pack(lengths, shape)
    arrays, places = lay_out(batch, prompts, shape, 0)
    assert arrays["encoder_tokens_0"].tolist() == [[4, 4, 4, x0, EOS, 5, 6, x0, EOS, 0, 0, 0]]
    assert arrays["encoder_segments_0"].tolist() == [[1] * 5 + [2] * 4 + [0] * 3]
    assert arrays["memory"].tolist() == [[*range(9), 0, 0, 0]]
    assert arrays["memory_segments"].tolist() == [[1] * 5 + [2] * 4 + [0] * 3]
    assert arrays["tokens"].tolist() == [[0, x0, 0, x0, 7, 0, 0, 0]]
    assert arrays["positions"].tolist() == [[0, 1, 0, 1, 2, 0, 0, 0]]
    assert arrays["segments"].tolist() == [[1, 1, 2, 2, 2, 0, 0, 0]]
    assert arrays["end"].tolist() == [[2, 2, 5, 5, 5, 0, 0, 0]]
    assert arrays["read"].tolist() == [1, 3, 4, 0]
    assert arrays["pair_read"].tolist() == [0, 1, 2, 2, 0, 0]
    assert arrays["pair_target"].tolist() == [3, 7, 8, 9, 0, 0]
    assert places == [(1, 0), (0, 1)]
