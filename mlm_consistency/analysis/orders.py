"""Any number of masked positions: one pseudo-joint for every order of revealing them.

For positions 0..m-1 and an order s, log pi_s = sum_t log p(x_s(t) | x_s(0), .., x_s(t-1)), in
nats. Every pi_s is a distribution, and one model with one joint would give the same for all m!.
The uniform-mask NELBO is minus the *mean* over orders whether or not they agree, so it hides
their spread (masked diffusion models: arXiv 2502.09992 and kin).

A `LogConditional` is asked for log p(x_i | x_j for j in revealed): `conditional(i, revealed)` with
`revealed` a frozenset of positions, returning a float or an array [...] (one value a text, or a
whole grid of values of x). Each is asked once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import combinations, permutations
from math import comb, factorial

import numpy as np

from mlm_consistency.analysis.joints import log_mean_exp
from mlm_consistency.errors import AnalysisError

LogConditional = Callable[[int, frozenset[int]], "float | np.ndarray"]
MOST_EXHAUSTIVE = 5
"""Positions up to which all m! orders are taken (120 orders, 80 conditionals)."""


def conditional_from_table(table: np.ndarray) -> LogConditional:
    """A `LogConditional` that reads `table` [m, 2**m, ...] of log-probabilities.

    table[i, s] = log p(x_i | revealed), bit j of s set when position j is revealed; entries with
    bit i of s set are never read.
    """
    m = table.shape[0]
    if table.ndim < 2 or table.shape[1] != 2**m:
        raise AnalysisError(f"a table of orders has shape (m, 2**m, ...). Got {table.shape}.")
    return lambda i, revealed: table[i, sum(1 << j for j in revealed)]


@dataclass(frozen=True)
class PseudoJoints:
    """orders [O, m] (first revealed first), log_joint [O, ...] nats; exhaustive: all m! are in."""

    orders: np.ndarray
    log_joint: np.ndarray
    exhaustive: bool


def pseudo_joints(
    conditional: LogConditional, m: int, samples: int = 120, seed: int = 0
) -> PseudoJoints:
    """log pi_s for all orders when m <= `MOST_EXHAUSTIVE`, else for `samples` distinct ones.

    Sampled orders are uniform without replacement and depend on `seed` alone.

    Raises:
      AnalysisError: for m < 1 or fewer than 2 samples.
    """
    if m < 1 or samples < 2:
        raise AnalysisError(f"needs m >= 1 positions and >= 2 samples. Got m={m}, {samples}.")
    exhaustive = m <= MOST_EXHAUSTIVE or samples >= factorial(m)
    orders = list(permutations(range(m))) if exhaustive else _sampled_orders(m, samples, seed)
    ask = cache(conditional)

    def log_joint(order: tuple[int, ...]) -> np.ndarray:
        terms = (ask(i, frozenset(order[:t])) for t, i in enumerate(order))
        return np.asarray(sum(terms), dtype=np.float64)

    return PseudoJoints(
        np.array(orders, dtype=np.int64), np.stack([log_joint(o) for o in orders]), exhaustive
    )


@dataclass(frozen=True)
class OrderSpread:
    """What the orders say about one text; every field has shape [...], nats.

    mean is -NELBO; mixture = log mean exp, the log-probability under the mixture of all orders,
    which is a coherent model; spread = maximum - minimum; deviation: standard deviation over
    orders; mean_error: standard error of `mean` when the orders were sampled, else 0.
    """

    mean: np.ndarray
    mixture: np.ndarray
    maximum: np.ndarray
    minimum: np.ndarray
    spread: np.ndarray
    deviation: np.ndarray
    mean_error: np.ndarray


def summarize_orders(joints: PseudoJoints) -> OrderSpread:
    """The figures of `OrderSpread` over the orders of `joints`."""
    values = joints.log_joint
    high, low = values.max(axis=0), values.min(axis=0)
    error = values.std(axis=0, ddof=1) / np.sqrt(len(values)) if len(values) > 1 else 0.0 * high
    with np.errstate(invalid="ignore"):
        return OrderSpread(
            mean=values.mean(axis=0), mixture=log_mean_exp(values), maximum=high, minimum=low,
            spread=high - low, deviation=values.std(axis=0),
            mean_error=0.0 * error if joints.exhaustive else error,
        )  # fmt: skip


def nelbo(conditional: LogConditional, m: int) -> np.ndarray:
    """Exact uniform-mask NELBO of masked diffusion, [...] nats.

    sum over the number k of revealed positions of the average, over sets S of that size, of
    sum_{i not in S} -log p(x_i | x_S) / (m - k): minus the mean over all m! orders.
    """
    total: float | np.ndarray = 0.0
    for k in range(m):
        for chosen in combinations(range(m), k):
            revealed = frozenset(chosen)
            hidden = [i for i in range(m) if i not in revealed]
            inner = sum(conditional(i, revealed) for i in hidden)
            total = total - np.asarray(inner) / (len(hidden) * comb(m, k))
    return np.asarray(total)


@dataclass(frozen=True)
class Circulation:
    """Adjacent swap of positions i, j after `revealed`: the order test in that context.

    value [...] = log p(x_i|S) p(x_j|S,i) - log p(x_j|S) p(x_i|S,j), nats.
    """

    i: int
    j: int
    revealed: frozenset[int]
    value: np.ndarray


def circulation(
    conditional: LogConditional, i: int, j: int, revealed: frozenset[int]
) -> Circulation:
    """The circulation of swapping i (first) and j after `revealed`."""
    ahead = np.asarray(conditional(i, revealed)) + conditional(j, revealed | {i})
    behind = np.asarray(conditional(j, revealed)) + conditional(i, revealed | {j})
    return Circulation(i, j, revealed, ahead - behind)


def all_circulations(conditional: LogConditional, m: int) -> Iterator[Circulation]:
    """Every local circulation, i < j: C(m, 2) 2^(m-2) of them. All vanish for one joint."""
    ask = cache(conditional)
    for i, j in combinations(range(m), 2):
        others = [k for k in range(m) if k not in (i, j)]
        for size in range(len(others) + 1):
            for chosen in combinations(others, size):
                yield circulation(ask, i, j, frozenset(chosen))


def circulations_along(conditional: LogConditional, orders: np.ndarray) -> Iterator[Circulation]:
    """The local circulations of the adjacent swaps in `orders` [O, m], i < j, each once: what to
    take beyond `MOST_EXHAUSTIVE` positions, where `all_circulations` grows as 2^m."""
    ask = cache(conditional)
    seen: set[tuple[int, int, frozenset[int]]] = set()
    for order in orders.tolist():
        for t in range(len(order) - 1):
            i, j = sorted(order[t : t + 2])
            key = (i, j, frozenset(order[:t]))
            if key not in seen:
                seen.add(key)
                yield circulation(ask, *key)


def swaps_between(
    conditional: LogConditional, first: tuple[int, ...], second: tuple[int, ...]
) -> list[Circulation]:
    """Adjacent swaps that turn order `first` into `second`; their values sum to
    log pi_first - log pi_second."""
    if sorted(first) != sorted(second) or len(set(first)) != len(first):
        raise AnalysisError(f"not two orders of the same positions: {first}, {second}.")
    order, path = list(first), []
    for target, position in enumerate(second):
        for at in range(order.index(position), target, -1):
            before = frozenset(order[: at - 1])
            path.append(circulation(conditional, order[at - 1], order[at], before))
            order[at - 1], order[at] = order[at], order[at - 1]
    return path


def _sampled_orders(m: int, samples: int, seed: int) -> list[tuple[int, ...]]:
    generator = np.random.default_rng(seed)
    found: dict[tuple[int, ...], None] = {}
    while len(found) < samples:
        found[tuple(int(i) for i in generator.permutation(m))] = None
    return list(found)
