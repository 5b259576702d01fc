"""`compare`: a table, a figure, JSON, Markdown, LaTeX; what is unknown is answered with a guess."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from mlm_consistency.cli.main import main

sys.path.append(str(Path(__file__).parents[1] / "records"))
import fake_scorer


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Two runs of the fake scorer that differ in their checkpoint."""
    folder = tmp_path_factory.mktemp("runs")
    for name in ("first", "second"):
        fake_scorer.write_run(folder / name, checkpoint=name)
    return folder


def compare(*arguments: object) -> int:
    return main(["compare", *map(str, arguments), "--resamples", "50"])


def test_runs_are_paired_and_the_paper_is_not(runs, tmp_path, capsys):
    out = tmp_path / "out"
    entrants = (runs / "first:stories", runs / "second:stories")
    assert compare(*entrants, "--output", out, "paper:UL2 MMLU") == 0
    shown = capsys.readouterr()
    assert "first stories" in shown.out
    assert "paper UL2 MMLU" in shown.out
    assert "paired" in shown.out
    assert f"comparison: {out}" in shown.err
    assert {p.name for p in out.iterdir()} == {
        f"comparison.{kind}" for kind in ("json", "md", "tex", "pdf", "svg", "png")
    }
    content = json.loads((out / "comparison.json").read_text())
    assert [e["name"] for e in content["entrants"]] == [
        "first stories", "second stories", "paper UL2 MMLU",
    ]  # fmt: skip
    assert len(content["entrants"][2]["curve"]) == 10
    paired = {(d["first"], d["second"]): d["paired"] for d in content["differences"]}
    assert paired == {
        ("first stories", "second stories"): True,
        ("first stories", "paper UL2 MMLU"): False,
        ("second stories", "paper UL2 MMLU"): False,
    }
    # Equal scores: nothing differs, and no test finds anything.
    same = [d for d in content["differences"] if d["paired"]]
    assert {d["value"] for d in same} == {0.0}
    markdown, latex = (out / "comparison.md").read_text(), (out / "comparison.tex").read_text()
    assert "| paper UL2 MMLU | 225 | 0 | 10 | 45.78 |" in markdown
    assert "comparison.svg" in markdown
    assert latex.count(r"\begin{tabular}") == 2
    assert "paper UL2 MMLU & 225 & 0 & 10 & 45.78 &" in latex
    figure = (out / "comparison.svg").read_text()
    assert all(name in figure for name in ("first stories", "paper UL2 MMLU", "disagreement (%)"))


def test_the_same_comparison_gives_the_same_bytes(runs, tmp_path):
    for name in ("a", "b"):
        assert compare(runs / "first", "paper:T5 BBH", "--output", tmp_path / name) == 0
    for path in sorted((tmp_path / "a").iterdir()):
        assert path.read_bytes() == (tmp_path / "b" / path.name).read_bytes(), path.name


def test_a_run_stands_for_all_its_tasks(runs, capsys):
    assert compare(runs / "first") == 0
    shown = capsys.readouterr().out
    assert "first stories" in shown
    assert "first quiz:hard" in shown
    assert "not paired: no example is the same in both" in shown


def test_folders_of_one_name_are_told_apart(runs, tmp_path, capsys):
    other = tmp_path / "first"
    fake_scorer.write_run(other)
    assert compare(f"{runs}/first:stories", f"{other}:stories") == 0
    shown = capsys.readouterr().out
    assert f"first stories ({other}:stories)" in shown


@pytest.mark.parametrize(
    ("entrants", "said"),
    [
        (("paper:UL2 MMLV", "first"), "unknown recorded curve of the paper 'UL2 MMLV'. Did you"),
        (("UL2 MMLU", "first"), "UL2 MMLU: is not there. Did you mean 'paper:UL2 MMLU'?"),
        (("frist", "second"), "frist: is not there. Did you mean 'first'"),
        ((".", "second"), ".: holds no run."),
        (("first:storeis", "second"), "unknown task of the run 'storeis'. Did you mean 'stories'"),
        (("first:stories",), "a comparison needs two entrants, first:stories gives 1"),
        (("first", "first"), "is named 2 times: name each entrant once"),
        (("first", "--reduction", "maxx"), "unknown ensemble reduction 'maxx'. Did you mean 'max'"),
        (("first", "--token_reduction", "meen"), "unknown token reduction 'meen'. Did you mean"),
        (("first", "--level", "95"), "--level should lie between 0 and 1"),
    ],
)
def test_what_is_unknown_or_wrong_is_said_in_one_line(runs, monkeypatch, capsys, entrants, said):
    monkeypatch.chdir(runs)
    assert compare(*entrants) == 2
    message = capsys.readouterr().err
    assert said in message
    assert message.startswith("mlm-consistency compare: ")
    assert "Traceback" not in message
    assert not list(runs.glob("comparison.*"))
