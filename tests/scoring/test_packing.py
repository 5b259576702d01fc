"""Packing: every prompt lies in one encoder row and in one decoder row, and nothing overflows."""

from __future__ import annotations

import collections
import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_networks import RELU_TIED

from mlm_consistency.errors import ConfigError, ScoringError
from mlm_consistency.models.presets import preset
from mlm_consistency.scoring.packing import PromptLengths, batches_needed, pack, pack_rows
from mlm_consistency.scoring.shapes import (
    PackingConfig,
    choose_shape,
    encoder_row_cost,
    proportions,
    round_up,
)
from mlm_consistency.scoring.step import BatchShape

CONFIG = PackingConfig(
    max_encoder_length=512, tokens_per_batch=1024, memory_length=256, length_multiple=8
)


def table(rows) -> PromptLengths:
    """PromptLengths of (encoder, decoder, reads, pairs) rows."""
    return PromptLengths(*np.asarray(rows, np.int64).reshape(-1, 4).T)


@st.composite
def prompt_lengths(draw, most: int = 60) -> PromptLengths:
    rows = []
    for _ in range(draw(st.integers(1, most))):
        encoder, prefix = draw(st.integers(1, 300)), draw(st.integers(0, 12))
        reads = draw(st.integers(1, 10))
        rows.append((encoder, 1 + prefix + reads, reads, reads + draw(st.integers(0, 6))))
    return table(rows)


def lognormal_lengths(count: int, seed: int = 0, longest: int = 450) -> PromptLengths:
    """Lengths like MMLU's nine subjects: median 37, mean 46, longest 450; four candidates."""
    rng = np.random.default_rng(seed)
    encoder = np.clip(np.exp(rng.normal(3.6, 0.6, count)).astype(int), 21, longest)
    prefix = rng.choice([1, 2, 3, 4, 5, 9], count)
    reads = rng.integers(2, 11, count)
    return table(np.stack([encoder, 1 + prefix + reads, reads, reads + 3], axis=1))


def check(lengths: PromptLengths, shape: BatchShape, batches) -> None:
    """Holds a plan against its lengths and its shape."""
    in_rows: collections.Counter = collections.Counter()
    in_trees: collections.Counter = collections.Counter()
    for batch in batches:
        assert len(batch.rows) == len(shape.rows)
        here = set()
        for (length, count), rows in zip(shape.rows, batch.rows, strict=True):
            assert len(rows) <= count
            for row in rows:
                assert lengths.encoder[list(row)].sum() <= length
                in_rows.update(row)
                here.update(row)
        assert len(batch.decoder_rows) <= shape.decoder_rows
        for row in batch.decoder_rows:
            assert lengths.encoder[list(row)].sum() <= shape.memory_length
            assert lengths.decoder[list(row)].sum() <= shape.decoder_length
            in_trees.update(row)
            # A tree attends to what its own batch encodes.
            assert here.issuperset(row)
        assert lengths.reads[list(here)].sum() <= shape.reads
        assert lengths.pairs[list(here)].sum() <= shape.pairs
    once = dict.fromkeys(range(len(lengths)), 1)
    assert in_rows == once
    assert in_trees == once


@settings(max_examples=60, deadline=None)
@given(prompt_lengths(), st.sampled_from([0.0, 0.06]))
def test_every_prompt_lies_once_in_each_and_nothing_overflows(lengths, spare):
    shape = choose_shape(lengths, RELU_TIED, CONFIG, spare)
    batches = pack(lengths, shape)
    check(lengths, shape, batches)
    assert batches == pack(lengths, shape), "a pure function of the lengths"


@settings(max_examples=60, deadline=None)
@given(
    prompt_lengths(30),
    st.lists(st.sampled_from([304, 320, 384, 512]), min_size=1, max_size=3, unique=True),
    st.integers(1, 3),
    st.integers(1, 3),
    st.integers(304, 700),
    st.integers(30, 90),
    st.integers(16, 60),
)
def test_any_shape_that_holds_each_prompt_alone_holds_them_all(
    lengths, sizes, count, decoder_rows, memory, nodes, reads
):
    rows = tuple((size, count) for size in sorted(sizes))
    shape = BatchShape(rows, decoder_rows, memory, nodes, reads, reads + 10)
    check(lengths, shape, pack(lengths, shape))


