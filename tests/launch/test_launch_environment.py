"""launch/environment.sh, local.sh and test.sh with stub interpreters: no network, no install."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

# An interpreter that answers the version probe and "makes" an environment: a folder with a python
# that notes its calls, fails an install where the file `pip_fails` exists, and a stub command.
MAKES_ENVIRONMENT = r"""
case "$1" in
  -c) echo fit ;;
  -m)
    mkdir -p "$4/bin"
    touch "$4/pyvenv.cfg"
    cp "$STATE/environment_python" "$4/bin/python"
    cp "$STATE/environment_command" "$4/bin/mlm-consistency"
    ;;
esac
"""
ENVIRONMENT_PYTHON = r"""
if [ "$1 $2 $3" = "-m pip install" ] && [ -e "$STATE/pip_fails" ]; then
  echo "no matching distribution" >&2
  exit 1
fi
"""


@pytest.fixture
def machine(stubs):
    stubs.program("environment_python", ENVIRONMENT_PYTHON, place=stubs.folder)
    stubs.program("environment_command", 'pwd >>"$CALLS"; exit "${STATUS:-0}"', place=stubs.folder)
    stubs.program("python3.13", "exit 127")  # a version manager's shim
    stubs.program("python3.12", "echo 'a start-up file speaks'; echo 'is version 3.9'")
    stubs.program("python3.11", MAKES_ENVIRONMENT)
    stubs.program("python3", "echo 'is version 3.8'")
    return stubs


def installs(stubs) -> list[list[str]]:
    return [call for call in stubs.calls() if call[:4] == ["python", "-m", "pip", "install"]]


def test_the_first_fit_python_makes_the_environment_and_pins_are_used(machine, copy_of_repository):
    done = machine.run(copy_of_repository / "launch/test.sh", "tests/a b.py", "-x")
    assert done.returncode == 0, done.stderr
    assert [call[0] for call in machine.calls() if call[0].startswith("python3")] == [
        "python3.13", "python3.12", "python3.11", "python3.11",
    ]  # fmt: skip
    (install,) = installs(machine)
    assert install[install.index("-c") + 1] == f"{copy_of_repository}/constraints.txt"
    assert install[install.index("-e") + 1] == f"{copy_of_repository}[test]"
    assert machine.calls()[-1] == ["python", "-m", "pytest", "tests/a b.py", "-x"]
    assert "installing with test" in done.stderr


def test_a_second_start_installs_nothing(machine, copy_of_repository):
    for _ in range(2):
        assert machine.run(copy_of_repository / "launch/test.sh").returncode == 0
    assert len(installs(machine)) == 1


def test_more_extras_and_changed_pins_install_again_and_keep_what_was_there(
    machine, copy_of_repository
):
    machine.run(copy_of_repository / "launch/test.sh")
    machine.run(copy_of_repository / "launch/test.sh", EXTRAS="lint,parity")
    assert installs(machine)[-1][-1].endswith("[test,lint,parity]")
    machine.run(copy_of_repository / "launch/local.sh")
    assert len(installs(machine)) == 2
    with open(copy_of_repository / "constraints.txt", "a") as pins:
        pins.write("absl-py==2.0\n")
    machine.run(copy_of_repository / "launch/local.sh")
    assert len(installs(machine)) == 3
    assert installs(machine)[-1][-1].endswith("[test,lint,parity]")


def test_a_failed_install_says_so_and_is_tried_again(machine, copy_of_repository):
    fails = machine.folder / "pip_fails"
    fails.touch()
    done = machine.run(copy_of_repository / "launch/local.sh")
    assert done.returncode == 2
    assert "no matching distribution" in done.stderr
    assert "install.log" in done.stderr
    fails.unlink()
    assert machine.run(copy_of_repository / "launch/local.sh").returncode == 0
    assert len(installs(machine)) == 2


def test_without_a_fit_python_the_message_tells_what_was_tried(machine, copy_of_repository):
    machine.program("python3.11", "echo 'lacks venv (apt-get install python3.11-venv)'")
    done = machine.run(copy_of_repository / "launch/local.sh")
    assert done.returncode == 2
    for part in (
        "3.11, 3.12 or 3.13 is needed",
        "python3.13: does not start",
        "python3.12: is version 3.9",
        "python3.11: lacks venv",
        "python3: is version 3.8",
        "PYTHON=",
    ):
        assert part in done.stderr


def test_a_named_python_that_is_unfit_is_refused(machine, copy_of_repository):
    done = machine.run(copy_of_repository / "launch/local.sh", PYTHON="python3.12")
    assert done.returncode == 2
    assert "PYTHON=python3.12: is version 3.9" in done.stderr


def test_a_folder_with_other_files_is_not_cleared(machine, copy_of_repository, tmp_path):
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "thesis.txt").write_text("years of work")
    done = machine.run(copy_of_repository / "launch/local.sh", VENV=str(precious))
    assert done.returncode == 2
    assert "other files" in done.stderr
    assert (precious / "thesis.txt").read_text() == "years of work"


def test_local_runs_the_shipped_job_from_the_repository_and_passes_its_status(
    machine, copy_of_repository, tmp_path
):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    arguments = ("--gin.OUTPUT_DIR='runs/my run'", "--gin_file=more.gin")
    done = machine.run(
        copy_of_repository / "launch/local.sh", *arguments, cwd=elsewhere, STATUS="75", VENV="mine"
    )
    assert done.returncode == 75, done.stderr
    assert (elsewhere / "mine" / "pyvenv.cfg").exists()
    call, folder = machine.log.read_text().splitlines()[-2:]
    assert call.split("|") == [
        "mlm-consistency", "run", "--gin_file=gin/runs/tiny_stories.gin", *arguments,
    ]  # fmt: skip
    assert Path(folder) == copy_of_repository


def test_the_run_is_kept_to_the_cpu_unless_told_otherwise(copy_of_repository):
    ask = f'source "{copy_of_repository}/launch/environment.sh"; echo "[$JAX_PLATFORMS]"'

    def answer(**variables: str) -> str:
        environment = {"PATH": "/usr/bin:/bin", **variables}
        return subprocess.check_output(["bash", "-c", ask], env=environment, text=True).strip()

    assert answer() == "[cpu]"
    assert answer(JAX_PLATFORMS="cuda") == "[cuda]"
    assert answer(JAX_PLATFORMS="") == "[]"
