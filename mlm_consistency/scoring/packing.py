"""Prompts into rows, rows into batches: a pure function of lengths.

    lengths ──> encoder rows of a few ──> batches with the same ──> in each batch: prompts
                lengths (best fit,        number of rows of each    onto decoder rows,
                long prompts first)       length, evenly filled     evenly filled

The plan depends on the lengths and the shape alone, so every host, and a run that was broken
off, makes the same one.
"""

from __future__ import annotations

import dataclasses
import heapq
from collections.abc import Sequence

import numpy as np

from mlm_consistency.errors import ScoringError
from mlm_consistency.scoring.step import BatchShape


@dataclasses.dataclass(frozen=True)
class PromptLengths:
    """What each prompt (one example under one conditional) needs; int64 arrays [n].

    Attributes:
      encoder: encoder tokens.
      decoder: decoder nodes.
      reads: nodes whose state is read.
      pairs: scored (node, target) pairs.
    """

    encoder: np.ndarray
    decoder: np.ndarray
    reads: np.ndarray
    pairs: np.ndarray

    def __len__(self) -> int:
        return len(self.encoder)

    def take(self, index: np.ndarray) -> PromptLengths:
        """The prompts at `index`."""
        return PromptLengths(*(getattr(self, f.name)[index] for f in dataclasses.fields(self)))


def concatenate(tables: Sequence[PromptLengths]) -> PromptLengths:
    """The prompts of several tables, one after another."""
    fields = [field.name for field in dataclasses.fields(PromptLengths)]
    return PromptLengths(*(np.concatenate([getattr(t, f) for t in tables]) for f in fields))


@dataclasses.dataclass(frozen=True)
class Batch:
    """What one data slot computes in one step; prompts by number.

    Attributes:
      rows: for each row length of the shape, the encoder rows: prompts in the order in which
        they lie.
      decoder_rows: the prompts of each decoder row.
    """

    rows: tuple[tuple[tuple[int, ...], ...], ...]
    decoder_rows: tuple[tuple[int, ...], ...]


def pack_rows(encoder: np.ndarray, row_lengths: Sequence[int]) -> list[tuple[int, list[int]]]:
    """Prompts into encoder rows: the longest opens the shortest row that holds it, and each gap
    takes the longest prompt that fits.

    Args:
      encoder: token counts [n].
      row_lengths: the lengths that a row may have.

    Returns:
      (row length, prompt numbers) for each row.

    Raises:
      ScoringError: if a prompt is longer than every row.
    """
    sizes = sorted(row_lengths)
    if len(encoder) == 0:
        return []
    longest = int(encoder.max())
    if longest > sizes[-1]:
        raise ScoringError(f"a prompt of {longest} tokens does not fit rows of {sizes[-1]}")
    waiting: list[list[int]] = [[] for _ in range(longest + 1)]
    for number in np.argsort(encoder, kind="stable")[::-1]:
        waiting[encoder[number]].append(int(number))
    # below[k] leads to the greatest length <= k with prompts waiting (0 = none), shortened as
    # lengths run out.
    below = [k if waiting[k] else k - 1 for k in range(longest + 1)]
    below[0] = 0

    def greatest(limit: int) -> int:
        root = limit
        while below[root] != root:
            root = below[root]
        while below[limit] != root:
            below[limit], limit = root, below[limit]
        return root

    def pop(length: int) -> int:
        number = waiting[length].pop()
        if not waiting[length]:
            below[length] = length - 1
        return number

    rows: list[tuple[int, list[int]]] = []
    while (length := greatest(longest)) > 0:
        size = next(s for s in sizes if s >= length)
        row, gap = [pop(length)], size - length
        while (length := greatest(min(gap, longest))) > 0:
            row.append(pop(length))
            gap -= length
        rows.append((size, row))
    return rows


