"""Figures for papers: three kinds of file for each figure, the same bytes each time."""

from pathlib import Path

import pytest

from mlm_consistency.report import figures, write_figures


@pytest.fixture(scope="module")
def written(run_folder) -> list[Path]:
    """All figures of the run, written once."""
    return [Path(path) for path in write_figures(run_folder)]


def test_every_figure_of_every_task_in_every_format(written):
    names = {path.name for path in written}
    for task in ("stories_choice", "last_word"):
        for figure in ("accuracy", "curves", "pairwise"):
            for kind in ("pdf", "svg", "png"):
                assert f"{task}-{figure}.{kind}" in names
    starts = {".pdf": b"%PDF", ".png": b"\x89PNG", ".svg": b"<?xml"}
    for path in written:
        assert path.read_bytes().startswith(starts[path.suffix])


def test_text_stays_text(written):
    svg = next(path for path in written if path.name == "stories_choice-accuracy.svg").read_text()
    assert "<text" in svg
    assert "span_3_5_2" in svg


def test_the_same_run_gives_the_same_bytes(summary, written):
    again = figures.render(figures.accuracy_figure(summary["tasks"]["stories_choice"]), "svg")
    assert again == next(p for p in written if p.name == "stories_choice-accuracy.svg").read_bytes()
