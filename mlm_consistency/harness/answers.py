"""Scores of a context's continuations under K conditionals -> what the harness asks for.

The harness wants two numbers of each request: a log-likelihood, which it compares between choices
or sums up, and whether greedy decoding would give the continuation.

    one conditional      sum over tokens of log p (score="sum"), or their mean (score="mean", the
                         paper's), in nats; greedy: every token is the likeliest
    several, ensemble    the reduction of that name in analysis.ensembles, over the conditionals
                         that apply to the context; greedy: more than half of them decode it

max, mean_log, log_sum_exp and worst_case give each continuation a number of its own (log_sum_exp
less log K: the log of the mean probability). mean_probability, normalized_max, entropy_weighted
and vote weigh the continuations of a context against each other: their numbers are for comparing
choices and no log-likelihoods of a text, and they need two choices at least.
"""

from __future__ import annotations

import numpy as np

from mlm_consistency.analysis.ensembles import get_reduction
from mlm_consistency.errors import ConfigError, DataError

SCORES = ("sum", "mean")
RELATIVE = ("mean_probability", "normalized_max", "entropy_weighted", "vote")


def check_choice(ensemble: str, score: str) -> None:
    """Refuses what there is not.

    Raises:
      UnknownNameError: if there is no such ensemble.
      ConfigError: if `score` is neither sum nor mean.
    """
    get_reduction(ensemble)
    if score not in SCORES:
        raise ConfigError(f"score must be sum or mean. Got {score!r}.")


def answers(
    sums: np.ndarray,
    greedy: np.ndarray,
    lengths: np.ndarray,
    ensemble: str = "max",
    score: str = "sum",
    name: str = "",
) -> list[tuple[float, bool]]:
    """(log-likelihood, greedy) of each continuation of one context.

    Args:
      sums: [K, C], sum of log p under each conditional that applies; K >= 1.
      greedy: bool [K, C].
      lengths: [C], tokens of each continuation.
      ensemble: reduction over the conditionals; of no effect where K is 1.
      score: "sum" or "mean".
      name: of the question, for messages.

    Raises:
      DataError: if the ensemble weighs choices and there is one only.
    """
    values = sums / lengths if score == "mean" else sums
    if ensemble in RELATIVE and values.shape[1] < 2:
        raise DataError(
            f"{name}: ensemble={ensemble} weighs the choices of one context against each other, "
            "but this context has one. Take max, mean_log, log_sum_exp or worst_case."
        )
    # Relative ensembles stay what they are where few conditionals apply.
    if len(values) == 1 and ensemble not in RELATIVE:
        total = values[0]
    else:
        total = get_reduction(ensemble)(values)
        if ensemble == "log_sum_exp":
            total = total - np.log(len(values))
    most = greedy.mean(axis=0) > 0.5
    return [(float(x), bool(g)) for x, g in zip(total, most, strict=True)]
