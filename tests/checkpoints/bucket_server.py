"""A bucket on this machine: the part of the Cloud Storage API that TensorStore's driver speaks."""

from __future__ import annotations

import contextlib
import json
import re
import threading
import urllib.parse
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


class Bucket(BaseHTTPRequestHandler):
    """Answers GET of objects (whole or a range) and of listings from a folder."""

    protocol_version = "HTTP/1.1"
    root: Path
    requests: list[tuple[str, str]]

    def log_message(self, *_: object) -> None:
        """Quiet."""

    def do_GET(self) -> None:
        address = urllib.parse.urlsplit(self.path)
        match = re.fullmatch(r"/storage/v1/b/([^/]+)/o(?:/(.+))?", address.path)
        if not match:
            return self.answer(404, b"")
        query = dict(urllib.parse.parse_qsl(address.query))
        if match[2] is None:
            return self.listing(query)
        name = urllib.parse.unquote(match[2])
        byte_range = self.headers.get("Range", "")
        self.requests.append((name, byte_range))
        file = self.root / name
        if not file.is_file():
            return self.answer(404, b"")
        data = file.read_bytes()
        if not byte_range:
            return self.answer(200, data)
        first, _, last = byte_range.removeprefix("bytes=").partition("-")
        start, stop = int(first), min(len(data), int(last) + 1 if last else len(data))
        if start >= len(data) and data:
            return self.answer(416, b"")
        extent = {"Content-Range": f"bytes {start}-{stop - 1}/{len(data)}"}
        return self.answer(206, data[start:stop], extent)

    def listing(self, query: dict[str, str]) -> None:
        names = sorted(str(p.relative_to(self.root)) for p in self.root.rglob("*") if p.is_file())
        prefix, start = query.get("prefix", ""), query.get("startOffset", "")
        end = query.get("endOffset", "")
        kept = [n for n in names if n.startswith(prefix) and n >= start and (not end or n < end)]
        items = [{"name": name, "generation": "1", "size": "1"} for name in kept]
        self.answer(200, json.dumps({"items": items}).encode())

    def answer(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for key, value in {"x-goog-generation": "1", **(headers or {})}.items():
            self.send_header(key, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@contextlib.contextmanager
def serve(root: Path) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """The server's URL and the (object, range) requests it got, while the block runs."""
    requests: list[tuple[str, str]] = []
    handler = type("ThisBucket", (Bucket,), {"root": root, "requests": requests})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", requests
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
