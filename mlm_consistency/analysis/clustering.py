"""Which conditionals go together: clustering by agreement, and who stands alone.

The distance of two conditionals is the share of examples on which they disagree; clusters are
joined by average linkage (SciPy). A cluster's support is the share of bootstrap resamples of the
examples in which the same conditionals form a cluster again.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
from scipy.cluster import hierarchy
from scipy.spatial.distance import squareform

from mlm_consistency.analysis.disagreement import pairwise_disagreement
from mlm_consistency.analysis.predictions import correct, predict
from mlm_consistency.analysis.scores import Scores
from mlm_consistency.analysis.statistics import binomial_interval, resampled_means


def _members(linkage: np.ndarray, count: int) -> list[frozenset[int]]:
    """The conditionals of each cluster that `linkage` makes, in the order of joining."""
    clusters = [frozenset([k]) for k in range(count)]
    for first, second, *_ in linkage:
        clusters.append(clusters[int(first)] | clusters[int(second)])
    return clusters[count:]


def cluster_conditionals(
    scores: Scores,
    token_reduction: str = "mean",
    *,
    resamples: int = 200,
    seed: int = 0,
) -> dict[str, Any]:
    """The tree of the conditionals.

    Returns:
      order: names as the tree's leaves stand; linkage: SciPy's rows (two clusters, distance,
      size); merges: for each row its members, distance and support; n.
    """
    common, _ = scores.complete()
    names, count = common.conditionals, len(common.conditionals)
    if count < 2:
        return {"order": list(names), "linkage": [], "merges": [], "n": len(common)}
    predictions = predict(common.values(token_reduction))
    distances = squareform(pairwise_disagreement(predictions), checks=False)
    linkage = hierarchy.linkage(distances, "average", optimal_ordering=True)
    merges = _members(linkage, count)
    first, second = np.triu_indices(count, 1)
    apart = predictions[:, first] != predictions[:, second]
    again: Counter[frozenset[int]] = Counter()
    for means in resampled_means(apart, resamples, seed):
        again.update(_members(hierarchy.linkage(means, "average"), count))
    return {
        "order": [names[k] for k in hierarchy.leaves_list(linkage)],
        "linkage": linkage.tolist(),
        "merges": [
            {
                "members": [names[k] for k in sorted(members)],
                "distance": float(row[2]),
                "support": again[members] / resamples,
            }
            for members, row in zip(merges, linkage, strict=True)
        ],
        "n": len(common),
    }


def lone_dissent(
    scores: Scores, token_reduction: str = "mean", level: float = 0.95
) -> dict[str, dict[str, Any]]:
    """How often each conditional alone contradicts all the others, and who is right then.

    Returns:
      conditional -> {n: examples, alone: on how many all others agree and it does not, share,
      interval, right: on how many of these it is right, others_right: the others are}. Exact
      binomial intervals, at a level that they hold together (Bonferroni).
    """
    common, _ = scores.complete()
    predictions = predict(common.values(token_reduction))
    count = len(common.conditionals)
    each = 1 - (1 - level) / count
    rows = {}
    for k, name in enumerate(common.conditionals):
        others = np.delete(predictions, k, axis=1)
        alone = np.zeros(len(common), bool)
        # Of two conditionals that differ neither stands alone.
        if count > 2:
            alone = (others == others[:, :1]).all(1) & (predictions[:, k] != others[:, 0])
        right = correct(predictions[alone, k], common.labels[alone])
        others_right = correct(others[alone, :1], common.labels[alone])
        rows[name] = {
            "n": len(common),
            "alone": int(alone.sum()),
            "share": float(alone.mean()),
            "interval": list(binomial_interval(int(alone.sum()), len(common), each)),
            "right": int(right.sum()),
            "others_right": int(others_right.sum()),
        }
    return rows
