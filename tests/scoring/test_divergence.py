"""Divergences over the whole vocabulary: exact, whatever the packing, resume or mesh."""

from __future__ import annotations

import dataclasses
import functools
import json
import os
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen as nn
from tiny_networks import (
    GELU_UNTIED,
    RELU_TIED,
    compiled_step,
    flat,
    random_examples,
    random_parameters,
    shape_for,
    task_of,
)

from mlm_consistency.conditionals import Masked
from mlm_consistency.models.presets import PRESETS
from mlm_consistency.models.t5 import initialize
from mlm_consistency.scoring.assemble import empty_batch
from mlm_consistency.scoring.divergence import (
    LARGEST_CALL,
    DivergenceStep,
    compare,
    divergence_flops,
    examples_of_a_call,
)
from mlm_consistency.scoring.flops import necessary_flops
from mlm_consistency.scoring.loop import ScoringLoop
from mlm_consistency.scoring.mesh import MeshConfig, make_mesh
from mlm_consistency.scoring.step import make_step
from mlm_consistency.scoring.task_lengths import load_lengths

HERE = Path(__file__).parent
MESH = MeshConfig(1, 1)
EXAMPLES = random_examples(11, seed=5, lengths=(4, 40))
K = len(EXAMPLES[0].masked)
PAIRS = np.triu_indices(K, 1)
SHAPE = shape_for(EXAMPLES)
LOG_2 = float(np.log(2))


def exact(log_p: np.ndarray) -> dict[str, np.ndarray]:
    """The figures of log_p [K, V] by their definitions, float64."""
    p = np.exp(np.asarray(log_p, np.float64) - np.max(log_p, -1, keepdims=True))
    p /= p.sum(-1, keepdims=True)
    first, second = np.triu_indices(len(p), 1)

    def entropy(q: np.ndarray) -> np.ndarray:
        return -np.where(q > 0, q * np.log(np.where(q > 0, q, 1)), 0).sum(-1)

    middle = (p[first] + p[second]) / 2
    return {
        "js": entropy(middle) - (entropy(p[first]) + entropy(p[second])) / 2,
        "tv": 0.5 * np.abs(p[first] - p[second]).sum(-1),
        "entropy": entropy(p),
        "top": p.argmax(-1),
    }


