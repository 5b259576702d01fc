"""Bad input: one clear message that names what is wrong and where, status 2, nothing written."""

from __future__ import annotations

import json

import numpy as np
import pytest
from command_line import arguments, question, save_checkpoint, tree, write_questions

from mlm_consistency.cli.main import main
from mlm_consistency.records import open_run


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    return save_checkpoint(tmp_path_factory.mktemp("checkpoint") / "weights")


@pytest.fixture
def refused(tmp_path, capsys, checkpoint):
    """Runs `score` and returns its message, after seeing that nothing was written."""

    def run(*more: str, command: str = "score", **changes) -> str:
        if not (tmp_path / "questions.jsonl").exists():
            write_questions(tmp_path / "questions.jsonl", 4)
        before = tree(tmp_path)
        changes.setdefault("CHECKPOINT_PATH", checkpoint)
        status = main([command, *arguments(tmp_path, **changes), *more])
        message = capsys.readouterr().err
        assert status == 2, message
        assert "Traceback" not in message
        assert tree(tmp_path) == before, "something was written"
        (error,) = [line for line in message.split("\n") if line.startswith("mlm-consistency")]
        return message[message.index(error) :]

    return run


# ---- data ----------------------------------------------------------------------------------------


def test_missing_data_folder(refused, tmp_path):
    message = refused(DATA_DIR=tmp_path / "nowhere", MIXTURE_OR_TASK_NAME="mmlu")
    assert str(tmp_path / "nowhere") in message
    assert "'mmlu'" in message
    assert "SUBJECT_{dev,val,test}.csv" in message, "what was expected there"


def test_data_dir_not_given(refused):
    assert "DATA_DIR" in refused(DATA_DIR=None)


def test_missing_file_of_a_subject(refused, tmp_path):
    (tmp_path / "test").mkdir()
    message = refused(
        DATA_DIR=tmp_path, MIXTURE_OR_TASK_NAME="mmlu", task__subjects="('astronomy',)"
    )
    assert "astronomy_test.csv" in message


GOOD_ROW = '"Where is Mia, who went to the attic?",attic,barn,"park, or so",lake,A\n'


@pytest.mark.parametrize(
    ("rows", "line", "says"),
    [
        (GOOD_ROW + "Where is Mia?,attic,barn,park,A\n", 2, "expected 6 columns"),
        (GOOD_ROW * 2 + "Where is Mia?,attic,barn,park,lake,E\n", 3, "must be A, B, C or D"),
        (GOOD_ROW + '"Where is Mia?,attic,barn,park,lake,A\n', 2, "not CSV"),
        (GOOD_ROW + "Where is Mia?,attic,,park,lake,A\n", 2, "candidate 1 is empty"),
        (GOOD_ROW + ",attic,barn,park,lake,A\n", 2, "the prompt is empty"),
    ],
    ids=["columns", "label", "quote", "empty_option", "empty_question"],
)
def test_malformed_row_of_mmlu(refused, tmp_path, rows, line, says):
    (tmp_path / "test").mkdir()
    file = tmp_path / "test" / "astronomy_test.csv"
    file.write_text(rows)
    message = refused(
        DATA_DIR=tmp_path, MIXTURE_OR_TASK_NAME="mmlu", task__subjects="('astronomy',)"
    )
    assert f"{file} line {line}" in message
    assert says in message


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"candidates": ["2", "", "4"]}, "candidate 1 is empty or blank ('')"),
        ({"candidates": ["2", " \t", "4"]}, "candidate 1 is empty or blank"),
        ({"candidates": []}, "no candidates"),
        ({"candidates": ["2", "4", "\u200b"]}, "candidate 2"),
        ({"candidates": ["<extra_id_0>", "4", "5"]}, "sentinel <extra_id_0>"),
        ({"label": 4}, "label 4 is out of range"),
        ({"label": -1}, "label -1 is out of range"),
        ({"label": "A"}, "'label' must be a whole number"),
        ({"label": []}, "'label' must be a position"),
        ({"prompt": "  "}, "the prompt is empty"),
        ({"prompt": "<extra_id_3> Tom has"}, "sentinel <extra_id_3>"),
        ({"prompt": None}, "'prompt' must be a string"),
        ({"id": "q0"}, "line 1 already"),
    ],
    ids=[
        "empty", "blank", "none", "no_tokens", "sentinel", "label_high", "label_low", "label_text",
        "no_label", "blank_prompt", "prompt_sentinel", "no_prompt", "repeated_id",
    ],
)  # fmt: skip
def test_bad_row_of_ones_own(refused, tmp_path, changes, says):
    file = write_questions(
        tmp_path / "questions.jsonl", [question(0), question(1), question(2, **changes)]
    )
    message = refused()
    assert says in message
    assert f"{file} line 3" in message or "example 'q2'" in message


