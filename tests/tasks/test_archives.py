"""Fetching and checking published files, against a server on this machine."""

from __future__ import annotations

import hashlib
import http.server
import io
import re
import tarfile
import threading
import zipfile

import pytest
import task_files

from mlm_consistency.errors import DataError, UnknownNameError
from mlm_consistency.tasks import TASKS
from mlm_consistency.tasks.archives import (
    Download,
    Published,
    RowCounts,
    check_files,
    count_rows,
    fetch,
    published,
    published_tasks,
)

CONTENT = {"data/test/a.csv": b"question,1,2,3,4,A\n" * 5000, "data/dev/b.csv": b"other\n"}
PLACES = {"data/test/a.csv": "test/a.csv", "data/dev/b.csv": "dev/b.csv"}


class Server(http.server.ThreadingHTTPServer):
    """Serves `files`; knows ranges; breaks the connection off after `cut` bytes where asked."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.files: dict[str, bytes] = {}
        self.cut: int | None = None
        self.ranges = True
        self.asked: list[tuple[str, str | None]] = []

    def url(self, name):
        return f"http://127.0.0.1:{self.server_port}/{name}"


class Handler(http.server.BaseHTTPRequestHandler):
    server: Server

    def do_GET(self):
        asked = self.headers.get("Range")
        self.server.asked.append((self.path, asked))
        body = self.server.files.get(self.path.lstrip("/"))
        if body is None:
            self.send_error(404)
            return
        start = int(re.findall(r"\d+", asked)[0]) if asked and self.server.ranges else 0
        if start and start >= len(body):
            self.send_error(416)
            return
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(body) - start))
        self.end_headers()
        stop = None if self.server.cut is None else start + self.server.cut
        self.wfile.write(body[start:stop])

    def log_message(self, *_):
        pass


@pytest.fixture
def server():
    with Server() as running:
        thread = threading.Thread(target=running.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield running
        running.shutdown()
        thread.join()


def digest(content):
    return hashlib.sha256(content).hexdigest()


def tar(entries, kind="w"):
    """A tar of name -> bytes; a TarInfo as value is put in as it is."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode=kind) as archive:
        for name, content in entries.items():
            if isinstance(content, tarfile.TarInfo):
                archive.addfile(content)
                continue
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return stream.getvalue()


def zipped(entries):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, content in entries.items():
            archive.writestr(name, content)
    return stream.getvalue()


@pytest.fixture
def source(server):
    """A benchmark in one archive, and how to put another archive in its place."""

    def make(body, sha256=None, hashes=True):
        server.files["x.tar"] = body
        known = digest(body) if sha256 is None else sha256
        wanted = Download(server.url("x.tar"), known, PLACES)
        files = {place: digest(CONTENT[name]) for name, place in PLACES.items()} if hashes else {}
        return Published("x", "https://home", "MIT", (wanted,), files)

    return make


def states(source, folder):
    return {entry.path: entry.state for entry in check_files(source, folder)}


def names(folder):
    return sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file())


@pytest.mark.parametrize("pack", [tar, lambda c: tar(c, "w:gz"), zipped])
def test_an_archive_is_fetched_checked_and_unpacked(source, server, tmp_path, pack):
    folder = tmp_path / "data"
    extra = {"data/README": b"not wanted", **CONTENT}
    known = source(pack(extra))
    assert states(known, folder) == dict.fromkeys(PLACES.values(), "missing")
    told = []
    found = fetch(known, folder, lambda *told_now: told.append(told_now))
    assert {entry.state for entry in found} == {"right"}
    assert names(folder) == ["dev/b.csv", "test/a.csv"]
    assert (folder / "test" / "a.csv").read_bytes() == CONTENT["data/test/a.csv"]
    assert told[-1][1] == told[-1][2] == len(server.files["x.tar"])


def test_what_is_right_is_not_fetched_again_and_what_differs_is(source, server, tmp_path):
    known = source(tar(CONTENT))
    fetch(known, tmp_path)
    fetch(known, tmp_path)
    assert len(server.asked) == 1
    (tmp_path / "dev" / "b.csv").write_text("edited")
    assert states(known, tmp_path)["dev/b.csv"] == "differs"
    assert {entry.state for entry in fetch(known, tmp_path)} == {"right"}


@pytest.mark.parametrize("ranges", [True, False])
def test_a_transfer_that_broke_off_goes_on(source, server, tmp_path, ranges):
    known = source(tar(CONTENT))
    server.cut, server.ranges = 1000, ranges
    with pytest.raises(DataError, match=r"after 1000.*Run again to go on"):
        fetch(known, tmp_path)
    assert names(tmp_path) == [".x.tar.part"]
    server.cut = None
    assert {entry.state for entry in fetch(known, tmp_path)} == {"right"}
    assert server.asked[-1] == ("/x.tar", "bytes=1000-")


def test_a_part_that_is_whole_already_is_used(source, server, tmp_path):
    known = source(tar(CONTENT))
    (tmp_path / ".x.tar.part").write_bytes(server.files["x.tar"])
    assert {entry.state for entry in fetch(known, tmp_path)} == {"right"}


