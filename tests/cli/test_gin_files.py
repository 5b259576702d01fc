"""Gin at the border: files, flags, what overrides what, and the settings that come of it."""

from __future__ import annotations

import re

import gin
import pytest
from command_line import arguments, write_questions

from mlm_consistency.cli import gin_files
from mlm_consistency.cli.main import COMMANDS, HELP, main
from mlm_consistency.cli.settings import MACROS, family_of, macro, score_config
from mlm_consistency.errors import ConfigError
from mlm_consistency.scoring.mesh import MeshConfig

RUN = "gin/runs/tiny_stories.gin"


def load(*bindings: str, files=(RUN,), search_paths: str = "") -> None:
    gin_files.load(files, bindings, search_paths, MACROS)


def test_the_run_that_ships():
    load()
    config = score_config()
    assert [task.name for task in config.tasks] == ["stories_last_word", "stories_choice"]
    assert all(task.encoder_longer_than == 20 for task in config.tasks)
    assert len(config.conditionals) == 10
    assert (config.checkpoint_path, config.vocabulary) == ("tiny", "tiny")
    assert (config.mode, config.family) == ("NLG", "ul2")
    assert config.model is None, "recognised from the checkpoint"
    assert (config.packing.max_encoder_length, config.packing.max_decoder_length) == (256, 128)
    assert config.mesh == MeshConfig(0, 1)


def test_later_files_and_flags_override_earlier_ones(tmp_path):
    (tmp_path / "one.gin").write_text("CONDITIONALS = 'bbh'\nMODE = 'S2S'\n")
    (tmp_path / "two.gin").write_text("CONDITIONALS = 'lambada'\n")
    load(files=(RUN, "one.gin", "two.gin"), search_paths=f"nowhere,{tmp_path}")
    assert (macro("CONDITIONALS"), macro("MODE")) == ("lambada", "S2S")
    load("CONDITIONALS = 'baseline'", files=(RUN, "one.gin"), search_paths=str(tmp_path))
    assert macro("CONDITIONALS") == "baseline"
    load()
    assert macro("MODE") == "NLG", "nothing is left of an earlier run"


def test_files_may_include_others(tmp_path):
    (tmp_path / "mine.gin").write_text(f"include '{RUN}'\nCONDITIONALS = 'bbh'\n")
    load(files=(str(tmp_path / "mine.gin"),))
    assert macro("CONDITIONALS") == "bbh"
    assert macro("CHECKPOINT_PATH") == "tiny"


@pytest.mark.parametrize(
    ("value", "becomes"),
    [
        ("runs/a", "runs/a"),
        ("gs://bucket/a b", "gs://bucket/a b"),
        ("'quoted'", "quoted"),
        ("baseline,offset_1", "baseline,offset_1"),
        ("8192", 8192),
        ("(4, 2)", (4, 2)),
        ("None", None),
        ("it's", "it's"),
        ("a = b", "a = b"),
        ("", ""),
    ],
)
def test_plain_text_needs_no_quotes(value, becomes):
    others, bindings = gin_files.split_bindings(["--x", f"--gin.OUTPUT_DIR={value}"])
    assert others == ["--x"]
    load(*bindings)
    assert macro("OUTPUT_DIR") == becomes


@pytest.mark.parametrize("value", ["'runs/a", 'runs/a"', "'"])
def test_a_quote_without_its_other_one_is_refused(value):
    with pytest.raises(ConfigError, match="a quote without its other one"):
        gin_files.split_bindings([f"--gin.OUTPUT_DIR={value}"])


def test_the_model_that_ships_is_among_those_that_are_offered():
    load("MODEL = 'tinny'")
    with pytest.raises(ConfigError, match="Did you mean 'tiny'"):
        score_config()


def test_an_empty_folder_is_none():
    """`--gin.OUTPUT_DIR=$UNSET` once wrote the run into the root of the disk."""
    load("OUTPUT_DIR = ''")
    with pytest.raises(ConfigError, match="OUTPUT_DIR is not set"):
        score_config()


