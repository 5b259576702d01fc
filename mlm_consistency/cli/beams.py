"""`mlm-consistency beams`: what the model would say, as candidates for scoring.

`score` and `run` begin with this where a task has no candidates of its own.
"""

from __future__ import annotations

import dataclasses
import hashlib
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from mlm_consistency.cli import gin_files
from mlm_consistency.cli.inputs import describe_too_long, survey
from mlm_consistency.cli.preemption import EXIT_PREEMPTED, on_sigterm
from mlm_consistency.cli.processes import Processes, add_flags, process_config, start
from mlm_consistency.cli.progress import Progress
from mlm_consistency.cli.settings import MACROS, ScoreConfig, score_config
from mlm_consistency.conditionals import EncodedExample, Masked, parse_conditionals
from mlm_consistency.errors import ConfigError, ScoringError
from mlm_consistency.records import TaskEntry, storage
from mlm_consistency.tasks import Task, TaskConfig, load_task
from mlm_consistency.tasks.last_words import is_right, read_beam
from mlm_consistency.vocabularies import Vocabulary

FOLDER = "beams"
DESCRIPTION = """\
Searches for the candidates of tasks that have none of their own (LAMBADA): beam search under the
baseline, in the run's mode. Beams and candidates go into OUTPUT_DIR/beams. Started again, it goes
on after the last whole shard. BeamConfig is bound as `beams`: --gin.beams.width=20,
--gin.beams.max_tokens=8. Scoring with beams of another run: --gin.task.beams=RUN/beams.
"""


def run(argv: list[str]) -> int:
    """The command."""
    others, bindings = gin_files.split_bindings(argv)
    parser = gin_files.parser("beams", DESCRIPTION)
    add_flags(parser)
    flags = parser.parse_args(others)
    gin_files.load(flags.gin_file, bindings, flags.gin_search_paths, MACROS)
    config = score_config()
    if not pending(config):
        raise ConfigError(
            "no task of MIXTURE_OR_TASK_NAME needs beams: it has candidates of its own, or "
            "task.beams names the folder from which they come"
        )
    team = start(process_config(flags))

    def work() -> int:
        search_candidates(config, team)
        return EXIT_PREEMPTED if team.stop.is_set() else 0

    return team.run(work)


def pending(config: ScoreConfig) -> list[TaskConfig]:
    """The tasks whose candidates are still to be searched for."""
    return [
        task
        for task in config.tasks
        if not task.beams and load_task(task).source.candidates_from_beams
    ]


