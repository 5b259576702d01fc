"""`mlm-consistency plan`: memory, FLOPs, collectives and time of a run on any hardware."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from typing import Any

from mlm_consistency.cli import gin_files
from mlm_consistency.cli.settings import (
    MACROS,
    SHIPPED,
    family_of,
    macro,
    packing_from_gin,
    task_configs,
    task_names,
)
from mlm_consistency.conditionals import check_mode, parse_conditionals
from mlm_consistency.errors import ConfigError
from mlm_consistency.models.config import DTYPES, T5Config
from mlm_consistency.models.presets import preset
from mlm_consistency.scoring.hardware import ALL_TOPOLOGIES, parse_topology
from mlm_consistency.scoring.mesh import MeshConfig
from mlm_consistency.scoring.plan import PlanConfig, PlanRow, plan
from mlm_consistency.scoring.task_lengths import (
    TaskLengths,
    count_lengths,
    load_lengths,
    shipped_lengths,
    write_lengths,
)

DESCRIPTION = """\
Compiles the very step that `score` runs, with abstract weights, for TPU slices that are not at
hand (extra `tpu`), and says whether it fits, what it costs and how long it takes.

  --topology=v5e:4x4        a TPU slice: v3, v4, v5e, v5p, v6e
  --topology=cpu:8          a dry run on simulated devices, without libtpu
  --topology=h100-80:8      a GPU server by formula: a100-80, h100-80, h200
  --topology=all            the usual ones side by side

