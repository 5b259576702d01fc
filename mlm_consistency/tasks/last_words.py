"""From what a model says to last words: which beams are candidates, and which of them are right.

A candidate is one word and the mark behind it. What a beam says is cut behind that mark, quotes are
taken off, and each candidate is kept once, in the order of the beams:

    "signs. he said"    signs.      cut behind the mark
    "signs," / 'signs'  signs,      quotes belong to the passage, not to the word
    "3:30 , then"       3:30,       a mark with a letter or digit behind it is inside the word
    "signs and then."   -           several words
    "dr. smith."        -           the dot of a title does not end a sentence: two words
    "signs"             -           no mark

So the word of a candidate is all but its last character. Pure functions; no JAX, no TensorFlow.

Source: Young, Chen, You, arXiv 2301.00068 v3, on LAMBADA (Paperno et al. 2016, arXiv 1606.06031).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

MARKS = ",!.:;?"
# What stands for an example of which no beam gives a candidate: it is asked, and is wrong.
NO_CANDIDATE = "(none)"
# Followed by a name, their dot is their own. At the end of a beam it may end the sentence too.
TITLES = frozenset(
    ("capt", "col", "dr", "gen", "hon", "lt", "messrs", "mme", "mr", "mrs", "ms", "prof", "rev",
     "sgt", "st")
)  # fmt: skip

_QUOTES = '"“”„«»`'
_SINGLE = "'‘’"
# A mark ends a word unless a letter or digit follows.
_ENDING = re.compile(rf"\s*(?P<mark>[{re.escape(MARKS)}])(?!\w)")


@dataclass(frozen=True)
class Reading:
    """What a beam was taken for.

    Attributes:
      candidate: word and mark; "" where it is none.
      reason: why it is none; "" where it is one.
    """

    candidate: str
    reason: str = ""

    @property
    def word(self) -> str:
        """The word without its mark; "" where there is none."""
        return word_of(self.candidate)


def read_beam(text: str) -> Reading:
    """The candidate that a beam's text holds.

    >>> read_beam("signs. he said").candidate
    'signs.'
    """
    text = text.strip()
    if not text:
        return Reading("", "it says nothing")
    for match in _ENDING.finditer(text):
        word = text[: match.start()]
        if _is_title(word, match["mark"]) and text[match.end() :].strip():
            continue
        bare = without_quotes(word)
        if not any(character.isalnum() for character in bare):
            return Reading("", "no word before the mark")
        if len(bare.split()) > 1:
            return Reading("", "several words")
        return Reading(bare + match["mark"])
    several = len(text.split()) > 1
    return Reading("", "several words" if several else "no mark behind the word")


def candidates_of(texts: Sequence[str]) -> list[str]:
    """The distinct candidates of an example's beams, in their order."""
    return list(dict.fromkeys(filter(None, (read_beam(text).candidate for text in texts))))


def word_of(candidate: str) -> str:
    """The word of a candidate: all but the mark. `signs.` and `signs,` are one word."""
    return candidate[:-1]


def is_right(candidate: str, answer: str) -> bool:
    """Whether a candidate's word is the passage's last word, quotes around that taken off."""
    return bool(candidate) and candidate != NO_CANDIDATE and word_of(candidate) == bare(answer)


def labels_of(candidates: Sequence[str], answer: str) -> tuple[int, ...]:
    """Positions of the right candidates: several where a word came with several marks."""
    return tuple(k for k, candidate in enumerate(candidates) if is_right(candidate, answer))


def bare(answer: str) -> str:
    """An answer as candidates have it: `"Nadia` is `Nadia`."""
    return without_quotes(answer.strip())


def without_quotes(word: str) -> str:
    """Takes quotes off both ends; an apostrophe stays unless there is one at each end."""
    while True:
        word, before = word.strip().strip(_QUOTES), word
        if word.startswith("''"):
            word = word[2:]
        if word.endswith("''"):
            word = word[:-2]
        if len(word) > 2 and word[0] in _SINGLE and word[-1] in _SINGLE:
            word = word[1:-1]
        if word[:1] in ("‘",):  # opens a quotation; an apostrophe is ' or ’
            word = word[1:]
        if word == before:
            return word


def _is_title(word: str, mark: str) -> bool:
    return mark == "." and without_quotes(word).lower() in TITLES
