"""`mlm-consistency COMMAND ...`: finds the command, prints errors, sets the exit status."""

from __future__ import annotations

import logging
import os
import sys

from mlm_consistency.cli.host_memory import keep_freed_memory
from mlm_consistency.cli.preemption import (
    EXIT_PREEMPTED,
    Preempted,
    end_now,
    on_sigterm,
    sent_again_if_dropped,
)
from mlm_consistency.errors import MlmConsistencyError
from mlm_consistency.tables import lookup

# Adding a command: 1. a file in cli/ with `run(argv) -> int`; 2. one line here and one in HELP.
COMMANDS = {
    "run": "mlm_consistency.cli.run:run",
    "score": "mlm_consistency.cli.score:run",
    "beams": "mlm_consistency.cli.beams:run",
    "analyze": "mlm_consistency.cli.analyze:run",
    "report": "mlm_consistency.cli.report:run",
    "inspect": "mlm_consistency.cli.inspect:run",
    "plan": "mlm_consistency.cli.plan:run",
    "convert": "mlm_consistency.cli.convert:run",
    "diagnose": "mlm_consistency.cli.diagnose:run",
    "bigrams": "mlm_consistency.cli.bigrams:run",
    "benchmark": "mlm_consistency.cli.benchmark:run",
    "pretrain": "mlm_consistency.cli.pretrain:run",
    "data": "mlm_consistency.cli.data:run",
    "import-t5x": "mlm_consistency.cli.import_t5x:run",
    "lm-eval": "mlm_consistency.cli.lm_eval:run",
    "compare": "mlm_consistency.cli.compare:run",
}
HELP = {
    "run": "score, analyze and report, one after another",
    "score": "score a task under many conditionals; writes records, resumes",
    "beams": "candidates by beam search for LAMBADA; `score` begins with it where needed",
    "analyze": "records -> summary.json",
    "report": "records and summary.json -> report.html, figures/, a table",
    "inspect": "an example under every conditional, or the leaves of a checkpoint",
    "plan": "memory, FLOPs and time of a run on hardware that is not at hand",
    "convert": "checkpoints between T5X, Orbax and Hugging Face, bit-equal",
    "diagnose": "pair diagnostics of anybody's conditional tables (JSON)",
    "bigrams": "pairs of a text file asked of either family, and their diagnosis",
    "benchmark": "speed against one-at-a-time scoring, on a workload file",
    "pretrain": "make the small model that ships",
    "data": "list, fetch and check the benchmarks' files",
    "import-t5x": "scores that t5x.infer wrote -> records",
    "lm-eval": "lm-evaluation-harness with our scorer among its models",
    "compare": "several runs, or the paper's recorded curves, side by side",
}
EXIT_USER_ERROR = 2
_SHARDS = "; the same command goes on after the last whole shard"
_PLACE = "; the same command goes on where it was"
# What an interrupted command does when it is given again; the others begin anew.
GOES_ON = {
    "run": _SHARDS, "score": _SHARDS, "beams": _SHARDS, "convert": _PLACE, "pretrain": _PLACE,
}  # fmt: skip


def usage() -> str:
    """The list of commands."""
    lines = [f"  {name:<10} {text}" for name, text in HELP.items()]
    return (
        "usage: mlm-consistency COMMAND [--gin_file=FILE] [--gin.NAME=VALUE] ...\n\n"
        + "\n".join(lines)
        + "\n\n`mlm-consistency COMMAND --help` says more."
    )


def main(argv: list[str] | None = None) -> int:
    """Runs one command; returns its exit status (2: to be mended by the user, 75: start again)."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s: %(message)s")
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    keep_freed_memory()
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print(usage())
        return 0
    if arguments[0] in ("--version", "version"):
        from mlm_consistency import __version__

        print(__version__)
        return 0
    try:
        with sent_again_if_dropped(), on_sigterm(end_now):
            command = lookup(COMMANDS, arguments[0], "command")
            return int(command(arguments[1:]) or 0)
    except Preempted:
        print(
            f"mlm-consistency {arguments[0]}: stopped by SIGTERM; give the same command again "
            f"(exit status {EXIT_PREEMPTED})",
            file=sys.stderr,
        )
        return EXIT_PREEMPTED
    except MlmConsistencyError as error:
        # gin adds the call stack of its configurables below a message
        message = str(error).split("\n  In call to configurable")[0]
        command_name = "" if arguments[0] not in COMMANDS else f" {arguments[0]}"
        print(f"mlm-consistency{command_name}: {message}", file=sys.stderr)
        return int(getattr(error, "exit_status", EXIT_USER_ERROR))
    except KeyboardInterrupt:
        goes_on = GOES_ON.get(arguments[0], "")
        print(f"mlm-consistency {arguments[0]}: interrupted{goes_on}", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
