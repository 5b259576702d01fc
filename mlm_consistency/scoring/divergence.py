"""How far apart the conditionals' distributions over the whole vocabulary are, on the devices.

Under every conditional the model is asked for the same next token, the first of the answer. The
step leaves the decoder's state at the end of each prefix; the states of an example come together
here, and a second small step makes their distributions again and compares them:

    states [G, N, D] of a step ──pick──> [G, P, D] ──> host: [examples, K, D]
                                                                 │
    G slots x e examples a call: [G, e, K, D] ──> logits [G, e, K, V] ──> pairs, entropies

A state is D numbers (8 KB for d 4096 in bfloat16), so examples may lie in whatever batches suit
the packing; nothing of size V leaves a device. With the vocabulary split over the model axis each
device sums over its part, and the devices add up the sums.

For distributions p and q over the vocabulary, m = (p + q) / 2, in nats:

    Jensen-Shannon      1/2 sum_v [p log(p/m) + q log(q/m)]      between 0 and log 2
    total variation     1/2 sum_v |p - q|                        between 0 and 1
    entropy             - sum_v p log p                          between 0 and log V
    top token           argmax_v p, the first of equal ones
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from mlm_consistency.models.config import T5Config
from mlm_consistency.models.t5 import T5
from mlm_consistency.scoring.lanes import lanes_of
from mlm_consistency.scoring.mesh import DATA, RULES, activation_constraint, batch_sharding
from mlm_consistency.scoring.parts import rows_at_once

# Logits [e, K, V] of one call on a slot, 64 MiB of float32: many rows share one reading of the
# output matrix. A CPU then compares as many at a time as its caches hold.
LARGEST_CALL, CPU_ENTRIES = 2**24, 2**20
MOST_EXAMPLES = 32
TINIEST = 1e-37  # keeps log(m) finite where both distributions underflow


@dataclasses.dataclass(frozen=True, eq=False)
class Divergences:
    """The first answer token of E examples under K conditionals.

    Pairs are in the order of `np.triu_indices(K, 1)`: (0, 1), (0, 2), .., (K-2, K-1).

    Attributes:
      js: float32 [E, pairs], Jensen-Shannon divergence, nats; NaN where one of the two does not
        apply to the example.
      tv: float32 [E, pairs], total variation; NaN likewise.
      entropy: float32 [E, K], nats; NaN where the conditional does not apply.
      top: int32 [E, K], the likeliest token; -1 where the conditional does not apply.
    """

    js: np.ndarray
    tv: np.ndarray
    entropy: np.ndarray
    top: np.ndarray


def examples_of_a_call(conditionals: int, vocabulary: int, examples_per_shard: int) -> int:
    """Examples that a slot takes at a time. The mesh has no say, so that the same numbers come
    out, to the bit, however many devices share the work."""
    fits = LARGEST_CALL // (conditionals * vocabulary)
    return max(1, min(MOST_EXAMPLES, examples_per_shard, fits))


def divergence_flops(conditionals: int, model: T5Config) -> float:
    """FLOPs for one example: 2 K D V of the output matrix, and for every pair and token two
    logarithm-sized terms and two sums, counted as 30."""
    pairs = conditionals * (conditionals - 1) / 2
    return model.vocab_size * (2.0 * conditionals * model.d_model + 30 * pairs)


def pick_states(states: jax.Array, index: jax.Array) -> jax.Array:
    """Decoder states [G, N, D] of a step at `index` [G, P], each slot within itself."""
    return jnp.take_along_axis(states, index[..., None], axis=1)


def compare(logits: jax.Array) -> dict[str, jax.Array]:
    """The divergences of `logits` [..., K, V], float32: js and tv [..., pairs], entropy and top
    [..., K]."""
    count, size = logits.shape[-2:]
    best = logits.max(axis=-1, keepdims=True)
    # The maximum goes first, so that the log-probability of a sure token is not rounded as a
    # logit of its size is.
    log_p = logits - best
    log_p = log_p - jnp.log(jnp.exp(log_p).sum(axis=-1, keepdims=True))
    p = jnp.exp(log_p)
    ones = jnp.ones(size, jnp.float32)

    def total(x: jax.Array) -> jax.Array:
        # A product with ones: XLA's CPU sums along rows one number after the other.
        return jnp.einsum("...v,v->...", x, ones, precision=jax.lax.Precision.HIGHEST)

    numbers = jax.lax.broadcasted_iota(jnp.int32, logits.shape, logits.ndim - 1)
    # Not argmax: split over devices, a maximum and a minimum are two plain reductions.
    top = jnp.where(logits == best, numbers, size).min(axis=-1)
    return {
        "js": _pairs(log_p, p, lambda lp, p, lq, q: 0.5 * total(_js_terms(lp, p, lq, q)), count),
        "tv": _pairs(log_p, p, lambda lp, p, lq, q: 0.5 * total(jnp.abs(p - q)), count),
        "entropy": -total(p * log_p),
        "top": top,
    }


def _js_terms(log_p: jax.Array, p: jax.Array, log_q: jax.Array, q: jax.Array) -> jax.Array:
    log_m = jnp.log(jnp.maximum(0.5 * (p + q), TINIEST))
    return p * (log_p - log_m) + q * (log_q - log_m)


def _pairs(log_p: jax.Array, p: jax.Array, figure: Any, count: int) -> jax.Array:
    """figure(log p, p, log q, q) of each pair of rows of [..., K, V] -> [..., pairs].

    Shift s compares row k with row (k + s) mod K; shifts up to K / 2 meet every pair, and a loop
    over them holds one shift's terms in memory.
    """
    axis = p.ndim - 2
    first, second = np.triu_indices(count, 1)
    if count < 2:
        return jnp.zeros((*p.shape[:-2], 0), p.dtype)
    twice = [jnp.concatenate([x, x], axis) for x in (log_p, p)]

    def shifted(shift: jax.Array) -> jax.Array:
        log_q, q = (jax.lax.dynamic_slice_in_dim(x, shift, count, axis) for x in twice)
        return jnp.maximum(figure(log_p, p, log_q, q), 0.0)

    values = jax.lax.map(shifted, jnp.arange(1, count // 2 + 1))  # [shifts, ..., K]
    apart = second - first
    near = apart <= count // 2
    shift, row = np.where(near, apart, count - apart), np.where(near, first, second)
    flat = jnp.moveaxis(values, 0, -2).reshape(*p.shape[:-2], -1)
    return flat[..., (shift - 1) * count + row]


def divergences_of_states(config: T5Config, mesh: Mesh, params: Any, states: jax.Array) -> Any:
    """`compare` of the distributions that decoder states [G, e, K, D] give."""
    constrain = activation_constraint(mesh)
    model = T5(config, constrain)
    flat = states.reshape(-1, states.shape[-1])
    logits: Any = model.apply({"params": params}, flat, method=T5.logits)
    logits = logits.reshape(*states.shape[:-1], -1)
    axes = PartitionSpec(DATA, None, None, RULES["vocab"])
    logits = jax.lax.with_sharding_constraint(logits, NamedSharding(mesh, axes))
    slots, count, *rest = logits.shape
    once = count
    if mesh.devices.flat[0].platform == "cpu":
        once = rows_at_once(count, logits[0, 0].size, CPU_ENTRIES)
    if once == count:
        return compare(logits)
    parts = jnp.moveaxis(logits.reshape(slots, count // once, once, *rest), 1, 0)
    found = jax.lax.map(compare, parts)
    return {
        name: jnp.moveaxis(x, 0, 1).reshape(slots, count, x.shape[-1]) for name, x in found.items()
    }


class DivergenceStep:
    """The second step of a run: compiled once, called for the examples of each shard."""

    def __init__(
        self, config: T5Config, mesh: Mesh, conditionals: int, examples_per_shard: int
    ) -> None:
        """Args:
        config: the network.
        mesh: that of the run's step.
        conditionals: K.
        examples_per_shard: of the run.
        """
        self.mesh, self.lanes, self.conditionals = mesh, lanes_of(mesh), conditionals
        self.examples = examples_of_a_call(conditionals, config.vocab_size, examples_per_shard)
        self._sharding = batch_sharding(mesh)
        self._pick = jax.jit(pick_states, out_shardings=self._sharding)
        self.step = jax.jit(
            lambda params, states: divergences_of_states(config, mesh, params, states),
            out_shardings=self._sharding,
        )

    def pick(self, states: jax.Array, index: Sequence[np.ndarray], width: int) -> jax.Array:
        """States [G, width, D] at the nodes `index` of each slot of this lane, on their way to
        the host.

        Args:
          states: [G, N, D] at the read nodes of a step.
          index: for each slot of this lane the wanted places among its N nodes.
          width: the same for all lanes; at least as many as any slot wants.
        """
        table = np.zeros((self.lanes.slots, width), np.int32)
        for row, places in zip(table, index, strict=False):
            row[: len(places)] = places
        picked = self._pick(states, self._global(table))
        picked.copy_to_host_async()
        return picked

    def calls(self, examples: int) -> int:
        """Calls that it takes for so many examples of one lane."""
        return -(-examples // (self.examples * self.lanes.slots))

    def __call__(
        self, params: Any, states: np.ndarray, applies: np.ndarray, calls: int
    ) -> Divergences:
        """The divergences of the examples of this lane's shard.

        Args:
          params: weights on the mesh.
          states: [E, K, D] at the end of the prefix; anything finite where a conditional does
            not apply.
          applies: bool [E, K].
          calls: of the lane that needs most; all lanes call together.
        """
        count, width = self.examples, states.shape[-1]
        slots, total = self.lanes.slots, calls * self.lanes.slots * count
        padded = np.zeros((total, self.conditionals, width), states.dtype)
        padded[: len(states)] = states
        # Neighbours share a call, so that an example's place in it does not depend on the slots.
        padded = padded.reshape(calls, slots, count, self.conditionals, width)
        results = [self.step(params, self._global(chunk)) for chunk in padded]
        tables = {
            name: np.concatenate([local_slots(r[name]).reshape(slots * count, -1) for r in results])
            if results
            else np.zeros((0, 0))
            for name in ("js", "tv", "entropy", "top")
        }
        return masked({name: table[: len(states)] for name, table in tables.items()}, applies)

    def _global(self, array: np.ndarray) -> jax.Array:
        shape = (self.lanes.count * self.lanes.slots, *array.shape[1:])
        return jax.make_array_from_process_local_data(self._sharding, array, shape)


def masked(tables: dict[str, np.ndarray], applies: np.ndarray) -> Divergences:
    """The tables with NaN (top: -1) where a conditional does not apply."""
    first, second = np.triu_indices(applies.shape[1], 1)
    both = applies[:, first] & applies[:, second]
    return Divergences(
        js=np.where(both, tables["js"], np.nan).astype(np.float32),
        tv=np.where(both, tables["tv"], np.nan).astype(np.float32),
        entropy=np.where(applies, tables["entropy"], np.nan).astype(np.float32),
        top=np.where(applies, tables["top"], -1).astype(np.int32),
    )


def local_slots(array: jax.Array) -> np.ndarray:
    """The slots [S, ...] of this process of an array [G, ...] that is split over data alone."""
    found: dict[int, np.ndarray] = {}
    for shard in array.addressable_shards:
        start = shard.index[0].start or 0
        if start not in found:  # the devices of the model axis hold the same
            found[start] = np.asarray(shard.data)
    return np.concatenate([found[start] for start in sorted(found)])
