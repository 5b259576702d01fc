"""From text to ids under every conditional."""

from __future__ import annotations

import functools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlm_consistency.conditionals import (
    Masked,
    NotApplicable,
    TextExample,
    encode_example,
    parse_conditionals,
)
from mlm_consistency.errors import ConfigError, DataError, VocabularyError
from mlm_consistency.vocabularies import load_vocabulary

STORY = "Tom bought 4 apples and ate 2. He now has"
EXAMPLE = TextExample("story", STORY, ("2", "4", "6 apples"), (0,), "counting")


@functools.cache
def shipped():
    return load_vocabulary("tiny")


@pytest.fixture
def tiny():
    return shipped()


def test_ids_are_assembled_from_prompt_sentinel_and_end(tiny):
    encoded = encode_example(EXAMPLE, tiny, parse_conditionals("baseline,offset_3"), index=7)
    prompt = tiny.encode(STORY)
    baseline, offset = encoded.masked
    assert baseline.encoder.tolist() == [*prompt, tiny.sentinel(0), tiny.eos_id]
    assert baseline.prefix.tolist() == [tiny.sentinel(0)]
    assert offset.encoder.tolist() == [*prompt[:-3], tiny.sentinel(0), tiny.eos_id]
    assert offset.prefix.tolist() == [tiny.sentinel(0), *prompt[-3:]]
    assert [c.tolist() for c in encoded.candidates] == [
        tiny.encode(text) for text in EXAMPLE.candidates
    ]
    assert (encoded.index, encoded.id, encoded.subject) == (7, "story", "counting")
    assert encoded.prompt_ids[""].tolist() == prompt
    assert (encoded.labels, encoded.truncated) == ((0,), 0)


def test_the_mode_word_is_part_of_the_prompt_and_may_differ(tiny):
    conditionals = parse_conditionals(["baseline", "baseline@NLU", "baseline@none"])
    encoded = encode_example(EXAMPLE, tiny, conditionals, "NLG", "ul2")
    assert {word: ids.tolist() for word, ids in encoded.prompt_ids.items()} == {
        "NLG": tiny.encode(f"[NLG] {STORY}"),
        "NLU": tiny.encode(f"[NLU] {STORY}"),
        "": tiny.encode(STORY),
    }
    for masked, ids in zip(encoded.masked, encoded.prompt_ids.values(), strict=True):
        assert masked.encoder[:-2].tolist() == ids.tolist()


def test_flan_has_no_sentinels(tiny):
    conditionals = parse_conditionals("baseline,offset_3,span_3_3_1,baseline@NLU")
    encoded = encode_example(EXAMPLE, tiny, conditionals, None, "flan")
    baseline, offset, span, mode = encoded.masked
    assert baseline.encoder.tolist() == [*tiny.encode(STORY), tiny.eos_id]
    assert baseline.prefix.tolist() == []
    assert offset.prefix.tolist() == tiny.encode(STORY)[-3:]
    assert isinstance(span, NotApplicable)
    assert "needs sentinels" in span.reason
    assert isinstance(mode, NotApplicable)
    assert "no mode words" in mode.reason


def test_a_pattern_that_does_not_fit_is_not_applicable(tiny):
    conditionals = parse_conditionals("baseline,span_3_5_9")
    assert isinstance(encode_example(EXAMPLE, tiny, conditionals).masked[1], NotApplicable)


def test_more_spans_than_sentinels_is_not_applicable():
    few = load_vocabulary("tiny", extra_ids=2)
    long = TextExample("long", STORY * 3, ("2",), (0,))
    masked = encode_example(long, few, parse_conditionals("baseline,span_1_1_4")).masked
    assert isinstance(masked[0], Masked)
    assert "needs 5 sentinels, the vocabulary has 2" in masked[1].reason


def test_a_prompt_is_cut_at_the_left_behind_the_mode_word_only_when_asked(tiny):
    ids = tiny.encode(f"[NLG] {STORY}")
    word = tiny.encode("[NLG]")
    encoded = encode_example(
        EXAMPLE, tiny, parse_conditionals("baseline"), "NLG", "ul2", max_prompt_tokens=len(word) + 3
    )
    assert encoded.prompt_ids["NLG"].tolist() == word + ids[-3:]
    assert encoded.truncated == len(ids) - len(word) - 3
    with pytest.raises(ConfigError, match="leaves no room"):
        encode_example(
            EXAMPLE, tiny, parse_conditionals("baseline"), "NLG", "ul2", max_prompt_tokens=2
        )


@pytest.mark.parametrize(
    ("example", "message"),
    [
        (TextExample("e", " \n", ("2",), (0,)), "example 'e': prompt has no tokens"),
        (TextExample("e", STORY, ("2", " "), (0,)), "candidate 1 .* has no tokens"),
        (TextExample("e", "<extra_id_0> has", ("2",), (0,)), "prompt holds the sentinel"),
        (TextExample("e", STORY, ("a <extra_id_3>",), (0,)), "sentinel <extra_id_3>"),
    ],
)
def test_what_cannot_be_scored_is_refused(tiny, example, message):
    with pytest.raises(DataError, match=message):
        encode_example(example, tiny, parse_conditionals("baseline"))


def test_settings_that_do_not_go_together(tiny):
    baseline = parse_conditionals("baseline")
    with pytest.raises(ConfigError, match="family t5 has no mode words"):
        encode_example(EXAMPLE, tiny, baseline, "NLG", "t5")
    with pytest.raises(ConfigError, match="unknown family"):
        encode_example(EXAMPLE, tiny, baseline, None, "gpt")
    with pytest.raises(VocabularyError, match="no sentinels"):
        encode_example(EXAMPLE, load_vocabulary("tiny", extra_ids=0), baseline)


def test_equality_compares_the_arrays(tiny):
    first = encode_example(EXAMPLE, tiny, parse_conditionals("mmlu"))
    assert first == encode_example(EXAMPLE, tiny, parse_conditionals("mmlu"))
    assert first != encode_example(EXAMPLE, tiny, parse_conditionals("mmlu"), index=1)
    assert first != encode_example(EXAMPLE, tiny, parse_conditionals("lambada"))


@given(
    st.text(st.sampled_from("abc 12.?"), min_size=1, max_size=60).filter(str.strip),
    st.lists(st.text(st.sampled_from("ab 12"), min_size=1).filter(str.strip), min_size=1),
)
def test_every_masked_prompt_holds_the_same_tokens(prompt, candidates):
    vocabulary = shipped()
    example = TextExample("e", prompt, tuple(candidates), (0,))
    encoded = encode_example(example, vocabulary, parse_conditionals("mmlu"), "NLG", "ul2")
    expected = np.sort(encoded.prompt_ids["NLG"])
    for masked in encoded.masked:
        if isinstance(masked, Masked):
            ids = [*masked.encoder[:-1], *masked.prefix]
            held = [t for t in ids if vocabulary.sentinel_number(t) is None]
            assert np.array_equal(np.sort(held), expected)
