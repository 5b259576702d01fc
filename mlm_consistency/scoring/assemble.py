"""From examples to the arrays of a step, and from its numbers back to candidates."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from mlm_consistency.conditionals.example import EncodedExample, Masked
from mlm_consistency.scoring.packing import Batch, PromptLengths
from mlm_consistency.scoring.step import BatchShape
from mlm_consistency.scoring.trees import CandidateTree, attach, build_tree

Arrays = dict[str, np.ndarray]


@dataclasses.dataclass(frozen=True)
class Prompt:
    """One example under one conditional, ready to be laid into rows.

    Attributes:
      example: number of the example within its shard.
      conditional: number of the conditional.
      masked: encoder tokens and the targets before the answer.
      tree: the candidates, without the tokens that the encoder shows.
    """

    example: int
    conditional: int
    masked: Masked
    tree: CandidateTree


def prompts_of(examples: Sequence[EncodedExample]) -> list[Prompt]:
    """One prompt for every conditional that applies, in order."""
    prompts = []
    for number, example in enumerate(examples):
        trees: dict[int, CandidateTree] = {}
        for k, masked in enumerate(example.masked):
            if isinstance(masked, Masked):
                if masked.moved not in trees:
                    rest = [candidate[masked.moved :] for candidate in example.candidates]
                    trees[masked.moved] = build_tree(rest)
                prompts.append(Prompt(number, k, masked, trees[masked.moved]))
    return prompts


def price_moved(
    examples: Sequence[EncodedExample], scores: Sequence[list[list[np.ndarray] | None]]
) -> None:
    """Puts the log-probabilities of moved tokens in front of those behind them, in place.

    Tokens of the answer that a conditional shows to the encoder are priced by the run's first
    conditional; see `conditionals.NegativeOffset`.

    Args:
      scores: [example][conditional][candidate], log-probabilities of the scored tokens.
    """
    for example, rows in zip(examples, scores, strict=True):
        for k, masked in enumerate(example.masked):
            first, row = rows[0], rows[k]
            if isinstance(masked, Masked) and masked.moved and first is not None and row:
                rows[k] = [
                    np.concatenate([whole[: masked.moved], rest])
                    for whole, rest in zip(first, row, strict=True)
                ]


def lengths_of(prompts: Sequence[Prompt]) -> PromptLengths:
    """What each prompt needs; see `PromptLengths`."""
    table = np.array(
        [
            (
                len(p.masked.encoder),
                1 + len(p.masked.prefix) + p.tree.size,
                len(p.tree.read),
                len(p.tree.pair_target),
            )
            for p in prompts
        ],
        np.int64,
    ).reshape(-1, 4)
    return PromptLengths(*table.T)


def empty_batch(shape: BatchShape) -> Arrays:
    """The arrays of a slot that has nothing to do: padding alone."""
    return {name: np.zeros(size, np.int32) for name, size in shape.arrays().items()}


def lay_out(
    batch: Batch, prompts: Sequence[Prompt], shape: BatchShape, start_id: int
) -> tuple[Arrays, list[tuple[int, int]]]:
    """The arrays of one slot.

    Args:
      batch: which prompt lies where, by number.
      prompts: all prompts of the shard.
      shape: static shape.
      start_id: the token with which the decoder starts.

    Returns:
      The arrays (see `BatchShape.arrays`), and for each prompt of the batch (number, first pair):
      its scored pairs stand together, in the order of its tree.
    """
    arrays = empty_batch(shape)
    place: dict[int, int] = {}  # prompt -> where it starts among all encoder tokens of the slot
    base = 0
    for index, (length, count) in enumerate(shape.rows):
        for r, row in enumerate(batch.rows[index]):
            at = 0
            for segment, number in enumerate(row, start=1):
                tokens = prompts[number].masked.encoder
                end = at + len(tokens)
                arrays[f"encoder_tokens_{index}"][r, at:end] = tokens
                arrays[f"encoder_segments_{index}"][r, at:end] = segment
                place[number] = base + r * length + at
                at = end
        base += count * length
    read, pair = 0, 0
    pairs: list[tuple[int, int]] = []
    for r, members in enumerate(batch.decoder_rows):
        memory, node = 0, 0
        for segment, number in enumerate(members, start=1):
            prompt = prompts[number]
            size = len(prompt.masked.encoder)
            span = slice(memory, memory + size)
            arrays["memory"][r, span] = place[number] + np.arange(size)
            arrays["memory_segments"][r, span] = segment
            memory += size

            tree = attach(prompt.tree, prompt.masked.prefix, start_id)
            span = slice(node, node + len(tree.tokens))
            arrays["tokens"][r, span] = tree.tokens
            arrays["positions"][r, span] = tree.positions
            arrays["end"][r, span] = tree.ends + node
            arrays["segments"][r, span] = segment

            first = read
            read += len(tree.read)
            arrays["read"][first:read] = r * shape.decoder_length + node + tree.read
            node += len(tree.tokens)
            pairs.append((number, pair))
            span = slice(pair, pair + len(prompt.tree.pair_target))
            arrays["pair_read"][span] = prompt.tree.pair_read + first
            arrays["pair_target"][span] = prompt.tree.pair_target
            pair = span.stop
    return arrays, pairs
