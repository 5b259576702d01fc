"""Vocabularies read through the `tokenizers` library: tokenizer.json, WordPiece, byte-level BPE."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from mlm_consistency.errors import VocabularyError
from mlm_consistency.vocabularies.base import Vocabulary

# What the families call their special pieces, first match counts.
SPECIAL_PIECES = {
    "pad": ("<pad>", "[PAD]"),
    "eos": ("</s>", "[SEP]", "<eos>", "<|endoftext|>"),
    "unk": ("<unk>", "[UNK]"),
    "mask": ("<mask>", "[MASK]"),
    "cls": ("<s>", "[CLS]"),
    "sep": ("</s>", "[SEP]"),
}


class TokenizerVocabulary(Vocabulary):
    """A `tokenizers.Tokenizer` behind the interface of a Vocabulary.

    Args:
      tokenizer: the tokenizer; its post-processor (which would add `</s>` or `[CLS]`) is not run.
      digest: sha256 of the files that it was made from.
      name: for records and messages.

    Raises:
      VocabularyError: if there is no end piece or no unknown piece.
    """

    def __init__(self, tokenizer: Any, digest: str, name: str):
        self.name = name
        self.digest = digest
        self._tokenizer = tokenizer
        self.size = tokenizer.get_vocab_size(with_added_tokens=True)
        self.eos_id = self._required("eos")
        self.unk_id = self._required("unk")
        pad = self._special("pad")
        self.pad_id = 0 if pad is None else pad
        self.mask_id = self._special("mask")
        self.cls_id = self._special("cls")
        self.sep_id = self._special("sep")

    def _special(self, role: str) -> int | None:
        found = (self._tokenizer.token_to_id(piece) for piece in SPECIAL_PIECES[role])
        return next((token for token in found if token is not None), None)

    def _required(self, role: str) -> int:
        token = self._special(role)
        if token is None:
            raise VocabularyError(
                f"vocabulary {self.name!r} has none of {', '.join(SPECIAL_PIECES[role])}, which "
                f"is needed as its {role} piece."
            )
        return token

    def encode(self, text: str) -> list[int]:
        return list(self._tokenizer.encode(text, add_special_tokens=False).ids)

    def decode(self, ids: Sequence[int]) -> str:
        return self._tokenizer.decode([int(t) for t in ids], skip_special_tokens=False)

    def pieces(self, ids: Sequence[int]) -> list[str]:
        return [self._tokenizer.id_to_token(int(token)) or f"<{int(token)}>" for token in ids]

    def _find_sentinels(self) -> tuple[int, ...]:
        found: list[int] = []
        while (token := self._tokenizer.token_to_id(f"<extra_id_{len(found)}>")) is not None:
            found.append(token)
        return tuple(found)


def from_tokenizer_json(content: bytes, name: str) -> TokenizerVocabulary:
    """Reads a Hugging Face `tokenizer.json`.

    Raises:
      VocabularyError: if `tokenizers` cannot read it.
    """
    from tokenizers import Tokenizer

    try:
        tokenizer = Tokenizer.from_str(content.decode("utf-8"))
    except Exception as error:
        raise VocabularyError(
            f"vocabulary {name!r} is no readable tokenizer.json: {error}"
        ) from error
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return TokenizerVocabulary(tokenizer, hashlib.sha256(content).hexdigest(), name)


def from_wordpiece(content: bytes, name: str, lowercase: bool | None = None) -> TokenizerVocabulary:
    """Reads BERT's `vocab.txt`: one piece a line, its line number is its id.

    Args:
      lowercase: whether text is lower-cased and stripped of accents; None: it is where no piece
        of the file has a capital letter (special pieces in brackets aside).
    """
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers

    lines = content.decode("utf-8").split("\n")
    if lines and not lines[-1]:
        lines.pop()
    pieces = {line.rstrip("\r"): index for index, line in enumerate(lines)}
    _require(pieces, ("[UNK]", "[CLS]", "[SEP]", "[MASK]"), name, "a WordPiece vocab.txt")
    if lowercase is None:
        words = (p for p in pieces if not p.startswith("["))
        lowercase = not any("A" <= character <= "Z" for word in words for character in word)
    tokenizer = Tokenizer(models.WordPiece(pieces, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=lowercase)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece(prefix="##")
    special = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
    tokenizer.add_special_tokens([piece for piece in special if piece in pieces])
    digest = hashlib.sha256(content + b"\nlowercase=%d" % lowercase).hexdigest()
    return TokenizerVocabulary(tokenizer, digest, name)


def from_byte_pairs(vocab: bytes, merges: bytes, name: str) -> TokenizerVocabulary:
    """Reads RoBERTa's `vocab.json` and `merges.txt` (byte-level BPE; no space is put in front)."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

    try:
        pieces = json.loads(vocab)
    except ValueError as error:
        raise VocabularyError(f"vocabulary {name!r}: vocab.json is not JSON: {error}") from error
    _require(pieces, ("<unk>", "</s>", "<mask>"), name, "a RoBERTa vocab.json")
    pairs = []
    for number, line in enumerate(merges.decode("utf-8").splitlines(), start=1):
        if line.startswith("#version") or not line.strip():
            continue
        pair = line.split(" ")
        if len(pair) != 2:
            raise VocabularyError(
                f"vocabulary {name!r}: merges.txt line {number} is not two pieces: {line!r}"
            )
        pairs.append((pair[0], pair[1]))
    tokenizer = Tokenizer(models.BPE(pieces, pairs, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    special = [p for p in ("<s>", "<pad>", "</s>", "<unk>") if p in pieces]
    # The mask takes the space in front of it, so that " <mask>" is one token and a word.
    tokenizer.add_special_tokens([*special, AddedToken("<mask>", lstrip=True)])
    digest = hashlib.sha256(vocab + b"\n" + merges).hexdigest()
    return TokenizerVocabulary(tokenizer, digest, name)


def _require(pieces: Mapping[str, int], wanted: Sequence[str], name: str, what: str) -> None:
    missing = [piece for piece in wanted if piece not in pieces]
    if missing:
        raise VocabularyError(f"vocabulary {name!r} is not {what}: it lacks {', '.join(missing)}.")
