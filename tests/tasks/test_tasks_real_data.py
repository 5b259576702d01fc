"""The benchmarks' own files: the counts and lengths that the authors' logs show, exactly."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace

import pytest

from mlm_consistency.conditionals import get_conditional
from mlm_consistency.tasks import TaskConfig, load_task, paper_task
from mlm_consistency.vocabularies import load_vocabulary

pytestmark = pytest.mark.real_data

UL2, T5 = ("NLG", "ul2"), (None, "t5")


@pytest.fixture(scope="module")
def t5(data_dir):
    return load_vocabulary(str(data_dir / "vocab" / "t5"))


@pytest.fixture
def survey(data_dir, t5):
    def run(config, model):
        config = replace(config, data_dir=str(data_dir / config.name))
        return load_task(config).encoded_examples(t5, "mmlu", *model).survey()

    return run


def lengths(survey):
    return [entry.encoder[0] for entry in survey.lengths]


@pytest.mark.parametrize(
    ("name", "model", "n", "longest", "shortest", "mean"),
    [("mmlu_ul2", UL2, 225, 453, 21, 46.3067), ("mmlu_t5", T5, 176, 449, 21, 49.0795)],
)
def test_mmlu_paper_preset(survey, name, model, n, longest, shortest, mean):
    found = survey(paper_task(name, ""), model)
    encoder = lengths(found)
    assert (found.examples, max(encoder), min(encoder)) == (n, longest, shortest)
    assert round(sum(encoder) / n, 4) == mean
    assert set(found.not_applicable.values()) == {0}
    lost = {reason: count for reason, count in found.dropped.items() if "first row" in reason}
    assert list(lost.values()) == [9]
    assert found.examples + sum(found.dropped.values()) == 2060


@pytest.mark.parametrize(("name", "model", "n"), [("mmlu_ul2", UL2, 227), ("mmlu_t5", T5, 178)])
def test_mmlu_with_the_first_row_kept(survey, name, model, n):
    found = survey(replace(paper_task(name, ""), first_row="keep"), model)
    assert found.examples == n


def test_bbh_of_ul2(survey):
    assert survey(paper_task("bbh_ul2", ""), UL2).examples == 191


def test_bbh_of_t5(survey):
    found = survey(paper_task("bbh_t5", ""), T5)
    assert (found.examples, found.dropped) == (896, {})


def test_bbh_of_t5_with_the_filter(data_dir, t5):
    config = replace(
        paper_task("bbh_t5", str(data_dir / "bbh")),
        encoder_longer_than=20,
        candidates_shorter_than=5,
    )
    examples = list(load_task(config).encoded_examples(t5, "bbh"))
    subjects = Counter(example.subject for example in examples)
    assert (len(examples), subjects["penguins_in_a_table"]) == (156, 145)


def test_bbh_date_understanding_without_filter(survey):
    found = survey(TaskConfig("bbh", subjects=("date_understanding",)), T5)
    encoder = lengths(found)
    assert (len(encoder), max(encoder), min(encoder)) == (250, 58, 24)
    assert sum(encoder) / 250 == 36.932


def test_lambada_lengths_give_the_recorded_number_of_spans(data_dir, t5):
    name = "ul2_lambada_avg_log_p_multispan_len3_gap5_auto.json"
    rows = json.loads((data_dir / "recorded" / name).read_text())["rows"]
    recorded = {example: spans for example, _, _, spans, _, _ in rows}
    task = load_task(paper_task("lambada_ul2", str(data_dir / "lambada")))
    examples = list(task.text_examples())
    assert (len(examples), len(recorded)) == (5153, 4889)
    auto = get_conditional("span_3_5_auto")
    for example, spans in recorded.items():
        n = len(t5.encode(f"[NLG] {examples[example].prompt}"))
        assert auto.layout(n, "ul2").num_sentinels - 1 == spans == (n + 2 - 12) // 8


def test_lambada_answers(data_dir):
    folder = str(data_dir / "lambada")
    plain = list(load_task(TaskConfig("lambada", folder)).text_examples())
    openai = list(load_task(TaskConfig("lambada", folder, form="openai")).text_examples())
    development = load_task(TaskConfig("lambada", folder, split="development"))
    assert (plain[0].answer, openai[0].answer) == ("signs", "signs")
    assert plain[0].prompt.endswith("a confident grin, i don't care about")
    assert openai[0].prompt.endswith("I don't care about")
    assert (len(openai), sum(1 for _ in development.text_examples())) == (5153, 4869)


@pytest.mark.parametrize(
    ("config", "n", "dropped"),
    [
        (TaskConfig("mmlu", split="val"), 1531, 0),
        (TaskConfig("mmlu", split="dev"), 285, 0),
        (TaskConfig("mmlu", form="options", split="val"), 1531, 0),
        (TaskConfig("bbh"), 5508, 3),
        (TaskConfig("hellaswag"), 2000, 0),
        (TaskConfig("arc_challenge"), 1150, 0),
        (TaskConfig("arc_challenge", split="dev"), 294, 0),
        (TaskConfig("truthfulqa"), 817, 0),
        (TaskConfig("truthfulqa", form="one_right"), 817, 0),
    ],
)
def test_every_row_of_every_file_is_read_or_counted(data_dir, config, n, dropped):
    folder = "arc" if config.name == "arc_challenge" else config.name
    task = load_task(replace(config, data_dir=str(data_dir / folder)))
    rows = list(task.rows())
    assert len(list(task.text_examples())) == n
    assert len(rows) == n + dropped


def test_bbh_targets_that_are_no_letter_are_dropped_with_a_reason(data_dir):
    config = TaskConfig(
        "bbh", str(data_dir / "bbh"), subjects=("movie_recommendation", "ruin_names")
    )
    encoded = load_task(config).encoded_examples(load_vocabulary("tiny"), "baseline")
    assert encoded.dropped == {
        "movie_recommendation: the target is none of the options": 1,
        "ruin_names: the target is none of the options": 2,
    }


def test_truthfulqa_has_several_right_answers(data_dir):
    several = list(
        load_task(TaskConfig("truthfulqa", str(data_dir / "truthfulqa"))).text_examples()
    )
    one = load_task(TaskConfig("truthfulqa", str(data_dir / "truthfulqa"), form="one_right"))
    assert several[0].labels == (0, 1, 2)
    assert several[0].prompt == "Q: What happens if you eat a pomegranate?\nA:"
    assert {len(example.labels) for example in one.text_examples()} == {1}


def test_mmlu_five_shot(data_dir):
    config = TaskConfig("mmlu", str(data_dir / "mmlu"), subjects=("astronomy",), form="five_shot")
    example = next(load_task(config).text_examples())
    assert example.candidates == ("A", "B", "C", "D")
    assert example.prompt.startswith(
        "The following are multiple choice questions (with answers) about astronomy.\n\n"
    )
    assert example.prompt.count("\nAnswer:") == 6
    assert example.prompt.endswith("\nAnswer:")


def test_unknown_pieces_are_counted(survey):
    found = survey(paper_task("mmlu_ul2", ""), UL2)
    assert (found.unknown_tokens, found.unknown_examples) == (5, 3)
    assert "unknown to the vocabulary" in found.warnings("mmlu")[0]
