"""summary.json: the figures of all tasks of a run.

    {"schema": 1, "tasks": {TASK: {
      "examples": n, "dropped": {reason: n},
      "conditionals": {NAME: {"n": n, "accuracy": x, "interval": [lo, hi], ..}},
      "disagreement": {"value": x, "interval": [lo, hi], ..},
      "pairwise_disagreement": {NAME: {NAME: x}},
      "ensembles": {REDUCTION: {"accuracy": x, "interval": [lo, hi], "p_value": x, ..}},
      "curve": [{"conditionals": k, "accuracy": x, "disagreement": x, ..}, ..], ..}}}

Keys may be added, these are never changed. What the figures mean: analysis/summary.py.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from mlm_consistency.analysis.first_tokens import FirstTokens, first_token_figures
from mlm_consistency.analysis.last_words import last_word_figures, task_setting
from mlm_consistency.analysis.load import scores_as_asked
from mlm_consistency.analysis.scores import Scores
from mlm_consistency.analysis.summary import AnalysisConfig, analyze
from mlm_consistency.errors import AnalysisError
from mlm_consistency.records import layout, storage
from mlm_consistency.records.reader import Run

SUMMARY_SCHEMA = 1


def analyze_run(run: Run, config: AnalysisConfig | None = None) -> dict[str, Any]:
    """The content of summary.json for every task of a run."""
    config = config or AnalysisConfig()
    tasks: dict[str, dict[str, Any]] = {}
    for task in run.tasks:
        scores = Scores.from_run(run, task)
        tasks[task] = dict(analyze(scores, config).content)
        if run.has_divergences and config.diagnostics:
            tasks[task] |= _first_tokens(run, scores, config)
        if setting := task_setting(run, task):
            forms = scores_as_asked(run, task)
            if config.conditionals:
                forms = forms.with_conditionals(config.conditionals)
            tasks[task]["last_words"] = last_word_figures(forms, setting, config.token_reduction)
    return {
        "schema": SUMMARY_SCHEMA,
        "complete": run.complete,
        "fingerprint": run.manifest.fingerprint_digest(),
        "tasks": tasks,
    }


def _first_tokens(run: Run, scores: Scores, config: AnalysisConfig) -> dict[str, Any]:
    """The added key of a run that compared its conditionals over the whole vocabulary."""
    if config.conditionals:
        scores = scores.with_conditionals(config.conditionals)
    if len(scores.conditionals) < 2:
        return {}
    figures = first_token_figures(
        FirstTokens.from_run(run, scores.task),
        scores,
        config.token_reduction,
        level=config.level,
        resamples=config.resamples,
        seed=config.seed,
    )
    return {"first_tokens": figures} if figures else {}


def write_summary(folder: storage.PathLike, summary: Mapping[str, Any]) -> str:
    """Publishes summary.json in a run folder; returns its path."""
    path = storage.join(folder, layout.SUMMARY)
    text = json.dumps(summary, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    storage.publish(path, text.encode())
    return path


def read_summary(folder: storage.PathLike) -> dict[str, Any]:
    """The content of a run folder's summary.json.

    Raises:
      AnalysisError: where it is missing or of another schema.
    """
    path = storage.join(folder, layout.SUMMARY)
    try:
        summary = json.loads(storage.read_bytes(path))
    except FileNotFoundError:
        raise AnalysisError(f"{path} is missing: run `mlm-consistency analyze` first") from None
    except ValueError as error:
        raise AnalysisError(f"{path} is not JSON ({error}): analyze the run again") from error
    if not isinstance(summary, dict) or summary.get("schema") != SUMMARY_SCHEMA:
        raise AnalysisError(f"{path} is not of schema {SUMMARY_SCHEMA}: analyze the run again")
    return summary
