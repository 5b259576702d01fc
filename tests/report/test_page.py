"""The page is one file that asks nobody for anything and shows hostile text as text."""

import json
import re
import shutil

import pytest
from synthetic_run import HOSTILE

from mlm_consistency.errors import AnalysisError, RecordsError
from mlm_consistency.report import page, write_report


@pytest.fixture(scope="module")
def html(report_path) -> str:
    """The page's text."""
    return report_path.read_text("utf-8")


def test_is_one_small_file_in_the_run_folder(report_path, run_folder):
    assert report_path == run_folder / "report.html"
    assert report_path.stat().st_size < 2_000_000
    assert not list(run_folder.glob("*.tmp*"))


def test_loads_nothing(html):
    assert "default-src 'none'" in html
    ours = re.sub(r"<script>.*?</script>", "", html, flags=re.S)
    addresses = re.findall(r"(?:src|href)\s*=\s*\"([^\"]*)\"", ours)
    assert addresses
    assert all(address.startswith(("#", "data:")) for address in addresses)
    assert "@import" not in html
    assert not re.search(r"<link(?![^>]*data:,)", html)


def test_the_same_run_gives_the_same_page(html, run_folder):
    write_report(run_folder)
    assert (run_folder / "report.html").read_text("utf-8") == html


def test_hostile_text_ends_no_script(html):
    assert "<script>window.broken" not in html
    held = re.search(r'<script type="application/json" id="examples">(.*?)</script>', html, re.S)
    tasks = json.loads(held[1])
    pieces = tasks[0]["pieces"][1][0]
    assert "".join(pieces).replace("▁", " ").strip().startswith(HOSTILE)


def test_tables_show_every_conditional_with_n_and_interval(html, summary):
    for task in summary["tasks"].values():
        for entry in task["conditionals"].values():
            assert f"{100 * entry['accuracy']:.1f}" in html
    assert html.count("95 % interval") > 4
    assert 'data-name="stories_choice-conditionals"' in html
    assert 'data-name="last_word-ensembles"' in html


def test_large_data_travel_compressed(monkeypatch):
    monkeypatch.setattr(page, "_PLAIN_LIMIT", 10)
    kind, packed = page.examples_in_script([{"prompt": "<script>" * 100}])
    assert kind == "application/gzip"
    assert re.fullmatch(r"[A-Za-z0-9+/=]+", packed)
    assert page.examples_in_script([{"prompt": "<script>" * 100}])[1] == packed


def test_json_survives_its_script_element():
    value = {"text": "</script><!-- & \u2028 ▁"}
    text = page.json_in_script(value)
    assert "<" not in text
    assert json.loads(text) == value


def test_says_what_to_do_without_a_summary(run_folder, tmp_path):
    folder = shutil.copytree(run_folder, tmp_path / "run")
    (folder / "summary.json").unlink()
    with pytest.raises(AnalysisError, match="analyze"):
        write_report(folder)


def test_refuses_a_summary_of_other_records(run_folder, tmp_path):
    folder = shutil.copytree(run_folder, tmp_path / "run")
    summary = json.loads((folder / "summary.json").read_text())
    del summary["fingerprint"]
    (folder / "summary.json").write_text(json.dumps(summary))
    with pytest.raises(RecordsError, match="another configuration"):
        write_report(folder)
    (folder / "summary.json").write_text(json.dumps({**summary, "fingerprint": "0" * 64}))
    before = (folder / "report.html").read_bytes() if (folder / "report.html").exists() else None
    with pytest.raises(RecordsError, match="another configuration"):
        write_report(folder)
    assert before is None or (folder / "report.html").read_bytes() == before
