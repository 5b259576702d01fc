"""Our vocabularies as seqio sees them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import seqio
import tensorflow as tf

from mlm_consistency.vocabularies import Vocabulary


class SeqioVocabulary(seqio.Vocabulary):
    """A `vocabularies.Vocabulary` behind seqio's interface; sentinels count as pieces of it.

    Ids and text are those of the wrapped vocabulary, so that records and seqio agree.
    """

    def __init__(self, vocabulary: Vocabulary):
        super().__init__(extra_ids=0)
        self.wrapped = vocabulary

    @property
    def bos_id(self) -> int | None:
        return self.wrapped.cls_id

    @property
    def eos_id(self) -> int:
        return self.wrapped.eos_id

    @property
    def unk_id(self) -> int:
        return self.wrapped.unk_id

    @property
    def pad_id(self) -> int:
        return self.wrapped.pad_id

    @property
    def _base_vocab_size(self) -> int:
        return self.wrapped.size

    def _encode(self, s: str) -> Sequence[int]:
        return self.wrapped.encode(s)

    def _decode(self, ids: Sequence[int]) -> str:
        return self.wrapped.decode(ids)

    def _encode_tf(self, s: tf.Tensor) -> tf.Tensor:
        def encode(text: bytes | np.ndarray) -> np.ndarray:
            # Outside a graph, numpy_function hands over an array of rank 0.
            ids = self.wrapped.encode(np.asarray(text).item().decode("utf-8"))
            return np.asarray(ids, np.int32)

        ids = tf.numpy_function(encode, [s], tf.int32, stateful=False)
        ids.set_shape([None])
        return ids

    def _decode_tf(self, ids: tf.Tensor) -> tf.Tensor:
        def decode(rows: np.ndarray) -> np.ndarray | bytes:
            if rows.ndim == 1:
                return self.wrapped.decode(rows.tolist()).encode("utf-8")
            texts = [self.wrapped.decode(row.tolist()).encode("utf-8") for row in rows]
            return np.asarray(texts, dtype=object)

        text = tf.numpy_function(decode, [ids], tf.string, stateful=False)
        text.set_shape(ids.shape[:-1])
        return text

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SeqioVocabulary) and self.wrapped.digest == other.wrapped.digest

    def __hash__(self) -> int:
        return hash(self.wrapped.digest)

    def __repr__(self) -> str:
        return f"SeqioVocabulary({self.wrapped!r})"
