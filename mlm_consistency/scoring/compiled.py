"""The very step that `score` runs, compiled for devices that are not at hand.

    parent                                 child (python -m mlm_consistency.scoring.compiled)
    compile_step(job) ── JSON, stdin ──>   topology or simulated devices, mesh, abstract weights,
                                           make_step(..).lower(..).compile()
                      <── JSON, stdout ──  bytes per device, collectives, or the refusal

A process of its own keeps the environment of the caller clean, and a compiler that ends itself
(it does on topologies that do not exist) takes nobody with it. For TPUs the compiler is that of
libtpu, on any machine; `cpu:N` is N simulated devices of this one.
"""

from __future__ import annotations

import dataclasses
import importlib.util
import json
import math
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from mlm_consistency.errors import ConfigError
from mlm_consistency.models.config import T5Config
from mlm_consistency.scoring.collectives import Collective, collectives_of, weight_gathers
from mlm_consistency.scoring.hardware import parse_topology
from mlm_consistency.scoring.mesh import MeshConfig
from mlm_consistency.scoring.step import BatchShape

TPU_ENVIRONMENT = {
    "JAX_PLATFORMS": "cpu",
    "TPU_SKIP_MDS_QUERY": "1",
    "TPU_WORKER_ID": "0",
    "TPU_WORKER_HOSTNAMES": "localhost",
    "TPU_MIN_LOG_LEVEL": "3",
    "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",  # another plan may be at work; no device is taken
    "TF_CPP_MIN_LOG_LEVEL": "3",
}
# JAX shows the two cores of a v4 chip as one device; a description of the slice has to be told.
CHIP_CONFIG = {"v4": "megacore", "v5p": "megacore"}
MARK = "compiled-step: "
# Norm scales and position biases are small and whole on each device; matrices are not.
SMALLEST_MATRIX = 32
_NEEDED = (
    re.compile(r"Used ([\d.]+)([KMGT]) of ([\d.]+)([KMGT]) hbm"),
    re.compile(r"\(([\d.]+)([KMGT])\) exceeds available HBM \(([\d.]+)([KMGT])\)"),
)


@dataclasses.dataclass(frozen=True)
class CompileJob:
    """What to compile.

    Attributes:
      topology: "v5e:4x4", "cpu:8"; see `hardware.parse_topology`.
      model: the network, data types among it.
      mesh: how the devices are laid out.
      shape: of one data slot's batch.
    """

    topology: str
    model: T5Config
    mesh: MeshConfig
    shape: BatchShape


@dataclasses.dataclass(frozen=True)
class CompiledStep:
    """What the compiler says of a step; bytes are those of one device.

    Attributes:
      mesh: devices along (data, model).
      lanes: groups of data slots that work on shards of their own; see `scoring.lanes`.
      weights: bytes of the weights as they are sharded.
      arguments: bytes of weights and batch as the compiler lays them out; 0 if refused.
      temporary: bytes beside arguments and results while the step runs; if refused, what the
        compiler wanted beside the weights.
      refused: the compiler's own sentence on why the step does not fit; "" if it does.
      limit: bytes that the compiler has to give; 0 where it does not say (CPU).
      collectives: what the devices say to each other in a step.
      gathered_weights: all-gathers that put a whole weight matrix together.
    """

    mesh: tuple[int, int]
    lanes: int
    weights: int
    arguments: int
    temporary: int
    refused: str
    limit: int
    collectives: tuple[Collective, ...]
    gathered_weights: tuple[Collective, ...]


def libtpu_installed() -> bool:
    """Whether the TPU compiler is there (extra `tpu`)."""
    return importlib.util.find_spec("libtpu") is not None


