"""The BERT family on packed rows: several texts a row, positions that restart with each.

    tokens     [CLS] the [MASK] [SEP] [CLS] a [MASK] sat [SEP]  .  .
    segments     1    1     1     1     2   2    2    2    2    0  0     who sees whom
    positions    0    1     2     3     0   1    2    3    4    0  0     row of the table

A token sees the tokens of its own segment, to both sides. What is read are a few masked tokens,
so the head and the output matrix run on those states alone.
"""

from __future__ import annotations

from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec

from mlm_consistency.models.bert_config import BertConfig
from mlm_consistency.models.bert_layers import (
    ACTIVATION_FUNCTIONS,
    INITIAL_STDDEV,
    RESIDUAL,
    Affine,
    LayerNorm,
    PostNormLayer,
    vector,
)
from mlm_consistency.models.layers import MASKED, Constrain, parameter, unconstrained
from mlm_consistency.models.t5 import mask_bias, scanned, segment_mask


class Table(nn.Module):
    """Rows of embeddings, [rows, E]."""

    config: BertConfig
    rows: int
    axes: tuple[str | None, str | None]

    def setup(self) -> None:
        shape, axes = (self.rows, self.config.embedding_size), self.axes
        self.embedding = parameter(self, "embedding", shape, axes, INITIAL_STDDEV)  # type: ignore[arg-type]

    def __call__(self, index: jax.Array) -> jax.Array:
        return jnp.take(self.embedding, index, axis=0)


class Encoder(nn.Module):
    """Embedded texts [B, S, D] and segments [B, S] -> states [B, S, D]."""

    config: BertConfig
    constrain: Constrain = unconstrained

    @nn.compact
    def __call__(self, x: jax.Array, segments: jax.Array) -> jax.Array:
        config = self.config
        bias = mask_bias(segment_mask(segments, segments))
        if config.shared_layers:
            repeated = nn.scan(
                PostNormLayer,
                variable_broadcast="params",
                split_rngs={"params": False},
                in_axes=nn.broadcast,
                length=config.layers,
            )
            layers = repeated(config, self.constrain, name="shared_layer")
        else:
            layers = scanned(PostNormLayer, config.layers, 1)(config, self.constrain, name="layers")
        x, _ = layers(self.constrain(x, RESIDUAL), bias)
        return x


class MaskedHead(nn.Module):
    """norm(f(h W + b)) E^T + bias: [N, D] and the table [rows, E] -> logits [N, rows]."""

    config: BertConfig

    @nn.compact
    def __call__(self, hidden: jax.Array, table: jax.Array) -> jax.Array:
        config = self.config
        x = Affine(config, config.embedding_size, ("embed", None), name="dense")(hidden)
        x = LayerNorm(config, name="layer_norm")(ACTIVATION_FUNCTIONS[config.head_activation](x))
        logits = jnp.einsum("ne,ve->nv", x, table, preferred_element_type=jnp.float32)
        logits = logits + vector(self, "bias", config.vocab_rows, "vocab").astype(jnp.float32)
        # Rows that only round the vocabulary up are no words.
        return jnp.where(jnp.arange(config.vocab_rows) < config.vocab_size, logits, MASKED)


class Bert(nn.Module):
    """Encoder with a masked language head over packed rows.

    Attributes:
      config: sizes and data types.
      constrain: lays an activation with the given logical axis names out on the mesh.
    """

    config: BertConfig
    constrain: Constrain = unconstrained

    def setup(self) -> None:
        config = self.config
        self.token_embedder = Table(config, config.vocab_rows, ("vocab", "embed"))
        self.position_embedder = Table(config, config.max_positions, (None, "embed"))
        if config.token_types:
            self.token_type_embedder = Table(config, config.token_types, (None, "embed"))
        self.embedding_layer_norm = LayerNorm(config)
        if config.embedding_size != config.d_model:
            self.embedding_projection = Affine(config, config.d_model, (None, "embed"))
        self.encoder = Encoder(config, self.constrain)
        self.mlm_head = MaskedHead(config)

    def encode(self, tokens: jax.Array, segments: jax.Array, positions: jax.Array) -> jax.Array:
        """States [B, S, D].

        Args:
          tokens: ids [B, S].
          segments: [B, S], counting from 1; 0 is padding.
          positions: [B, S], from 0 in each segment, below `config.max_segment_length` (the caller
            checks: an index past the table would silently read its last row).
        """
        x = self.token_embedder(tokens)
        x = x + self.position_embedder(positions + self.config.position_offset)
        if self.config.token_types:
            x = x + self.token_type_embedder(jnp.zeros_like(tokens))
        x = self.embedding_layer_norm(x)
        if self.config.embedding_size != self.config.d_model:
            x = self.embedding_projection(x)
        return self.encoder(x, segments)

    def logits(self, hidden: jax.Array) -> jax.Array:
        """Logits [N, vocab_rows] in float32 of states [N, D]; those of no piece are -1e9."""
        return self.mlm_head(hidden, self.token_embedder.embedding)

    def __call__(self, tokens: jax.Array, segments: jax.Array, positions: jax.Array) -> jax.Array:
        """Logits at every position, [B, S, V]; tests and initialisation use it."""
        hidden = self.encode(tokens, segments, positions)
        flat = self.logits(hidden.reshape(-1, hidden.shape[-1]))
        return flat[:, : self.config.vocab_size].reshape(*tokens.shape, -1)


def initialize(config: BertConfig, key: jax.Array) -> Any:
    """Random weights of a network of this configuration, boxed with their logical axes."""
    ids = jnp.zeros((1, 1), jnp.int32)
    return Bert(config).init(key, ids, ids, ids)["params"]


def abstract_parameters(config: BertConfig) -> Any:
    """Shapes and dtypes of the weights, as `jax.ShapeDtypeStruct`; nothing is allocated."""
    return nn.meta.unbox(jax.eval_shape(lambda: initialize(config, jax.random.key(0))))


def logical_axes(config: BertConfig) -> Any:
    """A `PartitionSpec` of logical axis names for each weight, in the same tree."""
    specs = nn.get_partition_spec(jax.eval_shape(lambda: initialize(config, jax.random.key(0))))
    is_spec = lambda leaf: isinstance(leaf, PartitionSpec)  # noqa: E731
    return jax.tree.map(lambda spec: spec, specs, is_leaf=is_spec)
