"""Each process reads the slices that it holds, in bounded host memory."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
from checkpoint_forms import CONFIG, WRITTEN, random_parameters

from mlm_consistency.checkpoints.addresses import Folder
from mlm_consistency.checkpoints.checkpoint import checkpoint_of
from mlm_consistency.checkpoints.convert import write_checkpoint
from mlm_consistency.checkpoints.leaves import ComputedLeaf
from mlm_consistency.checkpoints.naming import expected_shapes
from mlm_consistency.models.config import T5Config

SCRIPT = Path(__file__).with_name("restore_process.py")
ROOT = Path(__file__).parents[2]
MIB = 2**20
# 432 MiB of weights, no leaf over 4 MiB, no parameter over 64 MiB (32 MiB in bfloat16).
WIDE = T5Config(
    name="wide",
    vocab_size=4096,
    d_model=256,
    num_heads=4,
    head_dim=64,
    mlp_dim=4096,
    encoder_layers=16,
    decoder_layers=16,
    mlp_activations=("silu", "linear"),
)
ALLOWED = 140 * MIB
FORMS = ("t5x", "huggingface")


def start(*arguments: str) -> subprocess.Popen:
    environment = {**os.environ, "JAX_PLATFORMS": "cpu", "PYTHONPATH": str(ROOT)}
    return subprocess.Popen(
        [sys.executable, str(SCRIPT), *arguments],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def results(*processes: subprocess.Popen) -> list[list[dict[str, int]]]:
    """What each process prints, a line a folder; none of them outlives this call."""
    try:
        outputs = [process.communicate(timeout=600) for process in processes]
    finally:
        for process in processes:
            process.kill()
    for process, (_, errors) in zip(processes, outputs, strict=True):
        assert process.returncode == 0, errors[-3000:]
    return [[json.loads(line) for line in out.splitlines()] for out, _ in outputs]


def test_a_checkpoint_several_times_larger_than_the_memory_allowed(tmp_path):
    """Peak of the host's memory against 432 MiB of weights: less than a third is allowed."""
    dtype = np.dtype(np.float32)
    leaves = [
        ComputedLeaf(name, name, shape, dtype, lambda shape: np.full(shape, 0.5, np.float32))
        for name, shape in expected_shapes(WIDE).items()
    ]
    source = checkpoint_of(Folder("memory"), "memory", leaves, WIDE)
    for form in FORMS:
        write_checkpoint(source, str(tmp_path / form), form)
    (lines,) = results(start("peak", *(str(tmp_path / form) for form in FORMS)))
    assert len(lines) == len(FORMS)
    for form, got in zip(FORMS, lines, strict=True):
        mebibytes = {name: f"{count / MIB:.0f} MiB" for name, count in got.items()}
        print(form, mebibytes)
        assert got["checkpoint"] > 3 * ALLOWED
        assert got["largest"] < got["peak"] < ALLOWED, (form, mebibytes)


def test_each_process_reads_its_own_slices(tmp_path):
    """Two processes, a device each, the model axis across them."""
    for form in FORMS:
        WRITTEN[form][1](tmp_path / form, random_parameters(CONFIG), CONFIG)
    folders = [str(tmp_path / form) for form in FORMS]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    both = [start("half", port, str(i), *folders) for i in range(2)]
    for lines in results(*both):
        assert len(lines) == len(FORMS)
        for got in lines:
            assert got["read"] == got["held"]
            assert 0.5 < got["held"] / got["whole"] < 0.6  # norms are whole on both
