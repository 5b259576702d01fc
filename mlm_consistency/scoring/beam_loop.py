"""The search over whole tasks: shards of examples in, their beams out.

Examples of about the same length share a row length, so few shapes are compiled. The lanes of a
mesh (see `scoring.lanes`) work on one shard each, in step; what each step holds follows from the
lengths alone, so every process knows how many steps the others need.
"""

from __future__ import annotations

import dataclasses
import itertools
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh

from mlm_consistency.conditionals.example import EncodedExample, Masked
from mlm_consistency.errors import ScoringError
from mlm_consistency.scoring.beams import BeamConfig
from mlm_consistency.scoring.lanes import lanes_of, waves
from mlm_consistency.scoring.mesh import batch_sharding
from mlm_consistency.scoring.shapes import round_up

Search = Callable[[Any, dict[str, jax.Array]], dict[str, jax.Array]]


@dataclasses.dataclass(frozen=True)
class Beam:
    """One thing that the model would say.

    Attributes:
      tokens: int32 [m], the stop token at the end where it ended.
      log_probs: float32 [m], log p of each in nats.
      score: by which beams are ranked.
    """

    tokens: np.ndarray
    log_probs: np.ndarray
    score: float


@dataclasses.dataclass(frozen=True)
class SearchInput:
    """One task as the search needs it.

    Attributes:
      name: name in records.
      examples: starts a pass; each example under the one conditional that is searched.
      lengths: int64 [n], encoder tokens of each example.
    """

    name: str
    examples: Callable[[], Iterator[EncodedExample]]
    lengths: np.ndarray

    def shards(self, size: int) -> int:
        """Number of shards of `size` examples."""
        return -(-len(self.lengths) // size)


@dataclasses.dataclass(frozen=True)
class BeamShard:
    """Some consecutive examples of a task with their beams, best first."""

    task: str
    shard: int
    examples: list[EncodedExample]
    beams: list[list[Beam]]


def choose_row_lengths(lengths: np.ndarray, multiple: int, most: int) -> tuple[int, ...]:
    """At most `most` row lengths, multiples of `multiple`, with the least padding in all.

    >>> choose_row_lengths(np.array([3, 4, 30, 31]), 8, 2)
    (8, 32)
    """
    sizes, counts = np.unique(
        [round_up(int(length), multiple) for length in lengths], return_counts=True
    )
    # least[k][i]: fewest tokens of the rows up to size i with k lengths, the longest of them i.
    ends = np.cumsum(counts)
    tokens = sizes * ends
    chosen: list[list[tuple[int, ...]]] = [[(int(size),) for size in sizes]]
    least = tokens.astype(np.int64)
    best = (int(least[-1]), chosen[0][-1])
    for _ in range(1, min(most, len(sizes))):
        grown, paths = least.copy(), list(chosen[-1])
        for i in range(len(sizes)):
            for j in range(i):
                cost = least[j] + sizes[i] * (ends[i] - ends[j])
                if cost < grown[i]:
                    grown[i], paths[i] = cost, (*chosen[-1][j], int(sizes[i]))
        least = grown
        chosen.append(paths)
        best = min(best, (int(least[-1]), paths[-1]))
    return best[1]


class BeamLoop:
    """Runs a compiled search over tasks on a mesh."""

    def __init__(
        self,
        search: Search,
        params: Any,
        mesh: Mesh,
        config: BeamConfig,
        prefix: np.ndarray,
        tasks: Sequence[SearchInput],
        stop: threading.Event | None = None,
    ) -> None:
        """Args:
        search: see `scoring.beams.make_search`.
        params: weights on the mesh.
        config: how to search.
        prefix: int32 [P], decoder inputs before the answer, the start token first.
        tasks: what will be searched; their lengths decide the shapes.
        stop: when set, the search ends before its next step; the shard in work is dropped.
        """
        self.search, self.params, self.config = search, params, config
        self.prefix, self.tasks = np.asarray(prefix, np.int32), tasks
        self.stop = stop or threading.Event()
        self.lanes = lanes_of(mesh)
        self.steps = 0
        self._sharding = batch_sharding(mesh)
        self.row_lengths = choose_row_lengths(
            np.concatenate([task.lengths for task in tasks]),
            config.length_multiple,
            config.max_row_lengths,
        )
        # Rows of a slot: as many as the budget allows, and no more than any shard fills.
        fullest = dict.fromkeys(self.row_lengths, 1)
        for task in tasks:
            for shard in range(task.shards(config.examples_per_shard)):
                for length, members in self._by_length(task, shard).items():
                    fullest[length] = max(fullest[length], len(members))
        self.rows = {
            length: max(
                1, min(config.tokens_per_batch // length, -(-fullest[length] // self.lanes.slots))
            )
            for length in self.row_lengths
        }

    def run(self, finished: Callable[[str], set[int]]) -> Iterator[BeamShard]:
        """Searches what is not finished; yields the shards of this process's lane in order.

        Args:
          finished: task -> shards that need not be searched; the same on every process.

        Raises:
          ScoringError: if a pass over a task gives other examples than were planned, or targets
            before the answer that differ from example to example.
        """
        size = self.config.examples_per_shard
        for task in self.tasks:
            done = finished(task.name)
            todo = [shard for shard in range(task.shards(size)) if shard not in done]
            stream, at = task.examples(), 0
            for wave in waves(todo, self.lanes.count):
                mine = wave[self.lanes.mine]
                examples: list[EncodedExample] = []
                if mine is not None:
                    # What other lanes, or an earlier start, have searched is skipped.
                    skipped = mine * size - at
                    examples = list(itertools.islice(stream, skipped, skipped + size))
                    at = mine * size + len(examples)
                    self._check(task, mine, examples)
                beams = self._wave(task, wave, examples)
                if self.stop.is_set():
                    return
                if mine is not None:
                    yield BeamShard(task.name, mine, examples, beams)

    def _check(self, task: SearchInput, shard: int, examples: Sequence[EncodedExample]) -> None:
        """Refuses examples that the plan was not made for, and prefixes that differ."""
        size = self.config.examples_per_shard
        planned = task.lengths[shard * size : (shard + 1) * size].tolist()
        came = [len(_masked(example).encoder) for example in examples]
        if came != planned:
            raise ScoringError(
                f"task {task.name!r}, shard {shard}: the examples are not those that the plan was "
                "made for: the data changed while the search was starting. Give the same command "
                "again."
            )
        for example in examples:
            if not np.array_equal(_masked(example).prefix, self.prefix[1:]):
                raise ScoringError(
                    f"task {task.name!r}, example {example.id!r}: the targets before the answer "
                    f"are {_masked(example).prefix.tolist()}, expected "
                    f"{self.prefix[1:].tolist()}: beams are searched for under the baseline"
                )

    def _by_length(self, task: SearchInput, shard: int | None) -> dict[int, list[int]]:
        """Row length -> the examples of a shard that lie in such rows, by number in the shard."""
        found: dict[int, list[int]] = {length: [] for length in self.row_lengths}
        size = self.config.examples_per_shard
        lengths: Any = [] if shard is None else task.lengths[shard * size : (shard + 1) * size]
        for number, length in enumerate(lengths):
            found[next(row for row in self.row_lengths if row >= length)].append(number)
        return found

    def _wave(
        self, task: SearchInput, wave: list[int | None], examples: list[EncodedExample]
    ) -> list[list[Beam]]:
        """Searches one shard a lane; the beams of this lane's examples."""
        plans = [self._by_length(task, shard) for shard in wave]
        mine = plans[self.lanes.mine]
        beams: list[list[Beam]] = [[] for _ in examples]
        waiting: tuple[list[int], dict[str, jax.Array]] | None = None
        for length in self.row_lengths:
            rows = self.rows[length] * self.lanes.slots
            steps = max(-(-len(plan[length]) // rows) for plan in plans)
            for step in range(steps):
                if self.stop.is_set():
                    return beams
                members = mine[length][step * rows : (step + 1) * rows]
                batch = self._batch([examples[number] for number in members], length, rows)
                flying = (members, self.search(self.params, batch))
                self.steps += 1
                if waiting is not None:
                    self._collect(*waiting, beams)
                waiting = flying
        if waiting is not None:
            self._collect(*waiting, beams)
        return beams

    def _batch(
        self, examples: Sequence[EncodedExample], length: int, rows: int
    ) -> dict[str, jax.Array]:
        """The global arrays of a step, this lane's rows from `examples`."""
        tokens = np.zeros((rows, length), np.int32)
        lengths = np.zeros(rows, np.int32)
        for row, example in enumerate(examples):
            encoder = _masked(example).encoder
            tokens[row, : len(encoder)] = encoder
            lengths[row] = len(encoder)
        arrays = {
            "encoder_tokens": tokens,
            "encoder_lengths": lengths,
            "prefix": np.tile(self.prefix, (rows, 1)),
        }
        total = rows * self.lanes.count
        return {
            name: jax.make_array_from_process_local_data(
                self._sharding, array, (total, *array.shape[1:])
            )
            for name, array in arrays.items()
        }

    def _collect(
        self, members: Sequence[int], found: dict[str, jax.Array], beams: list[list[Beam]]
    ) -> None:
        """Reads this lane's rows of a search's result into `beams`."""
        local = {name: _local_rows(array) for name, array in found.items()}
        for row, number in enumerate(members):
            for beam in range(self.config.width):
                length = int(local["length"][row, beam])
                if length:
                    beams[number].append(
                        Beam(
                            local["tokens"][row, beam, :length],
                            local["log_probs"][row, beam, :length],
                            float(local["score"][row, beam]),
                        )
                    )


def _masked(example: EncodedExample) -> Masked:
    """The example under the one conditional that is searched."""
    (masked,) = example.masked
    if not isinstance(masked, Masked):
        raise ScoringError(f"example {example.id!r} cannot be searched: {masked.reason}")
    return masked


def _local_rows(array: jax.Array) -> np.ndarray:
    """The rows of a batch that this process holds, in order."""
    parts = {
        shard.index[0].start or 0: np.asarray(shard.data) for shard in array.addressable_shards
    }
    return np.concatenate([parts[start] for start in sorted(parts)])
