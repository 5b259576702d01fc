"""The page of a bigrams run: what it says, and in a real browser."""

from __future__ import annotations

import json

import numpy as np
import pytest
from bigram_folders import HOSTILE, made_up_cases, write_bigrams_folder
from watched_page import Watched

from mlm_consistency.analysis.bigrams import read_pairs
from mlm_consistency.analysis.diagnose import diagnose
from mlm_consistency.errors import RecordsError
from mlm_consistency.report import quantities as q
from mlm_consistency.report.bigram_pairs import probability, sentence, worst_pairs
from mlm_consistency.report.bigrams_page import (
    bigrams_view,
    labels_of,
    read_bigrams,
    write_bigrams_report,
)


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    root = tmp_path_factory.mktemp("bigrams")
    first = write_bigrams_folder(root / "bert", "bert")
    return first, write_bigrams_folder(root / "t5", "t5", seed=1, words=3)


@pytest.fixture(scope="module")
def page_path(folders):
    return write_bigrams_report(folders[0], folders[1:])


def test_the_worst_pairs_are_those_of_diagnose():
    cases = made_up_cases(30, words=3)
    worst = worst_pairs(cases, read_pairs(cases), most=5)
    largest = np.array([result["cross_ratio"]["max_abs"] for result in diagnose(cases)])
    order = np.argsort(-largest)[:5]
    assert [pair["name"] for pair in worst] == [cases[k]["name"] for k in order]
    shown = [abs(float(pair["cross_ratio"].replace(q.MINUS, "-"))) for pair in worst]
    assert shown == pytest.approx(largest[order], abs=0.005)
    one, case = worst[0], cases[order[0]]
    rows = [[f"▁{w}" for w in one[key]] for key in ("rows", "columns")]
    i, j = ([case[key].index(w) for w in ws] for key, ws in zip(("first", "second"), rows))  # noqa: B905
    assert one["given_b"][1][0] == probability(case["a_given_b"][i[1]][j[0]])
    assert one["given_a"][0][1] == probability(case["b_given_a"][i[0]][j[1]])
    d = np.log(case["b_given_a"]) - np.log(case["a_given_b"])
    d = d[np.ix_(i, j)]
    assert abs(d[0, 0] - d[0, 1] - d[1, 0] + d[1, 1]) == pytest.approx(largest[order[0]])


def test_sentences_come_in_parts():
    case = {"text": "The cat sat.", "spans": [[4, 7], [8, 11]]}
    assert sentence(case) == [("The ", None), ("cat", 0), (" ", None), ("sat", 1), (".", None)]
    assert sentence(case | {"spans": None}) == [("The cat sat.", None)]


@pytest.mark.parametrize(
    ("p", "text"),
    [(0.5, "50"), (0.99973, "99.97"), (0.0000421, "0.00421"), (1e-9, "1.0e−7"), (0.0, "0")],
)
def test_probabilities_keep_their_digits(p, text):
    assert probability(p) == text


def test_the_page_says_what_the_summary_says(folders):
    entries = [read_bigrams(folder) for folder in folders]
    view = bigrams_view(entries)
    summary = entries[0][0]
    model = view["models"][0]
    assert q.fixed(summary["order"]["mean_abs"], 2) in model["finding"]
    assert "40 pairs of 50 lines of text.txt, 200 forward rows" in model["counts"]
    titles = [section["title"] for section in model["sections"]]
    assert titles == [
        "How inconsistent", "By distance and by entropy", "Coherent joints compared", "Preferences"
    ]  # fmt: skip
    joints = {r.cells[0].value: r.cells for r in model["sections"][2]["tables"][0].rows}
    for name, figures in summary["joints"].items():
        assert joints[name][2].value == pytest.approx(figures["u_nll"]["mean"])
        if figures["p_nll"]:
            assert joints[name][4].value == pytest.approx(figures["p_nll"]["mean"])
    by_distance, by_entropy, contests = model["sections"][1]["tables"]
    assert [row.cells[0].text for row in by_distance.rows] == ["1", "2", "3"]
    assert (len(by_entropy.rows), len(contests.rows)) == (4, 5)
    side = view["side_by_side"].rows
    assert [row.cells[0].text for row in side] == ["bert", "t5"]
    assert side[1].cells[2].value == pytest.approx(entries[1][0]["order"]["mean_abs"])
    figures = {c["name"] for m in view["models"] for s in m["sections"] for c in s["charts"]}
    assert figures | {"models"} == set(view["specifications"])


def test_labels_tell_the_models_apart():
    one, two = {"model": "t5", "text": "a.txt"}, {"model": "bert", "text": "a.txt"}
    assert labels_of([one, two]) == ["t5", "bert"]
    other = {"model": "t5", "text": "b.txt"}
    assert labels_of([one, other]) == ["t5 on a.txt", "t5 on b.txt"]
    assert labels_of([one, one]) == ["t5 on a.txt (1)", "t5 on a.txt (2)"]


def test_another_folder_is_refused(tmp_path):
    with pytest.raises(RecordsError, match=r"bigrams\.json is not there"):
        write_bigrams_report(tmp_path)
    (tmp_path / "bigrams.json").write_text("{")
    with pytest.raises(RecordsError, match="not JSON"):
        read_bigrams(tmp_path)


@pytest.mark.browser
@pytest.mark.parametrize(("width", "theme"), [(400, "dark"), (1400, "light")])
def test_opens_and_draws_in_a_browser(browser, page_path, folders, width, theme):
    size = {"width": width, "height": 900}
    watched = Watched(browser, page_path, viewport=size, color_scheme=theme)
    page = watched.open()
    for figure in page.locator("[data-chart]").all():
        figure.scroll_into_view_if_needed()
        figure.locator("svg").wait_for()
    assert page.locator("[data-chart] svg").count() == 9
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    # The sentence with markup shows it, and runs nothing.
    assert HOSTILE in page.inner_text("#model-1 .worst") + page.inner_text("#model-2 .worst")
    assert page.evaluate("window.broken") is None
    first = page.locator("#worst-1 li >> nth=0")
    assert first.locator("mark").all_inner_texts() == ["cat", "sat"]
    assert first.locator("table.square tbody tr").count() == 4
    with page.expect_download() as saved:
        page.get_by_role("button", name="Save this table as CSV").first.click()
    lines = saved.value.path().read_text("utf-8").splitlines()
    mean = json.loads((folders[0] / "bigrams.json").read_text())["order"]["mean_abs"]
    assert float(lines[1].split(",")[2]) == pytest.approx(mean)
    watched.check()
    watched.context.close()
