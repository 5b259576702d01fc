"""Offset -K: the first K tokens of the answer are shown, where all candidates share them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from mlm_consistency.conditionals.conditional import Conditional, positive
from mlm_consistency.conditionals.layout import Answer, Layout, NotApplicable, Prompt, Sentinel
from mlm_consistency.errors import ConfigError


@dataclass(frozen=True)
class NegativeOffset(Conditional):
    """-K-offset: the mask begins K tokens inside the answer y = y1 .. ym.

        offset -1        a b c d e f   candidates y1 u, y1 v w
        encoder          a b c d e f y1 x0 </s>
        decoder targets  x0 | u        | scored from here
                         x0 | v w      |

        Flan: encoder    a b c d e f y1 </s>
              targets    | u

    It gives p(y_{K+1} .. y_m | r, y_1 .. y_K), a conditional of the same joint distribution only
    if the encoder sees the same text for every candidate. So it applies where all candidates of an
    example begin with the same K tokens and each has at least one more.

    The K tokens that are shown are priced as the run's first conditional, a baseline, prices them:
    log p(y | r) = log p_baseline(y_1 .. y_K | r) + log p(y_{K+1} .. y_m | r, y_1 .. y_K). Thus
    scores, sum or mean, compare with those of the other conditionals; in a coherent model they
    are equal.

    Attributes:
      tokens: K >= 1.
    """

    tokens: int

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.tokens < 1:
            raise ConfigError(f"conditional 'offset_-K': K must be >= 1. Got {self.tokens}.")

    @property
    def pattern(self) -> str:
        return f"offset_-{self.tokens}"

    @classmethod
    def from_arguments(cls, arguments: tuple[str, ...], mode: str | None) -> Self:
        name = "_".join(("offset", *arguments))
        if len(arguments) != 1:
            raise ConfigError(f"conditional {name!r}: expected offset_-K, such as offset_-1.")
        return cls(positive(arguments[0].removeprefix("-"), "K", name), mode=mode)

    def layout(self, n: int, family: str = "t5", shared: int = 0) -> Layout | NotApplicable:
        if n >= 1 and shared < self.tokens:
            return NotApplicable(
                f"offset -{self.tokens} shows {self.tokens} tokens of the answer, but the "
                f"candidates begin with {shared} that all have and leave one to score"
            )
        return super().layout(n, family, shared)

    def _with_sentinels(self, n: int) -> Layout | NotApplicable:
        shown = (Prompt(0, n), Answer(0, self.tokens), Sentinel(0))
        return Layout(encoder=shown, prefix=(Sentinel(0),))

    def _plain(self, n: int) -> Layout | NotApplicable:
        return Layout(encoder=(Prompt(0, n), Answer(0, self.tokens)), prefix=())
