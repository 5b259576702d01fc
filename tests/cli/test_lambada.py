"""LAMBADA from passages to report: beam search, scoring, analysis; and again without a search."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path

import pytest
from command_line import arguments, record_bytes, save_checkpoint

from mlm_consistency.cli import beams as beams_command
from mlm_consistency.cli.main import main
from mlm_consistency.records import open_run
from mlm_consistency.records.beams import read_beams

PASSAGES, PER_SHARD = 10, 4
SETTINGS = {
    "MIXTURE_OR_TASK_NAME": "lambada",
    "MODE": "NLG",
    "FAMILY": "ul2",
    "CONDITIONALS": "baseline,offset_1,offset_2",
    "beams__width": 6,
    "beams__max_tokens": 3,
    "beams__examples_per_shard": PER_SHARD,
    "beams__max_row_lengths": 1,
    "analysis__resamples": 50,
    "analysis__diagnostics": False,
}


def passages(count: int, answer=None) -> str:
    rng = random.Random(0)
    lines = []
    for n in range(count):
        words = " ".join(rng.choices(["tom", "went", "to", "the", "red", "box", ","], k=12))
        lines.append(f"{words} and saw the {answer[n] if answer else 'box'}\n")
    return "".join(lines)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A random checkpoint, and passages whose answers are, but for the last, what it says."""
    made = tmp_path_factory.mktemp("lambada")
    save_checkpoint(made / "checkpoint")
    (made / "data").mkdir()
    (made / "data" / "lambada_test_plain_text.txt").write_text(passages(PASSAGES))
    return made


def flags(folder: Path, run: str, **changes) -> list[str]:
    settings = {"DATA_DIR": folder / "data", "OUTPUT_DIR": folder / run, **SETTINGS, **changes}
    return arguments(folder, **settings)


def files(folder: Path) -> dict[str, bytes]:
    return {p.name: p.read_bytes() for p in sorted(folder.iterdir()) if p.name != "manifest.json"}


@pytest.fixture(scope="module")
def run(folder, monkeypatch_module):
    """A whole run. The model is random, so marks are put behind what it says."""
    assert main(["run", *flags(folder, "run")]) == 0
    return folder / "run"


@pytest.fixture(scope="module")
def monkeypatch_module():
    """A decoder that makes words of a random model's tokens: some with a mark, some without."""
    patch = pytest.MonkeyPatch()

    def read(beam, example, vocabulary):
        said = beam.tokens.tolist()
        word = ("box", "bag", "cup", "hat")[said[0] % 4]
        text = f"{word}{('.', ',', ' and')[said[-1] % 3]}"
        if example.index == PASSAGES - 1:
            text = "and then"  # no candidate
        reading = beams_command.read_beam(text)
        return beams_command.SaidBeam(
            beam.tokens, beam.log_probs, beam.score, text, reading.candidate, reading.reason,
            beams_command.is_right(reading.candidate, example.answer),
        )  # fmt: skip

    patch.setattr(beams_command, "read", read)
    yield patch
    patch.undo()


def test_beams_are_recorded_and_candidates_kept(run):
    lines = [
        json.loads(x) for x in (run / "beams/lambada.candidates.jsonl").read_text().split("\n")[:-1]
    ]
    assert [line["id"] for line in lines] == [f"test/{n}" for n in range(PASSAGES)]
    shards = sorted((run / "beams").glob("*.beams.parquet"))
    assert [p.name for p in shards] == [f"lambada-{n:05d}-of-00003.beams.parquet" for n in range(3)]
    rows = [row for path in shards for row in read_beams(path).to_pylist()]
    assert len(rows) == PASSAGES * SETTINGS["beams__width"]
    for line in lines:
        mine = [row for row in rows if row["example_id"] == line["id"]]
        kept = [row["candidate"] for row in mine if row["candidate"]]
        assert list(dict.fromkeys(kept)) == line["candidates"]
        assert [row["score"] for row in mine] == sorted((r["score"] for r in mine), reverse=True)
        assert all(len(row["tokens"]) == len(row["token_log_probs"]) for row in mine)
    assert lines[-1]["candidates"] == []


