"""The third file of a shard: columns, order, nulls, resume to the byte, verification."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace

import fake_scorer
import numpy as np
import pyarrow.parquet as pq
import pytest

from mlm_consistency.errors import RecordsError, ScoringError
from mlm_consistency.records import RunWriter, open_run
from mlm_consistency.records.divergences import DIVERGENCES_SCHEMA

NAMES = fake_scorer.CONDITIONALS
FIRST, SECOND = np.triu_indices(len(NAMES), 1)
PAIRS = len(FIRST)
SETTINGS = {"settings": {"divergence": True}}


def shard_with(task: str, shard: int, found: SimpleNamespace | None = None):
    """A shard of the fake scorer with divergences."""
    made = fake_scorer.shard_of(task, shard)
    rng = np.random.default_rng([shard, len(task)])
    fits = np.array([[not hasattr(m, "reason") for m in e.masked] for e in made.examples])
    both = fits[:, FIRST] & fits[:, SECOND]
    found = found or SimpleNamespace(
        js=np.where(both, rng.random(both.shape) * 0.6, np.nan).astype(np.float32),
        tv=np.where(both, rng.random(both.shape), np.nan).astype(np.float32),
        entropy=np.where(fits, rng.random(fits.shape) * 7, np.nan).astype(np.float32),
        top=np.where(fits, rng.integers(0, 3, fits.shape), -1).astype(np.int32),
    )
    fields = {f.name: getattr(made, f.name) for f in dataclasses.fields(made)}
    return SimpleNamespace(**fields, divergences=found)


def write_run(folder, missing=(), **changes):
    """Writes what is not there yet; returns what was written."""
    writer = RunWriter(folder, fake_scorer.manifest(**{**SETTINGS, **changes}))
    written = []
    for task, (_, shards) in fake_scorer.TASKS.items():
        for shard in range(shards):
            if shard not in writer.finished(task):
                writer.write(shard_with(task, shard), fake_scorer.Vocabulary())
                written.append((task, shard))
    writer.complete({task: n for task, (n, _) in fake_scorer.TASKS.items()})
    return written


def files(folder):
    return {p.name: p.read_bytes() for p in sorted((folder / "records").iterdir())}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    write_run(folder)
    return folder


def test_rows_are_examples_by_pairs_with_nulls_where_one_does_not_fit(run):
    table = open_run(run).divergences("stories")
    examples = open_run(run).examples("stories")
    assert table.schema.remove_metadata() == DIVERGENCES_SCHEMA
    assert table.num_rows == examples.num_rows * PAIRS
    rows = iter(table.to_pylist())
    lost = 0
    for shard in range(3):
        made = shard_with("stories", shard)
        for i, example in enumerate(made.examples):
            for pair, (a, b) in enumerate(zip(FIRST, SECOND, strict=True)):
                row, found = next(rows), made.divergences
                assert (row["task"], row["example_index"]) == ("stories", example.index)
                assert (row["first"], row["second"]) == (NAMES[a], NAMES[b])
                fits = not hasattr(example.masked[b], "reason")
                assert row["applicable"] is fits
                assert row["first_entropy"] == found.entropy[i, a]
                assert row["first_token"] == found.top[i, a]
                if fits:
                    assert row["js"] == found.js[i, pair]
                    assert row["tv"] == found.tv[i, pair]
                    assert row["top1"] is bool(found.top[i, a] == found.top[i, b])
                    assert row["second_entropy"] == found.entropy[i, b]
                else:
                    lost += 1
                    names = ("js", "tv", "top1", "second_entropy", "second_token")
                    assert [row[name] for name in names] == [None] * 5
    assert lost, "some conditional does not fit some example"
    assert next(rows, None) is None


def test_without_the_setting_there_are_none(tmp_path):
    fake_scorer.write_run(tmp_path)
    run = open_run(tmp_path)
    assert not run.has_divergences
    assert not list(tmp_path.glob("records/*divergences*"))
    with pytest.raises(RecordsError, match="score with DIVERGENCE = True"):
        run.divergences("stories")


def test_one_conditional_has_no_pairs_and_no_file(tmp_path):
    manifest = fake_scorer.manifest(**SETTINGS, conditionals=("baseline",))
    assert not RunWriter(tmp_path, manifest).finished("stories")
    assert not open_run(tmp_path, allow_incomplete=True).has_divergences


def test_a_run_with_divergences_is_another_configuration(tmp_path):
    fake_scorer.write_run(tmp_path)
    with pytest.raises(RecordsError, match="divergence"):
        RunWriter(tmp_path, fake_scorer.manifest(**SETTINGS))


@pytest.mark.parametrize("kind", ["scores", "examples", "divergences"])
def test_a_shard_that_lacks_one_file_alone_is_scored_anew(tmp_path, run, kind):
    write_run(tmp_path)
    assert files(tmp_path) == files(run)
    (tmp_path / f"records/stories-00001-of-00003.{kind}.parquet").unlink()
    with pytest.raises(RecordsError, match="stories: 2 of 3 shards"):
        open_run(tmp_path)
    assert write_run(tmp_path) == [("stories", 1)]
    assert files(tmp_path) == files(run)


def test_divergences_come_before_the_scores(tmp_path, monkeypatch):
    from mlm_consistency.records import storage

    published = []
    publish = storage.publish

    def watched(path, data):
        published.append(str(path).rsplit("/", 1)[-1].rsplit(".", 2)[-2])
        publish(path, data)

    writer = RunWriter(tmp_path, fake_scorer.manifest(**SETTINGS))
    monkeypatch.setattr(storage, "publish", watched)
    writer.write(shard_with("stories", 0), fake_scorer.Vocabulary())
    assert [kind for kind in published if not kind.startswith("origin")][-3:] == [
        "examples", "divergences", "scores",
    ]  # fmt: skip


def test_missing_and_misshapen_divergences_are_refused(tmp_path):
    writer = RunWriter(tmp_path, fake_scorer.manifest(**SETTINGS))
    shard = shard_with("stories", 0)
    for wrong in (None, SimpleNamespace(**{**vars(shard.divergences), "js": np.zeros((2, 2))})):
        shard.divergences = wrong
        with pytest.raises(RecordsError, match="shard 0: expected divergences of shapes"):
            writer.write(shard, fake_scorer.Vocabulary())
    assert not list(tmp_path.glob("records/*.parquet"))


@pytest.mark.parametrize("figure", ["js", "tv", "entropy"])
def test_what_is_not_finite_is_refused_by_name(tmp_path, figure):
    writer = RunWriter(tmp_path, fake_scorer.manifest(**SETTINGS))
    shard = shard_with("stories", 0)
    getattr(shard.divergences, figure)[1, 0] = np.inf
    named = "'baseline'" if figure == "entropy" else "'baseline' against 'offset_1'"
    with pytest.raises(ScoringError, match=f"'stories/3', {named}: the {figure} is not finite"):
        writer.write(shard, fake_scorer.Vocabulary())
    assert not list(tmp_path.glob("records/*.parquet"))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda t: t.slice(1), "11 rows, expected 12 \\(4 examples x 3 pairs"),
        (lambda t: t.take([1, 0, *range(2, t.num_rows)]), "row 0 is of another second"),
        (lambda t: t.take([*range(3, t.num_rows), 0, 1, 2]), "row 0 is of another example_index"),
    ],
)
def test_complete_refuses_rows_that_are_missing_or_in_another_order(tmp_path, change, said):
    writer = RunWriter(tmp_path, fake_scorer.manifest(**SETTINGS))
    for task, (_, shards) in fake_scorer.TASKS.items():
        for shard in range(shards):
            writer.write(shard_with(task, shard), fake_scorer.Vocabulary())
    path = tmp_path / "records/stories-00000-of-00003.divergences.parquet"
    pq.write_table(change(pq.read_table(path)), path)
    with pytest.raises(RecordsError, match=f"stories-00000-of-00003.divergences.parquet: {said}"):
        writer.complete()
