"""How fast a run is: every few seconds for TensorBoard, and over all in one line at the end.

    speed/examples_per_second, speed/tokens_per_second
    speed/share_of_peak     FLOPs of the steps as packed (`scoring.flops`), over what the devices
                            could have done meanwhile; what `plan` calls utilisation
    waiting/input_share     of the time, in which the devices' next batch was not ready
    waiting/device_share    of the time, in which the loop waited for the devices
    progress/examples, progress/share
    memory/device_K_gib     in use on this process's K-th device; memory/host_gib: resident

The search for candidates, where a task needs it, has the same under `search_progress/..` and so on,
as far as its loop counts. The horizontal axis is the number of examples, so a run that was started
again goes on where it was. Speeds are those since the point before; `summary/..` has those of the
whole start.
"""

from __future__ import annotations

import dataclasses
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from mlm_consistency.cli.tensorboard import EventWriter
from mlm_consistency.scoring.flops import computed_flops
from mlm_consistency.scoring.hardware import device_of

EVERY = 5.0  # seconds between points
GIB = 2**30
COUNTED = (
    "steps", "examples", "encoder_tokens", "decoder_tokens", "waiting_for_input",
    "waiting_for_device",
)  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Capacity:
    """What speeds are held against.

    Attributes:
      lanes: groups of devices that score shards of their own; the loop counts those of one.
      step_flops: of a step on all devices together, padding among them.
      peak_flops: FLOP/s of all devices together; 0: not known.
    """

    lanes: int = 1
    step_flops: float = 0.0
    peak_flops: float = 0.0

    @classmethod
    def of(cls, loop: Any, model: Any, devices: Sequence[Any]) -> Capacity:
        """That of a `ScoringLoop` that asks `model` on `devices`."""
        lanes = loop.lanes
        flops = lanes.count * lanes.slots * computed_flops(loop.shape, model).total
        device = device_of(devices[0].device_kind)
        # The table's figure for a CPU is nominal.
        peak = 0.0 if devices[0].platform == "cpu" else len(devices) * device.peak(model.dtype)
        return cls(lanes.count, flops, peak)


@dataclasses.dataclass
class Searched:
    """What is counted of a search for candidates: examples of this process's lane."""

    examples: int = 0


class Speeds:
    """Speeds between two moments, from what the loop has counted."""

    def __init__(
        self, times: Any, capacity: Capacity, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Args:
        times: the loop's `LoopTimes`, which it goes on counting in, or a `Searched`.
        capacity: what they are held against.
        clock: seconds.
        """
        self.times, self.capacity, self.clock = times, capacity, clock
        self.first = self.last = self._now()

    def since_last(self) -> dict[str, float]:
        """Since the last call."""
        before, self.last = self.last, self._now()
        return self._between(before, self.last)

    def since_start(self) -> dict[str, float]:
        """Since the beginning."""
        return self._between(self.first, self._now())

    def _now(self) -> tuple[float, dict[str, float]]:
        counted = {name: getattr(self.times, name, None) for name in COUNTED}
        return self.clock(), {name: float(n) for name, n in counted.items() if n is not None}

    def _between(
        self, before: tuple[float, dict[str, float]], now: tuple[float, dict[str, float]]
    ) -> dict[str, float]:
        seconds = max(now[0] - before[0], 1e-9)
        each = {name: (count - before[1][name]) / seconds for name, count in now[1].items()}
        lanes = self.capacity.lanes
        found = {"speed/examples_per_second": lanes * each["examples"]}
        if "encoder_tokens" in each:
            tokens = each["encoder_tokens"] + each["decoder_tokens"]
            found["speed/tokens_per_second"] = lanes * tokens
            found["waiting/input_share"] = each["waiting_for_input"]
            found["waiting/device_share"] = each["waiting_for_device"]
        if self.capacity.peak_flops:
            done = each["steps"] * self.capacity.step_flops
            found["speed/share_of_peak"] = done / self.capacity.peak_flops
        return found


def memory(devices: Sequence[Any]) -> dict[str, float]:
    """GiB in use on each device that says so, and resident on this host (Linux)."""
    found = {}
    for number, device in enumerate(devices):
        in_use = (device.memory_stats() or {}).get("bytes_in_use")
        if in_use is not None:
            found[f"memory/device_{number}_gib"] = in_use / GIB
    if sys.platform == "linux":
        import resource

        pages = int(Path("/proc/self/statm").read_text().split()[1])
        found["memory/host_gib"] = pages * resource.getpagesize() / GIB
    return found


class RunLog:
    """Points for TensorBoard while a run goes on."""

    def __init__(
        self,
        folder: str | None,
        speeds: Speeds,
        total: int,
        done: int = 0,
        devices: Sequence[Any] = (),
        part: str = "",
    ) -> None:
        """Args:
        folder: for events; None writes none: on all processes but one, or where not wanted.
        speeds: of the loop.
        total: examples of the run.
        done: those of earlier starts.
        devices: of this process, whose memory is looked at.
        part: in front of the names: of a part of the run that is not the scoring.
        """
        self.speeds, self.total, self.devices, self.part = speeds, total, devices, part
        self.writer = EventWriter(folder) if folder else None
        self.done = done
        self.next = speeds.clock() + EVERY

    def __enter__(self) -> RunLog:
        if self.writer:
            self.writer.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.writer:
            whole = self.speeds.since_start()
            summary = {f"summary/{name.partition('/')[2]}": value for name, value in whole.items()}
            self._write(summary)
            self.writer.__exit__(kind, error, trace)

    def point(self, done: int) -> None:
        """Writes a point where it is time for one, and when all examples are done."""
        self.done = done
        if self.writer is None or (self.speeds.clock() < self.next and done < self.total):
            return
        self.next = self.speeds.clock() + EVERY
        progress = {"progress/examples": done, "progress/share": done / max(self.total, 1)}
        self._write(progress | self.speeds.since_last() | memory(self.devices))

    def _write(self, figures: dict[str, float]) -> None:
        if self.writer:
            named = {self.part + name: value for name, value in figures.items()}
            self.writer.write(self.done, named)


def summary_line(speeds: Speeds, writing: float, wall: float) -> str:
    """Where the time of a start went, in one line.

    Args:
      speeds: of its loop.
      writing: seconds in which records were written.
      wall: seconds of all of it.
    """
    times, whole = speeds.times, speeds.since_start()
    peak = whole.get("speed/share_of_peak")
    return (
        f"{times.examples} examples ({times.prompts} prompts, {times.encoder_tokens} encoder and "
        f"{times.decoder_tokens} decoder tokens) in {times.steps} steps; waited "
        f"{times.waiting_for_device:.1f} s for the device "
        f"({times.waiting_for_device / max(times.steps, 1):.3f} s a step), "
        f"{times.waiting_for_input:.1f} s for input, {writing:.1f} s writing; "
        f"{whole['speed/examples_per_second']:.1f} examples/s, "
        f"{whole['speed/tokens_per_second']:.0f} tokens/s"
        + (f", {peak:.1%} of the peak" if peak is not None else "")
        + f"; {wall:.1f} s in all"
    )
