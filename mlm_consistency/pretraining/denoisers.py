"""UL2's mixture of denoisers on token ids, plus denoisers that mask the answer of a story.

Every denoiser cuts spans out of a text and asks for them again. With spans masked at
``t0 = [1..2]`` and ``t1 = [5]`` of ``a b c d e f g``::

    inputs    a  x_0  d  e  x_1  g          without </s>
    targets   x_0  b  c  x_1  f  x_2        with the closing sentinel, without </s>

``</s>`` is left to the caller, who appends it to both. The mode word (``[NLU]`` R, ``[S2S]``
S, ``[NLG]`` X) stands before the inputs and is never masked.

==============  ==========  ==============================================================
denoiser        mode words  masks
==============  ==========  ==============================================================
R               NLU         15 % of the tokens, spans of 3 or 8 on average
S               S2S         everything after a random point (prefix language model)
X               NLG         half of the tokens, or long spans
answer          any         the answer at the end, nothing else
answer + spans  any         the answer, and one to three short spans before it
==============  ==========  ==============================================================

The last two ask as the scorer asks: the answer belongs to the last sentinel, at the very end.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np

MODE_WORDS = ("[NLU]", "[S2S]", "[NLG]")

# Fewer kept prompt tokens than this and no extra span is masked.
_KEPT_AT_LEAST = 5


class Masks(Enum):
    """Which part of the text a denoiser masks."""

    SPANS = "spans"
    SUFFIX = "suffix"
    ANSWER = "answer"


@dataclass(frozen=True, slots=True)
class Denoiser:
    """One way to mask a text.

    Attributes:
        name: for logs and counts.
        masks: which part is masked.
        mode_words: one of these, drawn uniformly, stands before the inputs.
        density: share of masked tokens (``SPANS``).
        mean_span: average length of a span in tokens (``SPANS``).
        extra_spans: at most so many spans before the answer, at least one if not 0 (``ANSWER``).
        longest_extra: those have 1 to this many tokens, uniformly.
        extra_reach: they lie within so many tokens before the answer; None is anywhere.
    """

    name: str
    masks: Masks
    mode_words: tuple[str, ...]
    density: float = 0.15
    mean_span: float = 3.0
    extra_spans: int = 0
    longest_extra: int = 5
    extra_reach: int | None = None

    def __post_init__(self) -> None:
        """Refuse settings that mask nothing or everything."""
        if not 0 < self.density < 1:
            raise ValueError(f"denoiser {self.name}: density {self.density} is not in (0, 1)")
        if self.mean_span < 1 or self.longest_extra < 1 or self.extra_spans < 0:
            raise ValueError(f"denoiser {self.name}: spans need at least one token")
        if not self.mode_words:
            raise ValueError(f"denoiser {self.name}: no mode word")


@dataclass(frozen=True, slots=True)
class Mixture:
    """Denoisers and how often each is drawn; rates need not add up to one."""

    denoisers: tuple[Denoiser, ...]
    rates: tuple[float, ...]

    def __post_init__(self) -> None:
        """Refuse a table whose columns do not match."""
        if len(self.denoisers) != len(self.rates) or min(self.rates) < 0 or not sum(self.rates):
            raise ValueError("a mixture needs one rate, not negative, for each denoiser")

    def draw(self, rng: np.random.Generator) -> Denoiser:
        """One denoiser, by rate."""
        edges = np.cumsum(self.rates)
        return self.denoisers[int(np.searchsorted(edges, rng.random() * edges[-1], "right"))]


def _spans(mode: str, letter: str, mean_span: float, density: float) -> Denoiser:
    name = f"{letter}_{mean_span:g}_{round(100 * density)}"
    return Denoiser(name, Masks.SPANS, (mode,), density=density, mean_span=mean_span)


_TABLE: tuple[tuple[Denoiser, float], ...] = (
    (Denoiser("answer", Masks.ANSWER, MODE_WORDS), 0.55),
    (Denoiser("answer_spans", Masks.ANSWER, MODE_WORDS, extra_spans=3), 0.10),
    (
        Denoiser("answer_spans_near", Masks.ANSWER, MODE_WORDS, extra_spans=3, extra_reach=24),
        0.05,
    ),
    (_spans("[NLU]", "R", 3, 0.15), 0.075),
    (_spans("[NLU]", "R", 8, 0.15), 0.075),
    (Denoiser("S", Masks.SUFFIX, ("[S2S]",)), 0.05),
    (_spans("[NLG]", "X", 3, 0.5), 0.025),
    (_spans("[NLG]", "X", 8, 0.5), 0.025),
    (_spans("[NLG]", "X", 32, 0.15), 0.025),
    (_spans("[NLG]", "X", 64, 0.5), 0.025),
)
MIXTURE = Mixture(tuple(d for d, _ in _TABLE), tuple(rate for _, rate in _TABLE))

# UL2's own three, for text that has no answer.
UL2_MIXTURE = Mixture(
    tuple(d for d, _ in _TABLE if d.masks is not Masks.ANSWER),
    tuple(rate for d, rate in _TABLE if d.masks is not Masks.ANSWER),
)


def denoise(
    tokens: np.ndarray,
    rng: np.random.Generator,
    config: Denoiser,
    sentinel: Callable[[int], int],
    answer_length: int = 0,
) -> tuple[np.ndarray, np.ndarray]:
    """Mask ``tokens`` as ``config`` says.

    Args:
        tokens: ids of the text, [N], mode word and ``</s>`` not among them, N >= 2.
        rng: source of the random choices.
        config: the denoiser.
        sentinel: id of ``<extra_id_k>`` for k.
        answer_length: how many of the last tokens are the answer; ``ANSWER`` needs it.

    Returns:
        ``(inputs, targets)``: the text with one sentinel for each span, without mode word and
        ``</s>``; and ``x_0 span_0 x_1 span_1 .. x_k``, closing sentinel in, ``</s>`` not.
    """
    length = len(tokens)
    if length < 2:
        raise ValueError(f"a text of {length} tokens cannot be masked in part")
    if config.masks is Masks.SUFFIX:
        spans = [(int(rng.integers(1, length)), length)]
    elif config.masks is Masks.SPANS:
        spans = _random_spans(length, rng, config)
    else:
        if not 0 < answer_length < length:
            raise ValueError(f"{config.name}: answer of {answer_length} in {length} tokens")
        start = length - answer_length
        spans = [*_extra_spans(start, rng, config), (start, length)]
    return cut(tokens, spans, sentinel)


def cut(
    tokens: np.ndarray, spans: Sequence[tuple[int, int]], sentinel: Callable[[int], int]
) -> tuple[np.ndarray, np.ndarray]:
    """Replace each ``[start, end)`` by a sentinel; spans are sorted and do not touch."""
    inputs: list[int] = []
    targets: list[int] = []
    at = 0
    for number, (start, end) in enumerate(spans):
        mark = sentinel(number)
        inputs.extend(tokens[at:start])
        inputs.append(mark)
        targets.append(mark)
        targets.extend(tokens[start:end])
        at = end
    inputs.extend(tokens[at:])
    targets.append(sentinel(len(spans)))
    return np.asarray(inputs, np.int32), np.asarray(targets, np.int32)


def restore(inputs: np.ndarray, targets: np.ndarray, sentinel: Callable[[int], int]) -> np.ndarray:
    """The text that ``inputs`` and ``targets`` came from; the inverse of ``cut``."""
    text: list[int] = []
    number = 0
    asked, answered = list(map(int, inputs)), list(map(int, targets))
    for token in asked:
        if token == sentinel(number):
            start = answered.index(sentinel(number)) + 1
            text.extend(answered[start : answered.index(sentinel(number + 1))])
            number += 1
        else:
            text.append(token)
    return np.asarray(text, np.int32)


def denoise_answer(
    prompt: np.ndarray,
    answer: np.ndarray,
    rng: np.random.Generator,
    mixture: Mixture,
    mode_ids: Mapping[str, Sequence[int]],
    sentinel: Callable[[int], int],
) -> tuple[np.ndarray, np.ndarray, Denoiser]:
    """Draw a denoiser and a mode word and mask prompt + answer.

    ``mode_ids`` gives the pieces of each mode word. Returns inputs with the mode word in
    front, targets (as ``denoise``), and the denoiser that was drawn.
    """
    config = mixture.draw(rng)
    mode = config.mode_words[int(rng.integers(len(config.mode_words)))]
    tokens = np.concatenate([prompt, answer])
    inputs, targets = denoise(tokens, rng, config, sentinel, answer_length=len(answer))
    return np.concatenate([np.asarray(mode_ids[mode], np.int32), inputs]), targets, config


def _random_spans(length: int, rng: np.random.Generator, config: Denoiser) -> list[tuple[int, int]]:
    """Spans of ``mean_span`` on average that cover ``density`` of the text, anywhere in it.

    As in T5, masked and kept tokens are each cut into random pieces that alternate; unlike
    there, the text may start with a masked piece and may end with a kept one.
    """
    masked = min(max(round(length * config.density), 1), length - 1)
    kept = length - masked
    count = min(max(round(masked / config.mean_span), 1), masked, kept + 1)
    spans, gaps = _pieces(masked, count, rng), _pieces(kept + 2, count + 1, rng)
    gaps[0] -= 1
    gaps[-1] -= 1
    starts = np.cumsum(gaps[:-1]) + np.cumsum(spans) - spans
    return [(int(start), int(start + size)) for start, size in zip(starts, spans, strict=True)]


def _pieces(total: int, count: int, rng: np.random.Generator) -> np.ndarray:
    """``total`` cut into ``count`` pieces of at least one, all cuts equally likely."""
    cuts = np.sort(rng.choice(total - 1, count - 1, replace=False)) + 1
    return np.diff(np.concatenate([[0], cuts, [total]]))


def _extra_spans(start: int, rng: np.random.Generator, config: Denoiser) -> list[tuple[int, int]]:
    """Short spans before the answer at ``start``, apart from it and from one another."""
    if not config.extra_spans:
        return []
    room = start if config.extra_reach is None else min(start, config.extra_reach)
    count = int(rng.integers(1, config.extra_spans + 1))
    sizes = rng.integers(1, config.longest_extra + 1, count)
    # One kept token after each span, and some of the prompt must stay in sight.
    while count and (sizes.sum() + count > room or start - sizes.sum() < _KEPT_AT_LEAST):
        count -= 1
        sizes = sizes[:count]
    if not count:
        return []
    gaps = _pieces(int(room - sizes.sum()) + 1, count + 1, rng)
    gaps[0] -= 1
    starts = start - room + np.cumsum(gaps[:-1]) + np.cumsum(sizes) - sizes
    return [(int(at), int(at + size)) for at, size in zip(starts, sizes, strict=True)]
