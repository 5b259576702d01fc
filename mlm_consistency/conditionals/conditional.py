"""A conditional: one masking pattern through which the model is asked for p(y | r)."""

from __future__ import annotations

import abc
from dataclasses import dataclass, field
from typing import Self

from mlm_consistency.conditionals.layout import Layout, NotApplicable
from mlm_consistency.errors import ConfigError

# family -> what its models were trained to read (reference: Young, Chen, You 2024, section 3).
FAMILIES = {
    "t5": "sentinels; no mode word",
    "ul2": "sentinels; a mode word as text in front of the prompt",
    "flan": "plain text to text: no sentinels, no mode word",
}
# UL2's mode words, and the names of the denoisers that they stand for.
MODES = {"NLU": "NLU", "NLG": "NLG", "S2S": "S2S", "R": "NLU", "X": "NLG", "S": "S2S"}


def check_family(family: str) -> str:
    """`family`, if it is one.

    Raises:
      ConfigError: naming the families there are.
    """
    if family not in FAMILIES:
        raise ConfigError(f"unknown family {family!r}. Known: {', '.join(FAMILIES)}.")
    return family


def mode_word(mode: str | None) -> str:
    """The mode word of `mode`: "NLG" of "NLG", "[NLG]" or "X"; "" of None and "".

    Raises:
      ConfigError: if it is none of UL2's modes.
    """
    if not mode:
        return ""
    key = mode.strip().strip("[]").upper()
    if key not in MODES:
        raise ConfigError(f"unknown mode {mode!r}. Known: NLU (R), NLG (X), S2S (S), or none.")
    return MODES[key]


def with_mode_word(prompt: str, mode: str) -> str:
    """The text that is tokenised, as one string: `[NLG] ` in front of the prompt for UL2."""
    return f"[{mode}] {prompt}" if mode else prompt


@dataclass(frozen=True)
class Conditional(abc.ABC):
    """One masking pattern; pure, hashable, and named so that records can be read back.

    Attributes:
      mode: UL2 mode word that this conditional uses in place of the run's ("NLU" in
        `baseline@NLU`); None: the run's.
    """

    mode: str | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        if self.mode is not None:
            object.__setattr__(self, "mode", mode_word(self.mode))

    @property
    @abc.abstractmethod
    def pattern(self) -> str:
        """Name without the mode: "baseline", "offset_3", "span_3_5_2"."""

    @classmethod
    @abc.abstractmethod
    def from_arguments(cls, arguments: tuple[str, ...], mode: str | None) -> Self:
        """From the parts of a name: `span_3_5_2` calls it with ("3", "5", "2").

        Raises:
          ConfigError: if the number or the kind of the arguments is wrong.
        """

    @abc.abstractmethod
    def _with_sentinels(self, n: int) -> Layout | NotApplicable:
        """Layout for T5 and UL2."""

    @abc.abstractmethod
    def _plain(self, n: int) -> Layout | NotApplicable:
        """Layout for Flan, which has no sentinels."""

    @property
    def name(self) -> str:
        """Name in configuration and records: the pattern, and `@MODE` where it has its own."""
        return self.pattern if self.mode is None else f"{self.pattern}@{self.mode or 'none'}"

    def layout(self, n: int, family: str = "t5", shared: int = 0) -> Layout | NotApplicable:
        """Where the n prompt tokens (mode word included) go.

        Args:
          n: tokens of the prompt.
          family: t5, ul2 or flan.
          shared: tokens with which all candidates begin, each having at least one more; only
            negative offsets ask for it.

        Returns:
          The layout, or NotApplicable with a reason if the pattern does not fit.

        Raises:
          ConfigError: if `family` is none of t5, ul2, flan.
        """
        check_family(family)
        if n < 1:
            return NotApplicable("the prompt has no tokens")
        if self.mode and family != "ul2":
            return NotApplicable(f"family {family} has no mode words (asked for {self.mode})")
        return self._plain(n) if family == "flan" else self._with_sentinels(n)

    def __str__(self) -> str:
        return self.name


def positive(text: str, what: str, name: str) -> int:
    """`text` as a whole number >= 1.

    Raises:
      ConfigError: naming the conditional and the argument.
    """
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise ConfigError(
            f"conditional {name!r}: {what} must be a whole number >= 1. Got {text!r}."
        )
    return int(text)
