"""How many steps a task takes, and the row length that takes least: from lengths alone.

    examples ──> shards of a fixed number ──> lanes take one shard each, in step ──> a step
                                              computes one batch in each data slot

Benchmarks come sorted by subject, so shards differ: a mixture of row lengths that fits the whole
task fits no single shard. Here each choice is tried on the shards themselves.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from mlm_consistency.models.config import T5Config
from mlm_consistency.scoring.flops import attention_weights, computed_flops
from mlm_consistency.scoring.hardware import Device
from mlm_consistency.scoring.lanes import waves
from mlm_consistency.scoring.packing import PromptLengths, concatenate, pack
from mlm_consistency.scoring.shapes import PackingConfig, check_limits, choose_shape, round_up
from mlm_consistency.scoring.step import BatchShape

TRIED_SHARDS = 6
# Row lengths that are tried, in units of the longest prompt.
FACTORS = (1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 6.0)
# By how much more than a sample needs a batch has memory, nodes, reads and pairs. Too little leaves
# prompts over, which fill further batches badly.
SPARES = (0.0, 0.01, 0.02, 0.04)


def shards_of(
    lengths: PromptLengths, first_prompt: np.ndarray, examples_per_shard: int
) -> list[PromptLengths]:
    """The prompts of each shard of one task.

    Args:
      lengths: of all its prompts.
      first_prompt: int64 [n + 1], see `task_lengths.TaskLengths.prompts`.
      examples_per_shard: examples of a shard.
    """
    edges = first_prompt[::examples_per_shard]
    edges = edges if edges[-1] == first_prompt[-1] else np.append(edges, first_prompt[-1])
    return [lengths.take(np.arange(start, stop)) for start, stop in itertools.pairwise(edges)]


def batches_of(
    tasks: Sequence[Sequence[PromptLengths]], shape: BatchShape
) -> tuple[tuple[int, ...], ...]:
    """Batches of each shard of each task."""
    return tuple(tuple(len(pack(shard, shape)) for shard in shards) for shards in tasks)


def steps_of(batches: Sequence[Sequence[int]], lanes: int, slots: int) -> int:
    """Steps that the loop takes: in each wave as many as its slowest lane needs.

    Args:
      batches: of each shard of each task.
      lanes: groups of data slots that work on a shard of their own.
      slots: data slots of a lane.
    """
    steps = 0
    for shards in batches:
        for wave in waves(list(range(len(shards))), lanes):
            steps += max(-(-shards[shard] // slots) for shard in wave if shard is not None)
    return steps


def packing_for(packing: PackingConfig, device: Device) -> PackingConfig:
    """`packing` with what it leaves at its defaults set for `device`."""
    default = PackingConfig()
    changed: dict[str, Any] = {
        name: getattr(device, name)
        for name in ("softmax_flops", "length_multiple")
        if getattr(packing, name) == getattr(default, name)
    }
    return dataclasses.replace(packing, **changed)


def run_shape(
    packing: PackingConfig,
    device: Device,
    tasks: Sequence[Sequence[PromptLengths]],
    model: T5Config,
) -> BatchShape:
    """The batch shape of a run on `device`; see `best_shape` and `hardware.device_of`."""
    return best_shape(packing_for(packing, device), tasks, model)


def best_shape(
    packing: PackingConfig, tasks: Sequence[Sequence[PromptLengths]], model: T5Config
) -> BatchShape:
    """The batch shape that costs least on the shards themselves.

    A pure function of its arguments, as every host must come to the same. Tried are the mixture
    that `choose_shape` finds, rows of one length each, and how much more than a sample needs the
    other sizes get; `packing.row_lengths` are kept where given. The cost is that of whole batches:
    dense FLOPs, attention over whole rows, and softmax at `packing.softmax_flops` a weight.

    Raises:
      ScoringError: if a prompt is longer than the limits.
    """
    shards = [shard for task in tasks for shard in task]
    everything = concatenate(shards)
    check_limits(everything, packing)
    if len(shards) == 1:
        spares: tuple[float, ...] = SPARES[:1]
        tried = shards
    else:
        spares = SPARES
        numbers = np.linspace(0, len(shards) - 1, TRIED_SHARDS).round().astype(int)
        tried = [shards[number] for number in np.unique(numbers)]

    def cost(shape: BatchShape) -> float:
        batch = computed_flops(shape, model).total
        batch += packing.softmax_flops * attention_weights(shape, model)
        return batch * sum(len(pack(shard, shape)) for shard in tried)

    def shape_of(rows: tuple[int, ...], spare: float) -> BatchShape:
        trial = dataclasses.replace(packing, row_lengths=rows)
        return choose_shape(everything, model, trial, spare)

    candidates = [packing.row_lengths] if packing.row_lengths else [(), *_rows(everything, packing)]
    by_rows = [shape_of(rows, spares[0]) for rows in candidates]
    costs = [cost(shape) for shape in by_rows]
    best = costs.index(min(costs))
    rows = tuple(length for length, _ in by_rows[best].rows)
    by_spare = [by_rows[best], *(shape_of(rows, spare) for spare in spares[1:])]
    return min(by_spare, key=cost)


def _rows(lengths: PromptLengths, packing: PackingConfig) -> list[tuple[int, ...]]:
    """Single row lengths worth trying: the longest prompt's, and longer ones, which waste less."""
    step = packing.length_multiple
    longest = round_up(int(lengths.encoder.max()), step)
    limit = max(longest, packing.max_encoder_length)
    tried = {round_up(longest * factor, step) for factor in FACTORS}
    return [(n,) for n in sorted(tried) if n <= limit]