def test_line_that_is_not_json(refused, tmp_path):
    file = tmp_path / "questions.jsonl"
    file.write_text(json.dumps(question()) + "\n\n{'prompt': 'Tom has'}\n")
    message = refused()
    assert f"{file} line 3" in message
    assert "not JSON" in message


def test_no_example_passes_the_filters(refused):
    message = refused(task__encoder_longer_than=10_000)
    assert "no example passes the filters" in message


def test_prompts_longer_than_the_longest_row_are_listed(refused, tmp_path):
    rows = [question(n) for n in range(4)]
    long = "Tom bought 4 apples. " * 30
    rows += [question(n, prompt=long + "He now has") for n in range(4, 16)]
    write_questions(tmp_path / "questions.jsonl", rows)
    message = refused(TASK_FEATURE_LENGTHS="{'inputs': 128, 'targets': 64}")
    assert "12 examples are longer than the longest row (128 encoder tokens" in message
    assert message.count("encoder tokens, ") >= 10
    assert "  q4: " in message
    assert "  q13: " in message
    assert "  and 2 more" in message
    assert "TASK_FEATURE_LENGTHS" in message
    assert "max_prompt_tokens" in message
    # What it says to set does it.
    lengths = message[message.index("{'inputs'") : message.index("}") + 1]
    write_questions(tmp_path / "questions.jsonl", rows)
    assert main(["score", *arguments(tmp_path, TASK_FEATURE_LENGTHS=lengths), "--check"]) == 0


def test_candidates_longer_than_the_longest_tree_are_listed(refused, tmp_path):
    rows = [question(0), question(1, candidates=["4", "Tom ate apples " * 20])]
    write_questions(tmp_path / "questions.jsonl", rows)
    message = refused(TASK_FEATURE_LENGTHS="{'inputs': 256, 'targets': 32}")
    assert "1 examples are longer" in message
    assert "  q1: " in message
    assert "decoder nodes" in message


def test_prompts_longer_than_the_rows_that_are_given(refused):
    message = refused(packing__row_lengths="(16, 24)")
    assert "longest row (24 encoder tokens" in message
    assert "packing.row_lengths" in message


# ---- names ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "meant"),
    [
        ({"MIXTURE_OR_TASK_NAME": "stories_choise"}, "'stories_choice'"),
        ({"CONDITIONALS": "baseline,ofset_1"}, "'offset_1'"),
        ({"CONDITIONALS": "mmul"}, "'mmlu'"),
        ({"MODEL": "ul2_20"}, "'ul2_20b'"),
        ({"CHECKPONT_PATH": "x"}, "'CHECKPOINT_PATH'"),
        ({"ngl/task.limit": 3, "stories_choise/task.limit": 3}, "'stories_choice'"),
        (
            {"MIXTURE_OR_TASK_NAME": "mmlu", "task__subjects": "('astronomi',)", "DATA_DIR": "."},
            "'astronomy'",
        ),
    ],
    ids=["task", "conditional", "preset", "model", "macro", "scope", "subject"],
)
def test_unknown_names_get_the_nearest_ones(refused, changes, meant):
    changes.pop("ngl/task.limit", None)
    message = refused(**changes)
    assert "Did you mean" in message
    assert meant in message


def test_unknown_command(capsys):
    assert main(["scoer"]) == 2
    message = capsys.readouterr().err
    assert "unknown command 'scoer'. Did you mean 'score'" in message


def test_unknown_setting(refused):
    message = refused(packing__tokens_per_batchs=512)
    assert "tokens_per_batchs" in message


def test_unknown_configurable(refused):
    assert "paking.tokens_per_batch" in refused(paking__tokens_per_batch=512)


def test_missing_gin_file(refused):
    message = refused("--gin_file=gin/runs/nowhere.gin")
    assert "'gin/runs/nowhere.gin'" in message


def test_mistake_in_a_gin_file_is_named_with_its_file(refused, tmp_path):
    file = tmp_path / "wrong.gin"
    file.write_text("CONDITIONALS = 'mmlu'\npacking.tokens_per_batch = = 5\n")
    assert str(file) in refused(f"--gin_file={file}")
    file.write_text("CONDITIONALZ = 'mmlu'\n")
    message = refused(f"--gin_file={file}")
    assert str(file) in message
    assert "'CONDITIONALS'" in message


@pytest.mark.parametrize("flag", ["--gin.=3", "--gin.MODE"])
def test_flag_without_name_or_value(refused, flag):
    assert "--gin.NAME=VALUE" in refused(flag)


