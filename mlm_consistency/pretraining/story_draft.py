"""What a kind of story hands over, and the random choices it is made with."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")


class Dice:
    """Random choices from ``Random.random`` alone.

    Python promises the same sequence from ``random()`` in every version, but not from
    ``choice`` or ``sample``; so a story stays the same story for ever.
    """

    __slots__ = ("_draw",)

    def __init__(self, seed: int) -> None:
        self._draw = random.Random(seed).random

    def chance(self, probability: float) -> bool:
        """True with the given probability."""
        return self._draw() < probability

    def number(self, low: int, high: int) -> int:
        """A uniform integer, both ends included."""
        return low + int(self._draw() * (high - low + 1))

    def pick(self, choices: Sequence[T]) -> T:
        """One element, uniformly."""
        return choices[int(self._draw() * len(choices))]

    def some(self, choices: Sequence[T], count: int) -> list[T]:
        """``count`` distinct elements in random order."""
        found: list[T] = []
        while len(found) < count:
            one = choices[int(self._draw() * len(choices))]
            if one not in found:
                found.append(one)
        return found

    def shuffled(self, items: Sequence[T]) -> list[T]:
        """The items in random order."""
        out = list(items)
        for last in range(len(out) - 1, 0, -1):
            other = int(self._draw() * (last + 1))
            out[last], out[other] = out[other], out[last]
        return out

    def weave(self, told_in_order: Sequence[str], others: Sequence[str]) -> list[str]:
        """Put ``others`` at random places among sentences whose order matters."""
        out = list(told_in_order)
        for sentence in others:
            out.insert(int(self._draw() * (len(out) + 1)), sentence)
        return out


@dataclass(frozen=True, slots=True)
class Draft:
    """The facts of one story and what is asked of them.

    ``rivals`` are wrong answers of the same type as the answer, from the story where there
    are any; ``pool`` fills up what is missing. ``choice_form`` turns a word into a short
    answer (``"in the {}"``); ``choice_form_one`` replaces it for the number one. ``hops`` is
    the number of facts or reckoning steps that the answer needs: 1 is easy.
    """

    facts: list[str]
    closing: str
    answer: str
    rivals: Sequence[str]
    pool: Sequence[str]
    question: str
    choice_form: str = "{}"
    choice_form_one: str = ""
    hops: int = 1
