"""launch/tpu_queued_resource.sh against a stub gcloud that plays a slice and its mishaps."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import pytest
from launch_stubs import NEXT_OF

SCRIPT = Path(__file__).resolve().parents[2] / "launch" / "tpu_queued_resource.sh"
FLAGS = (
    "--project=p1",
    "--zone=z1",
    "--accelerator_type=v5litepod-16",
    "--output_dir=gs://bucket/runs/ul2",
    "--poll_seconds=0",
)
RUN = ("--", "--gin_file=gin/runs/ul2_20b_mmlu.gin", "--gin.NAME='a b'")

# The slice exists between create and delete; its state and what its workers answer are queues.
GCLOUD = (
    NEXT_OF
    + r"""
case "$*" in
  *"queued-resources create"*)
    if [ -e "$STATE/create_fails" ]; then exit 1; fi
    touch "$STATE/exists" ;;
  *"queued-resources describe"*) if [ -e "$STATE/exists" ]; then next_of states; fi ;;
  *"queued-resources delete"*)
    if [ -e "$STATE/delete_fails" ]; then exit 1; fi
    rm -f "$STATE/exists" ;;
  *--install_only*) ;;
  *"tpu-vm ssh"*)
    if [ -e "$STATE/works" ]; then sleep 60 & wait; fi
    answer="$(next_of workers)"
    for status in $answer; do echo "worker w ended with status $status"; done
    for status in $answer; do if [ "$status" -ne 0 ]; then exit "$status"; fi; done ;;
