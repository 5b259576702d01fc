"""mlm-consistency inspect --checkpoint PATH: leaves, shapes, counts, the network recognised."""

from __future__ import annotations

import argparse

from mlm_consistency.checkpoints.checkpoint import open_checkpoint
from mlm_consistency.checkpoints.describe import describe
from mlm_consistency.checkpoints.digest import digest
from mlm_consistency.models.presets import preset


def parser() -> argparse.ArgumentParser:
    """The arguments of this command."""
    command = argparse.ArgumentParser(
        prog="mlm-consistency inspect --checkpoint",
        description="List what a checkpoint holds. Reads descriptions and the small leaves alone.",
    )
    command.add_argument("address", metavar="PATH", help="folder, gs:// address, or tiny")
    command.add_argument("--model", help="hold it against this size (ul2_20b, t5_1_1_base, ...)")
    command.add_argument(
        "--digest", action="store_true", help="read every weight and print its sha256"
    )
    return command


def run(argv: list[str]) -> int:
    """Runs the command; 0 if the checkpoint is a whole network's, 1 if something is wrong.

    Raises:
      MlmConsistencyError: if there is no checkpoint, or it cannot be read at all.
    """
    arguments = parser().parse_args(argv)
    checkpoint = open_checkpoint(arguments.address)
    description = describe(checkpoint, preset(arguments.model) if arguments.model else None)
    print(description)
    if arguments.digest:
        print(f"sha256 of all weights {digest(checkpoint)}")
    return 1 if description.problem else 0
