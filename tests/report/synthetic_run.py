"""A made-up run of known shape: stories, candidates, and token log-probabilities that disagree.

No model and no vocabulary: prompts are split at spaces into word-start pieces, and scores are a
common preference plus noise that each conditional draws for itself, so that the conditionals
agree on most examples and contradict each other on some.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

CONDITIONALS = (
    "baseline",
    "offset_1",
    "offset_2",
    "offset_3",
    "span_3_5_1",
    "span_3_5_2",
    "span_3_3_1",
    "span_3_3_2",
    "span_3_4_1",
    "span_3_4_2",
)
HOSTILE = "<script>window.broken = true</script> & <img src=x onerror=alert(1)> </script>"
_PEOPLE = ["Tom", "Anna", "Omar", "Ines", "Bruno", "Clara", "Jonas", "Mira"]
_PLACES = ["garden", "kitchen", "cellar", "library", "attic", "garage", "hall", "porch"]
_THINGS = ["lamp", "book", "basket", "ladder", "kettle", "letter", "parcel", "coat"]
_SUBJECTS = ["place", "owner", "count", "order"]


@dataclass(frozen=True)
class MadeUpExample:
    """One example: its texts, its labels and the prompt's display pieces."""

    id: str
    subject: str
    prompt: str
    pieces: tuple[str, ...]
    candidates: tuple[str, ...]
    label: int


@dataclass(frozen=True)
class MadeUpTask:
    """Examples and `log_probs` [N][K][C] -> float32 [m_c] (nats), None where not applicable."""

    name: str
    examples: tuple[MadeUpExample, ...]
    log_probs: list[list[list[np.ndarray] | None]]


def _story(rng: np.random.Generator, sentences: int) -> str:
    parts = []
    for _ in range(sentences):
        who, thing = rng.choice(_PEOPLE), rng.choice(_THINGS)
        parts.append(f"{who} took the {thing} to the {rng.choice(_PLACES)}.")
    return " ".join(parts) + f" Now the {rng.choice(_THINGS)} is in the"


def made_up_task(name: str, examples: int, candidates: int = 4, seed: int = 0) -> MadeUpTask:
    """A task of `examples` stories; about one in thirty is too short for the longest span."""
    rng = np.random.default_rng(seed)
    made, log_probs = [], []
    for index in range(examples):
        prompt = _story(rng, 1 if index % 30 == 7 else int(rng.integers(3, 7)))
        if index == 1:
            prompt = f"{HOSTILE} {prompt}"
        pieces = tuple("▁" + word for word in prompt.split(" "))
        texts = tuple(rng.choice(_PLACES, size=candidates, replace=candidates > len(_PLACES)))
        label = int(rng.integers(candidates))
        made.append(
            MadeUpExample(
                id=f"{name}-{index:05d}",
                subject=_SUBJECTS[index % len(_SUBJECTS)],
                prompt=prompt,
                pieces=pieces,
                candidates=tuple(str(text) for text in texts),
                label=label,
            )
        )
        log_probs.append(_scores(rng, len(pieces), candidates, label))
    return MadeUpTask(name, tuple(made), log_probs)


def _scores(rng, prompt_tokens: int, candidates: int, label: int) -> list:
    common = rng.normal(-3.0, 1.2, size=candidates)
    common[label] += 1.6
    rows: list[list[np.ndarray] | None] = []
    for conditional in CONDITIONALS:
        if tokens_needed(conditional) > prompt_tokens:
            rows.append(None)
            continue
        shift = rng.normal(0.0, 0.25 if conditional == "baseline" else 0.6, size=candidates)
        means = np.minimum(common + shift, -0.01)
        rows.append(
            [
                (mean + np.array([0.1, -0.1][: 1 + c % 2])).astype(np.float32)
                for c, mean in enumerate(means)
            ]
        )
    return rows


def tokens_needed(conditional: str) -> int:
    """The fewest prompt tokens under which a conditional fits (see the method's table)."""
    kind, *numbers = conditional.split("_")
    sizes = [int(number) for number in numbers]
    if kind == "baseline":
        return 1
    return sizes[0] + 5 if kind == "offset" else sizes[2] * (sizes[0] + sizes[1]) + 1
