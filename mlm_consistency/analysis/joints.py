"""Joint distributions of two positions built from a model's conditionals.

Each takes `PairTables` and returns log q [..., I, J] in nats with sum q = 1. A cell or table
that a construction cannot define is NaN, never a made-up number.

Adding one: 1. write a function from PairTables to log q; 2. add its line to `JOINTS`; 3. the
contract tests in tests/analysis/test_pairs_joints.py run over the table.

Source: Hennigen & Kim, *Deriving Language Models from Masked Language Models*, arXiv 2305.15501.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from mlm_consistency.analysis.pair_tables import PairTables, log_normalize
from mlm_consistency.errors import AnalysisError
from mlm_consistency.tables import lookup

JOINTS: dict[str, str] = {
    "naive": "mlm_consistency.analysis.joints:naive",
    "mrf": "mlm_consistency.analysis.joints:mrf",
    "mrf_local": "mlm_consistency.analysis.joints:mrf_local",
    "hcb": "mlm_consistency.analysis.joints:hcb",
    "arnold_gokhale": "mlm_consistency.analysis.joints_arnold_gokhale:arnold_gokhale",
    "order_mixture": "mlm_consistency.analysis.joints:order_mixture",
}


def coherent_joint(name: str, tables: PairTables) -> np.ndarray:
    """log q [..., I, J] of the construction `name` of `JOINTS`.

    Raises:
      UnknownNameError: for a name that is not in the table.
      AnalysisError: when the tables lack what the construction reads.
    """
    build: Callable[[PairTables], np.ndarray] = lookup(JOINTS, name, "joint")
    return build(tables)


def naive(tables: PairTables) -> np.ndarray:
    """Independent: q = p(a | both masked) p(b | both masked)."""
    a, b = tables.masked("the naive joint")
    return log_normalize(a[..., :, None] + b[..., None, :], (-2, -1))


def mrf(tables: PairTables) -> np.ndarray:
    """Markov random field: q proportional to exp(logit(a|b) + logit(b|a)).

    The raw logits matter: their normalisers, which MRF-local divides out, depend on the context.
    """
    if tables.logits_a_given_b is None or tables.logits_b_given_a is None:
        raise AnalysisError(
            "the MRF joint needs the logits of both conditionals (logits_a_given_b and "
            "logits_b_given_a); from probabilities alone only mrf_local is defined"
        )
    return log_normalize(tables.logits_a_given_b + tables.logits_b_given_a, (-2, -1))


def mrf_local(tables: PairTables) -> np.ndarray:
    """Markov random field with locally normalised factors: q proportional to p(a|b) p(b|a)."""
    return log_normalize(tables.log_a_given_b + tables.log_b_given_a, (-2, -1))


def valid_pivots(tables: PairTables) -> np.ndarray:
    """Rows a_i with p(a_i|b_j) > 0 for every b_j, [..., I] bool: what an HCB joint may pivot on."""
    return np.isfinite(tables.log_a_given_b).all(axis=-1)


def hcb(tables: PairTables, pivot: np.ndarray | int | None = None) -> np.ndarray:
    """Hammersley-Clifford-Besag: q proportional to [p(a|b) / p(a*|b)] p(b|a*).

    Args:
      pivot: a*, the index of a row, int or [...]; by default argmax p(a | both masked).

    A pivot with a zero p(a*|b) leaves its whole table NaN (`valid_pivots` lists the others).
    The joint is the same for every pivot exactly when the conditionals are compatible.
    """
    batch, (rows, columns) = tables.shape[:-2], tables.shape[-2:]
    if pivot is None:
        if tables.log_a_masked is None:
            raise AnalysisError(
                "the HCB joint takes its pivot from a_masked, which was not given: give a_masked "
                "or a pivot"
            )
        pivot = tables.log_a_masked.argmax(axis=-1)
    index = np.broadcast_to(np.asarray(pivot, dtype=np.int64), batch)
    if ((index < 0) | (index >= rows)).any():
        raise AnalysisError(f"pivot must lie in 0..{rows - 1}. Got {np.asarray(pivot).tolist()}.")
    at = np.broadcast_to(index[..., None, None], (*batch, 1, columns))
    a_star = np.take_along_axis(tables.log_a_given_b, at, axis=-2)
    b_given_star = np.take_along_axis(tables.log_b_given_a, at, axis=-2)
    defined = np.isfinite(a_star).all(axis=-1, keepdims=True)
    ratio = tables.log_a_given_b - np.where(np.isfinite(a_star), a_star, 0.0)
    return np.where(defined, log_normalize(ratio + b_given_star, (-2, -1)), np.nan)


def order_joints(tables: PairTables) -> np.ndarray:
    """The two pseudo-joints, [2, ..., I, J] nats, each a distribution.

    First a then b, p(a | both masked) p(b|a); then b first, p(b | both masked) p(a|b).
    """
    a, b = tables.masked("a joint by order")
    return np.stack(
        [a[..., :, None] + tables.log_b_given_a, b[..., None, :] + tables.log_a_given_b]
    )


def order_mixture(tables: PairTables) -> np.ndarray:
    """Mixture over both orders: q = (p(a) p(b|a) + p(b) p(a|b)) / 2, a distribution by itself."""
    return log_normalize(log_mean_exp(order_joints(tables)), (-2, -1))


def log_mean_exp(log_joints: np.ndarray, axis: int = 0) -> np.ndarray:
    """log of the mean over `axis` of distributions given by their logarithms."""
    top = np.max(log_joints, axis=axis, keepdims=True)
    top = np.where(np.isfinite(top), top, 0.0)
    with np.errstate(divide="ignore"):
        mean = np.log(np.mean(np.exp(log_joints - top), axis=axis, keepdims=True))
    return np.squeeze(mean + top, axis=axis)
