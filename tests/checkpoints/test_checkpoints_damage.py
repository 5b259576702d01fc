"""Damaged or foreign checkpoints are refused before scoring, with the leaf and both shapes."""

from __future__ import annotations

import dataclasses
import json
import sys

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
    write_huggingface_sharded,
    write_t5x,
)
from safetensors.numpy import save_file

from mlm_consistency.checkpoints.architecture import architecture
from mlm_consistency.checkpoints.checkpoint import open_checkpoint
from mlm_consistency.checkpoints.flax_msgpack import pack, unpack
from mlm_consistency.checkpoints.restore import restore
from mlm_consistency.errors import CheckpointError, ConfigError
from mlm_consistency.models.huggingface import config_from_huggingface, config_to_huggingface

QUERY = "encoder.layers_1.attention.query.kernel"
THEIR_QUERY = "encoder.block.1.layer.0.SelfAttention.q.weight"


def loaded(folder, config=CONFIG):
    return restore(open_checkpoint(str(folder)), config)


@pytest.fixture
def t5x(tmp_path):
    write_t5x(tmp_path / "t5x", random_parameters(CONFIG), CONFIG)
    return tmp_path / "t5x"


@pytest.fixture
def huggingface(tmp_path):
    """A folder and its tensors; `rewrite` them to damage it."""
    params = random_parameters(CONFIG)
    write_huggingface(tmp_path / "hf", params, CONFIG)
    return tmp_path / "hf", huggingface_tensors(params, CONFIG)


def test_truncated_chunk(t5x):
    chunk = t5x / f"target.{QUERY}" / "0.0"
    chunk.write_bytes(chunk.read_bytes()[:700])
    with pytest.raises(CheckpointError, match=rf"target\.{QUERY} of shape \(16, 24\).*truncated"):
        loaded(t5x)


def test_missing_chunk_is_not_read_as_zeros(t5x):
    (t5x / f"target.{QUERY}" / "0.0").unlink()
    with pytest.raises(CheckpointError, match=rf"target\.{QUERY} of shape .* missing"):
        loaded(t5x)


def test_missing_array(t5x):
    (t5x / f"target.{QUERY}" / ".zarray").unlink()
    with pytest.raises(CheckpointError, match=f"{QUERY}: its array cannot be opened"):
        loaded(t5x)


def test_truncated_index(t5x):
    index = t5x / "checkpoint"
    index.write_bytes(index.read_bytes()[:-20])
    with pytest.raises(CheckpointError, match=r"not a whole Flax msgpack"):
        loaded(t5x)


def test_bfloat16_kept_as_uint16_by_old_t5x(t5x):
    tree = unpack((t5x / "checkpoint").read_bytes(), "index")
    tree["optimizer"]["target"]["encoder"]["encoder_norm"]["scale"]["dtype"] = "uint16"
    (t5x / "checkpoint").write_bytes(pack(tree))
    with pytest.raises(CheckpointError, match=r"encoder_norm.*uint16.*newer T5X"):
        loaded(t5x)


def test_an_index_of_something_else(tmp_path):
    (tmp_path / "checkpoint").write_bytes(pack({"model": {"w": np.ones(2)}}))
    with pytest.raises(CheckpointError, match=r"neither `target` nor `params`"):
        open_checkpoint(str(tmp_path))


def test_missing_and_extra_leaves(huggingface):
    folder, tensors = huggingface
    tensors.pop(THEIR_QUERY)
    tensors["encoder.block.1.layer.0.SelfAttention.gate.weight"] = np.ones((3, 3), np.float32)
    save_file(tensors, folder / "model.safetensors")
    with pytest.raises(CheckpointError) as error:
        loaded(folder)
    assert f"missing {QUERY} of shape (16, 24)" in str(error.value)
    assert "not expected encoder.block.1.layer.0.SelfAttention.gate.weight (3, 3)" in str(
        error.value
    )


def test_wrong_shape(huggingface):
    folder, tensors = huggingface
    tensors[THEIR_QUERY] = np.ones((24, 17), np.float32)
    save_file(tensors, folder / "model.safetensors")
    with pytest.raises(CheckpointError, match=rf"{QUERY} has \(17, 24\), expected \(16, 24\)"):
        loaded(folder)


def test_float16_is_refused_with_the_reason(huggingface):
    folder, tensors = huggingface
    half = {name: tensor.astype(np.float16) for name, tensor in tensors.items()}
    save_file(half, folder / "model.safetensors")
    with pytest.raises(
        CheckpointError, match=r"is float16, which T5's feed-forward layers overflow"
    ):
        loaded(folder)


def test_other_dtypes_are_refused(huggingface):
    folder, tensors = huggingface
    tensors[THEIR_QUERY] = tensors[THEIR_QUERY].astype(np.float64)
    save_file(tensors, folder / "model.safetensors")
    with pytest.raises(CheckpointError, match=f"{QUERY} is float64; expected one of"):
        loaded(folder)


