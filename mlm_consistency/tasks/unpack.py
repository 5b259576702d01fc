"""Takes named files out of a tar or zip archive, and nothing else."""

from __future__ import annotations

import shutil
import stat
import tarfile
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO, Any

from mlm_consistency.errors import DataError

# The largest file of any benchmark here has 50 MB; an archive that promises more is not it.
LARGEST_FILE = 1 << 29


def unpack(archive: Path, wanted: Mapping[str, str], folder: Path) -> list[tuple[str, Path]]:
    """Writes the wanted files beside their places.

    Args:
      archive: a tar (compressed or not) or zip file.
      wanted: path in the archive -> path in `folder`.
      folder: where to.

    Returns:
      (path in `folder`, temporary file in the same place) of each.

    Raises:
      DataError: if the archive is damaged, lacks a file, or is unsafe: it names a place outside of
        the folder, or holds a link, a device or a huge file under a wanted name. Then nothing is
        left behind.
    """
    written: list[tuple[str, Path]] = []
    try:
        with _members(archive) as members:
            for name in members:
                _check_inside(name, archive)
            for name, path in wanted.items():
                _check_inside(path, archive)
                if name not in members:
                    raise DataError(f"{archive.name}: the archive lacks {name!r}.")
                target = folder / path
                target.parent.mkdir(parents=True, exist_ok=True)
                beside = target.with_name(f".{target.name}.unpacked")
                written.append((path, beside))
                with members[name]() as source, beside.open("wb") as file:
                    shutil.copyfileobj(source, file)
    except (tarfile.TarError, zipfile.BadZipFile, EOFError, OSError) as error:
        _remove(written)
        raise DataError(f"{archive.name}: the archive is damaged: {error}.") from error
    except DataError:
        _remove(written)
        raise
    return written


@contextmanager
def _members(archive: Path) -> Iterator[dict[str, Any]]:
    """name -> function that opens the file."""
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as zipped:
            entries = [entry for entry in zipped.infolist() if not entry.is_dir()]
            yield {entry.filename: _zip_opener(zipped, entry, archive) for entry in entries}
        return
    with tarfile.open(archive) as tar:
        # A name that comes twice means its last file, in a dict as for tar itself.
        members = [member for member in tar if not member.isdir()]
        yield {m.name.removeprefix("./"): _tar_opener(tar, m, archive) for m in members}


def _zip_opener(zipped: zipfile.ZipFile, entry: zipfile.ZipInfo, archive: Path) -> Any:
    def opened() -> IO[bytes]:
        if stat.S_ISLNK(entry.external_attr >> 16):
            raise DataError(f"{archive.name}: {entry.filename!r} is a link, not a file.")
        _check_size(entry.filename, entry.file_size, archive)
        return zipped.open(entry)

    return opened


def _tar_opener(tar: tarfile.TarFile, member: tarfile.TarInfo, archive: Path) -> Any:
    def opened() -> IO[bytes]:
        source = tar.extractfile(member) if member.isfile() else None
        if source is None:
            raise DataError(f"{archive.name}: {member.name!r} is no plain file (a link, say).")
        _check_size(member.name, member.size, archive)
        return source

    return opened


def _check_inside(name: str, archive: Path) -> None:
    path = PurePosixPath(name.replace("\\", "/"))
    if path.is_absolute() or ".." in path.parts or ":" in path.parts[0:1]:
        raise DataError(
            f"{archive.name}: the archive names {name!r}, a place outside of the folder. It is "
            "not what was published; nothing was written."
        )


def _check_size(name: str, size: int, archive: Path) -> None:
    if size > LARGEST_FILE:
        raise DataError(f"{archive.name}: {name!r} has {size} bytes, more than {LARGEST_FILE}.")


def _remove(written: list[tuple[str, Path]]) -> None:
    for _, file in written:
        file.unlink(missing_ok=True)