def search_candidates(config: ScoreConfig, team: Processes) -> tuple[ScoreConfig, Any]:
    """Searches where a task needs it and goes on where a search was broken off.

    Returns:
      The configuration with the beams of each task, and the weights on the mesh where they were
      loaded (None where every beam was there already, or no task needs any). When `team.stop` is
      set, the search has not ended.

    Raises:
      MlmConsistencyError: for whatever a user can mend, before anything is searched.
    """
    wanted = pending(config)
    if not wanted:
        return config, None
    # ---- what is asked: prompts, and the other tasks so that nothing is found wrong afterwards --
    from mlm_consistency.vocabularies import load_vocabulary

    vocabulary = load_vocabulary(config.vocabulary, config.vocabulary_extra_ids)
    for task in config.tasks:
        if task not in wanted:
            survey(config, task, vocabulary)
    plans = [_Plan.of(task, config, vocabulary) for task in wanted]
    prefix = plans[0].prefix
    stop = next_stop(prefix.tolist(), vocabulary, config.family)

    # ---- who answers --------------------------------------------------------------------------
    from mlm_consistency.cli.score import (
        check_vocabulary,
        events_folder,
        load_weights,
        use_compilation_cache,
    )

    use_compilation_cache(config)
    checkpoint, model, mesh = _network(config)
    check_vocabulary(vocabulary.size, model, config)
    folder = storage.join(config.output_dir, FOLDER)
    writer, finished = _open_writer(
        folder, _manifest(config, plans, checkpoint, model, mesh, vocabulary, stop), team
    )
    searched = dataclasses.replace(
        config,
        tasks=tuple(
            dataclasses.replace(task, beams=folder) if task in wanted else task
            for task in config.tasks
        ),
    )

    # ---- the search: shard after shard --------------------------------------------------------
    import jax

    from mlm_consistency.cli.run_log import Capacity, RunLog, Searched, Speeds
    from mlm_consistency.scoring.beam_loop import BeamLoop
    from mlm_consistency.scoring.beams import SearchTokens, make_search

    params = None
    total = sum(plan.entry.examples for plan in plans)
    per_shard = config.beams.examples_per_shard
    done = sum(min(len(finished[plan.name]) * per_shard, plan.entry.examples) for plan in plans)
    if any(len(finished[plan.name]) < plan.entry.shards for plan in plans):
        params = load_weights(checkpoint, model, mesh, config, quiet=not team.leads)
        search = make_search(model, mesh, config.beams, SearchTokens(stop, vocabulary.size))
        decoder_inputs = np.asarray([vocabulary.pad_id, *prefix], np.int32)
        tasks = [plan.search_input() for plan in plans]
        loop = BeamLoop(search, params, mesh, config.beams, decoder_inputs, tasks, team.stop)
        searched_here = Searched()
        speeds = Speeds(searched_here, Capacity(loop.lanes.count))
        events, devices = events_folder(config, team), jax.local_devices()
        with (
            on_sigterm(team.stop.set),
            Progress("searching", total, done, quiet=not team.leads) as progress,
            RunLog(events, speeds, total, done, devices, part="search_") as run_log,
        ):
            for shard in loop.run(finished.__getitem__):
                if loop.lanes.writes:
                    beams = [
                        [read(beam, example, vocabulary) for beam in found]
                        for example, found in zip(shard.examples, shard.beams, strict=True)
                    ]
                    writer.write(shard.task, shard.shard, shard.examples, beams)
                count = len(shard.examples) * loop.lanes.count
                progress.advance(min(count, total - progress.done), shard.task)
                searched_here.examples += len(shard.examples)
                run_log.point(progress.done)
        if team.stop.is_set():
            if team.end is None:
                print(
                    "stopped by SIGTERM; the beams in the run folder are whole. The same command "
                    f"goes on from there (exit status {EXIT_PREEMPTED}).",
                    file=sys.stderr,
                )
            return searched, params
    team.meet()  # every process has written its shards
    if team.leads:
        for task, counts in writer.complete().items():
            print(describe(task, counts), file=sys.stderr, flush=True)
    team.meet()  # the candidates can be read
    return searched, params


