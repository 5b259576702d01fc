"""FLOPs by formula against the matrix products that JAX traces, and against hand counts."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mlm_consistency.models.config import T5Config
from mlm_consistency.models.presets import preset
from mlm_consistency.models.t5 import T5, abstract_parameters
from mlm_consistency.scoring.flops import attention_weights, computed_flops, necessary_flops
from mlm_consistency.scoring.packing import PromptLengths
from mlm_consistency.scoring.step import BatchShape, score

GATED = T5Config("gated", 96, 24, 3, 8, 40, 2, 3, ("silu", "linear"))
PLAIN = T5Config("plain", 80, 16, 2, 12, 56, 3, 1, ("relu",), tied_embeddings=False)
MIXED = BatchShape(((16, 3), (48, 2)), 2, 72, 20, 11, 13)
SINGLE = BatchShape(((32, 1),), 1, 32, 8, 4, 4)


def traced_flops(jaxpr) -> float:
    """FLOPs of every matrix product in a jaxpr, bodies of scans as often as they run."""
    total = 0.0
    for equation in jaxpr.eqns:
        if equation.primitive.name == "dot_general":
            (contracted, _), _ = equation.params["dimension_numbers"]
            left = equation.invars[0].aval.shape
            inner = math.prod(left[axis] for axis in contracted)
            total += 2 * inner * math.prod(equation.outvars[0].aval.shape)
        times = equation.params.get("length", 1) if equation.primitive.name == "scan" else 1
        for inner_jaxpr in jax.core.jaxprs_in_params(equation.params):
            total += times * traced_flops(inner_jaxpr)
    return total


@pytest.mark.parametrize("model", [GATED, PLAIN], ids=lambda model: model.name)
@pytest.mark.parametrize("shape", [MIXED, SINGLE], ids=["mixed", "single"])
@pytest.mark.parametrize("slots", [1, 2])
def test_computed_flops_are_those_of_the_traced_step(model, shape, slots):
    batch = {
        name: jax.ShapeDtypeStruct((slots, *size), jnp.int32)
        for name, size in shape.arrays().items()
    }
    network = T5(model)
    traced = jax.make_jaxpr(lambda params, batch: score(network, params, batch))(
        abstract_parameters(model), batch
    )
    assert slots * computed_flops(shape, model).total == traced_flops(traced.jaxpr)


def test_a_batch_without_padding_or_hidden_pairs_computes_what_is_necessary():
    lengths = PromptLengths(*np.array([[32], [8], [4], [4]]))
    needed = necessary_flops(lengths, GATED, visible=np.array([8 * 8]))
    assert needed.total == computed_flops(SINGLE, GATED).total


def test_necessary_flops_by_hand():
    lengths = PromptLengths(*np.array([[10, 20], [3, 5], [1, 2], [2, 2]]))
    found = necessary_flops(lengths, GATED)
    square, wide = 24 * 24, 24 * 40
    assert found.encoder == 2 * 30 * 2 * (4 * square + 3 * wide)
    assert found.encoder_attention == 2 * (10**2 + 20**2) * 4 * 24
    assert found.decoder == 3 * 8 * 2 * (6 * square + 3 * wide)
    assert found.memory == 3 * 30 * 4 * square
    assert found.decoder_attention == 3 * (5 + 9 + 30 + 100) * 4 * 24
    assert found.logits == 3 * 2 * 24 * 96
    assert (found * 2).total == 2 * found.total


def test_the_trees_own_attention_is_too_little_to_matter_for_large_networks():
    lengths = PromptLengths(*np.array([[100], [30], [21], [40]]))
    model = preset("ul2_20b")
    least = necessary_flops(lengths, model).total
    most = necessary_flops(lengths, model, visible=np.array([30 * 31 // 2])).total
    assert most / least < 1.001


def test_attention_weights_are_counted_over_heads_layers_and_whole_rows():
    encoder = 2 * (3 * 16**2 + 2 * 48**2)
    decoder = 3 * 2 * 20 * (20 + 72)
    assert attention_weights(MIXED, GATED) == 3 * (encoder + decoder)