@pytest.mark.parametrize("dtype", [np.float32, BFLOAT16])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_values_that_are_not_finite(huggingface, dtype, value):
    folder, tensors = huggingface
    tensors[THEIR_QUERY][5, 3] = value
    save_file({n: t.astype(dtype) for n, t in tensors.items()}, folder / "model.safetensors")
    pattern = rf"{THEIR_QUERY} of shape \(16, 24\) holds {value} at \[3, 5\]"
    with pytest.raises(CheckpointError, match=pattern):
        loaded(folder)


def test_truncated_safetensors_names_the_leaf(huggingface):
    folder, _ = huggingface
    file = folder / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-100])
    with pytest.raises(CheckpointError, match=r"leaf \S+ of shape .* the file ends at byte"):
        loaded(folder)
    file.write_bytes(b"\xff" * 16)
    with pytest.raises(CheckpointError, match=r"no safetensors file"):
        loaded(folder)


def test_missing_shard(tmp_path):
    write_huggingface_sharded(tmp_path / "hf", random_parameters(CONFIG), CONFIG)
    (tmp_path / "hf" / "model-00002-of-00003.safetensors").unlink()
    with pytest.raises(CheckpointError, match=r"model-00002-of-00003.safetensors does not exist"):
        loaded(tmp_path / "hf")


def test_untied_configuration_over_tied_weights(huggingface):
    folder, _ = huggingface
    config = {**config_to_huggingface(CONFIG), "tie_word_embeddings": False}
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(CheckpointError, match=r"no tensor lm_head.weight.*set tie_word_embeddings"):
        loaded(folder)


def test_tied_configuration_over_another_output_matrix(tmp_path):
    params = random_parameters(UNTIED)
    write_huggingface(tmp_path / "hf", params, UNTIED)
    config = config_to_huggingface(UNTIED)
    del config["tie_word_embeddings"]  # absent means tied
    (tmp_path / "hf" / "config.json").write_text(json.dumps(config))
    with pytest.raises(CheckpointError, match=r"lm_head.weight differs from shared.weight"):
        open_checkpoint(str(tmp_path / "hf"))
    # Old T5 folders hold a copy of the table as lm_head: that is no contradiction.
    tensors = huggingface_tensors(params, UNTIED)
    tensors["lm_head.weight"] = tensors["shared.weight"].copy()
    tensors["encoder.embed_tokens.weight"] = tensors["shared.weight"].copy()
    save_file(tensors, tmp_path / "hf" / "model.safetensors")
    assert architecture(open_checkpoint(str(tmp_path / "hf"))).tied_embeddings


def test_pickle_without_torch_says_the_way_out(huggingface, monkeypatch):
    folder, _ = huggingface
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(
        CheckpointError, match=r"is a pickle, which torch must read.*save_pretrained"
    ):
        open_checkpoint(str(folder))


def test_model_that_the_weights_are_not(t5x):
    with pytest.raises(CheckpointError, match=r"MODEL says other.*mlp_dim 20 \(not 24\)"):
        architecture(
            open_checkpoint(str(t5x)), dataclasses.replace(CONFIG, name="other", mlp_dim=24)
        )


def test_scanned_t5x_shares_no_bias(tmp_path):
    scanned = np.ones((2, 3, 32), np.float32)
    target = {"encoder": {"encoder": {"relpos_bias": {"rel_embedding": scanned}}}}
    (tmp_path / "checkpoint").write_bytes(pack({"version": 3, "optimizer": {"target": target}}))
    with pytest.raises(CheckpointError, match=r"bias for each layer"):
        open_checkpoint(str(tmp_path))


def test_another_model_in_a_t5x_folder(tmp_path):
    target = {"decoder": {"norm": {"scale": np.ones(4, np.float32)}}}
    (tmp_path / "checkpoint").write_bytes(pack({"version": 3, "optimizer": {"target": target}}))
    with pytest.raises(CheckpointError, match=r"no leaf token_embedder.embedding, which every T5"):
        architecture(open_checkpoint(str(tmp_path)))


def test_configurations_that_are_not_t5():
    base = config_to_huggingface(CONFIG)
    with pytest.raises(ConfigError, match=r"model_type 'umt5'"):
        config_from_huggingface({**base, "model_type": "umt5"})
    with pytest.raises(ConfigError, match=r"feed_forward_proj 'gated-relu'"):
        config_from_huggingface({**base, "feed_forward_proj": "gated-relu"})
    with pytest.raises(ConfigError, match=r"lacks d_kv"):
        config_from_huggingface({k: v for k, v in base.items() if k != "d_kv"})


@pytest.mark.parametrize("name", ["orbax", "t5x_orbax"])
def test_damaged_database(name, tmp_path):
    WRITTEN[name][1](tmp_path / "db", random_parameters(CONFIG), CONFIG)
    manifest = next((tmp_path / "db").rglob("manifest.ocdbt"))
    manifest.write_bytes(manifest.read_bytes()[:-5])
    with pytest.raises(CheckpointError, match=r"manifest.ocdbt cannot be read"):
        open_checkpoint(str(tmp_path / "db"))
