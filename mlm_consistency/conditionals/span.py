"""Spans (L, G, S): several masks before the answer's own; S fixed, or sized by the prompt."""

from __future__ import annotations

import abc
import re
from dataclasses import dataclass
from typing import Self

from mlm_consistency.conditionals.conditional import Conditional, positive
from mlm_consistency.conditionals.layout import Layout, NotApplicable, Piece, Prompt, Sentinel
from mlm_consistency.errors import ConfigError

FORMS = "span_L_G_S (span_3_5_2), span_L_G_auto or span_L_G_50pct"
# The authors' `auto`: the encoder input of the baseline, 12 tokens kept free, filled with spans.
AUTO_TOKENS_FREE = 12
BASELINE_EXTRA_TOKENS = 2  # x_0 and </s>


@dataclass(frozen=True)
class _Spans(Conditional, abc.ABC):
    """What the kinds of span patterns have in common: S blocks of [span][gap] at the end."""

    span: int
    gap: int

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.span < 1 or self.gap < 1:
            raise ConfigError(
                f"conditional {self.pattern!r}: span and gap must be >= 1. "
                f"Got L={self.span}, G={self.gap}."
            )

    @abc.abstractmethod
    def num_spans(self, n: int) -> int:
        """S for a prompt of n tokens."""

    def _with_sentinels(self, n: int) -> Layout | NotApplicable:
        count = self.num_spans(n)
        block = self.span + self.gap
        start = n - count * block
        if count < 1:
            return NotApplicable(f"{self.pattern} gives a prompt of {n} tokens no span")
        if start < 1:
            return NotApplicable(
                f"{self.pattern} needs {count * block + 1} prompt tokens, the prompt has {n}"
            )
        encoder: list[Piece] = [Prompt(0, start)]
        prefix: list[Piece] = []
        for k in range(count):
            at = start + k * block
            encoder += [Sentinel(k), Prompt(at + self.span, at + block)]
            prefix += [Sentinel(k), Prompt(at, at + self.span)]
        return Layout((*encoder, Sentinel(count)), (*prefix, Sentinel(count)))

    def _plain(self, n: int) -> Layout | NotApplicable:
        return NotApplicable(f"{self.pattern} needs sentinels, which the family flan has not")


@dataclass(frozen=True)
class Span(_Spans):
    """Multispan (L, G, S): S masks of L tokens, G tokens shown after each, then the answer's mask.

        span (3,5,2)     a b c d e f g h i j k l m n o p q r s t
        encoder          a b c d x0 h i j k l x1 p q r s t x2 </s>
        decoder targets  x0 e f g x1 m n o x2 | y    | scored from here

    The last gap ends where the prompt ends: start = n - S (L + G). Not applicable where n is
    smaller than S (L + G) + 1, and to Flan, which has no sentinels.

    Attributes:
      span: L >= 1.
      gap: G >= 1.
      count: S >= 1.
    """

    count: int

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.count < 1:
            raise ConfigError(f"conditional {self.pattern!r}: S must be >= 1. Got {self.count}.")

    @property
    def pattern(self) -> str:
        return f"span_{self.span}_{self.gap}_{self.count}"

    def num_spans(self, n: int) -> int:
        return self.count

    @classmethod
    def from_arguments(cls, arguments: tuple[str, ...], mode: str | None) -> Self:
        length, gap, count = _three(arguments)
        name = "_".join(("span", *arguments))
        return cls(
            positive(length, "L", name),
            positive(gap, "G", name),
            positive(count, "S", name),
            mode=mode,
        )


@dataclass(frozen=True)
class SpanShare(_Spans):
    """Spans (L, G) that cover a share of the prompt.

        span_3_5_50pct, n = 40: S = floor(0.50 * 40 / (3 + 5)) = 2, laid as (3,5,2)

    Not applicable where the share holds no block of L + G tokens.

    Attributes:
      span, gap: L and G.
      percent: share of the prompt, 1 to 100, that the S blocks may fill.
    """

    percent: int

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 1 <= self.percent <= 100:
            raise ConfigError(
                f"conditional {self.pattern!r}: the share must be 1 to 100 percent. "
                f"Got {self.percent}."
            )

    @property
    def pattern(self) -> str:
        return f"span_{self.span}_{self.gap}_{self.percent}pct"

    def num_spans(self, n: int) -> int:
        return min(n * self.percent // 100, n - 1) // (self.span + self.gap)

    @classmethod
    def from_arguments(cls, arguments: tuple[str, ...], mode: str | None) -> Self:
        length, gap, share = _three(arguments)
        name = "_".join(("span", *arguments))
        percent = positive(share.removesuffix("pct"), "the share", name)
        return cls(positive(length, "L", name), positive(gap, "G", name), percent, mode=mode)


@dataclass(frozen=True)
class SpanAuto(_Spans):
    """Spans (L, G) that fill the prompt but for about ten tokens: the authors' `auto`.

        S = floor((E - 12) / (L + G)),  E = n + 2, the length of the baseline's encoder input

    Not applicable where that gives no span.

    Attributes:
      span, gap: L and G.
    """

    @property
    def pattern(self) -> str:
        return f"span_{self.span}_{self.gap}_auto"

    def num_spans(self, n: int) -> int:
        return max(n + BASELINE_EXTRA_TOKENS - AUTO_TOKENS_FREE, 0) // (self.span + self.gap)

    @classmethod
    def from_arguments(cls, arguments: tuple[str, ...], mode: str | None) -> Self:
        length, gap, _ = _three(arguments)
        name = "_".join(("span", *arguments))
        return cls(positive(length, "L", name), positive(gap, "G", name), mode=mode)


class SpanByName:
    """Chooses the kind of span pattern by the last part of the name."""

    @staticmethod
    def from_arguments(arguments: tuple[str, ...], mode: str | None) -> Conditional:
        last = _three(arguments)[2]
        if last == "auto":
            return SpanAuto.from_arguments(arguments, mode)
        if re.fullmatch(r"\d+pct", last):
            return SpanShare.from_arguments(arguments, mode)
        return Span.from_arguments(arguments, mode)


def _three(arguments: tuple[str, ...]) -> tuple[str, str, str]:
    if len(arguments) != 3:
        name = "_".join(("span", *arguments))
        raise ConfigError(f"conditional {name!r}: expected {FORMS}.")
    return arguments[0], arguments[1], arguments[2]
