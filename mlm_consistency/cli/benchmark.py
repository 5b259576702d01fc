"""`mlm-consistency benchmark`: speed on a workload file, as ratios in one run."""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path

SIZES = ("tiny", "small", "base")
AGAINST = ("one_at_a_time", "batched")
DESCRIPTION = """\
Scores a workload with ours and, where torch and transformers are installed, with the two usual
ways, on the same random weights, interleaved; prints medians and ratios. Fails if scores differ
by more than 2e-5 nats.
"""


def run(argv: list[str]) -> int:
    """The command."""
    parser = argparse.ArgumentParser(
        prog="mlm-consistency benchmark",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--workload", required=True, metavar="FILE")
    parser.add_argument("--size", choices=SIZES, default="tiny")
    parser.add_argument("--against", choices=AGAINST, action="append", default=None)
    parser.add_argument("--no_baselines", action="store_true", help="measure ours alone")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--copies", type=int, default=1, help="of the workload")
    parser.add_argument("--tokens_per_batch", type=int, default=None)
    parser.add_argument("--row_lengths", default="", metavar="A,B", help="instead of the choice")
    parser.add_argument("--output", metavar="FILE.json")
    flags = parser.parse_args(argv)
    hold_to_threads(flags.threads)

    from mlm_consistency.benchmarking.benchmark import BenchmarkConfig, known, measure
    from mlm_consistency.benchmarking.workload import read_workload, size_config
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
    workload = read_workload(flags.workload)
    result = measure(
        workload,
        size_config(flags.size, workload.vocab_size),
        BenchmarkConfig(
            flags.size, flags.threads, against, flags.repeats, flags.copies,
            PackingConfig(**packing),
        ),
    )  # fmt: skip
    text = json.dumps(result, indent=1)
    if flags.output:
        Path(flags.output).write_text(text + "\n")
    show(result)
    return 0


def hold_to_threads(threads: int) -> None:
    """Holds this process to as many cores, before JAX or torch start their threads."""
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, cores[-threads:])
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = str(threads)
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    os.environ.setdefault("USE_TF", "0")  # transformers would import TensorFlow beside torch


def show(result: dict) -> None:
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