@pytest.mark.parametrize(
    ("binding", "nearest"),
    [
        ("packin.tokens_per_batch = 3", "'packing'"),
        ("packing.token_per_batch = 3", "'tokens_per_batch'"),
        ("stories_choice/task.limt = 3", "'limit'"),
    ],
)
def test_a_misspelt_binding_is_answered_with_the_nearest_name(binding, nearest):
    with pytest.raises(ConfigError, match=f"Did you mean {nearest}"):
        load(binding)


def test_every_configurable_is_among_those_that_are_offered():
    files = (gin_files.PACKAGE_ROOT / "mlm_consistency/cli").glob("*.py")
    source = "".join(path.read_text() for path in files)
    bound = re.findall(r'(?:external_configurable\(\w+, |@gin\.configurable\()"(\w+)"', source)
    assert sorted(bound) == list(gin_files.CONFIGURABLES)


def test_bindings_of_one_task_alone():
    load("task.limit = 50", "stories_choice/task.limit = 7")
    limits = {task.name: task.limit for task in score_config().tasks}
    assert limits == {"stories_last_word": 50, "stories_choice": 7}


def test_tasks_of_the_paper_bring_their_filters(tmp_path):
    load(
        "MIXTURE_OR_TASK_NAME = 'mmlu_ul2'", f"DATA_DIR = '{tmp_path}'",
        files=("gin/runs/tiny_stories.gin",),
    )  # fmt: skip
    (task,) = score_config().tasks
    assert (task.name, task.label, task.first_row) == ("mmlu", "mmlu_ul2", "drop")
    assert task.candidates_shorter_than == 5
    assert task.data_dir == str(tmp_path)


def test_lengths_of_rows_come_from_the_macro_unless_bound_themselves():
    load("packing.max_decoder_length = 77")
    packing = score_config().packing
    assert (packing.max_encoder_length, packing.max_decoder_length) == (256, 77)


def test_weights_over_data():
    load("SHARD_WEIGHTS_OVER_DATA = True", "MESH_SHAPE = (2, 4)")
    assert score_config().mesh == MeshConfig(2, 4, shard_weights_over_data=True)


def test_the_operative_configuration_gives_the_same_run(tmp_path):
    load("stories_choice/task.limit = 7", "packing.tokens_per_batch = 512", "MESH_SHAPE = (1, 1)")
    before, text = score_config(), gin_files.operative()
    (tmp_path / "config.gin").write_text(text)
    gin.clear_config()
    load(files=(str(tmp_path / "config.gin"),))
    assert score_config() == before


def test_a_macro_may_be_a_reference():
    load("OUTPUT_DIR = %CHECKPOINT_PATH")
    assert macro("OUTPUT_DIR") == "tiny"


@pytest.mark.parametrize(
    ("model", "family"),
    [("flan_t5_base", "flan"), ("flan_ul2", "flan"), ("ul2_20b", "ul2"), ("tiny", "ul2"),
     ("t5_11b", "t5"), ("mt5_base", "t5"), (None, "t5"), ("/models/flan-t5-base", "flan"),
     ("gs://bucket/ul2/checkpoint_2650000", "ul2"), ("/models/flanders/t5_base", "t5")],
)  # fmt: skip
def test_the_family_follows_the_model(model, family):
    assert family_of(model) == family


def test_a_macro_that_nothing_reads_is_an_error():
    with pytest.raises(ConfigError, match="OUTPUT_DIRR"):
        load("OUTPUT_DIRR = 'a'")


def test_every_command_has_a_line_of_help():
    assert COMMANDS.keys() == HELP.keys()


@pytest.mark.parametrize("argument", [[], ["--help"], ["-h"], ["help"]])
def test_usage_lists_the_commands(argument, capsys):
    assert main(argument) == 0
    shown = capsys.readouterr().out
    assert all(f"\n  {name}" in shown for name in COMMANDS)


def test_version(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.strip()


def test_check_counts_and_writes_nothing(tmp_path, capsys):
    write_questions(tmp_path / "questions.jsonl", 9)
    flags = arguments(tmp_path, task__encoder_longer_than=30)
    assert main(["score", *flags, "--check"]) == 0
    shown = capsys.readouterr().err
    assert "task jsonl: " in shown
    assert "dropped " in shown
    assert [path.name for path in tmp_path.iterdir()] == ["questions.jsonl"]
