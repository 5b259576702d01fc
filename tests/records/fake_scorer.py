"""A scoring loop without a model: seeded scores for seeded examples, written as records.

Run as a program it writes a run again and again in processes of its own, each killed (SIGKILL) by
itself at its n-th file operation, for every n: `python fake_scorer.py FOLDER`. The programs print
a line per trial. Processes are forked before any table has been made, so a trial costs no import.
"""

from __future__ import annotations

import dataclasses
import os
import signal
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa

from mlm_consistency.records import Manifest, RunWriter, TaskEntry

CONDITIONALS = ("baseline", "offset_1", "span_3_5_1")
TASKS = {"stories": (11, 3), "quiz:hard": (4, 1)}  # examples, shards


@dataclasses.dataclass(frozen=True)
class Example:
    index: int
    id: str
    subject: str
    prompt: str
    candidate_texts: tuple[str, ...]
    labels: tuple[int, ...]
    candidates: tuple[np.ndarray, ...]
    prompt_ids: dict[str, np.ndarray]
    masked: tuple[object, ...]


@dataclasses.dataclass(frozen=True)
class Masked:
    encoder: np.ndarray
    prefix: np.ndarray


@dataclasses.dataclass(frozen=True)
class NotApplicable:
    reason: str


@dataclasses.dataclass(frozen=True)
class Shard:
    task: str
    shard: int
    examples: list[Example]
    token_log_probs: list


class Vocabulary:
    def pieces(self, ids):
        return [f"▁{i}" for i in ids]


def example(task: str, index: int) -> Example:
    rng = np.random.default_rng([index, len(task)])
    count = int(rng.integers(2, 5))
    candidates = tuple(
        rng.integers(2, 90, size=rng.integers(1, 4)).astype(np.int32) for _ in range(count)
    )
    prompt = rng.integers(2, 90, size=rng.integers(4, 20)).astype(np.int32)
    masked = [Masked(prompt, prompt[:0])] * (len(CONDITIONALS) - 1)
    fits = len(prompt) >= 9
    last = Masked(prompt, prompt[:3]) if fits else NotApplicable(f"{len(prompt)} tokens, needs 9")
    return Example(
        index=index,
        id=f"{task}/{index}",
        subject=("astronomy", "marketing")[index % 2],
        prompt=f"question {index} <script>",
        candidate_texts=tuple(f"answer {c}" for c in range(count)),
        labels=(int(rng.integers(count)),),
        candidates=candidates,
        prompt_ids={"": prompt},
        masked=(*masked, last),
    )


def shard_of(task: str, shard: int) -> Shard:
    total, shards = TASKS[task]
    examples = [example(task, i) for i in range(shard, total, shards)]
    scores = []
    for e in examples:
        rng = np.random.default_rng([e.index, 7])
        scores.append(
            [
                None
                if isinstance(m, NotApplicable)
                else [-rng.exponential(size=len(c)).astype(np.float32) for c in e.candidates]
                for m in e.masked
            ]
        )
    return Shard(task, shard, examples, scores)


def manifest(**changes) -> Manifest:
    values = {
        "model": {"name": "fake", "d_model": 8},
        "checkpoint": "c0ffee",
        "vocabulary": "abc",
        "conditionals": CONDITIONALS,
        "tasks": {t: TaskEntry(n, s, {"too long": 1}) for t, (n, s) in TASKS.items()},
        "packing": {"row_lengths": [64, 128]},
        "device": "cpu",
        "mesh": {"data": 1, "model": 1},
        **changes,
    }
    return Manifest(**values)


def write_run(folder: Path, pause: float = 0.0, **changes) -> list[tuple[str, int]]:
    """The loop that a real run has; returns the shards that it scored itself."""
    writer = RunWriter(folder, manifest(**changes))
    scored = []
    for task, (_, shards) in TASKS.items():
        for shard in range(shards):
            if shard in writer.finished(task):
                continue
            writer.write(shard_of(task, shard), Vocabulary())
            scored.append((task, shard))
            if pause:
                print(f"shard {len(scored)}", flush=True)
                time.sleep(pause)
    writer.complete({task: n for task, (n, _) in TASKS.items()})
    return scored


def kill_at(operation: int) -> None:
    """Makes this process kill itself at its n-th file operation, before, amid or after it."""
    done = 0

    def counted(name):
        real = getattr(os, name)

        def call(*args, **kwargs):
            nonlocal done
            done += 1
            if done == operation:
                os.kill(os.getpid(), signal.SIGKILL)
            return real(*args, **kwargs)

        return call

    for name in ("fsync", "replace"):
        setattr(os, name, counted(name))


def in_fork(action) -> int:
    """Runs `action` in a process of its own; returns the signal that ended it, or 0."""
    pid = os.fork()
    if pid == 0:
        try:
            action()
        except BaseException as error:
            print(f"failed: {error!r}", flush=True)
            os._exit(1)
        os._exit(0)
    _, status = os.waitpid(pid, 0)
    if os.WIFSIGNALED(status):
        return os.WTERMSIG(status)
    if os.WEXITSTATUS(status):
        raise RuntimeError("the trial failed")
    return 0


def main(folder: Path) -> None:
    pa.array([0])  # imports what pyarrow imports at its first use, once for all trials
    in_fork(lambda: write_run(folder / "unbroken"))
    for operation in range(1, 1000):
        run = folder / f"killed_{operation:03d}"

        def broken(run=run, operation=operation):
            kill_at(operation)
            write_run(run)

        if in_fork(broken) != signal.SIGKILL:
            print("end", flush=True)
            return
        before = len(list(run.glob("records/*.scores.parquet")))
        in_fork(lambda run=run, before=before: print("resumed", before, len(write_run(run))))
    raise RuntimeError("no trial ran to its end")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
