"""SentencePiece files with T5's sentinels behind them (T5, UL2, Flan, mT5 and one's own)."""

from __future__ import annotations

import hashlib
import struct
import unicodedata
from collections.abc import Sequence
from typing import Any

from mlm_consistency.errors import VocabularyError
from mlm_consistency.vocabularies.base import SENTINEL_TEXT, Vocabulary

DEFAULT_EXTRA_IDS = 100
WORD_START = "▁"
ALBERT_PIECES = ("[CLS]", "[SEP]", "[MASK]")


class SentencePieceVocabulary(Vocabulary):
    """A SentencePiece model whose last ids are the sentinels.

        file:   0 <pad>  1 </s>  2 <unk>  3 ▁ ... v-1
        added:  v = <extra_id_{E-1}>  ...  v+E-1 = <extra_id_0>          size = v + E

    A file that holds `<extra_id_0>` (or `▁<extra_id_0>`) itself, as mT5's does, is used as it is
    and gets no further ids.

    The sentinels are user-defined pieces of the processor, so that a sentinel in a text is one id
    and the text behind it starts a word only where a space says so. The space in front of a
    sentinel is part of what it stands for: a bare word-start piece there, or at the beginning of
    a text, is taken away, as no such piece was there in pretraining.

    A file with the pieces [CLS], [SEP] and [MASK] is ALBERT's: `[MASK]` in a text is the mask, the
    end of a text is [SEP], texts are lower-cased and their accents dropped as in its training, and
    there are no sentinels.

    Args:
      model: the serialised model.
      extra_ids: sentinels to add; None: 100, or 0 where the file holds its own.
      name: for records and messages.

    Raises:
      VocabularyError: if `model` is no SentencePiece model, or holds sentinels and is to get more.
    """

    def __init__(self, model: bytes, extra_ids: int | None = None, name: str = "sentencepiece"):
        self.name = name
        own = _processor(model, name)
        has_own = any(
            own.PieceToId(f"{mark}<extra_id_0>") != own.unk_id() for mark in ("", WORD_START)
        )
        ids = {mark: own.PieceToId(mark) for mark in ALBERT_PIECES}
        self.lower = own.unk_id() not in ids.values()
        if extra_ids is None:
            extra_ids = 0 if has_own or self.lower else DEFAULT_EXTRA_IDS
        if extra_ids < 0:
            raise VocabularyError(f"vocabulary {name!r}: extra_ids={extra_ids} is negative.")
        if has_own and extra_ids:
            raise VocabularyError(
                f"vocabulary {name!r} holds <extra_id_0> itself: extra_ids must be 0 (or left "
                f"out), not {extra_ids}."
            )
        self.extra_ids = extra_ids
        self.digest = hashlib.sha256(model + b"\nextra_ids=%d" % extra_ids).hexdigest()
        self._processor = _processor(with_sentinels(model, extra_ids), name) if extra_ids else own
        self.size = self._processor.GetPieceSize()
        self.unk_id = self._processor.unk_id()
        self.eos_id = self._processor.eos_id()
        # A file trained without a padding piece: id 0 is what T5 pads with.
        self.pad_id = max(self._processor.pad_id(), 0)
        if self.lower:
            self.cls_id, self.sep_id, self.mask_id = (ids[mark] for mark in ALBERT_PIECES)
            self.eos_id = ids["[SEP]"]
        if self.eos_id < 0:
            raise VocabularyError(
                f"vocabulary {name!r} has no end-of-text piece, which every encoder input ends "
                "in. Train it with eos_id=1, as T5's."
            )
        self._word_start = self._processor.PieceToId(WORD_START)

    def encode(self, text: str) -> list[int]:
        if self.lower:
            return self._encode_albert(text)
        ids = list(self._processor.EncodeAsIds(text))
        if not SENTINEL_TEXT.search(text):
            return ids
        following = [*ids[1:], None]
        return [
            token
            for token, after in zip(ids, following, strict=True)
            if not (token == self._word_start and after in self._sentinel_numbers)
        ]

    def _encode_albert(self, text: str) -> list[int]:
        """Masks are cut out first: no processor of a control piece spells them."""
        ids: list[int] = []
        for number, part in enumerate(text.split("[MASK]")):
            if number:
                ids.append(self.mask_id or 0)
            plain = unicodedata.normalize("NFKD", part.replace("``", '"').replace("''", '"'))
            plain = "".join(c for c in plain if not unicodedata.combining(c)).lower()
            ids += self._processor.EncodeAsIds(plain) if plain.strip() else []
        return ids

    def decode(self, ids: Sequence[int]) -> str:
        return self._processor.DecodeIds([int(token) for token in ids])

    def pieces(self, ids: Sequence[int]) -> list[str]:
        shown = []
        for token in ids:
            k = self.sentinel_number(token)
            piece = f"<extra_id_{k}>" if k is not None else self._processor.IdToPiece(int(token))
            shown.append(piece)
        return shown

    def _find_sentinels(self) -> tuple[int, ...]:
        found: list[int] = []
        while True:
            for spelling in (f"<extra_id_{len(found)}>", f"{WORD_START}<extra_id_{len(found)}>"):
                token = self._processor.PieceToId(spelling)
                if token != self.unk_id:
                    found.append(token)
                    break
            else:
                return tuple(found)


def with_sentinels(model: bytes, extra_ids: int) -> bytes:
    """The serialised model with `<extra_id_{E-1}>` .. `<extra_id_0>` as its last pieces.

    A SentencePiece model is a protocol buffer whose field 1 repeats the pieces, each with piece
    (1, text), score (2, float) and type (3, 4 = user-defined); what is appended to the bytes is
    appended to the list. So no generated protobuf module is needed, whose version would have to
    agree with that of every other library in the process.
    """
    added = []
    for k in reversed(range(extra_ids)):
        text = f"<extra_id_{k}>".encode()
        piece = b"\x0a" + bytes([len(text)]) + text + b"\x15" + struct.pack("<f", 0.0) + b"\x18\x04"
        added.append(b"\x0a" + bytes([len(piece)]) + piece)
    return model + b"".join(added)


def _processor(model: bytes, name: str) -> Any:
    import sentencepiece

    processor = sentencepiece.SentencePieceProcessor()
    try:
        loaded = bool(model) and processor.LoadFromSerializedProto(model)
    except RuntimeError:
        loaded = False
    if not loaded:
        raise VocabularyError(
            f"vocabulary {name!r} is no SentencePiece model ({len(model)} bytes do not parse). "
            "Git LFS pointers and truncated downloads look like this."
        )
    return processor