def compile_step(job: CompileJob, timeout: float = 1800.0) -> CompiledStep:
    """Compiles in a process of its own.

    Raises:
      ConfigError: if libtpu is missing, the topology does not exist, the mesh does not fit it, or
        the network does not fit the mesh.
      RuntimeError: if the compiler fails in another way; holds the end of what it said.
    """
    topology = parse_topology(job.topology)
    here = str(Path(__file__).resolve().parents[2])  # where this very package is, for the child
    path = os.pathsep.join(filter(None, [here, os.environ.get("PYTHONPATH", "")]))
    environment = {**os.environ, "JAX_PLATFORMS": "cpu", "PYTHONPATH": path}
    # Settings of the caller that would change what the child compiles for.
    for name in ("XLA_FLAGS", "LIBTPU_INIT_ARGS", "JAX_NUM_CPU_DEVICES"):
        environment.pop(name, None)
    if topology.kind == "tpu":
        if not libtpu_installed():
            raise ConfigError(
                f"topology {job.topology}: compiling for a TPU needs libtpu, which is not "
                "installed. In the repository: pip install -e '.[tpu]' -c constraints.txt; or try "
                "--topology=cpu:8, or --no_compile for figures by formula."
            )
        environment |= TPU_ENVIRONMENT
    elif topology.kind == "cpu":
        environment["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={topology.devices}"
    else:
        raise ConfigError(f"topology {job.topology}: there is no compiler for it here")
    done = subprocess.run(
        [sys.executable, "-m", __name__],
        input=json.dumps(dataclasses.asdict(job)),
        env=environment,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    for line in done.stdout.splitlines():
        if line.startswith(MARK):
            return _read(json.loads(line.removeprefix(MARK)))
    said = (done.stderr or done.stdout).strip().splitlines()
    for line in said:
        # The compiler ends the process over topologies that do not exist.
        if "Check failed" in line and "opology" in line:
            raise ConfigError(f"topology {job.topology}: {line.split('] ')[-1].strip()}")
    raise RuntimeError(
        f"compiling for {job.topology} ended with status {done.returncode}:\n"
        + "\n".join(said[-15:])
    )


def _read(answer: dict[str, Any]) -> CompiledStep:
    if "error" in answer:
        raise ConfigError(answer["error"])
    for name in ("collectives", "gathered_weights"):
        answer[name] = tuple(
            Collective(**{**one, "shape": tuple(one["shape"])}) for one in answer[name]
        )
    answer["mesh"] = tuple(answer["mesh"])
    return CompiledStep(**answer)


def needed_bytes(message: str) -> tuple[int, int]:
    """(needed, available) bytes in a compiler's RESOURCE_EXHAUSTED; (0, 0) if it names none."""
    units = {"K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
    for pattern in _NEEDED:
        if found := pattern.search(message):
            need, unit, limit, limit_unit = found.groups()
            return int(float(need) * units[unit]), int(float(limit) * units[limit_unit])
    return 0, 0


# ---- the child ---------------------------------------------------------------------------------


def _devices(name: str) -> list[Any]:
    import jax
    from jax.experimental import topologies

    topology = parse_topology(name)
    if topology.kind == "cpu":
        return list(jax.devices())
    more = {}
    if topology.device.name in CHIP_CONFIG:
        more["chip_config_name"] = CHIP_CONFIG[topology.device.name]
    try:
        found = topologies.get_topology_desc(platform="tpu", topology_name=name, **more)
    except Exception as error:
        raise ConfigError(f"topology {name}: {str(error).splitlines()[0]}") from error
    return list(found.devices)


def _compile(job: CompileJob) -> CompiledStep:
    import jax
    import jax.numpy as jnp

    from mlm_consistency.models.t5 import abstract_parameters, logical_axes
    from mlm_consistency.scoring.lanes import lanes_of
    from mlm_consistency.scoring.mesh import (
        DATA,
        MODEL,
        batch_sharding,
        check_model_fits_mesh,
        make_mesh,
        weight_shardings,
    )
    from mlm_consistency.scoring.step import make_step

    devices = _devices(job.topology)
    mesh = make_mesh(job.mesh, devices)
    check_model_fits_mesh(job.model, mesh)
    shapes = abstract_parameters(job.model)
    shardings = weight_shardings(logical_axes(job.model), mesh, job.mesh)
    params = jax.tree.map(
        lambda leaf, where: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=where),
        shapes,
        shardings,
    )
    slots = mesh.shape[DATA]
    batch = {
        name: jax.ShapeDtypeStruct((slots, *shape), jnp.int32, sharding=batch_sharding(mesh))
        for name, shape in job.shape.arrays().items()
    }
    weights = sum(
        leaf.dtype.itemsize * math.prod(leaf.sharding.shard_shape(leaf.shape))
        for leaf in jax.tree.leaves(params)
    )
    common = {
        "mesh": (slots, mesh.shape[MODEL]),
        "lanes": lanes_of(mesh, devices[0].process_index).count,
        "weights": weights,
    }
    lowered = make_step(job.model, mesh).lower(params, batch)
    try:
        compiled = lowered.compile()
    except Exception as error:
        message = str(error)
        if "RESOURCE_EXHAUSTED" not in message:
            raise
        needed, limit = needed_bytes(message)
        sentence = re.split(r"(?<=\))\.|\n\n", message, maxsplit=1)[0].replace("\n", " ")
        return CompiledStep(
            **common, arguments=0, temporary=max(0, needed - weights), refused=sentence,
            limit=limit, collectives=(), gathered_weights=(),
        )  # fmt: skip
    memory = compiled.memory_analysis()
    collectives = collectives_of(compiled.as_text())
    matrices = _matrices(params, job.mesh)
    return CompiledStep(
        **common,
        arguments=memory.argument_size_in_bytes,
        temporary=memory.temp_size_in_bytes,
        refused="",
        limit=0,
        collectives=tuple(collectives),
        gathered_weights=tuple(weight_gathers(collectives, matrices)),
    )


def _matrices(params: Any, mesh: MeshConfig) -> list[tuple[int, ...]]:
    """Shapes that an all-gather of a weight matrix can give: the whole matrix, and, where weights
    are split over the data axis too, what that axis splits."""
    import jax

    shapes = []
    for leaf in jax.tree.leaves(params):
        if leaf.ndim < 2 or min(leaf.shape[-2:]) <= SMALLEST_MATRIX:
            continue
        shapes.append(leaf.shape)
        if mesh.shard_weights_over_data:
            from mlm_consistency.scoring.mesh import DATA

            shard = leaf.sharding.shard_shape(leaf.shape)
            spec = (*leaf.sharding.spec, *[None] * (leaf.ndim - len(leaf.sharding.spec)))
            shapes.append(
                tuple(
                    whole if axis == DATA else part
                    for whole, part, axis in zip(leaf.shape, shard, spec, strict=True)
                )
            )
    return shapes


def _main() -> None:
    given = json.load(sys.stdin)
    given["shape"]["rows"] = tuple(tuple(row) for row in given["shape"]["rows"])
    job = CompileJob(
        given["topology"],
        T5Config(**given["model"]),
        MeshConfig(**given["mesh"]),
        BatchShape(**given["shape"]),
    )
    try:
        answer = dataclasses.asdict(_compile(job))
    except ConfigError as error:
        answer = {"error": str(error)}
    print(MARK + json.dumps(answer), flush=True)


if __name__ == "__main__":
    _main()
