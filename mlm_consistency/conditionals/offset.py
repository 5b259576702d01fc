"""Offset K: the last K prompt tokens are masked together with the answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from mlm_consistency.conditionals.conditional import Conditional, positive
from mlm_consistency.conditionals.layout import Layout, NotApplicable, Piece, Prompt, Sentinel
from mlm_consistency.conditionals.negative_offset import NegativeOffset
from mlm_consistency.errors import ConfigError

MIN_PROMPT_LEFT = 5


@dataclass(frozen=True)
class Offset(Conditional):
    """K-offset: one mask that begins K tokens before the answer.

        offset 2         a b c d e f
        encoder          a b c d x0 </s>
        decoder targets  x0 e f | y                  | scored from here

        Flan: encoder    a b c d </s>
              targets    e f | y

    Not applicable where fewer than 5 prompt tokens are left in the encoder.

    Attributes:
      tokens: K >= 1.
    """

    tokens: int

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.tokens < 1:
            raise ConfigError(f"conditional 'offset': K must be >= 1. Got {self.tokens}.")

    @property
    def pattern(self) -> str:
        return f"offset_{self.tokens}"

    @classmethod
    def from_arguments(cls, arguments: tuple[str, ...], mode: str | None) -> Self:
        name = "_".join(("offset", *arguments))
        if len(arguments) != 1:
            raise ConfigError(f"conditional {name!r}: expected offset_K, such as offset_3.")
        return cls(positive(arguments[0], "K", name), mode=mode)

    def _split(self, n: int, last: tuple[Piece, ...]) -> Layout | NotApplicable:
        left = n - self.tokens
        if left < MIN_PROMPT_LEFT:
            return NotApplicable(
                f"offset {self.tokens} leaves {max(left, 0)} of {n} prompt tokens in the encoder, "
                f"fewer than {MIN_PROMPT_LEFT}"
            )
        return Layout(encoder=(Prompt(0, left), *last), prefix=(*last, Prompt(left, n)))

    def _with_sentinels(self, n: int) -> Layout | NotApplicable:
        return self._split(n, (Sentinel(0),))

    def _plain(self, n: int) -> Layout | NotApplicable:
        return self._split(n, ())


class OffsetByName:
    """Chooses the kind of offset by its sign."""

    @staticmethod
    def from_arguments(arguments: tuple[str, ...], mode: str | None) -> Conditional:
        kind = NegativeOffset if arguments and arguments[0].startswith("-") else Offset
        return kind.from_arguments(arguments, mode)
