"""Fixtures that every test may use."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The folder of real benchmark files; tests that need it skip where it is not at hand."""
    value = os.environ.get("MLM_CONSISTENCY_DATA", "")
    if not value:
        pytest.skip("real data: set MLM_CONSISTENCY_DATA to the folder with mmlu/, bbh/, vocab/")
    folder = Path(value)
    if not folder.is_dir():
        pytest.fail(f"MLM_CONSISTENCY_DATA={value} is not a folder")
    return folder.resolve()
