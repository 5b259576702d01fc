"""Comparing runs and the paper: paired where examples match, otherwise said so."""

from __future__ import annotations

import dataclasses
import json
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from mlm_consistency.analysis import compare_text
from mlm_consistency.analysis.compare import FIGURES, compare, difference
from mlm_consistency.analysis.entrants import entrant_of_paper, entrant_of_scores, read_entrants
from mlm_consistency.analysis.paper import paper_curves
from mlm_consistency.analysis.scores import Scores
from mlm_consistency.analysis.statistics import mcnemar
from mlm_consistency.analysis.text_tables import TextTable, p_value, percent, percent_interval
from mlm_consistency.errors import AnalysisError, RecordsError, UnknownNameError

sys.path.append(str(Path(__file__).parents[1] / "records"))
import fake_scorer


def random_scores(seed: int, n: int = 50, first: int = 0) -> Scores:
    rng = np.random.default_rng(seed)
    labels = np.random.default_rng(99).integers(3, size=n + first)[first:]
    return Scores.from_arrays(
        rng.normal(size=(n, 3, 3)),
        fake_scorer.CONDITIONALS,
        labels=labels,
        example_ids=[f"e{i}" for i in range(first, n + first)],
    )


def test_paper_curves_are_those_recorded():
    curves = paper_curves()
    assert {name: curve.examples for name, curve in curves.items()} == {
        "UL2 MMLU": 225,
        "UL2 LAMBADA": 1144,
        "UL2 BBH": 191,
        "T5 MMLU": 176,
        "T5 LAMBADA": 912,
        "T5 BBH": 896,
    }
    ends = {
        "UL2 MMLU": (45.78, 50.67, 36.44),
        "UL2 LAMBADA": (71.42, 74.04, 41.08),
        "UL2 BBH": (39.79, 42.41, 61.78),
        "T5 MMLU": (40.91, 44.89, 64.77),
        "T5 LAMBADA": (68.86, 70.50, 72.15),
        "T5 BBH": (25.00, 26.34, 53.01),
    }
    for name, curve in curves.items():
        assert len(curve.accuracy) == len(curve.disagreement) == 10
        figures = (curve.accuracy[0], curve.accuracy[-1], curve.disagreement[-1])
        assert tuple(round(100 * x, 2) for x in figures) == ends[name]
        for share in figures:  # whole examples
            assert share * curve.examples == pytest.approx(round(share * curve.examples), abs=1e-6)
    with pytest.raises(UnknownNameError, match="Did you mean 'UL2 MMLU'"):
        read_entrants("paper:UL2 MMU")


def test_the_same_examples_are_paired():
    a = entrant_of_scores(random_scores(0), "a")
    b = entrant_of_scores(random_scores(1), "b")
    rows = {row.figure: row for row in difference(a, b)}
    assert tuple(rows) == FIGURES
    for m, name in enumerate(("baseline", "ensemble")):
        row = rows[name]
        assert row.paired
        assert row.n == (50,)
        assert row.reason == ""
        assert row.value == pytest.approx(b.figures[:, m].mean() - a.figures[:, m].mean())
        assert row.interval[0] <= row.value <= row.interval[1]
        right = a.figures[:, m].astype(bool), b.figures[:, m].astype(bool)
        assert row.p_value == mcnemar(*right)
    assert rows["gain"].p_value is None
    assert rows["gain"].value == pytest.approx(rows["ensemble"].value - rows["baseline"].value)


def test_a_run_does_not_differ_from_itself():
    a = entrant_of_scores(random_scores(0), "a")
    for row in difference(a, a):
        assert (row.value, row.p_value or 1.0) == (0.0, 1.0)


def test_common_examples_alone_are_paired_whatever_their_order():
    a = entrant_of_scores(random_scores(0), "a")
    some = random_scores(1, first=20).select(np.arange(50)[::-1])
    row = difference(a, entrant_of_scores(some, "b"))[0]
    assert row.paired
    assert row.n == (30,)
    assert row.reason == "the common examples alone"
    by_hand = entrant_of_scores(random_scores(1, first=20), "b").figures[:30, 0]
    assert row.value == pytest.approx(by_hand.mean() - a.figures[20:, 0].mean())


