"""The step with one more answer: whether greedy decoding would have taken each scored token."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import Mesh

from mlm_consistency.models.config import T5Config
from mlm_consistency.models.t5 import T5
from mlm_consistency.scoring.mesh import activation_constraint, batch_sharding
from mlm_consistency.scoring.parts import tokens_at_once
from mlm_consistency.scoring.step import pair_log_probs, read_states


def score_and_greedy(
    model: T5, params: Any, batch: dict[str, jax.Array], tokens: int = 0
) -> jax.Array:
    """[G, Q, 2] float32: log p of each scored pair in nats, and 1 where its target is the
    likeliest token (of equal ones the first), else 0.

    A candidate is what greedy decoding gives, as far as it goes, if all its tokens have 1.
    """
    states = read_states(model, params, batch, tokens)
    slots, reads, width = states.shape
    logits: Any = model.apply({"params": params}, states.reshape(-1, width), method=T5.logits)
    logits = logits.reshape(slots, reads, -1)
    numbers = jax.lax.broadcasted_iota(jnp.int32, logits.shape, logits.ndim - 1)
    best = logits.max(axis=-1, keepdims=True)
    # Not argmax: split over devices, a maximum and a minimum are two plain reductions.
    top = jnp.where(logits == best, numbers, logits.shape[-1]).min(axis=-1)
    greedy = jnp.take_along_axis(top, batch["pair_read"], axis=1) == batch["pair_target"]
    log_probs = pair_log_probs(logits, batch["pair_read"], batch["pair_target"])
    return jnp.stack([log_probs, greedy.astype(jnp.float32)], axis=-1)


def make_greedy_step(config: T5Config, mesh: Mesh) -> Any:
    """`scoring.step.make_step` with `score_and_greedy`: (weights, batch) -> [G, Q, 2]."""
    model = T5(config, activation_constraint(mesh))
    out, tokens = batch_sharding(mesh), tokens_at_once(mesh)
    return jax.jit(
        lambda params, batch: score_and_greedy(model, params, batch, tokens), out_shardings=out
    )
