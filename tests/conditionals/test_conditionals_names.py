"""Names, presets and their errors."""

from __future__ import annotations

import pytest

from mlm_consistency.conditionals import (
    Baseline,
    Offset,
    Span,
    get_conditional,
    mode_word,
    paper_conditionals,
    parse_conditionals,
)
from mlm_consistency.errors import ConfigError, UnknownNameError


def test_paper_presets():
    mmlu = paper_conditionals("mmlu")
    assert [c.name for c in mmlu] == [
        "baseline", "offset_1", "offset_2", "offset_3", "span_3_5_1", "span_3_5_2", "span_3_3_1",
        "span_3_3_2", "span_3_4_1", "span_3_4_2",
    ]  # fmt: skip
    assert paper_conditionals("bbh") == mmlu
    lambada = [c.name for c in paper_conditionals("lambada")]
    assert lambada == [
        "baseline", *(f"offset_{k}" for k in range(1, 7)), "span_3_5_1", "span_3_5_2",
        "span_3_10_1",
    ]  # fmt: skip
    assert [c.name for c in paper_conditionals("flan_mmlu")] == [
        "baseline", "offset_1", "offset_2", "offset_3",
    ]  # fmt: skip


def test_parsing():
    assert get_conditional("baseline") == Baseline()
    assert get_conditional("offset_3@NLU") == Offset(3, mode="NLU")
    assert get_conditional("span_3_5_2") == Span(3, 5, 2)
    assert get_conditional("baseline@none").mode == ""
    assert get_conditional("baseline@none").name == "baseline@none"
    assert get_conditional("baseline@X").name == "baseline@NLG"
    assert parse_conditionals("baseline, offset_1") == (Baseline(), Offset(1))
    assert parse_conditionals(["baseline", Offset(1)]) == (Baseline(), Offset(1))
    assert parse_conditionals("mmlu") == paper_conditionals("mmlu")


@pytest.mark.parametrize(
    ("value", "kind", "message"),
    [
        ("ofset_3", UnknownNameError, "Did you mean 'offset_3'"),
        ("mmlux", UnknownNameError, "Did you mean 'mmlu'"),
        (["baseline", "spam_3_5_1"], UnknownNameError, "unknown conditional 'spam_3_5_1'"),
        ("offset_1", ConfigError, "first conditional must be a baseline"),
        ("baseline,baseline", ConfigError, "given twice: baseline"),
        ("", ConfigError, "no conditionals"),
        ("baseline,span_3_5", ConfigError, "expected span_L_G_S"),
        ("baseline,span_3_5_0", ConfigError, "S must be a whole number >= 1. Got '0'"),
        ("baseline,span_3_x_1", ConfigError, "G must be a whole number >= 1. Got 'x'"),
        ("baseline,span_3_5_101pct", ConfigError, "1 to 100 percent"),
        ("baseline,offset_0", ConfigError, "K must be a whole number"),
        ("baseline,offset_-0", ConfigError, "K must be a whole number"),
        ("baseline@", ConfigError, "a mode must follow"),
        ("baseline@FOO", ConfigError, "unknown mode 'FOO'"),
        ("baseline_3", ConfigError, "takes no arguments"),
    ],
)
def test_errors_say_what_was_wrong(value, kind, message):
    with pytest.raises(kind, match=message):
        parse_conditionals(value)


def test_unknown_preset():
    with pytest.raises(UnknownNameError, match="Did you mean 'lambada'"):
        paper_conditionals("lambda")


def test_mode_words():
    assert [mode_word(m) for m in ("NLG", "[nlu]", "R", "X", "S", "", None)] == [
        "NLG", "NLU", "NLU", "NLG", "S2S", "", "",
    ]  # fmt: skip
