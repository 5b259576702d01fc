"""The curve: accuracy and disagreement against the number of conditionals in the ensemble.

The baseline is always in; for each number of others, the figures are averaged over all subsets of
that size. For ten conditionals these are 512 subsets, so all are taken; where a size has more
than a limit, that many distinct ones are drawn with a seed, and the curve says so.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterator

import numpy as np

from mlm_consistency.analysis.ensembles import get_reduction
from mlm_consistency.analysis.predictions import correct, predict


@dataclasses.dataclass(frozen=True, eq=False)
class Curve:
    """Figures for ensembles of 1..K conditionals.

    Attributes:
      sizes: int [K], conditionals in the ensemble, the baseline among them.
      subsets: int [K], how many subsets of that size were averaged over.
      exhaustive: bool [K], whether these were all there are.
      correct: float64 [N, K], share of the subsets whose ensemble is right on each example.
      disagrees: float64 [N, K], share of the subsets whose predictions are not all the same.
    """

    sizes: np.ndarray
    subsets: np.ndarray
    exhaustive: np.ndarray
    correct: np.ndarray
    disagrees: np.ndarray

    @property
    def accuracy(self) -> np.ndarray:
        """float64 [K]: mean over subsets and examples."""
        return self.correct.mean(0)

    @property
    def disagreement(self) -> np.ndarray:
        """float64 [K]: mean over subsets and examples."""
        return self.disagrees.mean(0)


def subsets_of_size(
    others: int, size: int, limit: int, rng: np.random.Generator
) -> tuple[list[tuple[int, ...]], bool]:
    """(subsets of 1..others with `size` members, whether these are all of them).

    All where there are at most `limit`; else `limit` distinct ones drawn uniformly.
    """
    if math.comb(others, size) <= limit:
        return list(itertools.combinations(range(1, others + 1), size)), True
    drawn: dict[tuple[int, ...], None] = {}
    while len(drawn) < limit:
        drawn[tuple(sorted(int(i) + 1 for i in rng.permutation(others)[:size]))] = None
    return list(drawn), False


def _by_size(others: int, limit: int, seed: int) -> Iterator[tuple[int, list, bool]]:
    rng = np.random.default_rng(seed)
    for size in range(others + 1):
        yield size, *subsets_of_size(others, size, limit, rng)


def ensemble_curve(
    values: np.ndarray,
    labels: np.ndarray,
    reduction: str = "max",
    max_subsets: int = 1000,
    seed: int = 0,
) -> Curve:
    """The curve of one reduction.

    Args:
      values: float64 [N, K, C] in nats, the baseline at k = 0, every conditional applicable.
      labels: bool [N, C].
      reduction: a name of `ensembles.REDUCTIONS`.
      max_subsets: a size with more subsets than this is sampled.
      seed: of that sample.
    """
    reduce = get_reduction(reduction)
    examples, conditionals, _ = values.shape
    # Conditionals outermost: the subset's rows are then copied in whole blocks.
    by_conditional = np.ascontiguousarray(np.moveaxis(values, 1, 0))
    predictions = predict(by_conditional)
    differs = predictions != predictions[0]
    right = np.zeros((examples, conditionals))
    apart = np.zeros((examples, conditionals))
    counts = np.zeros(conditionals, np.int64)
    exhaustive = np.zeros(conditionals, bool)
    for size, subsets, all_of_them in _by_size(conditionals - 1, max_subsets, seed):
        for subset in subsets:
            members = [0, *subset]
            chosen = np.moveaxis(by_conditional[members], 0, 1)
            right[:, size] += correct(predict(reduce(chosen)), labels)
            apart[:, size] += differs[members].any(0)
        counts[size], exhaustive[size] = len(subsets), all_of_them
    return Curve(
        sizes=np.arange(1, conditionals + 1),
        subsets=counts,
        exhaustive=exhaustive,
        correct=right / counts,
        disagrees=apart / counts,
    )
