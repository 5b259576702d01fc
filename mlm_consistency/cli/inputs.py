"""Tasks into the loop: one pass that checks and counts everything, one that is read for scoring.

The first pass goes over the tasks themselves, so that whatever is wrong with the data is said
with file and line before any device is touched. The second is the seqio task of the same name.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence

import numpy as np

from mlm_consistency.cli.settings import ScoreConfig
from mlm_consistency.cli.tensorflow_noise import import_tensorflow
from mlm_consistency.conditionals import EncodedExample
from mlm_consistency.errors import ScoringError
from mlm_consistency.records import TaskEntry
from mlm_consistency.scoring.assemble import lengths_of, prompts_of
from mlm_consistency.scoring.loop import TaskInput
from mlm_consistency.scoring.packing import PromptLengths
from mlm_consistency.tasks import TaskConfig, load_task
from mlm_consistency.vocabularies import Vocabulary

LISTED = 10


def survey(
    config: ScoreConfig, task_config: TaskConfig, vocabulary: Vocabulary
) -> tuple[TaskInput, TaskEntry]:
    """Goes over a task once: its lengths for the plan and its entry for the manifest.

    Raises:
      DataError: for the first row that is wrong, with file and line.
      ScoringError: if prompts are longer than the longest row; lists them.
    """
    task = load_task(task_config)
    encoded = task.encoded_examples(vocabulary, config.conditionals, config.mode, config.family)
    digest = hashlib.sha256()
    tables: list[np.ndarray] = []
    first = [0]
    too_long: list[tuple[str, int, int]] = []
    packing = config.packing
    for example in encoded:
        text = (
            example.id, example.subject, example.prompt, example.candidate_texts, example.labels,
            example.answer,
        )  # fmt: skip
        digest.update(repr(text).encode())
        lengths = lengths_of(prompts_of([example]))
        tables.append(np.stack([lengths.encoder, lengths.decoder, lengths.reads, lengths.pairs]))
        first.append(first[-1] + len(lengths))
        longest = (int(lengths.encoder.max(initial=0)), int(lengths.decoder.max(initial=0)))
        if longest[0] > packing.longest_row or longest[1] > packing.max_decoder_length:
            too_long.append((example.id, *longest))
    if too_long:
        raise ScoringError(describe_too_long(task.name, too_long, config))
    found = encoded.survey()
    entry = TaskEntry(
        examples=found.examples,
        shards=-(-found.examples // packing.examples_per_shard),
        dropped=dict(found.dropped),
        digest=digest.hexdigest(),
        truncated=found.truncated,
    )
    lengths = PromptLengths(*np.concatenate(tables, axis=1).astype(np.int64))

    def examples() -> Iterator[EncodedExample]:
        # TensorFlow is brought in here, when the first pass has found nothing to mend.
        import_tensorflow()
        from mlm_consistency.tasks.seqio_input import seqio_examples

        return seqio_examples(
            task_config, vocabulary, config.conditionals, config.mode, config.family
        )

    return TaskInput(task.name, examples, lengths, np.asarray(first, np.int64)), entry


def describe_too_long(
    task: str, examples: Sequence[tuple[str, int, int]], config: ScoreConfig
) -> str:
    """The message that lists examples longer than the longest row."""
    lines = [
        f"  {name}: {encoder} encoder tokens, {decoder} decoder nodes"
        for name, encoder, decoder in examples[:LISTED]
    ]
    if len(examples) > LISTED:
        lines.append(f"  and {len(examples) - LISTED} more")
    encoder = max(e for _, e, _ in examples)
    decoder = max(d for _, _, d in examples)
    packing = config.packing
    raised = (
        f"TASK_FEATURE_LENGTHS to at least {{'inputs': {max(encoder, 1)}, 'targets': "
        f"{max(decoder, 1)}}}"
    )
    if packing.longest_row_setting == "row_lengths" and encoder > packing.longest_row:
        raised = f"the longest of packing.row_lengths to {encoder} or more, and {raised}"
    return (
        f"task {task!r}: {len(examples)} examples are longer than the longest row "
        f"({packing.longest_row} encoder tokens, {packing.max_decoder_length} decoder "
        "nodes):\n" + "\n".join(lines) + f"\nNothing is cut in silence. Raise {raised}, or cut "
        "prompts at the left with task.max_prompt_tokens."
    )
