"""A T5-style model on the last words of a text: what it would say there, and how likely it is.

    encoder                       decoder targets          log-probabilities of
    context between x_0 . </s>    x_0 last x_1             the short n-gram, token by token
    context x_0 . </s>            x_0 between last x_1     the long one

Proposals against the true end are the model's own beams for the first prompt.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from mlm_consistency.conditionals.example import EncodedExample, Masked
from mlm_consistency.errors import ScoringError
from mlm_consistency.scoring.beam_loop import BeamLoop, SearchInput
from mlm_consistency.scoring.beams import BeamConfig, SearchTokens, make_search
from mlm_consistency.scoring.span_pairs import Sentinels
from mlm_consistency.scoring.span_scorer import SpanScorer


@dataclasses.dataclass(frozen=True)
class TextEnd:
    """Token ids (int32) of a text without `</s>`: what stays before, what the long n-gram has in
    front of the short one, the short one, and what stays behind (punctuation)."""

    context: np.ndarray
    between: np.ndarray
    last: np.ndarray
    after: np.ndarray

    def masked(self, sentinels: Sentinels, long: bool) -> Masked:
        """The prompt with the long or the short n-gram masked."""
        kept = [self.context] if long else [self.context, self.between]
        encoder = np.concatenate([*kept, [sentinels.x[0]], self.after, [sentinels.eos]])
        return Masked(encoder.astype(np.int32), np.array([sentinels.x[0]], np.int32))


@dataclasses.dataclass(frozen=True)
class EndLogProbs:
    """Nats a token, the closing sentinel's last, of the true end and of another: `short` ones with
    the short n-gram masked, `long` ones with the long one masked (those of `between` in front)."""

    short_original: np.ndarray
    short_proposed: np.ndarray
    long_original: np.ndarray
    long_proposed: np.ndarray


def propose_ends(
    scorer: SpanScorer,
    ends: Sequence[TextEnd],
    sentinels: Sentinels,
    known: int,
    config: BeamConfig,
) -> list[list[np.ndarray]]:
    """For each text the beams that end with x_1, without it, best first.

    Args:
      known: ids of the vocabulary; rows of the network beyond them are never proposed.

    Raises:
      ScoringError: for no text.
    """
    if not ends:
        raise ScoringError("there is no text to propose an end for")
    prompts = [end.masked(sentinels, long=False) for end in ends]
    examples = [
        EncodedExample(n, f"text {n}", "", "", (), (), (), {}, (masked,))
        for n, masked in enumerate(prompts)
    ]
    lengths = np.array([len(masked.encoder) for masked in prompts], np.int64)
    task = SearchInput("ends", lambda: iter(examples), lengths)
    stop = sentinels.x[1]
    search = make_search(scorer.config, scorer.mesh, config, SearchTokens(stop, known))
    prefix = np.array([scorer.start_id, sentinels.x[0]], np.int32)
    loop = BeamLoop(search, scorer.params, scorer.mesh, config, prefix, [task])
    return [
        [beam.tokens[:-1] for beam in beams if beam.tokens[-1] == stop]
        for shard in loop.run(lambda name: set())
        for beams in shard.beams
    ]


def end_log_probs(
    scorer: SpanScorer,
    ends: Sequence[TextEnd],
    proposals: Sequence[np.ndarray],
    sentinels: Sentinels,
) -> list[EndLogProbs]:
    """The true end and its proposal of each text, both ways; two prompts a text.

    Raises:
      ScoringError: for a text longer than the rows, or numbers that are not finite.
    """
    close = [sentinels.x[1]]
    questions = []
    for end, proposal in zip(ends, proposals, strict=True):
        for long in (False, True):
            before = end.between if long else end.between[:0]
            answers = [np.concatenate([before, word, close]) for word in (end.last, proposal)]
            questions.append((end.masked(sentinels, long), answers))
    values = scorer.log_probs(questions)
    return [
        EndLogProbs(*short, *long) for short, long in zip(values[::2], values[1::2], strict=True)
    ]
