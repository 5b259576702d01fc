"""The T5 family: masks, position buckets, norms, logits, names and counts of weights."""

from __future__ import annotations

import dataclasses
import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import PartitionSpec

from mlm_consistency.errors import ConfigError
from mlm_consistency.models.config import T5Config
from mlm_consistency.models.layers import Attention, FeedForward, RMSNorm, relative_bucket
from mlm_consistency.models.t5 import (
    T5,
    abstract_parameters,
    logical_axes,
    segment_mask,
    tree_mask,
)

SMALL = T5Config(
    vocab_size=60, d_model=16, num_heads=2, head_dim=6, mlp_dim=24, encoder_layers=2,
    decoder_layers=3,
)  # fmt: skip
VARIANTS = [
    SMALL,
    dataclasses.replace(SMALL, mlp_activations=("gelu", "linear"), tied_embeddings=False),
    dataclasses.replace(SMALL, mlp_activations=("silu", "linear")),
]


def random_weights(config: T5Config, seed: int = 1):
    rng = np.random.default_rng(seed)

    def draw(leaf):
        return (rng.normal(size=leaf.shape) * leaf.shape[-1] ** -0.5).astype(leaf.dtype)

    return jax.tree.map(draw, abstract_parameters(config))


def grid(mask) -> list[str]:
    return ["".join("1" if seen else "." for seen in row) for row in np.asarray(mask)]


def test_the_tree_of_the_module_drawing():
    #                 start x0 the cat a dog
    mask = tree_mask(jnp.asarray([[6, 6, 4, 4, 6, 6]]))
    assert grid(mask[0, 0]) == ["1.....", "11....", "111...", "1111..", "11..1.", "11..11"]


def test_two_trees_and_padding_in_one_row():
    mask = tree_mask(jnp.asarray([[2, 2, 4, 4, 0, 0]]))
    assert grid(mask[0, 0]) == ["1.....", "11....", "..1...", "..11..", "......", "......"]


def test_a_token_sees_its_own_prompt_and_no_padding():
    mask = segment_mask(jnp.asarray([[1, 2, 0]]), jnp.asarray([[1, 1, 2, 0]]))
    assert mask.shape == (1, 1, 3, 4)
    assert grid(mask[0, 0]) == ["11..", "..1.", "...."]


@pytest.mark.parametrize(
    ("offsets", "buckets"),
    [
        # Bidirectional: 0 to 7 one distance each, then 8 a factor of 16 (16, 32 and 64 are exact
        # powers); keys to the right in the second half.
        ([0, -1, -7, -8, -11, -12, -15, -16], [0, 1, 7, 8, 8, 9, 9, 10]),
        ([-31, -32, -63, -64, -90, -91, -127, -128, -5000], [11, 12, 13, 14, 14, 15, 15, 15, 15]),
        ([1, 7, 8, 16, 128, 5000], [17, 23, 24, 26, 31, 31]),
    ],
)
def test_buckets_of_the_encoder(offsets, buckets):
    found = relative_bucket(jnp.asarray(offsets), bidirectional=True, buckets=32, max_distance=128)
    assert found.tolist() == buckets


def test_buckets_of_the_decoder():
    offsets = [0, -1, -15, -16, -18, -19, -127, -128, -900, 1, 50]
    found = relative_bucket(jnp.asarray(offsets), bidirectional=False, buckets=32, max_distance=128)
    assert found.tolist() == [0, 1, 15, 16, 16, 17, 31, 31, 31, 0, 0]


def test_rms_norm_does_not_centre_and_computes_in_float32():
    config = dataclasses.replace(SMALL, dtype="bfloat16")
    x = jnp.asarray([[3.0, 4.0, 0.0, 0.0], [1000.0, 1000.0, 1000.0, 1000.0]], jnp.bfloat16)
    y = RMSNorm(config).apply({"params": {"scale": jnp.asarray([1.0, 2.0, 1.0, 1.0])}}, x)
    assert y.dtype == jnp.bfloat16
    assert np.allclose(y.astype(np.float32), [[1.2, 3.2, 0, 0], [1, 2, 1, 1]], rtol=1e-2)


