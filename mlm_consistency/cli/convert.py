"""mlm-consistency convert IN OUT --to t5x|orbax|huggingface: another form of the same weights."""

from __future__ import annotations

import argparse

from mlm_consistency.checkpoints.convert import WRITERS, convert
from mlm_consistency.cli.progress import Progress
from mlm_consistency.models.presets import preset


def parser() -> argparse.ArgumentParser:
    """The arguments of this command."""
    command = argparse.ArgumentParser(
        prog="mlm-consistency convert",
        description="Write a checkpoint in another form, bit-equal. A stopped conversion goes on "
        "where it was when the same command is given again.",
    )
    command.add_argument("source", metavar="IN", help="folder or gs:// address, form recognised")
    command.add_argument("out", metavar="OUT", help="local folder that does not exist yet")
    command.add_argument("--to", required=True, choices=sorted(WRITERS), help="form to write")
    command.add_argument(
        "--model", help="what IN is, where its shapes do not say (ul2_20b, t5_1_1_base, ...)"
    )
    return command


def run(argv: list[str]) -> int:
    """Runs the command; 0 when OUT is whole.

    Raises:
      MlmConsistencyError: if IN is not whole or OUT holds something else.
    """
    arguments = parser().parse_args(argv)
    with Progress("converting", 0, unit="MiB") as progress:

        def show(done: int, total: int, name: str) -> None:
            progress.total = total >> 20
            if progress.bar is not None:
                progress.bar.update(progress.task, total=progress.total)
            progress.advance((done >> 20) - progress.done, name)

        config = preset(arguments.model) if arguments.model else None
        done = convert(arguments.source, arguments.out, arguments.to, config, show)
    print(
        f"{done.address} ({done.form}): {done.parameters:,} parameters in {done.tensors} tensors\n"
        f"sha256 of all weights {done.digest}"
    )
    return 0