esac
"""
)

CREATE = "gcloud compute tpus queued-resources create mlm-consistency"
DELETE = "gcloud compute tpus queued-resources delete mlm-consistency"
SEND = "gcloud compute tpus tpu-vm scp"
REMOTE = "gcloud compute tpus tpu-vm ssh mlm-consistency"
FETCH = "gcloud storage rsync"


@pytest.fixture
def cloud(stubs):
    stubs.program("gcloud", GCLOUD)
    stubs.replace("tar")
    stubs.queue("states", "ACTIVE")
    stubs.queue("workers", "0 0 0 0")
    return stubs


def sequence(cloud) -> list[str]:
    """The calls that change something, in order."""
    steps = (CREATE, DELETE, SEND, REMOTE, FETCH)
    return [step for verb in cloud.verbs() for step in steps if verb.startswith(step)]


def test_create_wait_install_run_fetch_delete(cloud):
    cloud.queue("states", "ACCEPTED", "PROVISIONING", "ACTIVE")
    done = cloud.run(SCRIPT, *FLAGS, *RUN)
    assert done.returncode == 0, done.stderr
    assert sequence(cloud) == [CREATE, SEND, REMOTE, REMOTE, FETCH, DELETE]
    create = next(call for call in cloud.calls() if "create" in call)
    assert {
        "--project=p1",
        "--zone=z1",
        "--accelerator-type=v5litepod-16",
        "--runtime-version=v2-alpha-tpuv5-lite",
        "--spot",
    } <= set(create)
    run = [call for call in cloud.calls() if "ssh" in call][1]
    assert "--worker=all" in run
    command = next(word for word in run if word.startswith("--command="))
    assert "PLATFORM=tpu" in command
    assert "--gin_file=gin/runs/ul2_20b_mmlu.gin" in command
    # Quoted so that the worker's shell gives gin its own quotes.
    assert "'--gin.OUTPUT_DIR='\\''gs://bucket/runs/ul2'\\'''" in command
    assert "'--gin.NAME='\\''a b'\\'''" in command
    assert "state: PROVISIONING" in done.stderr
    assert "mlm-consistency analyze runs/mlm-consistency" in done.stderr


def test_what_is_packed_exists(cloud):
    """The workers get these files and no others; an editable install needs each of them."""
    assert cloud.run(SCRIPT, *FLAGS, *RUN).returncode == 0
    (pack,) = [call for call in cloud.calls() if call[0] == "tar"]
    packed = pack[pack.index("--exclude=__pycache__") + 1 :]
    assert {"mlm_consistency", "gin", "launch", "pyproject.toml"} <= set(packed)
    for name in packed:
        assert (SCRIPT.parents[1] / name).exists(), f"{name} is packed but not in the repository"


def test_a_slice_that_is_taken_away_is_asked_for_again(cloud):
    # waiting: active; the run dies; then suspended; the second slice lasts.
    cloud.queue("states", "ACTIVE", "SUSPENDING", "ACTIVE")
    cloud.queue("workers", "255", "0 0 0 0")
    done = cloud.run(SCRIPT, *FLAGS, *RUN)
    assert done.returncode == 0, done.stderr
    once = [CREATE, SEND, REMOTE, REMOTE]
    assert sequence(cloud) == [*once, DELETE, *once, FETCH, DELETE]
    assert "complete after 1 restarts" in done.stderr


def test_a_slice_that_goes_before_it_came_is_asked_for_again(cloud):
    cloud.queue("states", "ACCEPTED", "SUSPENDED", "SUSPENDED", "ACTIVE")
    done = cloud.run(SCRIPT, *FLAGS, *RUN)
    assert done.returncode == 0, done.stderr
    assert sequence(cloud) == [CREATE, DELETE, CREATE, SEND, REMOTE, REMOTE, FETCH, DELETE]


@pytest.mark.parametrize("answer", ["75 75 75 75", "1 75 1 1", "255"])
def test_interrupted_workers_are_started_again_on_the_same_slice(cloud, answer):
    cloud.queue("workers", answer, "0 0 0 0")
    done = cloud.run(SCRIPT, *FLAGS, *RUN)
    assert done.returncode == 0, done.stderr
    assert sequence(cloud) == [CREATE, *[SEND, REMOTE, REMOTE] * 2, FETCH, DELETE]


def test_a_failure_is_not_repeated_and_the_slice_is_deleted(cloud):
    cloud.queue("workers", "2 2 2 2")
    done = cloud.run(SCRIPT, *FLAGS, *RUN)
    assert done.returncode == 2
    assert sequence(cloud) == [CREATE, SEND, REMOTE, REMOTE, DELETE]
    assert "the run failed with status 2" in done.stderr
    assert "gs://bucket/runs/ul2" in done.stderr


def test_restarts_are_limited(cloud):
    cloud.queue("workers", "75")
    done = cloud.run(SCRIPT, *FLAGS, "--max_restarts=2", *RUN)
    assert done.returncode == 75
    assert sequence(cloud) == [CREATE, *[SEND, REMOTE, REMOTE] * 3, DELETE]


def test_a_request_that_fails_ends_with_its_reason_and_is_deleted(cloud):
    cloud.queue("states", "ACCEPTED", "FAILED", "state: FAILED, no quota for v5litepod")
    done = cloud.run(SCRIPT, *FLAGS, *RUN)
    assert done.returncode == 1
    assert "no quota" in done.stderr
    assert sequence(cloud) == [CREATE, DELETE]


def test_a_create_that_fails_half_way_is_cleaned_up(cloud):
    (cloud.folder / "create_fails").touch()
    assert cloud.run(SCRIPT, *FLAGS, *RUN).returncode == 1
    assert sequence(cloud) == [CREATE, DELETE]


def test_somebody_elses_resource_is_left_alone(cloud):
    (cloud.folder / "exists").touch()
    done = cloud.run(SCRIPT, *FLAGS, *RUN)
    assert done.returncode == 2
    assert "exists already" in done.stderr
    assert sequence(cloud) == []


def test_a_slice_that_cannot_be_deleted_is_shouted_about(cloud):
    (cloud.folder / "delete_fails").touch()
    done = cloud.run(SCRIPT, *FLAGS, *RUN)
    assert done.returncode == 1
    assert sequence(cloud)[-3:] == [DELETE] * 3
    assert "COSTING MONEY" in done.stderr


def test_keep_leaves_the_slice(cloud):
    assert cloud.run(SCRIPT, *FLAGS, "--keep", *RUN).returncode == 0
    assert DELETE not in sequence(cloud)


def test_a_signal_deletes_the_slice_at_once(cloud):
    (cloud.folder / "works").touch()
    launcher = subprocess.Popen(
        ["bash", str(SCRIPT), *FLAGS, *RUN],
        env=cloud.environment(),
        cwd=cloud.folder,
        stdin=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        deadline = time.monotonic() + 20
        while sequence(cloud).count(REMOTE) < 2:
            assert time.monotonic() < deadline
            time.sleep(0.1)
        launcher.terminate()
        assert launcher.wait(timeout=20) == 143
    finally:
        if launcher.poll() is None:
            launcher.kill()
    assert sequence(cloud)[-1] == DELETE


def test_dry_run_prints_every_command_and_runs_none(cloud):
    done = cloud.run(SCRIPT, *FLAGS, "--dry_run", *RUN)
    assert done.returncode == 0, done.stderr
    assert cloud.calls() == []
    steps = (
        "tar ",
        CREATE,
        "queued-resources describe",
        SEND,
        REMOTE,
        REMOTE,
        "mkdir",
        FETCH,
        DELETE,
    )
    lines = done.stdout.splitlines()
    assert len(lines) == len(steps)
    for line, step in zip(lines, steps, strict=True):
        assert step in line


@pytest.mark.parametrize("missing", ["project", "zone", "accelerator_type", "output_dir"])
def test_a_missing_flag_is_named(cloud, missing):
    flags = [flag for flag in FLAGS if not flag.startswith(f"--{missing}")]
    done = cloud.run(SCRIPT, *flags, *RUN)
    assert done.returncode == 2
    assert f"--{missing} is missing" in done.stderr
    assert cloud.calls() == []


@pytest.mark.parametrize(
    ("flag", "message"),
    [
        ("--output_dir=/tmp/runs", "not a gs:// address"),
        ("--provisioning=cheap", "spot, on_demand or reserved"),
        ("--accelerator_type=v9-8", "--runtime_version"),
        ("--gin_file=a.gin", "come after --"),
    ],
)
def test_a_wrong_flag_is_refused(cloud, flag, message):
    done = cloud.run(SCRIPT, *FLAGS, flag, *RUN)
    assert done.returncode == 2
    assert message in done.stderr
    assert cloud.calls() == []
