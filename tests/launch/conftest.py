"""Fixtures of the tests of launch scripts."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from launch_stubs import LAUNCH, REPOSITORY, Stubs


@pytest.fixture
def stubs(tmp_path: Path) -> Stubs:
    if os.name != "posix" or not shutil.which("bash"):
        pytest.skip("launch scripts need bash")
    return Stubs(tmp_path)


@pytest.fixture
def copy_of_repository(tmp_path: Path) -> Path:
    """The files that the environment is made from, in a folder with a space in its name."""
    copy = tmp_path / "a folder" / "repo"
    shutil.copytree(LAUNCH, copy / "launch")
    for name in ("pyproject.toml", "constraints.txt"):
        shutil.copy(REPOSITORY / name, copy / name)
    return copy
