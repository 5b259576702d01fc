"""How quantities are written: percentages, points, intervals, p-values, counts.

One place, so that the page, the terminal and the figures say a number in the same way. Shares
come in as fractions of one and leave as percent without the sign: the column or the sentence
names the unit.
"""

from __future__ import annotations

from collections.abc import Sequence

MISSING = "–"  # what a cell shows where there is nothing to say
MINUS = "−"
_WORDS = (
    "no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven",
    "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen",
    "twenty",
)  # fmt: skip


def fixed(value: float, digits: int = 1) -> str:
    """A number with a fixed count of decimals and a true minus sign; never "−0.0"."""
    # First to where floating point is exact, so that 100 * 0.5175 is 51.75 and not a hair below;
    # + 0.0 turns -0.0 into 0.0.
    rounded = round(round(value, 9), digits) + 0.0
    return f"{rounded:.{digits}f}".replace("-", MINUS)


def percent(share: float, digits: int = 1) -> str:
    """A share of one as percent: "71.2" of 0.712."""
    return fixed(100 * share, digits)


def points(difference: float, digits: int = 1) -> str:
    """A difference of two shares in percentage points with its sign: "+1.8", "0.0", "−0.4"."""
    text = percent(difference, digits)
    return f"+{text}" if text[0] != MINUS and float(text) > 0 else text


def interval(bounds: Sequence[float], digits: int = 1) -> str:
    """The bounds of a share in percent: "66.8 to 75.4"."""
    return f"{percent(bounds[0], digits)} to {percent(bounds[1], digits)}"


def p_value(p: float) -> str:
    """A p-value as one writes it in a sentence: "p = 0.12", "p < 0.001"."""
    if p < 0.001:
        return "p < 0.001"
    return f"p = {p:.3f}" if p < 0.1 else f"p = {p:.2f}"


def bare_p_value(p: float) -> str:
    """A p-value for a column that already says "p": "0.12", "< 0.001"."""
    return p_value(p).removeprefix("p ").removeprefix("= ")


def count(n: int) -> str:
    """A whole number with a thin space between thousands: "15 000"."""
    return f"{n:,}".replace(",", "\u202f")


def number_word(n: int) -> str:
    """A small count as a word ("ten"), larger ones as figures."""
    return _WORDS[n] if 0 <= n < len(_WORDS) else count(n)


def plural(n: int, noun: str) -> str:
    """A count with its noun: "1 example", "400 examples"."""
    return f"{count(n)} {noun}" if n == 1 else f"{count(n)} {noun}s"
