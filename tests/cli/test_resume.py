"""Real processes: killed, preempted and started again, they end with the bytes of one that ran on.

MLM_CONSISTENCY_CHAOS_KILLS=50 ends the chaos run so many times (a few minutes).
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import score_trials
from command_line import (
    CONDITIONALS,
    arguments,
    question,
    record_bytes,
    save_checkpoint,
    tree,
    write_questions,
)

from mlm_consistency.cli.main import main
from mlm_consistency.records import open_run

HERE = Path(__file__).parent
KILLS = int(os.environ.get("MLM_CONSISTENCY_CHAOS_KILLS", "2"))
ENVIRONMENT = {
    **os.environ,
    "JAX_PLATFORMS": "cpu",
    "PYTHONPATH": os.pathsep.join([str(HERE), *(p for p in sys.path if p)]),
}
QUESTIONS = 8 * score_trials.SHARDS - 3  # the last shard is not full


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("resume")
    write_questions(made / "questions.jsonl", QUESTIONS)
    save_checkpoint(made / "checkpoint")
    return made


@pytest.fixture(scope="module")
def trials(folder):
    """What score_trials.py reported, and the records of the unbroken run."""
    done = subprocess.run(
        [sys.executable, HERE / "score_trials.py", folder, str(KILLS)],
        env=ENVIRONMENT, capture_output=True, text=True, timeout=1800,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert lines[0]["status"] == 0, done.stderr
    return lines, record_bytes(folder / "unbroken")


def check_complete(run: Path, unbroken: dict[str, bytes]) -> None:
    assert record_bytes(run) == unbroken, "the very bytes, and nothing left over"
    opened = open_run(run)
    assert opened.complete
    shards = [s for origin in opened.manifest.origins for s in origin["shards"]["jsonl"]]
    assert sorted(shards) == list(range(score_trials.SHARDS)), "each shard of one origin"
    assert opened.scores("jsonl").num_rows == QUESTIONS * 3 * 4


def test_the_unbroken_run_is_whole(folder, trials):
    _, unbroken = trials
    kinds = {name.split(".", 1)[1] for name in unbroken}
    assert {"scores.parquet", "examples.parquet"} <= kinds
    assert len(unbroken) == len(kinds) * score_trials.SHARDS, "nothing but shards"
    check_complete(folder / "unbroken", unbroken)


@pytest.mark.parametrize(
    ("kind", "chain", "status"),
    [
        ("killed", score_trials.KILLED, -signal.SIGKILL),
        # The status that launchers take as: start again.
        ("preempted", score_trials.PREEMPTED, 75),
    ],
)
def test_ended_in_turn_and_started_again(folder, trials, kind, chain, status):
    lines, unbroken = trials
    *found, last = [line for line in lines if line["trial"] == kind]
    assert [line["name"] for line in found] == list(chain)
    for line, (_, whole) in zip(found, chain.values(), strict=True):
        assert line["status"] == status, line
        assert line["whole"] == whole, f"{line}: at most the shard in work is lost"
    assert (last["status"], last["whole"]) == (0, score_trials.SHARDS)
    check_complete(folder / kind, unbroken)


def test_ended_at_random_moments(folder, trials):
    lines, unbroken = trials
    *statuses, last = [line["status"] for line in lines if line["trial"] == "chaos"]
    assert len(statuses) == KILLS
    assert set(statuses) <= {0, 75, -signal.SIGKILL}, "0: it had ended before its signal came"
    assert last == 0
    check_complete(folder / "chaos", unbroken)


@pytest.mark.slow
def test_the_command_itself(folder, tmp_path):
    """From a shell: SIGTERM after the first shards gives 75, the same command goes on."""
    write_questions(tmp_path / "questions.jsonl", 120)
    flags = arguments(
        tmp_path, CHECKPOINT_PATH=folder / "checkpoint", COMPILATION_CACHE=folder / "cache",
        packing__examples_per_shard=2,
    )  # fmt: skip
    command = [sys.executable, "-m", "mlm_consistency.cli.main", "score", *flags]
    with subprocess.Popen(command, env=ENVIRONMENT, stderr=subprocess.PIPE, text=True) as process:
        deadline = time.monotonic() + 600
        while score_trials.shards_in(tmp_path / "run") < 2:
            assert process.poll() is None, process.stderr.read()
            assert time.monotonic() < deadline
            time.sleep(0.005)
        process.terminate()
        message = process.communicate(timeout=120)[1]
    assert process.returncode == 75, message
    assert "goes on from there" in message
    whole = score_trials.shards_in(tmp_path / "run")
    assert 2 <= whole < 60
    assert not list((tmp_path / "run" / "records").glob("*.tmp-*"))

    assert main(["score", *flags]) == 0
    assert open_run(tmp_path / "run").complete


def test_again_when_all_is_done_does_nothing(folder, trials, capsys, monkeypatch):
    from mlm_consistency.scoring import loop

    def no_step(*args):
        raise AssertionError("nothing is left to score")

    monkeypatch.setattr(loop.ScoringLoop, "_compute", no_step)
    before = tree(folder / "unbroken")
    assert main(["score", *arguments(folder, OUTPUT_DIR=folder / "unbroken")]) == 0
    assert tree(folder / "unbroken") == before
    assert "records: " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"CONDITIONALS": "baseline,offset_1"}, 'conditionals: ["baseline", "offset_1", '),
        ({"packing__examples_per_shard": 16}, "tasks.jsonl.shards: 6 in the run folder, 3 now"),
        ({"packing__tokens_per_batch": 2048}, "packing.rows"),
        ({"COMPUTE_DTYPE": "bfloat16"}, 'dtype: "float32" in the run folder, "bfloat16" now'),
        ({"PARAMETER_DTYPE": "bfloat16"}, "param_dtype"),
        ({"FAMILY": "ul2", "MODE": "NLG"}, 'mode: "" in the run folder, "NLG" now'),
        ({"task__limit": 30}, "tasks.jsonl.examples: 45 in the run folder, 30 now"),
        ({"CHECKPOINT_PATH": "other"}, "checkpoint: "),
        ({"DATA_DIR": "other.jsonl"}, "tasks.jsonl.digest: "),
        ({"DATA_DIR": "subjects.jsonl"}, "tasks.jsonl.digest: "),
    ],
)
def test_a_changed_configuration_is_refused_by_what_changed(folder, trials, capsys, changes, named):
    if "DATA_DIR" in changes:
        rows = [question(n) for n in range(QUESTIONS)]
        rows[20] |= {"label": 3} if changes["DATA_DIR"] == "other.jsonl" else {"subject": "new"}
        changes = {"DATA_DIR": write_questions(folder / changes["DATA_DIR"], rows)}
    if "CHECKPOINT_PATH" in changes:
        other = folder / "other"
        changes = {"CHECKPOINT_PATH": other if other.exists() else save_checkpoint(other, seed=1)}
    before = tree(folder / "unbroken")
    flags = arguments(folder, OUTPUT_DIR=folder / "unbroken", **changes)
    assert main(["score", *flags]) == 2
    message = capsys.readouterr().err
    assert "holds a run of another configuration" in message
    assert named in message
    assert "take another OUTPUT_DIR" in message
    assert tree(folder / "unbroken") == before


def test_where_it_runs_may_change(folder, trials):
    """Another place for inputs and cache is the same run."""
    moved = folder / "moved"
    moved.mkdir()
    for name in ("questions.jsonl", "checkpoint"):
        (moved / name).symlink_to(folder / name)
    flags = arguments(moved, OUTPUT_DIR=folder / "unbroken", COMPILATION_CACHE="")
    assert main(["score", *flags]) == 0


def test_the_conditionals_of_the_trials():
    assert len(CONDITIONALS.split(",")) == 3
