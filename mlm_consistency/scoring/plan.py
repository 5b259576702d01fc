"""What a run costs on hardware that is not at hand: memory, FLOPs, collectives, time.

    lengths ──> packing, shape, steps ──┐
    topology ──> mesh ──────────────────┼──> the step, compiled ──> one line of the table
    network ────────────────────────────┘

Time of a step, in seconds, without overlap of arithmetic and communication:

    max(FLOPs / (devices * peak * utilisation), bytes through memory / bandwidth)
        + bytes sent by a device / bandwidth of its ring

Bytes through memory are the weights once and, on GPUs, the attention weights. Start-up
(loading, compiling) and input are not in it. GPUs are not compiled for: their temporary memory is
an estimate by formula.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable
from typing import Any

from mlm_consistency.errors import ConfigError
from mlm_consistency.models.config import T5Config
from mlm_consistency.scoring.collectives import bytes_by_kind
from mlm_consistency.scoring.compiled import CompiledStep, CompileJob, compile_step
from mlm_consistency.scoring.estimates import estimate_step, possible_meshes
from mlm_consistency.scoring.flops import (
    Flops,
    attention_weights,
    computed_flops,
    necessary_flops,
)
from mlm_consistency.scoring.hardware import Topology, parse_topology
from mlm_consistency.scoring.mesh import MeshConfig, fitted
from mlm_consistency.scoring.packing import concatenate
from mlm_consistency.scoring.schedule import batches_of, run_shape, shards_of, steps_of
from mlm_consistency.scoring.shapes import PackingConfig
from mlm_consistency.scoring.step import BatchShape
from mlm_consistency.scoring.task_lengths import TaskLengths

log = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class PlanConfig:
    """What to plan.

    Attributes:
      model: the network, data types among it.
      tasks: lengths of the tasks of the run.
      topologies: where; see `hardware.parse_topology`.
      mesh: devices along each axis, see `mesh.fitted`; None takes for each topology the one that
        fits and is the fastest by formula.
      packing: rows and shards, as `score` gets them.
      utilisation: share of the peak that matrix products are taken to reach.
      compile: compile the step where there is a compiler; else everything is by formula.
      confirm_rows: compile the largest batch too, instead of reckoning from the memory figures.
    """

    model: T5Config
    tasks: tuple[TaskLengths, ...]
    topologies: tuple[str, ...]
    mesh: MeshConfig | None = None
    packing: PackingConfig = dataclasses.field(default_factory=PackingConfig)
    utilisation: float = 0.5
    compile: bool = True
    confirm_rows: bool = False

    def __post_init__(self) -> None:
        if not self.tasks:
            raise ConfigError("a plan needs the lengths of at least one task")
        if not 0 < self.utilisation <= 1:
            raise ConfigError(f"utilisation must lie in (0, 1], came {self.utilisation}")


@dataclasses.dataclass(frozen=True)
class PlanRow:
    """One topology. Bytes are those of one device; times are in seconds.

    Attributes:
      topology: where.
      mesh: its layout.
      compiled: whether a compiler gave the memory figures and collectives.
      fits: whether weights and temporary memory fit.
      parameters: number of weights.
      weights, temporary, memory: bytes: of the weights, beside them in a step, at hand.
      shape: of a data slot's batch.
      rows_per_batch: the most encoder rows of a step, over all data slots, that fit.
      necessary: FLOPs of the whole task without padding.
      computed: FLOPs of the whole task as packed, idle slots among them.
      steps: steps of the whole task.
      collectives: kind -> bytes that a step passes through it on one device.
      gathered_weights: all-gathers of whole weight matrices in a step.
      step_seconds, task_seconds, chip_hours: None where it does not fit.
      bound: what takes most of a step: "arithmetic", "memory" or "links".
      note: the compiler's refusal, and whatever else should be known.
    """

    topology: Topology
    mesh: MeshConfig
    compiled: bool
    fits: bool
    parameters: int
    weights: int
    temporary: int
    memory: int
    shape: BatchShape
    rows_per_batch: int
    necessary: Flops
    computed: float
    steps: int
    collectives: dict[str, int]
    gathered_weights: int
    step_seconds: float | None
    task_seconds: float | None
    chip_hours: float | None
    bound: str
    note: str

    @property
    def overhead(self) -> float:
        """Share by which computed FLOPs exceed necessary ones."""
        return self.computed / self.necessary.total - 1

    def as_json(self) -> dict[str, Any]:
        """The line as `plan --json` gives it."""
        return {
            "topology": self.topology.name,
            "devices": self.topology.devices,
            "mesh": {"data": self.mesh.data, "model": self.mesh.model},
            "compiled": self.compiled,
            "fits": self.fits,
            "parameters": self.parameters,
            "bytes_per_device": {
                "weights": self.weights,
                "temporary": self.temporary,
                "memory": self.memory,
            },
            "rows_per_batch": self.rows_per_batch,
            "flops": {"necessary": self.necessary.total, "computed": self.computed},
            "collectives": self.collectives,
            "seconds": {"step": self.step_seconds, "task": self.task_seconds},
            "chip_hours": self.chip_hours,
        }


def plan(
    config: PlanConfig, progress: Callable[[str], None] = lambda text: None
) -> tuple[PlanRow, ...]:
    """One line for each topology, in order.

    Args:
      config: what to plan.
      progress: is told what is being done, one sentence at a time.

    Raises:
      ConfigError: for topologies, meshes and networks that do not go together.
      ScoringError: if a prompt is longer than the longest row.
    """
    topologies = [parse_topology(name) for name in config.topologies]
    prompts = [task.prompts() for task in config.tasks]
    shards = [
        shards_of(lengths, first, config.packing.examples_per_shard) for lengths, first in prompts
    ]
    necessary = necessary_flops(concatenate([s for task in shards for s in task]), config.model)
    asked = fitted(config.mesh, config.model) if config.mesh else None
    works: dict[str, Work] = {}
    rows = []
    for topology in topologies:
        name = topology.device.name
        if name not in works:
            progress(f"{name}: choosing rows")
            shape = run_shape(config.packing, topology.device, shards, config.model)
            works[name] = Work(shape, batches_of(shards, shape), necessary)
        work, note = works[name], ""
        mesh = asked
        if mesh is not None and len(topologies) > 1 and not _divides(mesh, topology):
            mesh, note = None, "another mesh than asked for, which does not fit here"
        mesh = _whole(mesh, topology) if mesh else fastest_mesh(config, topology, work)
        rows.append(_plan_one(config, topology, mesh, work, note, progress))
    return tuple(rows)


@dataclasses.dataclass(frozen=True)
class Work:
    """What is to be computed, whatever the mesh.

    Attributes:
      shape: of a data slot's batch.
      batches: of each shard of each task.
      necessary: FLOPs of all prompts without padding.
    """

    shape: BatchShape
    batches: tuple[tuple[int, ...], ...]
    necessary: Flops


def fastest_mesh(config: PlanConfig, topology: Topology, work: Work) -> MeshConfig:
    """Of the meshes that fit, the one on which the whole task takes least time by formula."""

    def seconds(mesh: MeshConfig) -> float:
        step = estimate_step(config.model, topology, mesh, work.shape)
        steps = steps_of(work.batches, step.lanes, mesh.data // step.lanes)
        return steps * step_seconds(step_parts(config, topology, work.shape, step))

    return min(possible_meshes(config.model, topology, work.shape), key=seconds)


def _plan_one(
    config: PlanConfig,
    topology: Topology,
    mesh: MeshConfig,
    work: Work,
    note: str,
    progress: Callable[[str], None],
) -> PlanRow:
    shape, slots = work.shape, mesh.data
    job = CompileJob(topology.name, config.model, mesh, shape)
    notes = [note, "weights sharded over data too" if mesh.shard_weights_over_data else ""]
    compiles = config.compile and topology.kind != "gpu"
    if compiles:
        progress(f"{topology.name}: compiling for mesh {mesh.data}x{mesh.model}")
        step = compile_step(job)
    else:
        step = estimate_step(config.model, topology, mesh, shape)
        notes.append("not compiled: by formula")
    memory = step.limit or int(topology.device.memory)
    fits = not step.refused and step.weights + step.temporary <= memory
    if step.refused:
        notes.append(f"refused by the compiler: {step.refused}")
    if step.gathered_weights:
        notes.append(f"{len(step.gathered_weights)} all-gathers of weight matrices in a step")
    idle = step.lanes - max(len(shards) for shards in work.batches)
    if idle > 0:
        notes.append(
            f"{idle} of {step.lanes} hosts idle: fewer packing.examples_per_shard give each a shard"
        )
    scale = largest_scale(step, memory)
    if config.confirm_rows and compiles and fits:
        scale = _confirmed(job, scale, progress)

    steps = steps_of(work.batches, step.lanes, slots // step.lanes)
    parts = step_parts(config, topology, shape, step)
    seconds = step_seconds(parts)
    return PlanRow(
        topology=topology,
        mesh=mesh,
        compiled=compiles,
        fits=fits,
        parameters=config.model.parameter_count(),
        weights=step.weights,
        temporary=step.temporary,
        memory=memory,
        shape=shape,
        rows_per_batch=int(sum(count for _, count in shape.rows) * slots * scale),
        necessary=work.necessary,
        computed=steps * slots * computed_flops(shape, config.model).total,
        steps=steps,
        collectives=bytes_by_kind(step.collectives),
        gathered_weights=len(step.gathered_weights),
        step_seconds=seconds if fits else None,
        task_seconds=steps * seconds if fits else None,
        chip_hours=steps * seconds * topology.chips / 3600 if fits else None,
        bound=max(parts, key=lambda part: parts[part]),
        note="; ".join(filter(None, notes)),
    )


def step_parts(
    config: PlanConfig, topology: Topology, shape: BatchShape, step: CompiledStep
) -> dict[str, float]:
    """Seconds of a step by what takes them: arithmetic, memory, links."""
    device, devices, slots = topology.device, topology.devices, step.mesh[0]
    flops = slots * computed_flops(shape, config.model).total
    scores = device.softmax_bytes * slots * attention_weights(shape, config.model) / devices
    traffic = sum(one.traffic for one in step.collectives)
    return {
        "arithmetic": flops / (devices * device.peak(config.model.dtype) * config.utilisation),
        "memory": (step.weights + scores) / device.bandwidth,
        "links": traffic / device.ring_bandwidth,
    }


def step_seconds(parts: dict[str, float]) -> float:
    """Seconds of a step: arithmetic and memory overlap, communication does not."""
    return max(parts["arithmetic"], parts["memory"]) + parts["links"]


def largest_scale(step: CompiledStep, memory: int) -> float:
    """How many times the batch fits into the memory that the weights leave; below 1 where not
    even one does. Temporary memory grows with the batch at most in proportion."""
    room = memory - step.weights
    if room <= 0 or step.temporary <= 0:
        return 0.0
    scale = room / step.temporary
    return float(int(scale)) if scale >= 1 else scale


def scaled(shape: BatchShape, times: int) -> BatchShape:
    """A batch of `times` as many rows."""
    return dataclasses.replace(
        shape,
        rows=tuple((length, count * times) for length, count in shape.rows),
        decoder_rows=shape.decoder_rows * times,
        reads=shape.reads * times,
        pairs=shape.pairs * times,
    )


def _confirmed(job: CompileJob, scale: float, progress: Callable[[str], None]) -> float:
    """The largest scale at or below `scale` that the compiler takes."""
    times = int(scale)
    while times > 1:
        progress(f"{job.topology}: compiling {times} times the rows")
        step = compile_step(dataclasses.replace(job, shape=scaled(job.shape, times)))
        if not step.refused:
            return float(times)
        times = min(times - 1, int(times * largest_scale(step, step.limit)))
    return min(scale, 1.0)


def _divides(mesh: MeshConfig, topology: Topology) -> bool:
    if mesh.data == 0:
        return topology.devices % mesh.model == 0
    return mesh.data * mesh.model == topology.devices


def _whole(mesh: MeshConfig, topology: Topology) -> MeshConfig:
    """`mesh` with its data axis counted.

    Raises:
      ConfigError: if it does not have as many devices as the topology.
    """
    data = mesh.data or max(1, topology.devices // mesh.model)
    if data * mesh.model != topology.devices:
        raise ConfigError(
            f"mesh {data}x{mesh.model} needs {data * mesh.model} devices; {topology.name} has "
            f"{topology.devices}. Give --mesh=DATAxMODEL with DATA * MODEL = {topology.devices}, "
            "or leave the mesh out to have one chosen."
        )
    return dataclasses.replace(mesh, data=data)
