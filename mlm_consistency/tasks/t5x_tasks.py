"""What T5X's gin files call: gin/t5x/score.gin binds these functions.

T5X imports this module through gin's dynamic registration; nothing here imports gin or T5X.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from mlm_consistency.conditionals import NegativeOffset, parse_conditionals
from mlm_consistency.errors import ConfigError
from mlm_consistency.tables import unknown_name
from mlm_consistency.tasks.config import TaskConfig
from mlm_consistency.tasks.names import PAPER_TASKS, TASKS, paper_task
from mlm_consistency.tasks.seqio_tasks import register
from mlm_consistency.tasks.seqio_vocabulary import SeqioVocabulary
from mlm_consistency.vocabularies import load_vocabulary


@functools.cache
def seqio_vocabulary(path: str, extra_ids: int | None = None) -> SeqioVocabulary:
    """Our vocabulary behind seqio's interface, for T5X's models.

    Args:
      path: "tiny", a SentencePiece file or a folder; see `vocabularies.load_vocabulary`.
      extra_ids: sentinels to add; None: what the vocabulary says.
    """
    return SeqioVocabulary(load_vocabulary(path, extra_ids))


def flat_task(
    task: str,
    vocabulary: SeqioVocabulary,
    data_dir: str | None = None,
    conditionals: str | Sequence[str] = "mmlu",
    mode: str | None = None,
    family: str = "t5",
    **settings: Any,
) -> str:
    """Registers a task with seqio and gives the name of its flat form, `mlmc_TASK_flat`.

    Args:
      task: a task or one of the paper's (`mlm-consistency data list`).
      vocabulary: as `seqio_vocabulary` gives it.
      data_dir: folder of the task's files; None for those that ship.
      conditionals: a preset, names with commas, or a list.
      mode: UL2's mode word.
      family: t5, ul2 or flan.
      **settings: of TaskConfig: split, subjects, form, limit, ...

    Raises:
      UnknownNameError: if there is no such task.
      ConfigError: for negative offsets: T5X sums a candidate's tokens, so that those which the
        encoder is shown could not be priced.
    """
    if task in PAPER_TASKS:
        config = replace(paper_task(task, data_dir or ""), **{"label": task, **settings})
    elif task in TASKS:
        config = TaskConfig(task, data_dir, **settings)
    else:
        raise unknown_name("task", task, (*TASKS, *PAPER_TASKS))
    patterns = parse_conditionals(conditionals)
    if unpriced := [c.name for c in patterns if isinstance(c, NegativeOffset)]:
        raise ConfigError(
            f"conditionals {', '.join(unpriced)} show tokens of the answer, which are priced token "
            "by token; T5X gives one sum a candidate. Leave them out of a run with T5X."
        )
    words = vocabulary.wrapped
    return register(config, words, patterns, mode, family, replace=True)[1]
