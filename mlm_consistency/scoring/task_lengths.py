"""How long a task's prompts are: all that a plan needs of it, without a word of its text.

A table is a small JSON file of counts. The tokens that a conditional moves or masks follow from
the length of the prompt alone, so one table serves any set of conditionals:

    {"task": "mmlu_ul2", "family": "ul2", "mode": "NLG", "vocabulary": "t5",
     "conditionals": ["baseline", "offset_1", ..], "assumption": "",
     "prompt_tokens": [..],     for each example: n, the mode word's tokens among them
     "branch_nodes": [..],      nodes of its candidate tree behind the prefix
     "read_nodes": [..],        nodes whose state is read
     "scored_pairs": [..]}      scored (node, target) pairs; one number: the same for all

The tables in `lengths/` are those of the paper's tasks under the T5 vocabulary.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mlm_consistency.conditionals import Conditional, NotApplicable, parse_conditionals
from mlm_consistency.conditionals.example import EncodedExample
from mlm_consistency.errors import DataError
from mlm_consistency.scoring.packing import PromptLengths
from mlm_consistency.scoring.trees import build_tree
from mlm_consistency.tables import unknown_name

FOLDER = Path(__file__).parent / "lengths"
COUNTS = ("prompt_tokens", "branch_nodes", "read_nodes", "scored_pairs")
# LAMBADA's candidates come from beam search; until it has run, its 20 beams are taken to be one
# word and one mark each, all different.
BEAMS, BEAM_TOKENS = 20, 2


@dataclasses.dataclass(frozen=True)
class TaskLengths:
    """The lengths of a task's examples; int64 arrays [n].

    Attributes:
      task: name of the task.
      family: t5, ul2 or flan: what prompts look like.
      conditionals: names, the baseline first.
      prompt_tokens, branch_nodes, read_nodes, scored_pairs: see the module.
      mode: the run's mode word, counted in `prompt_tokens`.
      vocabulary: what was counted with.
      assumption: what is not known but assumed; "" for nothing.
    """

    task: str
    family: str
    conditionals: tuple[str, ...]
    prompt_tokens: np.ndarray
    branch_nodes: np.ndarray
    read_nodes: np.ndarray
    scored_pairs: np.ndarray
    mode: str = ""
    vocabulary: str = ""
    assumption: str = ""

    @property
    def examples(self) -> int:
        """Number of examples."""
        return len(self.prompt_tokens)

    def prompts(self) -> tuple[PromptLengths, np.ndarray]:
        """One prompt for each example and conditional that applies to it, in that order.

        Returns:
          What the prompts need, and int64 [n + 1]: the prompts of example i are first[i] to
          first[i + 1].
        """
        laid = {
            int(n): _masked_lengths(int(n), parse_conditionals(self.conditionals), self.family)
            for n in np.unique(self.prompt_tokens)
        }
        rows, first = [], [0]
        for i, n in enumerate(self.prompt_tokens):
            masked = laid[int(n)]
            more = (self.branch_nodes[i], self.read_nodes[i], self.scored_pairs[i])
            rows.append(
                np.stack(
                    [
                        masked[:, 0],
                        1 + masked[:, 1] + more[0],
                        np.full(len(masked), more[1]),
                        np.full(len(masked), more[2]),
                    ]
                )
            )
            first.append(first[-1] + len(masked))
        return PromptLengths(*np.concatenate(rows, axis=1)), np.asarray(first, np.int64)


def _masked_lengths(n: int, conditionals: Sequence[Conditional], family: str) -> np.ndarray:
    """(encoder tokens, prefix tokens) under each conditional that applies to n tokens."""
    layouts = [c.layout(n, family) for c in conditionals]
    fits = [x for x in layouts if not isinstance(x, NotApplicable)]
    return np.array([(x.encoder_length, x.prefix_length) for x in fits], np.int64).reshape(-1, 2)


def count_lengths(
    task: str,
    examples: Iterable[EncodedExample],
    conditionals: Sequence[str],
    family: str,
    mode: str = "",
    vocabulary: str = "",
) -> TaskLengths:
    """Counts over encoded examples; those without candidates get the assumed beams."""
    rows, assumed = [], False
    for example in examples:
        n = len(example.prompt_ids[mode] if mode in example.prompt_ids else _any(example))
        if example.candidates:
            tree = build_tree(example.candidates)
            rows.append((n, tree.size, len(tree.read), len(tree.pair_target)))
        else:
            assumed = True
            inner = BEAMS * (BEAM_TOKENS - 1)
            rows.append((n, inner, 1 + inner, BEAMS * BEAM_TOKENS))
    table = np.asarray(rows, np.int64).reshape(-1, 4)
    said = (
        f"{BEAMS} different candidates of {BEAM_TOKENS} tokens each; beam search itself is not "
        "counted"
    )
    counts = dict(zip(COUNTS, table.T, strict=True))
    assumption = said if assumed else ""
    return TaskLengths(
        task, family, tuple(conditionals), **counts,
        mode=mode, vocabulary=vocabulary, assumption=assumption,
    )  # fmt: skip


def _any(example: EncodedExample) -> Any:
    return next(iter(example.prompt_ids.values()))


def shipped_lengths() -> tuple[str, ...]:
    """Names of the tables that ship."""
    return tuple(sorted(path.stem for path in FOLDER.glob("*.json")))


def load_lengths(name: str) -> TaskLengths:
    """A table that ships, by name, or one of one's own, by path (*.json).

    Raises:
      UnknownNameError: if there is no such table.
      DataError: for a malformed file, with what is wrong.
    """
    path = Path(name)
    if not name.endswith(".json"):
        path = FOLDER / f"{name}.json"
        if not path.is_file():
            raise unknown_name("table of lengths (or give a path to a .json)", name,
                               shipped_lengths())  # fmt: skip
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DataError(f"lengths {path}: cannot be read as JSON ({error})") from None
    return read_lengths(content, str(path))


def read_lengths(content: Any, where: str) -> TaskLengths:
    """A table from its JSON.

    Raises:
      DataError: for a missing or malformed entry.
    """
    needed = ("task", "family", "conditionals", *COUNTS)
    missing = [key for key in needed if not isinstance(content, dict) or key not in content]
    if missing:
        raise DataError(f"lengths {where}: {', '.join(missing)} missing; expected {needed}")
    try:
        arrays = [np.atleast_1d(np.asarray(content[key], np.int64)) for key in COUNTS]
        count = len(arrays[0])
        arrays = [np.full(count, a[0]) if len(a) == 1 else a for a in arrays]
    except (ValueError, TypeError, IndexError) as error:
        raise DataError(f"lengths {where}: counts must be whole numbers ({error})") from None
    if count == 0 or any(a.shape != (count,) for a in arrays):
        sizes = dict(zip(COUNTS, (a.shape for a in arrays), strict=True))
        raise DataError(f"lengths {where}: expected one count an example, came {sizes}")
    if min(arrays[0].min(), arrays[2].min(), arrays[3].min()) < 1 or arrays[1].min() < 0:
        raise DataError(f"lengths {where}: counts must be positive (branch_nodes: 0 or more)")
    return TaskLengths(
        content["task"],
        content["family"],
        tuple(content["conditionals"]),
        **dict(zip(COUNTS, arrays, strict=True)),
        mode=content.get("mode", ""),
        vocabulary=content.get("vocabulary", ""),
        assumption=content.get("assumption", ""),
    )


def write_lengths(lengths: TaskLengths, path: str | Path) -> None:
    """The table as JSON."""
    content: dict[str, Any] = {
        field.name: getattr(lengths, field.name)
        for field in dataclasses.fields(lengths)
        if field.name not in COUNTS
    }
    for key in COUNTS:
        counts = getattr(lengths, key).tolist()
        content[key] = counts[0] if key != COUNTS[0] and len(set(counts)) == 1 else counts
    content["conditionals"] = list(lengths.conditionals)
    lines = [f" {json.dumps(key)}: {json.dumps(content[key])}" for key in content]
    Path(path).write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
