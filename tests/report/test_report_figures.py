"""Figures for papers: three kinds of file for each figure, the same bytes each time."""

import json
from pathlib import Path

import pytest

from mlm_consistency.report import figures, write_figures


@pytest.fixture(scope="module")
def written(summary, tmp_path_factory) -> list[Path]:
    """All figures of one task, written once; they are drawn from summary.json alone."""
    folder = tmp_path_factory.mktemp("drawn")
    one = {**summary, "tasks": {"last/word": summary["tasks"]["last/word"]}}
    (folder / "summary.json").write_text(json.dumps(one))
    return [Path(path) for path in write_figures(folder)]


def test_every_figure_in_every_format(written):
    figures_of_a_task = ("accuracy", "curves", "pairwise")
    expected = {
        f"last_word-{f}.{kind}" for f in figures_of_a_task for kind in ("pdf", "svg", "png")
    }
    assert {path.name for path in written} == expected
    starts = {".pdf": b"%PDF", ".png": b"\x89PNG", ".svg": b"<?xml"}
    for path in written:
        assert path.read_bytes().startswith(starts[path.suffix])


def test_text_stays_text(written):
    svg = next(path for path in written if path.name == "last_word-accuracy.svg").read_text()
    assert "<text" in svg
    assert "span_3_5_2" in svg


def test_the_same_run_gives_the_same_bytes(summary, written):
    again = figures.render(figures.accuracy_figure(summary["tasks"]["last/word"]), "svg")
    assert again == next(p for p in written if p.name == "last_word-accuracy.svg").read_bytes()
