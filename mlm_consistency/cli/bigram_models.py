"""The two kinds of models that `bigrams` asks, behind the same three questions."""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Sequence

import numpy as np

from mlm_consistency.api import load_model
from mlm_consistency.checkpoints.bert_weights import open_bert, restore_bert
from mlm_consistency.checkpoints.huggingface_bert import bert_config
from mlm_consistency.errors import ConfigError
from mlm_consistency.models.bert import logical_axes
from mlm_consistency.scoring.masked_positions import MaskedScorer
from mlm_consistency.scoring.mesh import MeshConfig, fitted, make_mesh, weight_shardings
from mlm_consistency.scoring.pair_tables import (
    MaskedPair,
    PairTable,
    RankedWords,
    SpecialIds,
    pair_tables,
    ranked_words,
)
from mlm_consistency.scoring.shapes import PackingConfig
from mlm_consistency.scoring.span_pairs import (
    Sentinels,
    SpanPair,
    ranked_fillings,
    span_pair_tables,
)
from mlm_consistency.scoring.span_scorer import SpanScorer
from mlm_consistency.tasks.probes import PairProbe
from mlm_consistency.vocabularies import Vocabulary


class PairModel(abc.ABC):
    """A model that can be asked about two positions.

    Attributes:
      name: of the network.
      rows: forward rows (prompts) computed so far.
    """

    name: str
    rows: int

    @abc.abstractmethod
    def ranked(self, probes: Sequence[PairProbe], k: int) -> RankedWords:
        """Its k likeliest words at the two positions, both masked."""

    @abc.abstractmethod
    def tables(self, probes: Sequence[PairProbe], a: np.ndarray, b: np.ndarray) -> list[PairTable]:
        """The tables over the words a [N, I] and b [N, J], the true ones first."""


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
    closing_sentinel: bool = False,
) -> PairModel:
    """The model at `checkpoint`: of the BERT family when the vocabulary has a mask.

    Raises:
      ConfigError, CheckpointError: naming what does not fit.
    """
    if vocabulary.mask_id is None:
        model = load_model(
            checkpoint, vocabulary=vocabulary_path, model=name, mode=mode, mesh=mesh,
            dtype=dtype, param_dtype=param_dtype,
        )  # fmt: skip
        scorer = SpanScorer(
            model.config, model.params, vocabulary.pad_id, model.mesh, model.packing
        )
        prefix = vocabulary.encode(f"[{mode}]") if mode else []
        ids = np.asarray(prefix, np.int32)
        return SpanModel(scorer, Sentinels.of(vocabulary), ids, closing_sentinel)
    found = open_bert(checkpoint)
    config = dataclasses.replace(bert_config(found), dtype=dtype, param_dtype=param_dtype)
    if vocabulary.size > config.vocab_size:
        raise ConfigError(
            f"vocabulary {vocabulary.name!r} has {vocabulary.size} ids, {config.name} has "
            f"{config.vocab_size} rows: take the vocabulary that it was trained with"
        )
    rounded = dataclasses.replace(config, vocab_size=config.vocab_rows)
    mesh_config = fitted(MeshConfig(*mesh), rounded)
    devices = make_mesh(mesh_config)
    shardings = weight_shardings(logical_axes(config), devices, mesh_config)
    params = restore_bert(found, config, shardings)
    masked = MaskedScorer(config, params, devices, PackingConfig())
    return MaskedModel(masked, SpecialIds.of(vocabulary))


class MaskedModel(PairModel):
    """Of the BERT family: one mask a position."""

    def __init__(self, scorer: MaskedScorer, special: SpecialIds) -> None:
        self.name, self.rows = scorer.config.name, 0
        self._scorer, self._special = scorer, special

    def ranked(self, probes: Sequence[PairProbe], k: int) -> RankedWords:
        self.rows += len(probes)
        texts = [(probe.token_ids, probe.positions) for probe in probes]
        return ranked_words(self._scorer, texts, self._special, k)

    def tables(self, probes: Sequence[PairProbe], a: np.ndarray, b: np.ndarray) -> list[PairTable]:
        pairs = [
            MaskedPair(probe.token_ids, probe.positions, first, second, (0, 0), probe.id)
            for probe, first, second in zip(probes, a, b, strict=True)
        ]
        self.rows += sum(pair.rows(both_masked=True) for pair in pairs)
        return list(pair_tables(self._scorer, pairs, self._special, both_masked=True))


class SpanModel(PairModel):
    """Of the T5 family: one sentinel a position."""

    def __init__(
        self, scorer: SpanScorer, sentinels: Sentinels, prefix: np.ndarray, closing: bool
    ) -> None:
        self.name, self.rows = scorer.config.name, 0
        self._scorer, self._sentinels = scorer, sentinels
        self._prefix, self._closing = prefix, closing

    def _text(self, probe: PairProbe) -> tuple[np.ndarray, tuple[int, int]]:
        """The text behind the mode word, and where the two words are in it."""
        first, second = probe.positions
        shift = len(self._prefix)
        return np.concatenate([self._prefix, probe.token_ids]), (first + shift, second + shift)

    def ranked(self, probes: Sequence[PairProbe], k: int) -> RankedWords:
        self.rows += 2 * len(probes)
        texts = [self._text(probe) for probe in probes]
        return ranked_fillings(self._scorer, texts, self._sentinels, k)

    def tables(self, probes: Sequence[PairProbe], a: np.ndarray, b: np.ndarray) -> list[PairTable]:
        pairs = []
        for probe, first, second in zip(probes, a, b, strict=True):
            tokens, (at_a, at_b) = self._text(probe)
            spans = ((at_a, at_a + 1), (at_b, at_b + 1))
            words = tuple(np.atleast_1d(w) for w in first), tuple(np.atleast_1d(w) for w in second)
            pairs.append(SpanPair(tokens, spans, *words, (0, 0), probe.id))
            self.rows += len(first) + len(second) + 2
        return list(span_pair_tables(self._scorer, pairs, self._sentinels, self._closing))
