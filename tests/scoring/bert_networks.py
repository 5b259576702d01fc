"""Small random networks of the BERT family, and their answers one text at a time."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from mlm_consistency.models.bert import Bert, abstract_parameters
from mlm_consistency.models.bert_config import BertConfig
from mlm_consistency.scoring.masked_positions import MaskedScorer
from mlm_consistency.scoring.masked_rows import MaskedContext
from mlm_consistency.scoring.pair_tables import SpecialIds
from mlm_consistency.scoring.shapes import PackingConfig

BERT = BertConfig(
    "small", vocab_size=53, d_model=16, num_heads=2, mlp_dim=24, layers=2, max_positions=24
)
PAD, CLS, SEP, MASK, FIRST_WORD = 0, 1, 2, 3, 4
SPECIAL = SpecialIds(MASK, CLS, SEP)
PACKING = PackingConfig(tokens_per_batch=128)


@functools.cache
def random_parameters(config: BertConfig = BERT) -> Any:
    """Weights whose every entry matters, biases and norms among them."""
    generator = np.random.default_rng(0)

    def draw(leaf: jax.ShapeDtypeStruct) -> jax.Array:
        return jnp.asarray(generator.normal(float(leaf.ndim == 1), 0.5, leaf.shape), leaf.dtype)

    return jax.tree.map(draw, abstract_parameters(config))


@functools.cache
def scorer(config: BertConfig = BERT) -> MaskedScorer:
    """One for all tests of a file: what is compiled stays compiled."""
    return MaskedScorer(config, random_parameters(config), packing=PACKING)


@functools.cache
def _alone(config: BertConfig) -> Any:
    return jax.jit(
        lambda *row: jax.nn.log_softmax(
            Bert(config).apply({"params": random_parameters(config)}, *row)
        )
    )


def distributions_alone(tokens: np.ndarray, config: BertConfig = BERT) -> np.ndarray:
    """log p at every position of one text in a row of its own, [n, V]."""
    row = np.zeros((3, 1, config.max_segment_length), np.int32)
    row[:, 0, : len(tokens)] = tokens, np.ones(len(tokens)), np.arange(len(tokens))
    return np.asarray(_alone(config)(*row))[0, : len(tokens)]


def random_contexts(count: int, seed: int = 0, most: int = 24) -> list[MaskedContext]:
    """Texts of different lengths, one or two positions of each masked."""
    generator = np.random.default_rng(seed)
    contexts = []
    for _ in range(count):
        tokens = generator.integers(FIRST_WORD, 53, generator.integers(4, most + 1))
        tokens[0], tokens[-1] = CLS, SEP
        size = int(generator.integers(1, 3))
        read = np.sort(generator.choice(np.arange(1, len(tokens) - 1), size, replace=False))
        tokens[read] = MASK
        targets = tuple(
            generator.choice(53, generator.integers(1, 6), replace=False).astype(np.int32)
            for _ in read
        )
        contexts.append(MaskedContext(tokens.astype(np.int32), read.astype(np.int32), targets))
    return contexts
