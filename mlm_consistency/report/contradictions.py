"""Which examples the conditionals contradict each other on most.

Disagreement only says whether the argmaxes differ. To rank examples the report uses the mean
Jensen-Shannon divergence over pairs of conditionals, so that two confident, opposite answers come
before two hesitant ones. It is the summary's figure, here for each example.
"""

from __future__ import annotations

import numpy as np

from mlm_consistency.analysis.disagreement import mean_js_divergence


def divergences(values: np.ndarray, applicable: np.ndarray) -> np.ndarray:
    """Mean Jensen-Shannon divergence over the pairs of conditionals that apply, nats -> [N].

    Args:
      values: float64 [N, K, C] in nats; -inf at candidates an example does not have.
      applicable: bool [N, K]; the others' values are not read.

    Returns:
      [N], 0 where fewer than two conditionals apply.
    """
    found = np.zeros(len(values))
    # Few patterns of applicability come up: short prompts lack the same spans.
    for pattern in np.unique(applicable, axis=0):
        inside = (applicable == pattern).all(1)
        found[inside] = mean_js_divergence(values[inside][:, pattern])
    return found


def most_contradictory(divergence: np.ndarray, answers: np.ndarray, limit: int = 20) -> list[int]:
    """Indices of the examples whose conditionals give different answers, most divergent first.

    Args:
      divergence: [N] nats.
      answers: int [N, K] predicted candidate, -1 where a conditional does not apply.
      limit: the most examples to name.

    Returns:
      At most `limit` indices; ties keep the task's order. Examples on which all agree are left out.
    """
    lowest = np.where(answers < 0, np.iinfo(answers.dtype).max, answers).min(axis=1)
    differ = answers.max(axis=1) > lowest
    order = np.argsort(-divergence, kind="stable")
    return [int(index) for index in order if differ[index]][:limit]