Lengths of the task come from DATA_DIR where gin gives it (with VOCABULARY), from the stories that
ship, else from the tables that ship for the paper's tasks, or from --lengths=FILE.json.
"""


def run(argv: list[str]) -> int:
    """The command; 0 also when something does not fit: that is an answer."""
    others, bindings = gin_files.split_bindings(argv)
    flags = _parser().parse_args(others)
    gin_files.load(flags.gin_file, bindings, flags.gin_search_paths, MACROS)
    tasks = _lengths(flags)
    if flags.save_lengths:
        write_lengths(tasks[0], flags.save_lengths)
        print(f"lengths of {tasks[0].task}: {flags.save_lengths}", file=sys.stderr)
    topologies = ALL_TOPOLOGIES if flags.topology == "all" else tuple(flags.topology.split(","))
    config = PlanConfig(
        model=_model(flags, topologies),
        tasks=tasks,
        topologies=topologies,
        mesh=_mesh(flags),
        packing=packing_from_gin(),
        utilisation=flags.utilisation,
        compile=not flags.no_compile,
        confirm_rows=flags.confirm_rows,
    )
    rows = plan(config, progress=lambda text: print(f"plan: {text}", file=sys.stderr))
    if flags.json:
        answer: Any = [row.as_json() for row in rows]
        json.dump(answer if flags.topology == "all" or len(rows) > 1 else answer[0], sys.stdout,
                  indent=1)  # fmt: skip
        print()
    else:
        show(config, rows)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = gin_files.parser("plan", DESCRIPTION)
    parser.add_argument("--topology", required=True, help="see above; several with commas")
    parser.add_argument("--model", help="a published size (default: MODEL)")
    parser.add_argument("--task", help="a table of lengths (default: MIXTURE_OR_TASK_NAME)")
    parser.add_argument("--lengths", metavar="FILE", help="a table of lengths of your own, JSON")
    parser.add_argument("--save_lengths", metavar="FILE", help="write the lengths that were used")
    parser.add_argument("--mesh", metavar="DATAxMODEL", help="default: MESH_SHAPE, else chosen")
    parser.add_argument(
        "--dtype", choices=DTYPES, help="of weights and activations (default: gin, else bfloat16)"
    )
    parser.add_argument(
        "--utilisation", type=float, default=0.5, metavar="SHARE",
        help="share of the peak that matrix products reach (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument("--no_compile", action="store_true", help="everything by formula")
    parser.add_argument(
        "--confirm_rows", action="store_true", help="compile the largest batch that fits, too"
    )
    parser.add_argument("--json", action="store_true", help="JSON on standard output")
    return parser


def _model(flags: argparse.Namespace, topologies: tuple[str, ...]) -> T5Config:
    """The network in the data types of the run.

    A gin file of a run leaves them to that of the hardware; where gin has its defaults, they are
    those of the hardware files: bfloat16, and float32 on CPUs.
    """
    name = flags.model or macro("MODEL")
    if name and name != "tiny":
        config = preset(name)
    else:
        from mlm_consistency.checkpoints.architecture import architecture
        from mlm_consistency.checkpoints.checkpoint import open_checkpoint

        config = architecture(open_checkpoint(macro("CHECKPOINT_PATH", "plan (or MODEL)")))
    only_cpu = all(parse_topology(topology).kind == "cpu" for topology in topologies)
    dtypes = {}
    for field, binding in (("dtype", "COMPUTE_DTYPE"), ("param_dtype", "PARAMETER_DTYPE")):
        bound = macro(binding)
        if flags.dtype:
            bound = flags.dtype
        elif bound == MACROS[binding] and not only_cpu:
            bound = "bfloat16"
        dtypes[field] = bound
    return dataclasses.replace(config, **dtypes)


def _mesh(flags: argparse.Namespace) -> MeshConfig | None:
    """--mesh, else what gin says, else None: to be chosen."""
    over_data = macro("SHARD_WEIGHTS_OVER_DATA")
    if flags.mesh:
        sides = flags.mesh.lower().split("x")
        if len(sides) != 2 or not all(side.isdigit() for side in sides):
            raise ConfigError(f"--mesh must be DATAxMODEL, 2x8 say; came {flags.mesh!r}")
        shape: Any = tuple(map(int, sides))
    else:
        shape = macro("MESH_SHAPE")
        if shape == MACROS["MESH_SHAPE"]:
            return None
    if not (isinstance(shape, tuple | list) and len(shape) == 2):
        raise ConfigError(f"MESH_SHAPE must be (data, model), came {shape!r}")
    return MeshConfig(int(shape[0]), int(shape[1]), bool(over_data))


def _lengths(flags: argparse.Namespace) -> tuple[TaskLengths, ...]:
    """The lengths of the tasks: from a file, from the data, or from the tables that ship."""
    if flags.lengths:
        return (load_lengths(flags.lengths),)
    if flags.task is None and macro("VOCABULARY") and (macro("DATA_DIR") or _ship()):
        return _counted()
    names = flags.task or macro("MIXTURE_OR_TASK_NAME", "plan (or --task, --lengths)")
    names = names.split(",") if isinstance(names, str) else list(names)
    family = family_of(flags.model or macro("MODEL"))
    tables = []
    for name in names:
        mine = f"{name}_{'ul2' if family in ('ul2', 'flan') else 't5'}"
        tables.append(load_lengths(mine if mine in shipped_lengths() else name))
    return tuple(tables)


def _ship() -> bool:
    """Whether all tasks of the run ship with the package."""
    names = macro("MIXTURE_OR_TASK_NAME")
    return names is not None and set(task_names()) <= set(SHIPPED)


def _counted() -> tuple[TaskLengths, ...]:
    from mlm_consistency.tasks import load_task
    from mlm_consistency.vocabularies import load_vocabulary

    vocabulary = load_vocabulary(macro("VOCABULARY"), macro("VOCABULARY_EXTRA_IDS"))
    conditionals = parse_conditionals(macro("CONDITIONALS"))
    family = macro("FAMILY") or family_of(macro("MODEL"))
    mode = check_mode(macro("MODE"), family)
    names = [c.name for c in conditionals]
    counted = []
    for task_config in task_configs():
        task = load_task(task_config)
        examples = task.encoded_examples(vocabulary, conditionals, mode, family)
        counted.append(count_lengths(task.name, examples, names, family, mode, vocabulary.name))
    return tuple(counted)


# ---- the table ---------------------------------------------------------------------------------


def show(config: PlanConfig, rows: tuple[PlanRow, ...]) -> None:
    """Prints the plan for people."""
    from rich.console import Console
    from rich.table import Table

    wide = Console(width=None if sys.stdout.isatty() else 150, highlight=False)
    first = rows[0]
    prompts = sum(len(task.prompts()[0]) for task in config.tasks)
    model = config.model
    wide.print(
        f"{model.name}: {first.parameters / 1e9:.4g} B parameters, computed in {model.dtype}, "
        f"stored in {model.param_dtype}"
    )
    for task in config.tasks:
        said = f"; assumed: {task.assumption}" if task.assumption else ""
        wide.print(
            f"{task.task}: {task.examples} examples x {len(task.conditionals)} conditionals{said}"
        )
    wide.print(
        f"{prompts} prompts need {first.necessary.total / 1e15:.4g} PFLOP; times at "
        f"{config.utilisation:.0%} of the peak, nothing overlapped, start-up not counted"
    )
    table = Table()
    table.add_column("topology", no_wrap=True)
    for name in (
        "mesh\ndata x model", "GiB a device\nweights + step of all", "fits",
        "rows a batch\n(at most)", "PFLOP as packed\n(over need)", "links\nMiB/step",
        "steps x ms", "task", "chip-\nhours", "bound by",
    ):  # fmt: skip
        table.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        table.add_row(*_cells(row))
    wide.print(table)
    for row in rows:
        kinds = ", ".join(f"{kind} {size / 2**20:.1f} MiB" for kind, size in
                          row.collectives.items())  # fmt: skip
        said = "; ".join(filter(None, [row.note, kinds and f"a step: {kinds}"]))
        if said:
            wide.print(f"{row.topology.name}: {said}", markup=False)


def _cells(row: PlanRow) -> list[str]:
    gib = 2**30
    rows = sum(count for _, count in row.shape.rows) * row.mesh.data
    step, task, hours = "-", "-", "-"
    if row.step_seconds is not None and row.task_seconds is not None:
        step, task = f"{row.step_seconds * 1e3:.0f}", span(row.task_seconds)
        hours = f"{row.chip_hours:.2g}"
    about = "" if row.compiled else "~"
    return [
        row.topology.name,
        f"{row.mesh.data} x {row.mesh.model}",
        f"{row.weights / gib:.2f} + {about}{row.temporary / gib:.2f} of {row.memory / gib:.1f}",
        "yes" if row.fits else "no",
        f"{rows} (~{row.rows_per_batch})",
        f"{row.computed / 1e15:.4g} ({row.overhead:+.0%})",
        f"{sum(row.collectives.values()) / 2**20:.0f}",
        f"{row.steps} x {step}",
        task,
        hours,
        row.bound,
    ]


def span(seconds: float) -> str:
    """A time for people: "48 s", "12 min", "3.1 h"."""
    if seconds < 100:
        return f"{seconds:.3g} s"
    return f"{seconds / 60:.3g} min" if seconds < 7200 else f"{seconds / 3600:.3g} h"
