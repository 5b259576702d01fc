"""Where the bytes lie: folders on a disk or in a bucket, read through TensorStore alike."""

from __future__ import annotations

import dataclasses
import json
import os
import re
from collections.abc import Callable
from typing import Any, TypeVar

import tensorstore as ts

from mlm_consistency.errors import CheckpointError

Answer = TypeVar("Answer")
BUCKETS = {"gs": "gcs", "s3": "s3"}
CONTEXT = ts.Context({"file_io_concurrency": {"limit": 32}, "cache_pool": {"total_bytes_limit": 0}})


def kvstore_spec(address: str) -> dict[str, Any]:
    """TensorStore's specification of the folder at `address`, its path ending in a slash.

    `gs://bucket/path` becomes a `gcs` store, `s3://bucket/path` an `s3` one, and a local path
    (or `file://` address) a `file` store with an absolute path.

    Raises:
      CheckpointError: for another scheme, or a bucket's address without a bucket.
    """
    scheme, separator, rest = address.partition("://")
    if not separator or scheme == "file":
        path = os.path.abspath(os.path.expanduser(rest if separator else address))
        return {"driver": "file", "path": path.rstrip("/") + "/"}
    if scheme not in BUCKETS:
        raise CheckpointError(
            f"checkpoint address {address!r}: unknown scheme {scheme!r}; "
            "expected a local path, gs://bucket/path or s3://bucket/path"
        )
    bucket, _, path = rest.partition("/")
    if not re.fullmatch(r"[a-z0-9][a-z0-9._-]*", bucket):
        raise CheckpointError(f"checkpoint address {address!r} names no bucket")
    path = path.strip("/")
    return {"driver": BUCKETS[scheme], "bucket": bucket, "path": f"{path}/" if path else ""}


@dataclasses.dataclass(frozen=True)
class Folder:
    """A folder at a local path or a bucket's address.

    Attributes:
      address: as the user wrote it, without a trailing slash.
    """

    address: str

    def __post_init__(self) -> None:
        kvstore_spec(self.address)  # refuses what is no address
        object.__setattr__(self, "address", self.address.rstrip("/") or "/")

    @property
    def spec(self) -> dict[str, Any]:
        """TensorStore's specification of this folder."""
        return kvstore_spec(self.address)

    @property
    def path(self) -> str | None:
        """The local path, or None in a bucket."""
        spec = self.spec
        return spec["path"].rstrip("/") or "/" if spec["driver"] == "file" else None

    @property
    def name(self) -> str:
        """The last part of the address."""
        return self.address.rpartition("/")[2]

    def store(self) -> ts.KvStore:
        """The key-value store of this folder's files."""
        return ts.KvStore.open(self.spec, context=CONTEXT).result()

    def at(self, name: str) -> Folder:
        """The folder (or file) `name` inside this one."""
        return Folder(f"{self.address}/{name}")

    def parent(self) -> Folder:
        """The folder that holds this one."""
        return Folder(self.address.rpartition("/")[0] or "/")

    def holds(self, name: str) -> bool:
        """Whether there is a file `name` here (a path with slashes is fine)."""
        if self.path is not None:
            return os.path.isfile(os.path.join(self.path, name))
        only = ts.KvStore.KeyRange(name, name + "\0")
        return bool(self._ask(lambda: self.store().list(only).result(), name))

    def size(self, name: str) -> int | None:
        """Bytes of the file `name`, or None where the store does not say."""
        if self.path is not None:
            return os.path.getsize(os.path.join(self.path, name))
        return None

    def names(self) -> list[str]:
        """All files below this folder, as paths relative to it, sorted."""
        keys = self._ask(lambda: self.store().list().result(), "")
        return sorted(key.decode() for key in keys)

    def read(self, name: str, start: int = 0, stop: int | None = None) -> bytes:
        """The bytes `start` to `stop` of the file `name`; all of them by default.

        Raises:
          CheckpointError: if the file is not there or cannot be read.
        """
        if self.path is not None:
            data = self._ask(lambda: self._read_local(name, start, stop), name)
        else:
            data = self._ask(lambda: self._read_object(name, start, stop), name)
        if data is None:
            raise CheckpointError(f"{self.address}/{name} does not exist")
        return data

    def _read_local(self, name: str, start: int, stop: int | None) -> bytes | None:
        try:
            with open(os.path.join(self.path or "", name), "rb") as file:
                file.seek(start)
                return file.read() if stop is None else file.read(stop - start)
        except FileNotFoundError:
            return None

    def _read_object(self, name: str, start: int, stop: int | None) -> bytes | None:
        part: dict[str, Any] = (
            {} if start == 0 and stop is None else {"byte_range": slice(start, stop)}
        )
        try:
            result = self.store().read(name, **part).result()
        except TypeError as error:
            raise CheckpointError(
                f"{self.address}/{name}: this version of TensorStore cannot read a part of an "
                "object; install tensorstore>=0.1.86, or copy the folder to a disk"
            ) from error
        return result.value if result.state == "value" else None

    def read_json(self, name: str) -> dict[str, Any]:
        """The object in the JSON file `name`.

        Raises:
          CheckpointError: if it is not there, or holds no JSON object.
        """
        try:
            value = json.loads(self.read(name))
        except ValueError as error:
            raise CheckpointError(f"{self.address}/{name} is no JSON: {error}") from error
        if not isinstance(value, dict):
            raise CheckpointError(f"{self.address}/{name}: expected a JSON object")
        return value

    def _ask(self, question: Callable[[], Answer], name: str) -> Answer:
        """The answer of a store, its complaints turned into ours."""
        try:
            return question()
        except (ValueError, OSError, NotImplementedError) as error:
            way_out = ""
            if self.path is None:
                way_out = (
                    "; check the address and your credentials "
                    "(`gcloud auth application-default login`), or copy the folder to a disk"
                )
            place = f"{self.address}/{name}" if name else self.address
            raise CheckpointError(f"cannot read {place}: {error}{way_out}") from error
