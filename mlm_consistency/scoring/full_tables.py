"""Whole V x V conditional tables of two positions, in chunks that fit in what is asked.

A table of 30,522 words has 3.7 GB in float32, twice for both conditionals. It is computed row by
row of the word that stands in place, and never held: chunks are yielded, or written to a file.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from mlm_consistency.errors import ScoringError
from mlm_consistency.scoring.masked_positions import MaskedScorer
from mlm_consistency.scoring.masked_rows import MaskedContext
from mlm_consistency.scoring.pair_tables import SpecialIds


@dataclasses.dataclass(frozen=True)
class ConditionalRows:
    """Some rows of log p(. | word in place).

    Attributes:
      words: int32 [n], what stands at the other position.
      log_probs: float32 [n, V] nats, rows sum to one. A buffer that the next chunk overwrites.
    """

    words: np.ndarray
    log_probs: np.ndarray


def full_conditional(
    scorer: MaskedScorer,
    token_ids: np.ndarray,
    read: int,
    given: int,
    special: SpecialIds,
    words: np.ndarray | None = None,
    max_bytes: int = 2**28,
) -> Iterator[ConditionalRows]:
    """log p(every word at `read` | each word at `given`) in chunks, `read` masked.

    Args:
      token_ids: int32 [n], the text without [CLS] and [SEP].
      read, given: two of its positions.
      words: ids to put at `given`; the whole vocabulary by default.
      max_bytes: all distributions held at a time: half of them the chunk, half the step that
        computes them (on the device and on its way from there).

    Raises:
      ScoringError: for positions outside the text, or a `max_bytes` that holds no row.
    """
    if read == given or min(read, given) < 0 or max(read, given) >= len(token_ids):
        raise ScoringError(
            f"read {read} and given {given} must be two positions of {len(token_ids)} tokens"
        )
    tokens, shift = special.around(token_ids)
    tokens[read + shift] = special.mask
    size = scorer.config.vocab_size
    words = np.arange(size, dtype=np.int32) if words is None else np.asarray(words, np.int32)
    step_bytes = max_bytes // 2
    most = scorer.reads_within(step_bytes) * scorer.slots
    rows = min(len(words), max(1, step_bytes // (4 * size)), most)
    buffer = np.empty((rows, size), np.float32)
    for start in range(0, len(words), rows):
        part = words[start : start + rows]
        contexts = []
        for word in part:
            filled = tokens.copy()
            filled[given + shift] = word
            contexts.append(MaskedContext(filled, np.array([read + shift], np.int32)))
        # The last chunk is filled up, so that it needs no compilation of its own.
        contexts += contexts[:1] * (rows - len(part))
        for number, log_probs in scorer.distributions(contexts, step_bytes):
            buffer[number] = log_probs[0]
        yield ConditionalRows(part, buffer[: len(part)])


def write_full_tables(
    scorer: MaskedScorer,
    token_ids: np.ndarray,
    positions: tuple[int, int],
    special: SpecialIds,
    folder: str | Path,
    max_bytes: int = 2**28,
) -> tuple[Path, Path]:
    """Both V x V tables of a pair as .npy files of float32 nats, 2 V forward rows.

    `a_given_b.npy` holds log p(a_i | b_j) at [j, i] (a row for each b, as it is computed: read it
    with `numpy.load(path, mmap_mode="r").T`), `b_given_a.npy` log p(b_j | a_i) at [i, j].
    """
    size = scorer.config.vocab_size
    a, b = positions
    paths = Path(folder) / "a_given_b.npy", Path(folder) / "b_given_a.npy"
    Path(folder).mkdir(parents=True, exist_ok=True)
    for path, read, given in ((paths[0], a, b), (paths[1], b, a)):
        chunks = full_conditional(scorer, token_ids, read, given, special, max_bytes=max_bytes)
        partial = path.with_name(f"{path.name}.partial")
        with open(partial, "wb") as file:
            header = {"descr": "<f4", "fortran_order": False, "shape": (size, size)}
            np.lib.format.write_array_header_1_0(file, header)
            for chunk in chunks:
                file.write(chunk.log_probs.astype("<f4", copy=False).data)
        partial.replace(path)
    return paths
