"""Preferences of a T5-style model between two wordings, asked in two ways.

- bigram: x1 x2 against y1 x2. Joint (both words masked): log p(x1) p(x2|x1) - log p(y1) p(x2|y1);
  conditional (one masked): log p(x1|x2) - log p(y1|x2).
- n-gram: one last-5-words against another, with 5 words masked and with 10.

A model with one joint distribution prefers by the same amount both ways (Young et al.,
arXiv 2301.00068). Nats. Whether the probability of the closing sentinel is in must be said: it is
the last token of every span, and a model spends probability on ending there.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mlm_consistency.errors import AnalysisError


@dataclass(frozen=True)
class PreferenceSummary:
    """n pairs; |joint - conditional| as mean and median (nats); share whose signs differ
    ("the model confuses its own preference"); ties (a preference of exactly 0) never do."""

    n: int
    mean: float
    median: float
    flips: float


def span_preference(
    log_original: np.ndarray, log_proposed: np.ndarray, *, closing_sentinel: bool = False
) -> np.ndarray:
    """log p(original span) - log p(proposed span), [...] nats.

    Args:
      log_original, log_proposed: [..., M] per-token log-probabilities of the two spans, the
        closing sentinel's last.
      closing_sentinel: whether that last one counts.
    """
    stop = None if closing_sentinel else -1
    original, proposed = np.asarray(log_original), np.asarray(log_proposed)
    return original[..., :stop].sum(axis=-1) - proposed[..., :stop].sum(axis=-1)


def preference_confused(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Whether two preferences [N] have opposite signs, [N] bool."""
    return np.sign(first) * np.sign(second) < 0


def summarize_preferences(first: np.ndarray, second: np.ndarray) -> PreferenceSummary:
    """Compares two ways of asking for the same preferences, [N] nats each.

    Raises:
      AnalysisError: when the lengths differ, nothing is there, or a preference is not finite.
    """
    first, second = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    if first.ndim != 1 or first.shape != second.shape or not first.size:
        raise AnalysisError(f"needs two equal lists [N]. Got {first.shape} and {second.shape}.")
    bad = ~(np.isfinite(first) & np.isfinite(second))
    if bad.any():
        raise AnalysisError(
            f"pair {int(np.flatnonzero(bad)[0])} has a preference that is not finite (a span of "
            "probability zero): drop it and count it as lost"
        )
    gap = np.abs(first - second)
    return PreferenceSummary(
        int(gap.size), float(gap.mean()), float(np.median(gap)),
        float(preference_confused(first, second).mean()),
    )  # fmt: skip


def ngram_preferences(ends: Sequence[Any], closing_sentinel: bool) -> dict[str, Any]:
    """The preference for the true end, a short n-gram masked against a long one, as JSON values.

    Args:
      ends: for each text `short_original`, `short_proposed`, `long_original` and `long_proposed`:
        nats a token, the closing sentinel's last (what `scoring.span_ngrams` gives).
      closing_sentinel: whether that last one counts.
    """
    short, long = (
        np.array(
            [
                span_preference(
                    getattr(end, f"{kind}_original"),
                    getattr(end, f"{kind}_proposed"),
                    closing_sentinel=closing_sentinel,
                )
                for end in ends
            ]
        )
        for kind in ("short", "long")
    )
    return dataclasses.asdict(summarize_preferences(short, long))
