"""A run folder in a bucket whose service fails, or refuses: asked again, or said once.

The bucket is a folder; everything that records do with it goes through `Remote`.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
from fake_scorer import TASKS, Vocabulary, manifest, shard_of, write_run

from mlm_consistency.errors import RecordsError
from mlm_consistency.records import RunWriter, open_run, storage

RUN = "gs://bucket/run"


class PermissionDeniedError(Exception):
    """TensorFlow's class of this name is no PermissionError."""


class HttpError(Exception):
    """gcsfs's errors carry the status of the answer."""

    def __init__(self, code: int) -> None:
        super().__init__(f"answer {code}")
        self.code = code


class Remote:
    """In place of epath.Path: gs://bucket/X is FOLDER/X, and operations fail as they are told."""

    folder: Path
    failing: dict[str, list[Exception]]
    asked: list[str]

    def __init__(self, path) -> None:
        self.address = os.fspath(path)
        self.path = self.folder / self.address.removeprefix("gs://bucket/")
        self.name = self.path.name

    def _answer(self, operation: str) -> None:
        self.asked.append(operation)
        if self.failing.get(operation):
            raise self.failing[operation].pop(0)

    def write_bytes(self, data):
        self._answer("write")
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_bytes(data)

    def read_bytes(self):
        self._answer("read")
        return self.path.read_bytes()

    def exists(self):
        self._answer("exists")
        return self.path.exists()

    def iterdir(self):
        self._answer("list")
        return [Remote(f"{self.address}/{child.name}") for child in self.path.iterdir()]

    def mkdir(self, **kwargs):
        self._answer("mkdir")

    def unlink(self, missing_ok=False):
        self._answer("remove")
        self.path.unlink(missing_ok=missing_ok)


@pytest.fixture
def remote(tmp_path, monkeypatch):
    """Remote, with the seconds that were waited in `waits`."""
    waits: list[float] = []
    monkeypatch.setattr(Remote, "folder", tmp_path / "bucket", raising=False)
    monkeypatch.setattr(Remote, "failing", {}, raising=False)
    monkeypatch.setattr(Remote, "asked", [], raising=False)
    monkeypatch.setattr(Remote, "waits", waits, raising=False)
    monkeypatch.setattr(storage.epath, "Path", Remote)
    monkeypatch.setattr(storage.time, "sleep", waits.append)
    return Remote


def objects(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (folder / "records").iterdir()}


@pytest.fixture
def expected(tmp_path):
    write_run(tmp_path / "local")
    return objects(tmp_path / "local")


def test_every_operation_is_tried_again(expected, remote):
    passing = [ConnectionError("503"), TimeoutError("slow"), HttpError(429)]
    remote.failing = {
        name: [*passing] for name in ("write", "read", "exists", "list", "mkdir", "remove")
    }
    write_run(RUN)
    assert not any(remote.failing.values()), "each of them failed three times"
    assert objects(remote.folder / "run") == expected
    assert open_run(RUN).complete
    first = remote.waits[:3]
    assert first == sorted(first), "longer each time"
    assert 1 < first[0] < 3 < first[2] < 11


@pytest.mark.parametrize(
    "error",
    [
        PermissionDeniedError("403 for account x"),
        HttpError(403),
        PermissionError(errno.EACCES, "x"),
    ],
)
def test_a_right_that_is_lost_is_said_at_once_and_the_run_goes_on_later(expected, remote, error):
    writer = RunWriter(RUN, manifest())
    writer.write(shard_of("stories", 0), Vocabulary())
    remote.asked.clear()
    remote.failing = {"write": [error]}
    with pytest.raises(RecordsError) as caught:
        writer.write(shard_of("stories", 1), Vocabulary())
    assert remote.asked == ["write"], "not asked again"
    message = str(caught.value)
    assert message.startswith("cannot write gs://bucket/run/records/")
    assert "give this machine's account the right to list, read and write objects" in message
    assert "goes on after the last whole shard" in message
    assert "\n" not in message
    assert write_run(RUN)[0] == ("stories", 1)
    assert objects(remote.folder / "run") == expected


def test_a_service_that_stays_away_is_named_with_what_was_asked(remote):
    for operation, act in (
        ("write", lambda: storage.publish("gs://bucket/a", b"1")),
        ("read", lambda: storage.read_bytes("gs://bucket/a")),
        ("exists", lambda: storage.exists("gs://bucket/a")),
        ("exists", lambda: storage.names_in("gs://bucket/a")),
        ("mkdir", lambda: storage.make_folder("gs://bucket/a")),
        ("remove", lambda: storage.remove("gs://bucket/a")),
    ):
        remote.asked.clear()
        remote.failing = {operation: [ConnectionError("503 at last")] * 9}
        with pytest.raises(RecordsError, match=r"cannot .* gs://bucket/a: 503 at last"):
            act()
        assert remote.asked == [operation] * 5


def test_what_is_not_there_is_not_asked_for_again(remote):
    with pytest.raises(FileNotFoundError):
        storage.read_bytes("gs://bucket/nothing")
    assert remote.asked == ["read"]


def test_a_quota_that_is_used_up_is_said_on_a_local_disk_too(tmp_path, monkeypatch):
    writer = RunWriter(tmp_path, manifest())
    writer.write(shard_of("stories", 0), Vocabulary())

    def full(descriptor):
        raise OSError(errno.EDQUOT, os.strerror(errno.EDQUOT))

    with monkeypatch.context() as patched:
        patched.setattr(storage.os, "fsync", full)
        with pytest.raises(RecordsError, match="free some of the quota, then give the same"):
            writer.write(shard_of("stories", 1), Vocabulary())
    assert write_run(tmp_path)[0] == ("stories", 1)
    assert open_run(tmp_path).complete


def test_a_writer_that_is_told_what_is_finished_does_not_look(tmp_path):
    """Process 1 starts when process 0 has found nothing, and has since written a shard."""
    first = RunWriter(tmp_path, manifest(), processes=2)
    found = {task: first.finished(task) for task in TASKS}
    first.write(shard_of("stories", 0), Vocabulary())
    second = RunWriter(tmp_path, manifest(), process=1, processes=2, finished=found)
    assert second.finished("stories") == set(), "as process 0 saw it"
    for shard in (1, 2):
        second.write(shard_of("stories", shard), Vocabulary())
    first.write(shard_of("quiz:hard", 0), Vocabulary())
    assert not second.complete().complete, "that is process 0's part"
    done = first.complete({task: n for task, (n, _) in TASKS.items()})
    assert [(o["process"], o["shards"]) for o in done.origins] == [
        (0, {"stories": [0], "quiz:hard": [0]}),
        (1, {"stories": [1, 2]}),
    ]