def test_they_are_scored_and_analysed(run):
    opened = open_run(run)
    examples = opened.examples("lambada").to_pylist()
    assert len(examples) == PASSAGES
    assert examples[-1]["candidate_texts"] == ["(none)"]
    scores = opened.scores("lambada").to_pylist()
    assert {row["conditional"] for row in scores} == {"baseline", "offset_1", "offset_2"}
    for row in examples[:-1]:
        right = [n for n, text in enumerate(row["candidate_texts"]) if text[:-1] == "box"]
        assert row["labels"] == right
    task = json.loads((run / "summary.json").read_text())["tasks"]["lambada"]
    assert task["examples"] == PASSAGES
    assert task["last_words"]["without_candidate"] == 1
    wrong = sum(not row["labels"] for row in examples)
    assert task["last_words"]["without_right_word"] == wrong
    assert task["without_right_candidate"] == wrong
    assert task["conditionals"]["baseline"]["accuracy"] <= 1 - wrong / PASSAGES
    together, apart = task["disagreement"], task["last_words"]["disagreement_forms_apart"]
    assert together["n"] == apart["n"] == PASSAGES
    assert together["value"] <= apart["value"]
    assert (run / "report.html").stat().st_size > 10_000


def test_scoring_again_needs_no_search(folder, run, monkeypatch):
    def refuse(*arguments, **options):
        raise AssertionError("searched")

    from mlm_consistency.scoring import beams

    monkeypatch.setattr(beams, "make_search", refuse)
    assert main(["score", *flags(folder, "run")]) == 0
    assert main(["beams", *flags(folder, "run")]) == 0
    reused = {"lambada/task.beams": run / "beams", "lambada/task.last_words": "paper"}
    paper = flags(folder, "paper", **reused)
    assert main(["score", *paper]) == 0
    opened = open_run(folder / "paper")
    assert opened.manifest.tasks["lambada"].examples == PASSAGES - 1
    assert opened.manifest.tasks["lambada"].dropped == {"no beam gives a word and a mark": 1}
    assert main(["analyze", str(folder / "paper"), "--gin.analysis.resamples=50",
                 "--gin.analysis.diagnostics=False"]) == 0  # fmt: skip
    task = json.loads((folder / "paper/summary.json").read_text())["tasks"]["lambada"]
    assert task["disagreement"]["value"] == task["last_words"]["disagreement_forms_apart"]["value"]


def test_a_search_killed_between_shards_ends_with_the_same_bytes(folder, run, monkeypatch):
    """The process dies (so the test says) when the second shard is about to be renamed."""
    real, count = os.replace, 0

    def replace(source, target):
        nonlocal count
        count += str(target).endswith(".parquet")
        if count == 2:
            raise KeyboardInterrupt
        return real(source, target)

    monkeypatch.setattr(os, "replace", replace)
    assert main(["beams", *flags(folder, "broken")]) == 130
    assert [p.name for p in (folder / "broken/beams").glob("*.parquet")] == [
        "lambada-00000-of-00003.beams.parquet"
    ]
    monkeypatch.undo()
    assert main(["score", *flags(folder, "broken")]) == 0
    assert files(folder / "broken/beams") == files(run / "beams")
    assert record_bytes(folder / "broken") == record_bytes(run)


def test_a_changed_search_is_refused_by_what_changed(folder, run, capsys):
    assert main(["score", *flags(folder, "run", beams__width=5)]) == 2
    assert "packing.width: 6 in the run folder, 5 now" in capsys.readouterr().err


def test_a_task_with_candidates_needs_no_beams(folder, capsys):
    other = flags(folder, "other", MIXTURE_OR_TASK_NAME="stories_choice", DATA_DIR=None)
    assert main(["beams", *other]) == 2
    assert "needs beams" in capsys.readouterr().err


def test_check_counts_passages_before_the_search(folder, capsys):
    assert main(["score", "--check", *flags(folder, "checked")]) == 0
    assert f"task lambada: {PASSAGES} examples" in capsys.readouterr().err
    assert not (folder / "checked").exists()
