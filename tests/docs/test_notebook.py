"""The notebook is its Python file, runs, and shows what it says."""

from __future__ import annotations

import ast
import contextlib
import io
from pathlib import Path

import pytest
from percent_notebook import cells_of, notebook_text

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "notebooks"
SOURCE = (FOLDER / "contradictions.py").read_text("utf-8")


def test_the_notebook_is_its_python_file():
    assert (FOLDER / "contradictions.ipynb").read_text("utf-8") == notebook_text(SOURCE), (
        "docs/notebooks: one of the pair was changed; "
        "python tests/docs/percent_notebook.py docs/notebooks/contradictions.py"
    )


def test_jupyter_takes_the_notebook_for_valid():
    nbformat = pytest.importorskip("nbformat", reason="nbformat checks the file (extra `docs`)")
    nbformat.validate(nbformat.read(FOLDER / "contradictions.ipynb", 4))


@pytest.fixture(scope="module")
def shown():
    """(value of the last expression, what was printed) of each code cell, run in order."""
    names: dict[str, object] = {}
    found = []
    for number, (kind, source) in enumerate(cells_of(SOURCE)):
        if kind != "code":
            continue
        tree = ast.parse(source)
        last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
        value, out = None, io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(compile(tree, f"cell {number}", "exec"), names)
            if last is not None:
                value = eval(compile(ast.Expression(last.value), f"cell {number}", "eval"), names)
        found.append((value, out.getvalue()))
    return found


def test_it_runs_from_a_sentence_to_its_contradictions(shown):
    _, (table, _), (_, answers), (_, together), (_, many), (worst, story) = shown
    assert table.conditionals[0] == "baseline"
    assert "the conditionals contradict each other" in answers
    assert [line.split()[0] for line in together.splitlines()] == [
        "max", "mean_probability", "vote",
    ]  # fmt: skip
    assert many.startswith("disagreement ")
    assert len(set(worst.predictions)) > 1
    assert " nats: " in story


def test_tables_show_as_html(shown):
    for table in (shown[1][0], shown[-1][0]):
        page = table._repr_html_()
        assert page.count("<tr") == 11
        assert "baseline" in page
