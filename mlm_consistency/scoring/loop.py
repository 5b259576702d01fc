"""The scoring loop: shards of examples in, their token log-probabilities out.

A background thread reads, packs and lays out the next shard while the devices compute; the main
thread keeps two steps in flight and hands finished shards to its caller, who writes them.
"""

from __future__ import annotations

import collections
import dataclasses
import queue
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import jax
import numpy as np
from jax.profiler import StepTraceAnnotation, TraceAnnotation
from jax.sharding import Mesh

from mlm_consistency.conditionals.example import EncodedExample
from mlm_consistency.errors import ScoringError
from mlm_consistency.scoring.assemble import (
    Arrays,
    Prompt,
    empty_batch,
    lay_out,
    lengths_of,
    price_moved,
    prompts_of,
)
from mlm_consistency.scoring.divergence import Divergences, DivergenceStep, local_slots
from mlm_consistency.scoring.lanes import Lanes, lanes_of, waves
from mlm_consistency.scoring.mesh import batch_sharding
from mlm_consistency.scoring.packing import Batch, PromptLengths, pack
from mlm_consistency.scoring.step import BatchShape

TokenLogProbs = list[list[list[np.ndarray] | None]]
IN_FLIGHT = 2


@dataclasses.dataclass(frozen=True)
class TaskInput:
    """One task as the loop needs it.

    Attributes:
      name: name in records.
      examples: starts a pass over its examples; the same ones in the same order every time.
      lengths: of all its prompts, in order of examples.
      first_prompt: int64 [n + 1]: the prompts of example i are first_prompt[i] to
        first_prompt[i + 1].
    """

    name: str
    examples: Callable[[], Iterator[EncodedExample]]
    lengths: PromptLengths
    first_prompt: np.ndarray

    @property
    def count(self) -> int:
        """Number of examples."""
        return len(self.first_prompt) - 1

    def shards(self, size: int) -> int:
        """Number of shards of `size` examples."""
        return -(-self.count // size)


@dataclasses.dataclass(frozen=True)
class ScoredShard:
    """Some consecutive examples of a task with their scores.

    Attributes:
      task: name of the task.
      shard: number of the shard.
      examples: the examples.
      token_log_probs: [example][conditional][candidate] -> float32 [m_c] in nats; None in place
        of a conditional that does not apply.
      divergences: of the first answer token over the whole vocabulary, where asked for.
    """

    task: str
    shard: int
    examples: list[EncodedExample]
    token_log_probs: TokenLogProbs
    divergences: Divergences | None = None


@dataclasses.dataclass
class LoopTimes:
    """Where the time of a run went, in seconds, and how much was computed."""

    steps: int = 0
    examples: int = 0
    prompts: int = 0
    encoder_tokens: int = 0
    decoder_tokens: int = 0
    waiting_for_input: float = 0.0
    waiting_for_device: float = 0.0


@dataclasses.dataclass
class _Work:
    """One shard of this lane on its way through the loop (or a lane that idles in step).

    `most` examples are in the largest shard of all lanes, `width` prompts in its fullest batch.
    """

    task: str
    shard: int | None
    examples: list[EncodedExample]
    prompts: list[Prompt]
    steps: list[tuple[Arrays, list[list[tuple[int, int]]]]]
    most: int
    width: int


class ScoringLoop:
    """Runs a compiled step over tasks on a mesh."""

    def __init__(
        self,
        step: Callable[[Any, Mapping[str, jax.Array]], Any],
        params: Any,
        shape: BatchShape,
        mesh: Mesh,
        start_id: int,
        examples_per_shard: int,
        stop: threading.Event | None = None,
        divergence: DivergenceStep | None = None,
    ) -> None:
        """Args:
        step: see `scoring.step.make_step`; with states where there is `divergence`.
        params: weights on the mesh.
        shape: static shape of a slot.
        start_id: the token with which the decoder starts.
        examples_per_shard: examples planned and recorded together.
        stop: when set, the loop ends before its next step; the shard in work is dropped.
        divergence: compares the conditionals' first tokens over the whole vocabulary.
        """
        self.step, self.params, self.shape = step, params, shape
        self.mesh, self.start_id = mesh, start_id
        self.examples_per_shard = examples_per_shard
        self.stop = stop or threading.Event()
        self.divergence = divergence
        self.lanes: Lanes = lanes_of(mesh)
        self.times = LoopTimes()
        self._sharding = batch_sharding(mesh)

    def run(
        self, tasks: Sequence[TaskInput], finished: Callable[[str], set[int]]
    ) -> Iterator[ScoredShard]:
        """Scores what is not finished; yields the shards of this process's lane in order.

        Args:
          tasks: what to score.
          finished: task -> shards that need not be scored; the same on every process.

        Raises:
          ScoringError: if a pass over a task gives other examples than were planned.
        """
        for task in tasks:
            done = finished(task.name)
            todo = [s for s in range(task.shards(self.examples_per_shard)) if s not in done]
            yield from self._run_task(task, todo)
            if self.stop.is_set():
                return

    def _run_task(self, task: TaskInput, todo: list[int]) -> Iterator[ScoredShard]:
        prepared: queue.Queue[_Work | BaseException | None] = queue.Queue(maxsize=2)
        leave = threading.Event()

        def put(item: _Work | BaseException | None) -> bool:
            while not leave.is_set():
                try:
                    prepared.put(item, timeout=0.1)
                    return True
                except queue.Full:
                    continue
            return False

        def prepare() -> None:
            try:
                for work in self._prepare(task, todo):
                    if not put(work):
                        return
                put(None)
            except BaseException as error:
                put(error)

        thread = threading.Thread(target=prepare, name="prepare", daemon=True)
        thread.start()
        try:
            while True:
                began = time.monotonic()
                with TraceAnnotation("wait for input"):
                    work = prepared.get()
                self.times.waiting_for_input += time.monotonic() - began
                if isinstance(work, BaseException):
                    raise work
                if work is None:
                    return
                scored = self._compute(work)
                if self.stop.is_set():
                    return
                if scored is not None:
                    yield scored
        finally:
            leave.set()
            thread.join(timeout=10)

    def _prepare(self, task: TaskInput, todo: list[int]) -> Iterator[_Work]:
        """Packs and lays out, wave after wave, the shards of this lane."""
        size, lanes = self.examples_per_shard, self.lanes
        stream = enumerate(task.examples())
        at = -1
        for wave in waves(todo, lanes.count):
            plans = [[] if shard is None else self._plan(task, shard) for shard in wave]
            count = max(-(-len(plan) // lanes.slots) for plan in plans)
            mine, plan = wave[lanes.mine], plans[lanes.mine]
            examples: list[EncodedExample] = []
            if mine is not None:
                last = min((mine + 1) * size, task.count) - 1
                with TraceAnnotation("read examples"):
                    while at < last:
                        at, example = next(stream)
                        if at >= mine * size:
                            examples.append(example)
            with TraceAnnotation("lay out batches"):
                prompts = prompts_of(examples)
                if mine is not None:
                    self._check_planned(task, mine, prompts)
                steps = [
                    self._slots(plan[i * lanes.slots : (i + 1) * lanes.slots], prompts)
                    for i in range(count)
                ]
            most = min(size, task.count - size * min(s for s in wave if s is not None))
            fullest = max(sum(map(len, b.decoder_rows)) for plan in plans for b in plan)
            # Of few different widths, so that little is compiled.
            width = 1 << (fullest - 1).bit_length()
            yield _Work(task.name, mine, examples, prompts, steps, most, width)

    def _plan(self, task: TaskInput, shard: int) -> list[Batch]:
        with TraceAnnotation("pack"):
            return pack(self._lengths(task, shard), self.shape)

    def _lengths(self, task: TaskInput, shard: int) -> PromptLengths:
        size = self.examples_per_shard
        first = task.first_prompt[shard * size]
        last = task.first_prompt[min((shard + 1) * size, task.count)]
        return task.lengths.take(np.arange(first, last))

    def _check_planned(self, task: TaskInput, shard: int, prompts: Sequence[Prompt]) -> None:
        """Refuses prompts of other lengths than those that were planned."""
        planned, came = self._lengths(task, shard), lengths_of(prompts)
        for field in dataclasses.fields(PromptLengths):
            if not np.array_equal(getattr(planned, field.name), getattr(came, field.name)):
                raise ScoringError(
                    f"task {task.name!r}, shard {shard}: the examples are not those that the plan "
                    f"was made for ({field.name} differs): the data changed while the run was "
                    "starting. Give the same command again."
                )

    def _slots(
        self, batches: Sequence[Batch], prompts: Sequence[Prompt]
    ) -> tuple[Arrays, list[list[tuple[int, int]]]]:
        """The arrays of this lane's slots for one step, and where each prompt's pairs stand."""
        slots, places = [], []
        for batch in batches:
            arrays, place = lay_out(batch, prompts, self.shape, self.start_id)
            slots.append(arrays)
            places.append(place)
        slots += [empty_batch(self.shape)] * (self.lanes.slots - len(slots))
        return {name: np.stack([slot[name] for slot in slots]) for name in slots[0]}, places

    def _global(self, arrays: Arrays) -> dict[str, jax.Array]:
        total = self.lanes.count * self.lanes.slots
        return {
            name: jax.make_array_from_process_local_data(
                self._sharding, array, (total, *array.shape[1:])
            )
            for name, array in arrays.items()
        }

    def _compute(self, work: _Work) -> ScoredShard | None:
        conditionals = len(work.examples[0].masked) if work.examples else 0
        scores: TokenLogProbs = [[None] * conditionals for _ in work.examples]
        ends = _Ends(self.divergence, work) if self.divergence else None
        flying: collections.deque[tuple[Any, Any, list[list[tuple[int, int]]]]]
        flying = collections.deque()
        for arrays, places in work.steps:
            if self.stop.is_set():
                return None
            with StepTraceAnnotation("score", step_num=self.times.steps):
                out, picked = self.step(self.params, self._global(arrays)), None
            if ends is not None:
                out, states = out
                picked = ends.pick(states, places)
            flying.append((out, picked, places))
            self.times.steps += 1
            if len(flying) > IN_FLIGHT:
                self._collect(*flying.popleft(), work.prompts, scores, ends)
        while flying:
            self._collect(*flying.popleft(), work.prompts, scores, ends)
        price_moved(work.examples, scores)
        began = time.monotonic()
        divergences = ends.compare(self.params) if ends is not None else None
        self.times.waiting_for_device += time.monotonic() - began
        if work.shard is None:
            return None
        self.times.examples += len(work.examples)
        self.times.prompts += len(work.prompts)
        return ScoredShard(work.task, work.shard, work.examples, scores, divergences)

    def _collect(
        self,
        out: jax.Array,
        picked: jax.Array | None,
        places: Sequence[Sequence[tuple[int, int]]],
        prompts: Sequence[Prompt],
        scores: TokenLogProbs,
        ends: _Ends | None,
    ) -> None:
        """Reads the slots of this lane from a step's result [G, Q] into `scores`."""
        began = time.monotonic()
        with TraceAnnotation("wait for device"):
            values = local_slots(out)
            if ends is not None and picked is not None:
                ends.collect(picked, places)
        self.times.waiting_for_device += time.monotonic() - began
        for row, slot in zip(values, places, strict=False):
            for number, first in slot:
                prompt = prompts[number]
                scores[prompt.example][prompt.conditional] = [
                    row[first + pairs] for pairs in prompt.tree.candidate_pairs
                ]
                self.times.encoder_tokens += len(prompt.masked.encoder)
                self.times.decoder_tokens += 1 + len(prompt.masked.prefix) + prompt.tree.size


class _Ends:
    """The decoder's states where the prefixes of a shard end, gathered from its steps."""

    def __init__(self, step: DivergenceStep, work: _Work) -> None:
        self.step, self.work = step, work
        self.states: np.ndarray | None = None
        self.applies = np.zeros((len(work.examples), step.conditionals), bool)
        for prompt in work.prompts:
            # Behind answer tokens that the encoder shows, another token than the first comes next.
            self.applies[prompt.example, prompt.conditional] = not prompt.masked.moved

    def pick(self, states: jax.Array, places: Sequence[Sequence[tuple[int, int]]]) -> jax.Array:
        """The states [G, width, D] at the first read node of each prompt of a step."""
        index = []
        for slot in places:
            reads = [len(self.work.prompts[number].tree.read) for number, _ in slot]
            index.append(np.cumsum([0, *reads])[:-1])
        return self.step.pick(states, index, self.work.width)

    def collect(self, picked: jax.Array, places: Sequence[Sequence[tuple[int, int]]]) -> None:
        """Puts them in their examples' rows."""
        rows = local_slots(picked)
        if self.states is None:
            self.states = np.zeros((*self.applies.shape, rows.shape[-1]), rows.dtype)
        for row, slot in zip(rows, places, strict=False):
            for place, (number, _) in enumerate(slot):
                prompt = self.work.prompts[number]
                self.states[prompt.example, prompt.conditional] = row[place]

    def compare(self, params: Any) -> Divergences | None:
        """The divergences, when all steps of the shard are collected."""
        if self.states is None:
            return None
        return self.step(params, self.states, self.applies, self.step.calls(self.work.most))
