"""From Python: scores of a prompt's candidates, the same as one by one."""

from __future__ import annotations

import subprocess
import sys

import jax
import numpy as np
import pytest

import mlm_consistency as mc
from mlm_consistency.conditionals import Masked, TextExample, encode_example
from mlm_consistency.errors import CheckpointError, ConfigError, DataError, UnknownNameError
from mlm_consistency.models.t5 import T5

PROMPT = "Tom bought 4 apples and ate 2. He now has"
CANDIDATES = ["2", "4", "6"]


@pytest.fixture(scope="module")
def model() -> mc.Model:
    return mc.load_model("tiny")


def test_table_disagreement_and_ensemble_belong_together(model):
    scores = model.score(PROMPT, CANDIDATES, conditionals=mc.paper_conditionals("mmlu"), label=0)
    table = scores.table()
    assert table.conditionals[0] == "baseline"
    assert len(table.conditionals) == 10
    assert table.candidates == ("2", "4", "6")
    answers = set(table.predictions)
    assert scores.disagreement == float(len(answers) > 1)
    best = table.values.max(axis=0)
    assert scores.ensemble("max").prediction == CANDIDATES[int(best.argmax())]
    assert "baseline" in str(table)
    assert "<table" in scores._repr_html_()


def test_scores_equal_the_network_asked_one_candidate_at_a_time(model):
    patterns = mc.paper_conditionals("mmlu")
    scores = model.score(PROMPT, CANDIDATES, conditionals=patterns)
    example = encode_example(
        TextExample("x", PROMPT, tuple(CANDIDATES), (0,)), model.vocabulary, patterns, "NLG", "ul2"
    )
    network = T5(model.config)
    ask = jax.jit(
        lambda *arrays: jax.nn.log_softmax(network.apply({"params": model.params}, *arrays))
    )

    def padded(values, length):
        return np.pad(np.asarray(values, np.int32), (0, length - len(values)))[None]

    for k, masked in enumerate(example.masked):
        assert isinstance(masked, Masked)
        for c, candidate in enumerate(example.candidates):
            targets = np.concatenate([masked.prefix, candidate])
            inputs = np.concatenate([[model.vocabulary.pad_id], targets[:-1]])
            size, ones = len(inputs), np.ones(len(inputs))
            log_p = ask(
                padded(masked.encoder, 32), padded(np.ones(len(masked.encoder)), 32),
                padded(inputs, 24), padded(np.arange(size), 24), padded(size * ones, 24),
                padded(ones, 24),
            )[0]  # fmt: skip
            picked = np.asarray(log_p)[np.arange(len(masked.prefix), size), candidate]
            np.testing.assert_allclose(scores.sums[0, k, c], picked.sum(), atol=1e-5)


def test_questions_together_score_as_each_alone(model):
    questions = [
        mc.Question(PROMPT, CANDIDATES, 0),
        mc.Question("Anna went to the garden. Anna is in the", ["garden", "cave"], 0),
        mc.Question("The opposite of hot is", ["cold", "warm water", "ice"]),
    ]
    together = model.score_all(questions)
    for i, question in enumerate(questions):
        alone = model.score(question.prompt, question.candidates)
        count = len(question.candidates)
        np.testing.assert_array_equal(together.applicable[i], alone.applicable[0])
        np.testing.assert_allclose(together.sums[i, :, :count], alone.sums[0, :, :count], atol=1e-5)


@pytest.mark.parametrize(
    ("prompt", "candidates", "label", "words"),
    [
        ("", ["a", "b"], None, "prompt is empty"),
        ("The cat", ["a", " "], None, "candidate 1 is empty or blank"),
        ("The cat", [], None, "at least one"),
        ("The cat", "sat", None, "list"),
        ("The cat", ["a", "b"], 2, "label 2 is out of range"),
        ("The <extra_id_0> cat", ["a", "b"], 0, "extra_id_0"),
        (None, ["a", "b"], 0, "the prompt must be a text, got None"),
        (["The cat"], ["a", "b"], 0, "the prompt must be a text"),
        ("The cat", ["a", 3], 0, "candidate 1 must be a text, got 3"),
        ("The \ud800 cat", ["a", "b"], 0, "half of a surrogate pair"),
        ("The cat", ["a", "\udc00"], 0, "half of a surrogate pair"),
    ],
)
def test_bad_questions_are_refused_with_the_reason(model, prompt, candidates, label, words):
    with pytest.raises(DataError, match=words):
        model.score(prompt, candidates, label=label)


def test_unknown_names_and_places(model):
    with pytest.raises(UnknownNameError, match="offset"):
        model.score(PROMPT, CANDIDATES, conditionals=["baseline", "ofset_1"])
    for wrong in (None, 3, ["baseline", 3]):
        with pytest.raises(ConfigError, match="conditionals must be a preset"):
            model.score(PROMPT, CANDIDATES, conditionals=wrong)
    with pytest.raises(CheckpointError, match="no such folder"):
        mc.load_model("/nowhere/at/all")
    with pytest.raises(ConfigError, match="unknown mode 'XX'"):
        mc.load_model("tiny", mode="XX")


def test_importing_the_package_brings_in_nothing_heavy():
    code = (
        "import sys, mlm_consistency as mc; mc.paper_conditionals('mmlu'); "
        "print(sorted({'jax', 'tensorflow', 'seqio', 'torch', 'gin'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
