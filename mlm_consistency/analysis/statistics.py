"""Intervals and tests: bootstrap over examples, exact McNemar, exact binomial, Holm."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from scipy import stats

from mlm_consistency.errors import AnalysisError

# Resamples are drawn in blocks of about this many numbers, so that memory stays small.
_BLOCK = 4_000_000


def resample_weights(examples: int, resamples: int = 2000, seed: int = 0) -> Iterator[np.ndarray]:
    """How often each example is in each resample -> blocks [b, N] of counts that sum to N a row.

    Drawn with replacement from numpy's PCG64 with `seed`; together the blocks have `resamples`
    rows, and the draws do not depend on how they are cut.
    """
    if not examples:
        raise AnalysisError("a bootstrap needs at least one example")
    rng = np.random.default_rng(seed)
    rows = max(1, _BLOCK // examples)
    for start in range(0, resamples, rows):
        count = min(rows, resamples - start)
        drawn = rng.integers(examples, size=(count, examples))
        # Counting each row's draws at once: row r's draws are shifted by r * N.
        drawn += np.arange(count)[:, None] * examples
        weights = np.bincount(drawn.ravel(), minlength=count * examples)
        yield weights.reshape(count, examples)


def resampled_means(columns: np.ndarray, resamples: int = 2000, seed: int = 0) -> np.ndarray:
    """Means of `columns` [N, M] over resamples of the N examples -> [resamples, M].

    All columns see the same resamples, so differences of columns are paired.
    """
    columns = np.asarray(columns, np.float64)
    blocks = [w @ columns for w in resample_weights(len(columns), resamples, seed)]
    return np.concatenate(blocks) / len(columns)


def percentile_intervals(resampled: np.ndarray, level: float = 0.95) -> np.ndarray:
    """Percentile intervals of any statistics from their resamples [resamples, M] -> [M, 2]."""
    return np.quantile(resampled, [(1 - level) / 2, (1 + level) / 2], axis=0).T


def bootstrap_intervals(
    columns: np.ndarray,
    level: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
    reach: float | Sequence[float] | None = None,
) -> np.ndarray:
    """Confidence intervals of the means of `columns` [N, M] -> [M, 2].

    Bias-corrected and accelerated bootstrap (BCa; Efron 1987) over examples, the acceleration
    from the jackknife, which for a mean is sum d^3 / (6 (sum d^2)^1.5), d = x - mean. Where all
    values are 0, or all 1, no resample differs; the interval is then the exact binomial one
    (Clopper-Pearson). A constant column of other values gets an interval of width 0.

    Paired differences, which may be negative, say how far one can reach from 0 (1 for differences
    of shares; one value, or one a column). Where all are equal to v, at most a share u of examples
    is otherwise, u the exact bound for 0 of N, and the interval is (1 - u) v -+ u reach.
    """
    columns = np.asarray(columns, np.float64)
    means = resampled_means(columns, resamples, seed)
    estimate = columns.mean(0)
    # Discrete means tie with the estimate often: half of the ties count as below.
    below = ((means < estimate).sum(0) + 0.5 * (means == estimate).sum(0)) / resamples
    bias = stats.norm.ppf(np.clip(below, 0.5 / resamples, 1 - 0.5 / resamples))
    deviation = columns - estimate
    spread = (deviation**2).sum(0)
    with np.errstate(invalid="ignore", divide="ignore"):
        acceleration = np.where(spread > 0, (deviation**3).sum(0) / (6 * spread**1.5), 0.0)
    intervals = np.empty((columns.shape[1], 2))
    for side, quantile in enumerate(((1 - level) / 2, (1 + level) / 2)):
        shifted = bias + stats.norm.ppf(quantile)
        place = stats.norm.cdf(bias + shifted / (1 - acceleration * shifted))
        for m in range(columns.shape[1]):
            intervals[m, side] = np.quantile(means[:, m], place[m])
    for m in np.flatnonzero((columns == columns[:1]).all(0)).tolist():
        value = columns[0, m]
        if reach is not None:
            other = binomial_interval(0, len(columns), level)[1]
            far = other * float(np.broadcast_to(reach, columns.shape[1])[m])
            intervals[m] = (1 - other) * value - far, (1 - other) * value + far
        elif value in (0.0, 1.0):
            intervals[m] = binomial_interval(int(value * len(columns)), len(columns), level)
        else:
            intervals[m] = value
    return intervals


def named_intervals(
    figures: Mapping[str, np.ndarray], level: float = 0.95, resamples: int = 2000, seed: int = 0
) -> dict[str, np.ndarray]:
    """`bootstrap_intervals` of named per-example figures, all from the same resamples.

    Args:
      figures: name -> [N] or [N, M], one value an example.
    Returns:
      name -> [2] or [M, 2].
    """
    columns = np.column_stack(list(figures.values())).astype(np.float64)
    bounds = bootstrap_intervals(columns, level, resamples, seed)
    intervals, start = {}, 0
    for name, figure in figures.items():
        width = figure.shape[1] if figure.ndim == 2 else 1
        block = bounds[start : start + width]
        intervals[name] = block if figure.ndim == 2 else block[0]
        start += width
    return intervals


def binomial_interval(successes: int, trials: int, level: float = 0.95) -> tuple[float, float]:
    """Exact (Clopper-Pearson) interval of a share; [0, 1] where nothing was tried."""
    if trials == 0:
        return 0.0, 1.0
    tail = (1 - level) / 2
    low = stats.beta.ppf(tail, successes, trials - successes + 1) if successes else 0.0
    high = (
        stats.beta.ppf(1 - tail, successes + 1, trials - successes) if successes < trials else 1.0
    )
    return float(low), float(high)


def simultaneous_level(level: float, count: int) -> float:
    """The level of each of `count` independent intervals that all hold together at `level`.

    Sidak: level^(1/count). For rows of disjoint examples, which are independent, it is exact.
    """
    return level ** (1 / max(count, 1))


def mcnemar(first: np.ndarray, second: np.ndarray) -> float:
    """Two-sided exact McNemar test that two paired classifiers are right equally often.

    Args:
      first, second: bool [N], whether each was right.
    Returns:
      p = P(as unequal a split of the b + c examples on which one alone is right), under
      Binomial(b + c, 1/2); 1 where they never differ.
    """
    first, second = np.asarray(first, bool), np.asarray(second, bool)
    only_first = int((first & ~second).sum())
    only_second = int((~first & second).sum())
    total = only_first + only_second
    if total == 0:
        return 1.0
    return float(min(1.0, 2 * stats.binom.cdf(min(only_first, only_second), total, 0.5)))


def holm(p_values: np.ndarray) -> np.ndarray:
    """Holm's step-down adjustment of p-values [M] -> [M], for the family-wise error rate.

    Of the sorted p_(1) <= .. <= p_(M): adjusted p_(i) = max_{j <= i} min(1, (M - j + 1) p_(j)).
    """
    p_values = np.asarray(p_values, np.float64)
    order = np.argsort(p_values, kind="stable")
    steps = np.minimum(1.0, p_values[order] * np.arange(len(p_values), 0, -1))
    adjusted = np.empty_like(p_values)
    adjusted[order] = np.maximum.accumulate(steps) if len(steps) else steps
    return adjusted
