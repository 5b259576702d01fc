"""What holds for every launch script: shellcheck is content, and nothing private is inside."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
SCRIPTS = sorted(
    [
        *(REPOSITORY / "launch").glob("*.sh"),
        REPOSITORY / "launch/slurm.sbatch",
        REPOSITORY / ".ci/run",
    ]
)
SOURCED = {"commands.sh", "environment.sh"}


def test_shellcheck_is_content():
    program = shutil.which("shellcheck")
    if program is None:
        pytest.skip("shellcheck is not installed (Debian package shellcheck)")
    done = subprocess.run(
        [program, "-x", "-P", str(REPOSITORY), *map(str, SCRIPTS)],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_bash_reads_it_and_it_stops_at_the_first_fault(script):
    subprocess.run(["bash", "-n", str(script)], check=True)
    if script.name not in SOURCED:
        assert "set -euo pipefail" in script.read_text()


@pytest.mark.parametrize(
    "script", [s for s in SCRIPTS if "--help)" in s.read_text()], ids=lambda path: path.name
)
def test_help_is_the_comment_at_the_head(script):
    done = subprocess.run(
        ["bash", str(script), "--help"], capture_output=True, text=True, check=True
    )
    assert f"bash launch/{script.name}" in done.stdout
    for flag in set(re.findall(r"^\s+(--[a-z_]+)=\*\)", script.read_text(), flags=re.MULTILINE)):
        assert flag in done.stdout, f"{script.name} --help does not mention {flag}"


def test_no_project_bucket_or_account_is_written_down():
    for path in (REPOSITORY / "launch").iterdir():
        text = path.read_text()
        assert not re.search(r"gs://(?!BUCKET|\?|[* ]|\"|$)\w", text), path.name
        assert not re.search(r"[\w.-]+@[\w-]+\.iam\.gserviceaccount\.com", text), path.name


def test_the_readme_lists_every_launcher():
    readme = (REPOSITORY / "launch" / "README.md").read_text()
    for path in (REPOSITORY / "launch").iterdir():
        if path.name != "README.md":
            assert path.name in readme, f"launch/README.md does not mention {path.name}"
