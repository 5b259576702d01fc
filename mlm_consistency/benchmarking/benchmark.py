"""How fast scoring is, against what people use today, in one run on one machine.

Useful FLOPs are those of `scoring.flops.necessary_flops`: each distinct encoder token and decoder
node once, visible attention pairs, the output matrix at read nodes, no padding. All ways of
scoring are credited with the same number, so that GFLOP/s compare as times do.
"""

from __future__ import annotations

import dataclasses
import functools
import resource
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from mlm_consistency.benchmarking.workload import Workload
from mlm_consistency.errors import ScoringError
from mlm_consistency.models.config import T5Config
from mlm_consistency.models.t5 import initialize
from mlm_consistency.scoring.flops import necessary_flops
from mlm_consistency.scoring.loop import ScoringLoop, TaskInput
from mlm_consistency.scoring.mesh import MeshConfig, make_mesh
from mlm_consistency.scoring.schedule import best_shape, shards_of
from mlm_consistency.scoring.shapes import PackingConfig
from mlm_consistency.scoring.step import make_step

TOLERANCE = 2e-5
Scores = list[list[list[np.ndarray] | None]]


@dataclasses.dataclass(frozen=True)
class BenchmarkConfig:
    """What is measured.

    Attributes:
      size: name for the result.
      threads: that this process was held to.
      against: baselines of `benchmarking.baselines` to measure too.
      repeats: of each way of scoring, interleaved.
      copies: of the workload.
      packing: rows and shards of ours, as `score` gets them.
    """

    size: str
    threads: int
    against: tuple[str, ...] = ()
    repeats: int = 3
    copies: int = 1
    packing: PackingConfig = dataclasses.field(default_factory=PackingConfig)


class Ours:
    """The scoring loop on a workload: tokens in, token log-probabilities out."""

    def __init__(self, model: T5Config, params: Any, task: TaskInput, config: BenchmarkConfig):
        """Chooses the shape and compiles; `compile_seconds` is what that took."""
        mesh = make_mesh(MeshConfig(), jax.devices()[:1])
        began = time.perf_counter()
        size = config.packing.examples_per_shard
        shards = shards_of(task.lengths, task.first_prompt, size)
        self.shape = best_shape(config.packing, [shards], model)
        step = make_step(model, mesh)
        self.loop = ScoringLoop(step, params, self.shape, mesh, 0, size)
        self.task, self.step = task, step
        self.run()
        self.compile_seconds = time.perf_counter() - began
        self.compile_seconds -= self._time()

    def _time(self) -> float:
        began = time.perf_counter()
        self.run()
        return time.perf_counter() - began

    def run(self) -> Scores:
        """Scores the workload once."""
        shards = self.loop.run([self.task], lambda name: set())
        return [example for shard in shards for example in shard.token_log_probs]

    def padding(self) -> dict[str, float]:
        """Share of computed encoder tokens and decoder nodes that are padding."""
        times = self.loop.times
        return {
            "encoder": 1 - times.encoder_tokens / (times.steps * self.shape.encoder_tokens),
            "decoder": 1 - times.decoder_tokens / (times.steps * self.shape.decoder_tokens),
        }


def matmul_gflops(repeats: int = 15, size: int = 1024) -> float:
    """The best float32 matrix product of JAX on this device, GFLOP/s: the median of repeats."""
    a = jnp.ones((size, size))
    product = jax.jit(lambda a: a @ a)
    product(a).block_until_ready()
    rates = []
    for _ in range(repeats):
        began = time.perf_counter()
        product(a).block_until_ready()
        rates.append(2 * size**3 / (time.perf_counter() - began) / 1e9)
    return statistics.median(rates)


def measure(workload: Workload, model: T5Config, config: BenchmarkConfig) -> dict[str, Any]:
    """Times all ways of scoring, interleaved, and checks that they agree.

    Returns:
      The result as a dict; its keys are those of `mlm-consistency benchmark --output`.

    Raises:
      ScoringError: if two ways disagree by more than 2e-5 nats on any token.
    """
    key = jax.random.key(0)
    params = nn.meta.unbox(jax.jit(lambda k: initialize(model, k))(key))
    task = workload.task(config.copies)
    ours = Ours(model, params, task, config)
    ways: dict[str, Callable[[], Scores]] = {"ours": ours.run}
    if config.against:
        from mlm_consistency.benchmarking.baselines import BASELINES, TorchT5

        torch_model = TorchT5(params, model, config.threads)
        examples = workload.examples * config.copies
        for name in config.against:
            ways[name] = functools.partial(BASELINES[name], torch_model, examples)

    seconds: dict[str, list[float]] = {name: [] for name in ways}
    peaks: list[float] = []
    results: dict[str, Scores] = {}
    for repeat in range(config.repeats + 1):  # the first round warms up
        for name, way in ways.items():
            peaks.append(matmul_gflops(5))
            began = time.perf_counter()
            results[name] = way()
            if repeat:
                seconds[name].append(time.perf_counter() - began)
    differences = {
        name: max_difference(results["ours"], results[name]) for name in ways if name != "ours"
    }
    flops = necessary_flops(task.lengths, model).total
    peak = statistics.median(peaks)
    result: dict[str, Any] = {
        "size": config.size,
        "threads": config.threads,
        "copies": config.copies,
        "repeats": config.repeats,
        "matmul_gflops": peak,
        "necessary_gflop": flops / 1e9,
    }
    for name in ways:
        result[name] = _rates(statistics.median(seconds[name]), task, flops, peak)
    result["ours"] |= {
        "padding": ours.padding(),
        "compile_seconds": ours.compile_seconds,
        "shapes": ours.step._cache_size(),  # type: ignore[attr-defined]
        "peak_memory_bytes": peak_memory(),
        "shape": dataclasses.asdict(ours.shape),
    }
    mine = statistics.median(seconds["ours"])
    result["speedup"] = {
        name: statistics.median(seconds[name]) / mine for name in ways if name != "ours"
    }
    result["max_score_difference"] = max(differences.values(), default=None)
    for name, difference in differences.items():
        if not difference <= TOLERANCE:
            raise ScoringError(
                f"ours and {name} disagree by {difference:.2e} nats on a token, more than "
                f"{TOLERANCE:.0e}: the times compare different things"
            )
    return result


def _rates(seconds: float, task: TaskInput, flops: float, peak: float) -> dict[str, Any]:
    tokens = int(task.lengths.encoder.sum() + task.lengths.decoder.sum())
    return {
        "seconds": seconds,
        "examples_per_second": task.count / seconds,
        "conditionals_per_second": len(task.lengths) / seconds,
        "tokens_per_second": tokens / seconds,
        "useful_gflops": flops / seconds / 1e9,
        "share_of_matmul_peak": flops / seconds / 1e9 / peak,
    }


def max_difference(a: Scores, b: Scores) -> float:
    """The greatest difference of two token log-probabilities, nats; nan if one is not finite."""
    flat = [np.concatenate([v for e in s for k in e if k for v in k]) for s in (a, b)]
    return float(np.abs(flat[0] - flat[1]).max())


def peak_memory() -> int:
    """Peak resident memory of this process, bytes."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def known(names: Sequence[str]) -> tuple[str, ...]:
    """Baselines that can be measured here: none where torch or transformers is missing."""
    import importlib.util

    if all(importlib.util.find_spec(package) for package in ("torch", "transformers")):
        return tuple(names)
    return ()
