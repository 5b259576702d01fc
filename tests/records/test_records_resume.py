"""Real processes, killed by SIGKILL at every file operation, resumed: byte-identical Parquet."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import fake_scorer
import pytest

from mlm_consistency.errors import RecordsError
from mlm_consistency.records import RunWriter, open_run

SHARDS = sum(shards for _, shards in fake_scorer.TASKS.values())
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}


@pytest.fixture
def quick_disk(tmp_path):
    """A folder in memory where there is one: some thousand files are forced to the disk here."""
    if not os.access("/dev/shm", os.W_OK):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        yield Path(folder)


def files(folder: Path) -> dict[str, bytes]:
    return {p.name: p.read_bytes() for p in sorted((folder / "records").iterdir())}


def test_killed_at_every_file_operation_ends_with_the_bytes_of_an_unbroken_run(quick_disk):
    done = subprocess.run(
        [sys.executable, fake_scorer.__file__, quick_disk],
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    *resumed, end = done.stdout.split("\n")[:-1]
    assert end == "end"
    unbroken = files(quick_disk / "unbroken")
    assert len(unbroken) == 2 * SHARDS, "two files a shard and nothing else"
    killed = sorted(quick_disk.glob("killed_*"))[:-1]  # the last one was never reached
    # Each of the shards' files, notes and manifests is forced, renamed, and its folder forced.
    assert len(killed) == len(resumed) >= 3 * (2 * SHARDS + SHARDS + 2)
    for run, line in zip(killed, resumed, strict=True):
        whole, scored = map(int, line.split()[1:])
        assert whole + scored == SHARDS, "a shard was scored twice, or one is missing"
        assert files(run) == unbroken, run.name
        assert open_run(run).complete
    assert {int(line.split()[1]) for line in resumed} == set(range(SHARDS + 1))


def test_killed_from_outside(tmp_path):
    program = (
        "import sys; from pathlib import Path; import fake_scorer;"
        "fake_scorer.write_run(Path(sys.argv[1]), pause=0.2)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, tmp_path / "run"],
        env=ENVIRONMENT,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        while process.stdout.readline() != "shard 2\n":
            assert process.poll() is None
        process.send_signal(signal.SIGKILL)
    with pytest.raises(RecordsError, match=r"not a complete run \(stories: 2 of 3 shards"):
        open_run(tmp_path / "run")
    partial = open_run(tmp_path / "run", allow_incomplete=True)
    assert not partial.complete
    assert set(partial.scores("stories")["example_index"].to_pylist()) == {0, 3, 6, 9, 1, 4, 7, 10}
    scored = fake_scorer.write_run(tmp_path / "run")
    assert scored == [("stories", 2), ("quiz:hard", 0)]
    fake_scorer.write_run(tmp_path / "unbroken")
    assert files(tmp_path / "run") == files(tmp_path / "unbroken")
    first, second = open_run(tmp_path / "run").manifest.origins
    assert first["shards"] == {"stories": [0, 1]}
    assert second["shards"] == {"stories": [2], "quiz:hard": [0]}


def test_running_again_when_all_is_done_writes_nothing(tmp_path):
    fake_scorer.write_run(tmp_path)
    before = {p: (p.stat().st_mtime_ns, p.read_bytes()) for p in tmp_path.rglob("*.*")}
    assert fake_scorer.write_run(tmp_path) == []
    assert {p: (p.stat().st_mtime_ns, p.read_bytes()) for p in tmp_path.rglob("*.*")} == before


def test_a_removed_shard_alone_is_scored_anew(tmp_path):
    fake_scorer.write_run(tmp_path)
    before = files(tmp_path)
    (tmp_path / "records/stories-00001-of-00003.scores.parquet").unlink()
    with pytest.raises(RecordsError, match="stories: 2 of 3 shards"):
        open_run(tmp_path)
    assert fake_scorer.write_run(tmp_path) == [("stories", 1)]
    assert files(tmp_path) == before
    assert [o["shards"].get("stories") for o in open_run(tmp_path).manifest.origins] == [
        [0, 2],
        [1],
    ]


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        (
            {"conditionals": ("baseline", "offset_2", "span_3_5_1")},
            'conditionals: ["baseline", "offset_1", "span_3_5_1"] in the run folder, '
            '["baseline", "offset_2", "span_3_5_1"] now',
        ),
        ({"checkpoint": "beef"}, 'checkpoint: "c0ffee" in the run folder, "beef" now'),
        (
            {"model": {"name": "fake", "d_model": 16}},
            "model.d_model: 8 in the run folder, 16 now",
        ),
        (
            {"packing": {"row_lengths": [64]}},
            "packing.row_lengths: [64, 128] in the run folder, [64] now",
        ),
    ],
)
def test_a_changed_configuration_is_refused_by_name(tmp_path, changes, named):
    fake_scorer.write_run(tmp_path)
    before = files(tmp_path)
    with pytest.raises(RecordsError) as error:
        fake_scorer.write_run(tmp_path, **changes)
    assert f"What changed:\n  {named}\n" in str(error.value)
    assert files(tmp_path) == before
    assert open_run(tmp_path).complete


def test_another_mesh_or_device_may_go_on(tmp_path):
    fake_scorer.write_run(tmp_path)
    (tmp_path / "records/stories-00001-of-00003.scores.parquet").unlink()
    fake_scorer.write_run(tmp_path, mesh={"data": 4, "model": 2}, device="TPU v5e")
    meshes = [origin["mesh"] for origin in open_run(tmp_path).manifest.origins]
    assert meshes == [{"data": 1, "model": 1}, {"data": 4, "model": 2}]


def test_resume_can_be_forbidden(tmp_path):
    fake_scorer.write_run(tmp_path)
    with pytest.raises(RecordsError, match="already holds a run"):
        RunWriter(tmp_path, fake_scorer.manifest(), resume=False)


def test_shards_without_a_manifest_are_refused(tmp_path):
    fake_scorer.write_run(tmp_path)
    (tmp_path / "manifest.json").unlink()
    with pytest.raises(RecordsError, match=r"holds 4 shards .*manifest.json is missing"):
        RunWriter(tmp_path, fake_scorer.manifest())


def test_several_processes_write_one_run(tmp_path):
    fake_scorer.write_run(tmp_path / "alone")
    writers = [
        RunWriter(tmp_path / "both", fake_scorer.manifest(), process=p, processes=2)
        for p in range(2)
    ]
    turn = 0
    for task, (_, shards) in fake_scorer.TASKS.items():
        for shard in range(shards):
            writers[turn % 2].write(fake_scorer.shard_of(task, shard), fake_scorer.Vocabulary())
            turn += 1
    assert not writers[1].complete().complete, "process 1 leaves the manifest to process 0"
    writers[0].complete()
    assert files(tmp_path / "both") == files(tmp_path / "alone")
    content = json.loads((tmp_path / "both/manifest.json").read_text())
    assert [
        (o["process"], o["processes"], o["shards"]) for o in content["information"]["origins"]
    ] == [
        (0, 2, {"stories": [0, 2]}),
        (1, 2, {"stories": [1], "quiz:hard": [0]}),
    ]
