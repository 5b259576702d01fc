"""What a masked language model says about two positions of a text, as conditional tables.

For words a_1..a_I at position a and b_1..b_J at position b of one text, in nats:

    [CLS] the [MASK] b_j  sat [SEP]   J rows, read at a   -> log p(a_i | b_j)   [I, J]
    [CLS] the  a_i [MASK] sat [SEP]   I rows, read at b   -> log p(b_j | a_i)   [I, J]
    [CLS] the [MASK][MASK] sat [SEP]  1 row, when asked   -> log p(a_i), log p(b_j), both masked

A 2x2 probe takes 4 rows. Nothing is normalised over the words asked for, so the tables are a
subset of the vocabulary's; cross-ratios need no more.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from mlm_consistency.errors import ScoringError
from mlm_consistency.scoring.masked_positions import MaskedScorer
from mlm_consistency.scoring.masked_rows import MaskedContext, check_text_length
from mlm_consistency.scoring.step import BatchShape
from mlm_consistency.vocabularies import Vocabulary

CHUNK = 2048  # pairs whose contexts are in memory together


@dataclasses.dataclass(frozen=True)
class SpecialIds:
    """Ids that stand around and in place of words; cls and sep None where there are none."""

    mask: int
    cls: int | None
    sep: int | None

    @classmethod
    def of(cls, vocabulary: Vocabulary) -> SpecialIds:
        """Those of a BERT-style vocabulary.

        Raises:
          ScoringError: if it has no mask.
        """
        if vocabulary.mask_id is None:
            raise ScoringError(
                f"vocabulary {vocabulary.name!r} has no [MASK] or <mask>: it belongs to no "
                "encoder-only model. A T5-style one is asked through scoring.span_pairs"
            )
        return cls(vocabulary.mask_id, vocabulary.cls_id, vocabulary.sep_id)

    def around(self, token_ids: Sequence[int] | np.ndarray) -> tuple[np.ndarray, int]:
        """[CLS] ids [SEP] as int32, and by how much positions moved."""
        head = [] if self.cls is None else [self.cls]
        tail = [] if self.sep is None else [self.sep]
        return np.asarray([*head, *token_ids, *tail], np.int32), len(head)


@dataclasses.dataclass(frozen=True)
class MaskedPair:
    """Two positions of a text and the words that compete for them.

    Attributes:
      token_ids: int32 [n], the text without [CLS] and [SEP]; what stands at the two positions
        does not matter.
      positions: of the two, different; a is the first of them.
      a_words, b_words: int32 [I], [J] ids, none twice.
      gold: (i, j), where the true words are among them, or None.
      name: for records and messages.
    """

    token_ids: np.ndarray
    positions: tuple[int, int]
    a_words: np.ndarray
    b_words: np.ndarray
    gold: tuple[int, int] | None = None
    name: str = ""

    def __post_init__(self) -> None:
        a, b = self.positions
        if a == b or min(a, b) < 0 or max(a, b) >= len(self.token_ids):
            raise ScoringError(
                f"pair {self.name!r}: positions {self.positions} must be two of "
                f"{len(self.token_ids)}"
            )
        for name in ("a_words", "b_words"):
            words = np.asarray(getattr(self, name), np.int32)
            if not words.size or len(set(words.tolist())) < words.size:
                raise ScoringError(
                    f"pair {self.name!r}: {name} must be at least one word and none twice, got "
                    f"{words.tolist()}"
                )
            object.__setattr__(self, name, words)

    def rows(self, both_masked: bool = False) -> int:
        """Forward rows that its tables take."""
        return len(self.a_words) + len(self.b_words) + int(both_masked)

    def contexts(self, special: SpecialIds, both_masked: bool = False) -> list[MaskedContext]:
        """One a row: the b's in place, then the a's, then both masked."""
        tokens, shift = special.around(self.token_ids)
        a, b = (position + shift for position in self.positions)
        tokens[[a, b]] = special.mask
        found = []
        for place, words, read, asked in (
            (b, self.b_words, a, self.a_words),
            (a, self.a_words, b, self.b_words),
        ):
            for word in words:
                filled = tokens.copy()
                filled[place] = word
                found.append(MaskedContext(filled, np.array([read], np.int32), (asked,)))
        if both_masked:
            asked_both = (self.a_words, self.b_words)
            found.append(MaskedContext(tokens, np.array([a, b], np.int32), asked_both))
        return found


@dataclasses.dataclass(frozen=True)
class PairTable:
    """The tables of one pair, nats.

    Attributes:
      pair: what was asked (a `MaskedPair`, or a `SpanPair` of a T5-style model).
      log_a_given_b, log_b_given_a: [I, J].
      log_a_masked, log_b_masked: [I], [J], or None where they were not asked for.
      log_joint_ab, log_joint_ba: [I, J], the decoder's own joints in either order of the spans;
        of T5-style models alone.
    """

    pair: Any
    log_a_given_b: np.ndarray
    log_b_given_a: np.ndarray
    log_a_masked: np.ndarray | None = None
    log_b_masked: np.ndarray | None = None
    log_joint_ab: np.ndarray | None = None
    log_joint_ba: np.ndarray | None = None

    def as_case(self) -> dict[str, Any]:
        """Plain lists of probabilities, as `mlm-consistency diagnose` reads them."""
        case: dict[str, Any] = {"name": self.pair.name, "subset": True}
        if self.pair.gold is not None:
            case["gold"] = list(self.pair.gold)
        for name in ("a_given_b", "b_given_a", "a_masked", "b_masked", "joint_ab", "joint_ba"):
            table = getattr(self, f"log_{name}")
            if table is not None:
                case[name] = np.exp(np.asarray(table, np.float64)).tolist()
        return case


def pair_tables(
    scorer: MaskedScorer,
    pairs: Iterable[MaskedPair],
    special: SpecialIds,
    both_masked: bool = False,
) -> Iterator[PairTable]:
    """The tables of each pair, in order.

    I + J forward rows a pair (`MaskedPair.rows`), and one more with `both_masked`; rows of `CHUNK`
    pairs are packed together.

    Raises:
      ScoringError: for a text longer than the network's positions (names the pair), or numbers
        that are not finite.
    """
    shape: BatchShape | None = None
    for chunk in _chunks(pairs, CHUNK):
        contexts, first = [], [0]
        for pair in chunk:
            length = len(special.around(pair.token_ids)[0])
            check_text_length(f"pair {pair.name!r}", length, scorer.config)
            contexts += pair.contexts(special, both_masked)
            first.append(len(contexts))
        # Later chunks are much like the first, and a shape of their own would cost a compilation;
        # where one does not fit, it gets it.
        if shape is None or not _fits(contexts, shape):
            shape = scorer.shape_for(contexts)
        try:
            values = scorer.log_probs(contexts, shape)
        except ScoringError as error:
            raise ScoringError(f"pairs {chunk[0].name!r} to {chunk[-1].name!r}: {error}") from error
        for pair, start, stop in zip(chunk, first[:-1], first[1:], strict=True):
            yield _table(pair, values[start:stop], both_masked)


def _fits(contexts: Sequence[MaskedContext], shape: BatchShape) -> bool:
    longest = max(len(context.tokens) for context in contexts)
    reads = max(len(context.read) for context in contexts)
    pairs = max(sum(map(len, context.targets)) for context in contexts)
    return longest <= shape.rows[-1][0] and reads <= shape.reads and pairs <= shape.pairs


def _table(
    pair: MaskedPair, values: Sequence[tuple[np.ndarray, ...]], both_masked: bool
) -> PairTable:
    i, j = len(pair.a_words), len(pair.b_words)
    a_masked, b_masked = values[i + j] if both_masked else (None, None)
    return PairTable(
        pair,
        np.stack([row[0] for row in values[:j]], axis=1),
        np.stack([row[0] for row in values[j : i + j]], axis=0),
        a_masked,
        b_masked,
    )


def _chunks(pairs: Iterable[MaskedPair], size: int) -> Iterator[list[MaskedPair]]:
    chunk: list[MaskedPair] = []
    for pair in pairs:
        chunk.append(pair)
        if len(chunk) == size:
            yield chunk
            chunk = []
    if chunk:
        yield chunk


@dataclasses.dataclass(frozen=True)
class RankedWords:
    """What a model proposes at the two positions of N pairs, both masked.

    Attributes:
      a, b: int32 [N, k], likeliest first: what `tasks.probes.gold_and_top_k` takes.
      a_entropy, b_entropy: [N], of the whole distributions, in nats.
    """

    a: np.ndarray
    b: np.ndarray
    a_entropy: np.ndarray
    b_entropy: np.ndarray


def ranked_words(
    scorer: MaskedScorer,
    texts: Sequence[tuple[np.ndarray, tuple[int, int]]],
    special: SpecialIds,
    k: int,
) -> RankedWords:
    """The model's k likeliest words at each of two positions; one forward row a pair.

    Args:
      texts: (token ids without [CLS] and [SEP], the two positions) of each pair.

    Raises:
      ScoringError: for no text, or one longer than the network's positions.
    """
    if not texts:
        raise ScoringError("there is no pair to propose words for")
    contexts = []
    for token_ids, positions in texts:
        tokens, shift = special.around(token_ids)
        read = np.asarray(positions, np.int32) + shift
        tokens[read] = special.mask
        contexts.append(MaskedContext(tokens, read))
    tops = scorer.top(contexts, k)
    words = np.stack([top["words"] for top in tops])
    entropy = np.stack([top["entropy"] for top in tops])
    return RankedWords(words[:, 0], words[:, 1], entropy[:, 0], entropy[:, 1])
