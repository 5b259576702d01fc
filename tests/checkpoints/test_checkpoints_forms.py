"""Every form gives the same weights, names and fingerprint, whole or by slices."""

from __future__ import annotations

import dataclasses
import json

import jax
import numpy as np
import pytest
from checkpoint_forms import (
    BFLOAT16,
    CONFIG,
    UNTIED,
    WRITTEN,
    huggingface_tensors,
    random_parameters,
    write_huggingface,
    write_t5x,
)

from mlm_consistency.checkpoints.architecture import architecture
from mlm_consistency.checkpoints.checkpoint import FORMS, open_checkpoint
from mlm_consistency.checkpoints.convert import from_parameters
from mlm_consistency.checkpoints.describe import describe
from mlm_consistency.checkpoints.digest import digest, fingerprint
from mlm_consistency.checkpoints.restore import restore
from mlm_consistency.errors import CheckpointError
from mlm_consistency.models.presets import network_fields


def assert_trees_equal(got, expected):
    flat, tree = jax.tree.flatten(expected)
    got_flat, got_tree = jax.tree.flatten(got)
    assert got_tree == tree
    for a, b in zip(got_flat, flat, strict=True):
        np.testing.assert_array_equal(np.asarray(a), b)


def test_every_form_has_an_example():
    bert = {"huggingface-bert", "orbax-bert"}  # test_checkpoints_bert.py
    assert {form for form, _ in WRITTEN.values()} == set(FORMS) - bert


CASES = [(name, CONFIG) for name in WRITTEN] + [(n, UNTIED) for n in ("t5x", "huggingface")]


@pytest.mark.parametrize(
    ("name", "config"), CASES, ids=[f"{n}-{c.mlp_activations[0]}" for n, c in CASES]
)
def test_every_form_is_recognised_and_restored(name, config, tmp_path):
    form, write = WRITTEN[name]
    params = random_parameters(config)
    write(tmp_path / "checkpoint", params, config)
    checkpoint = open_checkpoint(str(tmp_path / "checkpoint"))
    assert checkpoint.form == form
    found = architecture(checkpoint)
    assert network_fields(found) == network_fields(config)
    assert_trees_equal(restore(checkpoint, found), params)
    assert fingerprint(checkpoint) == fingerprint(from_parameters(params, config))
    # An inner slice, transposed kernels among them.
    for leaf in checkpoint.leaves.values():
        inner = tuple(slice(n // 3, n // 3 + n // 2) for n in leaf.shape)
        np.testing.assert_array_equal(leaf.read(inner), leaf.read_all()[inner])


def test_bfloat16_is_kept_and_cast_on_the_way(tmp_path):
    params = random_parameters(CONFIG, dtype=BFLOAT16)
    for name in ("t5x", "orbax", "huggingface"):
        WRITTEN[name][1](tmp_path / name, params, CONFIG)
        checkpoint = open_checkpoint(str(tmp_path / name))
        kept = restore(checkpoint, CONFIG, dtype="bfloat16")
        assert_trees_equal(kept, params)
        wide = restore(checkpoint, CONFIG)
        assert_trees_equal(wide, jax.tree.map(lambda x: x.astype(np.float32), params))


def test_a_missing_decoder_norm_scale_is_ones(tmp_path):
    """UL2 was published so."""
    import safetensors.numpy

    params = random_parameters(CONFIG)
    tensors = huggingface_tensors(params, CONFIG)
    del tensors["decoder.final_layer_norm.weight"]
    write_huggingface(tmp_path / "hf", params, CONFIG)
    safetensors.numpy.save_file(tensors, tmp_path / "hf" / "model.safetensors")
    checkpoint = open_checkpoint(str(tmp_path / "hf"))
    restored = restore(checkpoint, architecture(checkpoint))
    np.testing.assert_array_equal(restored["decoder"]["decoder_norm"]["scale"], np.ones(16))


def test_the_index_file_itself_may_be_named(tmp_path):
    write_t5x(tmp_path / "checkpoint_3", random_parameters(CONFIG), CONFIG)
    checkpoint = open_checkpoint(str(tmp_path / "checkpoint_3" / "checkpoint"))
    assert checkpoint.address == str(tmp_path / "checkpoint_3")


def test_a_folder_of_steps_names_them(tmp_path):
    for step in (10, 9):
        write_t5x(tmp_path / f"checkpoint_{step}", random_parameters(CONFIG), CONFIG)
    with pytest.raises(CheckpointError, match="name one of checkpoint_9, checkpoint_10"):
        open_checkpoint(str(tmp_path))


def test_nothing_there_and_nothing_known(tmp_path):
    with pytest.raises(CheckpointError, match="no such folder"):
        open_checkpoint(str(tmp_path / "none"))
    with pytest.raises(CheckpointError, match="no form fits"):
        open_checkpoint(str(tmp_path))
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "t5"}))
    with pytest.raises(CheckpointError, match="download model"):
        open_checkpoint(str(tmp_path))


def test_shapes_tell_the_architecture_but_for_the_gate(tmp_path):
    """Where nothing says it, untied means gelu and tied means silu; MODEL overrides."""
    for config in (CONFIG, UNTIED):
        write_t5x(tmp_path / config.mlp_activations[0], random_parameters(config), config)
        folder = tmp_path / config.mlp_activations[0]
        (folder / "architecture.json").unlink()
        found = architecture(open_checkpoint(str(folder)))
        assert network_fields(found) == network_fields(config)
    other = dataclasses.replace(CONFIG, mlp_activations=("gelu", "linear"))
    assert architecture(open_checkpoint(str(tmp_path / "silu")), other) == other


def test_description(tmp_path):
    write_t5x(tmp_path / "t5x", random_parameters(CONFIG), CONFIG)
    description = describe(open_checkpoint(str(tmp_path / "t5x")))
    assert description.parameters == CONFIG.parameter_count()
    assert description.problem == ""
    text = str(description)
    assert "encoder.layers_*.attention.query.kernel" in text
    assert "2 x (16, 24)" in text
    assert f"{CONFIG.parameter_count():,} parameters in 37 tensors" in text
    assert description.fingerprint in text
    assert len(digest(open_checkpoint(str(tmp_path / "t5x")))) == 64
