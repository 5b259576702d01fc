"""The inputs of small runs are those of tests/cli, those of small records tests/records'."""

from __future__ import annotations

import sys
from pathlib import Path

for folder in ("cli", "records"):
    sys.path.append(str(Path(__file__).resolve().parents[1] / folder))
