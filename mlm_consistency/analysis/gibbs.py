"""Where Gibbs sampling with a model's conditionals ends up.

Alternating a ~ p(a|b), b ~ p(b|a) has a stationary law even when no joint has both conditionals;
it then depends on which position was drawn last. The gap between the two is an incompatibility
that a sampler feels.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from mlm_consistency.analysis.divergences import jensen_shannon
from mlm_consistency.analysis.pair_tables import PairTables, log_of
from mlm_consistency.errors import AnalysisError


@dataclass(frozen=True)
class GibbsStationary:
    """a [I] and b [J], stationary probabilities; scan_max_abs and scan_jsd (nats) compare the
    joint after drawing b, a_i p(b_j|a_i), with the one after drawing a, b_j p(a_i|b_j)."""

    a: np.ndarray
    b: np.ndarray
    scan_max_abs: float
    scan_jsd: float


def gibbs_stationary(tables: PairTables) -> GibbsStationary:
    """Stationary laws of the two-position Gibbs sampler on one table [I, J].

    a = A b and b = B^T a with A = p(a|b), B = p(b|a), solved without iteration.

    Raises:
      AnalysisError: for a batch, for tables of a subset, or when the sampler splits into blocks
        that it cannot leave, so that where it ends depends on where it starts.
    """
    if len(tables.shape) != 2 or tables.subset:
        raise AnalysisError(
            "Gibbs stationary laws need one table [I, J] whose conditionals sum to one. "
            f"Got shape {tables.shape}{', a subset of the vocabulary' if tables.subset else ''}."
        )
    log_a, log_b = tables.log_a_given_b, tables.log_b_given_a
    a_table, b_table = np.exp(log_a), np.exp(log_b)
    transition = b_table @ a_table.T
    closed = _closed_classes(transition)
    if len(closed) != 1:
        raise AnalysisError(
            f"the Gibbs sampler has {len(closed)} blocks of words that it cannot leave, so its "
            "stationary law is not unique"
        )
    a = np.zeros(transition.shape[0])
    a[closed[0]] = _stationary(transition[np.ix_(closed[0], closed[0])])
    b = a @ b_table
    after_b, after_a = log_of(a)[:, None] + log_b, log_of(b)[None, :] + log_a
    return GibbsStationary(
        a, b,
        scan_max_abs=float(np.abs(np.exp(after_b) - np.exp(after_a)).max()),
        scan_jsd=float(jensen_shannon(after_b, after_a, (0, 1))),
    )  # fmt: skip


def _closed_classes(transition: np.ndarray) -> list[np.ndarray]:
    graph = csr_array(transition > 0)
    count, labels = connected_components(graph, directed=True, connection="strong")
    classes = [np.flatnonzero(labels == k) for k in range(count)]
    return [c for c in classes if not (transition[c][:, labels != labels[c[0]]] > 0).any()]


def _stationary(transition: np.ndarray) -> np.ndarray:
    """Stationary law by state reduction (Grassmann, Taksar & Heyman): no subtraction, so small
    probabilities keep their relative accuracy."""
    p = transition.copy()
    size = p.shape[0]
    for k in range(size - 1, 0, -1):
        p[:k, k] /= p[k, :k].sum()
        p[:k, :k] += np.outer(p[:k, k], p[k, :k])
    law = np.ones(size)
    for k in range(1, size):
        law[k] = law[:k] @ p[:k, k]
    return law / law.sum()
