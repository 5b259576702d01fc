"""Records of a beam search: rows, candidates, resuming, and what is refused."""

from __future__ import annotations

import dataclasses
import json
from types import SimpleNamespace

import numpy as np
import pytest

from mlm_consistency.errors import RecordsError
from mlm_consistency.records import Manifest, TaskEntry
from mlm_consistency.records.beams import (
    BEAMS_SCHEMA,
    BeamWriter,
    beams_name,
    candidates_name,
    read_beams,
)


@dataclasses.dataclass(frozen=True)
class Said:
    text: str
    candidate: str
    is_right: bool = False
    score: float = -0.5

    @property
    def reason(self):
        return "" if self.candidate else "several words"

    @property
    def tokens(self):
        return np.arange(1, 1 + len(self.text.split()), dtype=np.int32)

    @property
    def log_probs(self):
        return np.full(len(self.text.split()), -0.5, np.float32)


BEAMS = [
    [Said("signs. he", "signs."), Said("a sign", ""), Said("it. she", "it.", True)],
    [
        Said("signs. he", "signs.", True),
        Said("signs. she", "signs.", True),
        Said("signs, and", "signs,", True),
    ],
    [Said("and then", "")],
]
ANSWERS = ["it", "signs", "no"]


def example(index):
    return SimpleNamespace(index=index, id=f"test/{index}", answer=ANSWERS[index])


def manifest(**changes):
    values = {
        "model": {"name": "small"}, "checkpoint": "c", "vocabulary": "v",
        "conditionals": ("baseline",), "tasks": {"lambada/x": TaskEntry(3, 2)},
    }  # fmt: skip
    return Manifest(**{**values, **changes})


def write(folder, *shards):
    writer = BeamWriter(folder, manifest())
    for shard in shards:
        part = slice(2 * shard, 2 * shard + 2)
        writer.write("lambada/x", shard, [example(i) for i in range(3)[part]], BEAMS[part])
    return writer


def files(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.suffix != ".json"}


def test_rows_and_candidates(tmp_path):
    counts = write(tmp_path, 0, 1).complete()
    assert counts == {
        "lambada/x": {
            "examples": 3, "candidates": 4, "without_candidate": 1, "with_right_candidate": 2,
            "first_candidate_right": 1,
        }
    }  # fmt: skip
    table = read_beams(tmp_path / beams_name("lambada/x", 0, 2))
    assert table.schema.remove_metadata() == BEAMS_SCHEMA
    assert table["beam"].to_pylist() == [0, 1, 2, 0, 1, 2]
    assert table["candidate"].to_pylist() == ["signs.", None, "it.", "signs.", "signs.", "signs,"]
    assert table["reason"].to_pylist()[:2] == [None, "several words"]
    assert table["token_log_probs"].to_pylist()[0] == [-0.5, -0.5]
    lines = (tmp_path / candidates_name("lambada/x")).read_text().splitlines()
    found = [json.loads(line) for line in lines]
    assert [line["id"] for line in found] == ["test/0", "test/1", "test/2"]
    assert [line["answer"] for line in found] == ANSWERS
    assert [line["candidates"] for line in found] == [["signs.", "it."], ["signs.", "signs,"], []]
    assert [line["labels"] for line in found] == [[1], [0, 1], []]
    assert [line["beams"] for line in found] == [3, 3, 1]
    kept = Manifest.from_json((tmp_path / "manifest.json").read_text())
    assert kept.complete
    assert kept.information["counts"] == counts


def test_a_search_that_was_broken_off_goes_on_and_ends_with_the_same_bytes(tmp_path):
    write(tmp_path / "unbroken", 0, 1).complete()
    write(tmp_path / "broken", 0)
    writer = BeamWriter(tmp_path / "broken", manifest())
    assert writer.finished("lambada/x") == {0}
    with pytest.raises(RecordsError, match="1 of 2 shards"):
        writer.complete()
    assert not (tmp_path / "broken" / candidates_name("lambada/x")).exists()
    writer.write("lambada/x", 1, [example(2)], BEAMS[2:])
    writer.complete()
    assert files(tmp_path / "broken") == files(tmp_path / "unbroken")
    again = BeamWriter(tmp_path / "broken", manifest())
    assert again.finished("lambada/x") == {0, 1}
    again.complete()
    assert files(tmp_path / "broken") == files(tmp_path / "unbroken")


def test_another_configuration_is_refused_with_what_changed(tmp_path):
    write(tmp_path, 0)
    with pytest.raises(RecordsError, match="checkpoint"):
        BeamWriter(tmp_path, manifest(checkpoint="other"))


def test_a_damaged_shard_is_named(tmp_path):
    writer = write(tmp_path, 0, 1)
    path = tmp_path / beams_name("lambada/x", 1, 2)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(RecordsError, match="00001-of-00002"):
        writer.complete()


def test_scores_that_are_no_numbers_are_refused_by_example(tmp_path):
    writer = BeamWriter(tmp_path, manifest())
    bad = SimpleNamespace(
        tokens=np.ones(1, np.int32), log_probs=np.asarray([np.nan], np.float32), score=0.0,
        text="a", candidate="", reason="", is_right=False,
    )  # fmt: skip
    with pytest.raises(RecordsError, match="test/0"):
        writer.write("lambada/x", 0, [example(0)], [[bad]])
    with pytest.raises(RecordsError, match="no beams"):
        writer.write("lambada/x", 0, [example(0)], [[]])
    assert writer.finished("lambada/x") == set()
