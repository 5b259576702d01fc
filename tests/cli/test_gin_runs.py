"""Every run with every hardware file, composed and validated without a device; what headers say."""

from __future__ import annotations

import dataclasses
import re
import shlex
import types
from pathlib import Path
from typing import Any

import pytest

from mlm_consistency.analysis.paper import paper_curve
from mlm_consistency.checkpoints.architecture import architecture
from mlm_consistency.checkpoints.checkpoint import open_checkpoint
from mlm_consistency.cli import bigrams, gin_files, plan, pretrain
from mlm_consistency.cli.analyze import analysis_config
from mlm_consistency.cli.settings import MACROS, macro, score_config
from mlm_consistency.models.bert_config import BertConfig
from mlm_consistency.models.config import DTYPES, T5Config
from mlm_consistency.scoring.estimates import weight_bytes
from mlm_consistency.scoring.hardware import Topology, parse_topology
from mlm_consistency.scoring.mesh import MeshConfig, check_model_fits_mesh, fitted
from mlm_consistency.scoring.plan import PlanConfig
from mlm_consistency.scoring.task_lengths import load_lengths

ROOT = Path(__file__).resolve().parents[2]
RUNS = sorted(path.stem for path in (ROOT / "gin" / "runs").glob("*.gin"))
# What each hardware file is for, as `plan` writes it.
HARDWARE = {
    "cpu": "cpu:1",
    "v4_8": "v4:2x2x1",
    "v5e_16": "v5e:4x4",
    "v5p_8": "v5p:2x2x1",
    "a100x8": "a100-80:8",
    "h100x1": "h100-80:1",
}
# The paper's cells: the run, and the name of its recorded curve.
CELLS = {
    f"{model}_{task}": f"{name} {task.upper()}"
    for model, name in (("ul2_20b", "UL2"), ("t5_11b", "T5"))
    for task in ("mmlu", "bbh", "lambada")
}


def header(path: Path) -> str:
    """The comment at the top of a gin file, with its line breaks."""
    lines = []
    for line in path.read_text().splitlines():
        if not line.startswith("#"):
            break
        lines.append(line.removeprefix("#").removeprefix(" "))
    return "\n".join(lines)


def command(run: str) -> tuple[str, list[str]]:
    """The command in a run's header, and its arguments."""
    text = header(ROOT / "gin" / "runs" / f"{run}.gin").replace("\\\n", " ")
    found, *_ = re.findall(r"^  mlm-consistency (.*)$", text, re.MULTILINE)
    name, *arguments = shlex.split(found)
    return name, arguments


def compose(run: str, hardware: str, macros: dict[str, Any]) -> None:
    """Loads what the header's command loads, with that hardware file in place of its own."""
    others, bindings = gin_files.split_bindings(command(run)[1])
    files = [word.removeprefix("--gin_file=") for word in others]
    assert files[0] == f"gin/runs/{run}.gin"
    files = [file for file in files if not file.startswith("gin/hardware/")]
    gin_files.load([*files, f"gin/hardware/{hardware}.gin"], bindings, "", macros)


