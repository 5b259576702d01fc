"""Real processes on one machine: the records are those of one process, whatever happens to them.

The chaos of fifty moments is marked slow (some ten minutes) and asked for:

    MLM_CONSISTENCY_CHAOS=50 python -m pytest tests/processes -m slow
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import process_trials
import pytest
from command_line import record_bytes, save_checkpoint, write_questions

from mlm_consistency.records import open_run

# Real processes that watch one another by the clock: they need cores of their own.
pytestmark = pytest.mark.slow

HERE = Path(__file__).parent
MOMENTS = 4
MANY_MOMENTS = int(os.environ.get("MLM_CONSISTENCY_CHAOS", "0"))
QUESTIONS = 4 * process_trials.SHARDS - 2  # the last shard is not full
ENVIRONMENT = {
    **os.environ,
    "JAX_PLATFORMS": "cpu",
    "PYTHONPATH": os.pathsep.join([str(HERE), *(p for p in sys.path if p)]),
}
KILLED = -signal.SIGKILL


def run_trials(folder: Path, moments: int, what: str = "all") -> dict[str, dict]:
    """What process_trials.py reported, by trial."""
    write_questions(folder / "questions.jsonl", QUESTIONS)
    save_checkpoint(folder / "checkpoint")
    done = subprocess.run(
        [sys.executable, HERE / "process_trials.py", folder, str(moments), what],
        env=ENVIRONMENT, capture_output=True, text=True, timeout=14400,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    return {line["trial"]: line for line in lines}


@pytest.fixture(scope="module")
def trials(tmp_path_factory):
    return run_trials(tmp_path_factory.mktemp("processes"), MOMENTS)


def bytes_of(trial: dict) -> dict[str, bytes]:
    return record_bytes(Path(trial["run"]))


def origins(trial: dict) -> list[dict]:
    """The manifest's origins, after the run has been found whole."""
    run = open_run(trial["run"])
    assert run.complete
    assert run.scores("jsonl").num_rows == QUESTIONS * 3 * 4
    shards = [s for origin in run.manifest.origins for s in origin["shards"]["jsonl"]]
    assert sorted(shards) == list(range(process_trials.SHARDS)), "each shard of one origin"
    return list(run.manifest.origins)


def ended_well(outcome: dict) -> None:
    assert set(outcome["statuses"]) == {0}, outcome["said"]


def test_two_processes_write_the_bytes_of_one(trials):
    ended_well(trials["one process"]["first"])
    ended_well(trials["two processes"]["first"])
    names = list(bytes_of(trials["one process"]))
    assert sum(".scores." in name for name in names) == process_trials.SHARDS
    assert bytes_of(trials["two processes"]) == bytes_of(trials["one process"])


def test_the_manifest_says_which_process_wrote_which_shard(trials):
    by_process = {o["process"]: o for o in origins(trials["two processes"])}
    assert by_process[0]["shards"] == {"jsonl": [0, 2, 4, 6, 8, 10]}
    assert by_process[1]["shards"] == {"jsonl": [1, 3, 5, 7, 9]}
    for origin in by_process.values():
        assert origin["processes"] == 2
        assert origin["mesh"] == {"data": 4, "model": 1}


def test_only_process_0_speaks(trials):
    first, second = trials["two processes"]["first"]["said"]
    assert f"task jsonl: {QUESTIONS} examples" in first
    assert "records: " in first
    assert "examples" not in second
    assert "records" not in second


@pytest.mark.parametrize(
    ("name", "lost", "unbroken"),
    [
        ("process 1 killed", 1, "one process"),
        ("process 0 killed", 0, ""),
        ("model axis, process 2 killed", 2, "one process, model axis"),
    ],
)
def test_one_is_killed_and_the_others_end(trials, name, lost, unbroken):
    trial = trials[name]
    first = trial["first"]
    assert first["statuses"][lost] == KILLED
    others = [status for index, status in enumerate(first["statuses"]) if index != lost]
    assert set(others) == {75}, first["said"]
    assert first["apart"] < 60, "within a minute"
    for index, words in enumerate(first["said"]):
        assert index == lost or f"process {lost} of {len(first['statuses'])} is gone" in words
    assert len(trial["whole"]) < process_trials.SHARDS
    ended_well(trial["second"])
    if unbroken:
        assert bytes_of(trial) == bytes_of(trials[unbroken])


