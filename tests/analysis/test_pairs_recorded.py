"""Recorded probabilities of real models give the published figures to all printed digits."""

from __future__ import annotations

import json

import numpy as np
import pytest

from mlm_consistency.analysis import recorded
from mlm_consistency.analysis.cross_ratio import solved_conditionals
from mlm_consistency.errors import DataError

real_data = pytest.mark.real_data


@real_data
def test_bert_base_order_test(data_dir):
    pairs = recorded.read_pairs(data_dir / "recorded" / "bert-base-uncased_10000.jsonl.gz")
    figures = pairs.figures()
    assert figures["n"] == 10_000
    assert f"{figures['mean']:.4f}" == "0.7946"
    assert f"{figures['median']:.4f}" == "0.6244"
    own = 2 * np.tanh(np.abs(pairs.log_ratio) / 2)
    np.testing.assert_allclose(own, pairs.recorded, rtol=0, atol=1e-9)


@real_data
@pytest.mark.parametrize(
    ("model", "n", "mean", "median", "flips"),
    [("t5-base", 2232, "1.0647", "0.5789", "26.2"), ("t5-large", 2564, "0.9143", "0.4916", "24.2")],
)
def test_t5_bigrams(data_dir, model, n, mean, median, flips):
    bigrams = recorded.read_bigrams(data_dir / "recorded" / f"{model}_bigram_probs.jsonl")
    figures = bigrams.figures()
    assert figures.n == n
    assert f"{figures.mean:.4f}" == mean
    assert f"{figures.median:.4f}" == median
    assert f"{100 * figures.flips:.1f}" == flips
    assert bigrams.figures(closing_sentinel=True).mean > figures.mean


@real_data
@pytest.mark.parametrize(
    ("model", "median", "flips"), [("t5-base", "3.21", "10.2"), ("t5-large", "3.98", "13.5")]
)
def test_t5_spans(data_dir, model, median, flips):
    spans = recorded.read_spans(data_dir / "recorded" / f"{model}_5gram_10gram_probs.json")
    figures = spans.figures()
    assert figures.n == 1944
    assert f"{figures.median:.2f}" == median
    assert f"{100 * figures.flips:.1f}" == flips


@real_data
def test_roberta_connected_bigrams(data_dir):
    path = data_dir / "recorded" / "roberta-base-on-bigrams.json"
    found = recorded.read_connected(path)
    np.testing.assert_allclose(np.abs(found.cross_ratio()), found.recorded, rtol=0, atol=1e-9)
    (raw,) = json.loads(path.read_text()).values()
    a, b = (np.exp(t[0]) for t in solved_conditionals(found.log_a_given_b, found.log_b_given_a))
    for i in (0, 1):
        for j in (0, 1):
            assert a[i, j] == pytest.approx(raw[f"conditional_word_0{i}_given_word_1{j}_solved"])
            assert b[i, j] == pytest.approx(raw[f"conditional_word_1{j}_given_word_0{i}_solved"])


ROW = {"marginal": [0.2, 0.3], "conditional": [0.4, 0.5], "inconsistency": 0.1, "text": "a b",
       "masked": "[MASK] [MASK]"}  # fmt: skip


def test_a_written_file_reads_back(tmp_path):
    path = tmp_path / "pairs.jsonl"
    path.write_text(json.dumps(ROW) + "\n")
    pairs = recorded.read_pairs(path)
    assert pairs.log_ratio[0] == pytest.approx(np.log(0.2 * 0.5 / (0.3 * 0.4)))
    assert pairs.texts == ("a b",)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "line 1: not JSON"),
        (json.dumps({"marginal": [0.1, 0.2]}), "line 1: no conditional"),
        (json.dumps(ROW | {"marginal": [0.0, 0.2]}), r"record 1: marginal .*\(0, 1\]"),
        (json.dumps(ROW | {"marginal": [0.1]}), r"of shape \(2,\)"),
        (json.dumps(ROW | {"marginal": [[0.1], 0.2]}), "record 1: marginal"),
        ("", "no records"),
    ],
)
def test_bad_lines_are_named(tmp_path, text, message):
    path = tmp_path / "pairs.jsonl"
    path.write_text(text)
    with pytest.raises(DataError, match=message) as error:
        recorded.read_pairs(path)
    assert str(path) in str(error.value)


def test_other_shapes_name_what_is_missing(tmp_path):
    path = tmp_path / "spans.json"
    path.write_text('{"columns": ["url"], "rows": []}')
    with pytest.raises(DataError, match="missing column"):
        recorded.read_spans(path)
    path.write_text('{"k": {}}')
    with pytest.raises(DataError, match="'k' has no conditional_word_00"):
        recorded.read_connected(path)
    with pytest.raises(DataError, match="cannot be read"):
        recorded.read_spans(tmp_path / "nowhere.json")