@settings(max_examples=40, deadline=None)
@given(prompt_lengths(40))
def test_a_sample_chooses_a_shape_that_the_others_fit(lengths):
    shape = choose_shape(lengths, RELU_TIED, CONFIG)
    half = lengths.take(np.arange(0, len(lengths), 2))
    check(half, shape, pack(half, shape))


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.integers(1, 64), max_size=50),
    st.sets(st.sampled_from([64, 80, 96, 128]), min_size=1).map(sorted),
)
def test_rows_are_filled_and_no_prompt_is_lost(encoder, sizes):
    rows = pack_rows(np.asarray(encoder, np.int64), sizes)
    assert sorted(i for _, row in rows for i in row) == list(range(len(encoder)))
    for size, row in rows:
        assert size in sizes
        assert sum(encoder[i] for i in row) <= size
    # A prompt that fitted into an earlier row's gap would lie there: the longest goes in first.
    for number, (size, row) in enumerate(rows):
        gap = size - sum(encoder[i] for i in row)
        assert all(encoder[i] > gap for _, later in rows[number + 1 :] for i in later)


def test_no_prompts_make_no_rows_and_no_batches():
    nothing = table([])
    assert pack_rows(nothing.encoder, [64]) == []
    assert pack(nothing, BatchShape(((64, 1),), 1, 64, 8, 8, 8)) == []


def test_rows_may_lie_in_longer_places():
    shape = BatchShape(((32, 1), (64, 2)), 1, 200, 40, 40, 40)
    # Three short rows and one long: the short ones that have no place take a long one's.
    assert batches_needed([(32, [0]), (32, [1]), (32, [2]), (64, [3])], shape) == 2
    assert batches_needed([(64, [0])] * 5, shape) == 3
    assert batches_needed([(32, [0])] * 3, shape) == 1


def padding(lengths: PromptLengths, shape: BatchShape, batches: int) -> tuple[float, float]:
    """Shares of encoder tokens and of decoder nodes that are computed for nothing."""
    return (
        1 - lengths.encoder.sum() / (batches * shape.encoder_tokens),
        1 - lengths.decoder.sum() / (batches * shape.decoder_tokens),
    )


@pytest.mark.parametrize(
    ("network", "multiple"), [("t5_base", 16), ("ul2_20b", 128)], ids=["t5_base", "ul2_20b"]
)
def test_padding_on_lengths_like_mmlu(network, multiple):
    lengths = lognormal_lengths(3_000)
    config = PackingConfig(length_multiple=multiple)
    shape = choose_shape(lengths, preset(network), config, spare=0.06)
    batches = pack(lengths, shape)
    check(lengths, shape, batches)
    encoder, decoder = padding(lengths, shape, len(batches))
    assert encoder < 0.06, f"{encoder:.1%} of the encoder is padding"
    assert decoder < 0.12, f"{decoder:.1%} of the decoder is padding"


def test_two_hundred_thousand_prompts_are_planned_shard_by_shard():
    """As the loop does it, with one shape from a sample.

    Shards cost something: the last batch of each is not full, and few of them have long rows and
    short ones in the proportion of the whole.
    """
    lengths = lognormal_lengths(200_000)
    shape = choose_shape(lengths, preset("t5_base"), PackingConfig(), spare=0.06)
    shard, batches, least, placed = 10_240, 0, 0, 0  # 1,024 examples under ten conditionals
    sizes = [length for length, _ in shape.rows]
    for first in range(0, len(lengths), shard):
        part = lengths.take(np.arange(first, min(first + shard, len(lengths))))
        plan = pack(part, shape)
        batches += len(plan)
        least += batches_needed(pack_rows(part.encoder, sizes), shape)
        placed += sum(len(row) for batch in plan for rows in batch.rows for row in rows)
        if first == 0:
            check(part, shape, plan)
    assert placed == len(lengths)
    assert batches <= 1.02 * least, "what did not fit the decoder's rows is rarely planned anew"
    encoder, decoder = padding(lengths, shape, batches)
    assert encoder < 0.12, f"{encoder:.1%} of the encoder is padding"
    assert decoder < 0.18, f"{decoder:.1%} of the decoder is padding"


@pytest.mark.parametrize("network", [RELU_TIED, preset("t5_base")], ids=["d32", "t5_base"])
def test_the_chosen_mixture_costs_no_more_than_any_single_row_length(network):
    lengths = lognormal_lengths(2_000)

    def cost(config: PackingConfig) -> float:
        shape = choose_shape(lengths, network, config, spare=0.06)
        row = sum(encoder_row_cost(network, n, 120.0) * count for n, count in shape.rows)
        return len(pack(lengths, shape)) * row

    longest = round_up(lengths.encoder.max(), 16)
    singles = [cost(PackingConfig(row_lengths=(n,))) for n in (longest, 2 * longest)]
    assert cost(PackingConfig()) <= 1.01 * min(singles)


