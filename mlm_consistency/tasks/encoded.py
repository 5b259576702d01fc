"""Encoded examples of a task: filters by token counts, and what they cost."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from mlm_consistency.conditionals import (
    Conditional,
    EncodedExample,
    Masked,
    TextExample,
    encode_example,
)
from mlm_consistency.conditionals.conditional import with_mode_word
from mlm_consistency.errors import DataError, VocabularyError
from mlm_consistency.tasks.example_source import Dropped
from mlm_consistency.vocabularies import Vocabulary

if TYPE_CHECKING:
    from mlm_consistency.tasks.task import Task

log = logging.getLogger(__name__)

SENTINEL_AND_EOS = 2


@dataclass(frozen=True)
class ExampleLengths:
    """Token counts of one example, which is all that packing needs.

    Attributes:
      index: as in EncodedExample.
      encoder: S of each conditional, with `</s>`; 0 where it does not apply.
      prefix: P of each conditional; 0 where it does not apply.
      candidates: m of each candidate.
    """

    index: int
    encoder: tuple[int, ...]
    prefix: tuple[int, ...]
    candidates: tuple[int, ...]


@dataclass(frozen=True)
class Survey:
    """What a first pass over a task finds.

    Attributes:
      lengths: one entry an example, in order.
      dropped: reason -> number of examples.
      not_applicable: conditional -> number of examples it does not fit, in the run's order.
      unknown_tokens, tokens: unknown pieces, and all pieces, in prompts and candidates.
      unknown_examples: examples with an unknown piece.
      repeated_candidates: examples of which two candidates have the same tokens.
      truncated: examples whose prompt was cut at the left.
    """

    lengths: tuple[ExampleLengths, ...]
    dropped: dict[str, int]
    not_applicable: dict[str, int]
    unknown_tokens: int
    tokens: int
    unknown_examples: int
    repeated_candidates: int
    truncated: int

    @property
    def examples(self) -> int:
        """Number of examples that passed."""
        return len(self.lengths)

    def warnings(self, task: str) -> list[str]:
        """One sentence for each thing that a user should know before scoring."""
        said = []
        if self.unknown_tokens:
            said.append(
                f"task {task}: {self.unknown_tokens} of {self.tokens} tokens, in "
                f"{self.unknown_examples} of {self.examples} examples, are unknown to the "
                "vocabulary; what they stood for is lost to the model."
            )
        if self.repeated_candidates:
            said.append(
                f"task {task}: {self.repeated_candidates} examples have two candidates with the "
                "same tokens; such ties go to the first."
            )
        if alone := sum(len(example.candidates) == 1 for example in self.lengths):
            said.append(
                f"task {task}: {alone} examples have one candidate alone, which always wins: they "
                "count as right under every conditional if it is the label."
            )
        if self.truncated:
            said.append(f"task {task}: {self.truncated} prompts were cut at the left.")
        return said


@dataclass(frozen=True)
class EncodedExamples:
    """Re-iterable: the same examples in the same order at every pass. See Task.encoded_examples."""

    task: Task
    vocabulary: Vocabulary
    conditionals: tuple[Conditional, ...]
    mode: str
    family: str

    def __iter__(self) -> Iterator[EncodedExample]:
        for entry in self._entries():
            if isinstance(entry, EncodedExample):
                yield entry

    def survey(self) -> Survey:
        """A pass that keeps lengths and counts only; the result is kept.

        Raises:
          DataError: for the first example that cannot be scored, with its place.
        """
        return self._survey

    @property
    def dropped(self) -> dict[str, int]:
        """Reason -> number of examples that the source and the filters left out."""
        return self.survey().dropped

    def encode(self, example: TextExample, index: int = 0) -> EncodedExample | str:
        """The encoded example, or the reason why the filters leave it out.

        Raises:
          DataError: if a prompt or candidate has no tokens, or holds a sentinel.
        """
        reason = self._filtered(example)
        if reason:
            return reason
        return encode_example(
            example,
            self.vocabulary,
            self.conditionals,
            self.mode,
            self.family,
            index=index,
            max_prompt_tokens=self.task.config.max_prompt_tokens,
        )

    def _filtered(self, example: TextExample) -> str:
        """Why the filters leave an example out; "" if they do not."""
        config = self.task.config
        if config.encoder_longer_than is not None:
            text = with_mode_word(example.prompt, self.mode)
            length = len(self.vocabulary.encode(text)) + SENTINEL_AND_EOS
            if length <= config.encoder_longer_than:
                return f"encoder input of {config.encoder_longer_than} tokens or fewer"
        limit = config.candidates_shorter_than
        if limit is not None and any(
            len(self.vocabulary.encode(text)) + 1 >= limit for text in example.candidates
        ):
            return f"a candidate of {limit} tokens or more, its sentinel counted"
        return ""

    def _entries(self) -> Iterator[EncodedExample | str]:
        kept, limit = 0, self.task.config.limit
        for row in self.task.rows():
            if isinstance(row, Dropped):
                yield row.reason
            elif limit is not None and kept >= limit:
                yield f"beyond the limit of {limit} examples"
            else:
                try:
                    entry = self.encode(row.example, kept)
                except (DataError, VocabularyError) as error:
                    raise type(error)(f"{row.place}: {error}") from error
                kept += isinstance(entry, EncodedExample)
                yield entry

    @cached_property
    def _survey(self) -> Survey:
        lengths: list[ExampleLengths] = []
        counts: Counter[str] = Counter()
        dropped: Counter[str] = Counter()
        misfits = dict.fromkeys((c.name for c in self.conditionals), 0)
        for entry in self._entries():
            if isinstance(entry, str):
                dropped[entry] += 1
                continue
            lengths.append(example_lengths(entry))
            counts.update(_counts(entry, self.vocabulary))
            for conditional, masked in zip(self.conditionals, entry.masked, strict=True):
                misfits[conditional.name] += not isinstance(masked, Masked)
        if not lengths:
            raise DataError(
                f"task {self.task.name!r}: no example passes the filters: {dict(dropped)}."
            )
        survey = Survey(
            tuple(lengths), dict(dropped), misfits, counts["unknown"], counts["tokens"],
            counts["unknown_examples"], counts["repeated"], counts["truncated"],
        )  # fmt: skip
        for sentence in survey.warnings(self.task.name):
            log.warning("%s", sentence)
        return survey


def example_lengths(example: EncodedExample) -> ExampleLengths:
    """The token counts of an encoded example."""
    fits = [m if isinstance(m, Masked) else None for m in example.masked]
    return ExampleLengths(
        example.index,
        tuple(len(m.encoder) if m else 0 for m in fits),
        tuple(len(m.prefix) if m else 0 for m in fits),
        tuple(len(ids) for ids in example.candidates),
    )


def _counts(example: EncodedExample, vocabulary: Vocabulary) -> dict[str, int]:
    prompt = next(iter(example.prompt_ids.values()), np.zeros(0, np.int32))
    ids = np.concatenate([prompt, *example.candidates])
    unknown = int(np.sum(ids == vocabulary.unk_id))
    distinct = {candidate.tobytes() for candidate in example.candidates}
    return {
        "tokens": len(ids),
        "unknown": unknown,
        "unknown_examples": int(unknown > 0),
        "repeated": int(len(distinct) < len(example.candidates)),
        "truncated": int(example.truncated > 0),
    }
