"""Where each token of a prompt goes under one masking pattern: positions, not yet ids."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray


@dataclass(frozen=True)
class Prompt:
    """Prompt tokens r_{start+1} .. r_stop: the half-open range [start, stop), 0-based."""

    start: int
    stop: int

    def __post_init__(self) -> None:
        if not 0 <= self.start < self.stop:
            raise ValueError(f"Prompt needs 0 <= start < stop. Got [{self.start}, {self.stop}).")


@dataclass(frozen=True)
class Sentinel:
    """The sentinel x_k, `<extra_id_k>`."""

    k: int


@dataclass(frozen=True)
class Answer:
    """Answer tokens y_{start+1} .. y_stop, which all candidates share; half-open, 0-based."""

    start: int
    stop: int


Piece: TypeAlias = Prompt | Sentinel | Answer


@dataclass(frozen=True)
class NotApplicable:
    """A pattern that does not fit an example, and why (for records and `inspect`)."""

    reason: str


@dataclass(frozen=True)
class Layout:
    """One masked prompt.

    encoder  pieces of the encoder input; `</s>` is put behind them.
    prefix   decoder targets before the answer, x_0 to the last sentinel (empty for Flan's
             baseline). The answer's tokens follow it, and they alone are scored.

    Together the pieces hold each prompt token exactly once, and possibly the first tokens of the
    answer, which are then not scored.
    """

    encoder: tuple[Piece, ...]
    prefix: tuple[Piece, ...]

    @property
    def num_sentinels(self) -> int:
        """How many sentinels a vocabulary must have for this layout."""
        used = [p.k for p in (*self.encoder, *self.prefix) if isinstance(p, Sentinel)]
        return 1 + max(used) if used else 0

    @property
    def encoder_length(self) -> int:
        """S: tokens of the encoder input, `</s>` included."""
        return 1 + _length(self.encoder)

    @property
    def prefix_length(self) -> int:
        """P: decoder targets before the answer."""
        return _length(self.prefix)

    @property
    def moved(self) -> int:
        """Tokens at the answer's start that the encoder is shown."""
        return sum(p.stop - p.start for p in self.encoder if isinstance(p, Answer))

    def encoder_ids(
        self,
        prompt_ids: ArrayLike,
        sentinel: Callable[[int], int],
        eos_id: int,
        answer_ids: ArrayLike = (),
    ) -> NDArray[np.int32]:
        """Encoder input, int32 [S], with `</s>` at its end.

        Args:
          prompt_ids: int [n], the mode word's tokens among them.
          sentinel: k -> id of `<extra_id_k>`, `Vocabulary.sentinel`.
          eos_id: id of `</s>`.
          answer_ids: int [>= moved], tokens with which every candidate begins.
        """
        ids = _ids(self.encoder, prompt_ids, sentinel, answer_ids)
        return np.append(ids, np.int32(eos_id))

    def prefix_ids(
        self, prompt_ids: ArrayLike, sentinel: Callable[[int], int]
    ) -> NDArray[np.int32]:
        """Decoder targets before the answer, int32 [P]."""
        return _ids(self.prefix, prompt_ids, sentinel)

    def encoder_pieces(
        self, pieces: Sequence[str], eos: str = "</s>", answer: Sequence[str] = ()
    ) -> list[str]:
        """Display strings of the encoder input, sentinels as `<extra_id_k>`."""
        return [*_pieces(self.encoder, pieces, answer), eos]

    def prefix_pieces(self, pieces: Sequence[str]) -> list[str]:
        """Display strings of the decoder targets before the answer."""
        return _pieces(self.prefix, pieces)


def _length(parts: Sequence[Piece]) -> int:
    return sum(1 if isinstance(p, Sentinel) else p.stop - p.start for p in parts)


def _ids(
    parts: Sequence[Piece],
    prompt_ids: ArrayLike,
    sentinel: Callable[[int], int],
    answer_ids: ArrayLike = (),
) -> NDArray[np.int32]:
    prompt = np.asarray(prompt_ids, dtype=np.int32)
    answer = np.asarray(answer_ids, dtype=np.int32)
    ids = np.empty(_length(parts), dtype=np.int32)
    at = 0
    for part in parts:
        if isinstance(part, Sentinel):
            ids[at] = sentinel(part.k)
            at += 1
        else:
            source = answer if isinstance(part, Answer) else prompt
            ids[at : at + part.stop - part.start] = source[part.start : part.stop]
            at += part.stop - part.start
    return ids


def _pieces(parts: Sequence[Piece], pieces: Sequence[str], answer: Sequence[str] = ()) -> list[str]:
    shown: list[str] = []
    for part in parts:
        if isinstance(part, Sentinel):
            shown.append(f"<extra_id_{part.k}>")
        else:
            source = answer if isinstance(part, Answer) else pieces
            shown.extend(source[part.start : part.stop])
    return shown
