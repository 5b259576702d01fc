"""Devices that runs are planned for: memory, arithmetic, bandwidths; facts, with their sources.

Sources:
  TPU: cloud.google.com/tpu/docs/v3, v4, v5e, v5p, v6e (arithmetic and HBM of a chip); links of v3:
    Jouppi et al., CACM 63(7), 2020 (656 Gbit/s a link and direction); of the others: the ICI
    bandwidth of those pages over the number of links. `memory` is what the compiler of libtpu
    0.0.42 lets a program use; it says so when a program needs more.
  GPU: NVIDIA's data sheets of A100 80GB SXM, H100 SXM and H200 SXM: dense bfloat16 (without
    sparsity), float32 outside the tensor cores, NVLink in one direction. A tenth of the memory is
    set aside for the runtime and fragmentation.
  CPU: a nominal figure for one simulated device, for dry runs alone.
"""

from __future__ import annotations

import dataclasses

from mlm_consistency.errors import ConfigError
from mlm_consistency.tables import unknown_name

GIB = 2**30
# Bytes that one attention weight moves through a GPU's memory: the float32 score is written and
# read, its bias is read, the bfloat16 weight is written and read.
SOFTMAX_BYTES = 16
# On TPUs scores stay in the vector memory (so the HLO of the compiled step says), and the vector
# unit decides: about so many operations a weight for bias, maximum, exponential, sum and division.
SOFTMAX_OPERATIONS = 20


@dataclasses.dataclass(frozen=True)
class Device:
    """What JAX shows as one device.

    Attributes:
      name: as in a topology: "v5e", "h100-80", "cpu".
      memory: bytes that a program may use.
      peak_bf16, peak_f32: FLOP/s of matrix products. On TPUs float32 is six bfloat16 passes
        (`jax.default_matmul_precision("highest")`).
      bandwidth: bytes/s between memory and arithmetic.
      links, link_bandwidth: links to neighbours, and bytes/s of one in one direction.
      devices_per_chip: 2 where JAX shows the two cores of a chip apart.
      softmax_flops: see `PackingConfig.softmax_flops`.
      softmax_bytes: bytes through memory for one attention weight.
      length_multiple: row lengths that the device computes without padding of its own.
    """

    name: str
    memory: float
    peak_bf16: float
    peak_f32: float
    bandwidth: float
    links: int
    link_bandwidth: float
    devices_per_chip: int = 1
    softmax_flops: float = 120.0
    softmax_bytes: int = 0
    length_multiple: int = 16

    def peak(self, dtype: str) -> float:
        """FLOP/s of matrix products in "bfloat16" or "float32"."""
        return self.peak_bf16 if dtype == "bfloat16" else self.peak_f32

    @property
    def ring_bandwidth(self) -> float:
        """Bytes/s that a ring through this device carries: both directions, one link each.

        A torus has more links, but which of them a mesh axis can use depends on how it lies in
        the torus; this is what every axis has.
        """
        return min(self.links, 2) * self.link_bandwidth


def _tpu(
    name: str,
    gib: float,
    tflops: float,
    gb_s: float,
    links: int,
    link: float,
    cores: int = 1,
    matrix_to_vector: int = 32,
) -> Device:
    """A device from the figures of a chip: TFLOP/s, GB/s, GB/s of a link and direction.

    `matrix_to_vector` is FLOPs of the matrix units for each operation of the vector unit: four
    matrix units of 128 x 128 against 8 x 128 lanes of four units, and in proportion.
    """
    return Device(
        name,
        gib * GIB,
        tflops * 1e12 / cores,
        tflops * 1e12 / cores / 6,
        gb_s * 1e9 / cores,
        links,
        link * 1e9 / cores,
        cores,
        softmax_flops=SOFTMAX_OPERATIONS * matrix_to_vector,
        length_multiple=128,
    )


def _gpu(name: str, memory: float, bf16: float, f32: float, gb_s: float, nvlink: float) -> Device:
    """A GPU; all of its NVLinks lead to a switch, which is one link here."""
    return Device(
        name,
        0.9 * memory,
        bf16 * 1e12,
        f32 * 1e12,
        gb_s * 1e9,
        1,
        nvlink * 1e9,
        softmax_flops=round(SOFTMAX_BYTES * bf16 * 1e3 / gb_s, -1),
        softmax_bytes=SOFTMAX_BYTES,
        length_multiple=64,
    )


