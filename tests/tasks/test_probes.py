"""Probe makers: whole words only, seeded, and every bad probe counted."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from mlm_consistency.errors import ConfigError, DataError
from mlm_consistency.tasks.probes import (
    PairProbeConfig,
    connected_bigrams,
    gold_and_top_k,
    pair_probes,
    replaced_word,
)
from mlm_consistency.tasks.whole_words import whole_words
from mlm_consistency.vocabularies import Vocabulary, load_vocabulary

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b", "the", "cat", "saw", "dog", "red",
         "stand", "##up", "don", "'", "t", ".", "old", "cats"]  # fmt: skip


class WordPieces(Vocabulary):
    """A WordPiece-like vocabulary of twenty pieces; splits at spaces, `'`, `.` and before "up"."""

    name, size, digest = "test", len(WORDS), "0"
    pad_id, unk_id, cls_id, sep_id, mask_id = range(5)
    eos_id = 3

    def encode(self, text: str) -> list[int]:
        for mark in "'.":
            text = text.replace(mark, f" {mark} ")
        text = text.replace("standup", "stand ##up")
        return [WORDS.index(w) if w in WORDS else 1 for w in text.lower().split()]

    def decode(self, ids: Sequence[int]) -> str:
        return " ".join(self.pieces(ids))

    def pieces(self, ids: Sequence[int]) -> list[str]:
        return [WORDS[i] for i in ids]

    def _find_sentinels(self) -> tuple[int, ...]:
        return ()


VOCABULARY = WordPieces()


def write(tmp_path, *lines: str):
    path = tmp_path / "text.txt"
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def ids(text: str) -> list[int]:
    return VOCABULARY.encode(text)


def test_neighbours_by_hand(tmp_path):
    path = write(tmp_path, "the cat saw the dog.")
    found = pair_probes(path, VOCABULARY, PairProbeConfig(pairs_per_line=99))
    assert [p.words for p in found.probes] == [
        ("the", "cat"), ("cat", "saw"), ("saw", "the"), ("the", "dog")
    ]  # fmt: skip
    assert found.probes[0].id == "text.txt:1:0-1"
    assert found.probes[0].gold == tuple(ids("the cat"))
    assert found.dropped_pairs == {"not a word": 1}
    assert (found.lines, found.good_pairs) == (1, 4)


def test_every_pair_of_tokens_is_kept_or_counted(tmp_path):
    path = write(
        tmp_path, "the cat the", "standup dog", "don't saw", "the zebra", "", "red old cat"
    )
    found = pair_probes(path, VOCABULARY, PairProbeConfig(1, 2, pairs_per_line=99))
    assert found.dropped_pairs == {
        "same word twice": 1,  # the .. the
        "word of several tokens": 3 + 3,  # stand ##up dog; don . t saw
        "not a word": 2,
        "unknown or special piece": 1,
    }
    assert found.dropped_lines == {"blank": 1, "no good pair at that distance": 3}
    tokens = [3, 3, 4, 2, 3]
    total = sum((n - 1) + max(n - 2, 0) for n in tokens)
    assert found.good_pairs + sum(found.dropped_pairs.values()) == total


def test_distance_bounds(tmp_path):
    path = write(tmp_path, "red cat saw old dog the")
    found = pair_probes(path, VOCABULARY, PairProbeConfig(2, 3, pairs_per_line=99))
    assert {p.distance for p in found.probes} == {2, 3}
    assert found.good_pairs == 4 + 3


def test_the_draw_depends_on_seed_and_line_alone(tmp_path):
    line = "red cat saw old dog the"
    config = PairProbeConfig(1, 5, pairs_per_line=2, seed=3)
    whole = pair_probes(write(tmp_path, line, line, line), VOCABULARY, config).probes
    again = pair_probes(write(tmp_path, "", line, "the cat"), VOCABULARY, config).probes
    assert [p.positions for p in again[:2]] == [p.positions for p in whole[2:4]]
    other = PairProbeConfig(1, 5, pairs_per_line=2, seed=4)
    drawn = pair_probes(write(tmp_path, line, line, line), VOCABULARY, other).probes
    assert [p.positions for p in drawn] != [p.positions for p in whole]


def test_bounds_and_columns(tmp_path):
    path = write(tmp_path, "1\tthe cat saw", "2\tthe cat", "3\tred dog")
    found = pair_probes(path, VOCABULARY, PairProbeConfig(max_tokens=2, column=1))
    assert [p.words for p in found.probes] == [("the", "cat"), ("red", "dog")]
    assert found.dropped_lines == {"more than 2 tokens": 1}
    first = pair_probes(path, VOCABULARY, PairProbeConfig(max_probes=1, column=1))
    assert (len(first.probes), first.lines) == (1, 1)
    with pytest.raises(DataError, match="line 1: column 4 was asked for, and the line has 2"):
        pair_probes(path, VOCABULARY, PairProbeConfig(column=4))


def test_files_without_probes_say_why(tmp_path):
    with pytest.raises(DataError, match=r"no pair of words to probe in 1 lines .*not a word 1"):
        pair_probes(write(tmp_path, "cat ."), VOCABULARY)
    with pytest.raises(DataError, match="cannot be read"):
        pair_probes(tmp_path / "nowhere.txt", VOCABULARY)


@pytest.mark.parametrize(
    ("pieces", "marker", "expected"),
    [
        (["▁The", "▁stand", "up", "▁cat", "."], "▁", ["The", None, None, "cat", None]),
        (["▁Don", "'", "t", "▁run", ",", "▁(", "ok", ")"], "▁", [None] * 3 + ["run"] + [None] * 4),
        (["The", "Ġcat", "'s", "Ġtail"], "Ġ", ["The", None, None, "tail"]),
        (["on", "-", "line", "cat"], "", [None, None, None, "cat"]),
        (["stand", "##up", "cat"], "", [None, None, "cat"]),
    ],
)
def test_whole_words(pieces, marker, expected):
    words, problems = whole_words(pieces, marker)
    assert words == expected
    assert [bool(p) for p in problems] == [w is None for w in expected]


def test_gold_and_top_k():
    gold = np.array(ids("cat dog the zebra"))
    ranked = np.array([ids(r) for r in (
        "dog cat saw red", "zebra dog cat cat", "the saw old red", "cat dog saw the")])  # fmt: skip
    found = gold_and_top_k(gold, ranked, 2, VOCABULARY)
    np.testing.assert_array_equal(found.ids, [ids("cat dog saw"), ids("the saw old")])
    np.testing.assert_array_equal(found.kept, [0, 2])
    assert found.dropped == {
        "fewer proposals than k": 1, "gold word is a special or unknown piece": 1
    }  # fmt: skip
    assert gold_and_top_k(gold[:0], ranked[:0], 2, VOCABULARY).ids.shape == (0, 3)
    with pytest.raises(ConfigError, match="k >= 1"):
        gold_and_top_k(gold, ranked, 0, VOCABULARY)


def test_connected_bigrams_from_beams_and_lists(tmp_path):
    path = write(tmp_path, *["the cat"] * 6)
    probes = pair_probes(path, VOCABULARY).probes
    proposals = [
        [ids("the dog"), ids("red dog")],  # the first keeps "the"
        ["old dog"],
        [ids("red dog saw")],
        ["standup"],
        [],
        [ids("red red")],
    ]
    found = connected_bigrams(probes, proposals, VOCABULARY)
    np.testing.assert_array_equal(found.kept, [0, 1])
    np.testing.assert_array_equal(found.a, [ids("the red"), ids("the old")])
    np.testing.assert_array_equal(found.b, [ids("cat dog"), ids("cat dog")])
    assert found.dropped == {
        "different length": 1, "word that is not one token": 1, "no proposal": 1,
        "same word twice": 1,
    }  # fmt: skip
    with pytest.raises(ConfigError, match="Got 0 for 6"):
        connected_bigrams(probes, [], VOCABULARY)


def test_replaced_word(tmp_path):
    probes = pair_probes(write(tmp_path, "the cat", "the cat"), VOCABULARY).probes
    proposals = [[ids("red dog"), ids("red cat")], [ids("the dog")]]
    first = replaced_word(probes, proposals, VOCABULARY, 0)
    np.testing.assert_array_equal(first.a, [ids("the red")])
    np.testing.assert_array_equal(first.b, [ids("cat cat")])
    assert first.dropped == {"same word": 1}
    second = replaced_word(probes, proposals, VOCABULARY, 1)
    np.testing.assert_array_equal(second.kept, [1])
    with pytest.raises(ConfigError, match="0 or 1"):
        replaced_word(probes, proposals, VOCABULARY, 2)


@pytest.mark.parametrize(
    "wrong", [{"min_distance": 0}, {"min_distance": 3, "max_distance": 2}, {"pairs_per_line": 0}]
)
def test_bad_settings_are_refused(wrong):
    with pytest.raises(ConfigError, match="pair probes"):
        PairProbeConfig(**wrong)


@pytest.mark.real_data
@pytest.mark.parametrize("vocabulary", ["bert-base-uncased/vocab.txt", "t5/spiece.model"])
def test_real_sentences(data_dir, vocabulary):
    text = data_dir / "text" / "eng-simple_wikipedia_2021_10K-sentences.txt"
    config = PairProbeConfig(1, 6, column=1, max_probes=500)
    found = pair_probes(text, load_vocabulary(str(data_dir / "vocab" / vocabulary)), config)
    assert len(found.probes) == 500
    assert all(p.words[0].lower() != p.words[1].lower() for p in found.probes)
    assert found.lines - sum(found.dropped_lines.values()) >= 500
    spelt = sum(w.lower() in p.text.lower().split() for p in found.probes for w in p.words)
    assert spelt > 850  # most stand free in the text; the rest touch punctuation


class Letters(WordPieces):
    """The same without the piece "b": a text with it is not spelt."""

    def encode(self, text: str) -> list[int]:
        return [1 if i == WORDS.index("b") else i for i in super().encode(text)]


def test_a_vocabulary_that_cannot_spell_everything_has_whole_words_all_the_same(tmp_path):
    path = write(tmp_path, "the cat saw standup")
    found = pair_probes(path, Letters(), PairProbeConfig(pairs_per_line=99))
    assert [p.words for p in found.probes] == [("the", "cat"), ("cat", "saw")]


@pytest.mark.real_data
def test_another_vocabulary_is_asked_about_the_same_words(data_dir, tmp_path):
    """WordPieces split punctuation off and lower; the pairs drawn are the same where both have
    them as whole words."""
    sentence = "The old cat, the dog and the red house saw the old man near the river."
    path = write(tmp_path, *[f"{sentence} It was day {n}." for n in range(30)])
    drawn = []
    for name in ("bert-base-uncased", "t5"):
        vocabulary = load_vocabulary(str(data_dir / "vocab" / name))
        probes = pair_probes(path, vocabulary, PairProbeConfig()).probes
        drawn.append([tuple(word.lower() for word in probe.words) for probe in probes])
    assert len(drawn[0]) == len(drawn[1]) == 30
    assert sum(a == b for a, b in zip(*drawn, strict=True)) > 20
    assert len(set(drawn[0])) > 5