def test_an_example_with_other_candidates_is_another_example():
    scores = random_scores(0)
    other = dataclasses.replace(scores, candidate_texts=(("x", "y", "z"),) * 50)
    row = difference(entrant_of_scores(scores, "a"), entrant_of_scores(other, "b"))[0]
    assert not row.paired
    assert row.reason == "no example is the same in both"
    assert row.n == (50, 50)


def test_the_paper_is_not_paired():
    a, b = entrant_of_paper("UL2 MMLU"), entrant_of_paper("T5 MMLU")
    rows = {row.figure: row for row in difference(a, b)}
    assert "gain" not in rows, "how often the authors' gain would vary was not recorded"
    row = rows["baseline"]
    assert row.value == pytest.approx(72 / 176 - 103 / 225)
    table = [[103, 122], [72, 104]]
    assert row.p_value == pytest.approx(stats.fisher_exact(table).pvalue)
    # Two independent shares: the interval is about 1.96 standard errors wide on each side.
    error = np.sqrt(103 * 122 / 225**3 + 72 * 104 / 176**3)
    np.testing.assert_allclose(
        row.interval, [row.value - 1.96 * error, row.value + 1.96 * error], atol=0.01
    )


@pytest.fixture(scope="module")
def comparison(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    fake_scorer.write_run(folder / "one")
    fake_scorer.write_run(folder / "two", checkpoint="beef")
    return compare([f"{folder}/one:stories", f"{folder}/two", "paper:UL2 MMLU"], resamples=200)


def test_runs_of_folders(comparison):
    names = [entrant.name for entrant in comparison.entrants]
    assert names == ["one stories", "two stories", "two quiz:hard", "paper UL2 MMLU"]
    rows = [row for row in comparison.differences if row.second == "two stories"]
    assert all(row.paired and row.value == 0 for row in rows)
    assert all(
        row.p_value_holm is None or row.p_value_holm >= row.p_value
        for row in comparison.differences
    )


def test_a_task_with_a_colon(tmp_path):
    fake_scorer.write_run(tmp_path / "run")
    assert [e.name for e in read_entrants(f"{tmp_path}/run:quiz:hard")] == ["run quiz:hard"]
    with pytest.raises(UnknownNameError, match="task of the run 'storys'"):
        read_entrants(f"{tmp_path}/run:storys")
    with pytest.raises(RecordsError, match="holds no run"):
        read_entrants(f"{tmp_path}/nowhere")
    with pytest.raises(AnalysisError, match="needs two entrants"):
        compare([f"{tmp_path}/run:stories"])


def test_comparison_as_text(comparison):
    content = compare_text.to_dict(comparison)
    assert json.loads(json.dumps(content, allow_nan=False)) == content
    paper = content["entrants"][3]
    assert paper["n"] == 225
    assert paper["baseline"]["value"] == pytest.approx(103 / 225)
    assert paper["gain"]["interval"] is None
    table = compare_text.entrants_table(comparison)
    exact = stats.binomtest(103, 225).proportion_ci(0.95, "exact")
    interval = percent_interval((exact.low, exact.high))
    assert table.rows[3][:6] == ("paper UL2 MMLU", "225", "0", "10", "45.78", interval)
    markdown = table.to_markdown().splitlines()
    assert len(markdown) == 6
    assert all(line.count("|") == len(table.heads) + 1 for line in markdown)
    latex = compare_text.differences_table(comparison).to_latex()
    assert r"two stories - one stories" in latex
    assert "not paired: no example is the same in both" in latex
    assert set(compare_text.curves(comparison)) == {e.name for e in comparison.entrants}


def test_text_tables():
    table = TextTable(("a_b", "50 %"), (("x|y", "1"), ("back\\slash", "22")))
    assert (
        table.to_markdown()
        == "| a_b | 50 % |\n| --- | ---: |\n| x\\|y | 1 |\n| back\\slash | 22 |\n"
    )
    assert r"a\_b & 50 \% \\" in table.to_latex()
    assert r"back\textbackslash{}slash & 22 \\" in table.to_latex()
    assert table.to_csv() == "a_b,50 %\nx|y,1\nback\\slash,22\n"
    assert str(table) == "a_b         50 %\nx|y            1\nback\\slash    22"
    assert percent(0.45777) == "45.78"
    assert percent(None) == percent_interval(None) == p_value(None) == "-"
    assert percent_interval((0.1, 0.25), 1) == "[10.0, 25.0]"
    assert p_value(0.00001) == "<0.0001"
    assert p_value(0.04567) == "0.0457"
