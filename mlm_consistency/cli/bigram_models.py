"""The two kinds of models that `bigrams` asks, behind the same three questions."""

from __future__ import annotations

import abc
from collections.abc import Sequence

import numpy as np

from mlm_consistency.api import MaskedModel, load_model
from mlm_consistency.scoring.beams import BeamConfig
from mlm_consistency.scoring.masked_positions import MaskedScorer
from mlm_consistency.scoring.pair_tables import (
    MaskedPair,
    PairTable,
    RankedWords,
    SpecialIds,
    pair_tables,
    ranked_words,
)
from mlm_consistency.scoring.span_ngrams import EndLogProbs, TextEnd, end_log_probs, propose_ends
from mlm_consistency.scoring.span_pairs import (
    Sentinels,
    SpanPair,
    ranked_fillings,
    span_pair_tables,
)
from mlm_consistency.scoring.span_scorer import SpanScorer
from mlm_consistency.tasks.ngram_probes import NgramProbe
from mlm_consistency.tasks.probes import PairProbe
from mlm_consistency.vocabularies import Vocabulary


class PairModel(abc.ABC):
    """A model that can be asked about two positions.

    Attributes:
      name: of the network.
      rows: forward rows (prompts) computed so far, searches aside.
      has_sentinels: whether it is of the T5 family.
    """

    name: str
    rows: int
    has_sentinels = False

    @abc.abstractmethod
    def ranked(self, probes: Sequence[PairProbe], k: int) -> RankedWords:
        """Its k likeliest words at the two positions, both masked."""

    @abc.abstractmethod
    def tables(
        self, probes: Sequence[PairProbe], a: np.ndarray, b: np.ndarray, closing: bool = False
    ) -> list[PairTable]:
        """The tables over the words a [N, I] and b [N, J], the true ones first; `closing` says
        whether the sentinel that ends a span counts, where there is one."""


def open_model(
    checkpoint: str,
    vocabulary: Vocabulary,
    vocabulary_path: str,
    *,
    name: str | None = None,
    mode: str = "",
    mesh: tuple[int, int] = (0, 1),
    dtype: str = "float32",
    param_dtype: str = "float32",
) -> PairModel:
    """The model at `checkpoint`, of either family.

    Raises:
      ConfigError, CheckpointError: naming what does not fit.
    """
    model = load_model(
        checkpoint, vocabulary=vocabulary_path, model=name, mode=mode, mesh=mesh, dtype=dtype,
        param_dtype=param_dtype,
    )  # fmt: skip
    if isinstance(model, MaskedModel):
        return MaskedPairModel(model.scorer, model.special)
    scorer = SpanScorer(model.config, model.params, vocabulary.pad_id, model.mesh, model.packing)
    prefix = vocabulary.encode(f"[{mode}]") if mode else []
    return SpanModel(scorer, Sentinels.of(vocabulary), np.asarray(prefix, np.int32))


class MaskedPairModel(PairModel):
    """Of the BERT family: one mask a position."""

    def __init__(self, scorer: MaskedScorer, special: SpecialIds) -> None:
        self.name, self.rows = scorer.config.name, 0
        self._scorer, self._special = scorer, special

    def ranked(self, probes: Sequence[PairProbe], k: int) -> RankedWords:
        self.rows += len(probes)
        texts = [(probe.token_ids, probe.positions) for probe in probes]
        return ranked_words(self._scorer, texts, self._special, k)

    def tables(
        self, probes: Sequence[PairProbe], a: np.ndarray, b: np.ndarray, closing: bool = False
    ) -> list[PairTable]:
        pairs = [
            MaskedPair(probe.token_ids, probe.positions, first, second, (0, 0), probe.id)
            for probe, first, second in zip(probes, a, b, strict=True)
        ]
        self.rows += sum(pair.rows(both_masked=True) for pair in pairs)
        return list(pair_tables(self._scorer, pairs, self._special, both_masked=True))


class SpanModel(PairModel):
    """Of the T5 family: one sentinel a position."""

    has_sentinels = True

    def __init__(self, scorer: SpanScorer, sentinels: Sentinels, prefix: np.ndarray) -> None:
        self.name, self.rows = scorer.config.name, 0
        self._scorer, self._sentinels, self._prefix = scorer, sentinels, prefix

    def _text(self, probe: PairProbe) -> tuple[np.ndarray, tuple[int, int]]:
        """The text behind the mode word, and where the two words are in it."""
        first, second = probe.positions
        shift = len(self._prefix)
        return np.concatenate([self._prefix, probe.token_ids]), (first + shift, second + shift)

    def ranked(self, probes: Sequence[PairProbe], k: int) -> RankedWords:
        self.rows += 2 * len(probes)
        texts = [self._text(probe) for probe in probes]
        return ranked_fillings(self._scorer, texts, self._sentinels, k)

    def tables(
        self, probes: Sequence[PairProbe], a: np.ndarray, b: np.ndarray, closing: bool = False
    ) -> list[PairTable]:
        pairs = []
        for probe, first, second in zip(probes, a, b, strict=True):
            tokens, (at_a, at_b) = self._text(probe)
            spans = ((at_a, at_a + 1), (at_b, at_b + 1))
            words = tuple(np.atleast_1d(w) for w in first), tuple(np.atleast_1d(w) for w in second)
            pairs.append(SpanPair(tokens, spans, *words, (0, 0), probe.id))
            self.rows += len(first) + len(second) + 2
        return list(span_pair_tables(self._scorer, pairs, self._sentinels, closing))

    def _ends(self, probes: Sequence[NgramProbe]) -> list[TextEnd]:
        """The probes' texts behind the mode word."""
        return [
            TextEnd(np.concatenate([self._prefix, p.context]), p.between, p.last, p.after)
            for p in probes
        ]

    def proposed_ends(
        self, probes: Sequence[NgramProbe], beams: int, vocabulary: Vocabulary
    ) -> list[list[np.ndarray]]:
        """What the model would end each text with, best first; see `scoring.span_ngrams`."""
        longest = max(len(probe.last) for probe in probes)
        config = BeamConfig(width=beams, max_tokens=longest + 1, max_row_lengths=1)
        ends = self._ends(probes)
        return propose_ends(self._scorer, ends, self._sentinels, vocabulary.size, config)

    def ends(
        self, probes: Sequence[NgramProbe], proposals: Sequence[np.ndarray]
    ) -> list[EndLogProbs]:
        """The true ends and the proposals, the short n-gram masked and the long one."""
        self.rows += 2 * len(probes)
        return end_log_probs(self._scorer, self._ends(probes), proposals, self._sentinels)
