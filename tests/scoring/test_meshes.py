"""Meshes 1x1, 8x1, 4x2 and 2x4 on 8 simulated devices: the same scores, really sharded."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tiny_networks import RELU_TIED

from mlm_consistency.errors import ConfigError
from mlm_consistency.scoring.lanes import lanes_of, waves
from mlm_consistency.scoring.mesh import (
    MeshConfig,
    check_model_fits_mesh,
    fitted,
    make_mesh,
    partition_spec,
    rules_for,
)

HERE = Path(__file__).parent
DEVICES = 8
D, HK, F, V, H, LAYERS, BUCKETS = 32, 24, 64, 160, 4, 2, 32  # RELU_TIED


@pytest.fixture(scope="module")
def found():
    """What mesh_trial.py measured in a process with 8 devices."""
    environment = {
        **os.environ,
        "JAX_PLATFORMS": "cpu",
        "XLA_FLAGS": f"--xla_force_host_platform_device_count={DEVICES}",
        "PYTHONPATH": os.pathsep.join([str(HERE), *(p for p in sys.path if p)]),
    }
    done = subprocess.run(
        [sys.executable, HERE / "mesh_trial.py"],
        env=environment, capture_output=True, text=True, timeout=900,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_there_are_eight_devices(found):
    assert found["devices"] == DEVICES
    meshes = {name: tuple(entry["mesh"].values()) for name, entry in found["meshes"].items()}
    assert meshes["relu_tied 1x1"] == (1, 1)
    assert meshes["relu_tied 8x1"] == (8, 1)
    assert meshes["relu_tied 4x2"] == (4, 2)
    assert meshes["relu_tied 2x4"] == (2, 4)
    assert meshes["relu_tied 4x2 weights over data"] == (4, 2)


def test_every_mesh_gives_the_scores_of_one_device(found):
    one = found["meshes"]["relu_tied 1x1"]
    for name, entry in found["meshes"].items():
        if name.startswith("relu_tied"):
            assert np.abs(np.asarray(entry["scores"]) - one["scores"]).max() < 1e-5, name
        assert entry["alone"] < 1e-5, f"{name}: one prompt at a time, by the reference"
        assert entry["again"] < 1e-5, f"{name}: in shards of another size"
    assert len(found["meshes"]["relu_tied 1x1"]["scores"]) > 500


def test_data_slots_share_the_steps(found):
    steps = {name: entry["steps"] for name, entry in found["meshes"].items()}
    one = steps["relu_tied 1x1"]
    assert one >= 16, "enough batches that eight slots have something to share"
    for slots, name in ((8, "8x1"), (4, "4x2"), (2, "2x4")):
        assert steps[f"relu_tied {name}"] == -(-one // slots)


@pytest.mark.parametrize(("name", "data", "model"), [("8x1", 8, 1), ("4x2", 4, 2), ("2x4", 2, 4)])
def test_weights_are_split_over_the_model_axis_alone(found, name, data, model):
    weights = found["meshes"][f"relu_tied {name}"]["weights"]
    expected = {
        "query": ([LAYERS, D, HK], [LAYERS, D, HK // model]),
        "out": ([LAYERS, HK, D], [LAYERS, HK // model, D]),
        "wo": ([LAYERS, F, D], [LAYERS, F // model, D]),
        "embedding": ([V, D], [V // model, D]),
        "bias": ([H, BUCKETS], [H // model, BUCKETS]),
        "norm": ([LAYERS, D], [LAYERS, D]),
    }
    for key, (whole, shard) in expected.items():
        entry = weights[key]
        assert entry["shape"] == whole
        assert entry["shard"] == [shard], key
        assert entry["devices"] == DEVICES
        assert entry["distinct"] == (1 if key == "norm" else model)


def test_weights_are_split_over_data_too_where_asked(found):
    weights = found["meshes"]["relu_tied 4x2 weights over data"]["weights"]
    assert weights["query"]["shard"] == [[LAYERS, D // 4, HK // 2]]
    assert weights["out"]["shard"] == [[LAYERS, HK // 2, D // 4]]
    assert weights["embedding"]["shard"] == [[V // 2, D // 4]]
    assert weights["wo"]["distinct"] == DEVICES, "no device holds what another holds"


def test_untied_logits_are_split_over_the_vocabulary(found):
    weights = found["meshes"]["gelu_untied 4x2"]["weights"]
    assert weights["logits"]["shape"] == [D, V]
    assert weights["logits"]["shard"] == [[D, V // 2]]


@pytest.mark.parametrize(("name", "data"), [("8x1", 8), ("4x2", 4), ("2x4", 2)])
def test_inputs_and_outputs_are_split_over_data(found, name, data):
    entry = found["meshes"][f"relu_tied {name}"]
    assert entry["out"]["shape"] == [data, found["shape"]]
    assert entry["out"]["shard"] == [[1, found["shape"]]]
    assert entry["out"]["distinct"] == data
    assert entry["tokens"]["distinct"] == data
    assert all(shard[0] == 1 for shard in entry["tokens"]["shard"])


class Device:
    """What a mesh needs to know of a device."""

    platform = "cpu"

    def __init__(self, number: int, process: int) -> None:
        self.id, self.process_index = number, process

    def __repr__(self) -> str:
        return f"Device({self.id})"


class Grid:
    """A mesh of devices that belong to processes, as `lanes_of` sees one."""

    def __init__(self, processes) -> None:
        rows = np.asarray(processes)
        self.shape = {"data": rows.shape[0], "model": rows.shape[1]}
        self.devices = np.empty(rows.shape, object)
        for at, process in np.ndenumerate(rows):
            self.devices[at] = Device(0, int(process))


@pytest.mark.parametrize(
    ("processes", "seen"),
    [
        ([[0, 0]], {0: (1, 0, 1, True)}),
        ([[0], [0], [1], [1]], {0: (2, 0, 2, True), 1: (2, 1, 2, True)}),
        # The model axis crosses two processes: one lane, which the first of them writes.
        ([[0, 1], [0, 1]], {0: (1, 0, 2, True), 1: (1, 0, 2, False)}),
        (
            [[0, 1], [2, 3]],
            {0: (2, 0, 1, True), 1: (2, 0, 1, False), 2: (2, 1, 1, True), 3: (2, 1, 1, False)},
        ),
    ],
    ids=["one_process", "data_over_processes", "model_over_processes", "both"],
)
def test_lanes_of_processes(processes, seen):
    for process, (count, mine, slots, writes) in seen.items():
        lanes = lanes_of(Grid(processes), process)
        assert (lanes.count, lanes.mine, lanes.slots, lanes.writes) == (count, mine, slots, writes)


@pytest.mark.parametrize("processes", [[[0], [0], [1]], [[0, 1], [1, 1]]])
def test_uneven_processes_are_refused(processes):
    with pytest.raises(ConfigError, match="hold its data slots unevenly"):
        lanes_of(Grid(processes), 0)


def test_a_process_without_a_device_is_refused():
    with pytest.raises(ConfigError, match="process 7 holds no device"):
        lanes_of(Grid([[0], [1]]), 7)


@pytest.mark.parametrize("lanes", [1, 2, 3, 8])
def test_waves_hold_each_shard_once(lanes):
    shards = [0, 2, 3, 7, 8]
    made = waves(shards, lanes)
    assert all(len(wave) == lanes for wave in made)
    assert [s for wave in made for s in wave if s is not None] == shards
    assert len(made) == -(-len(shards) // lanes)


def test_a_mesh_needs_as_many_devices_as_it_has_places():
    devices = [Device(i, 0) for i in range(8)]
    with pytest.raises(ConfigError) as caught:
        make_mesh(MeshConfig(3, 2), devices)
    message = str(caught.value)
    assert "MESH_SHAPE = (3, 2) needs 6 devices, but there are 8" in message
    assert "data * model = 8" in message
    with pytest.raises(ConfigError, match=r"\(1, 16\) needs 16 devices"):
        make_mesh(MeshConfig(0, 16), devices)
    for wrong in (MeshConfig(-1, 1), MeshConfig(1, 0)):
        with pytest.raises(ConfigError, match="data >= 0, model >= 1"):
            make_mesh(wrong, devices)


def test_data_0_takes_what_the_model_axis_leaves(found):
    import jax

    assert make_mesh(MeshConfig(0, 1)).shape["data"] == len(jax.devices())


def test_the_cap_of_the_heads_is_explained():
    class Eight:
        shape = {"data": 1, "model": 8}  # noqa: RUF012

    with pytest.raises(ConfigError) as caught:
        check_model_fits_mesh(RELU_TIED, Eight())
    message = str(caught.value)
    assert "model axis 8 does not divide 4 heads of relu_tied" in message
    assert "possible: [1, 2, 4]" in message


def test_rules_name_every_logical_axis_of_the_weights():
    rules = rules_for(MeshConfig())
    assert tuple(partition_spec(("layers", "embed", "joined_kv"), rules)) == (None, None, "model")
    split = rules_for(MeshConfig(shard_weights_over_data=True))
    assert tuple(partition_spec(("vocab", "embed"), split)) == ("model", "data")


@pytest.mark.parametrize(
    ("given", "heads", "came"),
    [
        (MeshConfig(0, 16), 16, 16),
        (MeshConfig(0, 16), 12, 4),
        (MeshConfig(0, 16), 4, 4),
        (MeshConfig(0, 4), 16, 4),
        (MeshConfig(1, 16), 4, 16),
    ],
)
def test_an_open_data_axis_leaves_the_model_axis_to_the_network(given, heads, came, caplog):
    model = dataclasses.replace(RELU_TIED, num_heads=heads, vocab_size=320, mlp_dim=64)
    assert fitted(given, model).model == came
    assert fitted(given, model).data == given.data
    assert ("relu_tied has" in caplog.text) == (came != given.model)
