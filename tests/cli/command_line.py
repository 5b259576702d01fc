"""Inputs of `mlm-consistency score` for tests: questions, a random checkpoint, arguments."""

from __future__ import annotations

import dataclasses
import json
import random
from pathlib import Path

NAMES = ("Tom", "Mia", "Ann", "Bob")
CONDITIONALS = "baseline,offset_1,span_3_5_1"


def question(number: int = 0, **changes) -> dict:
    """One question of our own, its prompt of one to six sentences."""
    rng = random.Random(number)
    sentences = [
        f"{rng.choice(NAMES)} bought {rng.randint(2, 9)} apples and ate {rng.randint(1, 3)}."
        for _ in range(rng.randint(1, 6))
    ]
    candidates = ["2", "4", "6 apples", "red apples"]
    row = {"prompt": " ".join([*sentences, "He now has"]), "candidates": candidates}
    return row | {"label": number % 4, "id": f"q{number}", "subject": f"s{number % 3}"} | changes


def write_questions(path: Path, rows: int | list[dict]) -> Path:
    """A JSONL file of questions."""
    rows = [question(n) for n in range(rows)] if isinstance(rows, int) else rows
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def small_network():
    """A network of d 32 for the shipped vocabulary."""
    from mlm_consistency.models.config import T5Config

    return T5Config(
        name="small", vocab_size=2304, d_model=32, num_heads=2, head_dim=16, mlp_dim=48,
        encoder_layers=2, decoder_layers=2, mlp_activations=("silu", "linear"),
    )  # fmt: skip


def save_checkpoint(folder: Path, seed: int = 0, poison: str = "", **changes) -> Path:
    """Random weights; `poison` names a leaf whose last value becomes NaN."""
    import jax
    import numpy as np

    from mlm_consistency.checkpoints.convert import save
    from mlm_consistency.models.t5 import abstract_parameters

    config = dataclasses.replace(small_network(), **changes)
    rng = np.random.default_rng(seed)

    def draw(path, leaf):
        name = jax.tree_util.keystr(path, simple=True, separator="/")
        spread = 1.0 if "embedding" in name or "scale" in name else leaf.shape[-2] ** -0.5
        array = (rng.normal(size=leaf.shape) * spread).astype(leaf.dtype)
        if poison and poison in name:
            array.flat[-1] = np.nan
        return array

    params = jax.tree_util.tree_map_with_path(draw, abstract_parameters(config))
    save(params, config, str(folder), "t5x")
    return folder


def arguments(folder: Path, **changes) -> list[str]:
    """Flags of a run whose inputs lie in `folder`; None takes one away."""
    bindings = {
        "MIXTURE_OR_TASK_NAME": "jsonl",
        "DATA_DIR": folder / "questions.jsonl",
        "CONDITIONALS": CONDITIONALS,
        "CHECKPOINT_PATH": folder / "checkpoint",
        "VOCABULARY": "tiny",
        "OUTPUT_DIR": folder / "run",
        "COMPILATION_CACHE": folder / "cache",
        "packing.tokens_per_batch": 1024,
        "packing.examples_per_shard": 8,
    }
    for name, value in changes.items():
        bindings[name.replace("__", ".")] = value
    return [f"--gin.{name}={value}" for name, value in bindings.items() if value is not None]


def record_bytes(run: Path) -> dict[str, bytes]:
    """Every file in the records folder."""
    return {path.name: path.read_bytes() for path in sorted((run / "records").iterdir())}


def tree(folder: Path) -> dict[str, bytes | None]:
    """All that lies below a folder, files with their content."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in sorted(folder.rglob("*"))
    }
