"""Beam search for what the model itself would say, as one jitted function of fixed shapes.

    encoder rows [B, S] ─> keys and values, once ─┐
    start, x_0   [B, P] ─> keys and values, once ─┴─> N beams, L tokens: expand, rank, reorder

In each step every live beam is continued by every token; of the 2N likeliest continuations, those
that end (with the stop token, or at L tokens) and are among the first N go to the finished beams,
ranked by log-probability / tokens ** length_penalty; the N likeliest others live on. Beams that
never stop count with their L tokens. All L steps are taken, so nothing depends on a guess about
when the ranking can no longer change.

Order of equals: the earlier beam, then the smaller token id; among finished ones, those that were
finished first.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.sharding import Mesh

from mlm_consistency.errors import ConfigError
from mlm_consistency.models.config import T5Config
from mlm_consistency.models.layers import Constrain
from mlm_consistency.models.t5 import T5, Embedder
from mlm_consistency.models.t5_cached import BranchDecoder, Pair, PrefixDecoder, empty_branch
from mlm_consistency.scoring.mesh import MODEL, activation_constraint, batch_sharding

Arrays = dict[str, jax.Array]


@dataclasses.dataclass(frozen=True)
class BeamConfig:
    """How candidates are searched for; the defaults are the paper's where it says.

    Attributes:
      width: beams N of an example.
      max_tokens: tokens L of a beam at most, the stop token counted.
      length_penalty: finished beams are ranked by log-probability / tokens ** this; 1 ranks by
        the mean (what the paper's runs had), 0 by the sum.
      tokens_per_batch: encoder tokens that one data slot searches from in a step.
      max_row_lengths: encoder row lengths, each compiled once.
      length_multiple: row lengths are multiples of it.
      examples_per_shard: examples searched and recorded together.
    """

    width: int = 20
    max_tokens: int = 8
    length_penalty: float = 1.0
    tokens_per_batch: int = 4096
    max_row_lengths: int = 4
    length_multiple: int = 16
    examples_per_shard: int = 256

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if field.name == "length_penalty":
                fits = isinstance(value, float | int) and not isinstance(value, bool)
                expected = "a number"
            else:
                fits = isinstance(value, int) and not isinstance(value, bool) and value > 0
                expected = "a whole number >= 1"
            if not fits:
                raise ConfigError(f"BeamConfig.{field.name} must be {expected}, got {value!r}")


class SearchTokens(NamedTuple):
    """Ids that a search is about.

    Attributes:
      stop: ends a beam: the sentinel that would come next, or `</s>` for Flan.
      known: ids of the vocabulary; the rows that a network has beyond them are never proposed
        (they count in the softmax, as in scoring).
    """

    stop: int
    known: int


class _Live(NamedTuple):
    """Beams in work: log-probability so far [B, N], tokens and their log p [B, N, L]."""

    total: jax.Array
    tokens: jax.Array
    log_probs: jax.Array


class _Finished(NamedTuple):
    """Beams that ended: ranking score [B, N] (-inf: none yet), tokens, log p, length [B, N]."""

    score: jax.Array
    tokens: jax.Array
    log_probs: jax.Array
    length: jax.Array


def _take(tree: Any, index: jax.Array) -> Any:
    """Rows [B, N', ...] of each array [B, N, ...] of `tree`, by index [B, N']."""

    def rows(array: jax.Array) -> jax.Array:
        shape = index.shape + (1,) * (array.ndim - 2)
        return jnp.take_along_axis(array, index.reshape(shape), axis=1)

    return jax.tree.map(rows, tree)


def best_tokens(
    log_probs: jax.Array, count: int, parts: int, constrain: Constrain
) -> tuple[jax.Array, jax.Array]:
    """The `count` likeliest tokens of each row: ([B, N, count] log p, ids), of equals the smaller.

    Each of the `parts` of the vocabulary, which are those of the model axis, is ranked where it
    lies, so that no device gathers [B, N, V].
    """
    *rows, size = log_probs.shape
    part = size // parts
    apart = constrain(log_probs.reshape(*rows, parts, part), ("batch", None, "vocab", None))
    values, ids = jax.lax.top_k(apart, min(count, part))
    ids = ids + jnp.arange(parts)[:, None] * part
    values, place = jax.lax.top_k(values.reshape(*rows, -1), min(count, size))
    return values, jnp.take_along_axis(ids.reshape(*rows, -1), place, axis=-1)


def continuations(
    total: jax.Array, log_probs: jax.Array, count: int, parts: int, constrain: Constrain
) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
    """The `count` likeliest (beam, token): totals, beams, tokens and log p of the token [B, count].

    Args:
      total: log-probability of each beam [B, N].
      log_probs: of each token behind it [B, N, V].
    """
    values, ids = best_tokens(log_probs, count, parts, constrain)
    width = ids.shape[-1]
    batch = total.shape[0]
    summed = (total[:, :, None] + values).reshape(batch, -1)
    best, place = jax.lax.top_k(summed, count)
    token = jnp.take_along_axis(ids.reshape(batch, -1), place, axis=1)
    log_p = jnp.take_along_axis(values.reshape(batch, -1), place, axis=1)
    return best, place // width, token, log_p


def beam_search(
    model: T5, params: Any, batch: Arrays, config: BeamConfig, ids: SearchTokens, parts: int = 1
) -> Arrays:
    """The N likeliest beams of each example, best first.

    Args:
      model: the network.
      params: its weights.
      batch: `encoder_tokens` [B, S], 0 at padding; `encoder_lengths` [B]; `prefix` [B, P],
        decoder inputs before the first token, the start token first.
      config: how to search.
      ids: stop token, and ids of the vocabulary.
      parts: devices over which the vocabulary is split.

    Returns:
      `tokens` int32 [B, N, L], 0 behind the end; `log_probs` float32 [B, N, L], log p of each in
      nats, 0 behind the end; `length` int32 [B, N], tokens of each, the stop token counted, 0
      where there are fewer beams; `score` float32 [B, N].
    """
    network, constrain = model.config, model.constrain
    width, steps = config.width, config.max_tokens
    tokens = batch["encoder_tokens"]
    examples = tokens.shape[0]
    mask = jnp.arange(tokens.shape[1]) < batch["encoder_lengths"][:, None]
    encoded = model.apply({"params": params}, tokens, mask.astype(jnp.int32), method=T5.encode)

    def embed(tokens: jax.Array) -> jax.Array:
        table = {"params": params["token_embedder"]}
        return Embedder(network).apply(table, tokens)  # type: ignore[return-value]

    def next_log_probs(hidden: jax.Array) -> jax.Array:
        """Float32 log-probabilities [B, n, V]; -inf for ids that are not of the vocabulary."""
        flat = hidden.reshape(-1, hidden.shape[-1])
        logits: Any = model.apply({"params": params}, flat, method=T5.logits)
        logits = constrain(logits.reshape(*hidden.shape[:2], -1), ("batch", None, "vocab"))
        log_probs = jax.nn.log_softmax(logits, axis=-1)
        return jnp.where(jnp.arange(logits.shape[-1]) < ids.known, log_probs, -jnp.inf)

    decoder = {"params": params["decoder"]}
    hidden, memory = PrefixDecoder(network, constrain).apply(
        decoder, embed(batch["prefix"]), encoded, mask
    )

    def expand(
        step: jax.Array, live: _Live, finished: _Finished, log_probs: jax.Array
    ) -> tuple[_Live, _Finished, jax.Array]:
        """Continues the live beams by token number `step`; also which beam each came from."""
        available = live.total.shape[1] * log_probs.shape[-1]
        total, beam, token, log_p = continuations(
            live.total, log_probs, min(2 * width, available), parts, constrain
        )
        old = _take((live.tokens, live.log_probs), beam)
        grown = _Live(
            total,
            jax.lax.dynamic_update_slice_in_dim(old[0], token[:, :, None], step, axis=2),
            jax.lax.dynamic_update_slice_in_dim(old[1], log_p[:, :, None], step, axis=2),
        )
        ends = (token == ids.stop) | (step == steps - 1)
        first = jnp.arange(total.shape[1]) < width
        score = total / (step + 1.0) ** config.length_penalty
        length = jnp.full_like(token, step + 1)
        ended = _Finished(
            jnp.where(ends & first, score, -jnp.inf), grown.tokens, grown.log_probs, length
        )
        merged = jax.tree.map(lambda a, b: jnp.concatenate([a, b], axis=1), finished, ended)
        finished = _take(merged, jax.lax.top_k(merged.score, width)[1])
        going = jnp.where(ends, -jnp.inf, total)
        if going.shape[1] < width:
            going = jnp.pad(going, ((0, 0), (0, width - going.shape[1])), constant_values=-jnp.inf)
        going, place = jax.lax.top_k(going, width)
        place = jnp.minimum(place, total.shape[1] - 1)
        return _take(grown, place)._replace(total=going), finished, _take(beam, place)

    blank = jnp.zeros((examples, width, steps), jnp.int32)
    none = jnp.full((examples, width), -jnp.inf, jnp.float32)
    finished = _Finished(
        none, blank, blank.astype(jnp.float32), jnp.zeros((examples, width), jnp.int32)
    )
    root = _Live(
        jnp.zeros((examples, 1), jnp.float32), blank[:, :1], blank[:, :1].astype(jnp.float32)
    )
    live, finished, _ = expand(jnp.int32(0), root, finished, next_log_probs(hidden[:, -1:]))

    def lay_out(branch: Pair) -> Pair:
        axes = ("layers", "batch", "heads", None, "length", "kv")
        return constrain(branch[0], axes), constrain(branch[1], axes)

    def step(
        carry: tuple[_Live, _Finished, Pair], number: jax.Array
    ) -> tuple[tuple[_Live, _Finished, Pair], None]:
        live, finished, branch = carry
        last = jax.lax.dynamic_index_in_dim(live.tokens, number - 1, axis=2, keepdims=False)
        hidden, branch = BranchDecoder(network, constrain).apply(  # type: ignore[assignment]
            decoder, embed(last), number - 1, memory, branch, mask
        )
        live, finished, beam = expand(number, live, finished, next_log_probs(hidden))

        def follow(cache: jax.Array) -> jax.Array:
            return jnp.take_along_axis(cache, beam[None, :, None, :, None, None], axis=3)

        return (live, finished, lay_out((follow(branch[0]), follow(branch[1])))), None

    if steps > 1:
        branch = lay_out(empty_branch(network, examples, width, steps - 1))
        (_, finished, _), _ = jax.lax.scan(
            step, (live, finished, branch), jnp.arange(1, steps, dtype=jnp.int32)
        )
    there = finished.score > -jnp.inf
    length = jnp.where(there, finished.length, 0)
    inside = jnp.arange(steps) < length[:, :, None]
    return {
        "tokens": jnp.where(inside, finished.tokens, 0),
        "log_probs": jnp.where(inside, finished.log_probs, 0.0),
        "length": length,
        "score": finished.score,
    }


def make_search(
    network: T5Config, mesh: Mesh, config: BeamConfig, ids: SearchTokens
) -> Callable[[Any, Arrays], Arrays]:
    """The jitted search on `mesh`: (weights, batch) -> beams, laid out over the data axis.

    It compiles once for each encoder row length; weights keep the layout they come in.
    """
    model = T5(network, activation_constraint(mesh))
    parts = mesh.shape[MODEL]

    def search(params: Any, batch: Arrays) -> Arrays:
        return beam_search(model, params, batch, config, ids, parts)

    return jax.jit(search, out_shardings=batch_sharding(mesh))
