"""How far apart the conditionals are over the whole vocabulary, at the first token of the answer.

Disagreement over candidates says whether the best candidates differ; here every token counts, also
those that no candidate begins with. Figures of one example, in nats where they have a unit:

    js       mean over pairs of conditionals of the Jensen-Shannon divergence, 0 to log 2
    tv       the same of the total variation, 0 to 1
    top1     share of pairs whose likeliest tokens differ
    entropy  of each conditional's distribution

The scorer computes them (`scoring.divergence`), records hold them (`Run.divergences`).
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pyarrow as pa

from mlm_consistency.analysis import statistics
from mlm_consistency.analysis.disagreement import disagrees
from mlm_consistency.analysis.predictions import predict
from mlm_consistency.analysis.scores import Scores
from mlm_consistency.records.reader import Run
from mlm_consistency.tables import unknown_name

BINS = 20
LOG_2 = float(np.log(2))


@dataclasses.dataclass(frozen=True, eq=False)
class FirstTokens:
    """The divergences of a task's examples.

    Attributes:
      example_ids: [N] text.
      conditionals: K names.
      js, tv: float64 [N, K, K], symmetric, diagonal 0; NaN where one does not apply.
      entropy: float64 [N, K]; NaN where the conditional does not apply.
      top: int64 [N, K], the likeliest token; -1 where the conditional does not apply.
    """

    example_ids: np.ndarray
    conditionals: tuple[str, ...]
    js: np.ndarray
    tv: np.ndarray
    entropy: np.ndarray
    top: np.ndarray

    @classmethod
    def from_run(cls, run: Run, task: str) -> FirstTokens:
        """Those of a task, examples in the task's order.

        Raises:
          RecordsError: where the run has no divergences.
        """
        return first_tokens(run.divergences(task), run.manifest.conditionals)

    def select(self, example_ids: np.ndarray, conditionals: tuple[str, ...]) -> FirstTokens:
        """The named examples (those that are here) under the named conditionals, in that order."""
        for name in conditionals:
            if name not in self.conditionals:
                raise unknown_name("conditional of the run", name, self.conditionals)
        place = {identifier: row for row, identifier in enumerate(self.example_ids.tolist())}
        rows = [place[i] for i in np.asarray(example_ids).tolist() if i in place]
        columns = [self.conditionals.index(name) for name in conditionals]
        both = np.ix_(rows, columns, columns)
        one = np.ix_(rows, columns)
        return FirstTokens(
            self.example_ids[rows], tuple(conditionals), self.js[both], self.tv[both],
            self.entropy[one], self.top[one],
        )  # fmt: skip

    def mean_js(self) -> np.ndarray:
        """Mean Jensen-Shannon divergence over an example's pairs that apply -> [N], nats."""
        first, second = np.triu_indices(len(self.conditionals), 1)
        pairs = self.js[:, first, second]
        count = np.isfinite(pairs).sum(1)
        return np.where(count > 0, np.nansum(pairs, 1) / np.maximum(count, 1), 0.0)


def first_tokens(table: pa.Table, conditionals: tuple[str, ...]) -> FirstTokens:
    """`FirstTokens` of a table of divergences (columns in records/divergences.py)."""
    count = len(conditionals)
    first, second = np.triu_indices(count, 1)
    order = np.argsort(table["example_index"].to_numpy(), kind="stable")
    table = table.take(order)  # within an example the pairs keep their order
    shape = (-1, len(first))

    def numbers(name: str, missing: float) -> np.ndarray:
        return table[name].fill_null(missing).to_numpy().reshape(shape)

    n = table.num_rows // max(len(first), 1)
    js, tv = np.zeros((n, count, count)), np.zeros((n, count, count))
    for square, name in ((js, "js"), (tv, "tv")):
        square[:, first, second] = square[:, second, first] = numbers(name, np.nan)
    entropy, top = np.full((n, count), np.nan), np.full((n, count), -1, np.int64)
    for side, columns in (("first", first), ("second", second)):
        entropy[:, columns] = numbers(f"{side}_entropy", np.nan)
        top[:, columns] = numbers(f"{side}_token", -1)
    ids = np.array(table["example_id"].to_pylist()[:: max(len(first), 1)], str)
    return FirstTokens(ids, tuple(conditionals), js, tv, entropy, top)


def first_token_figures(
    tokens: FirstTokens,
    scores: Scores,
    token_reduction: str = "mean",
    *,
    level: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
) -> dict[str, Any]:
    """The entry "first_tokens" of a task in summary.json.

    Over the examples to which every conditional of `scores` applies, and the conditionals that are
    asked for the answer's first token, which negative offsets show instead. "parts" splits the mean
    divergence by whether the conditionals' best candidates are all the same; the histogram counts
    examples by their mean divergence in the same two parts.

    Returns:
      Nothing where fewer than two conditionals are left; otherwise
      n, js, tv, top1 (mean over pairs) and any_top1 (the likeliest tokens are not all the same),
      each {value, interval}; entropy by conditional; pairs {a: {b: {js, tv, top1}}}; parts;
      histogram {edges, agree, disagree}.
    """
    common, _ = scores.complete()
    here = tokens.select(common.example_ids, common.conditionals)
    common = common.select(np.isin(common.example_ids, here.example_ids))
    asked = np.isfinite(here.entropy).all(0)
    names = tuple(np.array(common.conditionals)[asked].tolist())
    if len(names) < 2:
        return {}
    here, n = here.select(here.example_ids, names), len(common)
    first, second = np.triu_indices(len(names), 1)
    apart = here.top[:, first] != here.top[:, second]
    js = here.mean_js()
    figures = {
        "js": js,
        "tv": here.tv[:, first, second].mean(1),
        "top1": apart.mean(1),
        "any_top1": disagrees(here.top).astype(np.float64),
        "entropy": here.entropy,
    }
    bounds = statistics.named_intervals(figures, level, resamples, seed)
    report: dict[str, Any] = {"n": n}
    for name in ("js", "tv", "top1", "any_top1"):
        report[name] = {"value": float(figures[name].mean()), "interval": bounds[name].tolist()}
    report["entropy"] = {
        name: {
            "value": float(here.entropy[:, k].mean()),
            "interval": bounds["entropy"][k].tolist(),
        }
        for k, name in enumerate(names)
    }
    report["pairs"] = {
        a: {
            b: {
                "js": float(here.js[:, i, j].mean()),
                "tv": float(here.tv[:, i, j].mean()),
                "top1": float((here.top[:, i] != here.top[:, j]).mean()),
            }
            for j, b in enumerate(names)
        }
        for i, a in enumerate(names)
    }
    differ = disagrees(predict(common.values(token_reduction)))
    edges = np.linspace(0.0, js.max() or LOG_2, BINS + 1)
    report["parts"], report["histogram"] = {}, {"edges": edges.tolist()}
    for name, part in (("agree", ~differ), ("disagree", differ)):
        counts, _ = np.histogram(js[part], edges)
        report["histogram"][name] = counts.tolist()
        report["parts"][name] = {"n": int(part.sum()), "js": None}
        if part.any():
            ends = statistics.bootstrap_intervals(js[part, None], level, resamples, seed)[0]
            value = {"value": float(js[part].mean()), "interval": ends.tolist()}
            report["parts"][name]["js"] = value
    return report
