"""Tables of lengths: those that ship, against the paper's counts and the data themselves."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from mlm_consistency.errors import DataError, UnknownNameError
from mlm_consistency.scoring.assemble import lengths_of, prompts_of
from mlm_consistency.scoring.task_lengths import (
    COUNTS,
    TaskLengths,
    count_lengths,
    load_lengths,
    read_lengths,
    shipped_lengths,
    write_lengths,
)

SMALL = {
    "task": "small",
    "family": "t5",
    "conditionals": ["baseline", "offset_2", "span_3_5_2"],
    "prompt_tokens": [30, 12, 6],
    "branch_nodes": [0, 3, 1],
    "read_nodes": 1,
    "scored_pairs": [4, 4, 2],
}


@pytest.mark.parametrize(
    ("name", "examples"),
    [
        ("mmlu_ul2", 225),
        ("mmlu_t5", 176),
        ("bbh_ul2", 191),
        ("bbh_t5", 896),
        ("lambada_ul2", 5153),
        ("lambada_t5", 5153),
    ],
)
def test_the_papers_tasks_ship_with_their_counts(name, examples):
    table = load_lengths(name)
    assert name in shipped_lengths()
    assert table.examples == examples
    assert bool(table.assumption) == name.startswith("lambada")


def test_encoder_lengths_of_mmlu_are_those_of_the_authors_logs():
    lengths, first = load_lengths("mmlu_ul2").prompts()
    baseline = lengths.encoder[first[:-1]]
    assert (baseline.max(), baseline.min(), round(baseline.mean(), 4)) == (453, 21, 46.3067)


def test_conditionals_that_do_not_apply_give_no_prompt():
    lengths, first = read_lengths(SMALL, "here").prompts()
    # span_3_5_2 takes 16 tokens and one before them: it fits the first example alone. An offset
    # of 2 leaves fewer than 5 of 6 tokens.
    assert first.tolist() == [0, 3, 5, 6]
    assert lengths.encoder.tolist() == [32, 30, 28, 14, 12, 8]
    assert lengths.decoder.tolist() == [2, 4, 10, 5, 7, 3]
    assert lengths.reads.tolist() == [1] * 6
    assert lengths.pairs.tolist() == [4, 4, 4, 4, 4, 2]


def test_a_table_survives_being_written(tmp_path):
    table = read_lengths(SMALL, "here")
    write_lengths(table, tmp_path / "small.json")
    back = load_lengths(str(tmp_path / "small.json"))
    for field in dataclasses.fields(TaskLengths):
        assert np.array_equal(getattr(table, field.name), getattr(back, field.name))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"prompt_tokens": None}, "whole numbers"),
        ({"prompt_tokens": []}, "one count an example"),
        ({"branch_nodes": [1, 2]}, "one count an example"),
        ({"scored_pairs": 0}, "must be positive"),
    ],
)
def test_malformed_tables_are_refused_with_their_place(change, said):
    with pytest.raises(DataError, match=f"lengths here: .*{said}"):
        read_lengths({**SMALL, **change}, "here")


def test_missing_entries_unknown_names_and_unreadable_files_are_named(tmp_path):
    with pytest.raises(DataError, match="read_nodes missing"):
        read_lengths({key: SMALL[key] for key in SMALL if key != "read_nodes"}, "here")
    with pytest.raises(UnknownNameError, match="mmlu_ul2"):
        load_lengths("mmlu_ul")
    (tmp_path / "bad.json").write_text("{")
    with pytest.raises(DataError, match=r"bad\.json"):
        load_lengths(str(tmp_path / "bad.json"))


@pytest.mark.real_data
@pytest.mark.parametrize("name", ["mmlu_ul2", "bbh_ul2"])
def test_shipped_tables_are_those_of_the_data(name, data_dir):
    from mlm_consistency.tasks import load_task, paper_task
    from mlm_consistency.vocabularies import load_vocabulary

    shipped = load_lengths(name)
    vocabulary = load_vocabulary(str(data_dir / "vocab" / "t5" / "spiece.model"))
    task = load_task(paper_task(name, str(data_dir / name.partition("_")[0])))
    examples = list(
        task.encoded_examples(vocabulary, shipped.conditionals, shipped.mode, shipped.family)
    )
    counted = count_lengths(
        name, examples, shipped.conditionals, shipped.family, shipped.mode, shipped.vocabulary
    )
    for key in COUNTS:
        assert np.array_equal(getattr(counted, key), getattr(shipped, key))
    wanted, found = lengths_of(prompts_of(examples)), shipped.prompts()[0]
    for field in dataclasses.fields(wanted):
        assert np.array_equal(getattr(wanted, field.name), getattr(found, field.name))
