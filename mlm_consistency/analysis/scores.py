"""Scores: what every analysis reads, from a run's records or from arrays.

    scores = Scores.from_run(open_run("RUN"), "stories_choice")
    scores.values("mean")                        # [N, K, C], nats a token
    scores.table(), scores.disagreement, scores.ensemble("max")

Shapes: N examples, K conditionals (the baseline first), C candidates, as many as the example with
the most has.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np

from mlm_consistency.analysis import show
from mlm_consistency.analysis.disagreement import disagrees
from mlm_consistency.analysis.ensembles import get_reduction
from mlm_consistency.analysis.predictions import correct, predict
from mlm_consistency.errors import AnalysisError
from mlm_consistency.records.reader import Run
from mlm_consistency.tables import unknown_name

TOKEN_REDUCTIONS = ("mean", "sum")


@dataclasses.dataclass(frozen=True, eq=False)
class Scores:
    """The scores of one task's examples under every conditional.

    Attributes:
      task: its name.
      example_ids: [N] text.
      subjects: [N] text.
      conditionals: K names, the baseline first.
      sums: float64 [N, K, C], sum over a candidate's tokens of log p, nats; -inf where an
        example has fewer candidates, NaN where the conditional does not apply.
      lengths: int [N, C], tokens of each candidate, 0 where there is none.
      labels: bool [N, C], right answers; all false where they are not known.
      candidate_mask: bool [N, C], whether there is such a candidate.
      applicable: bool [N, K], whether the conditional fits the example's prompt.
      candidate_texts: N tuples of text.
      prompt_lengths: int [N], tokens of the prompt.
      dropped: reason -> examples that the task's filters left out before scoring.
      answers_known: right answers are known although no candidate need be one (beam search).
      truncated: examples whose prompt was cut at the left before scoring, as asked.
    """

    task: str
    example_ids: np.ndarray
    subjects: np.ndarray
    conditionals: tuple[str, ...]
    sums: np.ndarray
    lengths: np.ndarray
    labels: np.ndarray
    candidate_mask: np.ndarray
    applicable: np.ndarray
    candidate_texts: tuple[tuple[str, ...], ...]
    prompt_lengths: np.ndarray
    dropped: Mapping[str, int] = dataclasses.field(default_factory=dict)
    answers_known: bool = False
    truncated: int = 0

    def __len__(self) -> int:
        return len(self.example_ids)

    def values(self, token_reduction: str = "mean") -> np.ndarray:
        """Log-probability of each candidate, nats -> float64 [N, K, C].

        "mean" divides the sum over tokens by their number (the paper), "sum" does not. -inf
        where there is no such candidate, NaN where the conditional does not apply.
        """
        if token_reduction == "sum":
            return self.sums
        if token_reduction == "mean":
            return self.sums / np.maximum(self.lengths, 1)[:, None, :]
        raise unknown_name("token reduction", token_reduction, TOKEN_REDUCTIONS)

    def select(self, rows: np.ndarray) -> Scores:
        """The scores of some examples: a boolean mask [N] or indices."""
        rows = np.asarray(rows)
        rows = np.flatnonzero(rows) if rows.dtype == bool else rows
        names = "example_ids subjects sums lengths labels candidate_mask applicable prompt_lengths"
        return dataclasses.replace(
            self,
            **{name: getattr(self, name)[rows] for name in names.split()},
            candidate_texts=tuple(self.candidate_texts[row] for row in rows),
        )

    def with_conditionals(self, names: Sequence[str]) -> Scores:
        """The scores under some conditionals, in the order of `names`."""
        for name in names:
            if name not in self.conditionals:
                raise unknown_name("conditional of the run", name, self.conditionals)
        columns = [self.conditionals.index(name) for name in names]
        return dataclasses.replace(
            self,
            conditionals=tuple(names),
            sums=self.sums[:, columns],
            applicable=self.applicable[:, columns],
        )

    def complete(self) -> tuple[Scores, int]:
        """(the examples to which every conditional applies, how many others there were).

        Raises:
          AnalysisError: where there is none; names the conditionals that apply least.
        """
        whole = np.asarray(self.applicable.all(1))
        if not whole.any():
            shares = self.applicable.sum(0)
            least = sorted(zip(shares, self.conditionals, strict=True))[:3]
            raise AnalysisError(
                f"task {self.task!r}: no example of {len(self)} is one to which all "
                f"{len(self.conditionals)} conditionals apply; the fewest: "
                + ", ".join(f"{name} to {count}" for count, name in least)
                + ". Leave such conditionals out of the analysis."
            )
        return (self if whole.all() else self.select(whole)), int((~whole).sum())

    @property
    def labelled(self) -> bool:
        """Whether right answers are known: some example has one among its candidates.

        An example without one (the model proposed none that is right) counts as wrong.
        """
        return self.answers_known or bool(self.labels.any())

    @classmethod
    def from_arrays(
        cls,
        sums: Sequence | np.ndarray,
        conditionals: Sequence[str],
        *,
        lengths: np.ndarray | None = None,
        labels: np.ndarray | None = None,
        candidate_mask: np.ndarray | None = None,
        applicable: np.ndarray | None = None,
        candidate_texts: Sequence[Sequence[str]] | None = None,
        example_ids: Sequence[str] | None = None,
        subjects: Sequence[str] | None = None,
        prompt_lengths: Sequence[int] | None = None,
        task: str = "",
        dropped: Mapping[str, int] | None = None,
        truncated: int = 0,
    ) -> Scores:
        """Scores from arrays; `sums` is [N, K, C], or [K, C] for a single example.

        Args:
          lengths: tokens of each candidate [N, C] (or [C]); 1 where it is not given, so that
            "mean" and "sum" are the same.
          labels: bool [N, C], or int [N], the right candidate of each example.
        Raises:
          AnalysisError: where shapes do not match or a score is not a number.
        """
        sums = np.array(sums, np.float64)
        sums = sums[None] if sums.ndim == 2 else sums
        if sums.ndim != 3 or sums.shape[1] != len(conditionals) or not sums.shape[2]:
            raise AnalysisError(
                f"sums should be [examples, {len(conditionals)} conditionals, candidates] or "
                f"[{len(conditionals)}, candidates]; came shape {sums.shape}"
            )
        n, k, c = sums.shape

        def array(name, value, shape, default, dtype):
            value = np.asarray(default if value is None else value, dtype)
            value = value[None] if value.ndim == len(shape) - 1 and n == 1 else value
            if value.shape != shape and value.shape != ():
                raise AnalysisError(f"{name} should have shape {shape}; came {value.shape}")
            return np.broadcast_to(value, shape).copy()

        mask = array("candidate_mask", candidate_mask, (n, c), True, bool)
        fits = array("applicable", applicable, (n, k), True, bool)
        if labels is not None and np.asarray(labels).dtype != bool:
            index = np.asarray(labels).reshape(n, 1)
            inside = np.take_along_axis(mask, index.clip(0, c - 1), 1)
            if not inside.all() or (index < 0).any() or (index >= c).any():
                raise AnalysisError(f"labels should be candidates 0..{c - 1}; came {index.ravel()}")
            labels = np.arange(c) == index
        sums[~np.broadcast_to(mask[:, None], sums.shape)] = -np.inf
        sums[~fits] = np.nan
        wrong = np.argwhere(np.isnan(sums) & fits[:, :, None])
        if len(wrong):
            i, j, m = wrong[0]
            raise AnalysisError(
                f"example {i}, conditional {conditionals[j]!r}, candidate {m}: the score is NaN"
            )
        if not mask.any(1).all():
            raise AnalysisError(f"example {np.flatnonzero(~mask.any(1))[0]} has no candidate")
        texts = candidate_texts or [[str(m) for m in range(row.sum())] for row in mask]
        return cls(
            task=task,
            example_ids=np.array(example_ids if example_ids is not None else range(n)).astype(str),
            subjects=np.array(subjects if subjects is not None else [""] * n, str),
            conditionals=tuple(conditionals),
            sums=sums,
            lengths=array("lengths", lengths, (n, c), 1, np.int64) * mask,
            labels=array("labels", labels, (n, c), False, bool) & mask,
            candidate_mask=mask,
            applicable=fits,
            candidate_texts=tuple(tuple(row) for row in texts),
            prompt_lengths=array("prompt_lengths", prompt_lengths, (n,), 0, np.int64),
            dropped=dict(dropped or {}),
            truncated=truncated,
        )

    @classmethod
    def from_run(cls, run: Run, task: str) -> Scores:
        """The scores of a task from a run's records."""
        from mlm_consistency.analysis.load import scores_from_run

        return scores_from_run(run, task)

    # What a notebook shows.

    def table(self, example: int = 0, token_reduction: str = "mean") -> show.ScoreTable:
        """The scores of one example: a row a conditional, a column a candidate."""
        count = len(self.candidate_texts[example])
        return show.ScoreTable(
            conditionals=self.conditionals,
            candidates=self.candidate_texts[example],
            values=self.values(token_reduction)[example, :, :count],
            labels=tuple(bool(label) for label in self.labels[example, :count]),
            unit="log p, nats a token" if token_reduction == "mean" else "log p, nats",
        )

    def predictions(self, token_reduction: str = "mean") -> np.ndarray:
        """The candidate that each conditional prefers -> int [N, K]; -1 where it does not apply."""
        values = np.where(self.applicable[:, :, None], self.values(token_reduction), 0.0)
        return np.where(self.applicable, predict(values), -1)

    @property
    def disagreement(self) -> float:
        """Share of the examples to which all conditionals apply whose predictions are not all
        the same; for a single example 1.0 or 0.0."""
        return float(disagrees(self.complete()[0].predictions()).mean())

    def ensemble(self, reduction: str = "max", token_reduction: str = "mean") -> show.EnsembleTable:
        """The conditionals together: a score for each candidate, and the one preferred."""
        whole, lost = self.complete()
        values = get_reduction(reduction)(whole.values(token_reduction))
        predictions = predict(values)
        accuracy = float(correct(predictions, whole.labels).mean()) if whole.labelled else None
        return show.EnsembleTable(
            reduction=reduction,
            values=values,
            predictions=predictions,
            texts=tuple(
                texts[prediction]
                for texts, prediction in zip(whole.candidate_texts, predictions, strict=True)
            ),
            accuracy=accuracy,
            lost=lost,
        )

    def __str__(self) -> str:
        count = len(self.conditionals)
        title = f"{self.task or 'scores'}: {len(self)} examples, {count} conditionals"
        return f"{title}\n{self.table()}" if len(self) else title

    def _repr_html_(self) -> str:
        return self.table()._repr_html_()
