"""What is in the files, and what is refused: holes, doubles, damage, other schemas, full disks."""

from __future__ import annotations

import dataclasses
import errno
import io
import os
import socket
from pathlib import Path
from typing import ClassVar

import fake_scorer
import numpy as np
import pyarrow.parquet as pq
import pytest
from fake_scorer import CONDITIONALS, TASKS, Vocabulary, manifest, shard_of, write_run

from mlm_consistency.errors import RecordsError, ScoringError, UnknownNameError
from mlm_consistency.records import (
    Manifest,
    RunWriter,
    TaskEntry,
    layout,
    open_run,
    parquet,
    schema,
    storage,
)
from mlm_consistency.records.manifest import differences


@pytest.fixture
def run(tmp_path) -> Path:
    write_run(tmp_path)
    return tmp_path


def test_rows_come_back_in_order_with_every_value(run):
    opened = open_run(run)
    assert opened.tasks == tuple(TASKS)
    table = opened.scores("stories")
    assert table.schema.equals(schema.SCORES_SCHEMA, check_metadata=False)
    expected = []
    for shard in range(3):
        part = shard_of("stories", shard)
        for example, scores in zip(part.examples, part.token_log_probs, strict=True):
            for k, name in enumerate(CONDITIONALS):
                for c, ids in enumerate(example.candidates):
                    row = {
                        "task": "stories",
                        "example_index": example.index,
                        "example_id": example.id,
                        "conditional": name,
                        "candidate": c,
                        "is_label": c in example.labels,
                        "applicable": scores[k] is not None,
                        "reason": getattr(example.masked[k], "reason", None),
                        "tokens": ids.tolist(),
                        "token_log_probs": None if scores[k] is None else scores[k][c].tolist(),
                    }
                    expected.append(row)
    assert table.to_pylist() == expected
    assert not all(row["applicable"] for row in expected)
    examples = opened.examples("stories").to_pylist()
    first = fake_scorer.example("stories", 0)
    assert examples[0] == {
        "task": "stories",
        "example_index": 0,
        "example_id": "stories/0",
        "subject": "astronomy",
        "prompt": "question 0 <script>",
        "candidate_texts": list(first.candidate_texts),
        "labels": list(first.labels),
        "modes": [""],
        "prompt_tokens": [first.prompt_ids[""].tolist()],
        "prompt_pieces": [[f"▁{i}" for i in first.prompt_ids[""]]],
    }


def test_a_colon_in_a_task_name_is_no_part_of_a_file_name(run):
    assert (run / "records/quiz%3Ahard-00000-of-00001.scores.parquet").exists()
    assert layout.parse_scores_name("quiz%3Ahard-00000-of-00001.scores.parquet") == (
        "quiz:hard",
        0,
        1,
    )
    assert layout.parse_scores_name("quiz-00000-of-00002.examples.parquet") is None


def test_bytes_do_not_depend_on_when_or_how_often(run):
    table = schema.scores_table(shard_of("stories", 0), CONDITIONALS)
    digest = manifest().fingerprint_digest()
    assert parquet.to_bytes(table, digest) == parquet.to_bytes(table, digest)
    written = (run / "records/stories-00000-of-00003.scores.parquet").read_bytes()
    assert parquet.to_bytes(table, digest) == written


def test_unknown_task_is_named(run):
    with pytest.raises(UnknownNameError, match="Did you mean 'stories'"):
        open_run(run).scores("storis")


def test_a_folder_without_a_run(tmp_path):
    with pytest.raises(RecordsError, match=r"holds no run: there is no manifest\.json"):
        open_run(tmp_path)
    (tmp_path / "manifest.json").write_text('{"hello": 1}')
    with pytest.raises(RecordsError, match="is not a manifest"):
        open_run(tmp_path)
    (tmp_path / "manifest.json").write_text(manifest(schema=99).to_json())
    with pytest.raises(RecordsError, match="has schema 99; this version reads schema 1"):
        open_run(tmp_path)


def test_a_file_in_the_way_of_a_run_folder_is_named(tmp_path):
    (tmp_path / "taken").write_text("")
    with pytest.raises(RecordsError, match="a part of the path is a file"):
        open_run(tmp_path / "taken")


