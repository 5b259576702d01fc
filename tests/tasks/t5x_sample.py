"""Score output in the form that t5x.infer writes, from our own scores of the shipped model.

    python tests/tasks/t5x_sample.py     writes tests/tasks/t5x_scores.jsonl anew

Two stories under three conditionals. Whole numbers are written as floats and sequences are padded,
as T5X does both.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from mlm_consistency.tasks import TaskConfig, load_task
from mlm_consistency.tasks.asked import asked_text
from mlm_consistency.tasks.rows import FLAT, flat_rows
from mlm_consistency.vocabularies import load_vocabulary

SAMPLE = Path(__file__).with_name("t5x_scores.jsonl")
TASK = TaskConfig("stories_choice", limit=2)
CONDITIONALS = ("baseline", "offset_2", "span_3_3_1")
MODE, FAMILY = "NLG", "ul2"


def encoded():
    """The sample's examples."""
    return load_task(TASK).encoded_examples(load_vocabulary("tiny"), CONDITIONALS, MODE, FAMILY)


def own_scores() -> np.ndarray:
    """Sums over tokens [example, conditional, candidate], nats, by our own loop."""
    from mlm_consistency.api import Question, load_model

    examples = encoded()
    questions = [Question(e.prompt, e.candidate_texts, e.labels[0], e.id) for e in examples]
    return load_model("tiny").score_all(questions, CONDITIONALS).values("sum")


def lines(sums: np.ndarray) -> Iterator[dict[str, Any]]:
    """The lines of the sample as objects."""
    examples = encoded()
    rows = [
        row
        for example in examples
        for row in flat_rows(example, TASK.name, examples.conditionals, MODE, asked_text(examples))
    ]
    widths = {name: max(len(row[name]) for row in rows) for name, f in FLAT.items() if f.rank == 1}
    for row in rows:
        inputs: dict[str, Any] = {}
        for name, feature in FLAT.items():
            value = row[name]
            if feature.rank == 1:
                padded = np.zeros(widths[name], int)
                padded[: len(value)] = value
                inputs[name] = padded.tolist()
            else:
                inputs[name] = value if feature.dtype == "string" else float(value)
        place = row["example"], row["conditional"], row["candidate"]
        yield {"inputs": inputs, "score": round(float(sums[place]), 6)}


if __name__ == "__main__":
    text = "".join(json.dumps(line) + "\n" for line in lines(own_scores()))
    SAMPLE.write_text(text, encoding="utf-8")
