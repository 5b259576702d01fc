"""Who a process is: flags, variables, and the environments that start several processes."""

from __future__ import annotations

import argparse
import subprocess
import sys
import threading

import pytest

from mlm_consistency.cli import process_config as settings
from mlm_consistency.cli import processes
from mlm_consistency.cli.preemption import Preempted
from mlm_consistency.cli.process_config import ProcessConfig, add_flags, detect, process_config
from mlm_consistency.cli.processes import Processes, start
from mlm_consistency.cli.roll_call import End, RunEndedError
from mlm_consistency.errors import ConfigError, DataError

STEP = {
    "SLURM_JOB_ID": "7", "SLURM_NTASKS": "8", "SLURM_PROCID": "3", "SLURM_LOCALID": "3",
    "SLURM_STEP_NODELIST": "node[1-2]", "SLURM_STEP_NUM_TASKS": "8",
}  # fmt: skip


def flags(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_flags(parser)
    return parser.parse_args(words)


def test_flags_and_variables():
    all_three = flags("--coordinator_address=h:12", "--num_processes=4", "--process_id=3")
    assert process_config(all_three, {}) == ProcessConfig("h:12", 4, 3)
    variables = {
        "JAX_COORDINATOR_ADDRESS": "h:13", "JAX_NUM_PROCESSES": "2", "JAX_PROCESS_ID": "0",
    }  # fmt: skip
    assert process_config(flags(), variables) == ProcessConfig("h:13", 2, 0)
    assert process_config(flags("--process_id=1"), variables) == ProcessConfig("h:13", 2, 1)
    assert process_config(flags(), {}) == ProcessConfig()
    assert not process_config(flags(), {}).several
    assert process_config(flags(), STEP) == ProcessConfig(found_by="slurm")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--process_id=1",), "--coordinator_address, --num_processes missing"),
        (
            ("--coordinator_address=h:1", "--num_processes=2", "--process_id=2"),
            "0 to --num_processes - 1, came 2 of 2",
        ),
        (("--coordinator_address=h", "--num_processes=2", "--process_id=0"), "must be HOST:PORT"),
    ],
)
def test_what_is_missing_or_wrong_is_named(words, message):
    with pytest.raises(ConfigError, match=message):
        process_config(flags(*words), {})


def test_a_variable_that_is_no_number():
    with pytest.raises(ConfigError, match="JAX_NUM_PROCESSES must be a whole number, came 'two'"):
        process_config(flags(), {"JAX_NUM_PROCESSES": "two"})


def test_slurm_only_in_a_step_of_several_tasks():
    assert detect(STEP) == "slurm"
    batch_script = {k: v for k, v in STEP.items() if not k.startswith("SLURM_STEP")}
    assert detect(batch_script) == ""
    assert detect({**STEP, "SLURM_STEP_NUM_TASKS": "1"}) == ""


@pytest.mark.parametrize(
    ("environment", "found"),
    [
        ({}, "gcetpu"),
        ({"TPU_WORKER_HOSTNAMES": "a,b,c,d", "TPU_WORKER_ID": "1"}, "gketpu"),
        ({"TPU_WORKER_HOSTNAMES": "localhost"}, ""),
        ({"TPU_WORKER_HOSTNAMES": "a", "MEGASCALE_NUM_SLICES": "2"}, "gketpu"),
        ({"TPU_SKIP_MDS_QUERY": "1"}, ""),
        ({"JAX_PLATFORMS": "tpu,cpu"}, "gcetpu"),
        ({"JAX_PLATFORMS": "cpu"}, ""),
    ],
)
def test_tpu_slices(monkeypatch, tmp_path, environment, found):
    device = tmp_path / "accel0"
    device.touch()
    monkeypatch.setattr(settings, "TPU_DEVICES", (str(device),))
    monkeypatch.setattr(settings.importlib.util, "find_spec", lambda name: name == "libtpu")
    assert detect(environment) == found
    device.unlink()
    assert detect(environment) == "", "libtpu alone is no TPU"


def test_one_process_is_the_plain_case(capsys):
    team = start(ProcessConfig())
    assert (team.index, team.count, team.leads, team.end) == (0, 1, True, None)
    assert team.meet({"a": 1}) == {"a": 1}
    assert team.run(lambda: 75) == 75
    team.say("hello")
    assert capsys.readouterr().err == "hello\n"


