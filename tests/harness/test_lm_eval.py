"""The model inside lm-evaluation-harness, on a local task, asked of the shipped model."""

from __future__ import annotations

import json
from types import SimpleNamespace

import numpy as np
import pytest

from mlm_consistency.cli.main import main
from mlm_consistency.errors import ConfigError, ScoringError
from mlm_consistency.tasks import TaskConfig, load_task

try:
    import lm_eval
except ImportError:
    lm_eval = None
needs_harness = pytest.mark.skipif(
    lm_eval is None, reason="lm-evaluation-harness is not installed (extra `lm-eval`)"
)

STORY = "Tom went with Mary to the market. There were 4 apples. Mary put the apples in"
TASK = """\
task: {name}
dataset_path: json
dataset_kwargs:
  data_files: {{test: {file}}}
test_split: test
output_type: {kind}
doc_to_text: "{{{{prompt}}}}"
doc_to_target: {target}
{choices}metric_list:
  - metric: acc
"""


@pytest.fixture
def offline(monkeypatch, tmp_path):
    for name in ("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE"):
        monkeypatch.setenv(name, "1")
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path / "hf"))


@pytest.fixture
def tasks(tmp_path):
    """A folder with a multiple-choice and a loglikelihood task of the shipped stories."""
    folder = tmp_path / "tasks"
    folder.mkdir()
    examples = list(load_task(TaskConfig("stories_choice")).text_examples())[:6]
    rows = [
        {"prompt": e.prompt, "choices": list(e.candidates), "label": e.labels[0],
         "right": e.candidates[e.labels[0]]}
        for e in examples
    ]  # fmt: skip
    file = folder / "rows.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    for name, kind, target, choices in (
        ("mlmc_choice", "multiple_choice", "label", "doc_to_choice: choices\n"),
        ("mlmc_word", "loglikelihood", '"{{right}}"', ""),
    ):
        text = TASK.format(name=name, kind=kind, target=target, choices=choices, file=file)
        (folder / f"{name}.yaml").write_text(text, "utf-8")
    return folder, examples


def test_without_the_harness_the_command_says_what_to_install(capsys, monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "lm_eval.__main__", None)
    assert main(["lm-eval", "--tasks", "x"]) == 2
    assert "pip install -e '.[lm-eval]' -c constraints.txt" in capsys.readouterr().err


def evaluate(folder, task, arguments, **more):
    from mlm_consistency.harness import lm

    found = lm_eval.simple_evaluate(
        model=lm.NAME, model_args=arguments, tasks=[task], bootstrap_iters=0, log_samples=True,
        task_manager=lm_eval.tasks.TaskManager(include_path=str(folder), include_defaults=False),
        **more,
    )  # fmt: skip
    return found


@needs_harness
def test_the_command_gives_a_task_our_accuracy_and_scores(offline, tasks, tmp_path, capsys):
    import mlm_consistency as mc
    from mlm_consistency.api import Question

    folder, examples = tasks
    names = "baseline+offset_2+span_3_3_1"
    arguments = f"checkpoint=tiny,conditionals={names},ensemble=max,score=mean"
    out = tmp_path / "out"
    command = ["--model", "mlm_consistency", "--model_args", arguments, "--tasks", "mlmc_choice"]
    others = ["--include_path", str(folder), "--output_path", str(out), "--log_samples"]
    assert main(["lm-eval", *command, *others]) == 0
    assert "mlmc_choice" in capsys.readouterr().out

    questions = [Question(e.prompt, e.candidates, e.labels[0], e.id) for e in examples]
    scores = mc.load_model("tiny").score_all(questions, names.replace("+", ","))
    wanted = scores.values("mean").max(axis=1)
    (file,) = out.rglob("samples_mlmc_choice_*.jsonl")
    samples = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
    assert sorted(sample["doc_id"] for sample in samples) == list(range(len(examples)))
    for sample in samples:
        got = [float(pair[0]) for pair in sample["filtered_resps"]]
        expected = wanted[sample["doc_id"], : len(got)]
        np.testing.assert_allclose(got, expected, atol=1e-5, rtol=0)
    (file,) = out.rglob("results_*.json")
    results = json.loads(file.read_text("utf-8"))
    right = [wanted[i].argmax() == e.labels[0] for i, e in enumerate(examples)]
    assert results["results"]["mlmc_choice"]["acc,none"] == np.mean(right)
    assert results["config"]["mlm_consistency_conditionals"] == names.split("+")