def test_a_restart_in_another_number_of_processes_is_told(trials):
    assert {o["processes"] for o in origins(trials["process 1 killed"])} == {2, 4}
    assert {o["processes"] for o in origins(trials["process 1 preempted"])} == {2, 1}


def test_with_a_model_axis_across_processes_one_of_each_lane_writes(trials):
    first = [o for o in origins(trials["model axis, process 2 killed"]) if o["processes"] == 4]
    assert {o["process"] for o in first} == {0, 2}


def test_one_is_preempted_and_all_say_start_again(trials):
    trial = trials["process 1 preempted"]
    assert trial["first"]["statuses"] == [75, 75], trial["first"]["said"]
    assert "process 1 was stopped by SIGTERM" in trial["first"]["said"][0]
    assert "stopped by SIGTERM; the shards in the run folder are whole" in trial["first"]["said"][1]
    assert len(trial["whole"]) < process_trials.SHARDS
    ended_well(trial["second"])
    assert bytes_of(trial) == bytes_of(trials["one process"])
    origins(trial)


def test_an_error_in_one_is_the_error_of_all(trials):
    """Status 2, not 75: starting again would meet it again."""
    trial = trials["data damaged in process 1"]
    assert trial["first"]["statuses"] == [2, 2], trial["first"]["said"]
    assert all("questions.jsonl line 3: only here" in words for words in trial["first"]["said"])
    assert trial["whole"] == []


def test_a_full_disk_is_one_message_and_the_run_goes_on_later(trials):
    trial = trials["disk of process 1 full"]
    assert trial["first"]["statuses"] == [2, 2], trial["first"]["said"]
    for words in trial["first"]["said"]:
        assert words.count("No space left on device. What was written before is whole") == 1
        assert "Traceback" not in words
    assert {1, 3} <= set(trial["whole"])
    assert 5 not in trial["whole"]
    ended_well(trial["second"])
    assert bytes_of(trial) == bytes_of(trials["one process"])


def test_another_mesh_completes_the_run_within_float32(trials):
    ended_well(trials["process 0 killed"]["second"])
    assert {o["mesh"]["data"] for o in origins(trials["process 0 killed"])} == {1, 4}
    expected = open_run(trials["one process"]["run"]).scores("jsonl")
    came = open_run(trials["process 0 killed"]["run"]).scores("jsonl")
    for column in ("example_id", "conditional", "candidate", "tokens"):
        assert came[column].to_pylist() == expected[column].to_pylist()
    values = [
        np.concatenate(
            [np.asarray(row, np.float32) for row in table["token_log_probs"].to_pylist()]
        )
        for table in (came, expected)
    ]
    np.testing.assert_allclose(*values, atol=1e-5, rtol=0)


def check_random_moments(trial: dict, unbroken: dict, moments: int) -> None:
    assert len(trial["starts"]) == moments
    for start in trial["starts"]:
        # 0: the run had ended before its signal came.
        assert set(start["statuses"]) <= {0, 75, KILLED}, "\n".join(start["said"])
        assert start["apart"] < 60
    assert {status for start in trial["starts"] for status in start["statuses"]} - {0}
    ended_well(trial["last"])
    for run in trial["runs"]:
        assert bytes_of({"run": run}) == bytes_of(unbroken)
        origins({"run": run})


def test_ended_at_random_moments(trials):
    check_random_moments(trials["chaos"], trials["one process"], MOMENTS)


@pytest.mark.slow
@pytest.mark.skipif(not MANY_MOMENTS, reason="asked for with MLM_CONSISTENCY_CHAOS=50")
def test_ended_at_many_random_moments(tmp_path):
    trials = run_trials(tmp_path, MANY_MOMENTS, "chaos")
    check_random_moments(trials["chaos"], trials["one process"], MANY_MOMENTS)