def test_a_damaged_file_is_named(run):
    path = run / "records/stories-00001-of-00003.scores.parquet"
    good = path.read_bytes()
    path.write_bytes(good[: len(good) // 2])
    with pytest.raises(RecordsError, match=r"stories-00001-of-00003\.scores\.parquet is damaged"):
        open_run(run).scores("stories")
    with pytest.raises(RecordsError, match=r"stories-00001-of-00003\.scores\.parquet is damaged"):
        RunWriter(run, manifest())


def test_a_flipped_bit_in_the_data_is_noticed(run):
    path = run / "records/stories-00001-of-00003.scores.parquet"
    good = path.read_bytes()
    column = pq.ParquetFile(path).metadata.row_group(0).column(9)
    inside = column.dictionary_page_offset + column.total_compressed_size - 5
    path.write_bytes(good[:inside] + bytes([good[inside] ^ 16]) + good[inside + 1 :])
    with pytest.raises(RecordsError, match=r"stories-00001-of-00003\.scores\.parquet is damaged"):
        open_run(run).scores("stories")


def test_files_changed_after_the_run_are_refused_when_read(run):
    """Such files are sound Parquet of this run, so that only their rows tell."""
    first, second = (f"records/stories-0000{n}-of-00003.{{}}.parquet" for n in (0, 1))
    kept = (run / first.format("scores")).read_bytes()
    (run / first.format("scores")).write_bytes((run / second.format("scores")).read_bytes())
    with pytest.raises(RecordsError, match=r"stories-00000-of-00003\.scores\.parquet"):
        open_run(run).scores("stories")
    table = pq.read_table(io.BytesIO(kept))
    pq.write_table(table.slice(0, len(table) - 3), run / first.format("scores"))
    with pytest.raises(RecordsError, match=rf"{len(table) - 3} rows of scores, expected"):
        open_run(run).scores("stories")
    for kind in ("scores", "examples"):
        (run / first.format(kind)).write_bytes((run / second.format(kind)).read_bytes())
    with pytest.raises(RecordsError, match="is in shard 0 and again in shard 1"):
        open_run(run).examples("stories")


def test_another_schema_is_refused(run):
    path = run / "records/stories-00001-of-00003.scores.parquet"
    table = pq.read_table(path)
    pq.write_table(table.replace_schema_metadata({schema.SCHEMA_KEY: b"7"}), path)
    with pytest.raises(RecordsError, match="has schema 7; this version reads schema 1"):
        open_run(run).scores("stories")
    path.write_bytes(parquet.to_bytes(table.drop(["reason"]), manifest().fingerprint_digest()))
    with pytest.raises(RecordsError, match="lacks the column 'reason'"):
        open_run(run).scores("stories")


def test_a_shard_of_another_run_is_refused(run, tmp_path_factory):
    other = tmp_path_factory.mktemp("other")
    write_run(other, checkpoint="beef")
    name = "records/stories-00001-of-00003.scores.parquet"
    (run / name).write_bytes((other / name).read_bytes())
    with pytest.raises(RecordsError, match="another configuration"):
        open_run(run).scores("stories")
    (run / "records/stories-00001-of-00009.scores.parquet").write_bytes(b"")
    with pytest.raises(RecordsError, match="is a shard of 9"):
        open_run(run)


def writer_with(folder, replace: dict) -> RunWriter:
    """A writer that has written every shard, some of them changed."""
    writer = RunWriter(folder, manifest())
    for task, (_, shards) in TASKS.items():
        for shard in range(shards):
            part = replace.get((task, shard), shard_of(task, shard))
            if part is not None:
                writer.write(part, Vocabulary())
    return writer


def test_complete_refuses_a_missing_shard(tmp_path):
    writer = writer_with(tmp_path, {("stories", 1): None})
    with pytest.raises(RecordsError, match=r"'stories': 1 of 3 shards are missing \(1\)"):
        writer.complete()
    assert not open_run(tmp_path, allow_incomplete=True).complete


def test_complete_refuses_a_missing_and_a_doubled_example(tmp_path):
    part = shard_of("stories", 1)
    short = dataclasses.replace(
        part, examples=part.examples[1:], token_log_probs=part.token_log_probs[1:]
    )
    with pytest.raises(RecordsError, match="1 of 11 examples are missing, the first is number 1"):
        writer_with(tmp_path / "short", {("stories", 1): short}).complete()
    first = shard_of("stories", 0)
    double = dataclasses.replace(
        part,
        examples=[*part.examples, dataclasses.replace(first.examples[0], id="new")],
        token_log_probs=[*part.token_log_probs, first.token_log_probs[0]],
    )
    with pytest.raises(RecordsError, match="1 of 11 examples are there twice, the first is numb"):
        writer_with(tmp_path / "double", {("stories", 1): double}).complete()
    same_id = dataclasses.replace(
        part, examples=[dataclasses.replace(part.examples[0], id="stories/0"), *part.examples[1:]]
    )
    with pytest.raises(RecordsError, match=r"example id 'stories/0' is in .*00000.* again in"):
        writer_with(tmp_path / "id", {("stories", 1): same_id}).complete()
    with pytest.raises(RecordsError, match="12 examples were scored, the records hold 11"):
        writer_with(tmp_path / "count", {}).complete({"stories": 12})


def test_complete_refuses_rows_in_another_order(tmp_path):
    writer = writer_with(tmp_path, {})
    path = tmp_path / "records/stories-00000-of-00003.scores.parquet"
    table = pq.read_table(path)
    digest = manifest().fingerprint_digest()
    path.write_bytes(parquet.to_bytes(table.slice(1), digest))
    with pytest.raises(RecordsError, match="rows of scores, expected"):
        writer.complete()
    path.write_bytes(parquet.to_bytes(table.take([0, 0, *range(2, table.num_rows)]), digest))
    with pytest.raises(RecordsError, match="row 1 has candidate 0, expected 1"):
        writer.complete()


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_score_that_is_not_finite_is_refused_by_name(tmp_path, value):
    part = shard_of("stories", 0)
    part.token_log_probs[1][0][1][0] = value
    writer = RunWriter(tmp_path, manifest())
    with pytest.raises(ScoringError, match=r"'stories/3', conditional 'baseline', candidate 1 \('"):
        writer.write(part, Vocabulary())
    assert list((tmp_path / "records").iterdir()) == []


def test_scores_that_do_not_match_the_example_are_refused(tmp_path):
    writer = RunWriter(tmp_path, manifest())
    part = shard_of("stories", 0)
    part.token_log_probs[0][0] = None
    with pytest.raises(RecordsError, match="'stories/0', conditional 'baseline': no scores came"):
        writer.write(part, Vocabulary())
    part = shard_of("stories", 0)
    part.token_log_probs[0][0][0] = np.zeros(9, np.float32)
    with pytest.raises(RecordsError, match=r"one a token; came an array of shape \(9,\)"):
        writer.write(part, Vocabulary())
    with pytest.raises(RecordsError, match="shard 7 of task 'stories' is not of this run"):
        writer.write(dataclasses.replace(part, shard=7), Vocabulary())


@pytest.mark.parametrize(
    ("code", "way_out"), [(errno.ENOSPC, "free some space"), (errno.EACCES, "right to write")]
)
def test_a_full_or_forbidden_disk_is_one_clear_message(tmp_path, monkeypatch, code, way_out):
    writer = RunWriter(tmp_path, manifest())
    writer.write(shard_of("stories", 0), Vocabulary())

    def refuse(descriptor):
        raise OSError(code, os.strerror(code))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", refuse)
        with pytest.raises(RecordsError) as error:
            writer.write(shard_of("stories", 1), Vocabulary())
    message = str(error.value)
    assert "\n" not in message
    assert os.strerror(code) in message
    assert way_out in message
    assert "origin-00000-00000.json" in message or "stories-00001" in message
    assert not list(tmp_path.rglob("*.tmp-*"))
    assert len(write_run(tmp_path)) == 3, "the run resumes afterwards"


def test_stale_files_of_dead_processes_are_removed_and_those_of_live_ones_are_not(tmp_path):
    records = tmp_path / "records"
    records.mkdir()
    host = socket.gethostname()
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    dead = records / f"a.parquet.tmp-{child}@{host}"
    alive = records / f"a.parquet.tmp-{os.getppid()}@{host}"
    elsewhere = records / f"a.parquet.tmp-{child}@another-host"
    long_ago = records / f"b.parquet.tmp-{child}@another-host"
    for path in (dead, alive, elsewhere, long_ago):
        path.write_bytes(b"half")
    os.utime(long_ago, (0, 0))
    assert storage.remove_stale(records) == sorted([dead.name, long_ago.name])
    assert alive.exists()
    assert elsewhere.exists()
    assert storage.remove_stale(records, everything=True) == sorted([alive.name, elsewhere.name])


def test_manifest_goes_through_json_and_back():
    before = manifest(mode="NLG", settings={"beams": 20}, versions={"numpy": "2"})
    assert Manifest.from_json(before.to_json()) == before
    assert Manifest.from_json(before.to_json()).fingerprint_digest() == before.fingerprint_digest()
    assert differences(before, before.replace(device="TPU", created="now")) == []
    cut = before.replace(tasks={"stories": TaskEntry(12, 3, truncated=2)})
    assert Manifest.from_json(cut.to_json()) == cut
    assert "truncated" not in before.to_json()
    assert before.replace(device="TPU").fingerprint_digest() == before.fingerprint_digest()


def test_differences_name_each_change():
    before = manifest()
    tasks = {"stories": TaskEntry(12, 3, {"too long": 1}), "more": TaskEntry(1, 1)}
    assert differences(before, before.replace(tasks=tasks, dtype="bfloat16")) == [
        'dtype: "float32" in the run folder, "bfloat16" now',
        "tasks.stories.examples: 11 in the run folder, 12 now",
        'tasks.quiz:hard: {"examples": 4, "shards": 1, "dropped": {"too long": 1}, "digest": ""} '
        "in the run folder, absent now",
        'tasks.more: not in the run folder, {"examples": 1, "shards": 1, "dropped": {}, '
        '"digest": ""} now',
    ]
    many = tuple(f"span_3_5_{k}" for k in range(40))
    long = before.replace(conditionals=many)
    assert differences(long, before.replace(conditionals=(*many[:-1], "offset_9"))) == [
        'conditionals: ["span_3_5_39"] only in the run folder, ["offset_9"] only now'
    ]
    assert differences(long, before.replace(conditionals=many[::-1])) == [
        "conditionals: the same 40 entries in another order"
    ]


def test_scores_without_their_examples_are_no_whole_shard(run):
    before = {p.name: p.read_bytes() for p in (run / "records").iterdir()}
    (run / "records/stories-00001-of-00003.examples.parquet").unlink()
    with pytest.raises(RecordsError, match="stories: 2 of 3 shards"):
        open_run(run)
    assert write_run(run) == [("stories", 1)]
    assert {p.name: p.read_bytes() for p in (run / "records").iterdir()} == before


class Bucket:
    """Objects in memory in place of epath.Path; fails as often as it is told."""

    objects: ClassVar[dict[str, bytes]] = {}
    failures = 0

    def __init__(self, path):
        self.path = os.fspath(path)

    def _perhaps_fail(self):
        if Bucket.failures:
            Bucket.failures -= 1
            raise ConnectionError("503 try again")

    def write_bytes(self, data):
        self._perhaps_fail()
        Bucket.objects[self.path] = data

    def read_bytes(self):
        self._perhaps_fail()
        if self.path not in Bucket.objects:
            raise FileNotFoundError(self.path)
        return Bucket.objects[self.path]

    def exists(self):
        return any(path.startswith(self.path) for path in Bucket.objects)

    def iterdir(self):
        inside = {
            path[len(self.path) + 1 :] for path in Bucket.objects if path.startswith(self.path)
        }
        return [Bucket(f"{self.path}/{name}") for name in inside if "/" not in name]

    @property
    def name(self):
        return self.path.rsplit("/", 1)[-1]

    def mkdir(self, **kwargs):
        pass

    def unlink(self, missing_ok=False):
        Bucket.objects.pop(self.path, None)


@pytest.fixture
def bucket(monkeypatch):
    monkeypatch.setattr(storage.epath, "Path", Bucket)
    monkeypatch.setattr(storage.time, "sleep", lambda seconds: None)
    monkeypatch.setattr(Bucket, "objects", {})
    monkeypatch.setattr(Bucket, "failures", 0)
    return Bucket


def test_a_run_in_a_bucket_holds_the_bytes_of_a_local_one(run, bucket):
    folder = "gs://bucket/run"
    assert len(write_run(folder)) == 4
    assert write_run(folder) == []
    local = {p.name: p.read_bytes() for p in (run / "records").iterdir()}
    remote = {p.rsplit("/", 1)[-1]: d for p, d in bucket.objects.items() if "/records/" in p}
    assert remote == local
    assert open_run(folder).complete


def test_a_bucket_is_asked_again_and_then_said_to_fail(bucket):
    bucket.failures = 4
    storage.publish("gs://bucket/a", b"1")
    assert bucket.objects == {"gs://bucket/a": b"1"}
    bucket.failures = 5
    with pytest.raises(RecordsError, match="cannot write gs://bucket/b: 503 try again"):
        storage.publish("gs://bucket/b", b"1")
    bucket.failures = 5
    with pytest.raises(RecordsError, match="cannot read gs://bucket/a: 503 try again"):
        storage.read_bytes("gs://bucket/a")
