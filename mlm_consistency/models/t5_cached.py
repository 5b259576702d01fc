"""The T5 decoder one token at a time, keys and values kept: what beam search asks.

The same parameter tree as `models/t5.py`, and the same arithmetic; what differs is what is kept:

    encoder states [B, S, D] ──> cross keys, values [B, H, S, K]         once an example
    start x_0      [B, P]    ──> prefix keys, values [B, H, P, K]        once an example
    y_t of N beams [B, N]    ──> branch keys, values [B, H, N, J, K]     a slot a step, a row a beam

A beam sees the prefix of its example and its own branch; beams lie side by side where the scoring
path has positions. Shapes: P decoder inputs of the prefix, the start token among them; J slots.
"""

from __future__ import annotations

from typing import NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp

from mlm_consistency.models.config import T5Config
from mlm_consistency.models.layers import (
    MASKED,
    Constrain,
    Dense,
    FeedForward,
    RelativePositionBias,
    RMSNorm,
    unconstrained,
)
from mlm_consistency.models.t5 import RESIDUAL, mask_bias

Pair = tuple[jax.Array, jax.Array]


class Memory(NamedTuple):
    """Keys and values that all beams of an example share, stacked over layers.

    Attributes:
      prefix: keys and values [layers, B, H, P, K] of the decoder's prefix.
      encoder: keys and values [layers, B, H, S, K] of the encoder's states.
    """

    prefix: Pair
    encoder: Pair


class CachedAttention(nn.Module):
    """`layers.Attention` in parts, with its weights: keys are made once and attended to often."""

    config: T5Config
    constrain: Constrain = unconstrained

    def setup(self) -> None:
        config = self.config
        width, size = config.joined_kv, config.head_dim
        inward, outward = ("embed", "joined_kv"), ("joined_kv", "embed")
        self.query = Dense(config, width, inward, (config.d_model * size) ** -0.5)
        self.key = Dense(config, width, inward, config.d_model**-0.5)
        self.value = Dense(config, width, inward, config.d_model**-0.5)
        self.out = Dense(config, config.d_model, outward, width**-0.5)

    def _heads(self, y: jax.Array) -> jax.Array:
        y = y.reshape(*y.shape[:2], self.config.num_heads, self.config.head_dim)
        return jnp.swapaxes(self.constrain(y, ("batch", "length", "heads", "kv")), 1, 2)

    def project(self, memory: jax.Array) -> Pair:
        """Keys and values [B, H, M, K] of memory [B, M, D]."""
        return self._heads(self.key(memory)), self._heads(self.value(memory))

    def __call__(
        self,
        x: jax.Array,
        shared: Pair,
        bias: jax.Array,
        own: Pair | None = None,
        own_bias: jax.Array | None = None,
    ) -> jax.Array:
        """x [B, Q, D] -> [B, Q, D].

        Args:
          shared: keys and values [B, H, M, K] that every query sees.
          bias: [B or 1, H or 1, Q or 1, M] float32.
          own: keys and values [B, H, Q, J, K] that each query has for itself.
          own_bias: [B or 1, H or 1, Q or 1, J] float32.
        """
        query = self._heads(self.query(x))
        keys, values = shared
        scores = jnp.einsum("bhqk,bhmk->bhqm", query, keys, preferred_element_type=jnp.float32)
        scores = scores + bias
        if own is not None and own_bias is not None:
            branch = jnp.einsum(
                "bhqk,bhqjk->bhqj", query, own[0], preferred_element_type=jnp.float32
            )
            scores = jnp.concatenate([scores, branch + own_bias], axis=-1)
        weights = jax.nn.softmax(scores, axis=-1).astype(values.dtype)
        length = keys.shape[2]
        mixed = jnp.einsum("bhqm,bhmk->bhqk", weights[..., :length], values)
        if own is not None:
            mixed = mixed + jnp.einsum("bhqj,bhqjk->bhqk", weights[..., length:], own[1])
        mixed = jnp.swapaxes(mixed, 1, 2).reshape(*x.shape[:2], self.config.joined_kv)
        return self.out(self.constrain(mixed, ("batch", "length", "joined_kv")))


class PrefixLayer(nn.Module):
    """One decoder layer over the prefix; hands out its keys and values."""

    config: T5Config
    constrain: Constrain = unconstrained

    @nn.compact
    def __call__(
        self, x: jax.Array, encoded: jax.Array, self_bias: jax.Array, cross_bias: jax.Array
    ) -> tuple[jax.Array, Memory]:
        config, constrain = self.config, self.constrain
        y = RMSNorm(config, name="pre_self_attention_layer_norm")(x)
        attention = CachedAttention(config, constrain, name="self_attention")
        prefix = attention.project(y)
        x = x + attention(y, prefix, self_bias)
        y = RMSNorm(config, name="pre_cross_attention_layer_norm")(x)
        cross = CachedAttention(config, constrain, name="encoder_decoder_attention")
        encoder = cross.project(encoded)
        x = x + cross(y, encoder, cross_bias)
        y = RMSNorm(config, name="pre_mlp_layer_norm")(x)
        x = x + FeedForward(config, constrain, name="mlp")(y)
        return constrain(x, RESIDUAL), Memory(prefix, encoder)


