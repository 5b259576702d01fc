"""`mlm-consistency benchmark`: speed on a workload file, as ratios in one run."""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any

SIZES = ("tiny", "small", "base")
AGAINST = ("one_at_a_time", "batched")
WORKLOAD_HELP = "a workload file; mmlu: random ids of MMLU's lengths; none: only what packing costs"
DESCRIPTION = """\
Scores a workload with ours and, where torch and transformers are installed, with the two usual
ways, on the same random weights, interleaved; prints medians and ratios. Fails if scores differ
by more than 2e-5 nats. Then, by formula, what packing costs UL2-20B (or --overhead_of) on the
published tasks; without --workload that alone.
"""


def run(argv: list[str]) -> int:
    """The command."""
    parser = argparse.ArgumentParser(
        prog="mlm-consistency benchmark",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--workload", metavar="FILE|mmlu", help=WORKLOAD_HELP)
    parser.add_argument("--size", choices=SIZES, default="tiny")
    parser.add_argument("--against", choices=AGAINST, action="append", default=None)
    parser.add_argument("--no_baselines", action="store_true", help="measure ours alone")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--copies", type=int, default=1, help="of the workload")
    parser.add_argument("--tokens_per_batch", type=int, default=None)
    parser.add_argument("--row_lengths", default="", metavar="A,B", help="instead of the choice")
    parser.add_argument("--overhead_of", default="ul2_20b", metavar="MODEL")
    parser.add_argument("--overhead_on", default="v5e:4x4", metavar="TOPOLOGY")
    parser.add_argument("--output", metavar="FILE.json")
    flags = parser.parse_args(argv)
    hold_to_threads(flags.threads)

    from mlm_consistency.benchmarking.overhead import packing_overhead

    result = _measured(flags) if flags.workload else {}
    rows = packing_overhead(flags.overhead_of, topology=flags.overhead_on)
    result["packing"] = {
        "model": flags.overhead_of,
        "topology": flags.overhead_on,
        "tasks": [row.as_json() for row in rows],
    }
    text = json.dumps(result, indent=1)
    if flags.output:
        Path(flags.output).write_text(text + "\n")
    if flags.workload:
        show(result)
        print()
    show_overhead(result["packing"])
    return 0


def _measured(flags: argparse.Namespace) -> dict[str, Any]:
    """The times of the ways of scoring the workload."""
    from mlm_consistency.benchmarking.benchmark import BenchmarkConfig, known, measure
    from mlm_consistency.benchmarking.workload import load_workload, size_config
    from mlm_consistency.scoring.shapes import PackingConfig

    packing = {}
    if flags.tokens_per_batch:
        packing["tokens_per_batch"] = flags.tokens_per_batch
    if flags.row_lengths:
        packing["row_lengths"] = tuple(map(int, flags.row_lengths.split(",")))
    wanted = () if flags.no_baselines else tuple(flags.against or AGAINST)
    against = known(wanted)
    if wanted and not against:
        print("torch and transformers are not installed: ours alone", file=sys.stderr)
    workload = load_workload(flags.workload)
    return measure(
        workload,
        size_config(flags.size, workload.vocab_size),
        BenchmarkConfig(
            flags.size, flags.threads, against, flags.repeats, flags.copies,
            PackingConfig(**packing),
        ),
    )  # fmt: skip


def hold_to_threads(threads: int) -> None:
    """Holds this process to as many cores, before JAX or torch start their threads."""
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, cores[-threads:])
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = str(threads)
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    os.environ.setdefault("USE_TF", "0")  # transformers would import TensorFlow beside torch


def show(result: dict[str, Any]) -> None:
    """A short table of the result."""
    print(
        f"{result['size']}, {result['threads']} threads, matmul peak "
        f"{result['matmul_gflops']:.0f} GFLOP/s"
    )
    print(f"{'':<14}{'examples/s':>12}{'useful GFLOP/s':>16}{'of peak':>9}{'speedup':>9}")
    for name in ("ours", *result["speedup"]):
        row = result[name]
        speedup = "" if name == "ours" else f"{result['speedup'][name]:.2f}x"
        print(
            f"{name:<14}{row['examples_per_second']:>12.2f}{row['useful_gflops']:>16.1f}"
            f"{row['share_of_matmul_peak']:>9.0%}{speedup:>9}"
        )
    ours = result["ours"]
    print(
        f"padding: {ours['padding']['encoder']:.1%} of encoder tokens, "
        f"{ours['padding']['decoder']:.1%} of decoder nodes; {ours['shapes']} shape compiled in "
        f"{ours['compile_seconds']:.1f} s; peak memory {ours['peak_memory_bytes'] / 2**30:.2f} GiB"
    )
    if result["max_score_difference"] is not None:
        print(f"greatest difference of a token's score: {result['max_score_difference']:.1e} nats")


def show_overhead(packing: dict[str, Any]) -> None:
    """What packing costs a large network, a line a task."""
    print(f"packing for {packing['model']} on {packing['topology']}, one data slot, by formula:")
    print(f"{'':<14}{'PFLOP':>9}{'as packed':>11}{'overhead':>10}  padding: encoder, decoder")
    for row in packing["tasks"]:
        print(
            f"{row['task']:<14}{row['necessary'] / 1e15:>9.1f}{row['computed'] / 1e15:>11.1f}"
            f"{row['overhead']:>10.1%}{row['encoder_padding']:>18.1%}"
            f"{row['decoder_padding']:>9.1%}"
        )
