"""Workload files: token ids whose lengths are like a benchmark's, for measuring speed alone.

Format "workload-1": `examples[i].input_ids` is the baseline's encoder input (it ends in x_0 and
`</s>`), `completions` are candidates that begin with x_0; `conditionals` lists ["baseline"],
["offset", K] and ["multispan", L, G, S].
"""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np

from mlm_consistency.conditionals import EncodedExample, Masked, NotApplicable, get_conditional
from mlm_consistency.errors import DataError
from mlm_consistency.models.config import T5Config
from mlm_consistency.scoring.assemble import lengths_of, prompts_of
from mlm_consistency.scoring.loop import TaskInput
from mlm_consistency.scoring.task_lengths import load_lengths

SYNTHETIC = "mmlu"
SENTINEL, EOS = 32099, 1
KEYS = ("pad_id", "eos_id", "sentinel0", "vocab", "conditionals", "examples")

# Heads of T5 1.1's form; `small` and `base` are the published sizes.
SIZES: dict[str, dict[str, int]] = {
    "tiny": {"d_model": 128, "mlp_dim": 256, "num_heads": 4, "head_dim": 32, "layers": 2},
    "small": {"d_model": 512, "mlp_dim": 1024, "num_heads": 6, "head_dim": 64, "layers": 8},
    "base": {"d_model": 768, "mlp_dim": 2048, "num_heads": 12, "head_dim": 64, "layers": 12},
}


@dataclasses.dataclass(frozen=True)
class Workload:
    """Examples under conditionals, without a text or a vocabulary.

    Attributes:
      examples: as ids.
      vocab_size: ids are below it.
      start_id: with which the decoder starts.
    """

    examples: tuple[EncodedExample, ...]
    vocab_size: int
    start_id: int

    def task(self, copies: int = 1) -> TaskInput:
        """The examples, `copies` times over, for the scoring loop."""
        prompts = prompts_of(self.examples)
        lengths = lengths_of(prompts)
        counts = np.bincount([p.example for p in prompts], minlength=len(self.examples))
        first = np.concatenate([[0], np.cumsum(np.tile(counts, copies))]).astype(np.int64)
        many = lengths.take(np.tile(np.arange(len(lengths)), copies))
        return TaskInput("workload", lambda: iter(self.examples * copies), many, first)


def size_config(size: str, vocab_size: int) -> T5Config:
    """A network of T5 1.1's form of the named size."""
    fields: dict[str, Any] = dict(SIZES[size])
    layers = fields.pop("layers")
    return T5Config(
        name=size,
        vocab_size=vocab_size,
        encoder_layers=layers,
        decoder_layers=layers,
        mlp_activations=("gelu", "linear"),
        tied_embeddings=False,
        **fields,
    )


def load_workload(name: str) -> Workload:
    """A workload file by its path (*.json), or `mmlu`: `synthetic_workload()`.

    Raises:
      DataError: if the file is missing, or not of this format.
    """
    return synthetic_workload() if name == SYNTHETIC else read_workload(name)


def synthetic_workload(examples: int = 64, seed: int = 20230101) -> Workload:
    """Random ids with the prompt lengths of MMLU, for a machine without a workload file.

    Args:
      examples: how many; their lengths are spread evenly over those of `lengths/mmlu_t5.json`.
        Each has four candidates of one to four tokens.
      seed: of ids and lengths of candidates.
    """
    draw = np.random.default_rng(seed)
    lengths = np.sort(load_lengths("mmlu_t5").prompt_tokens)
    places = np.linspace(0, len(lengths) - 1, examples).round().astype(int)

    def ids(count: int) -> list[int]:
        return draw.integers(10, SENTINEL - 100, count).tolist()

    entries = [
        {
            "input_ids": [*ids(int(n)), SENTINEL, EOS],
            "completions": [[SENTINEL, *ids(int(m))] for m in draw.integers(1, 5, 4)],
        }
        for n in draw.permutation(lengths[places])
    ]
    return _workload(
        {
            "pad_id": 0,
            "eos_id": EOS,
            "sentinel0": SENTINEL,
            "vocab": 32128,
            "conditionals": [_entry(name) for name in load_lengths("mmlu_t5").conditionals],
            "examples": entries,
        },
        SYNTHETIC,
    )


def read_workload(path: str | Path) -> Workload:
    """Reads a workload file.

    Raises:
      DataError: if it is missing, or not of this format.
    """
    try:
        content: Any = json.loads(Path(path).read_text())
    except OSError as error:
        raise DataError(
            f"workload {path}: {error.strerror}; give a file, or {SYNTHETIC!r} for random ids "
            "of MMLU's lengths"
        ) from error
    except ValueError as error:
        raise DataError(f"workload {path}: not JSON: {error}") from error
    form = content.get("format") if isinstance(content, dict) else type(content).__name__
    if form != "workload-1":
        raise DataError(f"workload {path}: format is {form!r}, expected 'workload-1'")
    missing = [key for key in KEYS if key not in content]
    if missing:
        raise DataError(f"workload {path}: {', '.join(missing)} missing; expected {KEYS}")
    return _workload(content, str(path))


def _workload(content: dict[str, Any], where: str) -> Workload:
    first, eos = content["sentinel0"], content["eos_id"]
    conditionals = [get_conditional(_name(entry)) for entry in content["conditionals"]]
    examples = []
    for number, entry in enumerate(content["examples"]):
        prompt = np.asarray(entry["input_ids"], np.int32)
        if prompt[-2:].tolist() != [first, eos]:
            raise DataError(f"workload {where}: example {number} does not end in {[first, eos]}")
        prompt = prompt[:-2]
        candidates = tuple(np.asarray(ids[1:], np.int32) for ids in entry["completions"])
        masked: list[Any] = []
        for conditional in conditionals:
            layout = conditional.layout(len(prompt), "t5")
            if isinstance(layout, NotApplicable):
                masked.append(layout)
                continue
            ids = layout.encoder_ids(prompt, lambda k: first - k, eos)
            masked.append(Masked(ids, layout.prefix_ids(prompt, lambda k: first - k)))
        texts = ("",) * len(candidates)
        examples.append(
            EncodedExample(
                number,
                str(number),
                "",
                "",
                texts,
                (entry.get("label", 0),),
                candidates,
                {"": prompt},
                tuple(masked),
            )
        )
    return Workload(tuple(examples), content["vocab"], content["pad_id"])


def _name(entry: list[Any]) -> str:
    kind, *numbers = entry
    return "_".join(["span" if kind == "multispan" else kind, *map(str, numbers)])


def _entry(name: str) -> list[Any]:
    kind, *numbers = name.split("_")
    return ["multispan" if kind == "span" else kind, *map(int, numbers)]
