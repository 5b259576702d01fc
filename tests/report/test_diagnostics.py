"""The sections on diagnostics: there where their figures are, saying what the summary says."""

from __future__ import annotations

import copy

import pytest
from synthetic_run import CONDITIONALS

from mlm_consistency.report import diagnostics
from mlm_consistency.report import quantities as q

OTHERS = [
    "What fitting gains, and what it costs",
    "When to trust an answer",
    "Which conditional stands apart",
    "On which candidates and prompts",
]


def first_tokens() -> dict:
    """An entry like the analysis makes, with figures that are easy to find again."""
    pair = {"js": 0.125, "tv": 0.25, "top1": 0.5}
    same = {"js": 0.0, "tv": 0.0, "top1": 0.0}
    part = {"n": 30, "js": {"value": 0.0125, "interval": [0.01, 0.02]}}
    return {
        "n": 80,
        "js": {"value": 0.125, "interval": [0.1, 0.15]},
        "tv": {"value": 0.25, "interval": [0.2, 0.3]},
        "top1": {"value": 0.5, "interval": [0.4, 0.6]},
        "any_top1": {"value": 0.75, "interval": [0.7, 0.8]},
        "entropy": {name: {"value": 1.5, "interval": [1.4, 1.6]} for name in CONDITIONALS},
        "pairs": {a: {b: same if a == b else pair for b in CONDITIONALS} for a in CONDITIONALS},
        "parts": {"agree": part, "disagree": {**part, "n": 50}},
        "histogram": {"edges": [0.0, 0.1, 0.2], "agree": [30, 0], "disagree": [20, 30]},
    }


@pytest.fixture
def task(summary) -> dict:
    return copy.deepcopy(summary["tasks"]["stories_choice"])


def test_each_section_stands_where_its_figures_are(task):
    made, drawn = diagnostics.sections("t", task)
    assert [section["title"] for section in made] == OTHERS
    assert list(drawn) == ["t-selective"]
    task["first_tokens"] = first_tokens()
    made, drawn = diagnostics.sections("t", task)
    assert [section["title"] for section in made] == ["Over the whole vocabulary", *OTHERS]
    assert set(drawn) == {"t-selective", "t-vocabulary", "t-vocabulary-pairs"}
    shown = {figure["name"] for section in made for figure in section["charts"]}
    assert shown == set(drawn)
    for key in ("first_tokens", "ensemble_gains", "confidence", "clusters", "bias", "breakdown"):
        task.pop(key)
    assert diagnostics.sections("t", task) == ([], {})


def test_nothing_is_said_of_few_examples_or_one_conditional(task):
    assert diagnostics.sections("t", {**task, "common": 9}) == ([], {})
    only = {"baseline": task["conditionals"]["baseline"]}
    assert diagnostics.sections("t", {**task, "conditionals": only}) == ([], {})


def test_the_vocabulary_section_says_what_was_found(task):
    task["first_tokens"] = first_tokens()
    section = diagnostics.sections("t", task)[0][0]
    assert "0.125 (95 % interval 0.100 to 0.150) nats apart" in section["text"]
    assert "not all the same on 75.0 % of 80 examples" in section["text"]
    assert "(30 examples), the distance is still 0.013 (95 % interval" in section["text"]
    (table,) = section["tables"]
    assert [row.cells[0].text for row in table.rows] == list(CONDITIONALS)
    assert [cell.value for cell in table.rows[0].cells[3:]] == [0.125, 0.25, 50.0]
    assert table.rows[0].cells[1].value == 1.5


def test_gains_stand_beside_their_cost(task):
    section = diagnostics.sections("t", task)[0][0]
    (table,) = section["tables"]
    rows = {row.cells[0].value: row.cells for row in table.rows}
    gains = {gain["name"]: gain for gain in task["ensemble_gains"]}
    assert set(rows) == {name for name, g in gains.items() if g["kind"] != "fixed"} | {"max"}
    for name, cells in rows.items():
        assert cells[1].value == pytest.approx(gains[name]["passes"])
        assert cells[2].value == pytest.approx(100 * gains[name]["accuracy"], abs=1e-5)
    assert rows["baseline"][1].value == 1.0
    best = max((g for g in gains.values() if g["kind"] == "fitted"), key=lambda g: g["accuracy"])
    assert f"{q.percent(best['accuracy'])} %" in section["text"]
    assert f"{q.percent(gains['oracle']['accuracy'])} %." in section["text"]


def test_confidence_and_dissent_are_the_summarys(task):
    made = {section["title"]: section for section in diagnostics.sections("t", task)[0]}
    trust = made["When to trust an answer"]
    parts = task["confidence"]["parts"]
    for part in parts.values():
        assert f"{q.percent(part['ensemble']['accuracy'])} % right" in trust["text"]
    aurc = [row.cells[2].value for row in trust["tables"][0].rows]
    expected = [signal["aurc"]["value"] for signal in task["confidence"]["signals"].values()]
    assert aurc == pytest.approx(expected, abs=1e-8)
    clusters, dissent = made["Which conditional stands apart"]["tables"]
    assert len(clusters.rows) == len(CONDITIONALS) - 1
    assert [row.cells[1].value for row in dissent.rows] == [
        task["lone_dissent"][name]["alone"] for name in CONDITIONALS
    ]


def test_a_bias_is_named_only_where_its_interval_leaves_out_zero(task):
    quiet = copy.deepcopy(task)
    for report in quiet["bias"].values():
        for entry in report["conditionals"].values():
            entry["interval"] = [-0.1, 0.1]
    said = diagnostics.sections("t", quiet)[0][-1]["text"]
    assert said.startswith("No conditional prefers a kind of candidate")
    quiet["bias"]["first"]["conditionals"]["offset_1"]["interval"] = [0.01, 0.1]
    said = diagnostics.sections("t", quiet)[0][-1]["text"]
    assert "the first (1 of 10 conditionals)." in said
