"""Everything that is asked of a task beyond its accuracies: gains, confidence, bias, clusters."""

from __future__ import annotations

from typing import Any

from mlm_consistency.analysis.bias import bias_report
from mlm_consistency.analysis.breakdown import breakdown
from mlm_consistency.analysis.clustering import cluster_conditionals, lone_dissent
from mlm_consistency.analysis.confidence import confidence_report
from mlm_consistency.analysis.ensembles import DEFAULT_REDUCTIONS
from mlm_consistency.analysis.fitted import FITTERS
from mlm_consistency.analysis.gains import ensemble_gains
from mlm_consistency.analysis.scores import Scores


def task_diagnostics(
    scores: Scores,
    token_reduction: str = "mean",
    reductions: tuple[str, ...] = DEFAULT_REDUCTIONS,
    fitters: tuple[str, ...] = tuple(FITTERS),
    *,
    level: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
) -> dict[str, Any]:
    """The added keys of a task's entry in summary.json.

    Returns:
      ensemble_gains (gains.py), confidence (confidence.py), bias (bias.py), clusters and
      lone_dissent (clustering.py), breakdown by subject, prompt and candidate length
      (breakdown.py). All over the examples to which every conditional applies.
    """
    settings: dict[str, Any] = {"level": level, "resamples": resamples, "seed": seed}
    gains = ensemble_gains(scores, token_reduction, reductions, fitters, **settings)
    # Their intervals are quantiles of whole curves' areas: a thousand resamples are enough.
    fewer = {**settings, "resamples": min(resamples, 1000)}
    return {
        "ensemble_gains": [gain.to_dict() for gain in gains],
        "confidence": confidence_report(scores, token_reduction, **fewer),
        "bias": bias_report(scores, token_reduction, **settings),
        "clusters": cluster_conditionals(
            scores, token_reduction, resamples=min(resamples, 200), seed=seed
        ),
        "lone_dissent": lone_dissent(scores, token_reduction, level),
        "breakdown": breakdown(scores, token_reduction, level),
    }
