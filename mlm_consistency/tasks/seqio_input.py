"""One pass over a task through seqio: what the scoring loop reads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import seqio

from mlm_consistency.conditionals import Conditional, EncodedExample
from mlm_consistency.tasks.config import TaskConfig
from mlm_consistency.tasks.seqio_tasks import read_grouped, register
from mlm_consistency.vocabularies import Vocabulary


def seqio_examples(
    config: TaskConfig,
    vocabulary: Vocabulary,
    conditionals: Sequence[Conditional],
    mode: str,
    family: str,
) -> Iterator[EncodedExample]:
    """Registers the task as `mlmc_NAME` and goes over its grouped form once, in order."""
    grouped, _ = register(config, vocabulary, conditionals, mode, family, replace=True)
    task = seqio.get_mixture_or_task(grouped)
    dataset = task.get_dataset(
        sequence_length=None, split=next(iter(task.splits)), shuffle=False, num_epochs=1
    )
    return read_grouped(dataset)
