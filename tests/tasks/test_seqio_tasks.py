"""The tasks through seqio: the same examples, nothing cut in silence, ids carried."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import task_files

from mlm_consistency.errors import ConfigError
from mlm_consistency.tasks import TaskConfig, load_task
from mlm_consistency.vocabularies import load_vocabulary

seqio = pytest.importorskip("seqio")
tf = pytest.importorskip("tensorflow")

from mlm_consistency.tasks import seqio_tasks  # noqa: E402
from mlm_consistency.tasks.asked import asked_text, read_asked  # noqa: E402
from mlm_consistency.tasks.feature_converters import (  # noqa: E402
    FlatFeatureConverter,
    GroupedFeatureConverter,
)
from mlm_consistency.tasks.rows import FLAT, GROUPED, flat_rows  # noqa: E402
from mlm_consistency.tasks.seqio_vocabulary import SeqioVocabulary  # noqa: E402

CONDITIONALS = ["baseline", "offset_3", "span_3_5_2", "span_3_5_9", "baseline@NLU", "offset_-1"]
MODEL = ("NLG", "ul2")


@pytest.fixture(scope="module")
def tiny():
    return load_vocabulary("tiny")


@pytest.fixture(scope="module")
def registered(tmp_path_factory, tiny):
    folder = tmp_path_factory.mktemp("own")
    rows = [
        task_files.question(),
        task_files.question(prompt="Who?"),
        task_files.question(
            prompt=task_files.STORY * 2, label=[0, 2], candidates=["the a", "the b é", "the c"]
        ),
        task_files.question(id="last", subject="places"),
    ]
    config = TaskConfig(
        "jsonl", str(task_files.own(folder / "q.jsonl", rows)), encoder_longer_than=8, label="own"
    )
    names = seqio_tasks.register(config, tiny, CONDITIONALS, *MODEL)
    encoded = load_task(config).encoded_examples(tiny, CONDITIONALS, *MODEL)
    yield config, names, encoded
    for name in names:
        seqio.TaskRegistry.remove(name)


def rows_of(name):
    dataset = seqio.get_mixture_or_task(name).get_dataset(split="test", shuffle=False)
    return list(dataset.as_numpy_iterator())


def test_the_grouped_task_gives_the_examples_of_the_pure_functions(registered):
    _, (grouped, _), encoded = registered
    dataset = seqio.get_mixture_or_task(grouped).get_dataset(split="test", shuffle=False)
    examples = list(seqio_tasks.read_grouped(dataset))
    assert examples == list(encoded)
    assert [example.index for example in examples] == [0, 1, 2]
    assert set(dataset.element_spec) == set(GROUPED)


def test_the_flat_task_gives_the_rows_of_the_pure_functions(registered):
    _, (_, flat), encoded = registered
    found = rows_of(flat)
    asked = asked_text(encoded)
    wanted = [
        row
        for example in encoded
        for row in flat_rows(example, "own", encoded.conditionals, asked=asked)
    ]
    assert {len(row["targets"]) for row in wanted if row["conditional"] == 5}  # tokens are moved
    assert list(read_asked(asked, "here").examples(encoded.vocabulary)) == list(encoded)
    assert len(found) == len(wanted) > 0
    for row, other in zip(found, wanted, strict=True):
        assert row.keys() == FLAT.keys()
        for name, feature in FLAT.items():
            if feature.dtype == "string":
                assert row[name].decode() == other[name]
            else:
                assert np.array_equal(row[name], other[name])


def test_the_flat_converter_weighs_the_answer_alone_and_carries_ids(registered, tiny):
    _, (_, flat), encoded = registered
    batches = seqio.get_dataset(
        flat, {"inputs": 96, "targets": 48}, FlatFeatureConverter(), dataset_split="test"
    )
    rows = list(batches.as_numpy_iterator())
    examples = list(encoded)
    for row in rows:
        masked = examples[row["example"]].masked[row["conditional"]]
        answer = examples[row["example"]].candidates[row["candidate"]][masked.moved :]
        weights = row["decoder_loss_weights"].astype(bool)
        assert row["decoder_target_tokens"][weights].tolist() == answer.tolist()
        assert row["decoder_input_tokens"][0] == 0
        assert np.array_equal(row["decoder_input_tokens"][1:], row["decoder_target_tokens"][:-1])
        assert (
            row["encoder_input_tokens"][: len(masked.encoder)].tolist() == masked.encoder.tolist()
        )
        assert not row["encoder_input_tokens"][len(masked.encoder) :].any()
    assert len(rows) == len(rows_of(flat))


def test_the_grouped_converter_pads_and_tells_the_lengths(registered):
    _, (grouped, _), encoded = registered
    lengths = {"inputs": 96, "prefix": 48, "candidates": 32, "candidate_lengths": 5}
    rows = seqio.get_dataset(grouped, lengths, GroupedFeatureConverter(), dataset_split="test")
    for row in rows.as_numpy_iterator():
        example = list(encoded)[row["example"]]
        assert row["num_candidates"] == len(example.candidates)
        ends = np.cumsum(row["candidate_lengths"])[: row["num_candidates"]]
        tokens = np.split(row["candidate_tokens"], ends)[: row["num_candidates"]]
        assert [t.tolist() for t in tokens] == [c.tolist() for c in example.candidates]


@pytest.mark.parametrize(
    ("converter", "lengths"),
    [
        (FlatFeatureConverter, {"inputs": 20, "targets": 48}),
        (FlatFeatureConverter, {"inputs": 96, "targets": 6}),
        (
            GroupedFeatureConverter,
            {"inputs": 96, "prefix": 4, "candidates": 32, "candidate_lengths": 5},
        ),
    ],
)
def test_a_row_that_does_not_fit_is_an_error_and_not_cut(registered, converter, lengths):
    _, names, _ = registered
    name = names[converter is FlatFeatureConverter]
    dataset = seqio.get_dataset(name, lengths, converter(), dataset_split="test")
    with pytest.raises(tf.errors.InvalidArgumentError, match="raise it"):
        list(dataset.as_numpy_iterator())


def test_a_trimmed_dataset_is_refused_when_read(registered):
    from mlm_consistency.errors import DataError

    _, (grouped, _), _ = registered
    dataset = seqio.get_mixture_or_task(grouped).get_dataset(
        {"inputs": 12}, split="test", shuffle=False
    )
    with pytest.raises(DataError, match="TASK_FEATURE_LENGTHS"):
        list(seqio_tasks.read_grouped(dataset))


def test_shuffling_is_refused_as_rows_belong_together(registered):
    _, (grouped, _), _ = registered
    with pytest.raises(ValueError, match="Shuffling is disallowed"):
        seqio.get_mixture_or_task(grouped).get_dataset(split="test", shuffle=True)


def test_a_name_is_registered_once_unless_replaced(registered, tiny):
    config, names, _ = registered
    with pytest.raises(ConfigError, match="registered already"):
        seqio_tasks.register(config, tiny, CONDITIONALS, *MODEL)
    assert seqio_tasks.register(config, tiny, CONDITIONALS, *MODEL, replace=True) == names


def test_the_limit_is_kept(registered, tiny):
    from dataclasses import replace

    config, _, _ = registered
    names = seqio_tasks.register(replace(config, limit=2), tiny, "baseline", name="mlmc_two")
    dataset = seqio.get_mixture_or_task("mlmc_two").get_dataset(split="test", shuffle=False)
    assert [example.index for example in seqio_tasks.read_grouped(dataset)] == [0, 1]
    for name in names:
        seqio.TaskRegistry.remove(name)


def test_shipped_tasks_and_their_mixture_are_registered_on_import(tiny):
    for name in seqio_tasks.SHIPPED:
        for suffix in ("", seqio_tasks.FLAT_SUFFIX):
            features = seqio.get_mixture_or_task(f"mlmc_{name}{suffix}").output_features
            assert features["inputs"].vocabulary == SeqioVocabulary(tiny)
    mixture = seqio.get_mixture_or_task("mlmc_stories")
    dataset = mixture.get_dataset(split="test", shuffle=False, num_epochs=1).take(400)
    tasks = Counter(row["task"] for row in dataset.as_numpy_iterator())
    assert set(tasks) == {b"stories_choice", b"stories_last_word"}


def test_a_mixture_gives_each_row_once(registered, tiny, tmp_path):
    _, (own, _), encoded = registered
    rows = [task_files.question(id=f"q{k}") for k in range(9)]
    other = TaskConfig("jsonl", str(task_files.own(tmp_path / "o.jsonl", rows)), label="other")
    seqio_tasks.register(other, tiny, CONDITIONALS, *MODEL)
    name = seqio_tasks.register_mixture("mlmc_both", [own, "mlmc_other"])
    dataset = seqio.get_mixture_or_task(name).get_dataset(split="test", shuffle=False, num_epochs=1)
    found = list(seqio_tasks.read_grouped_tasks(dataset))
    assert Counter(task for task, _ in found) == {"own": 3, "other": 9}
    assert [example for task, example in found if task == "own"] == list(encoded)


def test_the_vocabulary_as_seqio_sees_it(tiny):
    vocabulary = SeqioVocabulary(tiny)
    assert vocabulary.vocab_size == tiny.size
    text = "Tom has<extra_id_0> apples"
    ids = tiny.encode(text)
    assert vocabulary.encode(text) == ids
    assert vocabulary.encode_tf(tf.constant(text)).numpy().tolist() == ids
    assert vocabulary.decode(ids) == text
    assert vocabulary.decode_tf(tf.constant(ids)).numpy().decode() == text
    assert vocabulary.decode_tf(tf.constant([ids, ids])).numpy().tolist() == [text.encode()] * 2
    assert vocabulary == SeqioVocabulary(load_vocabulary("tiny"))
    assert vocabulary != SeqioVocabulary(load_vocabulary("tiny", extra_ids=5))


def test_the_docs_tell_where_every_feature_comes_from():
    text = (Path(__file__).resolve().parents[2] / "docs" / "other-programs.md").read_text("utf-8")
    for form, features in (("grouped", GROUPED), ("flat", FLAT)):
        for name, feature in features.items():
            told = "both" if name in GROUPED and name in FLAT else form
            kind = feature.dtype + (" [..]" if feature.rank else "")
            assert f"| `{name}` | {told} | {kind} |" in text
            if name not in GROUPED or form == "grouped":
                assert f"| {feature.provenance} |" in text
