"""Runs of `mlm-consistency score` in processes of their own, killed and started again.

    python score_trials.py FOLDER KILLS     prints one JSON line a trial

Each trial is a fork of this program, taken after TensorFlow and JAX have been imported and before
JAX has looked for devices, so that a start costs a second and not ten. The kills are real ones.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import random
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

from command_line import arguments

HEAVY = (
    "jax", "flax.linen", "tensorstore", "pyarrow.parquet", "seqio", "tensorflow",
    "mlm_consistency.cli.score", "mlm_consistency.tasks.seqio_tasks",
    "mlm_consistency.checkpoints.restore", "mlm_consistency.checkpoints.t5x",
    "mlm_consistency.scoring.loop", "mlm_consistency.scoring.step", "mlm_consistency.records",
)  # fmt: skip
SHARDS = 6  # of 8 questions each


def die(number: signal.Signals) -> None:
    os.kill(os.getpid(), number)
    time.sleep(0.2 if number == signal.SIGTERM else 60)  # SIGTERM comes back to a handler


def at_call(owner: object, name: str, count: int, number: signal.Signals) -> None:
    """Makes this process send itself a signal before the n-th call of owner.name."""
    real, done = getattr(owner, name), 0

    def call(*args, **kwargs):
        nonlocal done
        done += 1
        if done == count:
            die(number)
        return real(*args, **kwargs)

    setattr(owner, name, call)


def at_step(count: int, number: signal.Signals) -> None:
    """Before the n-th step that is sent to the device."""
    from mlm_consistency.scoring import loop

    at_call(loop.ScoringLoop, "_global", count, number)


def at_publication(count: int, number: signal.Signals) -> None:
    """Before the n-th file is renamed into its place."""
    at_call(os, "replace", count, number)


def while_loading(count: int, number: signal.Signals) -> None:
    """Before the n-th parameter is read from the checkpoint."""
    from mlm_consistency.checkpoints import restore

    at_call(restore, "_array", count, number)


def while_surveying(count: int, number: signal.Signals) -> None:
    """Before the n-th text is tokenised."""
    from mlm_consistency.vocabularies.sentence_piece import SentencePieceVocabulary

    at_call(SentencePieceVocabulary, "encode", count, number)


def before_complete(count: int, number: signal.Signals) -> None:
    """When every shard is written and nothing has been verified."""
    from mlm_consistency.records import writer

    at_call(writer.verify, "verify", count, number)


# The manifest, config.gin, then note, examples and scores of each shard are renamed into place.
KILLED: dict[str, Callable[[], None]] = {
    "loading": lambda: while_loading(3, signal.SIGKILL),
    "first step": lambda: at_step(1, signal.SIGKILL),
    "between examples and scores": lambda: at_publication(2 + 3 * 2, signal.SIGKILL),
    "last publication": lambda: at_publication(2 + 3 * SHARDS, signal.SIGKILL),
    "before complete": lambda: before_complete(1, signal.SIGKILL),
}
PREEMPTED: dict[str, Callable[[], None]] = {
    "surveying": lambda: while_surveying(20, signal.SIGTERM),
    "loading": lambda: while_loading(3, signal.SIGTERM),
    "step of the third shard": lambda: at_step(6, signal.SIGTERM),
    "publishing": lambda: at_publication(2 + 3 * 4, signal.SIGTERM),
}


def start(flags: list[str], prepare: Callable[[], None] | None = None) -> int:
    """Forks a process that scores; returns its number."""
    pid = os.fork()
    if pid:
        return pid
    try:
        from mlm_consistency.cli.main import main

        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        if prepare:
            prepare()
        status = main(["score", *flags])
    except BaseException as error:
        print(f"trial failed: {error!r}", file=sys.stderr, flush=True)
        status = 99
    os._exit(status)


def ended(pid: int) -> int:
    """Exit status, or minus the signal that ended it."""
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def shards_in(run: Path) -> int:
    return len(list(run.glob("records/*.scores.parquet")))


def report(**values) -> None:
    print(json.dumps(values), flush=True)


def trial(folder: Path, kind: str, name: str, prepare: Callable[[], None]) -> None:
    run = folder / f"{kind}_{name.replace(' ', '_')}"
    flags = arguments(folder, OUTPUT_DIR=run)
    first = ended(start(flags, prepare))
    whole = shards_in(run)
    report(
        trial=kind, name=name, run=str(run), first=first, whole=whole, second=ended(start(flags))
    )


def chaos(folder: Path, kills: int, seed: int = 0) -> None:
    """One run, ended at random moments until it has been ended often enough, then left alone."""
    rng = random.Random(seed)
    run = folder / "chaos"
    flags = arguments(folder, OUTPUT_DIR=run)
    began = time.monotonic()
    ended(start(arguments(folder, OUTPUT_DIR=folder / "timed")))
    duration = time.monotonic() - began
    statuses = []
    for _ in range(kills):
        pid = start(flags)
        time.sleep(rng.uniform(0.1, 0.9) * duration)
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, rng.choice([signal.SIGKILL, signal.SIGTERM]))
        statuses.append(ended(pid))
    report(trial="chaos", run=str(run), statuses=statuses, last=ended(start(flags)))


def main(folder: Path, kills: int) -> None:
    for module in HEAVY:
        importlib.import_module(module)
    report(trial="unbroken", first=ended(start(arguments(folder, OUTPUT_DIR=folder / "unbroken"))))
    for name, prepare in KILLED.items():
        trial(folder, "killed", name, prepare)
    for name, prepare in PREEMPTED.items():
        trial(folder, "preempted", name, prepare)
    chaos(folder, kills)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
