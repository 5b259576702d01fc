"""Which pieces of a text are whole words, whatever kind of vocabulary spelt it."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from mlm_consistency.vocabularies import Vocabulary

JOINERS = frozenset("'’-_‐‑")
"""Between two letters these make one word of both sides (don't, on-line)."""
CONTINUATION = "##"


def whole_words(pieces: Sequence[str], marker: str) -> tuple[list[str | None], list[str]]:
    """For each piece the word that it spells alone, or None and why not ("" where it does).

    `marker` starts the first piece of a word (`▁`, `Ġ`); "" means WordPiece, where `##` starts
    every other piece. A word ends where the next piece starts one or is punctuation; apostrophes
    and hyphens do not end it.
    """
    words: list[str | None] = []
    problems: list[str] = []
    for t, piece in enumerate(pieces):
        starts = t == 0 or (piece.startswith(marker) if marker else piece[:2] != CONTINUATION)
        text = _bare(piece, marker)
        after = pieces[t + 1] if t + 1 < len(pieces) else None
        before = pieces[t - 1] if t > 0 and not (marker and piece.startswith(marker)) else None
        if not text.isalnum():
            words.append(None)
            problems.append("not a word")
        elif not starts or _joined(after, marker) or before in JOINERS:
            words.append(None)
            problems.append("word of several tokens")
        else:
            words.append(text)
            problems.append("")
    return words, problems


MARKERS = ("▁", "Ġ")
MARKER_SAMPLE = 20_000


@functools.lru_cache(maxsize=8)
def word_marker(vocabulary: Vocabulary) -> str:
    """What the vocabulary's pieces write where a space was; "" for WordPiece, which writes none.

    Counted over the pieces: no one text is spelt by every vocabulary.
    """
    pieces = vocabulary.pieces(range(min(vocabulary.size, MARKER_SAMPLE)))
    begins = {mark: sum(piece.startswith(mark) for piece in pieces) for mark in MARKERS}
    inside = sum(piece.startswith(CONTINUATION) for piece in pieces)
    mark = max(begins, key=lambda mark: begins[mark])
    return mark if begins[mark] > inside else ""


def _bare(piece: str, marker: str) -> str:
    return piece.removeprefix(marker) if marker else piece.removeprefix(CONTINUATION)


def _joined(after: str | None, marker: str) -> bool:
    """Whether the next piece belongs to the same word."""
    if after is None:
        return False
    if not marker:
        return after.startswith(CONTINUATION) or after in JOINERS
    return not after.startswith(marker) and (after[:1].isalnum() or after[:1] in JOINERS)
