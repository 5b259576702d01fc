"""Where it happens: accuracy and disagreement by subject, prompt length and candidate length.

Rows of one break-down are disjoint sets of examples, so their intervals are independent: each is
the exact binomial interval at level^(1/rows) (Sidak), and all of them hold together at `level`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mlm_consistency.analysis.disagreement import disagrees
from mlm_consistency.analysis.ensembles import reduce_max
from mlm_consistency.analysis.predictions import correct, predict
from mlm_consistency.analysis.scores import Scores
from mlm_consistency.analysis.statistics import binomial_interval, simultaneous_level


def _share(hits: np.ndarray, level: float) -> dict[str, Any]:
    return {
        "value": float(hits.mean()),
        "interval": list(binomial_interval(int(hits.sum()), len(hits), level)),
    }


def group_rows(
    groups: np.ndarray, scores: Scores, values: np.ndarray, level: float = 0.95
) -> dict[str, dict[str, Any]]:
    """For each group: n, baseline and ensemble (max) accuracy, disagreement, with intervals.

    Args:
      groups: [N], the group of each example, in sorting order.
      scores: examples to which every conditional applies.
      values: float64 [N, K, C], nats.
      level: at which all intervals of one column hold together.
    """
    predictions = predict(values)
    baseline = correct(predictions[:, 0], scores.labels)
    ensemble = correct(predict(reduce_max(values)), scores.labels)
    apart = disagrees(predictions)
    names = np.unique(groups)
    each = simultaneous_level(level, len(names))
    rows = {}
    for name in names:
        inside = groups == name
        rows[str(name)] = {
            "n": int(inside.sum()),
            "accuracy": _share(baseline[inside], each),
            "ensemble_max": _share(ensemble[inside], each),
            "disagreement": _share(apart[inside], each),
        }
    return rows


def subject_rows(
    scores: Scores, values: np.ndarray, level: float = 0.95
) -> dict[str, dict[str, Any]]:
    """`group_rows` by subject."""
    return group_rows(scores.subjects, scores, values, level)


def length_bins(lengths: np.ndarray, bins: int = 4) -> np.ndarray:
    """Names like "012-018" of about equally filled ranges of `lengths` [N] -> text [N].

    Ranges hold whole numbers and never overlap; where many lengths are equal there are fewer.
    """
    lengths = np.asarray(lengths)
    edges = np.unique(
        np.quantile(lengths, np.linspace(0, 1, bins + 1)[1:-1], method="inverted_cdf")
    )
    place = np.searchsorted(edges, lengths, side="left")
    width = len(str(lengths.max()))
    names = np.empty(len(lengths), dtype=object)
    for group in np.unique(place):
        inside = lengths[place == group]
        names[place == group] = f"{inside.min():0{width}d}-{inside.max():0{width}d}"
    return names.astype(str)


def breakdown(
    scores: Scores, token_reduction: str = "mean", level: float = 0.95, bins: int = 4
) -> dict[str, dict[str, dict[str, Any]]]:
    """The rows by subject, by tokens of the prompt, and by tokens of the longest candidate."""
    common, _ = scores.complete()
    values = common.values(token_reduction)
    groups = {
        "subject": common.subjects,
        "prompt_length": length_bins(common.prompt_lengths, bins),
        "candidate_length": length_bins(common.lengths.max(1), bins),
    }
    return {name: group_rows(group, common, values, level) for name, group in groups.items()}