def check_network(model: Any, mesh: tuple[int, int], topology: Topology) -> MeshConfig:
    """Holds a network against the devices of a topology; returns the mesh with both axes."""
    dtypes = {"dtype": macro("COMPUTE_DTYPE"), "param_dtype": macro("PARAMETER_DTYPE")}
    assert set(dtypes.values()) <= set(DTYPES)
    model = dataclasses.replace(model, **dtypes)
    fit = fitted(MeshConfig(*mesh), model)
    whole = MeshConfig(fit.data or topology.devices // fit.model, fit.model)
    assert whole.data * whole.model == topology.devices
    shape = {"data": whole.data, "model": whole.model}
    check_model_fits_mesh(model, types.SimpleNamespace(shape=shape))  # type: ignore[arg-type]
    # Nobody is to think that 20 B parameters fit on a laptop.
    if isinstance(model, T5Config) and topology.kind != "cpu":
        assert weight_bytes(model, whole) < 0.7 * topology.device.memory
    return whole


@pytest.mark.parametrize("hardware", HARDWARE)
@pytest.mark.parametrize("run", RUNS)
def test_a_run_composes_with_a_hardware_file(run, hardware):
    topology = parse_topology(HARDWARE[hardware])
    name, _ = command(run)
    if name == "bigrams":
        compose(run, hardware, bigrams.MACROS)
        bigrams.bigram_config(), bigrams.probe_config(), bigrams.ngram_config()
        tiny = macro("CHECKPOINT_PATH") == "tiny"
        bert = BertConfig()
        rounded = dataclasses.replace(bert, vocab_size=bert.vocab_rows)
        network = architecture(open_checkpoint("tiny")) if tiny else rounded
        check_network(network, macro("MESH_SHAPE"), topology)
        return
    compose(run, hardware, MACROS)
    if name == "pretrain":
        made = {"training": pretrain.training_config(), "batch": pretrain.batch_shape()}
        pretrain.pretrain_config(folder=macro("OUTPUT_DIR"), **made)
        return
    assert name == "run"
    config = score_config()
    analysis_config()
    assert config.output_dir == f"runs/{run}"
    assert len(config.conditionals) == 10
    model = config.model or architecture(open_checkpoint(config.checkpoint_path))
    check_network(model, (config.mesh.data, config.mesh.model), topology)


def test_every_hardware_file_is_composed_and_says_how_to_plan_for_it():
    folder = ROOT / "gin" / "hardware"
    assert {path.stem for path in folder.glob("*.gin")} == set(HARDWARE)
    for name, topology in HARDWARE.items():
        text = header(folder / f"{name}.gin")
        assert f"gin/hardware/{name}.gin" in text
        if parse_topology(topology).kind != "cpu":
            assert f"--topology={topology}" in text


def test_every_cell_of_the_paper_has_a_run():
    assert set(CELLS) <= set(RUNS)


@pytest.mark.parametrize("run", CELLS)
def test_the_header_of_a_cell_says_where_how_long_and_what_to_expect(run):
    text = " ".join(header(ROOT / "gin" / "runs" / f"{run}.gin").split())
    name, arguments = command(run)
    assert name == "run"
    assert any(word.startswith("--gin_file=gin/hardware/") for word in arguments)
    for needed in ("DATA_DIR", "CHECKPOINT_PATH", "VOCABULARY"):
        assert any(word.startswith(f"--gin.{needed}=") for word in arguments)
    curve = paper_curve(CELLS[run])
    first, last = 100 * curve.accuracy[0], 100 * curve.accuracy[-1]
    assert f"accuracy {first:.2f} % for the baseline, {last:.2f} % for the ten" in text
    assert f"disagreement {100 * curve.disagreement[-1]:.2f} %, n = {curve.examples}" in text
    assert re.search(r"Hardware: .*gin/hardware", text)
    assert set(times(text)) == {"v5e_16", "h100x1", "a100x8"}


def times(text: str) -> dict[str, float]:
    """Hardware file -> expected seconds, as a header has them."""
    found = re.findall(r"([\d.]+) (s|min) on (\w+)", text)
    return {name: float(value) * (60 if unit == "min" else 1) for value, unit, name in found}


@pytest.mark.parametrize("run", ["t5_11b_mmlu"])
def test_expected_times_are_those_of_plan(run):
    """Without the compiler, whose collectives may differ a little from the formula."""
    said = times(" ".join(header(ROOT / "gin" / "runs" / f"{run}.gin").split()))
    for hardware, seconds in said.items():
        compose(run, hardware, MACROS)
        config = score_config()
        assert config.model is not None
        model = dataclasses.replace(
            config.model, dtype=config.dtype, param_dtype=config.param_dtype
        )
        topology = HARDWARE[hardware]
        lengths = (load_lengths(config.tasks[0].label),)
        (row,) = plan.plan(
            PlanConfig(model, lengths, (topology,), config.mesh, config.packing, compile=False)
        )
        assert row.fits
        assert seconds == pytest.approx(row.task_seconds, rel=0.1)
