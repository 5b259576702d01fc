"""An example as text, and the same example as ids under every conditional."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from mlm_consistency.conditionals.conditional import (
    Conditional,
    check_family,
    mode_word,
    with_mode_word,
)
from mlm_consistency.conditionals.layout import NotApplicable
from mlm_consistency.errors import ConfigError, DataError, VocabularyError
from mlm_consistency.vocabularies import Vocabulary

Ids: TypeAlias = NDArray[np.int32]


@dataclass(frozen=True)
class TextExample:
    """One question as text.

    Attributes:
      id: unique within its task.
      prompt: the text before the answer, without a mode word.
      candidates: the possible answers; empty where they are still to come from beam search.
      labels: positions of the right candidates, at least one where there are candidates.
      subject: group for per-subject rows; "" for none.
      answer: the right answer as text, for tasks whose candidates come from beam search.
    """

    id: str
    prompt: str
    candidates: tuple[str, ...]
    labels: tuple[int, ...]
    subject: str = ""
    answer: str = ""


@dataclass(frozen=True, eq=False)
class Masked:
    """One masked prompt.

    Attributes:
      encoder: int32 [S] with `</s>`.
      prefix: int32 [P], targets before the answer.
      moved: tokens at the start of every candidate that the encoder shows, so that only those
        behind them follow the prefix; 0 but under negative offsets.
    """

    encoder: Ids
    prefix: Ids
    moved: int = 0

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Masked):
            return NotImplemented
        return all(_same(getattr(self, f.name), getattr(other, f.name)) for f in fields(self))


@dataclass(frozen=True, eq=False)
class EncodedExample:
    """One example as ids, under each of K conditionals.

    Attributes:
      index: 0-based position within the task after filtering, dense.
      id, subject, prompt, candidate_texts, labels, answer: as in TextExample.
      candidates: int32 [m_c] each, m_c >= 1: the tokens that are scored.
      prompt_ids: mode word ("" = none) -> int32 [n], the mode word's tokens among them.
      masked: K entries in the run's order of conditionals.
      truncated: prompt tokens cut off at the left (the most over the modes); 0 unless asked for.
    """

    index: int
    id: str
    subject: str
    prompt: str
    candidate_texts: tuple[str, ...]
    labels: tuple[int, ...]
    candidates: tuple[Ids, ...]
    prompt_ids: dict[str, Ids]
    masked: tuple[Masked | NotApplicable, ...]
    answer: str = ""
    truncated: int = 0

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, EncodedExample):
            return NotImplemented
        return all(_same(getattr(self, f.name), getattr(other, f.name)) for f in fields(self))


def encode_example(
    example: TextExample,
    vocabulary: Vocabulary,
    conditionals: Sequence[Conditional],
    mode: str | None = None,
    family: str = "t5",
    *,
    index: int = 0,
    max_prompt_tokens: int | None = None,
) -> EncodedExample:
    """Tokenises an example once for each mode word and masks it under every conditional.

    Ids are assembled, not parsed: the prompt with its mode word is encoded as one string, each
    candidate on its own (its first piece starts a word), sentinels and `</s>` are put between.

    Args:
      mode: the run's mode word for family ul2; None or "": none.
      family: "t5", "ul2" or "flan".
      index: position within the task.
      max_prompt_tokens: cut longer prompts at the left, behind the mode word; None: never.

    Raises:
      ConfigError: if a mode word is given to a family that has none.
      DataError: if the prompt or a candidate gives no tokens, or holds a sentinel.
      VocabularyError: if the family needs sentinels and the vocabulary has none.
    """
    run_mode = check_mode(mode, family)
    if family != "flan" and not vocabulary.num_sentinels:
        raise VocabularyError(
            f"vocabulary {vocabulary.name!r} has no sentinels, which the family {family} is asked "
            "with. Load it with extra_ids=100, or use family flan."
        )
    candidates = tuple(
        _encode(vocabulary, text, f"example {example.id!r}: candidate {c} ({text!r})")
        for c, text in enumerate(example.candidates)
    )
    prompt_ids: dict[str, Ids] = {}
    truncated = 0
    masked: list[Masked | NotApplicable] = []
    for conditional in conditionals:
        word = run_mode if conditional.mode is None else conditional.mode
        if word and family != "ul2":
            masked.append(NotApplicable(f"family {family} has no mode words (asked for {word})"))
            continue
        if word not in prompt_ids:
            prompt_ids[word], cut = _prompt(example, vocabulary, word, max_prompt_tokens)
            truncated = max(truncated, cut)
        entry = _mask(prompt_ids[word], vocabulary, conditional, family, candidates)
        if isinstance(entry, Masked) and entry.moved and not isinstance(masked[0], Masked):
            entry = NotApplicable(
                f"{conditional.name} needs {conditionals[0].name}, which prices the tokens that it "
                "shows, and that does not apply"
            )
        masked.append(entry)
    return EncodedExample(
        index, example.id, example.subject, example.prompt, example.candidates, example.labels,
        candidates, prompt_ids, tuple(masked), example.answer, truncated,
    )  # fmt: skip


def check_mode(mode: str | None, family: str) -> str:
    """The run's mode word, "" for none.

    Raises:
      ConfigError: if it is unknown, or `family` has no mode words.
    """
    check_family(family)
    word = mode_word(mode)
    if word and family != "ul2":
        raise ConfigError(
            f"mode {mode!r} was given, but the family {family} has no mode words: they belong to "
            "ul2. Set the family to ul2, or the mode to none."
        )
    return word


def shared_tokens(candidates: Sequence[Ids]) -> int:
    """With how many tokens all candidates begin, each having at least one more; 0 for none."""
    if not candidates:
        return 0
    most = min(map(len, candidates)) - 1
    table = np.stack([ids[:most] for ids in candidates])
    differs = (table != table[0]).any(axis=0)
    return int(differs.argmax()) if differs.any() else most


def _prompt(
    example: TextExample, vocabulary: Vocabulary, word: str, limit: int | None
) -> tuple[Ids, int]:
    text = with_mode_word(example.prompt, word)
    ids = _encode(vocabulary, text, f"example {example.id!r}: prompt")
    if limit is None or len(ids) <= limit:
        return ids, 0
    kept = len(vocabulary.encode(f"[{word}]")) if word else 0
    if limit <= kept:
        raise ConfigError(
            f"max_prompt_tokens={limit} leaves no room behind the mode word [{word}]."
        )
    cut = len(ids) - limit
    return np.concatenate([ids[:kept], ids[kept + cut :]]), cut


def _encode(vocabulary: Vocabulary, text: str, what: str) -> Ids:
    try:
        text.encode()
    except UnicodeEncodeError as error:  # JSON can hold half a surrogate pair, "\\ud800"
        raise DataError(
            f"{what} holds {text[error.start]!r} at character {error.start}, half of a surrogate "
            "pair and no text: take it out, or write the whole pair."
        ) from error
    ids = np.asarray(vocabulary.encode(text), dtype=np.int32)
    if not len(ids):
        raise DataError(f"{what} has no tokens in vocabulary {vocabulary.name!r}.")
    for token in ids.tolist():
        if (k := vocabulary.sentinel_number(token)) is not None:
            raise DataError(
                f"{what} holds the sentinel <extra_id_{k}>. The conditionals put the sentinels; "
                "take it out of the text."
            )
    return ids


def _mask(
    prompt: Ids,
    vocabulary: Vocabulary,
    conditional: Conditional,
    family: str,
    candidates: Sequence[Ids],
) -> Masked | NotApplicable:
    layout = conditional.layout(len(prompt), family, shared_tokens(candidates))
    if isinstance(layout, NotApplicable):
        return layout
    if layout.num_sentinels > vocabulary.num_sentinels:
        return NotApplicable(
            f"{conditional.name} needs {layout.num_sentinels} sentinels, the vocabulary has "
            f"{vocabulary.num_sentinels}"
        )
    return Masked(
        layout.encoder_ids(
            prompt,
            vocabulary.sentinel,
            vocabulary.eos_id,
            candidates[0] if layout.moved else (),
        ),
        layout.prefix_ids(prompt, vocabulary.sentinel),
        layout.moved,
    )


def _same(a: object, b: object) -> bool:
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        return a.dtype == b.dtype and np.array_equal(a, b)
    if isinstance(a, tuple) and isinstance(b, tuple):
        return len(a) == len(b) and all(_same(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(_same(a[key], b[key]) for key in a)
    return bool(a == b)
