"""Publishing one file whole or not at all, on a local disk or in a bucket.

On a local disk a file is written beside its place, forced to the disk and renamed into place: a
process that is killed at any moment leaves either no file or the whole file. In a bucket
(gs://, s3://) an object appears when its upload ends, so it is written in place; a rename there
would be a copy. What fails there for a passing reason is tried again. Everything that touches the
file system in this folder goes through here.
"""

from __future__ import annotations

import errno
import os
import random
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
_FIRST_DELAY = 2.0  # seconds, doubled each time

# What says no for good: asking again would only delay the message.
_FINAL = (
    FileNotFoundError,
    FileExistsError,
    PermissionError,
    IsADirectoryError,
    NotADirectoryError,
    ImportError,  # of a library that this kind of address needs
    NotImplementedError,
)
# How the libraries below etils.epath say that an account may not: TensorFlow, gcsfs and the
# clients of Google and Amazon each have classes of their own.
_DENIED = frozenset(
    (
        "PermissionDeniedError",
        "UnauthenticatedError",
        "Forbidden",
        "Unauthorized",
        "NoCredentialsError",
    )
)
_DENIED_CODES = (401, 403)

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


def _denied(error: Exception) -> bool:
    """Whether an account lacks a right that it needs in a bucket."""
    code = getattr(error, "code", None)
    return type(error).__name__ in _DENIED or (isinstance(code, int) and code in _DENIED_CODES)


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


def _failure(action: str, path: PathLike, error: Exception) -> RecordsError:
    way_out = _WAYS_OUT.get(getattr(error, "errno", None) or 0, "see to it")
    if _denied(error) or (isinstance(error, PermissionError) and not is_local(path)):
        way_out = "give this machine's account the right to list, read and write objects there"
    reason = _reason(error)
    return RecordsError(
        f"cannot {action} {os.fspath(path)}: {reason}. "
        f"What was written before is whole: {way_out}, then give the same command again "
        "(scoring goes on after the last whole shard)."
    )


def _unreadable(path: PathLike, error: Exception) -> RecordsError:
    way_out = {
        errno.ENOTDIR: ": a part of the path is a file. Take another folder",
        errno.EISDIR: ": a folder is there. Take another place",
        errno.EACCES: ". Give this user the right to read there",
    }.get(getattr(error, "errno", None) or 0, "")
    return RecordsError(f"cannot read {os.fspath(path)}: {_reason(error)}{way_out}")


def _attempt(path: PathLike, action: Callable[[], T]) -> T:
    """Does something with `path`.

    Where it is remote and fails for a passing reason, again after about 2, 4, 8 and 16 s, each
    a little different, so that many processes do not come back at the same moment.
    """
    for attempt in range(1 if is_local(path) else _REMOTE_ATTEMPTS):
        if attempt:
            time.sleep(_FIRST_DELAY * 2 ** (attempt - 1) * random.uniform(0.75, 1.25))
        try:
            return action()
        except _FINAL:
            raise
        except Exception as error:
            if _denied(error):
                raise
            failed = error
    raise failed


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
            _attempt(path, lambda: epath.Path(path).write_bytes(data))
    except Exception as error:
        raise _failure("write", path, error) from error


def read_bytes(path: PathLike) -> bytes:
    """The content of a file. Raises FileNotFoundError, or RecordsError for any other failure."""
    try:
        if is_local(path):
            return Path(path).read_bytes()
        return _attempt(path, lambda: epath.Path(path).read_bytes())
    except FileNotFoundError:
        raise
    except Exception as error:
        raise _unreadable(path, error) from error


def exists(path: PathLike) -> bool:
    """Whether a file or folder of that name is there."""
    try:
        return _attempt(path, lambda: epath.Path(path).exists())
    except Exception as error:
        raise _unreadable(path, error) from error


def make_folder(path: PathLike) -> None:
    """Makes a folder and those above it; one that is already there is left as it is."""
    try:
        _attempt(path, lambda: epath.Path(path).mkdir(parents=True, exist_ok=True))
    except Exception as error:
        raise _failure("make the folder", path, error) from error


def names_in(folder: PathLike) -> list[str]:
    """Sorted names of what lies in `folder`; none where there is no such folder."""

    def names() -> list[str]:
        path = epath.Path(folder)
        return sorted(child.name for child in path.iterdir()) if path.exists() else []

    try:
        return _attempt(folder, names)
    except Exception as error:
        raise RecordsError(f"cannot list {os.fspath(folder)}: {_reason(error)}") from error


def remove(path: PathLike) -> None:
    """Removes a file that may already be gone."""
    try:
        _attempt(path, lambda: epath.Path(path).unlink(missing_ok=True))
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
