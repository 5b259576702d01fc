"""Probes of two positions: which words of a text are masked, and which words compete for them.

PairProbeConfig, pair_probes      pairs of whole words in any text file, seeded
gold_and_top_k                    candidate sets: the gold word and a model's k best others
connected_bigrams                 a0 b0, a0 b1, a1 b0, a1 b1 from beams or a given list
replaced_word                     x1 x2 against y1 x2 or x1 y2, likewise

A bad probe is never mended: it is dropped and counted under its reason. NumPy only; token ids are
those of the vocabulary, without [CLS], [SEP] or </s>.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mlm_consistency.errors import ConfigError, DataError
from mlm_consistency.tasks.whole_words import whole_words, word_marker
from mlm_consistency.vocabularies import Vocabulary


def check_limits(what: str, config: Any, names: Sequence[str]) -> None:
    """Refuses limits of a configuration that are neither None nor at least 1.

    Raises:
      ConfigError: naming `what` it is of, the limit and its value.
    """
    for name in names:
        value = getattr(config, name)
        if value is not None and value < 1:
            raise ConfigError(f"{what}: {name} must be at least 1. Got {value}.")


@dataclass(frozen=True)
class PairProbeConfig:
    """Which pairs are taken.

    Attributes:
      min_distance, max_distance: tokens from the first word to the second; 1 and 1 are
        neighbours.
      pairs_per_line: at most so many of a line's good pairs, drawn with `seed`, the line's number
        and the words alone: other lines change nothing, and another vocabulary as little as can be.
      max_tokens: longer lines are dropped (None: no bound).
      max_probes: stop after so many (None: the whole file).
      column: of tab-separated lines, counted from 0 (None: the whole line is the text).
    """

    min_distance: int = 1
    max_distance: int = 1
    pairs_per_line: int = 1
    max_tokens: int | None = None
    max_probes: int | None = None
    column: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if not 1 <= self.min_distance <= self.max_distance:
            raise ConfigError(
                "pair probes: 1 <= min_distance <= max_distance must hold. "
                f"Got {self.min_distance} and {self.max_distance}."
            )
        check_limits("pair probes", self, ("pairs_per_line", "max_tokens", "max_probes"))


@dataclass(frozen=True)
class PairProbe:
    """Two words of one line.

    token_ids: int32 [n], the whole line; positions: of the two words' tokens, ascending; words:
    their texts; id: "FILE:line:first-second".
    """

    id: str
    text: str
    token_ids: np.ndarray
    positions: tuple[int, int]
    words: tuple[str, str]

    @property
    def gold(self) -> tuple[int, int]:
        """The token ids of the two words."""
        return int(self.token_ids[self.positions[0]]), int(self.token_ids[self.positions[1]])

    @property
    def distance(self) -> int:
        """Tokens from the first word to the second."""
        return self.positions[1] - self.positions[0]


@dataclass(frozen=True)
class PairProbes:
    """probes; lines read; good pairs found before the draw; what was dropped, by reason: lines
    (dropped_lines) and pairs of tokens (dropped_pairs)."""

    probes: tuple[PairProbe, ...]
    lines: int
    good_pairs: int
    dropped_lines: dict[str, int]
    dropped_pairs: dict[str, int]


def pair_probes(
    path: str | Path, vocabulary: Vocabulary, config: PairProbeConfig | None = None
) -> PairProbes:
    """Pairs of whole words, each one token, in the lines of a UTF-8 text file.

    Raises:
      DataError: for a file that cannot be read, a line without the column, or no probe at all.
    """
    config = config or PairProbeConfig()
    marker = word_marker(vocabulary)
    probes: list[PairProbe] = []
    dropped_lines: Counter[str] = Counter()
    dropped_pairs: Counter[str] = Counter()
    lines = good_pairs = 0
    for number, text in lines_of(Path(path), config.column):
        if config.max_probes is not None and len(probes) >= config.max_probes:
            break
        lines += 1
        ids = vocabulary.encode(text)
        if reason := _bad_line(text, ids, vocabulary, config):
            dropped_lines[reason] += 1
            continue
        words, problems = whole_words(vocabulary.pieces(ids), marker)
        for t, token in enumerate(ids):
            if _special(token, vocabulary):
                words[t], problems[t] = None, "unknown or special piece"
        good = []
        for first in range(len(ids)):
            for distance in range(config.min_distance, config.max_distance + 1):
                second = first + distance
                if second >= len(ids):
                    break
                if reason := _bad_pair(words, problems, first, second):
                    dropped_pairs[reason] += 1
                else:
                    good.append((first, second))
        if not good:
            dropped_lines["no good pair at that distance"] += 1
            continue
        good_pairs += len(good)
        drawn = _draw(good, words, f"{config.seed} {number}", config.pairs_per_line)
        token_ids = np.asarray(ids, dtype=np.int32)
        for first, second in drawn:
            name = f"{Path(path).name}:{number}:{first}-{second}"
            both = (words[first] or "", words[second] or "")
            probes.append(PairProbe(name, text, token_ids, (first, second), both))
    if not probes:
        raise DataError(
            f"{path}: no pair of words to probe in {lines} lines "
            f"(lines dropped: {_counts(dropped_lines)}; pairs dropped: {_counts(dropped_pairs)})."
        )
    kept = tuple(probes[: config.max_probes])
    return PairProbes(kept, lines, good_pairs, dict(dropped_lines), dict(dropped_pairs))


@dataclass(frozen=True)
class CandidateSets:
    """ids int32 [M, k + 1], the gold word first, then k others by rank; kept [M], which rows of
    the input they are; dropped, the rest by reason."""

    ids: np.ndarray
    kept: np.ndarray
    dropped: dict[str, int]


def gold_and_top_k(
    gold: np.ndarray, ranked: np.ndarray, k: int, vocabulary: Vocabulary
) -> CandidateSets:
    """Candidate sets for one position.

    Args:
      gold: [N], the true token's id.
      ranked: [N, R], a model's proposals, best first; R above k leaves room for what is skipped.
      k: how many others to take. The gold word, special ids and repeats are skipped.

    Raises:
      ConfigError: for k < 1 or shapes that disagree.
    """
    gold, ranked = np.asarray(gold), np.asarray(ranked)
    if k < 1 or gold.ndim != 1 or ranked.ndim != 2 or len(ranked) != len(gold):
        raise ConfigError(
            f"candidate sets need gold [N], ranked [N, R] and k >= 1. Got shapes {gold.shape}, "
            f"{ranked.shape} and k = {k}."
        )
    rows: list[list[int]] = []
    kept: list[int] = []
    dropped: Counter[str] = Counter()
    for n, true in enumerate(gold.tolist()):
        if _special(true, vocabulary):
            dropped["gold word is a special or unknown piece"] += 1
            continue
        # a dict keeps the order of the ranking and takes each id once
        others = dict.fromkeys(i for i in ranked[n].tolist() if not _special(i, vocabulary))
        others.pop(true, None)
        if len(others) < k:
            dropped["fewer proposals than k"] += 1
            continue
        rows.append([true, *list(others)[:k]])
        kept.append(n)
    ids = np.asarray(rows, dtype=np.int32).reshape(-1, k + 1)
    return CandidateSets(ids, np.asarray(kept, dtype=np.int64), dict(dropped))


@dataclass(frozen=True)
class BigramSets:
    """a, b int32 [M, 2]: gold and other word of the first and of the second position (equal
    where only one position differs); kept [M]: which probes; dropped: the rest by reason."""

    a: np.ndarray
    b: np.ndarray
    kept: np.ndarray
    dropped: dict[str, int]


def connected_bigrams(
    probes: Sequence[PairProbe],
    proposals: Sequence[Iterable[Sequence[int] | str]],
    vocabulary: Vocabulary,
) -> BigramSets:
    """Four connected bigrams a probe: gold a0 b0 and the first proposal a1 b1 that differs in both.

    Args:
      proposals: for each probe, other fillings of its two positions, best first: token ids (a
        beam) or text (a given list, encoded on its own).
    """
    return _bigrams(probes, proposals, vocabulary, differ=(True, True))


def replaced_word(
    probes: Sequence[PairProbe],
    proposals: Sequence[Iterable[Sequence[int] | str]],
    vocabulary: Vocabulary,
    position: int,
) -> BigramSets:
    """x1 x2 against the first proposal that differs at `position` (0 or 1) alone."""
    if position not in (0, 1):
        raise ConfigError(f"position must be 0 or 1. Got {position}.")
    return _bigrams(probes, proposals, vocabulary, differ=(position == 0, position == 1))


def _bigrams(
    probes: Sequence[PairProbe],
    proposals: Sequence[Iterable[Sequence[int] | str]],
    vocabulary: Vocabulary,
    differ: tuple[bool, bool],
) -> BigramSets:
    if len(probes) != len(proposals):
        raise ConfigError(
            f"one list of proposals a probe is needed. Got {len(proposals)} for {len(probes)}."
        )
    marker = word_marker(vocabulary)
    pairs: list[tuple[tuple[int, int], tuple[int, int]]] = []
    kept: list[int] = []
    dropped: Counter[str] = Counter()
    for n, (probe, offered) in enumerate(zip(probes, proposals, strict=True)):
        reason = "no proposal"
        for proposal in offered:
            ids = vocabulary.encode(proposal) if isinstance(proposal, str) else list(proposal)
            reason = _bad_proposal([int(i) for i in ids], probe.gold, vocabulary, marker, differ)
            if not reason:
                pairs.append(((probe.gold[0], int(ids[0])), (probe.gold[1], int(ids[1]))))
                kept.append(n)
                break
        if reason:  # that of the last proposal
            dropped[reason] += 1
    a, b = (
        np.asarray([pair[side] for pair in pairs], dtype=np.int32).reshape(-1, 2) for side in (0, 1)
    )
    return BigramSets(a, b, np.asarray(kept, dtype=np.int64), dict(dropped))


def _bad_proposal(
    ids: list[int], gold: tuple[int, int], vocabulary: Vocabulary, marker: str,
    differ: tuple[bool, bool],
) -> str:  # fmt: skip
    if len(ids) != 2:
        return "different length"
    if any(_special(i, vocabulary) for i in ids):
        return "unknown or special piece"
    words, _ = whole_words(vocabulary.pieces(ids), marker)
    if None in words:
        return "word that is not one token"
    for new, old, wanted in zip(ids, gold, differ, strict=True):
        if (new != old) is not wanted:
            return "same word" if wanted else "both words differ"
    if ids[0] == ids[1]:
        return "same word twice"
    return ""


def _bad_line(text: str, ids: list[int], vocabulary: Vocabulary, config: PairProbeConfig) -> str:
    if not text.strip():
        return "blank"
    if config.max_tokens is not None and len(ids) > config.max_tokens:
        return f"more than {config.max_tokens} tokens"
    if any(vocabulary.sentinel_number(i) is not None for i in ids):
        return "holds a sentinel"
    return ""


def _draw(
    good: list[tuple[int, int]], words: list[str | None], salt: str, most: int
) -> list[tuple[int, int]]:
    """At most so many of the pairs, in order: those whose words have the smallest hashes.

    A word counts by its letters and its number among its like, not by its token's place, so that
    vocabularies that split a text differently are asked about the same words where they can be.
    """
    seen: Counter[str] = Counter()
    names = []
    for word in words:
        key = (word or "").lower()
        names.append(f"{key} {seen[key]}")
        seen[key] += 1

    def rank(pair: tuple[int, int]) -> bytes:
        return hashlib.sha256(f"{salt} {names[pair[0]]} {names[pair[1]]}".encode()).digest()

    return sorted(sorted(good, key=rank)[:most])


def _bad_pair(words: list[str | None], problems: list[str], first: int, second: int) -> str:
    a, b = words[first], words[second]
    if a is None or b is None:
        return problems[first] or problems[second]
    return "same word twice" if a.lower() == b.lower() else ""


def _special(token: int, vocabulary: Vocabulary) -> bool:
    named = (
        vocabulary.pad_id, vocabulary.eos_id, vocabulary.unk_id, vocabulary.mask_id,
        vocabulary.cls_id, vocabulary.sep_id,
    )  # fmt: skip
    return token in named or vocabulary.sentinel_number(token) is not None


def lines_of(path: Path, column: int | None) -> Iterable[tuple[int, str]]:
    """(number from 1, text) of each line, or of one tab-separated column of it.

    Raises:
      DataError: for a file that is no UTF-8 text, or a line without the column.
    """
    try:
        content = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: cannot be read as UTF-8 text: {error}") from error
    for number, line in enumerate(content.removesuffix("\n").split("\n"), start=1):
        if column is None or not line.strip():
            yield number, line.strip()
            continue
        fields = line.split("\t")
        if column >= len(fields):
            raise DataError(
                f"{path} line {number}: column {column} was asked for, and the line has "
                f"{len(fields)} (separated by tabs, counted from 0)."
            )
        yield number, fields[column].strip()


def _counts(counter: Counter[str]) -> str:
    return ", ".join(f"{reason} {n}" for reason, n in counter.most_common()) or "none"
