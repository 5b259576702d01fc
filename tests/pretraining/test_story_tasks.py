"""The JSON lines that ship are what the generator gives, and long enough to be masked."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

import mlm_consistency
from mlm_consistency.pretraining.stories import HELDOUT_SEED, generate, is_held_out
from mlm_consistency.pretraining.story_tasks import EXAMPLES, FILES, write_story_tasks
from mlm_consistency.pretraining.vocabulary import ASSET

SHIPPED = Path(mlm_consistency.__file__).parent / "tasks" / "assets"


def read(name: str) -> list[dict]:
    lines = (SHIPPED / name).read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def test_shipped_files_are_what_the_generator_gives(tmp_path: Path) -> None:
    for path in write_story_tasks(tmp_path):
        assert path.read_bytes() == (SHIPPED / path.name).read_bytes()


@pytest.mark.parametrize("name", FILES)
def test_examples_are_whole_and_balanced(name: str) -> None:
    examples = read(name)
    assert len(examples) == len({example["id"] for example in examples}) == EXAMPLES
    assert all(set(e) == {"id", "prompt", "candidates", "label", "subject"} for e in examples)
    kinds = Counter(example["subject"] for example in examples)
    assert len(kinds) == 7
    assert max(kinds.values()) - min(kinds.values()) <= 1
    labels = Counter(example["label"] for example in examples)
    ways = len(examples[0]["candidates"])
    assert set(labels) == set(range(ways))
    assert max(labels.values()) < 1.4 * EXAMPLES / ways


def test_examples_are_held_out() -> None:
    for index in range(EXAMPLES):
        assert is_held_out(generate(HELDOUT_SEED, index).facts)


@pytest.mark.parametrize("name", FILES)
def test_prompts_are_long_enough_and_answers_short_enough(name: str) -> None:
    sentencepiece = pytest.importorskip("sentencepiece")
    pieces = sentencepiece.SentencePieceProcessor(model_file=str(ASSET))
    examples = read(name)
    lengths = [len(pieces.encode(example["prompt"])) for example in examples]
    assert sum(length >= 25 for length in lengths) >= 0.97 * EXAMPLES
    assert max(lengths) <= 90
    for example in examples:
        sizes = [len(pieces.encode(candidate)) for candidate in example["candidates"]]
        assert max(sizes) <= 3
        assert max(sizes) == min(sizes)
