"""The one jitted step: packed rows in, log-probabilities of the scored pairs out.

    encoder rows of a few lengths        decoder rows (trees), each with its own memory
    [R1, S1] ─┐
    [R2, S2] ─┼─> states [tokens, D] ──gather──> [W, M, D] ─> [W, T, D] ──gather──> [N, D]
    [R3, S3] ─┘                                                        logits, pairs ─> [Q]

A batch mixes row lengths in the proportion of the run, so one compiled shape serves all of it,
and each batch needs nearly the same number of decoder nodes. Shapes: G slots of the data axis;
in each R rows of S tokens for each row length, W decoder rows of T nodes over M encoder tokens,
N read nodes, Q scored pairs.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import Mesh

from mlm_consistency.models.config import T5Config
from mlm_consistency.models.t5 import T5
from mlm_consistency.scoring.mesh import activation_constraint, batch_sharding
from mlm_consistency.scoring.parts import in_parts, rows_at_once, tokens_at_once


@dataclasses.dataclass(frozen=True)
class BatchShape:
    """The static shape of what one data slot computes in a step.

    Attributes:
      rows: (length S, number R) for each encoder row length, ascending in S.
      decoder_rows: W.
      memory_length: M, encoder tokens that a decoder row can attend to.
      decoder_length: T, nodes of a decoder row.
      reads: N, nodes whose state goes to the output matrix.
      pairs: Q, scored (node, target) pairs.
    """

    rows: tuple[tuple[int, int], ...]
    decoder_rows: int
    memory_length: int
    decoder_length: int
    reads: int
    pairs: int

    @property
    def encoder_tokens(self) -> int:
        """Encoder tokens computed, padding among them."""
        return sum(length * count for length, count in self.rows)

    @property
    def decoder_tokens(self) -> int:
        """Decoder nodes computed, padding among them."""
        return self.decoder_rows * self.decoder_length

    def arrays(self) -> dict[str, tuple[int, ...]]:
        """Name -> shape of the int32 arrays of one slot."""
        shapes: dict[str, tuple[int, ...]] = {}
        for number, (length, count) in enumerate(self.rows):
            shapes[f"encoder_tokens_{number}"] = (count, length)
            shapes[f"encoder_segments_{number}"] = (count, length)
        for name in ("memory", "memory_segments"):
            shapes[name] = (self.decoder_rows, self.memory_length)
        for name in ("tokens", "positions", "end", "segments"):
            shapes[name] = (self.decoder_rows, self.decoder_length)
        return shapes | {
            "read": (self.reads,),
            "pair_read": (self.pairs,),
            "pair_target": (self.pairs,),
        }


def gather(states: jax.Array, index: jax.Array) -> jax.Array:
    """states [G, X, D] at index [G, Y] -> [G, Y, D], each slot within itself."""
    return jnp.take_along_axis(states, index[..., None], axis=1)


def read_states(model: T5, params: Any, batch: dict[str, jax.Array], tokens: int = 0) -> jax.Array:
    """Decoder states [G, N, D] at the read nodes of a batch of arrays [G, ...].

    `tokens` of a slot go through the network at once; 0 is all (see `scoring.parts`).
    """
    variables = {"params": params}
    slots = batch["read"].shape[0]

    def encode(tokens: jax.Array, segments: jax.Array) -> jax.Array:
        return model.apply(variables, tokens, segments, method=T5.encode)  # type: ignore[return-value]

    def decode(*arrays: jax.Array) -> jax.Array:
        return model.apply(variables, *arrays, method=T5.decode)  # type: ignore[return-value]

    encoded = []
    for number in range(sum(name.startswith("encoder_tokens_") for name in batch)):
        arrays = (batch[f"encoder_tokens_{number}"], batch[f"encoder_segments_{number}"])
        rows = rows_at_once(arrays[0].shape[1], arrays[0].shape[2], tokens)
        states = in_parts(encode, arrays, rows)
        encoded.append(states.reshape(slots, -1, states.shape[-1]))
    memory = batch["memory"]
    states = gather(jnp.concatenate(encoded, axis=1), memory.reshape(slots, -1))
    nodes = tuple(batch[name] for name in ("tokens", "positions", "end", "segments"))
    rows = rows_at_once(memory.shape[1], memory.shape[2], tokens)
    states = states.reshape(*memory.shape, states.shape[-1])
    hidden = in_parts(decode, (*nodes, states, batch["memory_segments"]), rows)
    return gather(hidden.reshape(slots, -1, hidden.shape[-1]), batch["read"])


def pair_log_probs(logits: jax.Array, pair_read: jax.Array, pair_target: jax.Array) -> jax.Array:
    """log p(target | node) in nats, [G, Q] float32: target logit minus log-sum-exp.

    Args:
      logits: [G, N, V] float32.
      pair_read: [G, Q], which read node each pair belongs to.
      pair_target: [G, Q], the token that it predicts.
    """
    normalizer = jax.nn.logsumexp(logits, axis=-1)

    def one_slot(logits: jax.Array, normalizer: jax.Array, node: jax.Array, token: jax.Array):
        return logits[node, token] - normalizer[node]

    return jax.vmap(one_slot)(logits, normalizer, pair_read, pair_target)


def score(model: T5, params: Any, batch: dict[str, jax.Array], tokens: int = 0) -> jax.Array:
    """Log-probabilities [G, Q] of the scored pairs of a batch; `tokens` as in `read_states`."""
    return score_with_states(model, params, batch, tokens)[0]


def score_with_states(
    model: T5, params: Any, batch: dict[str, jax.Array], tokens: int = 0
) -> tuple[jax.Array, jax.Array]:
    """`score`, and the decoder states [G, N, D] at the read nodes."""
    states = read_states(model, params, batch, tokens)
    slots, reads, width = states.shape
    flat = states.reshape(-1, width)
    logits: Any = model.apply({"params": params}, flat, method=T5.logits)
    logits = logits.reshape(slots, reads, -1)
    return pair_log_probs(logits, batch["pair_read"], batch["pair_target"]), states


def make_step(config: T5Config, mesh: Mesh, with_states: bool = False) -> Any:
    """The jitted step on `mesh`: (weights, batch) -> log-probabilities [G, Q].

    It compiles once for each `BatchShape` it meets; weights keep the layout they come in. With
    states it gives the pair of `score_with_states`, which `scoring.divergence` goes on with.
    """
    model = T5(config, activation_constraint(mesh))
    out, tokens = batch_sharding(mesh), tokens_at_once(mesh)
    work = score_with_states if with_states else score
    return jax.jit(lambda params, batch: work(model, params, batch, tokens), out_shardings=out)
