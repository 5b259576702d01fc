"""Divergences between distributions, and of a joint's conditionals from the model's. In nats."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mlm_consistency.analysis.pair_tables import PairTables, log_normalize, log_sum_exp
from mlm_consistency.errors import AnalysisError

Axes = int | tuple[int, ...]


def kl_divergence(log_p: np.ndarray, log_q: np.ndarray, axis: Axes = -1) -> np.ndarray:
    """KL(p || q) = sum p (log p - log q) over `axis`, with 0 log 0 = 0.

    +inf where q is zero and p is not; NaN where either has no mass at all (NaN inputs).
    """
    p = np.exp(log_p)
    with np.errstate(invalid="ignore"):
        terms = np.where(p > 0, p * (log_p - log_q), 0.0)
    terms = np.where(np.isnan(log_p) | np.isnan(log_q), np.nan, terms)
    return terms.sum(axis=axis)


def jensen_shannon(log_p: np.ndarray, log_q: np.ndarray, axis: Axes = -1) -> np.ndarray:
    """Jensen-Shannon divergence with weights 1/2 over `axis`; between 0 and log 2."""
    with np.errstate(invalid="ignore"):
        middle = np.logaddexp(log_p, log_q) - np.log(2.0)
    both = kl_divergence(log_p, middle, axis) + kl_divergence(log_q, middle, axis)
    return np.maximum(0.5 * both, 0.0)  # rounding alone makes it negative


def entropy(log_p: np.ndarray, axis: Axes = -1) -> np.ndarray:
    """Shannon entropy -sum p log p over `axis`, with 0 log 0 = 0."""
    p = np.exp(log_p)
    with np.errstate(invalid="ignore"):
        return -np.where(p > 0, p * log_p, 0.0).sum(axis=axis)


@dataclass(frozen=True)
class ConditionalDivergences:
    """How far a joint's own conditionals are from the model's, context by context.

    For A = p(a|b), one value a context b, [..., J]; for B = p(b|a), one a context a, [..., I].
    `forward` is KL(model || joint), `reverse` KL(joint || model), `jsd` their middle ground.
    NaN where the joint gives a context no mass, so that its conditional does not exist.
    """

    forward_a: np.ndarray
    forward_b: np.ndarray
    reverse_a: np.ndarray
    reverse_b: np.ndarray
    jsd_a: np.ndarray
    jsd_b: np.ndarray

    @property
    def objective(self) -> np.ndarray:
        """sum_b KL(A(.|b) || q(.|b)) + sum_a KL(B(.|a) || q(.|a)), [...]: Arnold-Gokhale's."""
        return self.forward_a.sum(axis=-1) + self.forward_b.sum(axis=-1)

    def mean(self, kind: str) -> np.ndarray:
        """Mean over all I + J contexts of "forward", "reverse" or "jsd", [...]."""
        a, b = getattr(self, f"{kind}_a"), getattr(self, f"{kind}_b")
        return (a.sum(axis=-1) + b.sum(axis=-1)) / (a.shape[-1] + b.shape[-1])


def conditional_divergences(log_joint: np.ndarray, tables: PairTables) -> ConditionalDivergences:
    """Divergences of the conditionals of `log_joint` [..., I, J] from those of `tables`.

    Raises:
      AnalysisError: for tables of a subset: their rows are no distributions.
    """
    if tables.subset:
        raise AnalysisError(
            "divergences need conditionals that sum to one, and these tables are a subset of the "
            "vocabulary: normalise them over the subset first"
        )
    q_a, q_b = log_normalize(log_joint, -2), log_normalize(log_joint, -1)
    a, b = tables.log_a_given_b, tables.log_b_given_a
    return ConditionalDivergences(
        forward_a=kl_divergence(a, q_a, -2), forward_b=kl_divergence(b, q_b, -1),
        reverse_a=kl_divergence(q_a, a, -2), reverse_b=kl_divergence(q_b, b, -1),
        jsd_a=jensen_shannon(a, q_a, -2), jsd_b=jensen_shannon(b, q_b, -1),
    )  # fmt: skip


def unary_nll(log_joint: np.ndarray, a: np.ndarray | int, b: np.ndarray | int) -> np.ndarray:
    """U-NLL at the gold pair: -(log q(a|b) + log q(b|a)) / 2, nats a token, [...].

    `log_joint` [..., I, J]; `a`, `b` the gold indices, int or [...]. NaN
    where the joint gives a gold word no mass at all. Source: arXiv 2305.15501.
    """
    cell = _at(log_joint, a, b)
    mass_b = _at(np.broadcast_to(log_sum_exp(log_joint, -2), log_joint.shape), a, b)
    mass_a = _at(np.broadcast_to(log_sum_exp(log_joint, -1), log_joint.shape), a, b)
    with np.errstate(invalid="ignore"):
        return -0.5 * ((cell - mass_b) + (cell - mass_a))


def pairwise_nll(log_joint: np.ndarray, a: np.ndarray | int, b: np.ndarray | int) -> np.ndarray:
    """P-NLL at the gold pair: -log q(a, b), nats a pair (halve it for nats a token), [...]."""
    return -_at(log_joint, a, b)


def _at(table: np.ndarray, a: np.ndarray | int, b: np.ndarray | int) -> np.ndarray:
    batch = table.shape[:-2]
    flat = table.reshape(-1, *table.shape[-2:])
    rows = np.broadcast_to(np.asarray(a, dtype=np.int64), batch).reshape(-1)
    columns = np.broadcast_to(np.asarray(b, dtype=np.int64), batch).reshape(-1)
    for name, index, size in (("a", rows, table.shape[-2]), ("b", columns, table.shape[-1])):
        if ((index < 0) | (index >= size)).any():
            raise AnalysisError(
                f"gold index {name} must lie in 0..{size - 1}. Got {index.tolist()}."
            )
    return flat[np.arange(flat.shape[0]), rows, columns].reshape(batch)
