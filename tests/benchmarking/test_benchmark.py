"""The benchmark: what it reports, that ways of scoring agree, and what packing costs by formula."""

from __future__ import annotations

import importlib.util
import json
import random

import numpy as np
import pytest

from mlm_consistency.benchmarking import baselines
from mlm_consistency.benchmarking.benchmark import BenchmarkConfig, measure
from mlm_consistency.benchmarking.overhead import TASKS, packing_overhead
from mlm_consistency.benchmarking.workload import (
    load_workload,
    read_workload,
    size_config,
    synthetic_workload,
)
from mlm_consistency.cli.main import main
from mlm_consistency.conditionals import Masked
from mlm_consistency.errors import DataError, ScoringError, UnknownNameError
from mlm_consistency.scoring.flops import necessary_flops
from mlm_consistency.scoring.shapes import PackingConfig

X0, EOS = 32099, 1
CONTENT = {
    "format": "workload-1",
    "pad_id": 0,
    "eos_id": EOS,
    "sentinel0": X0,
    "vocab": 32128,
    "conditionals": [["baseline"], ["offset", 1], ["multispan", 3, 5, 2]],
}
HAS_TORCH = all(importlib.util.find_spec(name) for name in ("torch", "transformers"))


@pytest.fixture
def workload_file(tmp_path):
    draw = random.Random(7)

    def words(count):
        return [draw.randrange(10, 32000) for _ in range(count)]

    examples = [
        {
            "input_ids": [*words(20 + 9 * number), X0, EOS],
            "completions": [[X0, *words(size)] for size in (1, 2, 3)],
        }
        for number in range(3)
    ]
    path = tmp_path / "workload.json"
    path.write_text(json.dumps({**CONTENT, "examples": examples}))
    return path


def test_command_reports_every_figure(workload_file, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("mlm_consistency.cli.benchmark.hold_to_threads", lambda threads: None)
    output = tmp_path / "out.json"
    arguments = ["--workload", str(workload_file), "--no_baselines", "--repeats", "2"]
    assert main(["benchmark", *arguments, "--output", str(output)]) == 0
    result = json.loads(output.read_text())
    assert {"size", "threads", "matmul_gflops", "ours", "speedup"} <= set(result)
    ours = result["ours"]
    assert ours["shapes"] == 1
    assert 0 <= ours["padding"]["encoder"] < 1
    assert 0 <= ours["padding"]["decoder"] < 1
    assert ours["peak_memory_bytes"] > 100 << 20
    assert ours["examples_per_second"] * ours["seconds"] == pytest.approx(3)
    assert ours["conditionals_per_second"] * ours["seconds"] == pytest.approx(9)
    assert ours["share_of_matmul_peak"] == pytest.approx(
        ours["useful_gflops"] / result["matmul_gflops"]
    )
    assert result["max_score_difference"] is None, "nothing to compare with"
    printed = capsys.readouterr().out
    assert all(task in printed for task in TASKS)
    assert [row["task"] for row in result["packing"]["tasks"]] == list(TASKS)


@pytest.mark.parity
@pytest.mark.skipif(not HAS_TORCH, reason="parity: needs torch and transformers (extra `parity`)")
def test_ways_of_scoring_agree_and_a_way_that_does_not_is_refused(workload_file, monkeypatch):
    workload = read_workload(workload_file)
    model = size_config("tiny", workload.vocab_size)
    config = BenchmarkConfig("tiny", 1, ("one_at_a_time", "batched"), repeats=1)
    result = measure(workload, model, config)
    assert 0 < result["max_score_difference"] <= 2e-5
    flops = necessary_flops(workload.task().lengths, model).total / 1e9
    for way in ("ours", "one_at_a_time", "batched"):
        assert result[way]["useful_gflops"] * result[way]["seconds"] == pytest.approx(flops)
    assert set(result["speedup"]) == {"one_at_a_time", "batched"}

    def shifted(torch_model, examples):
        scores = baselines.batched(torch_model, examples)
        scores[1][2][0] = scores[1][2][0] + 1e-3
        return scores

    monkeypatch.setitem(baselines.BASELINES, "batched", shifted)
    with pytest.raises(ScoringError, match=r"batched disagree by 1\.0\de-03 nats"):
        measure(workload, model, config)


def test_prompts_are_those_of_the_conditionals(workload_file):
    """Three candidates at once; an offset of 1 gives the decoder the prompt's last token."""
    example = read_workload(workload_file).examples[1]
    prompt = example.prompt_ids[""]
    assert len(prompt) == 29
    baseline, offset, span = example.masked
    assert isinstance(span, Masked)
    assert baseline.encoder.tolist() == [*prompt, X0, EOS]
    assert offset.encoder.tolist() == [*prompt[:-1], X0, EOS]
    assert offset.prefix.tolist() == [X0, prompt[-1]]


def test_synthetic_workload_has_the_lengths_of_mmlu():
    workload = load_workload("mmlu")
    again = synthetic_workload()
    assert [e.masked[0].encoder.tolist() for e in workload.examples] == [
        e.masked[0].encoder.tolist() for e in again.examples
    ]
    lengths = np.array([len(e.prompt_ids[""]) for e in workload.examples])
    assert len(lengths) == 64
    assert lengths.min() >= 19
    assert 2 * lengths.min() < lengths.max()
    assert {len(c) for e in workload.examples for c in e.candidates} == {1, 2, 3, 4}
    assert len(workload.examples[0].masked) == 10


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "not JSON"),
        ("[]", "format is 'list', expected 'workload-1'"),
        ('{"format": "workload-1", "vocab": 3}', "pad_id, eos_id, sentinel0, conditionals, exam"),
        (
            json.dumps({**CONTENT, "examples": [{"input_ids": [5, EOS], "completions": []}]}),
            r"example 0 does not end in \[32099, 1\]",
        ),
    ],
)
def test_a_bad_workload_is_refused(tmp_path, content, message):
    path = tmp_path / "bad.json"
    path.write_text(content)
    with pytest.raises(DataError, match=message) as error:
        read_workload(path)
    assert str(path) in str(error.value)
    with pytest.raises(DataError, match="or 'mmlu' for random ids"):
        read_workload(tmp_path / "none.json")


def test_packing_costs_a_large_network_at_most_a_tenth():
    rows = packing_overhead()
    assert [row.task for row in rows] == list(TASKS)
    for row in rows:
        assert 0 <= row.overhead <= 0.10
        assert 0 <= row.encoder_padding <= 0.10
        assert 0 <= row.decoder_padding <= 0.10
    (wasteful,) = packing_overhead(tasks=TASKS[:1], packing=PackingConfig(row_lengths=(2048,)))
    assert wasteful.necessary == rows[0].necessary
    assert wasteful.computed > rows[0].computed
    with pytest.raises(UnknownNameError):
        packing_overhead(tasks=["mnlu"])
