"""The two story tasks that ship: held-out stories as JSON lines.

``python -m mlm_consistency.pretraining.story_tasks FOLDER`` writes them anew.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

from mlm_consistency.pretraining.stories import HELDOUT_SEED, choice_example, last_word_example

EXAMPLES = 400

FILES: dict[str, Callable[[int, int], dict[str, object]]] = {
    "stories_last_word.jsonl": last_word_example,
    "stories_choice.jsonl": choice_example,
}


def write_story_tasks(folder: str | Path, examples: int = EXAMPLES) -> list[Path]:
    """Write both files, ``examples`` lines each, and return their paths.

    Line ``i`` of either file asks held-out story ``i``, so the two tasks share their facts.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for name, example in FILES.items():
        lines = (json.dumps(example(HELDOUT_SEED, index)) + "\n" for index in range(examples))
        path = folder / name
        path.write_text("".join(lines), encoding="utf-8")
        paths.append(path)
    return paths


if __name__ == "__main__":
    for written in write_story_tasks(sys.argv[1]):
        print(written)