class Told:
    """A roll call that says what it is told to."""

    def __init__(self, end: End | None = None) -> None:
        self.end, self.left = end, []

    def verdict(self, seconds):
        return self.end

    def meet(self, value=None, last=False):
        if self.end:
            raise RunEndedError(self.end)
        return value

    def leave(self, status, why):
        self.left.append((status, why))


@pytest.fixture
def member(monkeypatch):
    monkeypatch.setattr(processes.atexit, "register", lambda *args: None)
    made = Processes(1, 2)
    made.roll_call = Told()
    return made


def fails(error):
    def work():
        raise error

    return work


@pytest.mark.parametrize(
    ("error", "status", "words"),
    [
        (DataError("line 3 is empty"), 2, "line 3 is empty"),
        (ZeroDivisionError("bug"), 1, "ZeroDivisionError('bug')"),
        (Preempted(), 75, "process 1 was stopped by SIGTERM"),
    ],
)
def test_an_error_here_is_told_and_raised(member, error, status, words):
    with pytest.raises(type(error)):
        member.run(fails(error))
    ((told, why),) = member.roll_call.left
    assert told == status
    assert words in why


def test_the_end_of_another_gives_its_status(member, capsys):
    member.roll_call.end = End(0, 2, "process 0 on h failed: disk full")
    assert member.run(fails(ValueError("Gloo all-reduce failed"))) == 2
    assert member.run(lambda: 75) == 2
    assert member.run(lambda: 0) == 2
    assert capsys.readouterr().err.count("process 0 on h failed: disk full") == 3


def test_only_process_0_prints(member, capsys):
    member.say("hello")
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("leads", [True, False])
def test_only_process_0_analyses_and_reports(monkeypatch, leads):
    from mlm_consistency.cli import run

    done = []
    monkeypatch.setattr(run, "start", lambda config: Processes(0 if leads else 1, 1))
    monkeypatch.setattr(run, "score", lambda *args, team, **kw: done.append(team.index) or 0)
    monkeypatch.setattr(run, "analyze", lambda *args: done.append("analyze"))
    monkeypatch.setattr(run, "report", lambda *args: done.append("report"))
    run.run(["--gin_file=gin/runs/tiny_stories.gin"])
    assert done == ([0, "analyze", "report"] if leads else [1])


def test_who_does_not_come_is_waited_for_no_longer_than_that(monkeypatch):
    """Status 75: a machine may only be late."""
    monkeypatch.setattr(processes, "START_TIMEOUT", 0.3)
    monkeypatch.setattr(processes.atexit, "register", lambda *args: None)
    monkeypatch.setattr(processes, "_join", lambda config, team: threading.Event().wait(5))
    with pytest.raises(RunEndedError, match=r"have not come together within 0\.3 s") as caught:
        start(ProcessConfig("h:1", 2, 1))
    assert caught.value.exit_status == 75


def test_who_is_killed_while_starting_does_not_end_the_launch(monkeypatch):
    """JAX's service fails then; what cannot be mended by starting again is status 2."""
    import jax

    def initialize(*args, **kwargs):
        raise failure

    monkeypatch.setattr(jax.distributed, "initialize", initialize)
    monkeypatch.setattr(processes.atexit, "register", lambda *args: None)
    failure = jax.errors.JaxRuntimeError("UNAVAILABLE: task 1 stopped sending heartbeats")
    with pytest.raises(RunEndedError, match=r"killed while starting: UNAVAIL") as caught:
        start(ProcessConfig("h:1", 2, 1))
    assert caught.value.exit_status == 75
    failure = ValueError("coordinator_address should be defined")
    with pytest.raises(ConfigError, match="coordinator_address should be defined"):
        start(ProcessConfig("h:1", 2, 1))


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="aborts are delayed on Linux")
def test_an_abort_leaves_time_to_end_with_the_right_status():
    program = (
        "import ctypes, os, threading, time\n"
        "from mlm_consistency.cli.processes import _delay_aborts\n"
        "_delay_aborts()\n"
        "threading.Thread(target=ctypes.CDLL(None).abort, daemon=True).start()\n"
        "time.sleep(0.5)\n"
        "os._exit(75)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], timeout=120, check=False)
    assert done.returncode == 75
