"""Small files in the benchmarks' own forms, in our words, for the contract tests."""

from __future__ import annotations

import json
from pathlib import Path

from mlm_consistency.tasks import TaskConfig
from mlm_consistency.tasks.bbh import SUBJECTS as BBH_SUBJECTS
from mlm_consistency.tasks.mmlu import SUBJECTS as MMLU_SUBJECTS

STORY = "Mia went to the barn. Then she went to the attic. Where is Mia now?"


def own(path: Path, rows: list[dict] | str) -> Path:
    """A JSONL file of one's own."""
    if not isinstance(rows, str):
        rows = "".join(json.dumps(row) + "\n" for row in rows)
    path.write_text(rows)
    return path


def question(**changes: object) -> dict:
    return {"prompt": STORY, "candidates": ["attic", "barn", "park"], "label": 0} | changes


def mmlu(folder: Path) -> TaskConfig:
    for split in ("dev", "val", "test"):
        (folder / split).mkdir(parents=True)
        for subject in MMLU_SUBJECTS:
            rows = "".join(f'"{STORY} ({k})",attic,barn,"park, or so",lake,A\n' for k in range(6))
            (folder / split / f"{subject}_{split}.csv").write_text(rows)
    return TaskConfig("mmlu", str(folder), subjects=("astronomy", "marketing"))


def bbh(folder: Path) -> TaskConfig:
    folder.mkdir()
    lettered = f"{STORY}\nOptions:\n(A) attic\n(B) barn"
    for name in BBH_SUBJECTS:
        text, targets = lettered, ["(A)", "(B)", "attic, and barn"]
        if name == "navigate":
            text, targets = f"{STORY}\nOptions:\n- Yes\n- No ", ["No"]
        if name == "web_of_lies":
            text, targets = STORY, ["Yes"]
        rows = [{"input": text, "target": target} for target in targets]
        (folder / f"{name}.json").write_text(json.dumps({"canary": "", "examples": rows}))
    return TaskConfig("bbh", str(folder), subjects=("navigate", "ruin_names", "web_of_lies"))


def lambada(folder: Path) -> TaskConfig:
    folder.mkdir()
    text = "mia did n't go , she 'd said : `` the barn 's dark . '' so she went to the attic\n"
    (folder / "lambada_test_plain_text.txt").write_text(text * 2)
    row = json.dumps({"text": "Mia didn't go.\n\n\"It's dark.\" So she went to the attic"})
    (folder / "lambada_test_openai.jsonl").write_text(row + "\n")
    return TaskConfig("lambada", str(folder))


def hellaswag(folder: Path) -> TaskConfig:
    folder.mkdir()
    row = {"activity_label": "Climbing", "ctx": STORY, "endings": ["a", "b"], "label": 1, "ind": 4}
    own(folder / "hellaswag_val.jsonl", [row])
    return TaskConfig("hellaswag", str(folder))


def arc(folder: Path) -> TaskConfig:
    folder.mkdir()
    choices = [{"text": "attic", "label": "1"}, {"text": "barn", "label": "2"}]
    row = {"id": "x1", "question": {"stem": STORY, "choices": choices}, "answerKey": "2"}
    own(folder / "ARC-Challenge-Test.jsonl", [row])
    return TaskConfig("arc_challenge", str(folder))


def truthfulqa(folder: Path) -> TaskConfig:
    folder.mkdir()
    row = {
        "question": STORY,
        "mc1_targets": {"attic": 1, "barn": 0},
        "mc2_targets": {"attic": 1, "up there": 1, "barn": 0},
    }
    (folder / "mc_task.json").write_text(json.dumps([row]))
    return TaskConfig("truthfulqa", str(folder))


def jsonl(folder: Path) -> TaskConfig:
    folder.mkdir()
    rows = [question(), question(label=[0, 2], id="second", subject="places", note="ignored")]
    return TaskConfig("jsonl", str(own(folder / "own.jsonl", rows)))


MAKERS = {
    "mmlu": mmlu,
    "bbh": bbh,
    "lambada": lambada,
    "hellaswag": hellaswag,
    "arc_challenge": arc,
    "truthfulqa": truthfulqa,
    "jsonl": jsonl,
    "stories_choice": lambda folder: TaskConfig("stories_choice", limit=20),
    "stories_last_word": lambda folder: TaskConfig("stories_last_word", limit=20),
}
