"""Contexts and continuations -> sums of log-probabilities under each conditional."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from mlm_consistency.api import Model
from mlm_consistency.conditionals import (
    Conditional,
    EncodedExample,
    Masked,
    NotApplicable,
    TextExample,
    encode_example,
)
from mlm_consistency.errors import DataError
from mlm_consistency.harness.requests import Question
from mlm_consistency.scoring.assemble import lengths_of, prompts_of
from mlm_consistency.scoring.greedy import make_greedy_step
from mlm_consistency.scoring.loop import ScoringLoop, TaskInput
from mlm_consistency.scoring.shapes import PackingConfig, choose_shape, quantized

log = logging.getLogger(__name__)
QUESTIONS_AT_ONCE = 256


@dataclass(frozen=True, eq=False)
class Scored:
    """One question's scores under the K' conditionals that apply to its context.

    Attributes:
      sums: float64 [K', C], sum over tokens of log p, nats.
      greedy: bool [K', C], whether each token is the likeliest.
      lengths: int [C], tokens of each continuation.
    """

    sums: np.ndarray
    greedy: np.ndarray
    lengths: np.ndarray


class Scorer:
    """A model and the conditionals through which it is asked."""

    def __init__(
        self,
        model: Model,
        conditionals: Sequence[Conditional],
        *,
        max_length: int = 2048,
        max_prompt_tokens: int | None = None,
    ) -> None:
        """Args:
        model: see `api.load_model`.
        conditionals: the baseline first.
        max_length: longest encoder row; a context that is longer is refused.
        max_prompt_tokens: cut longer contexts at the left; None: never.
        """
        self.model, self.conditionals = model, tuple(conditionals)
        self.max_prompt_tokens = max_prompt_tokens
        self.packing = PackingConfig(
            max_encoder_length=max_length, max_decoder_length=1024, tokens_per_batch=2048
        )
        self._step = make_greedy_step(model.config, model.mesh)

    def score(self, questions: Sequence[Question]) -> Iterator[Scored]:
        """The scores of each question, in order.

        All questions are encoded and checked before the first is scored. What conditionals do not
        apply to, and what was cut, is said in the log.

        Raises:
          DataError: for a context or continuation that cannot be scored; names task and document.
        """
        examples = [self._encode(i, question) for i, question in enumerate(questions)]
        if not examples:
            return
        self._report(examples)
        prompts = prompts_of(examples)
        lengths = lengths_of(prompts)
        self._check_lengths(questions, prompts, lengths)
        shape = quantized(choose_shape(lengths, self.model.config, self.packing))
        counts = np.bincount([p.example for p in prompts], minlength=len(examples))
        first = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        size = min(QUESTIONS_AT_ONCE, len(examples))
        loop = ScoringLoop(
            self._step, self.model.params, shape, self.model.mesh,
            self.model.vocabulary.pad_id, size,
        )  # fmt: skip
        task = TaskInput("requests", lambda: iter(examples), lengths, first)
        for shard in loop.run([task], lambda name: set()):
            for example, rows in zip(shard.examples, shard.token_log_probs, strict=True):
                yield _scored(example, rows)

    def _encode(self, index: int, question: Question) -> EncodedExample:
        example = TextExample(question.name, question.context, question.continuations, ())
        model = self.model
        if not model.mode and not model.vocabulary.encode(question.context):
            return self._without_context(index, example)
        return encode_example(
            example, model.vocabulary, self.conditionals, model.mode, model.family,
            index=index, max_prompt_tokens=self.max_prompt_tokens,
        )  # fmt: skip

    def _without_context(self, index: int, example: TextExample) -> EncodedExample:
        """An empty context: the baseline masks the answer alone, nothing else can be masked."""
        words = self.model.vocabulary
        plain = self.model.family == "flan"
        prefix = np.asarray([] if plain else [words.sentinel(0)], np.int32)
        alone = Masked(np.append(prefix, np.int32(words.eos_id)), prefix)
        masked = tuple(
            alone if c.pattern == "baseline" and not c.mode else NotApplicable("no context")
            for c in self.conditionals
        )
        candidates = tuple(np.asarray(words.encode(text), np.int32) for text in example.candidates)
        for text, ids in zip(example.candidates, candidates, strict=True):
            if not len(ids):
                raise DataError(f"{example.id}: continuation {text!r} has no tokens.")
        if not any(isinstance(entry, Masked) for entry in masked):
            raise DataError(f"{example.id}: the context is empty, and no conditional applies.")
        return EncodedExample(
            index, example.id, "", example.prompt, example.candidates, (), candidates,
            {"": np.zeros(0, np.int32)}, masked,
        )  # fmt: skip

    def _check_lengths(self, questions: Sequence[Question], prompts, lengths) -> None:
        longest = self.packing.longest_row
        over = (lengths.encoder > longest) | (lengths.decoder > self.packing.max_decoder_length)
        for number in np.flatnonzero(over)[:1]:
            raise DataError(
                f"{questions[prompts[number].example].name}: {lengths.encoder[number]} encoder "
                f"tokens and {lengths.decoder[number]} decoder nodes, more than {longest} and "
                f"{self.packing.max_decoder_length} ({int(over.sum())} such prompts). Nothing is "
                "cut in silence: raise max_length, or cut contexts at the left with "
                "max_prompt_tokens, in --model_args."
            )

    def _report(self, examples: Sequence[EncodedExample]) -> None:
        for k, conditional in enumerate(self.conditionals):
            absent = sum(not isinstance(example.masked[k], Masked) for example in examples)
            if absent:
                log.warning(
                    "%s does not apply to %d of %d contexts; their ensembles do without it",
                    conditional.name, absent, len(examples),
                )  # fmt: skip
        cut = sum(example.truncated > 0 for example in examples)
        if cut:
            log.warning("%d of %d contexts were cut at the left", cut, len(examples))


def _scored(example: EncodedExample, rows: Sequence[list[np.ndarray] | None]) -> Scored:
    applied = [row for row in rows if row is not None]
    sums = np.array([[np.sum(v[:, 0], dtype=np.float64) for v in row] for row in applied])
    greedy = np.array([[bool(v[:, 1].all()) for v in row] for row in applied])
    if not np.isfinite(sums).all():
        raise DataError(f"{example.id}: a score is not finite. Compute in float32.")
    return Scored(sums, greedy, np.array([len(ids) for ids in example.candidates]))
