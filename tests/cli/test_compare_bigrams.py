"""`compare` on folders of `bigrams`: paired where models were asked the same, one table, a page."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from mlm_consistency.analysis.bigrams import read_pairs
from mlm_consistency.cli.main import main

sys.path.append(str(Path(__file__).parents[1] / "report"))
from bigram_folders import made_up_cases, write_bigrams_folder


@pytest.fixture
def folders(tmp_path):
    first = write_bigrams_folder(tmp_path / "a", "bert", count=30)
    return first, write_bigrams_folder(tmp_path / "b", "t5", count=25, seed=1)


def test_models_stand_side_by_side(folders, tmp_path, capsys):
    out = tmp_path / "out"
    assert main(["compare", *map(str, folders), "--output", str(out), "--resamples", "100"]) == 0
    shown = capsys.readouterr().out
    assert "order |d| nats" in shown
    assert "t5 - bert" in shown
    content = json.loads((out / "comparison.json").read_text())
    assert [e["name"] for e in content["entrants"]] == ["bert", "t5"]
    # Sentences are the same in both, so the 25 that the second has are paired.
    a, b = (read_pairs(made_up_cases(25, seed)) for seed in (0, 1))
    row = content["differences"][0]
    first = read_pairs(made_up_cases(30)).order[:25]
    assert (row["paired"], row["n"]) == (True, [25])
    assert row["value"] == pytest.approx(np.mean(np.abs(b.order) - np.abs(first)))
    assert row["interval"][0] < row["value"] < row["interval"][1]
    assert a.order == pytest.approx(first)
    for kind in ("md", "tex", "html"):
        assert "bert" in (out / f"comparison.{kind}").read_text()


def test_few_pairs_in_common_are_said_to_be_unpaired(tmp_path):
    folders = [write_bigrams_folder(tmp_path / n, n, count=c) for n, c in (("a", 30), ("b", 5))]
    out = tmp_path / "out"
    assert main(["compare", *map(str, folders), "--output", str(out), "--resamples", "50"]) == 0
    row = json.loads((out / "comparison.json").read_text())["differences"][0]
    assert (row["paired"], row["n"]) == (False, [30, 5])
    assert row["reason"] == "5 pairs in common, 10 are needed"


def test_runs_and_pairs_are_not_mixed_and_report_draws_the_page_again(folders, capsys):
    assert main(["compare", str(folders[0]), "paper:UL2 MMLU"]) == 2
    assert "no folder of `mlm-consistency bigrams`" in capsys.readouterr().err
    assert main(["report", str(folders[0])]) == 0
    assert (folders[0] / "report.html").exists()
