"""A T5-style model's two sentinels: the same pair tables, and its joints in either order.

For fillings a_i of one span and b_j of a later one (x_0, x_1, .. sentinels), in nats:

    encoder                      decoder targets       gives
    the x_0 b_j sat </s>         x_0 a_i  (x_1)        log p(a_i | b_j)               J prompts
    the a_i x_0 sat </s>         x_0 b_j  (x_1)        log p(b_j | a_i)               I prompts
    the x_0 x_1 sat </s>         x_0 a_i x_1 b_j (x_2) log p(a_i), joint a then b     1 prompt
    the x_1 x_0 sat </s>         x_0 b_j x_1 a_i (x_2) log p(b_j), joint b then a     1 prompt

The sentinels decide which span the decoder writes first, so that the last prompt is the joint in
the other order. Targets between spans (x_1 in the joints) are not scored unless the closing
sentinels are: those in parentheses, and the x_1 that ends a first span.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from mlm_consistency.conditionals.example import Masked
from mlm_consistency.errors import ScoringError
from mlm_consistency.scoring.pair_tables import PairTable, RankedWords
from mlm_consistency.scoring.span_scorer import SpanScorer
from mlm_consistency.vocabularies import Vocabulary

CHUNK = 256
Filling = np.ndarray


@dataclasses.dataclass(frozen=True)
class SpanPair:
    """Two spans of a text and the fillings that compete for them.

    Attributes:
      token_ids: int32 [n], the text (behind its mode word, for UL2) without `</s>`.
      spans: (start, stop) of each, half-open, the first one first; they may touch.
      a_words, b_words: I and J fillings, each an int32 of at least one token.
      gold: (i, j), where the true ones are among them, or None.
      name: for records and messages.
    """

    token_ids: np.ndarray
    spans: tuple[tuple[int, int], tuple[int, int]]
    a_words: tuple[Filling, ...]
    b_words: tuple[Filling, ...]
    gold: tuple[int, int] | None = None
    name: str = ""

    def __post_init__(self) -> None:
        (a, a_stop), (b, b_stop) = self.spans
        if not 0 <= a < a_stop <= b < b_stop <= len(self.token_ids):
            raise ScoringError(
                f"pair {self.name!r}: spans {self.spans} must be two of {len(self.token_ids)} "
                "tokens, in order and apart"
            )
        for name in ("a_words", "b_words"):
            words = tuple(np.atleast_1d(np.asarray(w, np.int32)) for w in getattr(self, name))
            if not words or not all(len(word) for word in words):
                raise ScoringError(f"pair {self.name!r}: {name} has none, or an empty filling")
            object.__setattr__(self, name, words)


@dataclasses.dataclass(frozen=True)
class Sentinels:
    """Ids of x_0, x_1, x_2 and of `</s>`."""

    x: tuple[int, int, int]
    eos: int

    @classmethod
    def of(cls, vocabulary: Vocabulary) -> Sentinels:
        """Those of a T5-style vocabulary.

        Raises:
          VocabularyError: if it has fewer than three.
        """
        first, second, third = (vocabulary.sentinel(k) for k in range(3))
        return cls((first, second, third), vocabulary.eos_id)


def span_pair_tables(
    scorer: SpanScorer,
    pairs: Iterable[SpanPair],
    sentinels: Sentinels,
    closing_sentinel: bool = False,
    one_span: bool = False,
) -> Iterator[PairTable]:
    """The tables of each pair, in order: I + J + 2 prompts each.

    Args:
      closing_sentinel: whether the sentinel that ends a filling counts in its probability.
      one_span: spans that touch are masked by one sentinel, as span corruption masks neighbours
        (`x_0 a_i b_j (x_1)`). There is no other order then: `log_b_masked` and `log_joint_ba` are
        None, and the prompts I + J + 1.

    Raises:
      ScoringError: for a text longer than the rows; with `one_span`, for spans that do not touch.
    """
    chunk: list[SpanPair] = []
    for pair in pairs:
        if one_span and pair.spans[0][1] != pair.spans[1][0]:
            raise ScoringError(f"pair {pair.name!r}: one_span needs spans that touch")
        chunk.append(pair)
        if len(chunk) == CHUNK:
            yield from _tables(scorer, chunk, sentinels, closing_sentinel, one_span)
            chunk = []
    yield from _tables(scorer, chunk, sentinels, closing_sentinel, one_span)


def _tables(
    scorer: SpanScorer,
    pairs: Sequence[SpanPair],
    sentinels: Sentinels,
    closing: bool,
    one_span: bool,
) -> Iterator[PairTable]:
    questions, first = [], [0]
    for pair in pairs:
        questions += _questions(pair, sentinels, closing, one_span)
        first.append(len(questions))
    values = scorer.log_probs(questions)
    for pair, start, stop in zip(pairs, first[:-1], first[1:], strict=True):
        yield _table(pair, values[start:stop], closing, one_span)


def _questions(
    pair: SpanPair, sentinels: Sentinels, closing: bool, one_span: bool
) -> list[tuple[Masked, list[np.ndarray]]]:
    x, text = sentinels.x, np.asarray(pair.token_ids, np.int32)
    (a, a_stop), (b, b_stop) = pair.spans

    def masked(first: Any, second: Any) -> Masked:
        parts = (text[:a], first, text[a_stop:b], second, text[b_stop:], [sentinels.eos])
        encoder = np.concatenate([np.asarray(part, np.int32) for part in parts])
        return Masked(encoder, np.array([x[0]], np.int32))

    def filling(*parts: Any, end: int) -> np.ndarray:
        whole = [np.asarray(part, np.int32) for part in (*parts, *([[end]] if closing else []))]
        return np.concatenate(whole)

    a_words, b_words = pair.a_words, pair.b_words
    of_a = [filling(word, end=x[1]) for word in a_words]
    of_b = [filling(word, end=x[1]) for word in b_words]
    found = [(masked([x[0]], word), of_a) for word in b_words]
    found += [(masked(word, [x[0]]), of_b) for word in a_words]
    if one_span:
        both = [filling(u, v, end=x[1]) for u in a_words for v in b_words]
        return [*found, (masked([x[0]], []), both)]
    forward = [filling(u, [x[1]], v, end=x[2]) for u in a_words for v in b_words]
    backward = [filling(v, [x[1]], u, end=x[2]) for u in a_words for v in b_words]
    return [*found, (masked([x[0]], [x[1]]), forward), (masked([x[1]], [x[0]]), backward)]


def _table(
    pair: SpanPair, values: Sequence[Sequence[np.ndarray]], closing: bool, one_span: bool
) -> PairTable:
    i, j = len(pair.a_words), len(pair.b_words)

    def sums(answers: Sequence[np.ndarray]) -> np.ndarray:
        return np.array([answer.sum(dtype=np.float64) for answer in answers])

    def joint(answers: Sequence[np.ndarray], first: Sequence[Filling], of_a: bool) -> Any:
        """(log p of the first filling, of both), of candidates in the order (i, j)."""
        begun, whole = np.empty((2, i, j))
        for number, answer in enumerate(answers):
            place = divmod(number, j)
            size = len(first[place[0] if of_a else place[1]])
            # One span has no sentinel between its fillings; between two it ends the first one.
            begun[place] = answer[: size + (closing and not one_span)].sum(dtype=np.float64)
            rest = size + (not one_span)
            whole[place] = begun[place] + answer[rest:].sum(dtype=np.float64)
        return (begun[:, 0] if of_a else begun[0]), whole

    a_masked, joint_ab = joint(values[i + j], pair.a_words, of_a=True)
    b_masked, joint_ba = (
        (None, None) if one_span else joint(values[i + j + 1], pair.b_words, of_a=False)
    )
    return PairTable(
        pair,
        np.stack([sums(answers) for answers in values[:j]], axis=1),
        np.stack([sums(answers) for answers in values[j : i + j]], axis=0),
        a_masked,
        b_masked,
        joint_ab,
        joint_ba,
    )


def ranked_fillings(
    scorer: SpanScorer,
    texts: Sequence[tuple[np.ndarray, tuple[int, int]]],
    sentinels: Sentinels,
    k: int,
) -> RankedWords:
    """The model's k likeliest tokens at each of two one-token spans, both masked; 2 prompts a pair.

    Each is read as the first span that the decoder writes: x_0 stands at the one asked for.

    Args:
      texts: (token ids without `</s>`, the two positions, ascending) of each pair.

    Raises:
      ScoringError: for no text, or one longer than the rows.
    """
    if not texts:
        raise ScoringError("there is no pair to propose words for")
    masked = []
    for token_ids, (a, b) in texts:
        nothing = (np.zeros(1, np.int32),)
        pair = SpanPair(token_ids, ((a, a + 1), (b, b + 1)), nothing, nothing)
        masked += [question[0] for question in _questions(pair, sentinels, False, False)[-2:]]
    tops = scorer.top(masked, k)
    words = np.stack([top["words"] for top in tops]).reshape(-1, 2, k)
    entropy = np.array([top["entropy"] for top in tops]).reshape(-1, 2)
    return RankedWords(words[:, 0], words[:, 1], entropy[:, 0], entropy[:, 1])
