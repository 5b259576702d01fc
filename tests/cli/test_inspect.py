"""What `inspect` shows of a task before any model is loaded."""

from __future__ import annotations

import json

from mlm_consistency.cli.main import main

STORY = "Tom went with Mary to the market. The apples are in"


def inspected(capsys, task: str, folder, conditionals: str, *more: str) -> str:
    settings = {
        "MIXTURE_OR_TASK_NAME": task, "DATA_DIR": str(folder), "MODEL": "tiny",
        "VOCABULARY": "tiny", "CONDITIONALS": conditionals,
    }  # fmt: skip
    bindings = [f"--gin.{name}={value}" for name, value in settings.items()]
    assert main(["inspect", *bindings, *more]) == 0
    return capsys.readouterr().out


def test_negative_offsets_modes_and_shares(tmp_path, capsys):
    rows = [
        {"prompt": STORY, "candidates": ["the red box", "the bag"], "label": 0},
        {"prompt": STORY, "candidates": ["the red box", "it"], "label": 0},
    ]
    file = tmp_path / "own.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    names = "baseline,offset_-1,offset_-2,span_3_3_50pct,baseline@NLU"
    said = inspected(capsys, "jsonl", file, names, "--gin.MODE=NLG")
    shown = said.split("offset_-1\n")[1].splitlines()
    assert shown[0].endswith("▁in ▁the <extra_id_0> </s>")
    assert shown[1].split() == ["targets", "0", "<extra_id_0>", "»▁red", "▁box«"]
    assert "not applicable: offset -2 shows 2 tokens of the answer" in said
    assert "▁[ NL U ]" in said.split("baseline@NLU\n")[1]
    assert "offset_-1 does not apply to 1\n" in said
    assert "offset_-2 does not apply to 2\n" in said


def test_passages_whose_candidates_are_still_to_come(tmp_path, capsys):
    text = "tom went to the red box and saw the apples . mary went to the box\n"
    (tmp_path / "lambada_test_plain_text.txt").write_text(text, "utf-8")
    said = inspected(capsys, "lambada", tmp_path, "baseline,offset_1")
    assert "answer: box; candidates: still to be searched for" in said
    assert "task lambada: 1 examples" in said
