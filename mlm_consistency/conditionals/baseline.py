"""Baseline: the whole prompt, then one sentinel for the answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from mlm_consistency.conditionals.conditional import Conditional
from mlm_consistency.conditionals.layout import Layout, NotApplicable, Prompt, Sentinel
from mlm_consistency.errors import ConfigError


@dataclass(frozen=True)
class Baseline(Conditional):
    """The pattern that the model's users know.

    prompt           a b c d e f
    encoder          a b c d e f x0 </s>
    decoder targets  x0 | y                      | scored from here

    Flan: encoder    a b c d e f </s>
          targets    | y
    """

    @property
    def pattern(self) -> str:
        return "baseline"

    @classmethod
    def from_arguments(cls, arguments: tuple[str, ...], mode: str | None) -> Self:
        if arguments:
            raise ConfigError(f"conditional 'baseline' takes no arguments. Got {arguments}.")
        return cls(mode=mode)

    def _with_sentinels(self, n: int) -> Layout | NotApplicable:
        return Layout(encoder=(Prompt(0, n), Sentinel(0)), prefix=(Sentinel(0),))

    def _plain(self, n: int) -> Layout | NotApplicable:
        return Layout(encoder=(Prompt(0, n),), prefix=())
