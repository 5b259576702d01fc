"""One file over https: resumed where it broke off, checked against its sha256."""

from __future__ import annotations

import hashlib
import http.client
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mlm_consistency.errors import DataError

CHUNK = 1 << 18
TIMEOUT_SECONDS = 60
LOOPBACK = ("127.0.0.1", "localhost", "::1")


def download(
    url: str,
    part: Path,
    sha256: str = "",
    progress: Callable[[str, int, int | None], None] | None = None,
) -> None:
    """Gets `url` into the file `part`, going on behind what is there already.

    Raises:
      DataError: if the address is not https, cannot be reached, ends early (`part` is kept, so
        that the next call goes on), or the whole has another hash (`part` is removed).
    """
    address = urllib.parse.urlsplit(url)
    if address.scheme != "https" and address.hostname not in LOOPBACK:
        raise DataError(f"{url}: only https addresses are fetched.")
    have = part.stat().st_size if part.exists() else 0
    request = urllib.request.Request(url, headers={"Range": f"bytes={have}-"} if have else {})
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS) as response:
            # A server that knows no ranges sends the whole again.
            have = have if response.status == http.HTTPStatus.PARTIAL_CONTENT else 0
            _receive(response, url, part, have, progress)
    except urllib.error.HTTPError as error:
        # Nothing is behind what is there: it was whole already, or is of another file.
        if not (have and error.code == http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE):
            raise DataError(f"{url}: the server answered {error.code} {error.reason}.") from error
    except (OSError, http.client.HTTPException) as error:
        reached = part.stat().st_size if part.exists() else 0
        raise DataError(
            f"{url}: the connection failed after {reached} bytes: {error}. Run again to go on."
        ) from error
    if sha256:
        _check(part, url, sha256)


def _receive(
    response: Any,
    url: str,
    part: Path,
    have: int,
    progress: Callable[[str, int, int | None], None] | None,
) -> None:
    length = response.headers.get("Content-Length")
    whole = have + int(length) if length is not None else None
    with part.open("ab" if have else "wb") as file:
        while chunk := response.read(CHUNK):
            file.write(chunk)
            have += len(chunk)
            if progress:
                progress(url, have, whole)
    if whole is not None and have != whole:
        raise DataError(
            f"{url}: the connection ended after {have} of {whole} bytes. Run again to go on."
        )


def _check(part: Path, url: str, sha256: str) -> None:
    with part.open("rb") as stream:
        found = hashlib.file_digest(stream, "sha256").hexdigest()
    if found != sha256:
        part.unlink()
        raise DataError(
            f"{url}: sha256 is {found}, expected {sha256}. The published file has changed or was "
            "damaged on the way; what came was removed. Run again to fetch it anew."
        )