@pytest.mark.parametrize("count", [1, 2, 3, 5, 10])
@pytest.mark.parametrize("scale", [0.01, 1.0, 30.0])
def test_figures_are_their_definitions(count, scale):
    logits = np.random.default_rng(count).normal(size=(3, count, 333)).astype(np.float32) * scale
    found = {name: np.asarray(value) for name, value in jax.jit(compare)(logits).items()}
    assert found["js"].shape == (3, count * (count - 1) // 2)
    for example in range(3):
        for name, expected in exact(logits[example]).items():
            np.testing.assert_allclose(found[name][example], expected, rtol=2e-5, atol=2e-6)


def test_equal_distributions_are_at_0_and_disjoint_ones_at_the_bound():
    logits = np.random.default_rng(0).normal(size=(1, 700)).astype(np.float32) * 5
    same = jax.jit(compare)(np.concatenate([logits] * 4) + np.arange(4, dtype=np.float32)[:, None])
    assert np.abs(same["js"]).max() < 1e-6
    assert np.abs(same["tv"]).max() < 1e-5
    assert (np.asarray(same["js"]) >= 0).all()
    apart = jax.jit(compare)(np.asarray([[200.0] + [0.0] * 9, [0.0] * 9 + [200.0]], np.float32))
    np.testing.assert_allclose(apart["js"], [LOG_2], rtol=1e-6)
    np.testing.assert_allclose(apart["tv"], [1.0], rtol=1e-6)
    assert apart["top"].tolist() == [0, 9]


def test_padding_rows_of_the_vocabulary_and_equal_maxima():
    found = compare(jnp.asarray([[3.0, 3.0, 1.0], [1.0, 3.0, 3.0]]))
    assert found["top"].tolist() == [0, 1], "the first of equal ones"


@functools.cache
def step_with_states(config):
    return make_step(config, compiled_step(config, MESH)[2], with_states=True)


@functools.cache
def divergence_step(config, size, every):
    step = DivergenceStep(config, compiled_step(config, MESH)[2], K, size)
    step.examples = min(step.examples, every)
    return step


@functools.cache
def scored(size: int = 1000, config=RELU_TIED, done=frozenset(), every=4):
    """Shards with divergences through the loop."""
    _, weights, mesh = compiled_step(config, MESH)
    step, divergence = step_with_states(config), divergence_step(config, size, every)
    loop = ScoringLoop(step, weights, SHAPE, mesh, 0, size, divergence=divergence)
    return list(loop.run([task_of(EXAMPLES)], lambda task: set(done)))


@pytest.mark.parametrize("config", [RELU_TIED, GELU_UNTIED], ids=lambda c: c.name)
def test_the_loop_gives_the_divergences_of_one_prompt_at_a_time(config):
    from reference_t5 import ReferenceT5

    reference = ReferenceT5(config, random_parameters(config))
    found = [shard.divergences for shard in scored(4, config)]
    js, tv, entropy, top = (
        np.concatenate([getattr(d, name) for d in found]) for name in ("js", "tv", "entropy", "top")
    )
    assert len(js) == len(EXAMPLES)
    lost = 0
    for number, example in enumerate(EXAMPLES):
        fits = np.asarray([isinstance(m, Masked) for m in example.masked])
        rows = [
            reference.next_log_probs(m.encoder, m.prefix)[-1]
            if isinstance(m, Masked)
            else np.zeros(config.vocab_size)
            for m in example.masked
        ]
        expected = exact(np.asarray(rows))
        both = fits[PAIRS[0]] & fits[PAIRS[1]]
        lost += (~both).sum()
        assert np.isnan(js[number][~both]).all()
        assert np.isnan(tv[number][~both]).all()
        assert np.isnan(entropy[number][~fits]).all()
        assert (top[number][~fits] == -1).all()
        np.testing.assert_allclose(js[number][both], expected["js"][both], atol=2e-6)
        np.testing.assert_allclose(tv[number][both], expected["tv"][both], atol=5e-6)
        np.testing.assert_allclose(entropy[number][fits], expected["entropy"][fits], atol=2e-5)
        assert (top[number][fits] == expected["top"][fits]).all()
    assert lost > 50, "some conditionals do not apply"
    assert np.nanmax(js) > 1e-3


def test_scores_are_those_of_a_run_without_divergences_to_the_bit():
    step, weights, mesh = compiled_step(RELU_TIED, MESH)
    loop = ScoringLoop(step, weights, SHAPE, mesh, 0, 1000)
    (plain,) = loop.run([task_of(EXAMPLES)], lambda task: set())
    (shard,) = scored()
    assert plain.divergences is None
    assert np.array_equal(flat(plain.token_log_probs), flat(shard.token_log_probs))


def test_a_resumed_run_gives_the_same_bits():
    whole = {s.shard: s.divergences for s in scored(4)}
    left = {s.shard: s.divergences for s in scored(4, done=frozenset({0}))}
    assert left.keys() == {1, 2}
    for number, found in left.items():
        for name in ("js", "tv", "entropy", "top"):
            np.testing.assert_array_equal(getattr(found, name), getattr(whole[number], name))


def test_it_does_not_matter_how_many_are_compared_at_a_time():
    (fours,), (threes,) = scored(), scored(every=3)
    np.testing.assert_allclose(threes.divergences.js, fours.divergences.js, atol=1e-6)
    np.testing.assert_array_equal(threes.divergences.top, fours.divergences.top)


# ---- cost --------------------------------------------------------------------------------


@pytest.mark.parametrize("conditionals", [2, 10, 30])
@pytest.mark.parametrize("vocabulary", [2048, 32128, 250112])
def test_a_call_is_bounded(conditionals, vocabulary):
    count = examples_of_a_call(conditionals, vocabulary, 256)
    assert 1 <= count <= 32
    assert count == 1 or count * conditionals * vocabulary <= LARGEST_CALL


def share_of_a_step(name: str, task: str = "mmlu_ul2") -> float:
    """FLOPs of the divergences over those of the step that scores the same examples."""
    model = PRESETS[name]
    lengths, first = load_lengths(task).prompts()
    examples = len(first) - 1
    return examples * divergence_flops(10, model) / necessary_flops(lengths, model).total


@pytest.mark.parametrize(
    "name", ["t5_small", "t5_base", "t5_11b", "t5_1_1_small", "ul2_20b", "mt5_base", "mt5_xxl"]
)
def test_the_cost_is_at_most_5_percent_of_a_step(name):
    share = share_of_a_step(name)
    assert share <= 0.05, f"{100 * share:.2f} %"
    if name == "ul2_20b":
        assert share < 0.001


@pytest.mark.parametrize("vocabulary", [32128, 250112])
def test_nothing_of_the_vocabularys_size_leaves_a_step(vocabulary):
    """Shapes alone, of both steps: nothing is computed, so 250,112 pieces cost nothing."""
    config = dataclasses.replace(RELU_TIED, vocab_size=vocabulary)
    mesh = make_mesh(MeshConfig(1, 1), jax.devices()[:1])
    params = jax.eval_shape(lambda: nn.meta.unbox(initialize(config, jax.random.key(0))))
    slot = empty_batch(SHAPE)
    batch = jax.tree.map(lambda x: jax.ShapeDtypeStruct((1, *x.shape), x.dtype), slot)
    scored = jax.eval_shape(make_step(config, mesh, with_states=True), params, batch)
    step = DivergenceStep(config, mesh, K, 256)
    states = jax.ShapeDtypeStruct((1, step.examples, K, config.d_model), jnp.float32)
    compared = jax.eval_shape(step.step, params, states)
    left = [array.shape for array in jax.tree.leaves((scored, compared))]
    assert len(left) >= 6
    assert all(vocabulary not in shape for shape in left), left
    assert compared["js"].shape == (1, step.examples, K * (K - 1) // 2)


# ---- several devices ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def on_eight():
    """What divergence_trial.py measured in a process with 8 devices."""
    environment = {
        **os.environ,
        "JAX_PLATFORMS": "cpu",
        "XLA_FLAGS": "--xla_force_host_platform_device_count=8",
        "PYTHONPATH": os.pathsep.join([str(HERE), *(p for p in sys.path if p)]),
    }
    done = subprocess.run(
        [sys.executable, HERE / "divergence_trial.py"],
        env=environment, capture_output=True, text=True, timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_every_mesh_gives_the_divergences_of_one_device(on_eight):
    assert len(on_eight) == 6
    for name, entry in on_eight.items():
        one = on_eight[f"{name.split()[0]} 1x1"]
        for figure in ("js", "tv", "entropy"):
            np.testing.assert_allclose(entry[figure], one[figure], atol=5e-6, err_msg=name)
        assert entry["top"] == one["top"], name
        assert entry["calls"] < one["calls"] or "1x1" in name


def test_slots_share_the_work_to_the_bit(on_eight):
    one, eight = on_eight["relu_tied 1x1"], on_eight["relu_tied 8x1"]
    for figure in ("js", "tv", "entropy", "top"):
        assert one[figure] == eight[figure], figure


def test_no_distribution_travels_between_devices(on_eight):
    for name, entry in on_eight.items():
        vocabulary = entry["vocabulary"]
        parts = {vocabulary, vocabulary // 2, vocabulary // 4}
        if "weights over data" in name:
            continue  # there the output matrix itself is gathered over data, as in the step
        for kind, shape in entry["collectives"]:
            assert not parts & set(shape), f"{name}: {kind} {shape}"
    assert any(entry["collectives"] for entry in on_eight.values()), "sums do travel"


def test_weights_over_data_gather_weights_and_no_logits(on_eight):
    for name, entry in on_eight.items():
        for kind, shape in entry["collectives"]:
            assert len([n for n in shape if n > 1]) <= 2 or kind != "all-gather", f"{name} {shape}"
