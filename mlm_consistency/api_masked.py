"""From Python, the BERT family: what a model expects at the masks of a text, pairs of words.

    model = mc.load_model("bert-base-uncased/")
    model.fill("Paris is the [MASK] of France.", k=3)     # [[("capital", -0.01), ...]]
    model.pair("Paris is the [MASK] [MASK].", ["capital", "big"], ["city", "town"]).as_case()

`pair(...).as_case()` is what `analysis.diagnose.diagnose` reads.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mlm_consistency.errors import DataError
from mlm_consistency.models.bert_config import BertConfig
from mlm_consistency.scoring.masked_positions import MaskedScorer
from mlm_consistency.scoring.masked_rows import MaskedContext
from mlm_consistency.scoring.pair_tables import MaskedPair, PairTable, SpecialIds, pair_tables
from mlm_consistency.scoring.shapes import PackingConfig
from mlm_consistency.vocabularies import Vocabulary


class MaskedModel:
    """A network of the BERT family with weights on a mesh, and its vocabulary.

    Attributes:
      config, params, vocabulary, mesh: what it is made of.
      scorer: answers many contexts at once, packed.
      special: ids of [MASK], [CLS] and [SEP].
    """

    def __init__(
        self,
        config: BertConfig,
        params: Any,
        vocabulary: Vocabulary,
        mesh: Any,
        packing: PackingConfig | None = None,
    ) -> None:
        self.config, self.params, self.vocabulary, self.mesh = config, params, vocabulary, mesh
        self.scorer = MaskedScorer(config, params, mesh, packing or PackingConfig())
        self.special = SpecialIds.of(vocabulary)

    def token_ids(self, text: str) -> tuple[np.ndarray, list[int]]:
        """int32 ids of a text without [CLS] and [SEP], and where its masks are.

        Raises:
          DataError: for a text without a mask.
        """
        mark = self.vocabulary.pieces([self.special.mask])[0]
        ids: list[int] = []
        masks: list[int] = []
        for number, part in enumerate(text.split(mark)):
            if number:
                masks.append(len(ids))
                ids.append(self.special.mask)
            ids += self.vocabulary.encode(part) if part.strip() else []
        if not masks:
            raise DataError(f"{text!r} holds no {mark}: put one where a word is asked for")
        return np.asarray(ids, np.int32), masks

    def fill(self, text: str, k: int = 5) -> list[list[tuple[str, float]]]:
        """For each mask of the text the k likeliest pieces and their log-probabilities (nats).

        Raises:
          DataError: for a text without a mask.
          ScoringError: for one longer than the network's positions.
        """
        ids, masks = self.token_ids(text)
        tokens, shift = self.special.around(ids)
        context = MaskedContext(tokens, np.asarray(masks, np.int32) + shift)
        (top,) = self.scorer.top([context], k)
        return [
            list(zip(self.vocabulary.pieces(words.tolist()), values.tolist(), strict=True))
            for words, values in zip(top["words"], top["log_probs"], strict=True)
        ]

    def pair(self, text: str, first: Sequence[str], second: Sequence[str]) -> PairTable:
        """The conditional tables of a text's two masks over words that compete for them.

        Raises:
          DataError: unless the text has two masks and every word is one token.
          ScoringError: for a text longer than the network's positions, or a word given twice.
        """
        ids, masks = self.token_ids(text)
        if len(masks) != 2:
            raise DataError(f"{text!r} has {len(masks)} masks; a pair needs 2")
        words = [np.array([self._word(word) for word in side]) for side in (first, second)]
        pair = MaskedPair(ids, (masks[0], masks[1]), words[0], words[1], name=text)
        (table,) = pair_tables(self.scorer, [pair], self.special, both_masked=True)
        return table

    def _word(self, word: str) -> int:
        """The id of a word inside a text: behind a space, where the vocabulary marks that."""
        for spelling in (f" {word}", word):
            ids = self.vocabulary.encode(spelling)
            if len(ids) == 1 and ids[0] != self.vocabulary.unk_id:
                return ids[0]
        raise DataError(
            f"{word!r} is not one token of vocabulary {self.vocabulary.name!r} "
            f"(it is {self.vocabulary.pieces(ids)})"
        )
