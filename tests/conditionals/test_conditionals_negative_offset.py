"""Offset -K, worked by hand: where it is well defined, what the encoder sees, what it says."""

from __future__ import annotations

import numpy as np
import pytest

from mlm_consistency.conditionals import (
    Answer,
    Layout,
    Masked,
    NegativeOffset,
    NotApplicable,
    Prompt,
    Sentinel,
    TextExample,
    encode_example,
    get_conditional,
    parse_conditionals,
)
from mlm_consistency.conditionals.example import shared_tokens
from mlm_consistency.errors import ConfigError
from mlm_consistency.vocabularies import load_vocabulary

STORY = "Tom went with Mary to the market. The apples are in"
CONDITIONALS = "baseline,offset_-1,offset_-2,offset_1"


def ids(*rows):
    return [np.asarray(row, np.int32) for row in rows]


@pytest.mark.parametrize(
    ("candidates", "shared"),
    [
        (ids([5, 6, 7], [5, 6, 8]), 2),
        (ids([5, 6, 7], [5, 9]), 1),
        (ids([5, 6, 7], [5, 6]), 1),  # each keeps a token to score
        (ids([5], [5, 6]), 0),
        (ids([5, 6], [7, 6]), 0),
        (ids([5, 6, 7], [5, 6, 7]), 2),
        (ids([5, 6, 7]), 2),
        ([], 0),
    ],
)
def test_tokens_that_all_candidates_share(candidates, shared):
    assert shared_tokens(candidates) == shared


def test_the_layout_by_hand():
    layout = get_conditional("offset_-2").layout(3, "t5", shared=2)
    assert layout == Layout((Prompt(0, 3), Answer(0, 2), Sentinel(0)), (Sentinel(0),))
    assert layout.encoder_ids([11, 12, 13], lambda k: 90 - k, 1, [21, 22, 23]).tolist() == [
        11, 12, 13, 21, 22, 90, 1,
    ]  # fmt: skip
    assert (layout.encoder_length, layout.prefix_length, layout.moved) == (7, 1, 2)
    assert layout.encoder_pieces("abc", answer="yz") == [*"abcyz", "<extra_id_0>", "</s>"]
    plain = get_conditional("offset_-1").layout(3, "flan", shared=2)
    assert plain == Layout((Prompt(0, 3), Answer(0, 1)), ())
    assert get_conditional("offset_1").layout(9).moved == 0


def test_too_few_shared_tokens_are_a_reason():
    absent = NegativeOffset(2).layout(9, "t5", shared=1)
    assert isinstance(absent, NotApplicable)
    assert absent.reason == (
        "offset -2 shows 2 tokens of the answer, but the candidates begin with 1 that all have "
        "and leave one to score"
    )
    assert NegativeOffset(1).layout(0, "t5", shared=1) == NotApplicable("the prompt has no tokens")
    assert isinstance(NegativeOffset(1, mode="NLU").layout(9, "t5", shared=1), NotApplicable)


def test_names():
    assert get_conditional("offset_-3") == NegativeOffset(3)
    assert get_conditional("offset_-3@NLU").name == "offset_-3@NLU"
    for name in ("offset_-0", "offset_--1", "offset_-x", "offset_-1_2"):
        with pytest.raises(ConfigError, match=name):
            get_conditional(name)


def test_an_example_by_hand():
    tiny = load_vocabulary("tiny")
    candidates = ("the red box", "the red bag", "the bag")
    example = TextExample("e", STORY, candidates, (0,))
    encoded = encode_example(example, tiny, parse_conditionals(CONDITIONALS), "NLG", "ul2")
    prompt, the = tiny.encode(f"[NLG] {STORY}"), tiny.encode("the")
    assert len(the) == 1
    baseline, one, two, positive = encoded.masked
    assert one.encoder.tolist() == [*prompt, *the, tiny.sentinel(0), tiny.eos_id]
    assert one.prefix.tolist() == [tiny.sentinel(0)]
    assert (baseline.moved, one.moved, positive.moved) == (0, 1, 0)
    assert isinstance(two, NotApplicable)
    # Without the third candidate two tokens are shared.
    example = TextExample("e", STORY, candidates[:2], (0,))
    *_, two, _ = encode_example(example, tiny, parse_conditionals(CONDITIONALS)).masked
    assert isinstance(two, Masked)
    assert two.encoder.tolist()[-5:] == [
        tiny.encode(STORY)[-1], *tiny.encode("the red"), tiny.sentinel(0), tiny.eos_id,
    ]  # fmt: skip


def test_it_needs_the_baseline_that_prices_what_it_shows():
    tiny = load_vocabulary("tiny")
    example = TextExample("e", STORY, ("the red box", "the bag"), (0,))
    names = "baseline@NLU,offset_-1"
    absent = encode_example(example, tiny, parse_conditionals(names), None, "t5").masked[1]
    assert isinstance(absent, NotApplicable)
    assert "needs baseline@NLU" in absent.reason


def test_candidates_to_come_from_beams_share_nothing():
    example = TextExample("e", STORY, (), (), answer="box")
    encoded = encode_example(example, load_vocabulary("tiny"), parse_conditionals(CONDITIONALS))
    assert isinstance(encoded.masked[1], NotApplicable)
