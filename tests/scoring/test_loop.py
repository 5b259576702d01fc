"""The loop: shards in order, resumed where asked, stopped between steps, errors handed on."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from tiny_networks import (
    RELU_TIED,
    compiled_step,
    flat,
    largest_difference,
    random_examples,
    task_of,
)

from mlm_consistency.conditionals import Masked
from mlm_consistency.errors import ScoringError
from mlm_consistency.scoring.loop import ScoringLoop, TaskInput
from mlm_consistency.scoring.mesh import MeshConfig
from mlm_consistency.scoring.step import BatchShape

EXAMPLES = random_examples(11, seed=1)
SHAPE = BatchShape(((64, 3), (96, 1)), 2, 192, 112, 64, 96)
MESH = MeshConfig(1, 1)


def make_loop(size: int = 4, step=None, stop=None) -> ScoringLoop:
    compiled, weights, mesh = compiled_step(RELU_TIED, MESH)
    return ScoringLoop(step or compiled, weights, SHAPE, mesh, 0, size, stop)


def nothing(task: str) -> set[int]:
    return set()


def test_shards_come_in_order_and_hold_their_examples():
    shards = list(make_loop().run([task_of(EXAMPLES, "a"), task_of(EXAMPLES[:2], "b")], nothing))
    assert [(s.task, s.shard) for s in shards] == [("a", 0), ("a", 1), ("a", 2), ("b", 0)]
    assert [[e.index for e in s.examples] for s in shards[:3]] == [
        [0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10],
    ]  # fmt: skip
    for shard in shards:
        for example, scores in zip(shard.examples, shard.token_log_probs, strict=True):
            assert [s is not None for s in scores] == [
                isinstance(m, Masked) for m in example.masked
            ]


@pytest.mark.parametrize("done", [{0}, {1}, {0, 1}, {2}, {0, 1, 2}])
def test_what_is_left_of_a_run_is_scored_to_the_bit_as_in_the_whole(done):
    whole = {s.shard: s for s in make_loop().run([task_of(EXAMPLES)], nothing)}
    left = {s.shard: s for s in make_loop().run([task_of(EXAMPLES)], lambda task: done)}
    assert left.keys() == whole.keys() - done
    for number, shard in left.items():
        assert [e.index for e in shard.examples] == [e.index for e in whole[number].examples]
        assert np.array_equal(flat(shard.token_log_probs), flat(whole[number].token_log_probs))


def test_nothing_left_starts_no_step():
    def step(params, batch):
        raise AssertionError("a step was taken")

    assert list(make_loop(step=step).run([task_of(EXAMPLES)], lambda task: {0, 1, 2})) == []


def test_times_count_what_was_computed():
    loop = make_loop()
    list(loop.run([task_of(EXAMPLES)], nothing))
    lengths = task_of(EXAMPLES).lengths
    assert loop.times.examples == len(EXAMPLES)
    assert loop.times.prompts == len(lengths)
    assert loop.times.encoder_tokens == lengths.encoder.sum()
    assert loop.times.decoder_tokens == lengths.decoder.sum()
    assert loop.times.steps > 3


def test_stop_drops_the_shard_in_work_and_ends():
    stop, compiled = threading.Event(), compiled_step(RELU_TIED, MESH)[0]
    taken = []

    def step(params, batch):
        taken.append(1)
        if len(taken) == stop_at:
            stop.set()
        return compiled(params, batch)

    stop_at = 10**9
    list(make_loop(step=step, stop=stop).run([task_of(EXAMPLES)], nothing))
    steps = len(taken)
    for stop_at in (1, steps // 2, steps):
        stop.clear()
        taken.clear()
        found = [s.shard for s in make_loop(step=step, stop=stop).run([task_of(EXAMPLES)], nothing)]
        assert len(taken) == stop_at, "no step after the signal"
        assert found == list(range(len(found)))
        assert len(found) < 3


def test_a_caller_that_leaves_early_leaves_no_thread_behind():
    before = threading.active_count()
    shards = make_loop(size=1).run([task_of(EXAMPLES)], nothing)
    next(shards)
    shards.close()
    assert threading.active_count() == before


def test_an_error_of_the_input_reaches_the_caller():
    whole = task_of(EXAMPLES)

    def examples():
        yield from EXAMPLES[:6]
        raise OSError("the disk is gone")

    task = TaskInput("task", examples, whole.lengths, whole.first_prompt)
    shards = make_loop().run([task], nothing)
    assert next(shards).shard == 0
    with pytest.raises(OSError, match="the disk is gone"):
        next(shards)


def test_examples_that_are_not_those_that_were_planned_are_refused():
    whole = task_of(EXAMPLES)
    swapped = [*EXAMPLES[:5], EXAMPLES[6], EXAMPLES[5], *EXAMPLES[7:]]
    task = TaskInput("task", lambda: iter(swapped), whole.lengths, whole.first_prompt)
    shards = make_loop().run([task], nothing)
    assert next(shards).shard == 0
    with pytest.raises(ScoringError, match="task 'task', shard 1: the examples are not those"):
        next(shards)


def test_scores_do_not_depend_on_what_is_scored_with_them():
    one = make_loop(size=1).run([task_of(EXAMPLES)], nothing)
    many = make_loop(size=100).run([task_of(EXAMPLES)], nothing)
    apart = [s.token_log_probs[0] for s in one]
    (together,) = many
    assert largest_difference(apart, together.token_log_probs) < 1e-5
