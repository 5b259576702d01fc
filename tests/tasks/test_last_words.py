"""The rules from beams to last words, one by one."""

from __future__ import annotations

import pytest

from mlm_consistency.tasks.last_words import (
    MARKS,
    NO_CANDIDATE,
    TITLES,
    candidates_of,
    is_right,
    labels_of,
    read_beam,
    word_of,
)


@pytest.mark.parametrize("mark", MARKS)
def test_a_word_and_each_of_the_marks(mark):
    assert read_beam(f"signs{mark}").candidate == f"signs{mark}"


@pytest.mark.parametrize(
    ("text", "candidate"),
    [
        ("signs. he said", "signs."),  # cut behind the mark
        ("  signs , and", "signs,"),  # the space that tokenisers leave before a mark
        ("signs...", "signs."),
        ("signs!?", "signs!"),
        ("well-known.", "well-known."),
        ("don't.", "don't."),
        ("3:30.", "3:30."),
        ("3:30, she said.", "3:30,"),
        ("1,000!", "1,000!"),
        ("u.s.a.", "u.s.a."),
        ("9.", "9."),
        ("né.", "né."),
    ],
)
def test_what_is_one_word_with_a_mark(text, candidate):
    assert read_beam(text).candidate == candidate
    assert read_beam(text).reason == ""


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "it says nothing"),
        (" \n", "it says nothing"),
        ("signs", "no mark behind the word"),
        ("3:30", "no mark behind the word"),
        ("signs and then.", "several words"),
        ("signs and", "several words"),
        ("signs\nthen.", "several words"),
        (".", "no word before the mark"),
        (" ... signs.", "no word before the mark"),
        ("-- .", "no word before the mark"),
        ("''.", "no word before the mark"),
    ],
)
def test_what_is_no_candidate_and_why(text, reason):
    reading = read_beam(text)
    assert (reading.candidate, reading.word, reading.reason) == ("", "", reason)


@pytest.mark.parametrize("title", ["Dr", "dr", "mrs", "St"])
def test_the_dot_of_a_title_does_not_end_a_sentence(title):
    assert title.lower() in TITLES
    assert read_beam(f"{title}. smith.").reason == "several words"
    assert read_beam(f"{title}. smith").reason == "several words"
    assert read_beam(f"{title}.").candidate == f"{title}.", "it may end one where nothing follows"
    assert read_beam(f"{title}, no.").candidate == f"{title},"


@pytest.mark.parametrize(
    "text",
    ["\"signs.\"", "signs.''", "``signs.''", "'signs'.", "“signs.”", "signs\".", "‘signs’.",
     "\"signs\". he", "‘signs."],
)  # fmt: skip
def test_quotes_are_of_the_passage_not_of_the_word(text):
    assert read_beam(text).candidate == "signs."


def test_apostrophes_are_of_the_word():
    assert read_beam("'em.").candidate == "'em."
    assert read_beam("dogs'.").candidate == "dogs'."
    assert read_beam("o'clock.").candidate == "o'clock."


def test_candidates_are_distinct_and_in_the_order_of_the_beams():
    texts = ["signs. he", "you", "signs, she", "it.", "signs. she", " it .", "a b."]
    assert candidates_of(texts) == ["signs.", "signs,", "it."]
    assert candidates_of(["signs", "a b."]) == []


def test_a_word_is_right_with_any_mark():
    candidates = candidates_of(["signs.", "it.", "signs,", "sign.", "Signs."])
    assert labels_of(candidates, "signs") == (0, 2)
    assert word_of("signs.") == word_of("signs,") == "signs"
    assert labels_of(candidates, "other") == ()


def test_an_answer_may_carry_the_quotes_of_its_passage():
    assert is_right("Nadia.", '"Nadia')
    assert is_right("paid,", "‘paid")
    assert is_right("'em.", "'em")
    assert not is_right("em.", "'em")


def test_no_candidate_is_never_right():
    assert not is_right(NO_CANDIDATE, "(none")
    assert not is_right("", "")
