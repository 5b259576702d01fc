"""`mlm-consistency score`: tasks in, records out. Reads from top to bottom."""

from __future__ import annotations

import dataclasses
import logging
import os
import sys
import time
from pathlib import Path
from typing import Any

from mlm_consistency.cli import gin_files
from mlm_consistency.cli.inputs import survey
from mlm_consistency.cli.preemption import EXIT_PREEMPTED, on_sigterm
from mlm_consistency.cli.process_config import add_flags, process_config
from mlm_consistency.cli.processes import Processes, start
from mlm_consistency.cli.progress import Progress
from mlm_consistency.cli.settings import MACROS, ScoreConfig, score_config
from mlm_consistency.errors import ConfigError
from mlm_consistency.models.config import T5Config

log = logging.getLogger(__name__)
DESCRIPTION = """\
Scores tasks under many conditionals and writes records into OUTPUT_DIR. Started again, it goes on
after the last whole shard, with as many processes and devices as there are then. Exit status: 0
complete, 2 something to mend, 75 preempted or a process lost (start again).
"""


def run(argv: list[str]) -> int:
    """The command."""
    others, bindings = gin_files.split_bindings(argv)
    parser = gin_files.parser("score", DESCRIPTION)
    parser.add_argument("--profile", metavar="DIR", help="write a JAX trace of the run here")
    parser.add_argument(
        "--check", action="store_true", help="check data and configuration, print counts, stop"
    )
    add_flags(parser)
    flags = parser.parse_args(others)
    gin_files.load(flags.gin_file, bindings, flags.gin_search_paths, MACROS)
    config, text = score_config(), gin_files.operative()
    team = Processes() if flags.check else start(process_config(flags))
    return team.run(lambda: score(config, text, flags.profile, flags.check, team))


def score(
    config: ScoreConfig,
    gin_text: str = "",
    profile: str | None = None,
    check: bool = False,
    team: Processes | None = None,
) -> int:
    """Scores the tasks of `config` into its run folder.

    Args:
      config: what is asked, how, and of whom.
      gin_text: the configuration as a gin file, for the run folder.
      profile: folder for a JAX trace.
      check: stop when the data have been checked.
      team: the processes that work on this run together; None: this one alone.

    Raises:
      RunEndedError: where another process has ended.
      MlmConsistencyError: for whatever a user can mend; nothing is written before the data, the
        configuration and the checkpoint's description have been checked.
    """
    # ---- what is asked: vocabulary and tasks, checked to the last row -------------------------
    from mlm_consistency.cli.beams import search_candidates
    from mlm_consistency.vocabularies import load_vocabulary

    began = time.monotonic()
    team = team or Processes()
    params = None
    if not check:  # tasks without candidates of their own: beam search comes first
        config, params = search_candidates(config, team)
        if team.stop.is_set():
            return EXIT_PREEMPTED
    vocabulary = load_vocabulary(config.vocabulary, config.vocabulary_extra_ids)
    inputs, entries = [], {}
    mode = f", mode {config.mode}" if config.mode else ""
    team.say(f"prompts of the family {config.family}{mode}")
    for task in config.tasks:
        task_input, entry = survey(config, task, vocabulary)
        inputs.append(task_input)
        entries[task_input.name] = entry
        dropped = "".join(f"; dropped {n}: {why}" for why, n in entry.dropped.items())
        team.say(f"task {task_input.name}: {entry.examples} examples{dropped}")
    if check:
        return 0

    # ---- who answers: the network, its weights' description, the devices ----------------------
    import jax

    from mlm_consistency.checkpoints.architecture import architecture
    from mlm_consistency.checkpoints.checkpoint import open_checkpoint
    from mlm_consistency.checkpoints.digest import fingerprint
    from mlm_consistency.scoring.mesh import check_model_fits_mesh, fitted, make_mesh

    use_compilation_cache(config)
    checkpoint = open_checkpoint(config.checkpoint_path)
    model = architecture(checkpoint, config.model)
    model = dataclasses.replace(model, dtype=config.dtype, param_dtype=config.param_dtype)
    check_vocabulary(vocabulary.size, model, config)
    mesh = make_mesh(fitted(config.mesh, model))
    check_model_fits_mesh(model, mesh)

    # ---- at what cost: one batch shape for the whole run --------------------------------------
    from mlm_consistency.scoring.lanes import lanes_of
    from mlm_consistency.scoring.schedule import best_shape, shards_of

    size = config.packing.examples_per_shard
    shards = [shards_of(task.lengths, task.first_prompt, size) for task in inputs]
    shape = best_shape(config.packing, shards, model)

    # ---- the run folder: made new, or found and held against this configuration ---------------
    from mlm_consistency.records import Manifest, installed_versions, source_revision

    manifest = Manifest(
        model=dataclasses.asdict(model),
        checkpoint=fingerprint(checkpoint),
        vocabulary=vocabulary.digest,
        conditionals=tuple(c.name for c in config.conditionals),
        tasks=entries,
        mode=config.mode,
        dtype=config.dtype,
        packing={
            **dataclasses.asdict(shape),
            "examples_per_shard": config.packing.examples_per_shard,
        },
        settings={
            "family": config.family,
            "param_dtype": config.param_dtype,
            "divergence": config.divergence,
        },
        versions=installed_versions(),
        revision=source_revision(),
        device=f"{len(jax.devices())} x {jax.devices()[0].device_kind}",
        mesh=dict(mesh.shape),
        information={
            "checkpoint_path": config.checkpoint_path,
            "vocabulary_path": config.vocabulary,
            "tasks": [dataclasses.asdict(task) for task in config.tasks],
        },
    )
    writer = open_writer(config.output_dir, manifest, team)
    if team.leads and gin_text:
        writer.write_text("config.gin", gin_text)
    total = sum(entry.examples for entry in entries.values())
    per_shard = config.packing.examples_per_shard
    before = {name: len(writer.finished(name)) for name in entries}
    done = sum(min(before[name] * per_shard, entries[name].examples) for name in entries)

    # ---- the loop: step after step, shard after shard -----------------------------------------
    from mlm_consistency.cli.run_log import Capacity, RunLog, Speeds, summary_line
    from mlm_consistency.scoring.divergence import DivergenceStep
    from mlm_consistency.scoring.loop import ScoringLoop
    from mlm_consistency.scoring.step import make_step

    writing = 0.0
    if done < total:
        if params is None:
            params = load_weights(checkpoint, model, mesh, config, quiet=not team.leads)
        count, divergence = len(config.conditionals), None
        if config.divergence and count > 1:
            divergence = DivergenceStep(model, mesh, count, per_shard)
        loop = ScoringLoop(
            make_step(model, mesh, with_states=divergence is not None),
            params, shape, mesh, vocabulary.pad_id, per_shard, team.stop, divergence,
        )  # fmt: skip
        lanes = lanes_of(mesh)
        speeds = Speeds(loop.times, Capacity.of(loop, model, jax.devices()))
        with (
            on_sigterm(team.stop.set),
            Progress("scoring", total, done, quiet=not team.leads) as progress,
            RunLog(
                events_folder(config, team), speeds, total, done, jax.local_devices()
            ) as run_log,
            tracing(profile),
        ):
            for shard in loop.run(inputs, writer.finished):
                at = time.monotonic()
                if lanes.writes:
                    with jax.profiler.TraceAnnotation("write records"):
                        writer.write(shard, vocabulary)
                writing += time.monotonic() - at
                # The other lanes keep step, each with a shard of its own.
                scored = len(shard.examples) * lanes.count
                progress.advance(min(scored, total - progress.done), shard.task)
                run_log.point(progress.done)
        if team.stop.is_set():
            if team.end is None:
                print(
                    "stopped by SIGTERM; the shards in the run folder are whole. The same command "
                    f"goes on from there (exit status {EXIT_PREEMPTED}).",
                    file=sys.stderr,
                )
            return EXIT_PREEMPTED
        team.say(summary_line(speeds, writing, time.monotonic() - began))
    team.meet()  # every process has written its shards
    writer.complete({name: entry.examples for name, entry in entries.items()})
    team.say(f"records: {config.output_dir}")
    return 0


