"""What each ensemble gains over the baseline, whether that is real, and what it costs.

Rows: the baseline; every fixed reduction; the fitted ones, cross-fitted; and the oracle bound (some
conditional is right). Each with n and interval, the gain with a paired interval, exact McNemar
against the baseline and against the paper's max, both adjusted by Holm over the rows that are
tested, and the forward passes an example that it takes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from mlm_consistency.analysis import statistics
from mlm_consistency.analysis.ensembles import DEFAULT_REDUCTIONS, get_reduction
from mlm_consistency.analysis.fitted import FITTERS, get_fitter
from mlm_consistency.analysis.folds import cross_fit
from mlm_consistency.analysis.predictions import correct, predict
from mlm_consistency.analysis.scores import Scores

# Below this many examples a fit to four fifths of them says nothing.
MINIMUM_TO_FIT = 25


@dataclasses.dataclass(frozen=True)
class Gain:
    """One ensemble's figures; accuracies are shares, gains are differences of shares.

    Attributes:
      kind: "baseline", "fixed", "fitted" (cross-fitted) or "bound".
      p_baseline, p_max: exact McNemar against the baseline, and against max; None for the row
        itself and for the bound. `.._holm` are adjusted over all rows that have one.
      passes: forward passes an example.
      gain_per_pass: gain over the passes beyond the baseline's one; None where there are none.
      details: what was fitted in each fold.
    """

    name: str
    kind: str
    n: int
    accuracy: float
    interval: tuple[float, float]
    gain: float
    gain_interval: tuple[float, float]
    p_baseline: float | None
    p_baseline_holm: float | None
    p_max: float | None
    p_max_holm: float | None
    passes: float
    gain_per_pass: float | None
    details: Sequence[dict[str, Any]] = ()

    def to_dict(self) -> dict[str, Any]:
        """The row as JSON values."""
        return {
            **dataclasses.asdict(self),
            "interval": list(self.interval),
            "gain_interval": list(self.gain_interval),
            "details": list(self.details),
        }


def _tests(
    right: dict[str, np.ndarray], against: str, skipped: set[str]
) -> tuple[dict[str, float], dict[str, float]]:
    names = [name for name in right if name not in skipped and name != against]
    p_values = [statistics.mcnemar(right[against], right[name]) for name in names]
    adjusted = statistics.holm(np.array(p_values))
    return dict(zip(names, p_values, strict=True)), dict(
        zip(names, map(float, adjusted), strict=True)
    )


def ensemble_gains(
    scores: Scores,
    token_reduction: str = "mean",
    reductions: Sequence[str] = DEFAULT_REDUCTIONS,
    fitters: Sequence[str] = tuple(FITTERS),
    *,
    folds: int = 5,
    level: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
) -> list[Gain]:
    """A row for the baseline, each reduction, each fitted ensemble, and the oracle bound.

    Over the examples to which every conditional applies. Fitted ensembles are left out where
    fewer than MINIMUM_TO_FIT have a right candidate. "max" is always among the rows.
    """
    common, _ = scores.complete()
    values = common.values(token_reduction)
    each_right = correct(predict(values), common.labels)
    count = values.shape[1]
    right = {"baseline": each_right[:, 0]}
    kinds, passes = {"baseline": "baseline"}, {"baseline": 1.0}
    details: dict[str, Sequence[dict[str, Any]]] = {}
    for name in dict.fromkeys(("max", *reductions)):
        right[name] = correct(predict(get_reduction(name)(values)), common.labels)
        kinds[name], passes[name] = "fixed", float(count)
    answerable = int(common.labels.any(1).sum())
    for name in fitters if answerable >= MINIMUM_TO_FIT else ():
        fitted = cross_fit(values, common.labels, get_fitter(name), folds, seed)
        right[name] = correct(fitted.predictions, common.labels)
        kinds[name], passes[name] = "fitted", fitted.passes
        details[name] = fitted.fits
    right["oracle"] = np.asarray(each_right.any(1))
    kinds["oracle"], passes["oracle"] = "bound", float(count)

    baseline = right["baseline"].astype(np.float64)
    columns = np.column_stack(list(right.values())).astype(np.float64)
    settings = (level, resamples, seed)
    accuracy_bounds = statistics.bootstrap_intervals(columns, *settings)
    # The same seed and as many examples: the same resamples.
    gains_bounds = statistics.bootstrap_intervals(columns - baseline[:, None], *settings, reach=1)
    p_baseline, holm_baseline = _tests(right, "baseline", {"oracle"})
    p_max, holm_max = _tests(right, "max", {"oracle", "baseline"})
    rows = []
    for m, name in enumerate(right):
        gain = float((columns[:, m] - baseline).mean())
        more = passes[name] - 1
        gain_bounds = gains_bounds[m] if name != "baseline" else np.zeros(2)
        if name == "oracle":  # which holds the baseline
            gain_bounds = np.maximum(gain_bounds, 0.0)
        rows.append(
            Gain(
                name=name,
                kind=kinds[name],
                n=len(common),
                accuracy=float(columns[:, m].mean()),
                interval=(float(accuracy_bounds[m, 0]), float(accuracy_bounds[m, 1])),
                gain=gain,
                gain_interval=(float(gain_bounds[0]), float(gain_bounds[1])),
                p_baseline=p_baseline.get(name),
                p_baseline_holm=holm_baseline.get(name),
                p_max=p_max.get(name),
                p_max_holm=holm_max.get(name),
                passes=passes[name],
                gain_per_pass=gain / more if more > 0 and kinds[name] != "bound" else None,
                details=details.get(name, ()),
            )
        )
    return rows
