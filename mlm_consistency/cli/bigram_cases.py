"""One case of `tables.json`: the tables of a pair of words, and what a reader wants to see."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from mlm_consistency.tasks.probes import PairProbe
from mlm_consistency.vocabularies import Vocabulary


def case(
    probe: PairProbe,
    a: np.ndarray,
    b: np.ndarray,
    entropy: float,
    table: Any,
    vocabulary: Vocabulary,
) -> dict[str, Any]:
    """What `diagnose` reads, and beside it the text, where the two words stand in it (`spans`, or
    null where that cannot be told), the competing pieces, distance and entropy (nats)."""
    return table.as_case() | {
        "text": probe.text,
        "spans": word_spans(probe, vocabulary),
        "words": list(probe.words),
        "distance": probe.distance,
        "entropy": float(entropy),
        "first": vocabulary.pieces(a.tolist()),
        "second": vocabulary.pieces(b.tolist()),
    }


def word_spans(probe: PairProbe, vocabulary: Vocabulary) -> list[list[int]] | None:
    """[[start, stop], [start, stop]] of the two words in `probe.text`, in characters.

    Vocabularies lower, split and respell, so a word is found by counting: the one of its kind
    that has as many of them before it in the text as among the tokens before it.
    """
    spans = []
    for position, word in zip(probe.positions, probe.words, strict=True):
        pattern = re.compile(rf"(?<!\w){re.escape(word)}(?!\w)", re.IGNORECASE)
        before = vocabulary.decode(probe.token_ids[:position].tolist())
        found = list(pattern.finditer(probe.text))
        number = len(pattern.findall(before))
        if number >= len(found):
            return None
        spans.append(list(found[number].span()))
    return spans if spans[0][1] <= spans[1][0] else None
