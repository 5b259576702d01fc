"""Publishing one file whole or not at all, on a local disk or in a bucket.

On a local disk a file is written beside its place, forced to the disk and renamed into place: a
process that is killed at any moment leaves either no file or the whole file. In a bucket
(gs://, s3://) an object appears when its upload ends, so it is written in place; a rename there
would be a copy. Everything that touches the file system in this folder goes through here.
"""

from __future__ import annotations

import errno
import os
import re
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from etils import epath

from mlm_consistency.errors import RecordsError

PathLike = str | os.PathLike[str]
T = TypeVar("T")

_TEMPORARY = re.compile(r".*\.tmp-(?P<pid>\d+)@(?P<host>.+)")
# A process on another machine cannot be asked whether it lives; a shard takes minutes at most.
_STALE_SECONDS = 3600.0
_REMOTE_ATTEMPTS = 5
_FIRST_DELAY = 1.0

_WAYS_OUT = {
    errno.ENOSPC: "free some space",
    errno.EDQUOT: "free some of the quota",
    errno.EACCES: "give this user the right to write there",
    errno.EPERM: "give this user the right to write there",
    errno.EROFS: "take a folder on a writable disk",
    errno.ENOTDIR: "a part of the path is a file: take another folder",
}


def is_local(path: PathLike) -> bool:
    """Whether `path` is on a file system of this machine (rather than gs:// and the like)."""
    return "://" not in os.fspath(path)


def join(folder: PathLike, *names: str) -> str:
    """The path of a file below `folder`, which may be local or remote."""
    return "/".join([os.fspath(folder).rstrip("/") or "/", *names])


def _failure(action: str, path: PathLike, error: Exception) -> RecordsError:
    code = getattr(error, "errno", None)
    reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
    way_out = _WAYS_OUT.get(code or 0, "see to it")
    return RecordsError(
        f"cannot {action} {os.fspath(path)}: {reason}. "
        f"Shards that are already written are whole; {way_out}, then give the same command "
        "again: it goes on after the last whole shard."
    )


def _with_retries(action: Callable[[], T]) -> T:
    """Runs a remote operation, again after 1, 2, 4, 8 s where it fails for a passing reason."""
    for attempt in range(_REMOTE_ATTEMPTS):
        try:
            return action()
        except (FileNotFoundError, PermissionError, IsADirectoryError, NotADirectoryError):
            raise
        except Exception:
            if attempt == _REMOTE_ATTEMPTS - 1:
                raise
            time.sleep(_FIRST_DELAY * 2**attempt)
    raise AssertionError("unreachable")


def _fsync_folder(folder: str) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _publish_local(path: str, data: bytes) -> None:
    temporary = f"{path}.tmp-{os.getpid()}@{socket.gethostname()}"
    try:
        with open(temporary, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    _fsync_folder(os.path.dirname(path) or ".")


def publish(path: PathLike, data: bytes) -> None:
    """Makes `path` hold `data`, whole or not at all, and durable when this returns.

    Raises:
      RecordsError: where the disk is full or may not be written; names the path and the way out.
    """
    try:
        if is_local(path):
            _publish_local(os.fspath(path), data)
        else:
            _with_retries(lambda: epath.Path(path).write_bytes(data))
    except RecordsError:
        raise
    except Exception as error:
        raise _failure("write", path, error) from error


def read_bytes(path: PathLike) -> bytes:
    """The content of a file. Raises FileNotFoundError, or RecordsError for any other failure."""
    try:
        if is_local(path):
            return Path(path).read_bytes()
        return _with_retries(lambda: epath.Path(path).read_bytes())
    except FileNotFoundError:
        raise
    except Exception as error:
        raise RecordsError(f"cannot read {os.fspath(path)}: {error}") from error


def exists(path: PathLike) -> bool:
    """Whether a file or folder of that name is there."""
    return epath.Path(path).exists()


def make_folder(path: PathLike) -> None:
    """Makes a folder and those above it; one that is already there is left as it is."""
    try:
        epath.Path(path).mkdir(parents=True, exist_ok=True)
    except Exception as error:
        raise _failure("make the folder", path, error) from error


def names_in(folder: PathLike) -> list[str]:
    """Sorted names of what lies in `folder`; none where there is no such folder."""
    path = epath.Path(folder)
    if not path.exists():
        return []
    try:
        return sorted(child.name for child in path.iterdir())
    except Exception as error:
        raise RecordsError(f"cannot list {os.fspath(folder)}: {error}") from error


def remove(path: PathLike) -> None:
    """Removes a file that may already be gone."""
    try:
        epath.Path(path).unlink(missing_ok=True)
    except Exception as error:
        raise _failure("remove", path, error) from error


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def remove_stale(folder: PathLike, *, everything: bool = False) -> list[str]:
    """Removes what killed processes left half written in `folder`; returns the names removed.

    A temporary file goes where its process is dead, or, if it ran on another machine, where the
    file has been untouched for an hour. With `everything`, all go: for when all writers ended.
    """
    removed = []
    for name in names_in(folder) if is_local(folder) else []:
        match = _TEMPORARY.fullmatch(name)
        if match is None:
            continue
        path = join(folder, name)
        pid = int(match["pid"])
        if match["host"] == socket.gethostname():
            # Our own number on a file that we have not begun: an earlier process had it.
            stale = pid == os.getpid() or not _alive(pid)
        else:
            try:
                stale = time.time() - os.stat(path).st_mtime > _STALE_SECONDS
            except FileNotFoundError:
                continue
        if stale or everything:
            remove(path)
            removed.append(name)
    return removed