@needs_harness
def test_a_loglikelihood_task_gets_greedy(offline, tasks):
    import lm_eval.tasks  # noqa: F401

    folder, _ = tasks
    found = evaluate(folder, "mlmc_word", "checkpoint=tiny")
    samples = found["samples"]["mlmc_word"]
    greedy = [pair[1] for sample in samples for pair in sample["filtered_resps"]]
    assert found["results"]["mlmc_word"]["acc,none"] == np.mean([str(g) == "True" for g in greedy])
    with pytest.raises(Exception, match="but this context has one"):
        evaluate(folder, "mlmc_word", "checkpoint=tiny,conditionals=mmlu,ensemble=vote")


def model_of(**arguments):
    from mlm_consistency.harness.lm import MaskedLanguageModel

    return MaskedLanguageModel("tiny", **arguments)


def requests(*continuations):
    return [SimpleNamespace(args=(STORY, text), doc_id=0, task_name="t") for text in continuations]


@pytest.fixture(scope="module")
def model():
    return model_of()


@needs_harness
def test_models_share_a_cache_file_and_no_entry(tmp_path):
    from lm_eval.api.model import CachingLM

    from mlm_consistency.harness.scorer import Scored

    file = str(tmp_path / "cache.db")
    asked = requests(" the kitchen", " it")

    def through_cache(**arguments):
        model = model_of(**arguments)
        calls: list[int] = []

        def score(questions):
            # In place of the network: other numbers for every number of conditionals.
            calls.append(len(questions))
            sums = -np.arange(1.0, 3.0) * np.ones((len(model.scorer.conditionals), 1))
            yield Scored(sums * len(sums), sums > 0, np.array([2, 3]))

        model.scorer.score = score
        cached = CachingLM(model, file)
        found = cached.loglikelihood(asked)
        cached.dbdict.close()
        return found, len(calls)

    first = through_cache()
    assert first == ([(-1.0, False), (-2.0, False)], 1)
    assert through_cache() == (first[0], 0)  # the same model reads what it wrote
    assert through_cache(conditionals="baseline+offset_2")[0] == [(-2.0, False), (-4.0, False)]
    assert through_cache(score="mean") == ([(-0.5, False), (-2 / 3, False)], 1)
    assert through_cache(mode="NLU")[1] == 1
    # Numbers that depend on the other choices are never read.
    votes = {"conditionals": "baseline+offset_2", "ensemble": "vote"}
    assert [through_cache(**votes)[1] for _ in range(2)] == [1, 1]
    assert through_cache() == (first[0], 0)


@needs_harness
def test_blank_continuations(model):
    from mlm_consistency.errors import DataError

    with pytest.raises(DataError, match="has no tokens"):
        model.loglikelihood(requests(" it", " "))
    model.blank = "zero"
    try:
        found = model.loglikelihood(requests(" it", " ", ""))
    finally:
        model.blank = "refuse"
    assert found[1:] == [(0.0, True)] * 2
    assert found[0] == model.loglikelihood(requests("it"))[0]


@needs_harness
def test_what_it_does_not_do_is_said(model):
    from mlm_consistency.harness.lm import MaskedLanguageModel

    with pytest.raises(ConfigError, match="checkpoint is missing"):
        MaskedLanguageModel()
    with pytest.raises(ScoringError, match="no rolling log-likelihood"):
        model.loglikelihood_rolling(requests("it"))
    with pytest.raises(ScoringError, match="does not generate"):
        model.generate_until(requests("it"))
    assert model.loglikelihood([]) == []
    assert model.tokenizer_name.startswith("tiny")
