"""A trace of a run shows the loop's own events, not every call of a function."""

from __future__ import annotations

import gzip
import json

from command_line import arguments, save_checkpoint, write_questions

from mlm_consistency.cli.main import main

MAIN = {"score", "wait for device", "wait for input", "write records"}
AHEAD = {"read examples", "pack", "lay out batches"}


def test_a_trace_shows_what_runs_ahead_and_what_waits(tmp_path):
    write_questions(tmp_path / "questions.jsonl", 8)
    checkpoint = save_checkpoint(tmp_path / "checkpoint")
    flags = arguments(tmp_path, CHECKPOINT_PATH=checkpoint, packing__examples_per_shard=4)
    assert main(["score", *flags, f"--profile={tmp_path / 'trace'}"]) == 0
    (path,) = (tmp_path / "trace").rglob("perfetto_trace.json.gz")
    with gzip.open(path) as file:
        events = json.load(file)["traceEvents"]
    threads: dict[str, set] = {}
    for event in (event for event in events if event.get("ph") == "X"):
        threads.setdefault(event["name"].split("#")[0], set()).add(event.get("tid"))
    assert set(threads) >= MAIN | AHEAD
    (main_thread,) = set.union(*(threads[name] for name in MAIN))
    (thread_ahead,) = set.union(*(threads[name] for name in AHEAD))
    assert main_thread != thread_ahead
    assert not any(name.startswith("$") for name in threads), "calls of Python functions"