class BranchLayer(nn.Module):
    """One decoder layer over one token of every beam; fills a slot of the branches."""

    config: T5Config
    constrain: Constrain = unconstrained

    @nn.compact
    def __call__(
        self,
        x: jax.Array,
        memory: Memory,
        branch: Pair,
        slot: jax.Array,
        prefix_bias: jax.Array,
        branch_bias: jax.Array,
        cross_bias: jax.Array,
    ) -> tuple[jax.Array, Pair]:
        config, constrain = self.config, self.constrain
        y = RMSNorm(config, name="pre_self_attention_layer_norm")(x)
        attention = CachedAttention(config, constrain, name="self_attention")
        key, value = attention.project(y)

        def fill(cache: jax.Array, new: jax.Array) -> jax.Array:
            return jax.lax.dynamic_update_slice_in_dim(cache, new[:, :, :, None], slot, axis=3)

        branch = (fill(branch[0], key), fill(branch[1], value))
        x = x + attention(y, memory.prefix, prefix_bias, branch, branch_bias)
        y = RMSNorm(config, name="pre_cross_attention_layer_norm")(x)
        cross = CachedAttention(config, constrain, name="encoder_decoder_attention")
        x = x + cross(y, memory.encoder, cross_bias)
        y = RMSNorm(config, name="pre_mlp_layer_norm")(x)
        x = x + FeedForward(config, constrain, name="mlp")(y)
        return constrain(x, RESIDUAL), branch


def _stacked(layer: type[nn.Module], config: T5Config, in_axes: tuple) -> type[nn.Module]:
    return nn.scan(
        layer,
        variable_axes={"params": 0},
        split_rngs={"params": True},
        in_axes=in_axes,
        out_axes=0,
        length=config.decoder_layers,
        metadata_params={nn.PARTITION_NAME: "layers"},
    )


class PrefixDecoder(nn.Module):
    """The decoder over the prefix: (states [B, P, D], Memory). Weights: `params["decoder"]`."""

    config: T5Config
    constrain: Constrain = unconstrained

    @nn.compact
    def __call__(
        self, x: jax.Array, encoded: jax.Array, encoder_mask: jax.Array
    ) -> tuple[jax.Array, Memory]:
        """x: embedded prefix [B, P, D]; encoder_mask: bool [B, S], false at padding."""
        config = self.config
        index = jnp.arange(x.shape[1])[None]
        bias = RelativePositionBias(config, bidirectional=False, name="relpos_bias")(index, index)
        causal = index[:, None, None, :] <= index[:, None, :, None]
        cross_bias = mask_bias(encoder_mask[:, None, None, :])
        layers = _stacked(PrefixLayer, config, (nn.broadcast,) * 3)
        x, memory = layers(config, self.constrain, name="layers")(
            self.constrain(x, RESIDUAL), encoded, bias + mask_bias(causal), cross_bias
        )
        return RMSNorm(config, name="decoder_norm")(x), memory


class BranchDecoder(nn.Module):
    """The decoder over one token of every beam. Weights: `params["decoder"]`."""

    config: T5Config
    constrain: Constrain = unconstrained

    @nn.compact
    def __call__(
        self, x: jax.Array, slot: jax.Array, memory: Memory, branch: Pair, encoder_mask: jax.Array
    ) -> tuple[jax.Array, Pair]:
        """States [B, N, D] and the branches with this token in them.

        Args:
          x: embedded tokens [B, N, D], which stand behind the prefix and `slot` others.
          slot: where the token's keys and values go; those behind it are not seen.
          memory: of the prefix and the encoder.
          branch: keys and values [layers, B, H, N, J, K].
          encoder_mask: bool [B, S], false at padding.
        """
        config = self.config
        length, slots = memory.prefix[0].shape[3], branch[0].shape[4]
        bias = RelativePositionBias(config, bidirectional=False, name="relpos_bias")(
            jnp.reshape(length + slot, (1, 1)), jnp.arange(length + slots)[None]
        )  # [1, H, 1, P + J]
        later = jnp.where(jnp.arange(slots) <= slot, 0.0, MASKED)
        layers = _stacked(BranchLayer, config, (0, 0, *(nn.broadcast,) * 4))
        x, branch = layers(config, self.constrain, name="layers")(
            self.constrain(x, RESIDUAL),
            memory,
            branch,
            slot,
            bias[..., :length],
            bias[..., length:] + later,
            mask_bias(encoder_mask[:, None, None, :]),
        )
        return RMSNorm(config, name="decoder_norm")(x), branch


def empty_branch(config: T5Config, examples: int, beams: int, slots: int) -> Pair:
    """Keys and values [layers, B, H, N, J, K] before the first token."""
    shape = (
        config.decoder_layers, examples, config.num_heads, beams, slots, config.head_dim
    )  # fmt: skip
    zeros = jnp.zeros(shape, jnp.dtype(config.dtype))
    return zeros, zeros
