"""launch/xpk.sh and launch/gke.sh against stub xpk, kubectl and gcloud."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from launch_stubs import NEXT_OF

LAUNCH = Path(__file__).resolve().parents[2] / "launch"
OUTPUT = "--output_dir=gs://bucket/runs/ul2"
RUN = ("--", "--gin_file=gin/runs/ul2_20b_mmlu.gin", '--gin.NAME="a\\b & c"')

XPK_FLAGS = (
    "--project=p1", "--zone=z1", "--cluster=c1", "--tpu_type=v5litepod-16", "--image=i1", OUTPUT,
)  # fmt: skip
XPK = """
case "$*" in
  *wait-for*) exit "$(cat "$STATE/ends")" ;;
  *create*) exit "$(cat "$STATE/creates")" ;;
esac
"""

GKE_FLAGS = (
    "--image=i1:latest", "--accelerator=tpu-v5-lite-podslice", "--topology=4x4", "--workers=4",
    OUTPUT, "--poll_seconds=0",
)  # fmt: skip
KUBECTL = (
    NEXT_OF
    + r"""
case "$*" in
  *create*) cp "${@: -1}" "$STATE/applied.yaml"; exit "$(cat "$STATE/creates")" ;;
  *terminalState*)
    state="$(next_of states)"
    if [ "$state" = unreachable ]; then exit 1; fi
    printf %s "$state" ;;
  *restarts*) next_of restarts ;;
esac
"""
)


@pytest.fixture
def cluster(stubs):
    stubs.program("xpk", XPK)
    stubs.program("kubectl", KUBECTL)
    stubs.program("gcloud")
    stubs.queue("ends", "0")
    stubs.queue("creates", "0")
    stubs.queue("states", "", "", "Completed")
    stubs.queue("restarts", "0")
    return stubs


def test_xpk_creates_waits_fetches_deletes(cluster):
    done = cluster.run("xpk.sh", *XPK_FLAGS, *RUN)
    assert done.returncode == 0, done.stderr
    assert [call[:3] for call in cluster.calls()] == [
        ["xpk", "workload", "create"],
        ["xpk", "workload", "list"],
        ["gcloud", "storage", "rsync"],
        ["xpk", "workload", "delete"],
    ]
    create = cluster.calls()[0]
    # Preemption is Kubernetes' to answer: 75 restarts all workers.
    assert {"--max-restarts=20", "--restart-on-exit-codes=75", "--docker-image=i1"} <= set(create)
    (command,) = [word for word in create if word.startswith("--command=")]
    assert "launch/run_worker.sh --gin_file=gin/runs/ul2_20b_mmlu.gin" in command
    assert "gs://bucket/runs/ul2" in command


def test_xpk_says_when_the_workload_failed_and_cleans_up(cluster):
    cluster.queue("ends", "125")
    done = cluster.run("xpk.sh", *XPK_FLAGS, *RUN)
    assert done.returncode == 1
    assert "the workload failed" in done.stderr
    assert [call[2] for call in cluster.calls()] == ["create", "list", "delete"]


def test_gke_fills_in_the_file_waits_fetches_deletes(cluster):
    done = cluster.run("gke.sh", *GKE_FLAGS, *RUN)
    assert done.returncode == 0, done.stderr
    verbs = [next(v for v in call[1:] if not v.startswith("-")) for call in cluster.calls()]
    assert verbs[0] == "create"
    assert set(verbs[1:-2]) == {"get"}
    assert verbs[-2:] == ["storage", "delete"]

    job = yaml.safe_load((cluster.folder / "applied.yaml").read_text())
    assert job["kind"] == "JobSet"
    workers = job["spec"]["replicatedJobs"][0]["template"]["spec"]
    assert workers["completions"] == workers["parallelism"] == 4
    (container,) = workers["template"]["spec"]["containers"]
    assert container["args"] == [*RUN[1:], "--gin.OUTPUT_DIR='gs://bucket/runs/ul2'"]
    assert container["resources"]["limits"] == {"google.com/tpu": 4}
    # Preempted workers, and those alone, start again without being counted.
    preempted, disrupted = workers["podFailurePolicy"]["rules"]
    assert preempted["onExitCodes"]["values"] == [75]
    assert disrupted["onPodConditions"][0]["type"] == "DisruptionTarget"
    assert job["spec"]["failurePolicy"]["rules"][0]["action"] == "RestartJobSetAndIgnoreMaxRestarts"
    assert job["spec"]["failurePolicy"]["maxRestarts"] == 3


def test_gke_tells_of_restarts_and_lives_through_a_lost_connection(cluster):
    cluster.queue("states", "", "unreachable", "unreachable", "", "Completed")
    cluster.queue("restarts", "0", "1")
    done = cluster.run("gke.sh", *GKE_FLAGS, *RUN)
    assert done.returncode == 0, done.stderr
    assert "started again (1)" in done.stderr


def test_gke_shows_the_logs_of_a_failed_run(cluster):
    cluster.queue("states", "", "Failed")
    done = cluster.run("gke.sh", *GKE_FLAGS, *RUN)
    assert done.returncode == 1
    assert "the run failed" in done.stderr
    tail = [next(v for v in call[1:] if not v.startswith("-")) for call in cluster.calls()][-2:]
    assert tail == ["logs", "delete"]


def test_gke_leaves_a_job_of_the_same_name_alone(cluster):
    cluster.queue("creates", "1")
    done = cluster.run("gke.sh", *GKE_FLAGS, *RUN)
    assert done.returncode == 2
    assert len(cluster.calls()) == 1


@pytest.mark.parametrize(("script", "flags"), [("xpk.sh", XPK_FLAGS), ("gke.sh", GKE_FLAGS)])
def test_dry_run_prints_every_command_and_runs_none(cluster, script, flags):
    done = cluster.run(script, *flags, "--dry_run", *RUN)
    assert done.returncode == 0, done.stderr
    assert cluster.calls() == []
    for step in ("create", "gcloud storage rsync", "delete"):
        assert step in done.stdout


XPK_NEEDS = ("project", "zone", "cluster", "tpu_type", "image", "output_dir")
GKE_NEEDS = ("image", "accelerator", "topology", "workers", "output_dir")


@pytest.mark.parametrize(
    ("script", "flags", "missing"),
    [("xpk.sh", XPK_FLAGS, flag) for flag in XPK_NEEDS]
    + [("gke.sh", GKE_FLAGS, flag) for flag in GKE_NEEDS],
)
def test_a_missing_flag_is_named(cluster, script, flags, missing):
    done = cluster.run(script, *[f for f in flags if not f.startswith(f"--{missing}")], *RUN)
    assert done.returncode == 2
    assert f"--{missing} is missing" in done.stderr
    assert cluster.calls() == []
