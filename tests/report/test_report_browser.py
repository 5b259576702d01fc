"""The page in a real browser: it opens, draws, sorts, filters, links and saves, without a request.

Needs the playwright package and a Chromium (`MLM_CONSISTENCY_CHROMIUM`, or one on the PATH);
skips where either is missing.
"""

import pytest
from synthetic_run import HOSTILE
from watched_page import Watched

pytestmark = pytest.mark.browser


@pytest.fixture
def watched(browser, report_path):
    """The report, watched; at the end nothing was asked for and nothing complained of."""
    made = Watched(browser, report_path, viewport={"width": 1400, "height": 900})
    yield made
    made.check()
    made.context.close()


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [400, 1400])
def test_opens_and_draws_at_both_widths_and_themes(browser, report_path, width, theme):
    watched = Watched(
        browser, report_path, viewport={"width": width, "height": 900}, color_scheme=theme
    )
    page = watched.open()
    assert page.evaluate("document.documentElement.dataset.theme") == theme
    for figure in page.locator("[data-chart]").all():
        figure.scroll_into_view_if_needed()
        figure.locator("svg").wait_for()
    figures = page.locator("[data-chart]").count()
    assert page.locator("[data-chart] svg").count() == figures == 10
    # Tables may scroll within themselves; the page never does sideways.
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    watched.check()
    watched.context.close()


def test_filters_narrow_the_examples_and_say_so(watched, summary):
    page = watched.open()
    assert watched.found() == "90 of 90 examples."
    page.check("[name=disagreeing]")
    disagreeing = int(watched.found().split()[0])
    assert 0 < disagreeing < 90
    assert "where the conditionals disagree" in watched.found()
    page.select_option("[name=conditional]", label="span_3_5_2")
    assert "span_3_5_2 differs from baseline" in watched.found()
    task = summary["tasks"]["stories_choice"]
    share = task["pairwise_disagreement"]["baseline"]["span_3_5_2"]
    # Whatever span_3_5_2 applies to, all conditionals apply to.
    assert int(watched.found().split()[0]) == round(share * task["common"])
    page.check("[name=wrong]")
    assert int(watched.found().split()[0]) < disagreeing
    page.click("#clear")
    page.select_option("[name=ensemble]", "mends")
    assert int(watched.found().split()[0]) == task["ensembles"]["max"]["gained"]
    page.click("#clear")
    page.fill("[name=text]", "no such words anywhere")
    assert watched.found().startswith("0 of 90")
    page.click("#clear")
    page.select_option("[name=subject]", label="owner")
    assert watched.found().startswith("23 of 90")
    page.select_option("[name=task]", label="last/word")
    assert watched.found() == "40 of 40 examples."


def test_pages_through_the_list(watched):
    page = watched.open()
    assert page.locator("#rows li").count() == 25
    page.click("#next")
    assert page.inner_text("#page") == "page 2 of 4"
    page.click("#previous")
    assert page.is_disabled("#previous")


def test_hostile_text_is_text(watched):
    page = watched.open("#stories_choice/stories_choice-00001")
    drawn = page.inner_text("#detail .masked >> nth=0")
    assert HOSTILE in " ".join(drawn.split())
    assert page.evaluate("window.broken") is None
    assert page.locator("main img").count() == 0


def test_a_permalink_opens_its_example(watched):
    page = watched.open("#last%2Fword/last%2Fword-00033")
    assert page.inner_text("#detail h4").startswith("last/word-00033")
    assert page.locator("#rows a[aria-current=true]").count() == 1
    page.evaluate("location.hash = '#stories_choice/stories_choice-00007'")
    page.wait_for_function(
        "document.querySelector('#detail h4').textContent.startsWith('stories_choice-00007')"
    )
    # The seventh is too short for the longest spans, and the page says why.
    page.get_by_role("button", name="Draw all conditionals").last.click()
    assert "not applicable" in page.inner_text("#detail")


def test_an_example_can_be_read_with_the_keyboard_alone(watched):
    page = watched.open()
    page.focus("#rows a >> nth=0")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.wait_for_function(
        "document.querySelector('#detail h4').textContent.startsWith('stories_choice-00002')"
    )
    page.focus("#detail input[type=radio]:checked")
    page.keyboard.press("ArrowDown")
    chosen = page.locator("#detail input[type=radio]:checked").evaluate("e => e.value")
    name = page.evaluate("async (k) => (await Report.examples)[0].conditionals[k]", int(chosen))
    assert name in page.inner_text("#detail .masked >> nth=-1")


def test_contradictory_examples_open(watched):
    page = watched.open()
    first = page.locator(".contradictions >> nth=0")
    assert first.locator("li").count() == 20
    first.locator(".masked >> nth=1").wait_for(state="attached")  # written when unpacked
    assert first.locator(".masked").count() == 2
    first.locator("summary >> nth=1").click()
    first.locator(".masked >> nth=3").wait_for(state="attached")
    assert first.locator(".masked").count() == 4
    assert first.locator(".sentinel").count() > 4


def test_tables_sort_by_their_exact_values(watched):
    page = watched.open()
    table = page.locator("table[data-name=stories_choice-conditionals]")
    head = table.locator("th[data-key=accuracy]")

    def accuracies():
        return [float(text) for text in table.locator("tbody td:nth-child(3)").all_inner_texts()]

    as_given = accuracies()
    head.locator("button").click()
    assert head.get_attribute("aria-sort") == "descending"
    assert accuracies() == sorted(as_given, reverse=True)
    head.locator("button").click()
    assert accuracies() == sorted(as_given)
    head.locator("button").click()
    assert head.get_attribute("aria-sort") is None
    assert accuracies() == as_given


def test_saves_tables_and_figures(watched, summary):
    page = watched.open()
    with page.expect_download() as saved:
        page.get_by_role("button", name="Save this table as CSV").first.click()
    lines = saved.value.path().read_text("utf-8").splitlines()
    assert lines[0].startswith(
        "conditional,n,accuracy,accuracy_interval_low,accuracy_interval_high"
    )
    exact = summary["tasks"]["stories_choice"]["conditionals"]["offset_1"]["accuracy"]
    assert float(lines[2].split(",")[2]) == pytest.approx(100 * exact, abs=1e-5)
    with page.expect_download() as saved:
        page.get_by_role("button", name="Save as SVG").nth(1).click()
    assert saved.value.suggested_filename == "stories_choice-pairwise.svg"
    svg = saved.value.path().read_text("utf-8")
    assert svg.startswith("<svg")
    assert 'fill="#ffffff"' in svg
    with page.expect_download() as saved:
        page.get_by_role("button", name="Save as PDF").nth(1).click()
    assert saved.value.suggested_filename == "stories_choice-pairwise.pdf"
    assert saved.value.path().read_bytes().startswith(b"%PDF-")
    with page.expect_download() as saved:
        page.click("#save-examples")
    assert len(saved.value.path().read_text("utf-8").splitlines()) == 91


def test_compressed_examples_are_unpacked(browser, run_folder, report_path, monkeypatch, tmp_path):
    import shutil as files

    from mlm_consistency.report import page as page_module

    monkeypatch.setattr(page_module, "_PLAIN_LIMIT", 10)
    folder = files.copytree(run_folder, tmp_path / "run")
    page_module.write_report(folder)
    watched = Watched(browser, folder / "report.html")
    watched.open()
    assert watched.found() == "90 of 90 examples."
    watched.check()
    watched.context.close()
