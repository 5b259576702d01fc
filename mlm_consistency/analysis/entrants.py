"""What can be compared: one task of one run ("RUN" or "RUN:TASK"), or "paper:UL2 MMLU"."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from mlm_consistency.analysis.curve import ensemble_curve
from mlm_consistency.analysis.disagreement import disagrees
from mlm_consistency.analysis.paper import paper_curve
from mlm_consistency.analysis.predictions import predict
from mlm_consistency.analysis.scores import Scores
from mlm_consistency.errors import AnalysisError, RecordsError
from mlm_consistency.records.reader import open_run


@dataclasses.dataclass(frozen=True, eq=False)
class Entrant:
    """One of the things compared.

    Attributes:
      name: as it is shown.
      examples: n.
      keys: [n] what an example is known by, to pair it; none for the paper's figures.
      figures: float64 [n, 3], per example: baseline right, ensemble right, conditionals disagree.
      curve: accuracy and disagreement for 1..K conditionals.
      lost: examples left out since some conditional does not apply.
      conditionals: how many are in the ensemble.
    """

    name: str
    examples: int
    keys: tuple[Any, ...]
    figures: np.ndarray
    accuracy: tuple[float, ...]
    disagreement: tuple[float, ...]
    lost: int
    conditionals: int


def entrant_of_scores(
    scores: Scores, name: str, token_reduction: str = "mean", reduction: str = "max"
) -> Entrant:
    """The entrant of a task's scores, over the examples to which every conditional applies."""
    common, lost = scores.complete()
    if not common.labelled:
        raise AnalysisError(f"{name}: no right answers are known, so there is nothing to compare")
    values = common.values(token_reduction)
    curve = ensemble_curve(values, common.labels, reduction)
    figures = np.column_stack([curve.correct[:, [0, -1]], disagrees(predict(values))])
    keys = zip(
        common.example_ids.tolist(),
        common.candidate_texts,
        (tuple(np.flatnonzero(row).tolist()) for row in common.labels),
        strict=True,
    )
    return Entrant(
        name=name,
        examples=len(common),
        keys=tuple(keys),
        figures=figures.astype(np.float64),
        accuracy=tuple(curve.accuracy.tolist()),
        disagreement=tuple(curve.disagreement.tolist()),
        lost=lost,
        conditionals=len(common.conditionals),
    )


def entrant_of_paper(name: str) -> Entrant:
    """The entrant of one of the paper's recorded curves."""
    curve = paper_curve(name)
    n = curve.examples
    counts = [round(x * n) for x in (curve.accuracy[0], curve.accuracy[-1], curve.disagreement[-1])]
    # Only counts were recorded: which examples they are is not known, so columns are not paired.
    figures = np.column_stack([np.arange(n) < count for count in counts]).astype(np.float64)
    return Entrant(
        name=f"paper {name}",
        examples=n,
        keys=(),
        figures=figures,
        accuracy=curve.accuracy,
        disagreement=curve.disagreement,
        lost=0,
        conditionals=len(curve.accuracy),
    )


def read_entrants(
    source: str, token_reduction: str = "mean", reduction: str = "max"
) -> list[Entrant]:
    """The entrants that "RUN", "RUN:TASK" or "paper:NAME" stands for.

    A folder's first colon begins the task's name, which may hold further ones.
    """
    if source.startswith("paper:"):
        return [entrant_of_paper(source.removeprefix("paper:"))]
    folder, task = source, ""
    try:
        run = open_run(folder)
    except RecordsError:
        folder, separator, task = source.partition(":")
        if folder in ("gs", "s3"):
            folder, separator, task = task.partition(":")
            folder = f"{source[:2]}:{folder}"
        if not separator:
            raise
        run = open_run(folder)
    tasks = [task] if task else list(run.tasks)
    label = folder.rstrip("/").rsplit("/", 1)[-1]
    return [
        entrant_of_scores(Scores.from_run(run, name), f"{label} {name}", token_reduction, reduction)
        for name in tasks
    ]