# ---- settings ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["MIXTURE_OR_TASK_NAME", "CHECKPOINT_PATH", "VOCABULARY", "OUTPUT_DIR"]
)
def test_macros_that_are_needed(refused, name):
    changes = {name: None}
    message = refused(**changes)
    assert f"{name} is not set" in message
    assert f"--gin.{name}=" in message


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"MESH_SHAPE": 8}, "MESH_SHAPE must be (data, model), came 8"),
        ({"MESH_SHAPE": "('a', 1)"}, "MESH_SHAPE"),
        ({"MESH_SHAPE": "(3, 5)"}, "MESH_SHAPE = (3, 5) needs 15 devices"),
        ({"MESH_SHAPE": "(0, 0)"}, "MESH_SHAPE"),
        ({"packing__tokens_per_batch": 0}, "tokens_per_batch must be positive"),
        ({"packing__tokens_per_batch": "many"}, "tokens_per_batch"),
        ({"packing__row_lengths": 64}, "row_lengths"),
        ({"TASK_FEATURE_LENGTHS": 128}, "TASK_FEATURE_LENGTHS"),
        ({"TASK_FEATURE_LENGTHS": "{'input': 128}"}, "TASK_FEATURE_LENGTHS"),
        ({"COMPUTE_DTYPE": "float16"}, "float16"),
        ({"MODE": "NLX", "FAMILY": "ul2"}, "NLX"),
        ({"MODE": "NLG", "FAMILY": "t5"}, "no mode words"),
        ({"FAMILY": "bert"}, "unknown family 'bert'"),
        ({"task__limit": 0}, "limit must be a whole number >= 1"),
        ({"task__limit": "all"}, "limit must be a whole number >= 1"),
        ({"MIXTURE_OR_TASK_NAME": "('jsonl', 'jsonl')"}, "names a task twice"),
        ({"CONDITIONALS": "offset_1,baseline"}, "the first conditional must be a baseline"),
        ({"CONDITIONALS": "baseline,offset_0"}, "offset_0"),
        ({"CONDITIONALS": "baseline,offset_1,offset_1"}, "given twice: offset_1"),
        ({"SHARD_WEIGHTS_OVER_DATA": "yes"}, "SHARD_WEIGHTS_OVER_DATA"),
    ],
)
def test_settings_that_cannot_be(refused, changes, says):
    assert says in refused(**changes)


def test_missing_vocabulary(refused, tmp_path):
    assert str(tmp_path / "nowhere") in refused(VOCABULARY=tmp_path / "nowhere")


def test_missing_checkpoint(refused, tmp_path):
    message = refused(CHECKPOINT_PATH=tmp_path / "nowhere")
    assert str(tmp_path / "nowhere") in message
    assert "no such folder" in message


def test_vocabulary_with_more_ids_than_the_network_has_rows(refused, tmp_path):
    save_checkpoint(tmp_path / "narrow", vocab_size=500)
    message = refused(CHECKPOINT_PATH=tmp_path / "narrow")
    assert "VOCABULARY 'tiny'" in message
    assert "500 rows" in message


def test_model_that_the_checkpoint_is_not(refused):
    message = refused(MODEL="t5_small")
    assert "token_embedder" in message or "t5_small" in message


def test_output_dir_that_is_a_file(refused, tmp_path):
    (tmp_path / "taken").write_text("")
    message = refused(OUTPUT_DIR=tmp_path / "taken")
    assert str(tmp_path / "taken") in message


# ---- scores that are not finite ------------------------------------------------------------------


def test_a_checkpoint_that_holds_nan_is_refused_by_leaf(tmp_path, capsys):
    write_questions(tmp_path / "questions.jsonl", 4)
    save_checkpoint(tmp_path / "checkpoint", poison="decoder/layers/mlp/wo")
    assert main(["score", *arguments(tmp_path)]) == 2
    message = capsys.readouterr().err
    assert "mlp" in message
    assert "nan" in message
    assert not list(tmp_path.glob("run/records/*"))


def test_a_score_that_is_not_finite_names_example_and_conditional(
    tmp_path, capsys, checkpoint, monkeypatch
):
    """The third shard's second question overflows: the first two shards stay, nothing after."""
    from mlm_consistency.scoring.loop import ScoringLoop

    compute = ScoringLoop._compute

    def overflowing(self, work):
        scored = compute(self, work)
        if work.shard == 2:
            scored.token_log_probs[1][2][3][-1] = -np.inf
        return scored

    monkeypatch.setattr(ScoringLoop, "_compute", overflowing)
    write_questions(tmp_path / "questions.jsonl", [question(n) for n in range(60, 90)])
    flags = arguments(tmp_path, CHECKPOINT_PATH=checkpoint)
    assert main(["score", *flags]) == 2
    message = capsys.readouterr().err
    assert "not finite" in message
    assert "example 'q77'" in message
    assert "conditional 'span_3_5_1'" in message
    assert "candidate 3 ('red apples')" in message
    run = open_run(tmp_path / "run", allow_incomplete=True)
    assert run.shards == {"jsonl": (0, 1)}

    monkeypatch.undo()
    assert main(["score", *flags]) == 0, "the same command goes on"
    assert open_run(tmp_path / "run").complete