DEVICES: dict[str, Device] = {
    device.name: device
    for device in (
        _tpu("v3", 15.48, 123, 900, 4, 82, cores=2),
        _tpu("v4", 30.75, 275, 1228, 6, 50),
        _tpu("v5e", 15.75, 197, 819, 4, 50),
        _tpu("v5p", 95.74, 459, 2765, 6, 100),
        _tpu("v6e", 31.25, 918, 1640, 4, 112, matrix_to_vector=64),
        _gpu("a100-80", 80e9, 312, 19.5, 2039, 300),
        _gpu("h100-80", 80e9, 989, 67, 3350, 450),
        _gpu("h200", 141e9, 989, 67, 4800, 450),
        Device("cpu", 8 * GIB, 1e11, 1e11, 2e10, 2, 1e10),
    )
}
# What JAX calls a device (`device_kind`), from its beginning -> the table above; longer first.
KINDS = {
    "TPU v6": "v6e",
    "TPU v5 lite": "v5e",
    "TPU v5e": "v5e",
    "TPU v5": "v5p",
    "TPU v4": "v4",
    "TPU v3": "v3",
    "NVIDIA H200": "h200",
    "NVIDIA H100": "h100-80",
    "NVIDIA A100": "a100-80",
}


def device_of(kind: str) -> Device:
    """The entry for a device that JAX shows, by its `device_kind`.

    What is not in the table is planned as its nearest kin: other TPUs as v5e, other GPUs as
    A100, everything else as a CPU.
    """
    for start, name in KINDS.items():
        if kind.startswith(start):
            return DEVICES[name]
    gpu = any(word in kind for word in ("NVIDIA", "AMD", "Tesla", "GeForce", "Quadro"))
    return DEVICES["v5e" if kind.startswith("TPU") else "a100-80" if gpu else "cpu"]


TPUS = ("v3", "v4", "v5e", "v5p", "v6e")
GPUS = ("a100-80", "h100-80", "h200")
# What `--topology=all` compares: the smallest slices of each generation that are of use here.
ALL_TOPOLOGIES = (
    *("v3:2x2", "v3:4x4", "v4:2x2x1", "v4:2x2x2", "v5e:2x2", "v5e:2x4", "v5e:4x4"),
    *("v5p:2x2x1", "v6e:2x2", "v6e:2x4", "v6e:4x4"),
    *(f"{gpu}:{count}" for gpu in GPUS for count in (1, 8)),
)


@dataclasses.dataclass(frozen=True)
class Topology:
    """A slice or a server.

    Attributes:
      name: as written: "v5e:4x4", "h100-80:8", "cpu:8".
      device: what each of its devices is.
      devices: how many JAX shows.
    """

    name: str
    device: Device
    devices: int

    @property
    def chips(self) -> float:
        """Chips, which is what is paid for."""
        return self.devices / self.device.devices_per_chip

    @property
    def kind(self) -> str:
        """ "tpu", "gpu" or "cpu"."""
        name = self.device.name
        return "tpu" if name in TPUS else "gpu" if name in GPUS else "cpu"


def parse_topology(name: str) -> Topology:
    """The topology "DEVICE:SHAPE": a grid of chips for a TPU, a count for others.

    Raises:
      UnknownNameError: for a device that is not in the table.
      ConfigError: for a malformed shape.
    """
    word, _, shape = name.strip().lower().partition(":")
    if word not in DEVICES:
        raise unknown_name("device (of a topology DEVICE:SHAPE)", word, DEVICES)
    device = DEVICES[word]
    sides = shape.split("x")
    wanted = {"v4": 3, "v5p": 3}.get(word, 2) if word in TPUS else 1
    if len(sides) != wanted or not all(side.isdigit() and int(side) > 0 for side in sides):
        example = {1: "8", 2: "4x4", 3: "2x2x2"}[wanted]
        raise ConfigError(
            f"topology {name!r}: {word} has shapes of {wanted} number(s), for example "
            f"{word}:{example}. Got {shape!r}."
        )
    chips = 1
    for side in sides:
        chips *= int(side)
    return Topology(f"{word}:{shape}", device, chips * device.devices_per_chip)
