"""What a run was made with: versions of the packages that matter, and the source's revision."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import subprocess
from pathlib import Path

_PACKAGES = (
    "mlm-consistency",
    "jax",
    "jaxlib",
    "libtpu",
    "flax",
    "numpy",
    "scipy",
    "seqio",
    "tensorflow",
    "sentencepiece",
    "tokenizers",
    "pyarrow",
)


def installed_versions() -> dict[str, str]:
    """Package -> version of those that are installed, read without importing them."""
    versions = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return versions


def source_revision() -> str:
    """The git revision of this source, "+" at its end where files differ from it; else ""."""
    # Where there is no repository (a worker, an image) the launcher says what it was made from.
    built_from = os.environ.get("MLM_CONSISTENCY_REVISION", "")
    folder = Path(__file__).parent

    def git(*words: str) -> str:
        done = subprocess.run(
            ["git", "-C", str(folder), *words],
            capture_output=True,
            text=True,
            timeout=10,
            check=True,
        )
        return done.stdout.strip()

    try:
        # An installed package may lie inside somebody else's repository.
        if not git("ls-files", Path(__file__).name):
            return built_from
        changed = git("status", "--porcelain", "--untracked-files=no", "--", "..")
        return git("rev-parse", "HEAD") + ("+" if changed else "")
    except (OSError, subprocess.SubprocessError):
        return built_from
