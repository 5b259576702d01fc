"""The T5 family on packed rows: several prompts a row, each with a tree of candidates.

A row of the encoder holds several prompts side by side; a token sees its own prompt alone. A row
of the decoder holds, for each of them, a tree in depth-first order. A node sees its ancestors and
itself, so that a shared beginning is computed once and each branch reads as if it were alone:

    prompt's tree        index  token  end     sees (q over k, 1 = visible)
    start - x_0 - the      0    start   6      1
              |    |       1    x_0     6      1 1
              |   cat      2    the     4      1 1 1
              |            3    cat     4      1 1 1 1
              a            4    a       6      1 1 . . 1
              |            5    dog     6      1 1 . . 1 1
             dog

`end` is one past the last descendant of a node, so that k is an ancestor of q (or q itself)
exactly when k <= q < end[k]: one rule for causality, branches, segments and padding (end = 0).
"""

from __future__ import annotations

from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec

from mlm_consistency.models.config import T5Config
from mlm_consistency.models.layers import (
    MASKED,
    Attention,
    Constrain,
    FeedForward,
    RelativePositionBias,
    RMSNorm,
    parameter,
    unconstrained,
)

RESIDUAL = ("batch", "length", "embed")


def segment_mask(query_segments: jax.Array, key_segments: jax.Array) -> jax.Array:
    """Visible pairs [B, 1, Q, M]: same segment, and not padding (segment 0)."""
    same = query_segments[:, :, None] == key_segments[:, None, :]
    return (same & (key_segments[:, None, :] > 0))[:, None]


def tree_mask(end: jax.Array) -> jax.Array:
    """Visible pairs [B, 1, T, T] of trees in depth-first order: k <= q < end[k]."""
    index = jnp.arange(end.shape[-1])
    query, key = index[None, :, None], index[None, None, :]
    return ((key <= query) & (query < end[:, None, :]))[:, None]


def mask_bias(mask: jax.Array) -> jax.Array:
    """0 where visible and a large negative number elsewhere, float32."""
    return jnp.where(mask, 0.0, MASKED).astype(jnp.float32)


class EncoderLayer(nn.Module):
    """x + attention(norm x), then + mlp(norm x)."""

    config: T5Config
    constrain: Constrain = unconstrained

    @nn.compact
    def __call__(self, x: jax.Array, bias: jax.Array) -> tuple[jax.Array, None]:
        config, constrain = self.config, self.constrain
        y = RMSNorm(config, name="pre_attention_layer_norm")(x)
        x = x + Attention(config, constrain, name="attention")(y, y, bias)
        y = RMSNorm(config, name="pre_mlp_layer_norm")(x)
        x = x + FeedForward(config, constrain, name="mlp")(y)
        return constrain(x, RESIDUAL), None


class DecoderLayer(nn.Module):
    """x + self-attention, + attention to the encoder, + mlp, each after a norm."""

    config: T5Config
    constrain: Constrain = unconstrained

    @nn.compact
    def __call__(
        self, x: jax.Array, encoded: jax.Array, self_bias: jax.Array, cross_bias: jax.Array
    ) -> tuple[jax.Array, None]:
        config, constrain = self.config, self.constrain
        y = RMSNorm(config, name="pre_self_attention_layer_norm")(x)
        x = x + Attention(config, constrain, name="self_attention")(y, y, self_bias)
        y = RMSNorm(config, name="pre_cross_attention_layer_norm")(x)
        cross = Attention(config, constrain, name="encoder_decoder_attention")
        x = x + cross(y, encoded, cross_bias)
        y = RMSNorm(config, name="pre_mlp_layer_norm")(x)
        x = x + FeedForward(config, constrain, name="mlp")(y)
        return constrain(x, RESIDUAL), None


def scanned(layer: Any, length: int, broadcast: int) -> Any:
    """`layer` repeated `length` times by a scan, weights stacked on a leading axis.

    One layer is compiled whatever the depth; the bias and the masks go to each unchanged.
    """
    return nn.scan(
        layer,
        variable_axes={"params": 0},
        split_rngs={"params": True},
        in_axes=(nn.broadcast,) * broadcast,
        length=length,
        metadata_params={nn.PARTITION_NAME: "layers"},
    )


class Encoder(nn.Module):
    """Embedded prompts [B, S, D] and segments [B, S] -> states [B, S, D]."""

    config: T5Config
    constrain: Constrain = unconstrained

    @nn.compact
    def __call__(self, x: jax.Array, segments: jax.Array) -> jax.Array:
        config = self.config
        # Prompts lie whole and in order, so within one the distance of positions is the distance
        # of indices, and pairs across prompts are masked: one bias serves all rows.
        index = jnp.arange(x.shape[1])[None]
        bias = RelativePositionBias(config, bidirectional=True, name="relpos_bias")(index, index)
        bias = bias + mask_bias(segment_mask(segments, segments))
        layers = scanned(EncoderLayer, config.encoder_layers, 1)
        x, _ = layers(config, self.constrain, name="layers")(self.constrain(x, RESIDUAL), bias)
        return RMSNorm(config, name="encoder_norm")(x)


