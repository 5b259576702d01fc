"""The layers of the T5 family: RMS norm, relative position bias, attention, feed-forward.

Shapes: B rows, S encoder length, T decoder length (Q and M where a layer serves both), D embed,
H heads, K head size, F mlp.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp

from mlm_consistency.models.config import T5Config

Constrain = Callable[[jax.Array, tuple[str | None, ...]], jax.Array]
ACTIVATION_FUNCTIONS = {
    "relu": jax.nn.relu,
    "gelu": lambda x: jax.nn.gelu(x, approximate=True),
    "silu": jax.nn.silu,
}
# Added to the scores of pairs that may not see each other; finite, so that a row of padding that
# sees nothing still has a softmax.
MASKED = -1e9


def unconstrained(x: jax.Array, axes: tuple[str | None, ...]) -> jax.Array:
    """Leaves the layout of `x` to the compiler: for one device, or outside a mesh."""
    del axes
    return x


def parameter(
    module: nn.Module, name: str, shape: tuple[int, ...], axes: tuple[str, ...], stddev: float
) -> jax.Array:
    """A weight of `module`, drawn from N(0, stddev^2), with its logical axis names."""
    config = module.config  # type: ignore[attr-defined]
    initializer = nn.with_logical_partitioning(nn.initializers.normal(stddev), axes)
    value = module.param(name, initializer, shape, jnp.dtype(config.param_dtype))
    return jnp.asarray(value, jnp.dtype(config.dtype))


class RMSNorm(nn.Module):
    """x / sqrt(mean(x^2) + eps) * scale, in float32, without centring (arXiv 1910.07467)."""

    config: T5Config

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        x32 = x.astype(jnp.float32)
        square = jnp.mean(jnp.square(x32), axis=-1, keepdims=True)
        initializer = nn.with_logical_partitioning(nn.initializers.ones, ("embed",))
        dtype = jnp.dtype(self.config.param_dtype)
        scale: Any = self.param("scale", initializer, (x.shape[-1],), dtype)
        normed = x32 * jax.lax.rsqrt(square + self.config.layer_norm_epsilon)
        return (normed * scale.astype(jnp.float32)).astype(jnp.dtype(self.config.dtype))


class Dense(nn.Module):
    """x W without a bias: [.., in] -> [.., features]."""

    config: T5Config
    features: int
    axes: tuple[str, str]
    stddev: float

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        kernel = parameter(self, "kernel", (x.shape[-1], self.features), self.axes, self.stddev)
        return x @ kernel


def relative_bucket(
    offset: jax.Array, *, bidirectional: bool, buckets: int, max_distance: int
) -> jax.Array:
    """Bucket of a relative position `offset` = key position - query position, as T5 has it.

    Half of the buckets are one distance each, the rest grow logarithmically up to
    `max_distance`. Bidirectional tables keep one half for keys to the right; a causal one counts
    keys to the left alone (arXiv 1910.10683, section 2.1).
    """
    start = jnp.zeros_like(offset)
    distance = -offset
    if bidirectional:
        buckets //= 2
        start = jnp.where(distance < 0, buckets, 0)
        distance = jnp.abs(distance)
    else:
        distance = jnp.maximum(distance, 0)
    exact = buckets // 2
    ratio = jnp.log(jnp.maximum(distance, 1).astype(jnp.float32) / exact)
    far = exact + (ratio / math.log(max_distance / exact) * (buckets - exact)).astype(jnp.int32)
    return start + jnp.where(distance < exact, distance, jnp.minimum(far, buckets - 1))


class RelativePositionBias(nn.Module):
    """One learnt number a head and bucket, shared by all layers of a stack."""

    config: T5Config
    bidirectional: bool

    @nn.compact
    def __call__(self, query_positions: jax.Array, key_positions: jax.Array) -> jax.Array:
        """Bias [B, H, Q, M] in float32 from positions [B, Q] and [B, M] (B may be 1)."""
        config = self.config
        table = parameter(
            self,
            "rel_embedding",
            (config.num_heads, config.relative_buckets),
            ("heads", "relpos_buckets"),
            config.d_model**-0.5,
        )
        bucket = relative_bucket(
            key_positions[:, None, :] - query_positions[:, :, None],
            bidirectional=self.bidirectional,
            buckets=config.relative_buckets,
            max_distance=config.relative_max_distance,
        )
        bias = jnp.take(table.astype(jnp.float32), bucket, axis=1)  # [H, B, Q, M]
        return jnp.moveaxis(bias, 0, 1)


class Attention(nn.Module):
    """Multi-head attention without the 1/sqrt(K), which T5 folds into its initialisation."""

    config: T5Config
    constrain: Constrain = unconstrained

    @nn.compact
    def __call__(self, x: jax.Array, memory: jax.Array, bias: jax.Array) -> jax.Array:
        """x [B, Q, D], memory [B, M, D], bias [B or 1, H or 1, Q, M] float32 -> [B, Q, D]."""
        config = self.config
        heads, size = config.num_heads, config.head_dim
        axes = ("embed", "joined_kv")

        def project(name: str, source: jax.Array, stddev: float) -> jax.Array:
            y = Dense(config, config.joined_kv, axes, stddev, name=name)(source)
            y = y.reshape(*y.shape[:2], heads, size)
            y = self.constrain(y, ("batch", "length", "heads", "kv"))
            return jnp.swapaxes(y, 1, 2)  # heads before length: both products read rows in order

        query = project("query", x, (config.d_model * size) ** -0.5)
        key = project("key", memory, config.d_model**-0.5)
        value = project("value", memory, config.d_model**-0.5)
        scores = jnp.einsum("bhqk,bhmk->bhqm", query, key, preferred_element_type=jnp.float32)
        weights = jax.nn.softmax(scores + bias, axis=-1).astype(value.dtype)
        mixed = jnp.einsum("bhqm,bhmk->bhqk", weights, value)
        mixed = jnp.swapaxes(mixed, 1, 2).reshape(*x.shape[:2], config.joined_kv)
        mixed = self.constrain(mixed, ("batch", "length", "joined_kv"))
        out = Dense(
            config, config.d_model, ("joined_kv", "embed"), config.joined_kv**-0.5, name="out"
        )
        return out(mixed)


class FeedForward(nn.Module):
    """f(x Wi) Wo, or gated f(x Wi_0) * (x Wi_1) Wo."""

    config: T5Config
    constrain: Constrain = unconstrained

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        config = self.config
        gated = len(config.mlp_activations) > 1
        hidden: Any = 1.0
        for index, activation in enumerate(config.mlp_activations):
            name = f"wi_{index}" if gated else "wi"
            wide = Dense(config, config.mlp_dim, ("embed", "mlp"), config.d_model**-0.5, name=name)
            y = wide(x)
            hidden = hidden * (y if activation == "linear" else ACTIVATION_FUNCTIONS[activation](y))
        hidden = self.constrain(hidden, ("batch", "length", "mlp"))
        narrow = Dense(config, config.d_model, ("mlp", "embed"), config.mlp_dim**-0.5, name="wo")
        return narrow(hidden)