def test_attention_has_no_scale():
    """Two keys of scores 0 and log 3: weights 1/4 and 3/4, not those of scores / sqrt(K)."""
    config = dataclasses.replace(SMALL, d_model=2, num_heads=1, head_dim=2)
    weights = {name: {"kernel": jnp.eye(2)} for name in ("query", "key", "value", "out")}
    x, memory = jnp.asarray([[[1.0, 0.0]]]), jnp.asarray([[[0.0, 1.0], [math.log(3), 0.0]]])
    y = Attention(config).apply({"params": weights}, x, memory, jnp.zeros((1, 1, 1, 2)))
    assert np.allclose(y, [[[0.75 * math.log(3), 0.25]]], atol=1e-6)


@pytest.mark.parametrize(
    ("activations", "expected"),
    [
        (("relu",), [0.0, 2.0]),
        (("gelu", "linear"), [-0.158808 * -1, 1.954597 * 2]),  # tanh form
        (("silu", "linear"), [-0.268941 * -1, 1.761594 * 2]),
    ],
)
def test_feed_forward(activations, expected):
    config = dataclasses.replace(SMALL, d_model=2, mlp_dim=2, mlp_activations=activations)
    names = ["wi"] if len(activations) == 1 else ["wi_0", "wi_1"]
    weights = {name: {"kernel": jnp.eye(2)} for name in [*names, "wo"]}
    y = FeedForward(config).apply({"params": weights}, jnp.asarray([[[-1.0, 2.0]]]))
    assert np.allclose(y, [[expected]], atol=1e-5)


@pytest.mark.parametrize("config", VARIANTS, ids=lambda c: c.mlp_activations[0])
def test_names_shapes_and_count_of_the_weights(config):
    leaves = {
        jax.tree_util.keystr(path, simple=True, separator="/"): leaf.shape
        for path, leaf in jax.tree_util.tree_leaves_with_path(abstract_parameters(config))
    }
    assert leaves["token_embedder/embedding"] == (60, 16)
    assert leaves["encoder/relpos_bias/rel_embedding"] == (2, 32)
    assert leaves["encoder/layers/attention/query/kernel"] == (2, 16, 12)
    assert leaves["encoder/layers/attention/out/kernel"] == (2, 12, 16)
    assert leaves["decoder/layers/encoder_decoder_attention/key/kernel"] == (3, 16, 12)
    assert leaves["decoder/layers/pre_cross_attention_layer_norm/scale"] == (3, 16)
    gated = len(config.mlp_activations) == 2
    assert ("encoder/layers/mlp/wi_1/kernel" in leaves) == gated
    assert ("encoder/layers/mlp/wi/kernel" in leaves) == (not gated)
    assert leaves.get("logits_dense/kernel") == (None if config.tied_embeddings else (16, 60))
    assert sum(math.prod(shape) for shape in leaves.values()) == config.parameter_count()


def test_full_sizes_without_allocating_them():
    ul2 = T5Config(
        name="ul2", vocab_size=32128, d_model=4096, num_heads=16, head_dim=256, mlp_dim=16384,
        encoder_layers=32, decoder_layers=32, mlp_activations=("silu", "linear"),
        tied_embeddings=False, param_dtype="bfloat16",
    )  # fmt: skip
    leaves = jax.tree.leaves(abstract_parameters(ul2))
    assert sum(math.prod(leaf.shape) for leaf in leaves) == ul2.parameter_count()
    assert 19.4e9 < ul2.parameter_count() < 19.6e9
    assert {str(leaf.dtype) for leaf in leaves} == {"bfloat16"}