def test_a_wrong_hash_is_refused_and_nothing_stays(source, tmp_path):
    known = source(tar(CONTENT), sha256="0" * 64)
    with pytest.raises(DataError, match=r"sha256 is .*, expected 000"):
        fetch(known, tmp_path)
    assert names(tmp_path) == []


def test_without_a_hash_of_the_archive_the_files_are_checked(source, tmp_path):
    assert {e.state for e in fetch(source(tar(CONTENT), sha256=""), tmp_path)} == {"right"}
    other = source(tar(CONTENT | {"data/dev/b.csv": b"tampered"}), sha256="")
    (tmp_path / "dev" / "b.csv").unlink()
    with pytest.raises(DataError, match=r"dev/b.csv has sha256 .* nothing was written"):
        fetch(other, tmp_path)
    assert names(tmp_path) == ["test/a.csv"]


def link(name, target, kind=tarfile.SYMTYPE):
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return {name: info}


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (tar(CONTENT | {"../outside.csv": b"x"}), "a place outside of the folder"),
        (tar(CONTENT | {"/etc/outside": b"x"}), "a place outside of the folder"),
        (tar(CONTENT | {"data/../../outside": b"x"}), "a place outside of the folder"),
        (zipped(CONTENT | {"..\\outside.csv": b"x"}), "a place outside of the folder"),
        (zipped(CONTENT | {"a/../../outside.csv": b"x"}), "a place outside of the folder"),
        (tar(CONTENT | link("data/dev/b.csv", "/etc/passwd")), "no plain file"),
        (tar(CONTENT | link("data/dev/b.csv", "../../../x", tarfile.LNKTYPE)), "no plain file|dam"),
        (tar({"data/test/a.csv": b"x"}), "lacks 'data/dev/b.csv'"),
        (tar(CONTENT)[:3000], "damaged|lacks"),
        (tar(CONTENT, "w:gz")[:-200], "damaged"),
        (zipped(CONTENT)[:-30], "damaged"),
        (b"not an archive", "damaged"),
    ],
)
def test_a_malicious_or_damaged_archive_writes_nothing(source, tmp_path, body, message):
    folder = tmp_path / "inner" / "data"
    with pytest.raises(DataError, match=message):
        fetch(source(body, hashes=False), folder)
    assert names(tmp_path) == []


def test_a_huge_file_is_refused(source, tmp_path, monkeypatch):
    monkeypatch.setattr("mlm_consistency.tasks.unpack.LARGEST_FILE", 1000)
    with pytest.raises(DataError, match="more than 1000"):
        fetch(source(tar(CONTENT)), tmp_path)
    assert names(tmp_path) == []


def test_a_single_file(server, tmp_path):
    server.files["one.json"] = b"{}"
    wanted = Download(server.url("one.json"), digest(b"{}"), {"": "sub/one.json"})
    known = Published("x", "", "", (wanted,), {"sub/one.json": digest(b"{}")})
    assert [entry.state for entry in fetch(known, tmp_path)] == ["right"]
    assert names(tmp_path) == ["sub/one.json"]


def test_addresses_that_fail_are_named(server, tmp_path):
    missing = Download(server.url("nothing"), "", {"": "x"})
    with pytest.raises(DataError, match="nothing: the server answered 404"):
        fetch(Published("x", "", "", (missing,), {}), tmp_path)
    plain = Download("http://example.org/x", "", {"": "x"})
    with pytest.raises(DataError, match="only https"):
        fetch(Published("x", "", "", (plain,), {}), tmp_path)
    server.shutdown()
    server.server_close()
    with pytest.raises(DataError, match="the connection failed"):
        fetch(Published("x", "", "", (missing,), {}), tmp_path)


def test_the_table_of_published_files():
    assert set(published_tasks()) < set(TASKS)
    for task in published_tasks():
        known = published(task)
        assert known.home.startswith("https://")
        assert known.licence
        assert len(set(known.paths)) == len(known.paths)
        assert set(known.sha256) <= set(known.paths)
        for wanted in known.downloads:
            assert wanted.url.startswith("https://")
            # Either the whole or every file in it has a hash.
            assert wanted.sha256 or set(wanted.files.values()) <= set(known.sha256)
            assert all(re.fullmatch("[0-9a-f]{64}", h) for h in known.sha256.values())
    with pytest.raises(UnknownNameError, match="Did you mean 'mmlu'"):
        published("mlmu")


def test_rows_are_counted_and_what_cannot_be_read_says_why(tmp_path):
    task_files.lambada(tmp_path / "lambada")
    counts = count_rows("lambada", tmp_path / "lambada")
    assert counts["test, plain_text"] == RowCounts(2, {})
    assert str(counts["test, openai"]) == "1 examples"
    assert "missing" in counts["development, plain_text"]
    task_files.bbh(tmp_path / "bbh")
    counts = count_rows("bbh", tmp_path / "bbh")
    assert counts["test"].examples == 40
    assert counts["test"].dropped["boolean_expressions: the target is none of the options"] == 3
    assert "; dropped 3: boolean_expressions: the target is none" in str(counts["test"])


@pytest.mark.real_data
@pytest.mark.parametrize("task", ["mmlu", "bbh", "lambada", "truthfulqa"])
def test_the_files_at_hand_are_the_published_ones(task, data_dir):
    assert set(states(published(task), data_dir / task).values()) == {"right"}