@dataclasses.dataclass(frozen=True)
class _Plan:
    """One task to be searched.

    Attributes:
      name: in records.
      task: without filters on candidates: these apply when they are scored.
      examples: its examples under the one conditional that is searched.
      entry: for the manifest.
      lengths: int64 [n], encoder tokens of each example.
      prefix: int32 [P], targets before the answer.
    """

    name: str
    task: Task
    examples: Any
    entry: TaskEntry
    lengths: np.ndarray
    prefix: np.ndarray

    @classmethod
    def of(cls, task_config: TaskConfig, config: ScoreConfig, vocabulary: Vocabulary) -> _Plan:
        """Goes over a task's prompts once.

        Raises:
          DataError: for the first row that is wrong, with file and line.
          ScoringError: if prompts are longer than the longest row; lists them.
        """
        # Beams do not depend on what is kept of them, so filters wait for the scoring.
        unfiltered = dataclasses.replace(
            task_config, encoder_longer_than=None, candidates_shorter_than=None
        )
        task = load_task(unfiltered)
        examples = task.encoded_examples(
            vocabulary, (baseline_of(config),), config.mode, config.family
        )
        digest = hashlib.sha256()
        lengths, too_long = [], []
        prefix = np.zeros(0, np.int32)
        for example in examples:
            (masked,) = example.masked
            if not isinstance(masked, Masked):
                raise ScoringError(f"task {task.name!r}, example {example.id!r}: {masked.reason}")
            digest.update(repr((example.id, example.prompt, example.answer)).encode())
            lengths.append(len(masked.encoder))
            prefix = masked.prefix
            if len(masked.encoder) > config.packing.longest_row:
                too_long.append((example.id, len(masked.encoder), len(prefix) + 1))
        if too_long:
            raise ScoringError(describe_too_long(task.name, too_long, config))
        entry = TaskEntry(
            examples=len(lengths),
            shards=-(-len(lengths) // config.beams.examples_per_shard),
            dropped=dict(examples.survey().dropped),
            digest=digest.hexdigest(),
        )
        return cls(task.name, task, examples, entry, np.asarray(lengths, np.int64), prefix)

    def search_input(self) -> Any:
        """The task as the loop takes it."""
        from mlm_consistency.scoring.beam_loop import SearchInput

        return SearchInput(self.name, lambda: iter(self.examples), self.lengths)


def baseline_of(config: ScoreConfig) -> Any:
    """The conditional that is searched under: the run's first where it is a baseline."""
    first = config.conditionals[0]
    return first if first.pattern == "baseline" else parse_conditionals("baseline")[0]


def next_stop(prefix: Sequence[int], vocabulary: Vocabulary, family: str) -> int:
    """The token that ends a beam: the sentinel behind those of the prefix, `</s>` for Flan."""
    if family == "flan":
        return vocabulary.eos_id
    numbers = [vocabulary.sentinel_number(int(token)) for token in prefix]
    return vocabulary.sentinel(1 + max((k for k in numbers if k is not None), default=-1))


@dataclasses.dataclass(frozen=True)
class SaidBeam:
    """A beam as it is recorded; see records.beams."""

    tokens: np.ndarray
    log_probs: np.ndarray
    score: float
    text: str
    candidate: str
    reason: str
    is_right: bool


def read(beam: Any, example: EncodedExample, vocabulary: Vocabulary) -> SaidBeam:
    """What a beam says up to its first special token, and what that is taken for."""
    special = {vocabulary.pad_id, vocabulary.eos_id}
    words = []
    for token in beam.tokens.tolist():
        if token in special or vocabulary.sentinel_number(token) is not None:
            break
        words.append(token)
    text = vocabulary.decode(words) if words else ""
    reading = read_beam(text)
    return SaidBeam(
        beam.tokens, beam.log_probs, beam.score, text, reading.candidate, reading.reason,
        is_right(reading.candidate, example.answer),
    )  # fmt: skip


def describe(task: str, counts: dict[str, int]) -> str:
    """One line on what was found."""
    n = max(counts["examples"], 1)
    return (
        f"task {task}: beams of {counts['examples']} examples give {counts['candidates']} "
        f"candidates ({counts['candidates'] / n:.1f} an example); {counts['without_candidate']} "
        f"examples have none, {counts['with_right_candidate']} "
        f"({100 * counts['with_right_candidate'] / n:.2f} %) the right word among them, "
        f"{counts['first_candidate_right']} "
        f"({100 * counts['first_candidate_right'] / n:.2f} %) as their first"
    )


def _network(config: ScoreConfig) -> tuple[Any, Any, Any]:
    """(checkpoint, model, mesh), held against one another."""
    from mlm_consistency.checkpoints.architecture import architecture
    from mlm_consistency.checkpoints.checkpoint import open_checkpoint
    from mlm_consistency.scoring.mesh import check_model_fits_mesh, fitted, make_mesh

    checkpoint = open_checkpoint(config.checkpoint_path)
    model = architecture(checkpoint, config.model)
    model = dataclasses.replace(model, dtype=config.dtype, param_dtype=config.param_dtype)
    mesh = make_mesh(fitted(config.mesh, model))
    check_model_fits_mesh(model, mesh)
    return checkpoint, model, mesh


def _manifest(
    config: ScoreConfig,
    plans: Sequence[_Plan],
    checkpoint: Any,
    model: Any,
    mesh: Any,
    vocabulary: Vocabulary,
    stop: int,
) -> Any:
    import jax

    from mlm_consistency.checkpoints.digest import fingerprint
    from mlm_consistency.records import Manifest, installed_versions, source_revision

    return Manifest(
        model=dataclasses.asdict(model),
        checkpoint=fingerprint(checkpoint),
        vocabulary=vocabulary.digest,
        conditionals=(baseline_of(config).name,),
        tasks={plan.name: plan.entry for plan in plans},
        mode=config.mode,
        dtype=config.dtype,
        packing=dataclasses.asdict(config.beams),
        settings={"family": config.family, "param_dtype": config.param_dtype, "stop_token": stop},
        versions=installed_versions(),
        revision=source_revision(),
        device=f"{len(jax.devices())} x {jax.devices()[0].device_kind}",
        mesh=dict(mesh.shape),
        information={
            "checkpoint_path": config.checkpoint_path,
            "vocabulary_path": config.vocabulary,
            "tasks": [dataclasses.asdict(plan.task.config) for plan in plans],
        },
    )


def _open_writer(folder: str, manifest: Any, team: Processes) -> tuple[Any, dict[str, set[int]]]:
    """The writer of this process, and which shards are whole: process 0 says so for all."""
    from mlm_consistency.records.beams import BeamWriter

    if team.leads:
        writer = BeamWriter(folder, manifest)
        whole = team.meet({task: sorted(writer.finished(task)) for task in manifest.tasks})
    else:
        whole = team.meet()
        writer = BeamWriter(folder, manifest, process=team.index)
    return writer, {task: set(shards) for task, shards in whole.items()}
