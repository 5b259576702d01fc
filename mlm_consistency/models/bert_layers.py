"""The layers of the BERT family: layer norm, affine maps, attention, a post-norm block.

Shapes: B rows, S length (Q and M as queries and keys), D embed, E embedding, H heads, K head size,
F mlp.
"""

from __future__ import annotations

from collections.abc import Callable

import flax.linen as nn
import jax
import jax.numpy as jnp

from mlm_consistency.models.bert_config import BertConfig
from mlm_consistency.models.layers import Constrain, parameter, unconstrained

INITIAL_STDDEV = 0.02
RESIDUAL = ("batch", "length", "embed")
ACTIVATION_FUNCTIONS: dict[str, Callable[[jax.Array], jax.Array]] = {
    "gelu": lambda x: jax.nn.gelu(x, approximate=False),
    "gelu_new": lambda x: jax.nn.gelu(x, approximate=True),
    "relu": jax.nn.relu,
    "silu": jax.nn.silu,
}


def vector(
    module: nn.Module, name: str, size: int, axis: str | None, one: bool = False
) -> jax.Array:
    """A weight [size] that starts with zeros, or with ones."""
    start = nn.initializers.ones if one else nn.initializers.zeros
    config = module.config  # type: ignore[attr-defined]
    initializer = nn.with_logical_partitioning(start, (axis,))
    return jnp.asarray(module.param(name, initializer, (size,), jnp.dtype(config.param_dtype)))


class LayerNorm(nn.Module):
    """(x - mean) / sqrt(var + eps) * scale + bias, in float32 (arXiv 1607.06450)."""

    config: BertConfig

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        x = x.astype(jnp.float32)
        centred = x - jnp.mean(x, axis=-1, keepdims=True)
        variance = jnp.mean(jnp.square(centred), axis=-1, keepdims=True)
        normed = centred * jax.lax.rsqrt(variance + self.config.layer_norm_epsilon)
        scale = vector(self, "scale", x.shape[-1], "embed", one=True).astype(jnp.float32)
        bias = vector(self, "bias", x.shape[-1], "embed").astype(jnp.float32)
        return (normed * scale + bias).astype(jnp.dtype(self.config.dtype))


class Affine(nn.Module):
    """x W + b: [.., in] -> [.., features]."""

    config: BertConfig
    features: int
    axes: tuple[str | None, str | None]

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        shape = (x.shape[-1], self.features)
        axes: tuple = self.axes
        kernel = parameter(self, "kernel", shape, axes, INITIAL_STDDEV)
        bias = vector(self, "bias", self.features, self.axes[1])
        return x @ kernel + bias.astype(x.dtype)


class SelfAttention(nn.Module):
    """softmax(Q K^T / sqrt(K) + bias) V over the tokens of one's own segment."""

    config: BertConfig
    constrain: Constrain = unconstrained

    @nn.compact
    def __call__(self, x: jax.Array, bias: jax.Array) -> jax.Array:
        """x [B, S, D], bias [B, 1, S, S] float32 -> [B, S, D]."""
        config = self.config
        heads, size = config.num_heads, config.head_dim

        def project(name: str) -> jax.Array:
            y = Affine(config, config.d_model, ("embed", "joined_kv"), name=name)(x)
            y = y.reshape(*y.shape[:2], heads, size)
            y = self.constrain(y, ("batch", "length", "heads", "kv"))
            return jnp.swapaxes(y, 1, 2)

        query, key, value = project("query"), project("key"), project("value")
        scores = jnp.einsum("bhqk,bhmk->bhqm", query, key, preferred_element_type=jnp.float32)
        weights = jax.nn.softmax(scores * size**-0.5 + bias, axis=-1).astype(value.dtype)
        mixed = jnp.einsum("bhqm,bhmk->bhqk", weights, value)
        mixed = jnp.swapaxes(mixed, 1, 2).reshape(x.shape)
        mixed = self.constrain(mixed, ("batch", "length", "joined_kv"))
        return Affine(config, config.d_model, ("joined_kv", "embed"), name="out")(mixed)


class FeedForward(nn.Module):
    """f(x Wi + bi) Wo + bo."""

    config: BertConfig
    constrain: Constrain = unconstrained

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        config = self.config
        hidden = Affine(config, config.mlp_dim, ("embed", "mlp"), name="wi")(x)
        hidden = ACTIVATION_FUNCTIONS[config.activation](hidden)
        hidden = self.constrain(hidden, ("batch", "length", "mlp"))
        return Affine(config, config.d_model, ("mlp", "embed"), name="wo")(hidden)


class PostNormLayer(nn.Module):
    """norm(x + attention(x)), then norm of that + mlp: the norms come after the sums."""

    config: BertConfig
    constrain: Constrain = unconstrained

    @nn.compact
    def __call__(self, x: jax.Array, bias: jax.Array) -> tuple[jax.Array, None]:
        config, constrain = self.config, self.constrain
        y = SelfAttention(config, constrain, name="attention")(x, bias)
        x = LayerNorm(config, name="attention_layer_norm")(x + y)
        y = FeedForward(config, constrain, name="mlp")(x)
        x = LayerNorm(config, name="mlp_layer_norm")(x + y)
        return constrain(x, RESIDUAL), None
