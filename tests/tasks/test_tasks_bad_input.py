"""Bad input gets one message that names file and line, what was expected and what came."""

from __future__ import annotations

import json

import pytest
import task_files
from task_files import question

from mlm_consistency.errors import DataError
from mlm_consistency.tasks import TaskConfig, load_task
from mlm_consistency.vocabularies import load_vocabulary


def read(path):
    return list(load_task(TaskConfig("jsonl", str(path))).rows())


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([question(), question(candidates=["attic", ""])], "line 2: candidate 1 is empty or blank"),
        ([question(candidates=["attic", " \t"])], "line 1: candidate 1 is empty or blank"),
        ([question(candidates=[])], "no candidates"),
        ([question(candidates="attic")], "'candidates' must be a list. Got str"),
        ([question(candidates=["attic", 3])], r"candidates\[1\] must be a string. Got int"),
        ([question(label=3)], "label 3 is out of range. Expected 0 to 2"),
        ([question(label=-1)], "label -1 is out of range"),
        ([question(label="attic")], "'label' must be a whole number. Got str"),
        ([question(label=True)], "'label' must be a whole number. Got bool"),
        ([question(label=[])], "'label' must be a position or a list"),
        ([question(label=[0, 0])], "a label comes twice"),
        ([question(label=[0, 5])], "label 5 is out of range"),
        ([question(prompt=" ")], "the prompt is empty"),
        ([question(prompt=None)], "'prompt' must be a string. Got NoneType"),
        ([{"candidates": ["a"], "label": 0}], "the key 'prompt' is missing. Keys there"),
        ([question(id="a"), question(id="a")], r"line 2: the id 'a' is that of .* line 1"),
        ([question(id="2"), question()], "the id '2' is that of"),
        ([question(id=1.5)], "'id' must be"),
        ([question(subject=3)], "'subject' must be a string"),
        ('{"prompt": "a",\n', "line 1: not JSON"),
        ([question(prompt="half \ud800")], r"line 1: '\\ud800' is half of a surrogate pair"),
        ("[1]\n", "line 1: expected a JSON object. Got list"),
        ("\n\n", "the file is empty"),
    ],
)
def test_own_questions(tmp_path, rows, message):
    path = task_files.own(tmp_path / "own.jsonl", rows)
    with pytest.raises(DataError, match=message) as error:
        read(path)
    assert "own.jsonl" in str(error.value)


def test_a_candidate_that_tokenises_to_nothing_is_named_with_its_place(tmp_path):
    # A zero-width space is no blank to Python, and nothing to the normaliser.
    path = task_files.own(tmp_path / "own.jsonl", [question(candidates=["attic", "\u200b"])])
    encoded = load_task(TaskConfig("jsonl", str(path))).encoded_examples(
        load_vocabulary("tiny"), "baseline"
    )
    with pytest.raises(DataError, match=r"own.jsonl line 1: .*candidate 1 .* has no tokens"):
        list(encoded)
    with pytest.raises(DataError, match=r"own.jsonl line 1"):
        encoded.survey()


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("question,a,b,c,A", "line 3: expected 6 columns .* Got 5"),
        ("question,a,b,c,d,E", "line 3: the last column must be A, B, C or D. Got 'E'"),
        ("question,a,b,c,d,AB", "must be A, B, C or D. Got 'AB'"),
        ("question,a,,c,d,A", "line 3: candidate 1 is empty"),
        ('"question,a,b,c,d,A', "line 3: not CSV"),
    ],
)
def test_a_malformed_csv_row(tmp_path, row, message):
    config = task_files.mmlu(tmp_path / "data")
    file = tmp_path / "data" / "test" / "astronomy_test.csv"
    file.write_text(f'"two\nlines",a,b,c,d,A\n{row}\n')
    with pytest.raises(DataError, match=message) as error:
        list(load_task(config).rows())
    assert "astronomy_test.csv" in str(error.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "not JSON"),
        ("[]", "expected an object with 'examples'"),
        ('{"examples": 3}', "'examples' must be a list"),
        ('{"examples": ["a"]}', "example 0: expected an object"),
        ('{"examples": [{"input": "a"}]}', "'target' is missing"),
        ('{"examples": [{"input": "a", "target": "(A)"}]}', "no 'Options:' line"),
        ('{"examples": [{"input": "a\\nOptions:\\nA) b", "target": "(A)"}]}', "as an option"),
    ],
)
def test_malformed_bbh(tmp_path, content, message):
    config = task_files.bbh(tmp_path / "data")
    (tmp_path / "data" / "ruin_names.json").write_text(content)
    with pytest.raises(DataError, match=message) as error:
        list(load_task(config).rows())
    assert "ruin_names.json" in str(error.value)


def test_bbh_options_lettered_dashed_and_closed(tmp_path):
    task = load_task(task_files.bbh(tmp_path / "data"))
    found = {example.id: example for example in task.text_examples()}
    assert found["navigate/0"].candidates == ("Yes", "No")
    assert found["navigate/0"].labels == (1,)
    assert found["ruin_names/0"].prompt == task_files.STORY
    assert found["ruin_names/1"].labels == (1,)
    assert found["web_of_lies/0"].candidates == ("Yes", "No")
    assert "ruin_names/2" not in found


def test_arc_key_must_be_an_option(tmp_path):
    config = task_files.arc(tmp_path / "data")
    file = tmp_path / "data" / "ARC-Challenge-Test.jsonl"
    row = json.loads(file.read_text())
    file.write_text(json.dumps(row | {"answerKey": "C"}))
    with pytest.raises(DataError, match=r"Test.jsonl line 1: answerKey 'C' is none of 1, 2"):
        list(load_task(config).rows())


def test_mmlu_first_row_can_be_dropped_and_is_counted(tmp_path):
    from dataclasses import replace

    config = task_files.mmlu(tmp_path / "data")
    keep, drop = load_task(config), load_task(replace(config, first_row="drop"))
    assert [e.id for e in keep.text_examples()][:2] == ["astronomy/test/0", "astronomy/test/1"]
    assert next(drop.text_examples()).id == "astronomy/test/1"
    assert len(list(keep.rows())) == len(list(drop.rows())) == 12
    five = load_task(replace(config, form="five_shot"))
    assert next(five.text_examples()).prompt.count("Answer:") == 6


class PermissionDeniedError(Exception):
    """TensorFlow's class of this name is no OSError."""


class Denied:
    """A file in a bucket that this account may not look at, or may list and not read."""

    def __init__(self, listed: bool) -> None:
        self.listed = listed

    def __str__(self) -> str:
        return "gs://bucket/questions.jsonl"

    def exists(self):
        if not self.listed:
            raise PermissionDeniedError("403 for account x\nand more")
        return True

    is_file = exists

    def is_dir(self):
        return False

    def read_bytes(self):
        raise PermissionDeniedError("403 for account x\nand more")


@pytest.mark.parametrize("listed", [True, False])
def test_a_bucket_that_may_not_be_read_is_one_message(monkeypatch, listed):
    monkeypatch.setattr("mlm_consistency.tasks.config.as_path", lambda path: Denied(listed))
    with pytest.raises(DataError) as caught:
        read("gs://bucket/questions.jsonl")
    message = str(caught.value)
    assert message.startswith("gs://bucket/questions.jsonl: cannot be read: 403 for account x. ")
    assert "this machine's account may list and read it" in message
    assert "\n" not in message