class Decoder(nn.Module):
    """Embedded trees [B, T, D] over encoder states -> states [B, T, D]."""

    config: T5Config
    constrain: Constrain = unconstrained

    @nn.compact
    def __call__(
        self,
        x: jax.Array,
        positions: jax.Array,
        end: jax.Array,
        segments: jax.Array,
        encoded: jax.Array,
        encoder_segments: jax.Array,
    ) -> jax.Array:
        config = self.config
        bias = RelativePositionBias(config, bidirectional=False, name="relpos_bias")
        self_bias = bias(positions, positions) + mask_bias(tree_mask(end))
        cross_bias = mask_bias(segment_mask(segments, encoder_segments))
        layers = scanned(DecoderLayer, config.decoder_layers, 3)
        x, _ = layers(config, self.constrain, name="layers")(
            self.constrain(x, RESIDUAL), encoded, self_bias, cross_bias
        )
        return RMSNorm(config, name="decoder_norm")(x)


class Logits(nn.Module):
    """The output matrix of models that do not tie it to the embedding."""

    config: T5Config

    @nn.compact
    def __call__(self, hidden: jax.Array) -> jax.Array:
        config = self.config
        shape = (config.d_model, config.vocab_size)
        kernel = parameter(self, "kernel", shape, ("embed", "vocab"), config.d_model**-0.5)
        return jnp.matmul(hidden, kernel, preferred_element_type=jnp.float32)


class Embedder(nn.Module):
    """The table of token embeddings, [V, D]."""

    config: T5Config

    def setup(self) -> None:
        config = self.config
        shape = (config.vocab_size, config.d_model)
        self.embedding = parameter(self, "embedding", shape, ("vocab", "embed"), 1.0)

    def __call__(self, tokens: jax.Array) -> jax.Array:
        return jnp.take(self.embedding, tokens, axis=0)

    def attend(self, hidden: jax.Array) -> jax.Array:
        """hidden E^T / sqrt(D), float32: the scale belongs to tied models alone."""
        scaled = hidden * jnp.asarray(self.config.d_model**-0.5, hidden.dtype)
        return jnp.einsum("nd,vd->nv", scaled, self.embedding, preferred_element_type=jnp.float32)


class T5(nn.Module):
    """Encoder-decoder of the T5 family over packed rows.

    Attributes:
      config: sizes and data types.
      constrain: lays an activation with the given logical axis names out on the mesh.
    """

    config: T5Config
    constrain: Constrain = unconstrained

    def setup(self) -> None:
        config = self.config
        self.token_embedder = Embedder(config)
        self.encoder = Encoder(config, self.constrain)
        self.decoder = Decoder(config, self.constrain)
        if not config.tied_embeddings:
            self.logits_dense = Logits(config)

    def encode(self, tokens: jax.Array, segments: jax.Array) -> jax.Array:
        """Encoder states [B, S, D] of tokens [B, S]; segments count from 1, 0 is padding."""
        return self.encoder(self.token_embedder(tokens), segments)

    def decode(
        self,
        tokens: jax.Array,
        positions: jax.Array,
        end: jax.Array,
        segments: jax.Array,
        encoded: jax.Array,
        encoder_segments: jax.Array,
    ) -> jax.Array:
        """Decoder states [B, T, D].

        Args:
          tokens: decoder inputs [B, T]: for each tree the start token, then its nodes.
          positions: [B, T], the depth of each node (the start token has 0).
          end: [B, T], one past the last descendant of each node; 0 for padding.
          segments: [B, T], the prompt of the encoder row that each node answers to.
          encoded: encoder states [B, S, D].
          encoder_segments: [B, S].
        """
        x = self.token_embedder(tokens)
        return self.decoder(x, positions, end, segments, encoded, encoder_segments)

    def logits(self, hidden: jax.Array) -> jax.Array:
        """Logits [N, V] in float32 of decoder states [N, D]."""
        if self.config.tied_embeddings:
            return self.token_embedder.attend(hidden)
        return self.logits_dense(hidden)

    def __call__(
        self,
        encoder_tokens: jax.Array,
        encoder_segments: jax.Array,
        tokens: jax.Array,
        positions: jax.Array,
        end: jax.Array,
        segments: jax.Array,
    ) -> jax.Array:
        """Logits at every decoder position, [B, T, V]; training and initialisation use it."""
        encoded = self.encode(encoder_tokens, encoder_segments)
        hidden = self.decode(tokens, positions, end, segments, encoded, encoder_segments)
        flat = self.logits(hidden.reshape(-1, hidden.shape[-1]))
        return flat.reshape(*tokens.shape, -1)


def initialize(config: T5Config, key: jax.Array) -> Any:
    """Random weights of a network of this configuration, boxed with their logical axes."""
    ids = jnp.ones((1, 1), jnp.int32)
    return T5(config).init(key, ids, ids, ids, ids, ids, ids)["params"]


def abstract_parameters(config: T5Config) -> Any:
    """Shapes and dtypes of the weights, as `jax.ShapeDtypeStruct`; nothing is allocated."""
    boxed = jax.eval_shape(lambda: initialize(config, jax.random.key(0)))
    return nn.meta.unbox(boxed)


def logical_axes(config: T5Config) -> Any:
    """A `PartitionSpec` of logical axis names for each weight, in the same tree."""
    boxed = jax.eval_shape(lambda: initialize(config, jax.random.key(0)))
    specs = nn.get_partition_spec(boxed)
    is_spec = lambda leaf: isinstance(leaf, PartitionSpec)  # noqa: E731
    return jax.tree.map(lambda spec: spec, specs, is_leaf=is_spec)
