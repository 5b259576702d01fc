"""Every pair diagnostic for anybody's tables of conditional probabilities: data in, JSON data out.

One case is a mapping
  {"a_given_b": [[..]], "b_given_a": [[..]], "a_masked": [..], "b_masked": [..],
   "subset": false, "gold": [i, j], "name": ".."}
with a_given_b[i][j] = p(a_i|b_j) and b_given_a[i][j] = p(b_j|a_i); all but the first two may be
missing. What is undefined is None, and `reasons` says why under the dotted name of the value.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from mlm_consistency.analysis import cross_ratio as cross
from mlm_consistency.analysis.compatibility import (
    TOLERANCE,
    Compatibility,
    compatibility,
    compatibility_score,
)
from mlm_consistency.analysis.diagnose_input import Case, read_cases
from mlm_consistency.analysis.divergences import (
    conditional_divergences,
    pairwise_nll,
    unary_nll,
)
from mlm_consistency.analysis.gibbs import gibbs_stationary
from mlm_consistency.analysis.joints import coherent_joint, hcb, valid_pivots
from mlm_consistency.analysis.order_test import order_log_ratio, split_order, summarize_order
from mlm_consistency.analysis.pair_tables import PairTables
from mlm_consistency.errors import AnalysisError

MOST_MINORS = 100_000
REPORTED_JOINTS = ("naive", "mrf_local", "hcb", "arnold_gokhale", "order_mixture")
_ZEROS = "a probability that it divides by is zero"


class _Report:
    """Collects values and, for those that are undefined, the reason."""

    def __init__(self) -> None:
        self.reasons: dict[str, str] = {}

    def number(self, name: str, value: Any, reason: str = _ZEROS) -> float | None:
        value = float(value)
        if np.isfinite(value):
            return value
        self.reasons[name] = f"infinite: {reason}" if np.isinf(value) else f"undefined: {reason}"
        return None

    def array(self, name: str, values: np.ndarray, reason: str = _ZEROS) -> list[Any]:
        if not np.isfinite(values).all():
            self.reasons[name] = (
                f"{int((~np.isfinite(values)).sum())} of {values.size} entries undefined: {reason}"
            )
        return _finite_or_none(values.tolist())

    def attempt(self, name: str, compute: Callable[[], Any]) -> Any:
        """compute(), or None with the message of the AnalysisError as the reason."""
        try:
            return compute()
        except AnalysisError as error:
            self.reasons[name] = str(error)
            return None


def diagnose(tables: dict[str, Any] | list[Any], tolerance: float = TOLERANCE) -> list[dict]:
    """Diagnoses one case or a list of them; one JSON-ready dict a case, in order. Nats throughout.

    Keys of a result: name, shape [I, J], subset; cross_ratio {max_abs, mean_abs, minors, kind,
    row_pairs, column_pairs, defined, total} (`minors[p][q]` is D for row_pairs[p] and
    column_pairs[q]; "adjacent" minors only when there are more than `MOST_MINORS`); compatibility
    (a `Status`), compatibility_reason, compatibility_detail, compatibility_score;
    order_log_ratio `[I][J]` and order {mean_abs, mean_relative, kl.., jsd, marginal_mean_square,
    interaction_mean_square}; joints {naive, mrf_local, hcb, arnold_gokhale, order_mixture}
    `[I][J]`; hcb_pivot; arnold_gokhale_objective; divergences {joint: {objective, kl_forward_mean,
    kl_reverse_mean, jsd_mean}}; gold {joint: {u_nll, p_nll}} when a gold pair was given;
    gibbs {a, b, scan_max_abs, scan_jsd}; reasons {dotted name: why it is null}.

    Args:
      tolerance: nats by which conditionals may disagree and still count as compatible.

    Raises:
      DataError: for malformed cases: missing or misspelt keys, shapes that disagree, entries that
        are negative or not finite, sums that are not one without `"subset": true`.
    """
    return [_diagnose(case, tolerance) for case in read_cases(tables)]


def _diagnose(case: Case, tolerance: float) -> dict[str, Any]:
    tables, report = case.tables, _Report()
    verdict = compatibility(tables, tolerance)
    out: dict[str, Any] = {
        "name": case.name,
        "shape": list(tables.shape),
        "subset": tables.subset,
        "cross_ratio": _cross_ratio(tables, report),
        "compatibility": str(verdict.status),
        "compatibility_reason": verdict.reason,
        "compatibility_detail": _detail(verdict, report),
        "compatibility_score": _score(tables, report),
        "order_log_ratio": report.attempt(
            "order_log_ratio", lambda: report.array("order_log_ratio", order_log_ratio(tables))
        ),
        "order": report.attempt("order", lambda: _order(tables, report)),
    }
    logs, pivot = _joints(tables, report)
    out["joints"] = {
        name: None if log is None else np.exp(log).tolist() for name, log in logs.items()
    }
    out["hcb_pivot"] = pivot
    out["divergences"] = {
        name: None if log is None else _divergences(name, log, tables, report)
        for name, log in logs.items()
    }
    fitted = out["divergences"]["arnold_gokhale"]
    out["arnold_gokhale_objective"] = fitted and fitted["objective"]
    if fitted is None:
        reason = report.reasons.get("joints.arnold_gokhale", "there is no such joint")
        report.reasons["arnold_gokhale_objective"] = reason
    if case.gold is not None:
        out["gold"] = {
            name: None if log is None else _gold(name, log, case.gold, report)
            for name, log in logs.items()
        }
    out["gibbs"] = report.attempt("gibbs", lambda: _gibbs(tables))
    if case.ignored:
        out["ignored_keys"] = list(case.ignored)
    out["reasons"] = report.reasons
    return out


def _finite_or_none(values: Any) -> Any:
    if isinstance(values, list):
        return [_finite_or_none(value) for value in values]
    return values if np.isfinite(values) else None


def _cross_ratio(tables: PairTables, report: _Report) -> dict[str, Any]:
    if min(tables.shape) < 2:
        reason = f"undefined: a cross-ratio needs two words at each position, not {tables.shape}"
        undefined = ("max_abs", "mean_abs", "minors")
        report.reasons.update({f"cross_ratio.{name}": reason for name in undefined})
        none: dict[str, Any] = dict.fromkeys(undefined)
        return none | {
            "kind": "all", "row_pairs": [], "column_pairs": [], "defined": 0, "total": 0,
        }  # fmt: skip
    summary = cross.summarize_cross_ratio(tables)
    kind = "all" if summary.total <= MOST_MINORS else "adjacent"
    found = cross.minors(tables, kind)
    reason = "cells with probability zero leave no 2x2 minor whose cross-ratio exists"
    return {
        "max_abs": report.number("cross_ratio.max_abs", summary.max_abs, reason),
        "mean_abs": report.number("cross_ratio.mean_abs", summary.mean_abs, reason),
        "minors": report.array(
            "cross_ratio.minors", found.values, "a cell of the minor has probability zero"
        ),
        "kind": kind,
        "row_pairs": found.row_pairs.tolist(),
        "column_pairs": found.column_pairs.tolist(),
        "defined": int(summary.defined),
        "total": summary.total,
    }


def _detail(verdict: Compatibility, report: _Report) -> dict[str, Any]:
    return {
        "joint_exists": verdict.joint_exists,
        "unique": verdict.unique,
        "blocks": verdict.blocks,
        "misfit": report.number(
            "compatibility_detail.misfit", verdict.misfit, "the zero patterns differ"
        ),
    }


def _score(tables: PairTables, report: _Report) -> float | None:
    if tables.subset:
        report.reasons["compatibility_score"] = (
            "undefined: it depends on the normalisers, which a subset of the vocabulary leaves out"
        )
        return None
    return report.number("compatibility_score", compatibility_score(tables))


def _order(tables: PairTables, report: _Report) -> dict[str, Any]:
    summary = summarize_order(tables)
    marginal, interaction = split_order(order_log_ratio(tables)).mean_squares
    whole = "the tables are a subset of the vocabulary" if tables.subset else _ZEROS
    return {
        name: report.number(f"order.{name}", value, whole if name[:2] in ("kl", "js") else _ZEROS)
        for name, value in (
            ("mean_abs", summary.mean_abs),
            ("mean_relative", summary.mean_relative),
            ("kl_first_second", summary.kl_first_second),
            ("kl_second_first", summary.kl_second_first),
            ("jsd", summary.jsd),
            ("marginal_mean_square", marginal),
            ("interaction_mean_square", interaction),
        )
    }


def _joints(
    tables: PairTables, report: _Report
) -> tuple[dict[str, np.ndarray | None], dict[str, Any] | None]:
    logs: dict[str, np.ndarray | None] = {}
    pivot = _pivot(tables)
    for name in REPORTED_JOINTS:
        if name == "hcb":
            log = None if pivot is None else hcb(tables, pivot["index"])
            valid = np.flatnonzero(valid_pivots(tables)).tolist()
            which = "no row" if pivot is None else f"row {pivot['index']} (argmax of a_masked)"
            why = f"undefined: {which} can be the pivot, which must be positive in every column"
            why += f"; valid pivots: {valid}"
        else:
            log = report.attempt(f"joints.{name}", partial(coherent_joint, name, tables))
            why = "undefined: no cell is positive in both conditionals"
        if log is None or np.isnan(log).any():
            report.reasons.setdefault(f"joints.{name}", why)
            report.reasons[f"divergences.{name}"] = report.reasons[f"joints.{name}"]
            log = None
        logs[name] = log
    if logs["hcb"] is None:
        report.reasons["hcb_pivot"] = report.reasons["joints.hcb"]
        pivot = None
    return logs, pivot


def _pivot(tables: PairTables) -> dict[str, Any] | None:
    """argmax with both masked; without that, the valid row with the largest mean p(a|b)."""
    if tables.log_a_masked is not None:
        return {"index": int(tables.log_a_masked.argmax()), "from": "a_masked"}
    valid = valid_pivots(tables)
    if not valid.any():
        return None
    mean = np.where(valid, np.exp(tables.log_a_given_b).mean(axis=-1), -1.0)
    return {"index": int(mean.argmax()), "from": "mean of a_given_b"}


def _divergences(
    name: str, log: np.ndarray, tables: PairTables, report: _Report
) -> dict[str, Any] | None:
    found = report.attempt(f"divergences.{name}", lambda: conditional_divergences(log, tables))
    if found is None:
        return None
    reason = "the joint and the conditionals are not positive in the same cells"
    values = {
        "objective": found.objective,
        "kl_forward_mean": found.mean("forward"),
        "kl_reverse_mean": found.mean("reverse"),
        "jsd_mean": found.mean("jsd"),
    }
    return {
        key: report.number(f"divergences.{name}.{key}", value, reason)
        for key, value in values.items()
    }


def _gold(
    name: str, log: np.ndarray, gold: tuple[int, int], report: _Report
) -> dict[str, float | None]:
    reason = "the joint gives the gold pair no probability"
    return {
        "u_nll": report.number(f"gold.{name}.u_nll", unary_nll(log, *gold), reason),
        "p_nll": report.number(f"gold.{name}.p_nll", pairwise_nll(log, *gold), reason),
    }


def _gibbs(tables: PairTables) -> dict[str, Any]:
    found = gibbs_stationary(tables)
    return {
        "a": found.a.tolist(), "b": found.b.tolist(),
        "scan_max_abs": found.scan_max_abs, "scan_jsd": found.scan_jsd,
    }  # fmt: skip