def test_every_weight_has_its_logical_axes():
    shapes, axes = abstract_parameters(VARIANTS[1]), logical_axes(VARIANTS[1])
    is_spec = lambda leaf: isinstance(leaf, PartitionSpec)  # noqa: E731
    pairs = zip(jax.tree.leaves(shapes), jax.tree.leaves(axes, is_leaf=is_spec), strict=True)
    for leaf, spec in pairs:
        assert len(spec) == len(leaf.shape)
        assert None not in tuple(spec)
    assert tuple(axes["encoder"]["layers"]["mlp"]["wi_0"]["kernel"]) == ("layers", "embed", "mlp")
    assert tuple(axes["logits_dense"]["kernel"]) == ("embed", "vocab")
    assert tuple(axes["decoder"]["relpos_bias"]["rel_embedding"]) == ("heads", "relpos_buckets")


@functools.cache
def network(config: T5Config):
    """The network, compiled once for all prompts of a length."""
    model = T5(config)
    return jax.jit(lambda params, arrays: model.apply({"params": params}, *arrays)[0])


def logits_of(config: T5Config, params, encoder, targets):
    """Logits [T, V] for one prompt, plainly causal."""
    size = len(targets)
    decoder = [0, *targets[:-1]]
    arrays = (
        [encoder], [[1] * len(encoder)], [decoder], [list(range(size))], [[size] * size],
        [[1] * size],
    )  # fmt: skip
    return network(config)(params, tuple(map(jnp.asarray, arrays)))


@pytest.mark.parametrize("config", VARIANTS, ids=lambda c: c.mlp_activations[0])
def test_what_comes_later_is_not_seen(config):
    params = random_weights(config)
    one = logits_of(config, params, [5, 6, 7, 1], [9, 10, 11, 12])
    two = logits_of(config, params, [5, 6, 7, 1], [9, 10, 33, 34])
    assert one.dtype == jnp.float32
    assert np.array_equal(one[:3], two[:3])
    assert np.abs(one[3] - two[3]).max() > 1e-3
    other = logits_of(config, params, [5, 6, 8, 1], [9, 10, 11, 12])
    assert np.abs(one - other).max() > 1e-3, "the prompt matters"


def test_tied_logits_are_scaled_and_untied_ones_are_not():
    hidden = jnp.ones((1, 16))
    tied = {"token_embedder": {"embedding": jnp.ones((60, 16))}}
    logits = T5(SMALL).apply({"params": tied}, hidden, method=T5.logits)
    assert np.allclose(logits, 4.0)  # 16 / sqrt(16)
    untied = tied | {"logits_dense": {"kernel": jnp.ones((16, 60))}}
    logits = T5(VARIANTS[1]).apply({"params": untied}, hidden, method=T5.logits)
    assert np.allclose(logits, 16.0)


def test_bfloat16_weights_and_activations_give_float32_logits():
    config = dataclasses.replace(SMALL, dtype="bfloat16", param_dtype="bfloat16")
    params = random_weights(config)
    assert {leaf.dtype for leaf in jax.tree.leaves(params)} == {jnp.dtype("bfloat16")}
    low = logits_of(config, params, [5, 6, 7, 1], [9, 10, 11, 12])
    wide = jax.tree.map(lambda leaf: leaf.astype(np.float32), params)
    high = logits_of(SMALL, wide, [5, 6, 7, 1], [9, 10, 11, 12])
    assert low.dtype == jnp.float32
    assert 0 < np.abs(low - high).max() < 0.1


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("num_heads", 0, "num_heads must be a positive integer, got 0"),
        ("d_model", 1.5, "d_model must be a positive integer, got 1.5"),
        ("mlp_activations", ("tanh",), "mlp_activations must be one of"),
        ("dtype", "float16", "float16 overflows"),
    ],
)
def test_configurations_that_no_network_has_are_refused(field, value, message):
    with pytest.raises(ConfigError, match=message):
        dataclasses.replace(SMALL, **{field: value})
