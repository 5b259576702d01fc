"""Candidates of a search, read for the examples that they were searched for."""

from __future__ import annotations

import dataclasses
import json

import pytest

from mlm_consistency.errors import ConfigError, DataError
from mlm_consistency.tasks import TaskConfig, load_task
from mlm_consistency.tasks.beam_candidates import NOT_FOUND
from mlm_consistency.tasks.last_words import NO_CANDIDATE
from mlm_consistency.vocabularies import load_vocabulary

ANSWERS = ("box", "garden", "three")
FOUND = (["box.", "bag.", "box,"], ["wheelbarrows."], [])


@pytest.fixture
def config(tmp_path):
    (tmp_path / "lambada_test_plain_text.txt").write_text(
        "".join(f"tom went home , and there he saw the red {word}\n" for word in ANSWERS)
    )
    write(tmp_path, zip(ANSWERS, FOUND, strict=True))
    return TaskConfig("lambada", str(tmp_path), beams=str(tmp_path))


def write(folder, rows, name="lambada"):
    lines = [
        json.dumps({"id": f"test/{n}", "answer": answer, "candidates": candidates})
        for n, (answer, candidates) in enumerate(rows)
    ]
    (folder / f"{name}.candidates.jsonl").write_text("\n".join(lines))


def test_candidates_and_which_are_right(config):
    examples = list(load_task(config).text_examples())
    assert [e.candidates for e in examples] == [
        ("box.", "bag.", "box,"), ("wheelbarrows.",), (NO_CANDIDATE,),
    ]  # fmt: skip
    assert [e.labels for e in examples] == [(0, 2), (), ()]
    assert [e.answer for e in examples] == list(ANSWERS)


def test_the_paper_leaves_out_and_counts_examples_without_a_candidate(config):
    paper = dataclasses.replace(config, last_words="paper")
    encoded = load_task(paper).encoded_examples(load_vocabulary("tiny"), "lambada", "NLG", "ul2")
    assert encoded.survey().examples == 2
    assert encoded.dropped == {NOT_FOUND: 1}


def test_filters_count_the_candidates_that_were_found(config):
    vocabulary = load_vocabulary("tiny")
    lengths = [1 + max(len(vocabulary.encode(text)) for text in found) for found in FOUND[:2]]
    limit = max(lengths)
    short = dataclasses.replace(config, last_words="paper", candidates_shorter_than=limit)
    encoded = load_task(short).encoded_examples(vocabulary, "lambada", "NLG", "ul2")
    assert min(lengths) < limit
    assert [example.id for example in encoded] == [f"test/{lengths.index(min(lengths))}"]
    assert sum(encoded.dropped.values()) == 2


def test_what_was_not_searched_lies_beyond_the_limit(config, tmp_path):
    write(tmp_path, list(zip(ANSWERS, FOUND, strict=True))[:1])
    limited = dataclasses.replace(config, limit=1)
    assert [e.id for e in load_task(limited).text_examples()] == ["test/0"]
    with pytest.raises(DataError, match=r"no example 'test/1'.*mlm-consistency beams"):
        list(load_task(config).text_examples())


def test_beams_of_another_file_are_refused(config, tmp_path):
    write(tmp_path, zip(("box", "house", "three"), FOUND, strict=True))
    with pytest.raises(DataError, match=r"line 2.*'garden'.*line 2.*'house'"):
        list(load_task(config).text_examples())


def test_beams_of_a_run_under_another_name_are_found(config, tmp_path):
    renamed = tmp_path / "lambada_ul2.candidates.jsonl"
    (tmp_path / "lambada.candidates.jsonl").rename(renamed)
    assert len(list(load_task(config).text_examples())) == 3
    write(tmp_path, [], "other")
    with pytest.raises(DataError, match=r"lambada\.candidates\.jsonl"):
        load_task(config)


def test_what_does_not_go_together_is_refused(config):
    with pytest.raises(ConfigError, match="candidates of its own"):
        load_task(TaskConfig("stories_choice", beams="folder"))
    with pytest.raises(ConfigError, match="last_words"):
        dataclasses.replace(config, last_words="apart")
