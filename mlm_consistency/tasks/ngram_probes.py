"""Probes of the last words of a line: a short n-gram, asked for alone and as the end of a long one.

    The sky was grey and Tom saw that  [the old man, he | went to the red barn] .
    context                             between           last                  after

A T5-style model is asked for `last` with itself masked and with `between` masked as well (Young et
al., arXiv 2301.00068: five words and ten). Punctuation that ends the line stays where it is.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mlm_consistency.errors import ConfigError, DataError
from mlm_consistency.tasks.probes import check_limits, lines_of
from mlm_consistency.vocabularies import Vocabulary


@dataclass(frozen=True)
class NgramProbeConfig:
    """Which ends are taken.

    Attributes:
      short, long: words of the two n-grams, at the end of the line.
      min_context: words that must stand before the long one.
      max_tokens: longer lines are dropped (None: no bound).
      max_probes: stop after so many (None: the whole file).
      column: of tab-separated lines, counted from 0 (None: the whole line is the text).
    """

    short: int = 5
    long: int = 10
    min_context: int = 3
    max_tokens: int | None = None
    max_probes: int | None = None
    column: int | None = None

    def __post_init__(self) -> None:
        if not 1 <= self.short < self.long or self.min_context < 0:
            raise ConfigError(
                "n-gram probes: 1 <= short < long and min_context >= 0 must hold. Got "
                f"{self.short}, {self.long} and {self.min_context}."
            )
        check_limits("n-gram probes", self, ("max_tokens", "max_probes"))


@dataclass(frozen=True)
class NgramProbe:
    """The token ids (int32) of a line in four parts; id "FILE:line"."""

    id: str
    text: str
    context: np.ndarray
    between: np.ndarray
    last: np.ndarray
    after: np.ndarray


@dataclass(frozen=True)
class NgramProbes:
    """probes; lines read; dropped lines by reason."""

    probes: tuple[NgramProbe, ...]
    lines: int
    dropped: dict[str, int]


def ngram_probes(
    path: str | Path, vocabulary: Vocabulary, config: NgramProbeConfig | None = None
) -> NgramProbes:
    """The ends of the lines of a UTF-8 text file; lines without one are counted by reason.

    Raises:
      DataError: for a file that cannot be read, or a line without the column.
    """
    config = config or NgramProbeConfig()
    probes: list[NgramProbe] = []
    dropped: Counter[str] = Counter()
    lines = 0
    for number, text in lines_of(Path(path), config.column):
        if config.max_probes is not None and len(probes) >= config.max_probes:
            break
        lines += 1
        words = text.split()
        if len(words) < config.long + config.min_context:
            dropped["too few words"] += 1
            continue
        whole = vocabulary.encode(" ".join(words))
        while words[-1] and not words[-1][-1].isalnum():
            words[-1] = words[-1][:-1]
        if not words[-1]:
            dropped["ends without a word"] += 1
            continue
        cuts = (0, len(words) - config.long, len(words) - config.short, len(words))
        parts = [
            np.asarray(vocabulary.encode(" ".join(words[start:stop])), np.int32)
            for start, stop in itertools.pairwise(cuts)
        ]
        parts.append(np.asarray(whole[sum(map(len, parts)) :], np.int32))
        reason = _bad(parts, whole, vocabulary, config)
        if reason:
            dropped[reason] += 1
        else:
            probes.append(NgramProbe(f"{Path(path).name}:{number}", text, *parts))
    return NgramProbes(tuple(probes), lines, dict(dropped))


def _bad(
    parts: list[np.ndarray], whole: list[int], vocabulary: Vocabulary, config: NgramProbeConfig
) -> str:
    if config.max_tokens is not None and len(whole) > config.max_tokens:
        return f"more than {config.max_tokens} tokens"
    if any(vocabulary.sentinel_number(i) is not None for i in whole):
        return "holds a sentinel"
    if vocabulary.count_unknown(whole):
        return "unknown piece"
    # Pieces that reach over a cut would make two texts of one.
    return "" if np.concatenate(parts).tolist() == whole else "pieces reach over a cut"


@dataclass(frozen=True)
class NgramProposals:
    """ids: of the other n-gram of each kept probe; kept: which they are; dropped: by reason."""

    ids: tuple[np.ndarray, ...]
    kept: tuple[int, ...]
    dropped: dict[str, int]


def choose_proposals(
    probes: Sequence[NgramProbe],
    beams: Sequence[Sequence[np.ndarray]],
    vocabulary: Vocabulary,
    words: int,
) -> NgramProposals:
    """For each probe the first beam of just as many words that is not the true end.

    Args:
      beams: token ids without a closing sentinel, best first.
      words: of the short n-gram.

    Raises:
      DataError: if there is not one list of beams a probe.
    """
    if len(beams) != len(probes):
        raise DataError(f"one list of beams a probe is needed. Got {len(beams)} for {len(probes)}.")
    ids: list[np.ndarray] = []
    kept: list[int] = []
    dropped: Counter[str] = Counter()
    for number, (probe, offered) in enumerate(zip(probes, beams, strict=True)):
        reason = "no proposal ends"
        for beam in offered:
            text = vocabulary.decode(beam.tolist())
            if len(text.split()) != words:
                reason = "different length"
            elif vocabulary.count_unknown(beam.tolist()):
                reason = "unknown piece"
            elif text.split() == vocabulary.decode(probe.last.tolist()).split():
                reason = "same words"
            else:
                ids.append(np.asarray(beam, np.int32))
                kept.append(number)
                break
        else:  # the reason of the last proposal
            dropped[reason] += 1
    return NgramProposals(tuple(ids), tuple(kept), dict(dropped))
