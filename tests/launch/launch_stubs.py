"""Launch scripts under stub programs: what they call, in which order, and how they end."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
LAUNCH = REPOSITORY / "launch"

# What the scripts may use of a bare system; python3 is not among it, so that a test decides which
# interpreters there are.
SYSTEM_TOOLS = [
    *("awk", "basename", "bash", "cat", "chmod", "cksum", "cp", "dirname", "env", "flock", "grep"),
    *("gzip", "head", "hostname", "kill", "ls", "mkdir", "mktemp", "mv", "ps", "rm", "sed", "seq"),
    *("sh", "sleep", "tail", "tar", "tee", "touch", "tr"),
]

RECORD = """#!/usr/bin/env bash
{
  printf "%s" "$(basename "$0")"
  printf "|%s" "$@"
  echo
} >>"$CALLS"
"""


class Stubs:
    """A PATH of stub programs that note their calls, and a way to run a script under it."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.programs = folder / "programs"
        self.programs.mkdir()
        self.log = folder / "calls"
        self.log.touch()
        for tool in SYSTEM_TOOLS:
            found = shutil.which(tool)
            if found:
                (self.programs / tool).symlink_to(found)

    def program(self, name: str, body: str = "", place: Path | None = None) -> Path:
        """A program that notes its call (name and arguments, joined by |) and then runs `body`."""
        path = (place or self.programs) / name
        path.write_text(RECORD + body + "\n")
        path.chmod(0o755)
        return path

    def replace(self, name: str, body: str = "") -> Path:
        """A stub in the place of a real system tool."""
        (self.programs / name).unlink(missing_ok=True)
        return self.program(name, body)

    def queue(self, name: str, *lines: str) -> None:
        """What `next_of NAME` of a stub answers, line by line; the last one for ever."""
        (self.folder / name).write_text("\n".join(lines) + "\n")

    def environment(self, **variables: str) -> dict[str, str]:
        return {
            "PATH": str(self.programs),
            "HOME": str(self.folder),
            "CALLS": str(self.log),
            "STATE": str(self.folder),
            **variables,
        }

    def run(self, script: str | Path, *arguments: str, cwd: Path | None = None, **variables: str):
        return subprocess.run(
            [shutil.which("bash") or "bash", str(LAUNCH / script), *arguments],
            env=self.environment(**variables),
            cwd=cwd or self.folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def calls(self) -> list[list[str]]:
        return [line.split("|") for line in self.log.read_text().splitlines()]

    def verbs(self) -> list[str]:
        """The calls without their flags and values, to compare sequences."""
        return [
            " ".join(word for word in call if not word.startswith("-") and "/" not in word)
            for call in self.calls()
        ]


NEXT_OF = """
next_of() {
  head -n 1 "$STATE/$1"
  if [ "$(wc_lines "$STATE/$1")" -gt 1 ]; then
    tail -n +2 "$STATE/$1" >"$STATE/$1.new" && mv "$STATE/$1.new" "$STATE/$1"
  fi
}
wc_lines() { local n=0; while read -r _; do n=$((n + 1)); done <"$1"; echo "$n"; }
"""
