"""Notebooks paired with Python files in jupytext's percent form, without jupytext.

`python percent_notebook.py FILE.py` writes FILE.ipynb beside it, without outputs.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

_CELL = re.compile(r"^# %%( \[markdown\])?\n", re.MULTILINE)
_METADATA = {
    "jupytext": {"formats": "ipynb,py:percent"},
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}


def cells_of(text: str) -> list[tuple[str, str]]:
    """(kind, source) of each cell: "markdown" without its comment signs, or "code"."""
    parts = _CELL.split(text)[1:]  # what comes before the first cell is the header
    cells = []
    for mark, source in zip(parts[::2], parts[1::2], strict=True):
        source = source.strip("\n")
        if mark:
            source = "\n".join(re.sub(r"^# ?", "", line) for line in source.split("\n"))
        cells.append(("markdown" if mark else "code", source))
    return cells


def notebook_of(text: str) -> dict[str, Any]:
    """The notebook as JSON values, without outputs."""
    cells: list[dict[str, Any]] = []
    for number, (kind, source) in enumerate(cells_of(text)):
        cell = {"cell_type": kind, "id": f"cell-{number}", "metadata": {}, "source": source}
        cells.append(cell | ({"execution_count": None, "outputs": []} if kind == "code" else {}))
    return {"cells": cells, "metadata": _METADATA, "nbformat": 4, "nbformat_minor": 5}


def notebook_text(text: str) -> str:
    """The file of `notebook_of`."""
    return json.dumps(notebook_of(text), indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    source = Path(sys.argv[1])
    source.with_suffix(".ipynb").write_text(notebook_text(source.read_text("utf-8")), "utf-8")
