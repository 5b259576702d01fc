"""The documentation stays true: its diffs apply and work, its names and files exist."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
DOCS = REPOSITORY / "docs"

# What each diff of docs/adding.md makes possible.
PROOFS = {
    "pattern": """
from mlm_consistency.conditionals import get_conditional
layout = get_conditional("front_2").layout(6)
ids = list(range(10, 16))
print(layout.encoder_ids(ids, lambda k: 99 - k, 1), layout.prefix_ids(ids, lambda k: 99 - k))
assert list(layout.encoder_ids(ids, lambda k: 99 - k, 1)) == [99, 12, 13, 14, 15, 98, 1]
assert list(layout.prefix_ids(ids, lambda k: 99 - k)) == [99, 10, 11, 98]
""",
    "task": """
import json, pathlib
from mlm_consistency.tasks import TaskConfig, load_task
row = {"premise": "It rained.", "choice1": "A.", "choice2": "B.", "question": "effect", "label": 1}
pathlib.Path("val.jsonl").write_text(json.dumps({**row, "idx": 0}))
(example,) = load_task(TaskConfig(name="copa", data_dir=".")).text_examples()
assert (example.prompt, example.labels) == ("It rained so", (1,)), example
""",
    "model": """
import math, jax
from mlm_consistency.models.presets import preset
from mlm_consistency.models.t5 import abstract_parameters
leaves = jax.tree.leaves(abstract_parameters(preset("t5_efficient_tiny")))
count = sum(math.prod(leaf.shape) for leaf in leaves)
assert f"{count:,} parameters" in open("gin/models/t5_efficient_tiny.gin").read(), count
""",
    "metric": """
import numpy as np
from mlm_consistency.analysis.ensembles import get_reduction
assert get_reduction("median")(np.array([[[-1.0, -9.0], [-3.0, -1.0], [-2.0, -2.0]]])).argmax() == 0
""",
}


@pytest.mark.parametrize("name", PROOFS)
def test_a_documented_diff_applies_is_short_and_works(name, tmp_path):
    diff = DOCS / "diffs" / f"{name}.diff"
    changed = [
        line
        for line in diff.read_text().splitlines()
        if line[:1] in "+-" and line[:4] not in ("+++ ", "--- ")
    ]
    assert 0 < len(changed) < 40
    ignore = shutil.ignore_patterns("__pycache__")
    shutil.copytree(REPOSITORY / "mlm_consistency", tmp_path / "mlm_consistency", ignore=ignore)
    shutil.copytree(REPOSITORY / "gin" / "models", tmp_path / "gin" / "models")
    applied = subprocess.run(
        ["git", "apply", "-C1", "--verbose", str(diff)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "GIT_CEILING_DIRECTORIES": str(tmp_path.parent)},
    )
    assert applied.returncode == 0, (
        f"docs/diffs/{name}.diff does not apply any more; make it anew:\n{applied.stderr}"
    )
    proof = tmp_path / "proof.py"
    proof.write_text(PROOFS[name])
    done = subprocess.run(
        [sys.executable, str(proof)], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_diff_is_shown():
    page = (DOCS / "adding.md").read_text()
    assert {path.stem for path in (DOCS / "diffs").iterdir()} == set(PROOFS)
    for name in PROOFS:
        assert f"diffs/{name}.diff" in page


def defined(module: Path) -> set[str]:
    """Names that a module defines or imports at its top; read, not imported: some load JAX."""
    names: set[str] = set()
    for node in ast.parse(module.read_text()).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Assign):
            names |= {target.id for target in node.targets if isinstance(target, ast.Name)}
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names.add(node.target.id)
        elif isinstance(node, ast.ImportFrom):
            names |= {alias.asname or alias.name for alias in node.names}
    return names


def test_names_beside_the_formulas_exist():
    """`analysis.curve.ensemble_curve` in a table of concepts.md is a function of that module."""
    pattern = r"`((?:analysis|conditionals|models|scoring|tasks|records)\.[\w.]+)[`(]"
    names = re.findall(pattern, "".join(page.read_text() for page in DOCS.glob("*.md")))
    assert names
    for name in set(names):
        *folders, last = name.split(".")
        place = (REPOSITORY / "mlm_consistency").joinpath(*folders)
        module = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
        exists = place.joinpath(f"{last}.py").is_file() or (
            module.is_file() and last in defined(module)
        )
        assert exists, f"the docs name {name}, which does not exist"


def test_reductions_and_hardware_of_the_docs_are_those_of_the_package():
    from mlm_consistency.analysis.ensembles import REDUCTIONS

    concepts = (DOCS / "concepts.md").read_text()
    assert set(re.findall(r"`reduce_(\w+)`", concepts)) == set(REDUCTIONS)
    hardware = (DOCS / "tpu-and-gpu.md").read_text()
    files = {path.name for path in (REPOSITORY / "gin" / "hardware").glob("*.gin")}
    assert set(re.findall(r"`(\w+\.gin)`", hardware)) == files


def test_files_that_the_docs_name_exist():
    names = set()
    for page in (*DOCS.glob("*.md"), REPOSITORY / "launch" / "README.md"):
        names |= set(
            re.findall(r"(?:launch|gin)/[\w/.]+\.(?:sh|gin|yaml|sbatch)", page.read_text())
        )
    missing = sorted(name for name in names if not (REPOSITORY / name).is_file())
    assert not missing, f"named in the docs, not in the repository: {missing}"


def test_the_site_builds_strictly(tmp_path):
    pytest.importorskip("material", reason="the extra `docs` is not installed")
    pytest.importorskip("mkdocstrings", reason="the extra `docs` is not installed")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path / "site")],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    # No page asks another site for a script, a style or a font.
    for page in (tmp_path / "site").rglob("*.html"):
        for tag in re.findall(r"<(?:script|link|img)[^>]*>", page.read_text()):
            address = re.search(r'(?:src|href)="(https?:)?//', tag)
            assert not address or "canonical" in tag, f"{page.name} loads {tag}"
