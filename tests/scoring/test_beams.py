"""Beam search against everything that could be said, a plain search, and a plain network."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import beam_networks as networks
import jax.numpy as jnp
import numpy as np
import pytest

from mlm_consistency.errors import ConfigError, ScoringError
from mlm_consistency.scoring.beam_loop import choose_row_lengths
from mlm_consistency.scoring.beams import BeamConfig, best_tokens, continuations

HERE = Path(__file__).parent
STEPS = 3
TOLERANCE = 1e-5
EVERYTHING = len(networks.everything(STEPS))


def by_tokens(beams):
    return {tuple(beam.tokens.tolist()): beam for beam in beams}


@pytest.fixture(scope="module")
def encoders():
    return networks.prompts(3)


@pytest.fixture(scope="module")
def said(encoders):
    return [networks.exhaustive(encoder, STEPS) for encoder in encoders]


@pytest.fixture(scope="module", params=[1.0, 0.0])
def widest(request, encoders):
    """Penalty, and the beams of a search so wide that nothing is left out."""
    config = BeamConfig(
        width=EVERYTHING, max_tokens=STEPS, length_penalty=request.param, tokens_per_batch=64,
        max_row_lengths=1,
    )  # fmt: skip
    (shard,), _ = networks.search(encoders, config)
    return request.param, shard.beams


def test_the_widest_search_finds_everything_in_order(widest, said):
    penalty, found = widest
    for beams, table in zip(found, said, strict=True):
        expected = networks.ranked(table, penalty)
        assert len(beams) == EVERYTHING
        scores = np.array([beam.score for beam in beams])
        np.testing.assert_allclose(scores, [score for score, _ in expected], atol=TOLERANCE)
        assert (np.diff(scores) <= 0).all()
        assert by_tokens(beams).keys() == table.keys(), "each once"


def test_each_token_has_the_log_probability_that_it_has_without_a_cache(widest, said):
    """The reference knows no cache: it runs every beginning from its start."""
    _, found = widest
    for beams, table in zip(found, said, strict=True):
        for tokens, beam in by_tokens(beams).items():
            np.testing.assert_allclose(beam.log_probs, table[tokens], atol=TOLERANCE)


def test_a_narrow_search_is_the_plain_one(encoders, said):
    width = 3
    config = BeamConfig(width=width, max_tokens=STEPS, tokens_per_batch=64, max_row_lengths=1)
    (shard,), _ = networks.search(encoders, config)
    for beams, table in zip(shard.beams, said, strict=True):
        expected = networks.plain_beam_search(table, width, STEPS)
        assert [tuple(beam.tokens.tolist()) for beam in beams] == [key for _, key in expected]
        scores = [score for score, _ in expected]
        np.testing.assert_allclose([beam.score for beam in beams], scores, atol=TOLERANCE)


def test_neither_batch_nor_row_nor_shard_changes_the_beams():
    encoders = networks.prompts(9, seed=1, longest=40)
    together = BeamConfig(width=4, max_tokens=STEPS, tokens_per_batch=1024, max_row_lengths=1)
    apart = BeamConfig(
        width=4, max_tokens=STEPS, tokens_per_batch=64, max_row_lengths=2, length_multiple=8,
        examples_per_shard=4,
    )  # fmt: skip
    (one,), _ = networks.search(encoders, together)
    shards, loop = networks.search(encoders, apart)
    assert [len(shard.examples) for shard in shards] == [4, 4, 1]
    assert len(loop.row_lengths) == 2
    assert [e.id for shard in shards for e in shard.examples] == [e.id for e in one.examples]
    for beams, others in zip(
        one.beams, [beams for shard in shards for beams in shard.beams], strict=True
    ):
        for beam, other in zip(beams, others, strict=True):
            assert beam.tokens.tolist() == other.tokens.tolist()
            np.testing.assert_allclose(beam.log_probs, other.log_probs, atol=TOLERANCE)


def test_rows_beyond_the_vocabulary_are_never_proposed(encoders):
    config = BeamConfig(width=EVERYTHING, max_tokens=2, tokens_per_batch=64, max_row_lengths=1)
    (shard,), _ = networks.search(encoders, config, known=networks.STOP + 1)
    for beams in shard.beams:
        words = networks.STOP  # others than STOP that are known
        assert len(beams) == 1 + words * (words + 1)
        assert max(int(beam.tokens.max()) for beam in beams) == networks.STOP


def test_equals_go_to_the_earlier_beam_and_the_smaller_token():
    plain = lambda x, axes: x  # noqa: E731
    log_probs = jnp.log(jnp.asarray([[[1, 4, 4, 1, 4, 2.0], [4, 1, 1, 4, 2, 1]]]) / 16)
    for parts in (1, 2, 3):
        values, ids = best_tokens(log_probs, 4, parts, plain)
        assert ids.tolist() == [[[1, 2, 4, 5], [0, 3, 4, 1]]]
        assert (jnp.diff(values) <= 0).all()
        _, beam, token, _ = continuations(jnp.zeros((1, 2)), log_probs, 6, parts, plain)
        assert beam.tolist() == [[0, 0, 0, 1, 1, 0]]
        assert token.tolist() == [[1, 2, 4, 0, 3, 5]]


def test_row_lengths_have_the_least_padding():
    rng = np.random.default_rng(3)
    lengths = rng.integers(3, 60, 200)
    lengths[-1] = 59

    def padded(rows):
        return sum(next(row for row in rows if row >= length) for length in lengths)

    one, two, three = (choose_row_lengths(lengths, 8, most) for most in (1, 2, 3))
    assert one == (64,)
    options = range(8, 65, 8)
    assert padded(two) == min(padded((a, 64)) for a in options)
    assert padded(three) == min(padded((a, b, 64)) for a in options for b in options if a < b)
    assert choose_row_lengths(np.array([7, 7]), 8, 4) == (8,)


@pytest.mark.parametrize(
    "setting", [{"width": 0}, {"max_tokens": 2.5}, {"length_penalty": "mean"}, {"width": True}]
)
def test_settings_that_cannot_be_are_refused_by_name(setting):
    with pytest.raises(ConfigError, match=f"BeamConfig.{next(iter(setting))}"):
        BeamConfig(**setting)


def test_examples_that_the_plan_was_not_made_for_are_refused(encoders):
    loop = networks.beam_loop(encoders, BeamConfig(width=1, max_tokens=1))
    other = networks.search_input(networks.prompts(3, seed=9))
    (task,) = loop.tasks
    loop.tasks = [type(task)(task.name, other.examples, task.lengths)]
    with pytest.raises(ScoringError, match="data changed"):
        list(loop.run(lambda name: set()))


def test_every_mesh_finds_the_beams_of_one_device():
    """On 8 simulated devices: data axis, model axis (heads and vocabulary), both."""
    environment = {
        **os.environ,
        "JAX_PLATFORMS": "cpu",
        "XLA_FLAGS": "--xla_force_host_platform_device_count=8",
        "PYTHONPATH": os.pathsep.join([str(HERE), *(p for p in sys.path if p)]),
    }
    done = subprocess.run(
        [sys.executable, HERE / "beam_mesh_trial.py"],
        env=environment, capture_output=True, text=True, timeout=900,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    one = found.pop("1x1")
    assert found.keys() == {"4x1", "2x4"}
    for mesh, entry in found.items():
        assert entry["tokens"] == one["tokens"], mesh
        for log_probs, expected in zip(entry["log_probs"], one["log_probs"], strict=True):
            np.testing.assert_allclose(log_probs, expected, atol=TOLERANCE)
    assert found["4x1"]["steps"] == -(-one["steps"] // 4), "data slots share the examples"
