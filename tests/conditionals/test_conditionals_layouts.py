"""Every masking pattern: contract over the table, properties, and the worked examples."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlm_consistency.conditionals import (
    EXAMPLES,
    FAMILIES,
    PATTERNS,
    PRESETS,
    Layout,
    NotApplicable,
    Offset,
    Span,
    SpanAuto,
    SpanShare,
    get_conditional,
)

EOS = 1
X0 = 32099
LETTERS = "abcdefghijklmnopqrst"

patterns = st.one_of(
    st.sampled_from([get_conditional(name) for name in EXAMPLES]),
    st.builds(Offset, st.integers(1, 12)),
    st.builds(Span, st.integers(1, 5), st.integers(1, 8), st.integers(1, 4)),
    st.builds(SpanAuto, st.integers(1, 5), st.integers(1, 8)),
    st.builds(SpanShare, st.integers(1, 5), st.integers(1, 8), st.integers(1, 100)),
)


def sentinel(k: int) -> int:
    return X0 - k


def rebuild(encoder: list[int], targets: list[int], last: int) -> tuple[list[int], list[int]]:
    """Prompt and answer from tokens alone: each sentinel stands for what follows it in targets."""
    sentinels = {sentinel(k) for k in range(last + 1)}
    filled: dict[int, list[int]] = {}
    current = None
    for token in targets:
        if token in sentinels:
            current = token
            filled[current] = []
        else:
            filled[current].append(token)
    text: list[int] = []
    for token in encoder[:-1]:
        text += filled.pop(token) if token in sentinels else [token]
    assert not filled
    return text, encoder[-1:]


@given(patterns, st.integers(0, 60), st.integers(1, 4), st.sampled_from(["t5", "ul2"]))
def test_prompt_and_candidate_can_be_rebuilt(conditional, n, m, family):
    prompt, answer = list(range(100, 100 + n)), list(range(500, 500 + m))
    layout = conditional.layout(n, family)
    if isinstance(layout, NotApplicable):
        assert layout.reason
        return
    encoder = layout.encoder_ids(prompt, sentinel, EOS)
    prefix = layout.prefix_ids(prompt, sentinel)
    assert encoder.dtype == prefix.dtype == np.int32
    assert (len(encoder), len(prefix)) == (layout.encoder_length, layout.prefix_length)
    text, end = rebuild(encoder.tolist(), [*prefix.tolist(), *answer], layout.num_sentinels - 1)
    assert text == prompt + answer
    assert end == [EOS]
    # The answer's sentinel is the last one, and the first token of the encoder is the prompt's.
    assert encoder[-2] == sentinel(layout.num_sentinels - 1)
    assert encoder[0] == 100


@given(patterns, st.integers(1, 60), st.integers(1, 4))
def test_flan_has_neither_sentinels_nor_spans(conditional, n, m):
    layout = conditional.layout(n, "flan")
    if isinstance(layout, NotApplicable):
        return
    assert layout.num_sentinels == 0
    prompt = list(range(100, 100 + n))
    encoder = layout.encoder_ids(prompt, sentinel, EOS).tolist()
    prefix = layout.prefix_ids(prompt, sentinel).tolist()
    assert encoder[:-1] + prefix == prompt
    assert not conditional.pattern.startswith("span")


@given(patterns, st.integers(0, 60))
def test_a_name_gives_the_same_conditional_again(conditional, n):
    again = get_conditional(conditional.name)
    assert again == conditional
    assert again.layout(n, "ul2") == conditional.layout(n, "ul2")


def test_worked_example_of_the_reference():
    layout = get_conditional("span_3_5_2").layout(20)
    assert isinstance(layout, Layout)
    assert " ".join(layout.encoder_pieces(LETTERS)) == (
        "a b c d <extra_id_0> h i j k l <extra_id_1> p q r s t <extra_id_2> </s>"
    )
    assert " ".join(layout.prefix_pieces(LETTERS)) == (
        "<extra_id_0> e f g <extra_id_1> m n o <extra_id_2>"
    )


@pytest.mark.parametrize(
    ("name", "encoder", "prefix"),
    [
        ("baseline", "a b c d e f g h <extra_id_0> </s>", "<extra_id_0>"),
        ("offset_2", "a b c d e f <extra_id_0> </s>", "<extra_id_0> g h"),
        ("span_3_3_1", "a b <extra_id_0> f g h <extra_id_1> </s>",
         "<extra_id_0> c d e <extra_id_1>"),
    ],
)  # fmt: skip
def test_drawings(name, encoder, prefix):
    layout = get_conditional(name).layout(8)
    assert " ".join(layout.encoder_pieces(LETTERS[:8])) == encoder
    assert " ".join(layout.prefix_pieces(LETTERS[:8])) == prefix


@pytest.mark.parametrize(
    ("name", "smallest"),
    [("baseline", 1), ("offset_1", 6), ("offset_3", 8), ("span_3_5_1", 9), ("span_3_5_2", 17),
     ("span_3_3_1", 7), ("span_3_10_1", 14), ("span_3_5_auto", 18), ("span_3_5_50pct", 16)],
)  # fmt: skip
def test_the_smallest_prompt_that_fits(name, smallest):
    conditional = get_conditional(name)
    assert isinstance(conditional.layout(smallest), Layout)
    below = conditional.layout(smallest - 1)
    assert isinstance(below, NotApplicable)
    assert below.reason


@given(st.integers(0, 300))
def test_auto_is_the_authors_number_of_spans(n):
    layout = get_conditional("span_3_5_auto").layout(n)
    count = (n + 2 - 12) // 8
    if count < 1:
        assert isinstance(layout, NotApplicable)
    else:
        assert layout.num_sentinels == count + 1


@given(st.integers(1, 100), st.integers(1, 100))
def test_a_share_is_never_exceeded(n, percent):
    layout = SpanShare(3, 5, percent).layout(n)
    if isinstance(layout, Layout):
        assert (layout.num_sentinels - 1) * 8 <= n * percent / 100


def test_docstrings_draw_their_pattern():
    for name in EXAMPLES:
        doc = type(get_conditional(name)).__doc__
        assert doc
        assert "encoder" in doc or "S = floor" in doc


def test_tables_name_things_that_exist():
    assert {name.split("@")[0].split("_")[0] for name in EXAMPLES} == set(PATTERNS)
    for names in PRESETS.values():
        conditionals = [get_conditional(name) for name in names]
        assert tuple(c.name for c in conditionals) == names
        assert conditionals[0].pattern == "baseline"


def test_every_family_knows_every_pattern():
    for family in FAMILIES:
        for name in EXAMPLES:
            assert isinstance(get_conditional(name).layout(40, family), Layout | NotApplicable)
