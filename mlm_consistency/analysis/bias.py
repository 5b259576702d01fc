"""Which conditional prefers what: first, last, short or frequent candidates, beyond what is right.

For each conditional and each trait: the share of its predictions that have the trait, minus the
share of right answers that have it (several right answers count in equal parts). 0 is unbiased.
Intervals hold together over the conditionals (Bonferroni: level 1 - (1 - level) / K), since the
same examples are under all.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from mlm_consistency.analysis.predictions import predict
from mlm_consistency.analysis.scores import Scores
from mlm_consistency.analysis.statistics import bootstrap_intervals


def traits(scores: Scores) -> dict[str, np.ndarray]:
    """Trait -> [N, C], whether (or how much) each candidate has it.

    first, last: its place. shortest, longest: fewest or most tokens among the example's, all of
    equal ones. frequent: its text is the one of the example's that the task offers most often.
    tokens: its number of tokens.
    """
    mask = scores.candidate_mask
    lengths = scores.lengths
    place = np.arange(mask.shape[1])
    offered = Counter(text for texts in scores.candidate_texts for text in texts)
    counts = np.zeros(mask.shape, np.int64)
    for row, texts in enumerate(scores.candidate_texts):
        counts[row, : len(texts)] = [offered[text] for text in texts]
    shortest = np.where(mask, lengths, lengths.max() + 1).min(1, keepdims=True)
    return {
        "first": np.broadcast_to(place == 0, mask.shape).astype(np.float64),
        "last": (place == mask.sum(1, keepdims=True) - 1).astype(np.float64),
        "shortest": (mask & (lengths == shortest)).astype(np.float64),
        "longest": (mask & (lengths == lengths.max(1, keepdims=True))).astype(np.float64),
        "frequent": (mask & (counts == counts.max(1, keepdims=True))).astype(np.float64),
        "tokens": lengths.astype(np.float64),
    }


def bias_report(
    scores: Scores,
    token_reduction: str = "mean",
    *,
    level: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
) -> dict[str, Any]:
    """trait -> {"right": share among right answers, conditional -> {predicted, bias, interval, n}}.

    Over the examples to which every conditional applies and that have a right candidate. A trait
    that every candidate of every example shares (all have one token, say) is left out; where no
    example has a right candidate, all are.
    """
    common, _ = scores.complete()
    common = common.select(np.flatnonzero(common.labels.any(1)))
    if not len(common):
        return {}
    predictions = predict(common.values(token_reduction))
    share = common.labels / common.labels.sum(1, keepdims=True)
    each = 1 - (1 - level) / len(common.conditionals)
    report: dict[str, Any] = {}
    for trait, has in traits(common).items():
        lowest = np.where(common.candidate_mask, has, np.inf).min(1)
        highest = np.where(common.candidate_mask, has, -np.inf).max(1)
        if (lowest == highest).all():
            continue
        right = (share * has).sum(1)
        predicted = np.take_along_axis(has, predictions, 1)
        difference = predicted - right[:, None]
        bounds = bootstrap_intervals(difference, each, resamples, seed, reach=1)
        report[trait] = {
            "right": float(right.mean()),
            "n": len(common),
            "conditionals": {
                name: {
                    "predicted": float(predicted[:, k].mean()),
                    "bias": float(difference[:, k].mean()),
                    "interval": bounds[k].tolist(),
                }
                for k, name in enumerate(common.conditionals)
            },
        }
    return report
