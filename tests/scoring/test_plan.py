"""Plans: by formula, compiled on simulated devices, and with the TPU compiler where it is."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest

from mlm_consistency.cli import plan as command
from mlm_consistency.errors import ConfigError, UnknownNameError
from mlm_consistency.models.config import T5Config
from mlm_consistency.models.presets import preset
from mlm_consistency.scoring import plan as planning
from mlm_consistency.scoring.compiled import (
    CompiledStep,
    CompileJob,
    compile_step,
    libtpu_installed,
    needed_bytes,
)
from mlm_consistency.scoring.hardware import ALL_TOPOLOGIES, DEVICES, device_of, parse_topology
from mlm_consistency.scoring.mesh import MeshConfig
from mlm_consistency.scoring.plan import PlanConfig, plan
from mlm_consistency.scoring.shapes import PackingConfig
from mlm_consistency.scoring.step import BatchShape
from mlm_consistency.scoring.task_lengths import load_lengths, read_lengths

GIB = 2**30
UL2 = dataclasses.replace(preset("ul2_20b"), dtype="bfloat16", param_dtype="bfloat16")
# No extent occurs twice, so that a gather of a weight cannot be taken for one of an activation.
SMALL = T5Config("small", 640, 96, 8, 20, 448, 2, 3, ("silu", "linear"))
SHAPE = BatchShape(((48, 3), (112, 2)), 2, 80, 40, 24, 32)
LENGTHS = read_lengths(
    {
        "task": "few",
        "family": "ul2",
        "conditionals": ["baseline", "offset_1", "span_3_5_1"],
        "prompt_tokens": np.random.default_rng(0).integers(15, 60, 40).tolist(),
        "branch_nodes": 3,
        "read_nodes": 2,
        "scored_pairs": 5,
    },
    "test",
)
KEYS = {
    *("topology", "devices", "mesh", "compiled", "fits", "parameters", "bytes_per_device"),
    *("rows_per_batch", "flops", "collectives", "seconds", "chip_hours"),
}


def by_formula(model=UL2, tasks=("mmlu_ul2",), **more) -> PlanConfig:
    return PlanConfig(model, tuple(map(load_lengths, tasks)), compile=False, **more)


# ---- hardware ----------------------------------------------------------------------------------


def test_topologies_count_what_jax_shows():
    assert parse_topology("v5e:4x4").devices == 16
    assert (parse_topology("v3:2x2").devices, parse_topology("v3:2x2").chips) == (8, 4)
    assert parse_topology("V4:2x2x2").devices == 8
    assert parse_topology("h100-80:8").kind == "gpu"


@pytest.mark.parametrize("name", ["v5e", "v5e:4", "v4:2x2", "v5e:0x4", "h200:2x4", "cpu:x"])
def test_malformed_topologies_are_refused_with_an_example(name):
    with pytest.raises(ConfigError, match=name.partition(":")[0] + ":"):
        parse_topology(name)


def test_unknown_devices_are_answered_with_the_nearest():
    with pytest.raises(UnknownNameError, match="v5e"):
        parse_topology("v5:2x2")


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("TPU v5 lite", "v5e"),
        ("TPU v5", "v5p"),
        ("TPU v6 lite", "v6e"),
        ("TPU v4", "v4"),
        ("NVIDIA H100 80GB HBM3", "h100-80"),
        ("NVIDIA A100-SXM4-80GB", "a100-80"),
        ("NVIDIA L4", "a100-80"),
        ("cpu", "cpu"),
    ],
)
def test_devices_are_known_by_what_jax_calls_them(kind, name):
    assert device_of(kind).name == name


def test_softmax_costs_more_where_matrix_units_outrun_the_rest():
    assert DEVICES["v6e"].softmax_flops > DEVICES["v5p"].softmax_flops
    assert DEVICES["h100-80"].softmax_flops > DEVICES["a100-80"].softmax_flops > 1000
    assert DEVICES["cpu"].softmax_flops == PackingConfig().softmax_flops


# ---- by formula --------------------------------------------------------------------------------


@pytest.mark.parametrize("task", ["mmlu_ul2", "bbh_ul2", "lambada_ul2"])
def test_packing_costs_ul2_at_most_a_tenth_more_than_necessary(task):
    (row,) = plan(by_formula(tasks=(task,), topologies=("v5e:4x4",), mesh=MeshConfig(1, 16)))
    assert all(length % 128 == 0 for length, _ in row.shape.rows)
    assert 0 <= row.overhead <= 0.10


def test_all_topologies_side_by_side():
    rows = plan(by_formula(topologies=ALL_TOPOLOGIES))
    assert [row.topology.name for row in rows] == list(ALL_TOPOLOGIES)
    for row in rows:
        assert row.mesh.data * row.mesh.model == row.topology.devices
        assert not row.compiled
        assert "not compiled" in row.note
    alone = {row.topology.name: row for row in rows}
    assert alone["h200:1"].task_seconds > alone["h200:8"].task_seconds
    assert alone["a100-80:1"].task_seconds > alone["h100-80:1"].task_seconds


def test_a_mesh_for_other_slices_is_replaced_only_among_several():
    (_, row) = plan(by_formula(topologies=("v5e:4x4", "v5e:2x2"), mesh=MeshConfig(1, 16)))
    assert row.mesh.model == 4
    assert "another mesh" in row.note
    with pytest.raises(ConfigError, match="mesh 1x16 needs 16 devices; v5e:2x2 has 4"):
        plan(by_formula(topologies=("v5e:2x2",), mesh=MeshConfig(1, 16)))


def test_weights_that_fit_no_model_axis_are_sharded_over_data_too():
    huge = dataclasses.replace(preset("t5_11b"), num_heads=2, name="huge")
    (row,) = plan(by_formula(huge, topologies=("v5e:4x4",)))
    assert row.mesh.shard_weights_over_data
    assert row.collectives["all-gather"] > 0


def test_idle_hosts_are_named():
    (row,) = plan(by_formula(topologies=("v5e:4x4",), mesh=MeshConfig(4, 4)))
    assert "3 of 4 hosts idle" in row.note
    packing = PackingConfig(examples_per_shard=57)
    (better,) = plan(by_formula(topologies=("v5e:4x4",), mesh=MeshConfig(4, 4), packing=packing))
    assert "idle" not in better.note
    assert better.task_seconds < 0.6 * row.task_seconds


def test_nonsense_is_refused():
    with pytest.raises(ConfigError, match="utilisation"):
        by_formula(topologies=("v5e:4x4",), utilisation=1.5)


# ---- what the compiler says --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("message", "needed"),
    [
        ("Ran out of memory in memory space hbm. Used 18.68G of 15.75G hbm. Exceeded", 18.68),
        ("for HLO temporaries (18.68G) exceeds available HBM (15.75G).", 18.68),
    ],
)
def test_a_refusal_is_read_for_its_figures(message, needed):
    assert needed_bytes(message) == (int(needed * GIB), int(15.75 * GIB))
    assert needed_bytes("something else") == (0, 0)


def test_a_refused_step_is_reported_as_not_fitting(monkeypatch):
    refused = CompiledStep((2, 2), 1, 9 * GIB, 0, 9 * GIB, "RESOURCE_EXHAUSTED: no", 15 * GIB, (),
                           ())  # fmt: skip
    monkeypatch.setattr(planning, "compile_step", lambda job: refused)
    config = PlanConfig(UL2, (load_lengths("mmlu_ul2"),), ("v5e:2x2",), MeshConfig(2, 2))
    (row,) = plan(config)
    assert not row.fits
    assert "refused by the compiler: RESOURCE_EXHAUSTED" in row.note
    assert row.as_json()["seconds"] == {"step": None, "task": None}
    # two thirds of a batch of 6 rows on each of 2 slots
    assert row.rows_per_batch == int(sum(n for _, n in row.shape.rows) * 2 * 6 / 9)


def test_the_largest_batch_is_confirmed_by_compiling(monkeypatch):
    def compiled(job):
        rows = job.shape.rows[0][1]
        limit = 10 * GIB
        refused = "RESOURCE_EXHAUSTED" if rows * GIB > 64 * GIB else ""
        return CompiledStep((1, 4), 1, GIB, GIB, rows * GIB // 8, refused, limit, (), ())

    monkeypatch.setattr(planning, "compile_step", compiled)
    lengths = (load_lengths("mmlu_ul2"),)
    config = PlanConfig(UL2, lengths, ("v5e:2x2",), MeshConfig(1, 4), confirm_rows=True)
    (row,) = plan(config)
    each = row.shape.rows[0][1]
    assert row.rows_per_batch == 64 // each * each


@pytest.fixture(scope="module")
def over_model() -> CompiledStep:
    return compile_step(CompileJob("cpu:8", SMALL, MeshConfig(2, 4), SHAPE))


def test_the_step_compiles_on_simulated_devices(over_model):
    assert over_model.mesh == (2, 4)
    whole = 4 * SMALL.parameter_count()
    assert whole / 4 < over_model.weights < whole / 4 * 1.1
    # weights and an int32 batch, as the compiler lays them out
    batch = 4 * sum(int(np.prod(shape)) for shape in SHAPE.arrays().values())
    assert over_model.arguments == pytest.approx(over_model.weights + batch, rel=0.01)
    assert over_model.temporary > 0


def test_sharded_over_the_model_axis_alone_no_weight_is_gathered(over_model):
    assert over_model.gathered_weights == ()
    kinds = {one.kind for one in over_model.collectives}
    assert kinds == {"all-reduce"}
    # Two in each encoder layer for each of two row lengths, three in each decoder layer.
    encoder = [c for c in over_model.collectives if c.times == SMALL.encoder_layers]
    decoder = [c for c in over_model.collectives if c.times == SMALL.decoder_layers]
    assert (len(encoder), len(decoder)) == (4, 3)
    assert {one.group for one in over_model.collectives} == {4}


def test_weights_over_the_data_axis_too_take_less_memory_and_are_gathered(over_model):
    step = compile_step(CompileJob("cpu:8", SMALL, MeshConfig(2, 4, True), SHAPE))
    assert step.weights < 0.6 * over_model.weights
    assert step.gathered_weights


def test_the_cap_by_heads_is_explained():
    few = dataclasses.replace(SMALL, num_heads=4)
    with pytest.raises(ConfigError, match=r"model axis 8 does not divide 4 heads .* at most 4"):
        compile_step(CompileJob("cpu:8", few, MeshConfig(1, 8), SHAPE))


# ---- the TPU compiler --------------------------------------------------------------------------


@pytest.mark.skipif(not libtpu_installed(), reason="needs libtpu (extra `tpu`)")
def test_ul2_compiles_for_a_v5e_slice_and_is_refused_by_a_small_one():
    lengths = (load_lengths("mmlu_ul2"),)
    fitting = PlanConfig(UL2, lengths, ("v5e:4x4",), MeshConfig(1, 16))
    (row,) = plan(fitting)
    assert row.compiled
    assert row.fits
    assert row.temporary < 1.5 * GIB
    assert 2.2 * GIB < row.weights < 2.35 * GIB
    assert row.gathered_weights == 0
    assert row.collectives["all-reduce"] > 0
    (row,) = plan(dataclasses.replace(fitting, topologies=("v5e:2x2",), mesh=MeshConfig(2, 2)))
    assert not row.fits
    assert "refused by the compiler" in row.note
    assert row.memory == int(15.75 * GIB)


# ---- the command -------------------------------------------------------------------------------


def test_the_command_gives_json_with_the_promised_keys(capsys):
    arguments = ["--model=ul2_20b", "--task=mmlu", "--topology=v5e:4x4", "--no_compile", "--json"]
    assert command.run(arguments) == 0
    found = json.loads(capsys.readouterr().out)
    assert set(found) == KEYS
    assert set(found["bytes_per_device"]) == {"weights", "temporary", "memory"}
    assert set(found["flops"]) == {"necessary", "computed"}
    assert set(found["seconds"]) == {"step", "task"}
    assert found["parameters"] == UL2.parameter_count()


def test_the_command_prints_a_table_for_people(capsys, tmp_path):
    saved = tmp_path / "lengths.json"
    arguments = ["--model=ul2_20b", "--task=mmlu,bbh", "--topology=h100-80:1,h100-80:8"]
    assert command.run([*arguments, f"--save_lengths={saved}"]) == 0
    out = capsys.readouterr().out
    assert "19.46 B parameters" in out
    assert "h100-80:8" in out
    assert load_lengths(str(saved)).task == "mmlu_ul2"


@pytest.mark.parametrize(
    ("more", "bytes_of_a_weight"),
    [([], 2), (["--dtype=float32"], 4), (["--topology=cpu:4"], 4)],
    ids=["of the hardware", "asked for", "of a CPU"],
)
def test_data_types_are_those_of_the_hardware_unless_asked_for(more, bytes_of_a_weight, capsys):
    arguments = ["--model=t5_small", "--task=mmlu", "--topology=v5e:2x2", "--mesh=4x1"]
    assert command.run([*arguments, "--no_compile", "--json", *more]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["bytes_per_device"]["weights"] == bytes_of_a_weight * found["parameters"]


def test_the_command_takes_gin(capsys, tmp_path):
    arguments = [
        *("--gin.MODEL=t5_small", "--gin.COMPUTE_DTYPE=bfloat16", "--gin.MESH_SHAPE=(4, 2)"),
        *("--gin.packing.tokens_per_batch=1024", "--task=mmlu", "--topology=v5e:2x4"),
    ]
    assert command.run([*arguments, "--no_compile", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["mesh"] == {"data": 4, "model": 2}


def test_the_lengths_of_the_tasks_that_ship_are_counted(capsys):
    arguments = ["--gin_file=gin/runs/tiny_stories.gin", "--topology=cpu:2", "--no_compile"]
    assert command.run(arguments) == 0
    said = capsys.readouterr().out
    assert "stories_last_word: 399 examples x 10 conditionals" in said
    assert "stories_choice: 400 examples x 10 conditionals" in said
