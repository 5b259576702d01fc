"""The main job, end to end: the shipped model on the shipped stories, by one command."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

from mlm_consistency.cli import gin_files
from mlm_consistency.cli.main import main
from mlm_consistency.cli.settings import MACROS, score_config
from mlm_consistency.records import open_run

LIMITS = {"stories_last_word": 24, "stories_choice": 16}
REDUCTIONS = {"max", "mean_of_logs", "mean_of_probabilities", "log_sum_exp", "vote"}


@pytest.fixture(scope="module")
def job(tmp_path_factory):
    """Run folder of the first questions of both tasks, and what was printed."""
    import contextlib
    import io

    folder = tmp_path_factory.mktemp("main_job") / "run"
    flags = [f"--gin.{name}/task.limit={limit}" for name, limit in LIMITS.items()]
    printed, told = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(told):
        status = main(
            ["run", "--gin_file=gin/runs/tiny_stories.gin", f"--gin.OUTPUT_DIR={folder}", *flags]
        )
    assert status == 0, told.getvalue()
    return folder, printed.getvalue(), told.getvalue()


@pytest.fixture(scope="module")
def summary(job):
    return json.loads((job[0] / "summary.json").read_text())


def test_the_run_folder(job):
    folder, _, _ = job
    names = {path.name for path in folder.iterdir()}
    assert {"config.gin", "manifest.json", "records", "summary.json", "figures", "report.html"} <= (
        names
    )
    assert open_run(folder).complete


def test_records_hold_every_candidate_under_every_conditional(job):
    run = open_run(job[0])
    assert run.tasks == tuple(LIMITS)
    for task, limit in LIMITS.items():
        examples, scores = run.examples(task).to_pylist(), run.scores(task).to_pylist()
        assert len(examples) == limit
        candidates = sum(len(row["candidate_texts"]) for row in examples)
        assert len(scores) == candidates * 10
        for row in scores:
            assert row["applicable"] == (row["token_log_probs"] is not None)
            if row["applicable"]:
                assert len(row["tokens"]) == len(row["token_log_probs"]) > 0
                assert max(row["token_log_probs"]) <= 1e-6


def interval(value, entry):
    low, high = entry["interval"]
    assert 0 <= low <= value <= high <= 1


@pytest.mark.parametrize("task", LIMITS)
def test_the_schema_of_the_summary(summary, task):
    assert summary["schema"] == 1
    assert set(summary["tasks"]) == set(LIMITS)
    entry = summary["tasks"][task]
    assert entry["examples"] == LIMITS[task]
    assert all(isinstance(count, int) for count in entry["dropped"].values())
    assert sum(entry["dropped"].values()) > 0, "what the limit leaves out is counted"
    names = list(entry["conditionals"])
    assert names[0] == "baseline"
    assert len(names) == 10
    for row in entry["conditionals"].values():
        assert 0 < row["n"] <= entry["examples"]
        interval(row["accuracy"], row)
    interval(entry["disagreement"]["value"], entry["disagreement"])
    assert set(entry["pairwise_disagreement"]) == set(names)
    for first, row in entry["pairwise_disagreement"].items():
        assert set(row) == set(names)
        assert row[first] == 0
    assert set(entry["ensembles"]) >= {"max", "vote"}
    for row in entry["ensembles"].values():
        interval(row["accuracy"], row)
        assert 0 < row["p_value"] <= 1
    assert [row["conditionals"] for row in entry["curve"]] == list(range(1, 11))
    assert entry["curve"][0]["accuracy"] == entry["conditionals"]["baseline"]["accuracy"]
    assert entry["curve"][0]["disagreement"] == 0
    assert entry["curve"][-1]["disagreement"] == pytest.approx(entry["disagreement"]["value"])
    assert entry["curve"][-1]["accuracy"] == pytest.approx(entry["ensembles"]["max"]["accuracy"])


@pytest.mark.parametrize("task", LIMITS)
def test_the_summary_says_what_the_records_say(job, summary, task):
    """Accuracy of the baseline and disagreement, counted again from the rows."""
    rows = open_run(job[0]).scores(task).to_pylist()
    means: dict = {}
    labels: dict = {}
    for row in rows:
        key = row["example_index"], row["conditional"]
        value = np.mean(row["token_log_probs"]) if row["applicable"] else None
        means.setdefault(key, []).append(value)
        labels.setdefault(row["example_index"], []).append(row["is_label"])
    names = list(summary["tasks"][task]["conditionals"])
    common = [e for e in labels if all(means[e, name][0] is not None for name in names)]
    picks = np.asarray([[int(np.argmax(means[e, name])) for name in names] for e in common])
    right = np.asarray([labels[e][pick[0]] for e, pick in zip(common, picks, strict=True)])
    entry = summary["tasks"][task]
    assert entry["conditionals"]["baseline"]["n"] == len(common)
    assert entry["conditionals"]["baseline"]["accuracy"] == pytest.approx(right.mean())
    apart = (picks != picks[:, :1]).any(1).mean()
    assert entry["disagreement"]["value"] == pytest.approx(apart)


def test_what_is_printed(job):
    folder, printed, told = job
    assert "baseline" in printed
    assert "isagreement" in printed
    assert printed.rstrip().endswith(f"report: {folder / 'report.html'}")
    for task, limit in LIMITS.items():
        assert f"task {task}: {limit} examples" in told
        assert task in printed
    assert re.search(r"scoring: 40/40 examples", told), "progress, where there is no terminal"


def test_the_report_opens_from_disk(job):
    page = (job[0] / "report.html").read_text()
    assert all(task in page for task in LIMITS)
    assert not re.search(r"""(?:src|href)=["']?https?:""", page), "nothing is fetched"
    assert list((job[0] / "figures").iterdir())


