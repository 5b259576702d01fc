"""From a run's records to the explorer's data: scores, layouts, why conditionals do not apply."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mlm_consistency.analysis.scores import Scores
from mlm_consistency.conditionals import NotApplicable, Prompt, get_conditional
from mlm_consistency.records import Manifest, Run
from mlm_consistency.report.examples import explorer_task


def family_of(manifest: Manifest) -> str:
    """Which family's layouts the run used: as the manifest says, else by its mode word."""
    for place in (manifest.settings, manifest.model):
        if "family" in place:
            return str(place["family"])
    return "ul2" if manifest.mode else "t5"


def layout_entries(conditional: str, n: int, family: str) -> tuple[list, list] | None:
    """(encoder, decoder) at n prompt tokens, each of sentinel numbers and [start, stop)."""
    layout = get_conditional(conditional).layout(n, family)
    if isinstance(layout, NotApplicable):
        return None

    def plain(pieces: Sequence[Any]) -> list:
        return [[p.start, p.stop] if isinstance(p, Prompt) else p.k for p in pieces]

    return plain(layout.encoder), plain(layout.prefix)


def examples_of_run(run: Run, task: str, part: Mapping[str, Any]) -> dict[str, Any]:
    """One task's examples for the page's explorer, as `examples.explorer_task` makes them.

    Args:
      run: the opened run.
      task: its name.
      part: the task's part of summary.json, whose conditionals and token reduction are shown.
    """
    scores = Scores.from_run(run, task).with_conditionals(list(part["conditionals"]))
    columns = ["example_index", "modes", "prompt", "prompt_pieces", "candidate_texts", "labels"]
    rows = run.examples(task).select(columns).sort_by("example_index").to_pylist()
    place = {row["example_index"]: i for i, row in enumerate(rows)}
    family = family_of(run.manifest)
    modes = rows[0]["modes"] if rows else []
    words = [get_conditional(name).mode for name in scores.conditionals]
    asked = [run.manifest.mode if word is None else word for word in words]
    return explorer_task(
        scores=scores,
        token_reduction=part["token_reduction"],
        rows=rows,
        reasons=_reasons(run, task, scores.conditionals, place),
        mode_index=[modes.index(word) if word in modes else 0 for word in asked],
        layout_of=lambda name, n: layout_entries(name, n, family),
    )


def _reasons(
    run: Run, task: str, conditionals: Sequence[str], place: Mapping[int, int]
) -> dict[tuple[int, int], str]:
    """(example's row, conditional) -> why the conditional does not apply."""
    table = run.scores(task).select(["example_index", "conditional", "reason", "applicable"])
    absent = table.filter(np.logical_not(table["applicable"].to_numpy()))
    order = {name: k for k, name in enumerate(conditionals)}
    return {
        (place[row["example_index"]], order[row["conditional"]]): row["reason"]
        for row in absent.to_pylist()
        if row["conditional"] in order
    }
