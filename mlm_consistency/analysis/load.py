"""Scores of a task from a run's records, without a loop over rows."""

from __future__ import annotations

import dataclasses

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mlm_consistency.analysis.scores import Scores
from mlm_consistency.errors import AnalysisError
from mlm_consistency.records.reader import Run


def scores_from_run(run: Run, task: str) -> Scores:
    """The scores of a task, examples in the task's order; see analysis/last_words.py for LAMBADA.

    Raises:
      AnalysisError: where the run (one that did not end) has no records of the task yet.
      RecordsError: names a file that is damaged or of another run.
    """
    from mlm_consistency.analysis.last_words import by_word, task_setting

    scores, setting = scores_as_asked(run, task), task_setting(run, task)
    if setting:
        scores = dataclasses.replace(scores, answers_known=True)
    return by_word(scores) if setting == "by_word" else scores


def scores_as_asked(run: Run, task: str) -> Scores:
    """The same, each candidate as it was asked."""
    table, examples = run.scores(task), run.examples(task)
    if not examples.num_rows:
        raise AnalysisError(f"{run.folder}: there are no records of task {task!r} yet")
    conditionals = run.manifest.conditionals
    order = np.argsort(examples["example_index"].to_numpy(), kind="stable")
    examples = examples.take(order)
    index = examples["example_index"].to_numpy()
    texts = tuple(tuple(row) for row in examples["candidate_texts"].to_pylist())
    n, k, c = len(index), len(conditionals), max(len(row) for row in texts)

    rows = np.searchsorted(index, table["example_index"].to_numpy())
    named = table["conditional"].combine_chunks()
    place = np.array([conditionals.index(v) for v in named.dictionary.to_pylist()], int)
    columns = place[named.indices.to_numpy()]
    candidates = table["candidate"].to_numpy()
    sums = np.full((n, k, c), -np.inf)
    sums[rows, columns, candidates] = _sums_of_lists(table["token_log_probs"].combine_chunks())
    lengths = np.zeros((n, c), np.int64)
    lengths[rows, candidates] = pc.list_value_length(table["tokens"]).to_numpy()
    labels = np.zeros((n, c), bool)
    labels[rows, candidates] = table["is_label"].to_numpy()
    applicable = np.zeros((n, k), bool)
    applicable[rows, columns] = table["applicable"].to_numpy()
    return Scores.from_arrays(
        sums,
        conditionals,
        lengths=lengths,
        labels=labels,
        candidate_mask=np.arange(c) < np.array([len(row) for row in texts])[:, None],
        applicable=applicable,
        candidate_texts=texts,
        example_ids=examples["example_id"].to_pylist(),
        subjects=examples["subject"].to_pylist(),
        prompt_lengths=[
            len(rows[0]) if rows else 0 for rows in examples["prompt_tokens"].to_pylist()
        ],
        task=task,
        dropped=run.manifest.tasks[task].dropped,
        truncated=run.manifest.tasks[task].truncated,
    )


def _sums_of_lists(column: pa.ListArray) -> np.ndarray:
    """Sum of each list of a column, in float64; NaN for a null."""
    if isinstance(column, pa.ChunkedArray):
        column = pa.concat_arrays(column.chunks)
    missing = column.is_null().to_numpy(zero_copy_only=False)
    lengths = column.value_lengths().fill_null(0).to_numpy()
    # flatten() leaves nulls out, so lists lie one after the other.
    flat = column.flatten().to_numpy().astype(np.float64)
    ends = np.cumsum(lengths)
    starts = ends - lengths
    filled = lengths > 0
    sums = np.zeros(len(column))
    # reduceat adds each list on its own: a running sum would lose digits over a long column.
    sums[filled] = np.add.reduceat(flat, starts[filled]) if filled.any() else 0.0
    sums[missing] = np.nan
    return sums
