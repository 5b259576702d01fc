"""What holds for every task of the table, on small files of each benchmark's form."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import task_files

from mlm_consistency.conditionals import paper_conditionals
from mlm_consistency.errors import ConfigError, DataError, UnknownNameError
from mlm_consistency.tasks import TASKS, TaskConfig, example_lengths, load_task
from mlm_consistency.tasks.lambada import close_up
from mlm_consistency.tasks.rows import FLAT, GROUPED, flat_rows, grouped_rows, read_rows
from mlm_consistency.vocabularies import load_vocabulary

MODEL = ("mmlu", "NLG", "ul2")


@pytest.fixture(scope="module")
def tiny():
    return load_vocabulary("tiny")


@pytest.fixture(params=sorted(TASKS))
def task(request, tmp_path):
    return load_task(task_files.MAKERS[request.param](tmp_path / "data"))


def test_examples_are_complete_and_the_same_at_every_pass(task):
    examples = list(task.text_examples())
    assert examples
    assert examples == list(task.text_examples())
    assert len({example.id for example in examples}) == len(examples)
    for example in examples:
        assert example.prompt.strip()
        if task.source.candidates_from_beams:
            assert example.answer
            assert example.candidates == example.labels == ()
        else:
            assert all(0 <= label < len(example.candidates) for label in example.labels)
            assert example.labels


def test_a_survey_agrees_with_the_examples(task, tiny):
    encoded = task.encoded_examples(tiny, *MODEL)
    survey = encoded.survey()
    examples = list(encoded)
    assert [example.index for example in examples] == list(range(survey.examples))
    assert [example_lengths(example) for example in examples] == list(survey.lengths)
    assert encoded.survey() is survey
    assert survey.examples + sum(survey.dropped.values()) == len(list(task.rows()))
    assert list(survey.not_applicable) == [c.name for c in paper_conditionals("mmlu")]
    assert all(len(example.masked) == 10 for example in examples)


def test_rows_give_the_examples_back(task, tiny):
    encoded = task.encoded_examples(tiny, ["baseline", "offset_2", "span_3_5_9", "baseline@NLU"],
                                    "NLG", "ul2")  # fmt: skip
    examples = list(encoded)
    rows = [
        row
        for example in examples
        for row in grouped_rows(example, task.name, encoded.conditionals, encoded.mode)
    ]
    assert all(row.keys() == GROUPED.keys() for row in rows)
    assert list(read_rows(rows)) == [(task.name, example) for example in examples]
    # Rows in any order, and the rows of a part of the examples.
    assert [e for _, e in read_rows(reversed(rows))] == examples
    assert [e for _, e in read_rows(rows[4:])] == examples[1:]
    for example in examples:
        for row in flat_rows(example, task.name, encoded.conditionals):
            assert row.keys() == FLAT.keys()
            answer = row["targets"][row["target_loss_weights"] == 1]
            assert answer.tolist() == example.candidates[row["candidate"]].tolist()


def test_rows_that_were_cut_lost_or_doubled_are_refused(tiny):
    task = load_task(TaskConfig("stories_choice", limit=1))
    encoded = task.encoded_examples(tiny, *MODEL)
    (example,) = encoded
    rows = grouped_rows(example, task.name, encoded.conditionals, encoded.mode)
    with pytest.raises(DataError, match="Rows were lost"):
        list(read_rows(rows[:-1]))
    with pytest.raises(DataError, match="comes twice"):
        list(read_rows([rows[0], rows[0]]))
    with pytest.raises(DataError, match="comes twice"):
        list(read_rows([*rows, rows[3]]))
    cut = rows[0] | {"inputs": rows[0]["inputs"][:-1]}
    with pytest.raises(DataError, match="'inputs' was cut from"):
        list(read_rows([cut, *rows[1:]]))


def test_an_id_of_zero_inside_a_candidate_is_a_token(tiny):
    task = load_task(TaskConfig("stories_choice", limit=1))
    encoded = task.encoded_examples(tiny, *MODEL)
    (example,) = encoded
    odd = replace(example, candidates=tuple(np.int32([0, 5, 0]) for _ in example.candidates))
    rows = grouped_rows(odd, task.name, encoded.conditionals, encoded.mode)
    assert [e for _, e in read_rows(rows)] == [odd]


def test_missing_data_are_named_before_anything_runs(task):
    config = task.config
    if not task.source.needs_data_dir:
        with pytest.raises(ConfigError, match="ships with the package"):
            load_task(replace(config, data_dir="somewhere"))
        return
    with pytest.raises(DataError, match=rf"task '{config.name}': no data at .*Expected"):
        load_task(replace(config, data_dir=config.data_dir + "-nowhere"))
    with pytest.raises(ConfigError, match=r"needs TaskConfig\.data_dir"):
        load_task(replace(config, data_dir=None))
    for file in task.source.files(config)[:1]:
        file.unlink()
    with pytest.raises(DataError, match=r"missing|no data at"):
        load_task(config)


def test_an_empty_or_binary_file_is_named(task):
    if not task.source.needs_data_dir:
        return
    file = task.source.files(task.config)[0]
    file.write_bytes(b"")
    with pytest.raises(DataError):
        list(task.rows())
    file.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(DataError, match="not UTF-8"):
        list(task.rows())


def test_filters_count_what_they_leave_out(tmp_path, tiny):
    config = task_files.jsonl(tmp_path / "data")
    short = replace(config, candidates_shorter_than=2)
    with pytest.raises(DataError, match="no example passes the filters"):
        load_task(short).encoded_examples(tiny, "baseline").survey()
    task_files.own(
        tmp_path / "own.jsonl",
        [
            task_files.question(),
            task_files.question(candidates=["a b c d", "a"]),
            task_files.question(prompt="Who?"),
            task_files.question(id="x"),
        ],
    )
    config = TaskConfig(
        "jsonl", str(tmp_path / "own.jsonl"), encoder_longer_than=10, candidates_shorter_than=5,
        limit=1,
    )  # fmt: skip
    encoded = load_task(config).encoded_examples(tiny, "baseline")
    assert [example.id for example in encoded] == ["1"]
    assert encoded.dropped == {"beyond the limit of 1 examples": 3}
    encoded = load_task(replace(config, limit=None)).encoded_examples(tiny, "baseline")
    assert [(example.index, example.id) for example in encoded] == [(0, "1"), (1, "x")]
    assert encoded.dropped == {
        "a candidate of 5 tokens or more, its sentinel counted": 1,
        "encoder input of 10 tokens or fewer": 1,
    }


def test_the_filters_are_exclusive_by_one_token(tmp_path, tiny):
    row = task_files.question()
    file = str(task_files.own(tmp_path / "own.jsonl", [row]))
    length = len(tiny.encode(row["prompt"])) + 2
    longest = max(len(tiny.encode(text)) for text in row["candidates"]) + 1

    def passes(**filters):
        encoded = load_task(TaskConfig("jsonl", file, **filters)).encoded_examples(tiny, "baseline")
        return sum(1 for _ in encoded)

    assert passes(encoder_longer_than=length - 1) == 1
    assert passes(encoder_longer_than=length) == 0
    assert passes(candidates_shorter_than=longest + 1) == 1
    assert passes(candidates_shorter_than=longest) == 0


def warnings_of(rows, tmp_path, tiny) -> list[str]:
    file = str(task_files.own(tmp_path / "own.jsonl", rows))
    examples = load_task(TaskConfig("jsonl", file)).encoded_examples(tiny, "baseline")
    return examples.survey().warnings("jsonl")


def test_repeated_candidates_and_cut_prompts_are_counted(tmp_path, tiny):
    rows = [task_files.question(candidates=["attic", "attic "]), task_files.question()]
    assert not any("alone" in said for said in warnings_of(rows, tmp_path, tiny))
    one = task_files.question(candidates=["attic"], label=0)
    (said,) = [s for s in warnings_of([*rows, one], tmp_path, tiny) if "alone" in s]
    assert "1 examples have one candidate alone" in said
    file = str(task_files.own(tmp_path / "own.jsonl", rows))
    task = load_task(TaskConfig("jsonl", file, max_prompt_tokens=9))
    survey = task.encoded_examples(tiny, "baseline").survey()
    assert (survey.repeated_candidates, survey.truncated) == (1, 2)
    said = " ".join(survey.warnings("jsonl"))
    assert "two candidates with the same tokens" in said
    assert "cut at the left" in said


@pytest.mark.parametrize(
    ("config", "kind", "message"),
    [
        (TaskConfig("mlmu"), UnknownNameError, "Did you mean 'mmlu'"),
        (TaskConfig("mmlu", ".", split="tets"), UnknownNameError, "Did you mean 'test'"),
        (TaskConfig("mmlu", ".", form="zero"), UnknownNameError, "zero_shot"),
        (TaskConfig("mmlu", ".", subjects=("astronmy",)), UnknownNameError, "'astronomy'"),
        (TaskConfig("mmlu", ".", subjects=("virology",) * 2), ConfigError, "given twice"),
        (TaskConfig("bbh", ".", subjects=("word_sorting",)), UnknownNameError, "word_sorting"),
        (TaskConfig("bbh", ".", first_row="drop"), ConfigError, "is for mmlu"),
        (TaskConfig("jsonl", ".", subjects=("x",)), ConfigError, "has no subjects"),
    ],
)
def test_unknown_settings(config, kind, message):
    with pytest.raises(kind, match=message):
        load_task(config)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"first_row": "skip"}, "keep or drop"),
        ({"limit": 0}, "limit must be a whole number >= 1"),
        ({"candidates_shorter_than": 2.5}, "candidates_shorter_than"),
    ],
)
def test_settings_are_checked_at_once(setting, message):
    with pytest.raises(ConfigError, match=message):
        TaskConfig("mmlu", **setting)


def test_lambada_is_closed_up_as_in_the_reference():
    text = "he did n't , i 'd say : she 's ; we 'll ? i 'm ! no . they 've"
    assert close_up(text) == "he didn't, i'd say: she's; we'll? i'm! no. they 've"
