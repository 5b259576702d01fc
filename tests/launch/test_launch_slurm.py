"""launch/slurm.sbatch: as a submitter, and as the job itself under stub srun and scontrol."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "launch" / "slurm.sbatch"
RUN = ("--", "--gin_file=gin/runs/ul2_20b_mmlu.gin", "--gin.OUTPUT_DIR='/shared/my run'")


@pytest.fixture
def cluster(stubs, copy_of_repository):
    """A repository on the shared file system whose worker does as the file `worker` says."""
    stubs.program("sbatch", "echo 'Submitted batch job 12'")
    # Runs the command as one task, as srun would on a node.
    stubs.program("srun", 'shift; "$@"')
    stubs.program("scontrol")
    worker = copy_of_repository / "launch" / "run_worker.sh"
    worker.write_text(
        'printf "run_worker.sh" >>"$CALLS"; printf "|%s" "$@" >>"$CALLS"; echo >>"$CALLS"\n'
        'if [ "$1" = --install_only ]; then exit 0; fi\n'
        'echo "platform $PLATFORM install ${SKIP_INSTALL:-yes}"\nexit "$(cat "$STATE/worker")"\n'
    )
    stubs.queue("worker", "0")
    stubs.spool = stubs.folder / "spool" / "slurm_script"
    stubs.spool.parent.mkdir()
    shutil.copy(SCRIPT, stubs.spool)
    stubs.job = {"SLURM_JOB_ID": "12", "SLURM_SUBMIT_DIR": str(copy_of_repository)}
    return stubs


def names(cluster) -> list[str]:
    return [call[0] for call in cluster.calls()]


def test_on_a_login_node_it_submits_itself(cluster):
    done = cluster.run(SCRIPT, "--nodes=2", "--partition=gpu", *RUN)
    assert done.returncode == 0, done.stderr
    assert cluster.calls() == [
        ["sbatch", "--nodes=2", "--partition=gpu", "launch/slurm.sbatch", *RUN]
    ]


def test_the_job_installs_once_and_runs_the_workers(cluster):
    done = cluster.run(cluster.spool, *RUN, **cluster.job)
    assert done.returncode == 0, done.stderr
    assert names(cluster) == ["run_worker.sh", "srun", "run_worker.sh"]
    assert cluster.calls()[0][1:] == ["--install_only"]
    assert cluster.calls()[2][1:] == list(RUN[1:])
    assert "platform cuda install 1" in done.stdout


def test_a_preempted_job_goes_back_into_the_queue(cluster, copy_of_repository):
    cluster.queue("worker", "75")
    done = cluster.run(cluster.spool, *RUN, **cluster.job)
    assert done.returncode == 75
    assert cluster.calls()[-1] == ["scontrol", "requeue", "12"]
    assert not list(copy_of_repository.glob("*.preempted"))


def test_preemption_is_seen_behind_a_peer_that_died(cluster):
    """srun reports the highest status: one worker ends with 75, its peer is killed (137)."""
    cluster.program("srun", 'shift; "$@"; exit 137')
    cluster.queue("worker", "75")
    assert cluster.run(cluster.spool, *RUN, **cluster.job).returncode == 75
    assert cluster.calls()[-1] == ["scontrol", "requeue", "12"]


def test_requeueing_is_limited(cluster):
    cluster.queue("worker", "75")
    variables = {**cluster.job, "SLURM_RESTART_COUNT": "3", "MAX_RESTARTS": "3"}
    done = cluster.run(cluster.spool, *RUN, **variables)
    assert done.returncode == 75
    assert "scontrol" not in names(cluster)
    assert "3 restarts are used up" in done.stderr


def test_a_failed_job_is_not_requeued(cluster):
    cluster.queue("worker", "2")
    done = cluster.run(cluster.spool, *RUN, **cluster.job)
    assert done.returncode == 2
    assert "scontrol" not in names(cluster)
    assert "failed with status 2" in done.stderr


def test_a_job_submitted_from_elsewhere_says_so(cluster):
    done = cluster.run(cluster.spool, *RUN, SLURM_JOB_ID="12", SLURM_SUBMIT_DIR=str(cluster.folder))
    assert done.returncode == 2
    assert "is not the repository" in done.stderr


def test_dry_run_prints_every_command_and_runs_none(cluster):
    done = cluster.run(SCRIPT, "--dry_run", "--nodes=2", *RUN)
    assert done.returncode == 0, done.stderr
    assert cluster.calls() == []
    submit, install, run = done.stdout.splitlines()
    assert submit.startswith("sbatch --nodes=2 launch/slurm.sbatch --")
    assert install == "bash launch/run_worker.sh --install_only"
    assert run.startswith("srun ")


def test_nothing_to_score_is_refused(cluster):
    done = cluster.run(SCRIPT, "--nodes=2")
    assert done.returncode == 2
    assert "--gin_file" in done.stderr
