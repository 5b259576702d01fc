"""Synthetic stories with one answer each: the text that the small model learns from.

A story is a handful of plain sentences. It can be asked in two ways from the same facts: by
its last word (``So Tom is now in the`` -> ``garden``, five candidates) and by a question with
four short answers (``Where is Tom now?`` -> ``in the garden``). The facts that decide are
mixed with facts about others and with scenery, so what is masked around the answer matters.

``generate(seed, index)`` is random access: the same pair gives the same story for ever.

Held out by construction: the facts of a story fall into one of 64 classes by their CRC-32.
``HELDOUT_SEED`` yields only stories of class 0 and every other seed only of the other
classes, so no held-out story can be a training story, whatever the seeds and indices.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from mlm_consistency.pretraining.lexicon import SCENERY
from mlm_consistency.pretraining.stories_of_people import family, objects, places
from mlm_consistency.pretraining.stories_of_reckoning import (
    counting,
    dates,
    opposites,
    ordering,
)
from mlm_consistency.pretraining.story_draft import Dice, Draft

TRAIN_SEED = 20230100
HELDOUT_SEED = 68

# Held-out indices: the shipped tasks use those below, validation starts here.
VALIDATION_START = 100_000

KINDS: dict[str, Callable[[Dice], Draft]] = {
    "places": places,
    "objects": objects,
    "counting": counting,
    "ordering": ordering,
    "dates": dates,
    "family": family,
    "opposites": opposites,
}
_KIND_NAMES = tuple(KINDS)

LAST_WORD_CANDIDATES = 5
CHOICES = 4

_HELDOUT_CLASSES = 64


@dataclass(frozen=True, slots=True)
class Story:
    """Facts, and two ways to ask for the one answer they determine.

    ``facts`` are whole sentences; ``closing`` is the last sentence without its last word,
    ``answer``. ``question`` is answered by ``choice_answer``, one of ``choices``. ``hops``
    says how many facts or reckoning steps the answer needs.
    """

    facts: str
    closing: str
    answer: str
    last_word_candidates: tuple[str, ...]
    kind: str
    question: str
    choices: tuple[str, ...]
    choice_answer: str
    hops: int

    @property
    def text(self) -> str:
        """The whole story up to and including its last word, without a full stop."""
        return f"{self.facts} {self.closing} {self.answer}"

    @property
    def last_word_prompt(self) -> str:
        """The story without its last word."""
        return f"{self.facts} {self.closing}"

    @property
    def choice_prompt(self) -> str:
        """The facts and the question, up to where the answer begins."""
        return f"{self.facts} Question: {self.question} Answer:"


@dataclass(frozen=True, slots=True)
class TrainingText:
    """A prompt and the answer that completes it, as the scorer will ask it."""

    prompt: str
    answer: str

    @property
    def text(self) -> str:
        """Prompt and answer joined by one space."""
        return f"{self.prompt} {self.answer}"

    @property
    def answer_start(self) -> int:
        """Where the answer's first character stands in ``text``; it runs to the end."""
        return len(self.prompt) + 1


def is_held_out(facts: str) -> bool:
    """Whether a story with these facts belongs to the held-out side."""
    return zlib.crc32(facts.encode()) % _HELDOUT_CLASSES == 0


def generate(seed: int, index: int) -> Story:
    """The story at ``index`` of the stream ``seed``; kinds take turns.

    Stories on the wrong side of the held-out split are drawn again, so a training story
    takes 1.02 draws and a held-out one 64 on average.
    """
    kind = _KIND_NAMES[index % len(_KIND_NAMES)]
    build = KINDS[kind]
    wanted = seed == HELDOUT_SEED
    attempt = 0
    while True:
        dice = Dice(((seed << 40) + index << 16) + attempt)
        draft = build(dice)
        facts = _with_scenery(dice, draft.facts)
        if is_held_out(facts) == wanted:
            return _finish(dice, kind, facts, draft)
        attempt += 1


def _with_scenery(dice: Dice, facts: list[str]) -> str:
    """Put sentences that decide nothing between the facts, up to a length drawn at random."""
    told = list(facts)
    words = sum(sentence.count(" ") + 1 for sentence in told)
    # One story in forty stays as short as its facts.
    target = 0 if dice.chance(0.025) else dice.number(24, 40)
    unused = list(SCENERY)
    while words < target:
        sentence = unused.pop(dice.number(0, len(unused) - 1))
        told.insert(dice.number(0, len(told)), sentence)
        words += sentence.count(" ") + 1
    return " ".join(told)


def _finish(dice: Dice, kind: str, facts: str, draft: Draft) -> Story:
    wrong = [word for word in dict.fromkeys(draft.rivals) if word != draft.answer]
    wrong = dice.shuffled(wrong)[: LAST_WORD_CANDIDATES - 1]
    while len(wrong) < LAST_WORD_CANDIDATES - 1:
        word = dice.pick(draft.pool)
        if word != draft.answer and word not in wrong:
            wrong.append(word)
    candidates = dice.shuffled([draft.answer, *wrong])
    words = dice.shuffled([draft.answer, *wrong[: CHOICES - 1]])
    return Story(
        facts=facts,
        closing=draft.closing,
        answer=draft.answer,
        last_word_candidates=tuple(candidates),
        kind=kind,
        question=draft.question,
        choices=tuple(_short_answer(draft, word) for word in words),
        choice_answer=_short_answer(draft, draft.answer),
        hops=draft.hops,
    )


def _short_answer(draft: Draft, word: str) -> str:
    if draft.choice_form_one and word in ("1", "one"):
        return draft.choice_form_one.format(word)
    return draft.choice_form.format(word)


def training_text(seed: int, index: int) -> TrainingText:
    """Every story in both forms: even indices end with the last word, odd ones with an answer.

    Index ``i`` is story ``i // 2``.
    """
    story = generate(seed, index // 2)
    if index % 2 == 0:
        return TrainingText(story.last_word_prompt, story.answer)
    return TrainingText(story.choice_prompt, story.choice_answer)


def training_texts(seed: int, start: int = 0, step: int = 1) -> Iterator[TrainingText]:
    """``training_text`` for ``start``, ``start + step``, ... without end.

    ``step`` shares a stream among processes; a restart continues at any ``start``.
    """
    index = start
    while True:
        yield training_text(seed, index)
        index += step


def last_word_example(seed: int, index: int) -> dict[str, object]:
    """Five-way last word: prompt, candidates and the label's position."""
    story = generate(seed, index)
    return {
        "id": f"last_word_{index:05d}",
        "prompt": story.last_word_prompt,
        "candidates": list(story.last_word_candidates),
        "label": story.last_word_candidates.index(story.answer),
        "subject": story.kind,
    }


def choice_example(seed: int, index: int) -> dict[str, object]:
    """Four-way choice: the question about the same facts, and short answers."""
    story = generate(seed, index)
    return {
        "id": f"choice_{index:05d}",
        "prompt": story.choice_prompt,
        "candidates": list(story.choices),
        "label": story.choices.index(story.choice_answer),
        "subject": story.kind,
    }
