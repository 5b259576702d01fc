"""Last words: candidates that differ in their mark alone are one answer.

Candidates from beam search are a word and the mark behind it. A conditional that prefers `signs,`
and one that prefers `signs.` say the same word. So their candidates are put together before
anything is counted, a word scored by the likelier of its forms:

    signs.  -1.2      signs  -0.9
    signs,  -0.9  ->  you    -1.0
    you.    -1.0

The paper kept forms apart; runs of its presets say so, and `forms_apart` gives its disagreement for
the others.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from mlm_consistency.analysis.disagreement import disagrees
from mlm_consistency.analysis.predictions import predict
from mlm_consistency.analysis.scores import Scores
from mlm_consistency.records.reader import Run

MARKS = ",!.:;?"
NO_CANDIDATE = "(none)"  # stands for the candidates of an example that has none


def task_setting(run: Run, task: str) -> str:
    """How the run's last words count: "by_word" or "paper"; "" for tasks of another kind."""
    settings: Mapping[str, Any]
    for settings in run.manifest.information.get("tasks", ()):
        if (settings.get("label") or settings.get("name")) == task and settings.get("beams"):
            return str(settings.get("last_words", ""))
    return ""


def word_of(candidate: str) -> str:
    """The candidate without its mark."""
    return candidate[:-1] if candidate[-1:] in MARKS else candidate


def by_word(scores: Scores) -> Scores:
    """The scores with one candidate a word, in the order in which words first came.

    A word's score is the best mean log-probability of its forms, under each conditional. Its
    number of tokens is that of its first form; where forms differ in that, `sums` are the best
    mean times that number.
    """
    words = [tuple(dict.fromkeys(map(word_of, texts))) for texts in scores.candidate_texts]
    n, k, _ = scores.sums.shape
    most = max((len(row) for row in words), default=0)
    means = scores.values("mean")
    sums = np.full((n, k, most), -np.inf)
    lengths = np.zeros((n, most), scores.lengths.dtype)
    labels = np.zeros((n, most), bool)
    for i, texts in enumerate(scores.candidate_texts):
        place = {word: column for column, word in enumerate(words[i])}
        columns = [place[word_of(text)] for text in texts]
        for column in range(len(words[i])):
            forms = [c for c, at in enumerate(columns) if at == column]
            best = np.asarray(forms)[means[i][:, forms].argmax(1)]
            lengths[i, column] = scores.lengths[i, forms[0]]
            ratio = lengths[i, column] / scores.lengths[i, best]
            sums[i, :, column] = scores.sums[i, np.arange(k), best] * ratio
            labels[i, column] = scores.labels[i, forms].any()
    return dataclasses.replace(
        scores,
        sums=sums,
        lengths=lengths,
        labels=labels,
        candidate_mask=lengths > 0,
        candidate_texts=tuple(words),
    )


def last_word_figures(forms: Scores, setting: str, token_reduction: str) -> dict[str, Any]:
    """What the summary says beyond other tasks.

    Args:
      forms: scores of the candidates as they were asked, forms apart.
      setting: "by_word" or "paper".

    Returns:
      setting; without_candidate: examples for which the search found none, which count as wrong;
      without_right_word: examples whose candidates hold no right one, those among them;
      disagreement_forms_apart: where `word.` and `word,` differ, over n examples.
    """
    common, _ = forms.complete()
    apart = disagrees(predict(common.values(token_reduction)))
    return {
        "setting": setting,
        "without_candidate": sum(texts == (NO_CANDIDATE,) for texts in forms.candidate_texts),
        "without_right_word": int((~forms.labels.any(1)).sum()),
        "disagreement_forms_apart": {"value": float(apart.mean()), "n": len(common)},
    }
