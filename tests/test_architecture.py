"""The order of the rooms: data flows down the list, and nothing imports upwards.

Each room (folder of the package) may import the rooms named in its line of `MAY_IMPORT`, all of
them above it, and the libraries that no line of `ONLY_IN` keeps from it. Imports inside functions
and under TYPE_CHECKING count too: they are dependencies all the same.
"""

from __future__ import annotations

import ast
import functools
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = "mlm_consistency"
ROOT = Path(__file__).resolve().parents[1] / PACKAGE

# Room -> the rooms that its data come from. The order of the lines is the order of the house.
MAY_IMPORT: dict[str, set[str]] = {
    "vocabularies": set(),
    "conditionals": {"vocabularies"},
    "tasks": {"vocabularies", "conditionals"},
    "models": set(),
    "checkpoints": {"models"},
    "scoring": {"vocabularies", "conditionals", "models"},
    "benchmarking": {"conditionals", "models", "checkpoints", "scoring"},
    "records": {"vocabularies", "conditionals"},
    "analysis": {"records"},
    "report": {"conditionals", "records", "analysis"},
    "pretraining": {"vocabularies", "conditionals", "tasks", "models", "checkpoints", "scoring"},
}
# Rooms at the end of the house, where users and other programs come in; they may import all rooms.
DOORS = {"cli", "harness"}
# Library -> the rooms and files that may import it.
ONLY_IN: dict[str, set[str]] = {
    "tensorflow": {
        "tasks",
        "pretraining/preprocessors.py",
        "cli/tensorboard.py",
        "cli/tensorflow_noise.py",
    },
    "tensorflow_text": {"tasks", "pretraining/preprocessors.py", "cli/tensorflow_noise.py"},
    "tensorflow_datasets": {"tasks"},
    "seqio": {"tasks", "pretraining/preprocessors.py", "cli/tensorflow_noise.py"},
    "gin": {"cli"},
    "jax": {"models", "checkpoints", "scoring", "benchmarking", "pretraining", "api.py", "cli"},
    "flax": {"models", "checkpoints", "scoring", "benchmarking", "pretraining", "api.py", "cli"},
    "optax": {"pretraining", "analysis"},
    "torch": {"checkpoints", "benchmarking"},
    "transformers": {"benchmarking"},
    "t5x": set(),
    "lm_eval": {"harness", "cli/lm_eval.py"},
}
# What every room may use.
COMMON = {"errors.py", "tables.py", "__init__.py"}
LONGEST_MODULE = 400
EMPTY_NAMES = {"util", "utils", "helper", "helpers", "manager", "managers", "misc", "common"}

FILES = sorted(ROOT.rglob("*.py"))


def place(path: Path) -> str:
    """The path within the package, "scoring/packing.py" say."""
    return path.relative_to(ROOT).as_posix()


def room(path: Path) -> str:
    """The folder of the package that a file is in; the file itself at the top."""
    return place(path).partition("/")[0]


@functools.cache
def imports(path: Path) -> list[tuple[int, str]]:
    """Line and full dotted name of everything that a file imports."""
    return list(_imports(path))


def _imports(path: Path) -> Iterator[tuple[int, str]]:
    module = [PACKAGE, *path.relative_to(ROOT).with_suffix("").parts]
    for node in ast.walk(ast.parse(path.read_text(), filename=str(path))):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            base = module[: -node.level] if node.level else []
            source = ".".join([*base, *([node.module] if node.module else [])])
            for alias in node.names:
                yield node.lineno, f"{source}.{alias.name}"


def imported_rooms(path: Path) -> Iterator[tuple[int, str]]:
    """Line and room of every import from within the package."""
    for line, name in imports(path):
        parts = name.split(".")
        if parts[0] == PACKAGE and len(parts) > 1:
            if (ROOT / parts[1]).is_dir():
                yield line, parts[1]
            elif (ROOT / f"{parts[1]}.py").is_file():
                yield line, f"{parts[1]}.py"


def test_every_room_is_in_the_order():
    rooms = {room(path) for path in FILES if path.parent != ROOT}
    unknown = rooms - {*MAY_IMPORT, *DOORS}
    assert not unknown, (
        f"{PACKAGE}/ has folders that the order does not know: {sorted(unknown)}. "
        f"Add each to MAY_IMPORT in {Path(__file__).name}, below the rooms its data come from."
    )
    above: set[str] = set()
    for name, allowed in MAY_IMPORT.items():
        assert allowed <= above, f"{name} is allowed to import upwards: {sorted(allowed - above)}"
        above.add(name)


@pytest.mark.parametrize("name", MAY_IMPORT)
def test_a_room_imports_only_the_rooms_its_data_come_from(name):
    allowed = MAY_IMPORT[name] | {name} | COMMON
    faults = [
        f"{PACKAGE}/{place(path)}:{line} imports {other}"
        for path in FILES
        if room(path) == name
        for line, other in imported_rooms(path)
        if other not in allowed
    ]
    assert not faults, (
        f"{name} may import {sorted(MAY_IMPORT[name]) or 'no other room'}:\n  "
        + "\n  ".join(faults)
        + "\nMove the code to the lower room, or hand the object over as an argument."
    )


def test_what_is_common_imports_no_room():
    faults = [
        f"{PACKAGE}/{name}:{line} imports {other}"
        for name in sorted(COMMON - {"__init__.py"})
        for line, other in imported_rooms(ROOT / name)
        if other not in COMMON
    ]
    assert not faults, "\n".join(faults)


@pytest.mark.parametrize("library", ONLY_IN)
def test_a_library_stays_in_its_rooms(library):
    allowed = ONLY_IN[library]
    faults = [
        f"{PACKAGE}/{place(path)}:{line} imports {name}"
        for path in FILES
        if room(path) not in allowed and place(path) not in allowed
        for line, name in imports(path)
        if name.partition(".")[0] == library
    ]
    assert not faults, (
        f"{library} may be imported in {sorted(allowed) or 'no module'} alone:\n  "
        + "\n  ".join(faults)
    )


def test_no_module_is_long():
    long = {place(path): len(path.read_text().splitlines()) for path in FILES}
    long = {name: lines for name, lines in long.items() if lines > LONGEST_MODULE}
    assert not long, f"modules of more than {LONGEST_MODULE} lines; split them by idea: {long}"


def test_every_module_is_named_for_what_it_holds():
    empty = [place(path) for path in FILES if EMPTY_NAMES & set(path.stem.split("_"))]
    assert not empty, f"names that say nothing about the contents: {empty}"


@pytest.mark.parametrize("module", ["", ".vocabularies", ".conditionals", ".records", ".analysis"])
def test_light_rooms_load_neither_jax_nor_tensorflow(module):
    """Records are read and analysed on machines that have neither an accelerator nor TensorFlow."""
    program = (
        f"import sys, {PACKAGE}{module}\n"
        "print(*sorted({'jax', 'flax', 'tensorflow', 'seqio', 'torch'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT.parent, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == [], f"import {PACKAGE}{module} loads {done.stdout.strip()}"
