"""A whole made-up run in a temporary folder: records by RunWriter, summary.json by the analysis."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from synthetic_run import CONDITIONALS, MadeUpTask, made_up_task

from mlm_consistency.analysis.summary import AnalysisConfig
from mlm_consistency.analysis.summary_file import analyze_run, read_summary, write_summary
from mlm_consistency.conditionals import get_conditional
from mlm_consistency.records import Manifest, RunWriter, TaskEntry, open_run

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
_FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


class Words:
    """A vocabulary of whole words, numbered as they come."""

    def __init__(self) -> None:
        self.words: dict[str, int] = {}

    def ids(self, pieces) -> np.ndarray:
        """int32 ids of display pieces."""
        return np.array([self.words.setdefault(p, len(self.words)) for p in pieces], np.int32)

    def pieces(self, ids) -> list[str]:
        """Display pieces of ids."""
        names = list(self.words)
        return [names[i] for i in ids]


def scored_shard(task: MadeUpTask, words: Words) -> SimpleNamespace:
    """The task as the scoring loop would hand it over, in one shard."""
    examples = []
    for index, example in enumerate(task.examples):
        ids = words.ids(example.pieces)
        candidates = tuple(np.arange(len(scores), dtype=np.int32) for scores in
                           task.log_probs[index][0])  # fmt: skip
        examples.append(
            SimpleNamespace(
                index=index,
                id=example.id,
                subject=example.subject,
                prompt=example.prompt,
                candidate_texts=example.candidates,
                labels=(example.label,),
                candidates=candidates,
                prompt_ids={"": ids},
                masked=tuple(get_conditional(name).layout(len(ids)) for name in CONDITIONALS),
            )
        )
    return SimpleNamespace(
        task=task.name, shard=0, examples=examples, token_log_probs=task.log_probs
    )


def write_made_up_run(folder: Path, tasks: list[MadeUpTask], resamples: int = 100) -> Path:
    """Writes records and summary.json of `tasks` into `folder` and returns it."""
    manifest = Manifest(
        model={"name": "tiny"},
        checkpoint="sha256:5b0f",
        vocabulary="sha256:93c1",
        conditionals=CONDITIONALS,
        tasks={
            task.name: TaskEntry(len(task.examples), 1, {"a candidate is too long": 12})
            for task in tasks
        },
        settings={"family": "t5"},
        versions={"mlm-consistency": "0.1.0"},
        device="cpu",
        mesh={"data": 1, "model": 1},
        created="2026-01-02T03:04:05+00:00",
    )
    writer, words = RunWriter(folder, manifest), Words()
    for task in tasks:
        writer.write(scored_shard(task, words), words)
    writer.complete()
    summary = analyze_run(open_run(folder), AnalysisConfig(resamples=resamples))
    write_summary(folder, summary)
    return folder


@pytest.fixture(scope="session")
def run_folder(tmp_path_factory) -> Path:
    """A run of two tasks, 90 and 40 examples; three of the first are too short for some spans."""
    tasks = [made_up_task("stories_choice", 90), made_up_task("last/word", 40, 5, seed=1)]
    return write_made_up_run(tmp_path_factory.mktemp("run"), tasks)


@pytest.fixture(scope="session")
def summary(run_folder) -> dict:
    """The run's summary.json."""
    return read_summary(run_folder)


@pytest.fixture(scope="session")
def report_path(run_folder) -> Path:
    """The run's report.html, written."""
    from mlm_consistency.report import write_report

    return Path(write_report(run_folder))


@pytest.fixture(scope="session")
def browser():
    """A headless Chromium."""
    playwright = pytest.importorskip(
        "playwright.sync_api", reason="the browser test needs the playwright package"
    )
    chromium = os.environ.get("MLM_CONSISTENCY_CHROMIUM") or next(
        filter(None, map(shutil.which, _NAMES)), None
    )
    if not chromium:
        pytest.skip("the browser test needs a Chromium: none of " + ", ".join(_NAMES) + " is found")
    with playwright.sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=chromium, args=_FLAGS)
        yield opened
        opened.close()