def test_a_small_network_takes_shorter_rows_than_a_large_one():
    lengths = lognormal_lengths(2_000)
    small, large = (
        choose_shape(lengths, network, PackingConfig()).rows
        for network in (RELU_TIED, preset("ul2_20b"))
    )
    assert small[0][0] < large[0][0], "attention is dear where D is small"


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"decoder": 99}, "a prompt has 99 decoder nodes, batches hold 40"),
        ({"encoder": 99}, "a prompt has 99 encoder tokens, batches hold 64"),
        ({"reads": 99}, "a prompt has 99 read nodes, batches hold 30"),
        ({"pairs": 99}, "a prompt has 99 scored pairs, batches hold 20"),
    ],
)
def test_what_does_not_fit_is_named(changed, message):
    lengths = dataclasses.replace(
        table([(10, 5, 2, 3)]), **{name: np.asarray([value]) for name, value in changed.items()}
    )
    with pytest.raises(ScoringError, match=message):
        pack(lengths, BatchShape(((32, 1), (64, 1)), 1, 80, 40, 30, 20))


@pytest.mark.parametrize(("name", "tokens"), [("encoder", 129), ("decoder", 65)])
def test_prompts_past_the_limits_are_counted_and_the_setting_is_named(name, tokens):
    lengths = table([(10, 5, 2, 3)] * 3)
    getattr(lengths, name)[1] = tokens
    config = PackingConfig(max_encoder_length=128, max_decoder_length=64)
    with pytest.raises(ScoringError) as caught:
        choose_shape(lengths, RELU_TIED, config)
    message = str(caught.value)
    assert message.startswith("1 prompts are longer")
    assert f"{tokens} tokens at most, {tokens - 1} allowed" in message
    assert f"max_{name}_length" in message


def test_limits_are_met_to_the_token():
    lengths = table([(128, 64, 2, 3), (5, 5, 2, 3)])
    config = PackingConfig(max_encoder_length=128, max_decoder_length=64, length_multiple=16)
    shape = choose_shape(lengths, RELU_TIED, config)
    check(lengths, shape, pack(lengths, shape))


def test_a_limit_that_is_no_multiple_is_still_a_row_length():
    lengths = table([(117, 9, 2, 3), (5, 5, 2, 3)])
    config = PackingConfig(max_encoder_length=117, length_multiple=16)
    shape = choose_shape(lengths, RELU_TIED, config)
    assert shape.rows[-1][0] == 117
    check(lengths, shape, pack(lengths, shape))


def test_row_lengths_may_be_given_in_any_order():
    lengths = lognormal_lengths(200, longest=200)
    shapes = [
        choose_shape(lengths, RELU_TIED, PackingConfig(row_lengths=given))
        for given in ((64, 256), (256, 64), [64, 256])
    ]
    assert shapes[0] == shapes[1] == shapes[2]
    assert [length for length, _ in shapes[0].rows] == [64, 256]
    check(lengths, shapes[0], pack(lengths, shapes[0]))


def test_row_lengths_shorter_than_a_prompt_are_refused_by_their_setting():
    with pytest.raises(ScoringError, match="row_lengths"):
        choose_shape(table([(100, 5, 2, 3)]), RELU_TIED, PackingConfig(row_lengths=(32, 64)))


def test_at_most_so_many_row_lengths_as_asked_for():
    lengths = lognormal_lengths(400)
    for most in (1, 2, 3):
        shape = choose_shape(lengths, RELU_TIED, PackingConfig(max_row_lengths=most))
        assert len(shape.rows) <= most
        assert all(length % 16 == 0 for length, _ in shape.rows)


def test_the_batch_is_about_as_large_as_asked_for():
    lengths = lognormal_lengths(2_000)
    for tokens in (1024, 4096, 16384):
        shape = choose_shape(lengths, RELU_TIED, PackingConfig(tokens_per_batch=tokens))
        assert tokens / 2 <= shape.encoder_tokens <= tokens * 2


def test_proportions_hold_all_rows():
    rows = {64: 100, 256: 7}
    _, each, batches = proportions(rows, {64: 1.0, 256: 5.0}, 1024)
    assert dict(each).keys() == rows.keys()
    assert all(count * batches >= rows[length] for length, count in each)


def test_round_up():
    assert [round_up(v, 8) for v in (1, 8, 8.5, 16)] == [8, 8, 16, 16]


@pytest.mark.parametrize("field", ["tokens_per_batch", "memory_length", "examples_per_shard"])
def test_settings_are_checked_where_they_are_made(field):
    with pytest.raises(ConfigError, match=f"PackingConfig.{field} must be positive, got 0"):
        PackingConfig(**{field: 0})
