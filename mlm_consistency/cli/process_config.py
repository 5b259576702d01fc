"""Which of several processes this is.

By flags, by JAX_COORDINATOR_ADDRESS, JAX_NUM_PROCESSES and JAX_PROCESS_ID, or by a TPU slice's,
GKE's or Slurm's environment, which JAX reads.
"""

from __future__ import annotations

import argparse
import dataclasses
import glob
import importlib.util
import os
from collections.abc import Mapping
from typing import Any

from mlm_consistency.errors import ConfigError

TPU_DEVICES = ("/dev/accel[0-9]*", "/dev/vfio/[0-9]*")


@dataclasses.dataclass(frozen=True)
class ProcessConfig:
    """Which process this is.

    Attributes:
      coordinator_address: HOST:PORT of process 0, on which JAX's service listens; None: one
        process, or as the environment says.
      num_processes: of the run.
      process_id: of this one, counted from 0.
      found_by: JAX's name of the environment that says the rest; "" for flags.
    """

    coordinator_address: str | None = None
    num_processes: int | None = None
    process_id: int | None = None
    found_by: str = ""

    @property
    def several(self) -> bool:
        """Whether JAX's service is to be started."""
        return bool(self.found_by or self.coordinator_address)

    @property
    def described(self) -> str:
        """For messages."""
        if self.found_by:
            return f"found by JAX's {self.found_by}"
        return f"this is {self.process_id} of {self.num_processes}, 0 at {self.coordinator_address}"


def add_flags(parser: argparse.ArgumentParser) -> None:
    """The three flags of a run in several processes."""
    group = parser.add_argument_group(
        "several processes",
        "found without flags on a TPU slice, in GKE and in a step of Slurm; elsewhere all three, "
        "or JAX_COORDINATOR_ADDRESS, JAX_NUM_PROCESSES and JAX_PROCESS_ID",
    )
    group.add_argument("--coordinator_address", metavar="HOST:PORT", help="of process 0")
    group.add_argument("--num_processes", type=int, metavar="N")
    group.add_argument("--process_id", type=int, metavar="K", help="of this one, from 0")


def process_config(
    flags: argparse.Namespace | None = None, environment: Mapping[str, str] | None = None
) -> ProcessConfig:
    """Who this process is, by flags or by the environment.

    Raises:
      ConfigError: naming the flag that is missing or wrong.
    """
    env = os.environ if environment is None else environment
    values: dict[str, Any] = {}
    for field in ("coordinator_address", "num_processes", "process_id"):
        value = getattr(flags, field, None)
        if value is None:
            text = env.get(f"JAX_{field.upper()}", "")
            try:
                value = (text if field == "coordinator_address" else int(text)) if text else None
            except ValueError as error:
                raise ConfigError(
                    f"JAX_{field.upper()} must be a whole number, came {text!r}"
                ) from error
        values[field] = value
    missing = [f"--{name}" for name, value in values.items() if value is None]
    if len(missing) == len(values):
        return ProcessConfig(found_by=detect(env))
    if missing:
        found = detect(env)
        if found:  # JAX fills in what the flags leave open
            return ProcessConfig(**values, found_by=found)
        raise ConfigError(
            f"{', '.join(missing)} missing: several processes need --coordinator_address=HOST:PORT "
            "(of process 0), --num_processes and --process_id"
        )
    count, index, address = (
        values["num_processes"], values["process_id"], values["coordinator_address"],
    )  # fmt: skip
    if count < 1 or not 0 <= index < count:
        raise ConfigError(f"--process_id must be 0 to --num_processes - 1, came {index} of {count}")
    if not address.rpartition(":")[2].isdigit() or not address.rpartition(":")[0]:
        raise ConfigError(f"--coordinator_address must be HOST:PORT, came {address!r}")
    return ProcessConfig(**values)


def detect(environment: Mapping[str, str]) -> str:
    """JAX's name of the environment that started several processes; "" where none did."""
    # An allocation also shows its tasks to the one shell that runs the batch script.
    if (
        environment.get("SLURM_STEP_NODELIST")
        and "SLURM_PROCID" in environment
        and int(environment.get("SLURM_STEP_NUM_TASKS") or 1) > 1
    ):
        return "slurm"
    platforms = environment.get("JAX_PLATFORMS") or "tpu"
    if "tpu" not in platforms.split(",") or not importlib.util.find_spec("libtpu"):
        return ""
    if not any(glob.glob(pattern) for pattern in TPU_DEVICES):
        return ""
    hosts = environment.get("TPU_PROCESS_ADDRESSES") or environment.get("TPU_WORKER_HOSTNAMES")
    if hosts:
        slices = int(environment.get("MEGASCALE_NUM_SLICES") or 1)
        return "gketpu" if len(hosts.split(",")) * slices > 1 else ""
    return "" if environment.get("TPU_SKIP_MDS_QUERY") else "gcetpu"
