"""Examples as the page's explorer reads them: one compact record of columns a task.

Scores travel as whole thousandths of a nat, and a masked prompt as the prompt's pieces plus the
conditional's layout at that length, so that 15,000 examples under ten conditionals stay a few
megabytes before compression. Nothing is cut: every example, candidate and reason is there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from mlm_consistency.analysis.scores import Scores
from mlm_consistency.report.contradictions import divergences, most_contradictory

WORD_START = "▁"
LayoutOf = Callable[[str, int], tuple[list, list] | None]


def explorer_task(
    scores: Scores,
    token_reduction: str,
    rows: Sequence[Mapping[str, Any]],
    reasons: Mapping[tuple[int, int], str],
    mode_index: Sequence[int],
    layout_of: LayoutOf,
) -> dict[str, Any]:
    """One task's examples for the page.

    Args:
      scores: of N examples, K conditionals, at most C candidates.
      token_reduction: "mean" or "sum" over a candidate's tokens.
      rows: N rows of the examples records, in the same order.
      reasons: (example, conditional) -> why the conditional does not apply.
      mode_index: for each conditional, which of the row's modes it was asked in.
      layout_of: (conditional, prompt tokens) -> encoder and decoder pieces, or None.

    Returns:
      A dict of lists, ready for JSON; the field names are read by assets/explorer.js.
    """
    values, applicable = scores.values(token_reduction), scores.applicable
    answers = scores.predictions(token_reduction)
    best = np.where(applicable[..., None], values, -np.inf).max(axis=1)
    divergence = divergences(values, applicable)
    subjects = sorted(set(scores.subjects))
    order = {subject: place for place, subject in enumerate(subjects)}
    reason_texts = sorted(set(reasons.values()))
    return {
        "task": scores.task,
        "conditionals": list(scores.conditionals),
        "subjects": [str(subject) for subject in subjects],
        "mode_index": list(mode_index),
        "ids": [str(name) for name in scores.example_ids],
        "subject": [order[subject] for subject in scores.subjects],
        "pieces": [[list(pieces) for pieces in row["prompt_pieces"]] for row in rows],
        "prompts": [_prompt_unless_in_pieces(row) for row in rows],
        # Of the scores, not of the rows: forms of one word are put together there.
        "candidates": [list(texts) for texts in scores.candidate_texts],
        "labels": [np.flatnonzero(right).tolist() for right in scores.labels],
        "scores": [
            _thousandths(values[i], len(texts)) for i, texts in enumerate(scores.candidate_texts)
        ],
        "answers": answers.tolist(),
        "ensemble": best.argmax(axis=-1).tolist(),
        "divergence": [round(float(d), 4) for d in divergence],
        "top": most_contradictory(divergence, answers),
        "reason_texts": reason_texts,
        "reasons": {f"{i},{k}": reason_texts.index(text) for (i, k), text in reasons.items()},
        "layouts": _layouts(scores.conditionals, rows, mode_index, layout_of),
    }


def _thousandths(values: np.ndarray, candidates: int) -> list[int | None]:
    """[K, C] nats as K * candidates whole thousandths; None where there is no score."""
    flat = np.round(1000 * values[:, :candidates]).ravel()
    return [int(v) if np.isfinite(v) else None for v in flat]


def _prompt_unless_in_pieces(row: Mapping[str, Any]) -> str | None:
    """The prompt as it was given, or None when the first mode's pieces spell it already."""
    spelt = "".join(row["prompt_pieces"][0]).replace(WORD_START, " ").strip()
    mode = row["modes"][0] if row["modes"] else ""
    if mode:
        spelt = spelt.removeprefix(f"[{mode}]").strip()
    return None if spelt == row["prompt"] else row["prompt"]


def _layouts(
    conditionals: Sequence[str],
    rows: Sequence[Mapping[str, Any]],
    mode_index: Sequence[int],
    layout_of: LayoutOf,
) -> list[dict[str, list]]:
    """For each conditional: prompt length -> [encoder pieces, decoder pieces]."""
    layouts: list[dict[str, list]] = []
    for name, mode in zip(conditionals, mode_index, strict=True):
        lengths = sorted({len(row["prompt_pieces"][mode]) for row in rows})
        found = ((n, layout_of(name, n)) for n in lengths)
        layouts.append({str(n): list(layout) for n, layout in found if layout is not None})
    return layouts
