"""What every vocabulary answers: text to ids and back, and which ids are the sentinels."""

from __future__ import annotations

import abc
import re
from collections.abc import Iterable, Sequence
from functools import cached_property

from mlm_consistency.errors import VocabularyError

SENTINEL_TEXT = re.compile(r"<extra_id_(\d+)>")


class Vocabulary(abc.ABC):
    """Text <-> token ids, with the special ids that the conditionals need.

    Conventions, the same for every kind:
      * `encode` adds no `</s>`, no `[CLS]` and no padding: ids are assembled by the conditionals.
      * A text such as `<extra_id_0>` stands for that sentinel. The space in front of it is part
        of what it stands for; the text behind it keeps the space that it has: `<extra_id_0> that`
        gives `▁that`, `<extra_id_0>that` gives `that`. (So in a SentencePiece vocabulary; a
        `tokenizer.json` follows its own pre-tokeniser.)
        Prompts and candidates may not hold sentinels; `encode_example` refuses them.
      * What the vocabulary cannot spell becomes `unk_id`; `count_unknown` counts it.

    Attributes:
      name: short name for records and messages.
      size: number of ids, the sentinels among them. A model may have more rows than that.
      pad_id, eos_id, unk_id: special ids.
      mask_id, cls_id, sep_id: of BERT-style vocabularies, None elsewhere.
      digest: sha256 of the files and of the number of added sentinels, in hexadecimal.
    """

    name: str
    size: int
    pad_id: int
    eos_id: int
    unk_id: int
    digest: str
    mask_id: int | None = None
    cls_id: int | None = None
    sep_id: int | None = None

    @abc.abstractmethod
    def encode(self, text: str) -> list[int]:
        """The ids of `text`, without `</s>`."""

    @abc.abstractmethod
    def decode(self, ids: Sequence[int]) -> str:
        """The text of `ids`; sentinels as `<extra_id_k>`, unknown pieces as the file says."""

    @abc.abstractmethod
    def pieces(self, ids: Sequence[int]) -> list[str]:
        """One display string a token, with the word-start mark `▁` kept."""

    @abc.abstractmethod
    def _find_sentinels(self) -> tuple[int, ...]:
        """Ids of `<extra_id_0>`, `<extra_id_1>`, ... up to the first that is missing."""

    @cached_property
    def _sentinels(self) -> tuple[int, ...]:
        return self._find_sentinels()

    @cached_property
    def _sentinel_numbers(self) -> dict[int, int]:
        return {token: k for k, token in enumerate(self._sentinels)}

    @property
    def num_sentinels(self) -> int:
        """How many sentinels there are; 0 in BERT-style vocabularies."""
        return len(self._sentinels)

    def sentinel(self, k: int) -> int:
        """The id of `<extra_id_k>`.

        Raises:
          VocabularyError: if the vocabulary has no such sentinel.
        """
        if not 0 <= k < self.num_sentinels:
            have = f"has {self.num_sentinels}" if self.num_sentinels else "has none"
            raise VocabularyError(
                f"vocabulary {self.name!r}: sentinel <extra_id_{k}> was asked for, but it {have}. "
                "Load a T5-style vocabulary with extra_ids > "
                f"{k}, or leave out the conditionals that need as many."
            )
        return self._sentinels[k]

    def sentinel_number(self, token: int) -> int | None:
        """k if `token` is `<extra_id_k>`, otherwise None."""
        return self._sentinel_numbers.get(int(token))

    def count_unknown(self, ids: Iterable[int]) -> int:
        """How many of `ids` are the unknown piece."""
        return sum(1 for token in ids if int(token) == self.unk_id)

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({self.name!r}, size={self.size}, "
            f"sentinels={self.num_sentinels})"
        )


def split_at_sentinels(text: str) -> list[str | int]:
    """`"a <extra_id_0> b"` -> `["a ", 0, " b"]`: stretches of text and sentinel numbers."""
    parts: list[str | int] = []
    end = 0
    for match in SENTINEL_TEXT.finditer(text):
        if match.start() > end:
            parts.append(text[end : match.start()])
        parts.append(int(match.group(1)))
        end = match.end()
    if end < len(text):
        parts.append(text[end:])
    return parts
