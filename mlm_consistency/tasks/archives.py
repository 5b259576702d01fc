"""The benchmarks' published files: where they are, how to get them whole, how to check them.

What is known of each benchmark stands in assets/published.json: its home, its downloads with their
sha256, and the sha256 of each file that a task reads. A file is right if its own hash is, whatever
it was unpacked from.
"""

from __future__ import annotations

import hashlib
import importlib.resources
import json
import os
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from mlm_consistency.errors import DataError, MlmConsistencyError
from mlm_consistency.tables import unknown_name
from mlm_consistency.tasks.config import TaskConfig
from mlm_consistency.tasks.download import download
from mlm_consistency.tasks.example_source import Dropped
from mlm_consistency.tasks.task import load_task
from mlm_consistency.tasks.unpack import unpack

Progress = Callable[[str, int, int | None], None]


@dataclass(frozen=True)
class Download:
    """One address.

    Attributes:
      url: https address.
      sha256: of what comes; "" where it is not known, then the files inside are checked.
      files: path in the archive -> path in the data folder; for a single file one entry, the
        first path being "".
    """

    url: str
    sha256: str
    files: dict[str, str]

    @property
    def is_archive(self) -> bool:
        """False where the address gives the file itself."""
        return "" not in self.files


@dataclass(frozen=True)
class Published:
    """What is known of a benchmark.

    Attributes:
      task: its name in the table of tasks.
      home: where it is described.
      licence: as its makers state it.
      downloads: what to get.
      sha256: path in the data folder -> hash of the file, where it is known.
    """

    task: str
    home: str
    licence: str
    downloads: tuple[Download, ...]
    sha256: dict[str, str]

    @property
    def paths(self) -> list[str]:
        """All files that belong in the data folder."""
        return [path for download in self.downloads for path in download.files.values()]


@dataclass(frozen=True)
class FileState:
    """One file of a data folder: "right", "present" (no hash is known), "differs" or "missing"."""

    path: str
    state: str


@cache
def _known() -> dict[str, Published]:
    asset = importlib.resources.files("mlm_consistency.tasks") / "assets" / "published.json"
    return {
        task: Published(
            task,
            entry["home"],
            entry["licence"],
            tuple(Download(d["url"], d["sha256"], d["files"]) for d in entry["downloads"]),
            entry["sha256"],
        )
        for task, entry in json.loads(asset.read_text("utf-8")).items()
    }


def published_tasks() -> list[str]:
    """Names of the tasks whose files can be fetched."""
    return sorted(_known())


def published(task: str) -> Published:
    """What is known of a task's files.

    Raises:
      UnknownNameError: if nothing is published for it.
    """
    if task not in _known():
        raise unknown_name("task with published files", task, _known())
    return _known()[task]


def check_files(source: Published, folder: Path) -> list[FileState]:
    """The state of each file of the benchmark in a folder."""
    states = []
    for path in source.paths:
        file, known = folder / path, source.sha256.get(path)
        if not file.is_file():
            states.append(FileState(path, "missing"))
        elif known is None:
            states.append(FileState(path, "present"))
        else:
            states.append(FileState(path, "right" if sha256_of(file) == known else "differs"))
    return states


@dataclass(frozen=True)
class RowCounts:
    """Rows of a split: those that are examples, and reason -> those that are none."""

    examples: int
    dropped: dict[str, int]

    def __str__(self) -> str:
        lost = "".join(f"; dropped {count}: {why}" for why, count in self.dropped.items())
        return f"{self.examples} examples{lost}"


def count_rows(task: str, folder: Path) -> dict[str, RowCounts | str]:
    """split or form -> how many examples there are in a folder, or why it cannot be read.

    MMLU and BIG-Bench Hard count over all their files.
    """
    from mlm_consistency.tables import lookup
    from mlm_consistency.tasks.names import TASKS

    source = lookup(TASKS, task, "task")()
    counts: dict[str, RowCounts | str] = {}
    for split in source.splits:
        for form in source.forms if source.candidates_from_beams else source.forms[:1]:
            key = f"{split}, {form}" if source.candidates_from_beams else split
            try:
                rows = load_task(TaskConfig(task, str(folder), split, form=form)).rows()
                reasons = Counter(r.reason if isinstance(r, Dropped) else "" for r in rows)
                counts[key] = RowCounts(reasons.pop("", 0), dict(reasons))
            except MlmConsistencyError as error:
                counts[key] = str(error)
    return counts


def fetch(source: Published, folder: Path, progress: Progress | None = None) -> list[FileState]:
    """Gets what is missing or differs; files that are right are left alone.

    A download that broke off is taken up where it ended. Each file is written beside its place,
    checked, then renamed, so that no half or wrong file is ever found under its name.

    Args:
      progress: called with (url, bytes so far, bytes in all or None).

    Raises:
      DataError: if a connection breaks, a hash is wrong, or an archive is damaged or unsafe.
    """
    folder.mkdir(parents=True, exist_ok=True)
    state = {entry.path: entry.state for entry in check_files(source, folder)}
    for wanted in source.downloads:
        if all(state[path] in ("right", "present") for path in wanted.files.values()):
            continue
        name = wanted.url.rstrip("/").rpartition("/")[2].partition("?")[0]
        part = folder / f".{name}.part"
        download(wanted.url, part, wanted.sha256, progress)
        try:
            if wanted.is_archive:
                _place(source, folder, unpack(part, wanted.files, folder), wanted.url)
            else:
                (path,) = wanted.files.values()
                (folder / path).parent.mkdir(parents=True, exist_ok=True)
                _place(source, folder, [(path, part)], wanted.url)
        finally:
            part.unlink(missing_ok=True)
    return check_files(source, folder)


def sha256_of(file: Path) -> str:
    """Hash of a file's bytes, in hexadecimal."""
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _place(source: Published, folder: Path, files: Iterable[tuple[str, Path]], url: str) -> None:
    """Checks each file beside its place and renames it there; all of them or none."""
    waiting = list(files)
    for path, file in waiting:
        known, found = source.sha256.get(path), sha256_of(file)
        if known is not None and found != known:
            for _, other in waiting:
                other.unlink(missing_ok=True)
            raise DataError(
                f"{url}: {path} has sha256 {found}, expected {known}. The published file has "
                "changed or was damaged on the way; nothing was written."
            )
    for path, file in waiting:
        os.replace(file, folder / path)
