"""launch/run_worker.sh: the platform it holds JAX to, the status it passes on, earlier workers."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import pytest

LAUNCH = Path(__file__).resolve().parents[2] / "launch"


@pytest.mark.parametrize("status", [0, 1, 2, 75])
def test_the_status_of_score_is_passed_on(stubs, status):
    stubs.program("mlm-consistency", f"exit {status}")
    done = stubs.run(
        "run_worker.sh", "--gin_file=a.gin", "--gin.X='y z'", SKIP_INSTALL="1", PLATFORM="cpu"
    )
    assert done.returncode == status
    assert stubs.calls() == [["mlm-consistency", "score", "--gin_file=a.gin", "--gin.X='y z'"]]


@pytest.mark.parametrize(
    ("platform", "held"), [("cpu", "cpu"), ("tpu", "tpu,cpu"), ("cuda", "cuda,cpu")]
)
def test_jax_is_held_to_the_platform(stubs, platform, held):
    stubs.program("mlm-consistency", 'echo "platforms: $JAX_PLATFORMS"')
    done = stubs.run("run_worker.sh", "--gin_file=a.gin", SKIP_INSTALL="1", PLATFORM=platform)
    assert f"platforms: {held}" in done.stdout


def test_an_unknown_platform_is_refused(stubs):
    done = stubs.run("run_worker.sh", "--gin_file=a.gin", PLATFORM="gpu")
    assert done.returncode == 2
    assert "PLATFORM=gpu is unknown; cpu, tpu or cuda" in done.stderr


def test_nothing_to_score_is_refused(stubs):
    done = stubs.run("run_worker.sh", SKIP_INSTALL="1", PLATFORM="cpu")
    assert done.returncode == 2
    assert "--gin_file" in done.stderr


def test_a_signal_reaches_the_scoring_process_itself(stubs):
    """As process 1 of a container a shell in between would swallow SIGTERM."""
    stubs.program("mlm-consistency", 'trap "exit 75" TERM; echo up; while true; do sleep 0.1; done')
    worker = subprocess.Popen(
        ["bash", str(LAUNCH / "run_worker.sh"), "--gin_file=a.gin"],
        env=stubs.environment(SKIP_INSTALL="1", PLATFORM="cpu"),
        stdout=subprocess.PIPE,
        text=True,
    )
    assert worker.stdout is not None
    assert worker.stdout.readline() == "up\n"
    worker.terminate()
    assert worker.wait(timeout=20) == 75


def test_a_worker_of_an_earlier_start_is_ended_first(stubs):
    stubs.program("mlm-consistency", "echo scored")
    earlier = subprocess.Popen(["bash", "-c", "exec -a 'mlm-consistency score' sleep 60"])
    note = stubs.folder / "worker.pid"
    try:
        deadline = time.monotonic() + 10
        while "mlm-consistency" not in Path(f"/proc/{earlier.pid}/cmdline").read_text():
            assert time.monotonic() < deadline
            time.sleep(0.05)
        note.write_text(f"{earlier.pid}\n")
        # A child that nobody waits for stays as a zombie, which kill -0 still finds.
        worker = subprocess.Popen(
            ["bash", str(LAUNCH / "run_worker.sh"), "--gin_file=a.gin"],
            env=stubs.environment(SKIP_INSTALL="1", PLATFORM="cpu", WORKER_PID_FILE=str(note)),
            stderr=subprocess.PIPE,
            text=True,
        )
        assert earlier.wait(timeout=20) == -15
        _, said = worker.communicate(timeout=20)
        assert worker.returncode == 0
        assert f"ending process {earlier.pid}" in said
        assert note.read_text() == f"{worker.pid}\n"
    finally:
        if earlier.poll() is None:
            earlier.kill()


def test_the_number_of_another_program_is_left_alone(stubs):
    stubs.program("mlm-consistency")
    bystander = subprocess.Popen(["sleep", "60"])
    try:
        note = stubs.folder / "worker.pid"
        note.write_text(f"{bystander.pid}\n")
        done = stubs.run(
            "run_worker.sh",
            "--gin_file=a.gin",
            SKIP_INSTALL="1",
            PLATFORM="cpu",
            WORKER_PID_FILE=str(note),
        )
        assert done.returncode == 0
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait()


def test_dry_run_prints_and_runs_nothing(stubs):
    stubs.program("mlm-consistency")
    done = stubs.run(
        "run_worker.sh", "--dry_run", "--gin_file=a.gin", PLATFORM="tpu", EXTRAS="lint"
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "prepare_environment tpu,lint"
    assert lines[1].endswith("mlm-consistency score --gin_file=a.gin")
    assert stubs.calls() == []
