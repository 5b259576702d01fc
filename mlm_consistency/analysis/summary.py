"""analyze: the figures of one task, each with its n and interval.

So that rows compare, every accuracy is over the same examples: those to which every conditional
applies ("common"; "lost" says how many others there were and for want of which conditional). The
accuracy over all examples to which one conditional applies stands beside, under "applicable".
"p_value" is the exact McNemar test against the baseline, "p_value_holm" adjusted over reductions.
The keys are those of summary.json, which analysis/summary_file.py lists.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from mlm_consistency.analysis import statistics
from mlm_consistency.analysis.breakdown import subject_rows
from mlm_consistency.analysis.curve import Curve, ensemble_curve
from mlm_consistency.analysis.disagreement import (
    disagrees,
    mean_js_divergence,
    mean_pairwise_disagreement,
    pairwise_disagreement,
)
from mlm_consistency.analysis.ensembles import DEFAULT_REDUCTIONS, get_reduction
from mlm_consistency.analysis.fitted import FITTERS, get_fitter
from mlm_consistency.analysis.predictions import correct, predict, tied
from mlm_consistency.analysis.scores import TOKEN_REDUCTIONS, Scores
from mlm_consistency.analysis.task_diagnostics import task_diagnostics
from mlm_consistency.errors import AnalysisError, ConfigError
from mlm_consistency.tables import unknown_name


@dataclasses.dataclass(frozen=True)
class AnalysisConfig:
    """How records are analysed.

    Attributes:
      token_reduction: "mean" (the paper) or "sum" over a candidate's tokens.
      ensembles: names of `ensembles.REDUCTIONS`, at least one.
      fitted: names of `fitted.FITTERS`, cross-fitted ensembles among the gains.
      diagnostics: whether to add gains, confidence, bias, clusters and break-downs.
      curve_reduction: the one whose curve is drawn.
      conditionals: those to analyse, the baseline first; none: all of the run.
      level: of the intervals.
      resamples: of the bootstrap.
      seed: of the bootstrap and of sampled subsets.
      max_subsets: a size of the curve with more subsets than this is sampled.
    """

    token_reduction: str = "mean"
    ensembles: tuple[str, ...] = DEFAULT_REDUCTIONS
    fitted: tuple[str, ...] = tuple(FITTERS)
    diagnostics: bool = True
    curve_reduction: str = "max"
    conditionals: tuple[str, ...] = ()
    level: float = 0.95
    resamples: int = 2000
    seed: int = 0
    max_subsets: int = 1000

    def __post_init__(self) -> None:
        if self.token_reduction not in TOKEN_REDUCTIONS:
            raise unknown_name("token reduction", self.token_reduction, TOKEN_REDUCTIONS)
        if not self.ensembles:
            raise ConfigError("ensembles is empty: name at least one reduction, like 'max'")
        for name in (*self.ensembles, self.curve_reduction):
            get_reduction(name)
        for name in self.fitted:
            get_fitter(name)
        if not 0 < self.level < 1:
            raise ConfigError(f"level should lie between 0 and 1, like 0.95; came {self.level}")
        for name in ("resamples", "max_subsets"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} should be at least 1; came {getattr(self, name)}")


@dataclasses.dataclass(frozen=True)
class TaskSummary:
    """The figures of one task: `content` is its entry in summary.json."""

    task: str
    content: Mapping[str, Any]

    def __getitem__(self, key: str) -> Any:
        return self.content[key]


def _interval(bounds: np.ndarray) -> list[float]:
    return [float(bounds[0]), float(bounds[1])]


def analyze(scores: Scores, config: AnalysisConfig | None = None) -> TaskSummary:
    """The figures of one task.

    Raises:
      AnalysisError: where right answers are not known, or no example is one to which every
        conditional applies.
    """
    config = config or AnalysisConfig()
    if config.conditionals:
        scores = scores.with_conditionals(config.conditionals)
    if not scores.labelled:
        raise AnalysisError(
            f"task {scores.task!r}: no example of {len(scores)} has a right answer among its "
            "candidates, so there are no accuracies to give"
        )
    common, lost = scores.complete()
    values = common.values(config.token_reduction)
    predictions = predict(values)
    right = correct(predictions, common.labels)
    ensembles = {name: get_reduction(name)(values) for name in config.ensembles}
    ensembles_right = {
        name: correct(predict(score), common.labels) for name, score in ensembles.items()
    }
    curve = ensemble_curve(
        values, common.labels, config.curve_reduction, config.max_subsets, config.seed
    )
    figures: dict[str, np.ndarray] = {
        "disagreement": disagrees(predictions),
        "mean_pairwise_disagreement": mean_pairwise_disagreement(predictions),
        "mean_js_divergence": mean_js_divergence(values),
        "oracle": np.asarray(right.any(1)),
        "conditionals": right,
        "ensembles": np.column_stack(list(ensembles_right.values())),
        "curve": np.column_stack([curve.correct, curve.disagrees]),
    }
    # One bootstrap for all figures: each is a mean over the same examples.
    bounds = statistics.named_intervals(figures, config.level, config.resamples, config.seed)

    def figure(name: str, key: str = "value") -> dict[str, Any]:
        value = float(figures[name].mean())
        return {key: value, "interval": _interval(bounds[name]), "n": len(common)}

    content: dict[str, Any] = {
        "examples": len(scores),
        "dropped": dict(scores.dropped),
        "truncated": scores.truncated,
        "common": len(common),
        "without_right_candidate": int((~common.labels.any(1)).sum()),
        "lost": {
            "examples": lost,
            "by_conditional": {
                name: int(count)
                for name, count in zip(
                    scores.conditionals, (~scores.applicable).sum(0), strict=True
                )
                if count
            },
        },
        "token_reduction": config.token_reduction,
        "level": config.level,
        "resamples": config.resamples,
        "seed": config.seed,
        "chance": float((common.labels.sum(1) / common.candidate_mask.sum(1)).mean()),
        "conditionals": _conditionals(scores, common, config, right, bounds["conditionals"]),
        "disagreement": figure("disagreement"),
        "mean_pairwise_disagreement": figure("mean_pairwise_disagreement"),
        "mean_js_divergence": figure("mean_js_divergence"),
        "pairwise_disagreement": {
            first: dict(zip(scores.conditionals, map(float, row), strict=True))
            for first, row in zip(
                scores.conditionals, pairwise_disagreement(predictions), strict=True
            )
        },
        "oracle": figure("oracle", "accuracy"),
        "ensembles": _ensembles(
            ensembles, ensembles_right, right[:, 0], bounds["ensembles"], len(common)
        ),
        "curve_reduction": config.curve_reduction,
        "curve": _curve(curve, bounds["curve"], len(common)),
        "subjects": subject_rows(common, values, config.level),
    }
    if config.diagnostics:
        content |= task_diagnostics(
            scores,
            config.token_reduction,
            config.ensembles,
            config.fitted,
            level=config.level,
            resamples=config.resamples,
            seed=config.seed,
        )
    return TaskSummary(scores.task, content)


def _conditionals(
    scores: Scores,
    common: Scores,
    config: AnalysisConfig,
    right: np.ndarray,
    bounds: np.ndarray,
) -> dict[str, Any]:
    values = scores.values(config.token_reduction)
    common_ties = tied(common.values(config.token_reduction)).sum(0)
    rows = {}
    for k, name in enumerate(scores.conditionals):
        fits = scores.applicable[:, k]
        alone = correct(predict(values[fits, k]), scores.labels[fits]).astype(np.float64)
        interval = bounds[k]
        # The common examples are among these; as many are the same ones.
        if len(alone) != len(common):
            interval = statistics.bootstrap_intervals(
                alone[:, None], config.level, config.resamples, config.seed
            )[0]
        rows[name] = {
            "n": len(common),
            "accuracy": float(right[:, k].mean()),
            "interval": _interval(bounds[k]),
            "ties": int(common_ties[k]),
            "p_value": statistics.mcnemar(right[:, 0], right[:, k]),
            "applicable": {
                "n": int(fits.sum()),
                "accuracy": float(alone.mean()),
                "interval": _interval(interval),
            },
        }
    return rows


def _ensembles(
    scores: Mapping[str, np.ndarray],
    right: Mapping[str, np.ndarray],
    baseline: np.ndarray,
    bounds: np.ndarray,
    n: int,
) -> dict[str, Any]:
    p_values = [statistics.mcnemar(baseline, column) for column in right.values()]
    adjusted = statistics.holm(np.array(p_values))
    return {
        name: {
            "accuracy": float(right[name].mean()),
            "interval": _interval(bounds[m]),
            "p_value": p_values[m],
            "p_value_holm": float(adjusted[m]),
            "gained": int((right[name] & ~baseline).sum()),
            "forfeited": int((baseline & ~right[name]).sum()),
            "ties": int(tied(scores[name]).sum()),
            "n": n,
        }
        for m, name in enumerate(right)
    }


def _curve(curve: Curve, bounds: np.ndarray, n: int) -> list[dict[str, Any]]:
    size = len(curve.sizes)
    rows = []
    for m in range(size):
        # One conditional cannot disagree with itself: that 0 is no estimate.
        apart = [0.0, 0.0] if m == 0 else _interval(bounds[size + m])
        rows.append(
            {
                "conditionals": int(curve.sizes[m]),
                "accuracy": float(curve.accuracy[m]),
                "disagreement": float(curve.disagreement[m]),
                "accuracy_interval": _interval(bounds[m]),
                "disagreement_interval": apart,
                "subsets": int(curve.subsets[m]),
                "exhaustive": bool(curve.exhaustive[m]),
                "n": n,
            }
        )
    return rows