def open_writer(folder: str, manifest: Any, team: Processes) -> Any:
    """The writer of this process.

    Process 0 makes the run folder and says which shards are whole. The others take its word: a
    process may be ahead by some shards, so the folder would not show the same to everybody.

    Raises:
      RecordsError: where the folder holds another run, or cannot be written.
      RunEndedError: where process 0 has ended with that.
    """
    from mlm_consistency.records import RunWriter

    if not team.leads:
        finished = {task: set(shards) for task, shards in team.meet().items()}
        return RunWriter(
            folder, manifest, process=team.index, processes=team.count, finished=finished
        )
    writer = RunWriter(folder, manifest, processes=team.count)
    team.meet({task: sorted(writer.finished(task)) for task in manifest.tasks})
    return writer


def events_folder(config: ScoreConfig, team: Processes) -> str | None:
    """Where process 0 writes points for TensorBoard; None where none are wanted."""
    from mlm_consistency.records import storage

    return storage.join(config.output_dir, "logs") if config.tensorboard and team.leads else None


def check_vocabulary(size: int, model: T5Config, config: ScoreConfig) -> None:
    """Refuses a vocabulary with ids that the network has no rows for.

    Raises:
      ConfigError: with both sizes.
    """
    if size > model.vocab_size:
        raise ConfigError(
            f"VOCABULARY {config.vocabulary!r} has {size} ids, but {model.name} at "
            f"{config.checkpoint_path!r} has {model.vocab_size} rows: take the vocabulary that "
            "the checkpoint was trained with (or set VOCABULARY_EXTRA_IDS)"
        )


def use_compilation_cache(config: ScoreConfig) -> None:
    """JAX's persistent cache of compiled steps, beside the run folder unless told otherwise."""
    import jax

    where = config.compilation_cache
    if where == "beside":
        if "://" in config.output_dir:
            return
        where = str(Path(config.output_dir).absolute().parent / ".jax_cache")
    if where:
        jax.config.update("jax_compilation_cache_dir", where)
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.5)


def load_weights(
    checkpoint: Any, model: T5Config, mesh: Any, config: ScoreConfig, quiet: bool = False
) -> Any:
    """The checkpoint's weights on the mesh, with progress."""
    from mlm_consistency.checkpoints.restore import restore
    from mlm_consistency.models.t5 import logical_axes
    from mlm_consistency.scoring.mesh import weight_shardings

    shardings = weight_shardings(logical_axes(model), mesh, config.mesh)
    with Progress("loading weights", 0, unit="MiB", quiet=quiet) as progress:

        def show(done: int, total: int, name: str) -> None:
            del name
            progress.total = total >> 20
            if progress.bar is not None:
                progress.bar.update(progress.task, total=progress.total)
            progress.advance((done >> 20) - progress.done)

        return restore(checkpoint, model, shardings, progress=show)


def tracing(folder: str | None) -> Any:
    """A JAX trace into `folder` (open it with Perfetto or TensorBoard); nothing without one."""
    import contextlib

    if not folder:
        return contextlib.nullcontext()
    import jax

    os.makedirs(folder, exist_ok=True)
    # Every call of a Python function would be an event: a million of them hide the loop's own.
    options = jax.profiler.ProfileOptions()
    options.python_tracer_level = 0
    return jax.profiler.trace(folder, create_perfetto_trace=True, profiler_options=options)
