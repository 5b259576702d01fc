"""`mlm-consistency import-t5x SCORES.jsonl .. OUT`: T5X's scores as records."""

from __future__ import annotations

import argparse
import hashlib
from pathlib import Path
from typing import Any

from mlm_consistency.errors import ConfigError
from mlm_consistency.records import Manifest, RunWriter, installed_versions, source_revision
from mlm_consistency.records.manifest import TaskEntry
from mlm_consistency.tasks.archives import sha256_of
from mlm_consistency.tasks.encoded import EncodedExamples
from mlm_consistency.tasks.t5x_scores import Asked, TaskScores, read_scores, scored_shards
from mlm_consistency.vocabularies import Vocabulary, load_vocabulary

DESCRIPTION = """\
Makes records of the scores that t5x.infer wrote with gin/t5x/score.gin. The tasks' files and the
vocabulary are read again, and every score that there should be is asked for: what is incomplete is
refused, and nothing is written. T5X gives one sum for each candidate; records divide it evenly
among its tokens.
"""
EXAMPLES_PER_SHARD = 256
UNKNOWN = "not known: scored by t5x.infer"


def run(argv: list[str]) -> int:
    """The command; 0 when the records are whole."""
    parser = argparse.ArgumentParser(
        prog="mlm-consistency import-t5x",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("scores", nargs="+", metavar="SCORES.jsonl", type=Path)
    parser.add_argument("out", metavar="OUT", help="run folder to write")
    parser.add_argument("--data_dir", help="where the task's files are, if not where they were")
    parser.add_argument("--vocabulary", help="file or folder; 'tiny' is found by itself")
    parser.add_argument("--vocabulary_extra_ids", type=int, help="sentinels to add to it")
    parser.add_argument("--checkpoint_path", help="the checkpoint that was asked, to note its hash")
    parser.add_argument("--dtype", default="float32", help="that T5X computed in (default float32)")
    flags = parser.parse_args(argv)
    tasks = read_scores(flags.scores)
    asked = the_same_asked(tasks)
    vocabulary = vocabulary_of(asked, flags.vocabulary, flags.vocabulary_extra_ids)
    shards, entries = [], {}
    for name, scores in tasks.items():
        encoded = scores.asked.examples(vocabulary, flags.data_dir)
        found = list(scored_shards(name, scores, encoded, EXAMPLES_PER_SHARD))
        entries[name] = entry(encoded, len(found))
        shards += found
        print(f"task {name}: {entries[name].examples} examples, {len(scores.rows)} scores")
    manifest = Manifest(
        model={"name": "t5x", "scored_by": "t5x.infer"},
        checkpoint=checkpoint_of(flags.checkpoint_path),
        vocabulary=vocabulary.digest,
        conditionals=asked.conditionals,
        tasks=entries,
        mode=asked.mode,
        dtype=flags.dtype,
        packing="one candidate a row, by T5X",
        settings={
            "family": asked.family,
            "divergence": False,
            "scored_by": "t5x.infer",
            "token_log_probs": "the candidate's sum, divided evenly among its tokens",
            "scores_sha256": [sha256_of(file) for file in flags.scores],
        },
        versions=installed_versions(),
        revision=source_revision(),
        information={
            "scores": [file.name for file in flags.scores],
            "checkpoint_path": flags.checkpoint_path or "",
            "vocabulary_path": flags.vocabulary or asked.vocabulary,
        },
    )
    writer = RunWriter(flags.out, manifest)
    for shard in shards:
        if shard.shard not in writer.finished(shard.task):
            writer.write(shard, vocabulary)
    writer.complete({name: task.examples for name, task in entries.items()})
    print(f"records: {flags.out}; go on with `mlm-consistency analyze {flags.out}`")
    return 0


def the_same_asked(tasks: dict[str, TaskScores]) -> Asked:
    """What the first task was asked as; the others must share all but the task itself.

    Raises:
      ConfigError: naming what differs.
    """
    first, *others = tasks.items()
    for name, scores in others:
        for key in ("conditionals", "mode", "family", "vocabulary_digest"):
            mine, came = getattr(first[1].asked, key), getattr(scores.asked, key)
            if mine != came:
                raise ConfigError(
                    f"tasks {first[0]!r} and {name!r} were asked with different {key}: {mine!r} "
                    f"and {came!r}. One run folder holds one; import them apart."
                )
    return first[1].asked


def vocabulary_of(asked: Asked, path: str | None, extra_ids: int | None) -> Vocabulary:
    """The vocabulary of the rows.

    Raises:
      ConfigError: if it is not the one that ships and no path is given.
    """
    vocabulary = load_vocabulary(path or "tiny", extra_ids)
    if path is None and vocabulary.digest != asked.vocabulary_digest:
        raise ConfigError(
            f"the rows were made with vocabulary {asked.vocabulary!r}: give --vocabulary=PATH"
        )
    return vocabulary


def checkpoint_of(path: str | None) -> str:
    """The hash of the checkpoint as `score` notes it; UNKNOWN without a path."""
    if path is None:
        return UNKNOWN
    from mlm_consistency.checkpoints.checkpoint import open_checkpoint
    from mlm_consistency.checkpoints.digest import fingerprint

    return fingerprint(open_checkpoint(path))


def entry(encoded: EncodedExamples, shards: int) -> TaskEntry:
    """The task's entry in the manifest: counts, and a hash of its examples' text."""
    digest, count = hashlib.sha256(), 0
    for example in encoded:
        count += 1
        text: tuple[Any, ...] = (
            example.id, example.subject, example.prompt, example.candidate_texts, example.labels,
            example.answer,
        )  # fmt: skip
        digest.update(repr(text).encode())
    found = encoded.survey()
    return TaskEntry(count, shards, dict(found.dropped), digest.hexdigest(), found.truncated)
