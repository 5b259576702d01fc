"""Masked contexts of an encoder-only model into packed rows, and the arrays of a step.

The packer is that of `scoring.packing`; a context needs encoder tokens, read positions and scored
pairs, and of the decoder nothing.

    rows [R, S] of each length S:   [CLS] the [MASK] [SEP] | [CLS] a [MASK] sat [SEP] | . .
    read [N]                        index of each masked position among all tokens of the slot
    pair_read, pair_target [Q]      which read position, which word
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from mlm_consistency.errors import ScoringError
from mlm_consistency.models.bert_config import BertConfig
from mlm_consistency.scoring.packing import Batch, PromptLengths
from mlm_consistency.scoring.shapes import PackingConfig, choose_shape
from mlm_consistency.scoring.step import BatchShape

Arrays = dict[str, np.ndarray]


@dataclasses.dataclass(frozen=True)
class MaskedContext:
    """A text with some positions masked, and what is asked there.

    Attributes:
      tokens: int32 [n], as the model reads them: [CLS], [SEP] and [MASK] in place.
      read: int32 [r], the positions whose distribution is wanted (masked ones, as a rule).
      targets: for each of them an int32 [t] of words; () asks for whole distributions.
    """

    tokens: np.ndarray
    read: np.ndarray
    targets: tuple[np.ndarray, ...] = ()


def check_text_length(name: str, length: int, config: BertConfig) -> None:
    """Refuses a text that is longer than the table of positions.

    Raises:
      ScoringError: with the `name` of the text, its length and the bound.
    """
    if length > config.max_segment_length:
        raise ScoringError(
            f"{name} has {length} tokens, [CLS] and [SEP] among them, but {config.name} has "
            f"absolute positions for {config.max_segment_length} alone. Packing does not lift "
            "this bound: positions restart with each text. Leave such texts out where they are "
            "read (PairProbeConfig.max_tokens), or shorten them"
        )


def check_contexts(contexts: Sequence[MaskedContext], config: BertConfig) -> None:
    """Refuses what the network has no rows for.

    Raises:
      ScoringError: for a text longer than the table of positions, ids outside the vocabulary,
        read positions outside the text, or targets that do not fit them; names the context.
    """
    for number, context in enumerate(contexts):
        length = len(context.tokens)
        check_text_length(f"context {number}", length, config)
        read = np.asarray(context.read)
        if not length or not read.size or read.min() < 0 or read.max() >= length:
            raise ScoringError(
                f"context {number}: read positions {read.tolist()} do not lie in {length} tokens"
            )
        if context.targets and len(context.targets) != len(read):
            raise ScoringError(
                f"context {number}: {len(context.targets)} sets of targets for {len(read)} read "
                "positions"
            )
        for name, ids in (("token", context.tokens), *(("target", t) for t in context.targets)):
            if len(ids) and not 0 <= np.min(ids) <= np.max(ids) < config.vocab_size:
                raise ScoringError(
                    f"context {number}: {name} id {int(np.max(ids))} or {int(np.min(ids))} is "
                    f"outside the {config.vocab_size} pieces of {config.name}"
                )


def masked_lengths(contexts: Sequence[MaskedContext]) -> PromptLengths:
    """What each context needs; one nominal decoder node each."""
    table = np.array(
        [(len(c.tokens), 1, len(c.read), sum(map(len, c.targets))) for c in contexts], np.int64
    ).reshape(-1, 4)
    return PromptLengths(*table.T)


def masked_shape(
    lengths: PromptLengths,
    config: BertConfig,
    packing: PackingConfig,
    spare: float = 0.0,
    max_reads: int | None = None,
) -> BatchShape:
    """The batch shape for contexts of these lengths.

    Args:
      lengths: of the contexts, or of a sample of them.
      config: whose FLOPs weigh the choice.
      packing: limits and wishes.
      spare: share by which reads and pairs exceed what these contexts need, for others like them.
      max_reads: at most so many read positions in a step (each has a row of logits).

    Raises:
      ScoringError: if a context is longer than the limits, or reads more than `max_reads`.
    """
    # There is no memory to share: one nominal decoder row takes all contexts of a batch.
    packing = dataclasses.replace(packing, memory_length=1 << 40, max_decoder_length=1 << 30)
    shape = choose_shape(lengths, config, packing, spare)  # type: ignore[arg-type]
    if max_reads is not None and shape.reads > max_reads:
        if lengths.reads.max() > max_reads:
            raise ScoringError(
                f"a context reads {int(lengths.reads.max())} positions, a step {max_reads}"
            )
        shape = dataclasses.replace(shape, reads=max_reads)
    # No more contexts fit than there are tokens: the nominal decoder row never decides.
    tokens = shape.encoder_tokens
    return dataclasses.replace(shape, decoder_rows=1, memory_length=tokens, decoder_length=tokens)


def array_shapes(shape: BatchShape) -> dict[str, tuple[int, ...]]:
    """Name -> shape of the int32 arrays of one slot."""
    shapes: dict[str, tuple[int, ...]] = {}
    for number, (length, count) in enumerate(shape.rows):
        for name in ("tokens", "segments", "positions"):
            shapes[f"{name}_{number}"] = (count, length)
    return shapes | {
        "read": (shape.reads,),
        "pair_read": (shape.pairs,),
        "pair_target": (shape.pairs,),
    }


def empty_slot(shape: BatchShape) -> Arrays:
    """The arrays of a slot that has nothing to do: padding alone."""
    return {name: np.zeros(size, np.int32) for name, size in array_shapes(shape).items()}


@dataclasses.dataclass(frozen=True)
class Place:
    """Where a context's numbers are in a slot: its first read position and its first pair."""

    context: int
    read: int
    pair: int


def lay_out_masked(
    batch: Batch, contexts: Sequence[MaskedContext], shape: BatchShape
) -> tuple[Arrays, list[Place]]:
    """The arrays of one slot, and where each context's numbers will be.

    Pairs of a context lie together, those of its first read position first.
    """
    arrays = empty_slot(shape)
    places: list[Place] = []
    base = read = pair = 0
    for index, (length, count) in enumerate(shape.rows):
        for r, row in enumerate(batch.rows[index]):
            at = 0
            for segment, number in enumerate(row, start=1):
                context = contexts[number]
                span = slice(at, at + len(context.tokens))
                arrays[f"tokens_{index}"][r, span] = context.tokens
                arrays[f"segments_{index}"][r, span] = segment
                arrays[f"positions_{index}"][r, span] = np.arange(len(context.tokens))
                places.append(Place(number, read, pair))
                stop = read + len(context.read)
                arrays["read"][read:stop] = base + r * length + at + np.asarray(context.read)
                for k, words in enumerate(context.targets):
                    here = slice(pair, pair + len(words))
                    arrays["pair_read"][here] = read + k
                    arrays["pair_target"][here] = words
                    pair = here.stop
                read, at = stop, span.stop
        base += count * length
    return arrays, places
