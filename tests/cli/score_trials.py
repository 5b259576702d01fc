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


def at_call(
    owner: object,
    name: str,
    count: int,
    number: signal.Signals,
    counts: Callable[..., bool] = lambda *args: True,
) -> None:
    """Makes this process send itself a signal before the n-th call of owner.name that counts."""
    real, done = getattr(owner, name), 0

    def call(*args, **kwargs):
        nonlocal done
        done += counts(*args)
        if done == count and counts(*args):
            die(number)
        return real(*args, **kwargs)

    setattr(owner, name, call)


def at_shard(count: int, number: signal.Signals) -> None:
    """Before the first step of the n-th shard that this start scores."""
    from mlm_consistency.scoring import loop

    at_call(loop.ScoringLoop, "_compute", count, number)


def at_publication(count: int, number: signal.Signals) -> None:
    """Before the n-th file of scores is renamed into its place; its examples are there."""
    at_call(os, "replace", count, number, lambda old, new: new.endswith(".scores.parquet"))


def while_surveying(count: int, number: signal.Signals) -> None:
    """Before the n-th text is tokenised."""
    from mlm_consistency.vocabularies.sentence_piece import SentencePieceVocabulary

    at_call(SentencePieceVocabulary, "encode", count, number)


def before_complete(number: signal.Signals) -> None:
    """When every shard is written and nothing has been verified."""
    from mlm_consistency.records import writer

    at_call(writer.verify, "verify", 1, number)


# Each chain is one run: the starts in turn, with the shards that are whole when each has ended.
KILLED: dict[str, tuple[Callable[[], None], int]] = {
    "between examples and scores": (lambda: at_publication(2, signal.SIGKILL), 1),
    "last publication": (lambda: at_publication(5, signal.SIGKILL), 5),
    "before complete": (lambda: before_complete(signal.SIGKILL), 6),
}
PREEMPTED: dict[str, tuple[Callable[[], None], int]] = {
    "surveying": (lambda: while_surveying(20, signal.SIGTERM), 0),
    "third shard": (lambda: at_shard(3, signal.SIGTERM), 2),
    "publishing": (lambda: at_publication(2, signal.SIGTERM), 4),
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


def chain(folder: Path, kind: str, trials: dict[str, tuple[Callable[[], None], int]]) -> None:
    """One run, ended at each point in turn and started again."""
    run = folder / kind
    flags = arguments(folder, OUTPUT_DIR=run)
    for name, (prepare, _) in trials.items():
        status = ended(start(flags, prepare))
        report(trial=kind, name=name, status=status, whole=shards_in(run))
    report(trial=kind, name="to the end", status=ended(start(flags)), whole=shards_in(run))


def chaos(folder: Path, kills: int, duration: float, seed: int = 0) -> None:
    """One run, ended at random moments until it has been ended often enough, then left alone."""
    rng = random.Random(seed)
    flags = arguments(folder, OUTPUT_DIR=folder / "chaos")
    for _ in range(kills):
        pid = start(flags)
        time.sleep(rng.uniform(0.1, 0.9) * duration)
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, rng.choice([signal.SIGKILL, signal.SIGTERM]))
        report(trial="chaos", name="random", status=ended(pid))
    report(trial="chaos", name="to the end", status=ended(start(flags)))


def main(folder: Path, kills: int) -> None:
    for module in HEAVY:
        importlib.import_module(module)
    began = time.monotonic()
    status = ended(start(arguments(folder, OUTPUT_DIR=folder / "unbroken")))
    duration = time.monotonic() - began
    report(trial="unbroken", name="to the end", status=status)
    chain(folder, "killed", KILLED)
    chain(folder, "preempted", PREEMPTED)
    chaos(folder, kills, duration)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
