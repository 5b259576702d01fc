"""The columns of a shard, and scored examples in that form.

scores.parquet, one row for each (example, conditional, candidate), in that order:

    task, example_index, example_id    which example; index counts from 0 within the task
    conditional, candidate             which masking pattern, which of the example's candidates
    is_label                           whether the candidate is a right answer
    applicable, reason                 whether the pattern fits the prompt; if not, why
    tokens                             the candidate's token ids [m]
    token_log_probs                    log p of each of them [m], nats, float32; null where the
                                       pattern does not fit

examples.parquet, one row an example: its text, right answers, and the prompt's tokens and pieces
under each mode word of the run.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from mlm_consistency.errors import RecordsError, ScoringError

SCHEMA_VERSION = 1
SCHEMA_KEY = b"mlm_consistency.schema"
FINGERPRINT_KEY = b"mlm_consistency.fingerprint"

_NAMES = pa.dictionary(pa.int32(), pa.string())

SCORES_SCHEMA = pa.schema(
    [
        pa.field("task", _NAMES, nullable=False),
        pa.field("example_index", pa.int64(), nullable=False),
        pa.field("example_id", pa.string(), nullable=False),
        pa.field("conditional", _NAMES, nullable=False),
        pa.field("candidate", pa.int32(), nullable=False),
        pa.field("is_label", pa.bool_(), nullable=False),
        pa.field("applicable", pa.bool_(), nullable=False),
        pa.field("reason", pa.string()),
        pa.field("tokens", pa.list_(pa.int32()), nullable=False),
        pa.field("token_log_probs", pa.list_(pa.float32())),
    ]
)

EXAMPLES_SCHEMA = pa.schema(
    [
        pa.field("task", _NAMES, nullable=False),
        pa.field("example_index", pa.int64(), nullable=False),
        pa.field("example_id", pa.string(), nullable=False),
        pa.field("subject", pa.string(), nullable=False),
        pa.field("prompt", pa.string(), nullable=False),
        pa.field("candidate_texts", pa.list_(pa.string()), nullable=False),
        pa.field("labels", pa.list_(pa.int32()), nullable=False),
        pa.field("modes", pa.list_(pa.string()), nullable=False),
        pa.field("prompt_tokens", pa.list_(pa.list_(pa.int32())), nullable=False),
        pa.field("prompt_pieces", pa.list_(pa.list_(pa.string())), nullable=False),
    ]
)


class ScoredExamples(Protocol):
    """What the scoring loop hands over: some examples of a task with their scores.

    token_log_probs[example][conditional][candidate] is float32 [m_c] in nats, or None where the
    conditional does not apply to the example.
    """

    @property
    def task(self) -> str: ...
    @property
    def shard(self) -> int: ...
    @property
    def examples(self) -> Sequence[Any]: ...
    @property
    def token_log_probs(self) -> Sequence[Sequence[Any]]: ...


class Pieces(Protocol):
    """The part of a vocabulary that records need: how tokens look."""

    def pieces(self, ids: Sequence[int]) -> list[str]: ...


def _names(values: Iterable[int], names: Sequence[str]) -> pa.DictionaryArray:
    codes = pa.array(np.asarray(list(values), np.int32))
    return pa.DictionaryArray.from_arrays(codes, pa.array(names, pa.string()))


def _ragged(parts: Sequence[np.ndarray | None], kind: pa.DataType) -> pa.ListArray:
    """A list column whose entries are arrays, null where an entry is None."""
    dtype = kind.to_pandas_dtype()
    lengths = np.array([0 if part is None else len(part) for part in parts], np.int64)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    whole = [np.asarray(part, dtype) for part in parts if part is not None and len(part)]
    flat = np.concatenate(whole) if whole else np.zeros(0, dtype)
    missing = pa.array(np.array([part is None for part in parts], bool))
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(flat, kind), mask=missing)


def _checked(
    values: Any, tokens: np.ndarray, example: Any, conditional: str, candidate: int, task: str
) -> np.ndarray:
    """A candidate's log-probabilities, one for each of its tokens and all finite."""
    values = np.asarray(values, np.float32)
    where = (
        f"task {task!r}, example {example.id!r}, conditional {conditional!r}, "
        f"candidate {candidate} ({example.candidate_texts[candidate]!r})"
    )
    if values.shape != (len(tokens),):
        raise RecordsError(
            f"{where}: expected {len(tokens)} token log-probabilities, one a token; "
            f"came an array of shape {values.shape}"
        )
    if not np.isfinite(values).all():
        raise ScoringError(
            f"{where}: the score is not finite: token log-probabilities {values.tolist()}. "
            "Nothing of this shard was written. Look for a damaged checkpoint, or compute in "
            "float32 where the model overflows in reduced precision."
        )
    return values