def batches_needed(rows: Sequence[tuple[int, list[int]]], shape: BatchShape) -> int:
    """Fewest batches with a place for every row, where a row may lie in a longer place."""
    need, places, most = 0, 0, 1
    for length, count in sorted(shape.rows, reverse=True):
        need += sum(size == length for size, _ in rows)
        places += count
        most = max(most, -(-need // places))
    return most


def share_rows(
    rows: list[tuple[int, list[int]]], decoder: np.ndarray, shape: BatchShape, batches: int
) -> list[list[list[list[int]]]]:
    """Rows onto `batches` batches, evenly in decoder nodes: the heaviest row goes to the lightest
    batch that has a place.

    Returns:
      [batch][row length][row] -> prompts.
    """
    shared: list[list[list[list[int]]]] = [[[] for _ in shape.rows] for _ in range(batches)]
    places = {length: batches * count for length, count in shape.rows}
    lengths = [length for length, _ in shape.rows]
    by_size: dict[int, list[list[int]]] = {length: [] for length in lengths}
    for size, row in rows:
        by_size[size].append(row)
    # From the longest down: what has no place of its own length moves up into one left free.
    placed: list[tuple[int, int, list[int]]] = []
    for size in reversed(lengths):
        for row in by_size[size]:
            where = next(n for n in lengths if n >= size and places[n] > 0)
            places[where] -= 1
            placed.append((int(decoder[row].sum()), lengths.index(where), row))
    placed.sort(key=lambda entry: -entry[0])
    heaps = [[(0, number) for number in range(batches)] for _ in lengths]
    load = [0] * batches
    for nodes, index, row in placed:
        heap = heaps[index]
        while heap[0][0] != load[heap[0][1]]:  # the entry is stale: the batch grew elsewhere
            heapq.heapreplace(heap, (load[heap[0][1]], heap[0][1]))
        number = heap[0][1]
        load[number] += nodes
        shared[number][index].append(row)
        if len(shared[number][index]) == shape.rows[index][1]:
            heapq.heappop(heap)
        else:
            heapq.heapreplace(heap, (load[number], number))
    return shared


def fill_decoder_rows(
    prompts: Sequence[int], encoder: np.ndarray, decoder: np.ndarray, shape: BatchShape
) -> tuple[list[list[int]], list[int]]:
    """Prompts onto decoder rows, the longest first to the emptiest.

    Returns:
      The prompts of each decoder row, and those that fit none.
    """
    rows: list[list[int]] = [[] for _ in range(shape.decoder_rows)]
    memory, nodes = [0] * shape.decoder_rows, [0] * shape.decoder_rows
    unfit = []
    for prompt in sorted(prompts, key=lambda i: (-encoder[i], -decoder[i], i)):
        tokens, more = int(encoder[prompt]), int(decoder[prompt])
        best, least = -1, np.inf
        for row in range(shape.decoder_rows):
            share = (memory[row] + tokens) / shape.memory_length
            other = (nodes[row] + more) / shape.decoder_length
            # The fuller of the two decides; their sum breaks ties.
            load = max(share, other) + 1e-3 * (share + other)
            if share <= 1 and other <= 1 and load < least:
                best, least = row, load
        if best < 0:
            unfit.append(prompt)
            continue
        rows[best].append(prompt)
        memory[best] += tokens
        nodes[best] += more
    return rows, unfit


def within_output(prompts: list[int], lengths: PromptLengths, shape: BatchShape) -> list[int]:
    """Prompts to leave out so that reads and pairs fit, the last ones first."""
    reads = np.cumsum(lengths.reads[prompts]) > shape.reads
    pairs = np.cumsum(lengths.pairs[prompts]) > shape.pairs
    return [prompts[i] for i in np.flatnonzero(reads | pairs)]


def pack(lengths: PromptLengths, shape: BatchShape) -> list[Batch]:
    """All prompts into batches of one shape.

    Raises:
      ScoringError: if a prompt alone exceeds the shape.
    """
    for name, values, limit in (
        ("decoder nodes", lengths.decoder, shape.decoder_length),
        ("encoder tokens", lengths.encoder, min(shape.memory_length, shape.rows[-1][0])),
        ("read nodes", lengths.reads, shape.reads),
        ("scored pairs", lengths.pairs, shape.pairs),
    ):
        if len(values) and int(values.max()) > limit:
            raise ScoringError(f"a prompt has {int(values.max())} {name}, batches hold {limit}")
    batches: list[Batch] = []
    left = np.arange(len(lengths))
    while len(left):
        rows = pack_rows(lengths.encoder[left], [length for length, _ in shape.rows])
        rows = [(size, [int(left[i]) for i in row]) for size, row in rows]
        unfit: list[int] = []
        for members in share_rows(rows, lengths.decoder, shape, batches_needed(rows, shape)):
            prompts = [prompt for places in members for row in places for prompt in row]
            out = set(within_output(prompts, lengths, shape))
            decoder_rows, more = fill_decoder_rows(
                [p for p in prompts if p not in out], lengths.encoder, lengths.decoder, shape
            )
            out.update(more)
            unfit += sorted(out)
            kept = tuple(
                tuple(tuple(p for p in row if p not in out) for row in places) for places in members
            )
            batches.append(Batch(kept, tuple(map(tuple, decoder_rows))))
        left = np.asarray(unfit, np.int64)
    return batches