def test_config_gin_gives_the_same_run(job):
    folder, _, _ = job
    gin_files.load([str(folder / "config.gin")], [], "", MACROS)
    config = score_config()
    assert config.output_dir == str(folder)
    assert {task.name: task.limit for task in config.tasks} == LIMITS


def test_again_when_all_is_done(job):
    folder, _, _ = job
    before = (folder / "summary.json").read_bytes()
    shards = {path.name: path.stat().st_mtime_ns for path in (folder / "records").iterdir()}
    flags = [f"--gin.{name}/task.limit={limit}" for name, limit in LIMITS.items()]
    run = ["--gin_file=gin/runs/tiny_stories.gin", f"--gin.OUTPUT_DIR={folder}"]
    assert main(["score", *run, *flags]) == 0
    assert {p.name: p.stat().st_mtime_ns for p in (folder / "records").iterdir()} == shards
    (folder / "summary.json").unlink()
    assert main(["analyze", str(folder)]) == 0, "without the model"
    assert (folder / "summary.json").read_bytes() == before


def test_python_gives_the_numbers_of_the_records(job):
    """`mc.load_model("tiny").score(..)` against the records of the same questions."""
    import mlm_consistency as mc

    run = open_run(job[0])
    example = run.examples("stories_choice").to_pylist()[0]
    rows = [r for r in run.scores("stories_choice").to_pylist() if r["example_index"] == 0]
    model = mc.load_model("tiny")
    answer = model.score(
        example["prompt"], example["candidate_texts"], conditionals=mc.paper_conditionals("mmlu")
    )
    assert answer.disagreement in (0, 1)
    assert answer.conditionals == tuple(dict.fromkeys(row["conditional"] for row in rows))
    recorded = [sum(row["token_log_probs"]) if row["applicable"] else np.nan for row in rows]
    sums = np.where(answer.applicable[0][:, None], answer.sums[0], np.nan)
    assert np.allclose(sums.ravel(), recorded, rtol=0, atol=2e-5, equal_nan=True)
    assert np.isfinite(recorded).sum() > 20