def scores_table(shard: ScoredExamples, conditionals: Sequence[str]) -> pa.Table:
    """The scores of a shard as a table of SCORES_SCHEMA, rows in order.

    Raises:
      ScoringError: where a score is not finite; names example, conditional and candidate.
      RecordsError: where scores are missing or of another length than the candidate.
    """
    index: list[int] = []
    ids: list[str] = []
    codes: list[int] = []
    candidates: list[int] = []
    labels: list[bool] = []
    applicable: list[bool] = []
    reasons: list[str | None] = []
    tokens: list[np.ndarray | None] = []
    log_probs: list[np.ndarray | None] = []
    if len(shard.token_log_probs) != len(shard.examples):
        raise RecordsError(
            f"task {shard.task!r}, shard {shard.shard}: {len(shard.examples)} examples but scores "
            f"of {len(shard.token_log_probs)}"
        )
    for example, by_conditional in zip(shard.examples, shard.token_log_probs, strict=True):
        if len(by_conditional) != len(conditionals):
            raise RecordsError(
                f"task {shard.task!r}, example {example.id!r}: scores of {len(by_conditional)} "
                f"conditionals where the run has {len(conditionals)}"
            )
        for k, name in enumerate(conditionals):
            scores = by_conditional[k]
            # A pattern that does not fit carries its reason in place of a masked prompt.
            reason = getattr(example.masked[k], "reason", None)
            if (scores is None) != (reason is not None):
                raise RecordsError(
                    f"task {shard.task!r}, example {example.id!r}, conditional {name!r}: "
                    + ("no scores came" if scores is None else f"scores came although {reason}")
                )
            for c, candidate in enumerate(example.candidates):
                index.append(example.index)
                ids.append(example.id)
                codes.append(k)
                candidates.append(c)
                labels.append(c in example.labels)
                applicable.append(scores is not None)
                reasons.append(reason)
                tokens.append(candidate)
                log_probs.append(
                    None
                    if scores is None
                    else _checked(scores[c], candidate, example, name, c, shard.task)
                )
    columns = [
        _names([0] * len(index), [shard.task]),
        pa.array(index, pa.int64()),
        pa.array(ids, pa.string()),
        _names(codes, conditionals),
        pa.array(candidates, pa.int32()),
        pa.array(labels, pa.bool_()),
        pa.array(applicable, pa.bool_()),
        pa.array(reasons, pa.string()),
        _ragged(tokens, pa.int32()),
        _ragged(log_probs, pa.float32()),
    ]
    return pa.Table.from_arrays(columns, schema=SCORES_SCHEMA)


def examples_table(shard: ScoredExamples, vocabulary: Pieces) -> pa.Table:
    """The examples of a shard as a table of EXAMPLES_SCHEMA, one row each."""
    examples = shard.examples
    modes = [list(example.prompt_ids) for example in examples]
    prompts = [
        [np.asarray(example.prompt_ids[mode]).tolist() for mode in names]
        for example, names in zip(examples, modes, strict=True)
    ]
    columns = [
        _names([0] * len(examples), [shard.task]),
        pa.array([example.index for example in examples], pa.int64()),
        pa.array([example.id for example in examples], pa.string()),
        pa.array([example.subject for example in examples], pa.string()),
        pa.array([example.prompt for example in examples], pa.string()),
        pa.array([list(e.candidate_texts) for e in examples], pa.list_(pa.string())),
        pa.array([[int(label) for label in e.labels] for e in examples], pa.list_(pa.int32())),
        pa.array(modes, pa.list_(pa.string())),
        pa.array(prompts, pa.list_(pa.list_(pa.int32()))),
        pa.array(
            [[vocabulary.pieces(ids) for ids in rows] for rows in prompts],
            pa.list_(pa.list_(pa.string())),
        ),
    ]
    return pa.Table.from_arrays(columns, schema=EXAMPLES_SCHEMA)
