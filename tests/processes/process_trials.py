"""Runs of `mlm-consistency score` in several real processes, killed and started again.

    python process_trials.py FOLDER MOMENTS (all | few | chaos)     prints one JSON line a trial

Each process is a fork of this program, taken after JAX has been imported and before it has looked
for devices. They talk over gloo, as processes on several machines would. Examples are read without
seqio, whose TensorFlow would cost more than everything else here; tests/cli reads with it.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib
import json
import os
import random
import signal
import socket
import sys
import time
import types
from collections.abc import Callable
from pathlib import Path

from command_line import arguments

from mlm_consistency.records import open_run

HEAVY = (
    "jax", "flax.linen", "tensorstore", "pyarrow.parquet", "mlm_consistency.cli.score",
    "mlm_consistency.checkpoints.restore", "mlm_consistency.checkpoints.t5x",
    "mlm_consistency.scoring.loop", "mlm_consistency.scoring.step", "mlm_consistency.records",
    "mlm_consistency.tasks",
)  # fmt: skip
SHARDS = 11  # of 4 questions each
DEVICES = 4  # of all processes together
DATA, BOTH, ALONE = "(4,1)", "(2,2)", "(1,1)"  # meshes
Prepare = Callable[[int], None]  # gets the number of the process


def kill_at_step(
    process: int, count: int, number: signal.Signals, after: Path | None = None
) -> Prepare:
    """One process sends itself a signal before the n-th step that it sends to its device, and not
    before a file is there: groups of processes that share a model axis do not wait for others."""

    def prepare(index: int) -> None:
        if index != process:
            return
        from mlm_consistency.scoring import loop

        real, done = loop.ScoringLoop._global, 0

        def call(*args):
            nonlocal done
            done += 1
            if done == count:
                deadline = time.monotonic() + 60
                while after and not after.exists() and time.monotonic() < deadline:
                    time.sleep(0.01)
                os.kill(os.getpid(), number)
                time.sleep(0.2 if number == signal.SIGTERM else 60)
            return real(*args)

        loop.ScoringLoop._global = call

    return prepare


def fail_in_survey(process: int) -> Prepare:
    """One process finds its data damaged."""

    def prepare(index: int) -> None:
        if index == process:
            from mlm_consistency.cli import score
            from mlm_consistency.errors import DataError

            def survey(*args):
                raise DataError("questions.jsonl line 3: only here")

            score.survey = survey

    return prepare


def full_disk(process: int) -> Prepare:
    """The disk of one process is full when it has written two shards."""

    def prepare(index: int) -> None:
        if index == process:
            from mlm_consistency.records import storage

            real = storage._publish_local

            def publish(path, data):
                if "00005-of" in path:
                    raise OSError(28, "No space left on device")
                real(path, data)

            storage._publish_local = publish

    return prepare


def read_without_seqio() -> None:
    """Puts the tasks' own pass in the place of seqio's, which gives the same examples."""
    from mlm_consistency.tasks import load_task

    module = types.ModuleType("mlm_consistency.tasks.seqio_input")

    def examples(config, vocabulary, conditionals, mode, family):
        return iter(load_task(config).encoded_examples(vocabulary, conditionals, mode, family))

    module.seqio_examples = examples
    sys.modules[module.__name__] = module


class Team:
    """The processes of one start."""

    def __init__(
        self,
        folder: Path,
        run: Path,
        count: int,
        mesh: str = DATA,
        prepare: Prepare | None = None,
    ) -> None:
        self.flags = arguments(
            folder,
            OUTPUT_DIR=run,
            MESH_SHAPE=mesh,
            packing__examples_per_shard=4,
            packing__row_lengths="(192,)",
            TENSORBOARD=False,  # it would bring TensorFlow
        )
        devices = 1 if mesh == ALONE else DEVICES
        self.run, self.count, self.per_process = run, count, devices // count
        self.prepare = prepare
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.log = run.with_suffix(f".{time.monotonic_ns()}")
        self.began = time.monotonic()
        self.pids = [self._fork(index) for index in range(count)]

    def _fork(self, index: int) -> int:
        pid = os.fork()
        if pid:
            return pid
        try:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            out = os.open(f"{self.log}.{index}", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(out, 2)
            import jax

            from mlm_consistency.cli import processes
            from mlm_consistency.cli.main import main

            # Where one is killed before all have come together, nobody can tell it from a late one.
            processes.START_TIMEOUT = 50

            jax.config.update("jax_num_cpu_devices", self.per_process)
            if self.prepare:
                self.prepare(index)
            flags = self.flags
            if self.count > 1:
                flags = [
                    *flags, f"--coordinator_address=127.0.0.1:{self.port}",
                    f"--num_processes={self.count}", f"--process_id={index}",
                ]  # fmt: skip
            status = main(["score", *flags])
            atexit._run_exitfuncs()  # as at the end of a program
        except BaseException as error:
            print(f"trial failed: {error!r}", file=sys.stderr, flush=True)
            status = 99
        os._exit(status)

    def signal(self, index: int, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pids[index], number)


def wait(team: Team) -> dict:
    """Waits for all processes: statuses, seconds from the first end to the last, their words."""
    left = dict(enumerate(team.pids))
    statuses, ends = {}, []
    while left:
        for index, pid in list(left.items()):
            found, status = os.waitpid(pid, os.WNOHANG)
            if found:
                statuses[index] = os.waitstatus_to_exitcode(status)
                ends.append(time.monotonic())
                del left[index]
        time.sleep(0.01)
    return {
        "statuses": [statuses[index] for index in range(team.count)],
        "apart": ends[-1] - ends[0],
        "seconds": ends[-1] - team.began,
        "said": [Path(f"{team.log}.{index}").read_text() for index in range(team.count)],
    }


def report(**values) -> None:
    print(json.dumps(values), flush=True)


def lives(team: Team) -> bool:
    """Whether no process of the team has ended yet."""
    options = os.WEXITED | os.WNOHANG | os.WNOWAIT
    return not any(os.waitid(os.P_PID, pid, options) for pid in team.pids)


def random_moment(rng: random.Random, team: Team) -> None:
    """Waits until a moment of the run, whatever the speed of this machine just now.

    One in four lies in the start; the others a little after one of the next files has come.
    """

    def files() -> int:
        return len(list(team.run.glob("records/*")))

    if rng.random() < 0.25:
        time.sleep(rng.uniform(0, 3))
        return
    until = files() + rng.randint(1, 8)
    while lives(team) and files() < until:
        time.sleep(0.002)
    time.sleep(rng.uniform(0, 0.1))


def chaos(folder: Path, moments: int, seed: int = 0) -> None:
    """Runs on one mesh, in 1, 2 or 4 processes, one of which is ended at a random moment; again
    and again until the run is complete, and then the next run."""
    rng = random.Random(seed)
    runs, starts = [folder / "chaos_0"], []
    for _ in range(moments):
        if (runs[-1] / "manifest.json").exists() and open_run(runs[-1], True).complete:
            runs.append(folder / f"chaos_{len(runs)}")
        team = Team(folder, runs[-1], rng.choice([1, 2, 2, 4] if moments > 9 else [1, 2]))
        random_moment(rng, team)
        number = rng.choice([signal.SIGKILL, signal.SIGTERM])
        team.signal(rng.randrange(team.count), number)
        starts.append({**wait(team), "signal": number.name})
    last = wait(Team(folder, runs[-1], 2))
    report(trial="chaos", runs=[str(run) for run in runs], starts=starts, last=last)


def main(folder: Path, moments: int, what: str) -> None:
    for module in HEAVY:
        importlib.import_module(module)
    read_without_seqio()

    def trial(
        name: str, count: int, again: int = 0, mesh: str = DATA, other: str = "", **options
    ) -> None:
        run = folder / name.replace(" ", "_")
        first = wait(Team(folder, run, count, mesh, **options))
        whole = sorted(int(p.name.split("-")[1]) for p in run.glob("records/*.scores.parquet"))
        second = wait(Team(folder, run, again, other or mesh)) if again else None
        report(trial=name, run=str(run), first=first, whole=whole, second=second)

    trial("one process", 1)
    if what == "chaos":
        chaos(folder, moments)
        return
    if what == "few":
        trial("process 1 killed", 2, 1, prepare=kill_at_step(1, 2, signal.SIGKILL))
        return
    trial("one process, model axis", 1, mesh=BOTH)
    trial("two processes", 2)
    name = "model axis, process 2 killed"
    first = folder / name.replace(" ", "_") / f"records/jsonl-00000-of-{SHARDS:05}.scores.parquet"
    trial(name, 4, 2, BOTH, prepare=kill_at_step(2, 4, signal.SIGKILL, first))
    trial("process 1 killed", 2, 4, prepare=kill_at_step(1, 2, signal.SIGKILL))
    trial("process 0 killed", 2, 1, prepare=kill_at_step(0, 3, signal.SIGKILL), other=ALONE)
    trial("process 1 preempted", 2, 1, prepare=kill_at_step(1, 3, signal.SIGTERM))
    trial("data damaged in process 1", 2, prepare=fail_in_survey(1))
    trial("disk of process 1 full", 2, 1, prepare=full_disk(1))
    chaos(folder, moments)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
