"""Folders of the BERT family through the same doors: open, inspect, convert, load_model."""

from __future__ import annotations

import json
import re

import jax
import numpy as np
import pytest
from safetensors.numpy import save_file

import mlm_consistency as mc
from mlm_consistency.checkpoints.architecture import architecture
from mlm_consistency.checkpoints.bert_weights import bert_parameters, restore_bert
from mlm_consistency.checkpoints.checkpoint import open_checkpoint
from mlm_consistency.checkpoints.convert import convert
from mlm_consistency.checkpoints.digest import digest
from mlm_consistency.checkpoints.huggingface_bert import IN_LAYER, MODULES, bert_config
from mlm_consistency.cli.main import main
from mlm_consistency.errors import CheckpointError, DataError
from mlm_consistency.models.bert_config import bert_config_from_huggingface

PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "cat", "dog", "sat", "lay", "here"]
CONFIG = {
    "model_type": "bert", "vocab_size": len(PIECES), "hidden_size": 8, "num_attention_heads": 2,
    "intermediate_size": 12, "num_hidden_layers": 2, "max_position_embeddings": 16,
}  # fmt: skip


def theirs(name: str) -> str:
    """The published name of one of our leaves of a BERT."""
    if name == "mlm_head.bias":
        return "cls.predictions.bias"
    module, _, last = name.rpartition(".")
    last = "bias" if last == "bias" else "weight"
    if module.startswith("encoder.layers_"):
        layer, _, inside = module.removeprefix("encoder.layers_").partition(".")
        own = next(k for k, v in IN_LAYER.items() if v == inside)
        return f"bert.encoder.layer.{layer}.{own}.{last}"
    own = next(k for k, v in MODULES.items() if v == module)
    return f"{'' if own.startswith('cls') else 'bert.'}{own}.{last}"


@pytest.fixture
def folder(tmp_path):
    """A random BERT of eleven words, as it would be published."""
    config = bert_config_from_huggingface(CONFIG)
    generator = np.random.default_rng(0)
    tensors = {}
    for parameter in bert_parameters(config):
        for name in parameter.leaves:
            shape = parameter.leaf_shape
            if shape[0] == config.vocab_rows:
                shape = (config.vocab_size, *shape[1:])
            array = generator.normal(size=shape).astype(np.float32)
            kernel = name.endswith(".kernel")
            tensors[theirs(name)] = np.ascontiguousarray(array.T) if kernel else array
    where = tmp_path / "bert"
    where.mkdir()
    save_file(tensors, where / "model.safetensors")
    (where / "config.json").write_text(json.dumps(CONFIG))
    (where / "vocab.txt").write_text("\n".join(PIECES) + "\n")
    return where


def test_it_is_recognised_converted_and_bit_equal(folder, tmp_path, capsys):
    source = open_checkpoint(str(folder))
    assert source.form == "huggingface-bert"
    out = str(tmp_path / "orbax")
    assert main(["convert", str(folder), out, "--to", "orbax"]) == 0
    assert digest(source) in capsys.readouterr().out
    again = open_checkpoint(out)
    assert (again.form, again.config) == ("orbax-bert", bert_config(source))
    assert digest(again) == digest(source)
    jax.tree.map(np.testing.assert_array_equal, restore_bert(again), restore_bert(source))
    assert main(["inspect", "--checkpoint", out]) == 0
    printed = capsys.readouterr().out
    assert "network bert (BERT family)" in printed
    assert re.search(r"encoder\.layers_\*\.attention\.query\.kernel +2 x \(8, 8\)", printed)


def test_other_forms_and_other_jobs_are_refused_with_the_way_out(folder, tmp_path):
    with pytest.raises(CheckpointError, match="written as orbax alone, not as t5x"):
        convert(str(folder), str(tmp_path / "out"), "t5x")
    with pytest.raises(CheckpointError, match=r"no decoder.*mlm-consistency bigrams"):
        architecture(open_checkpoint(str(folder)))


def test_load_model_fills_masks_and_asks_pairs(folder):
    model = mc.load_model(str(folder))
    assert isinstance(model, mc.MaskedModel)
    (first, second) = model.fill("the [MASK] sat [MASK]", k=3)
    assert len(first) == len(second) == 3
    everything = model.fill("the [MASK] sat here", k=len(PIECES))[0]
    assert np.exp([value for _, value in everything]).sum() == pytest.approx(1, abs=1e-5)
    table = model.pair("the [MASK] [MASK] here", ["cat", "dog"], ["sat", "lay"])
    alone = dict(model.fill("the [MASK] lay here", k=len(PIECES))[0])
    assert table.log_a_given_b[1, 1] == pytest.approx(alone["dog"], abs=1e-5)
    assert table.as_case()["a_masked"]
    with pytest.raises(DataError, match=r"holds no \[MASK\]"):
        model.fill("the cat")
    with pytest.raises(DataError, match="has 1 masks; a pair needs 2"):
        model.pair("the [MASK]", ["cat"], ["dog"])
    with pytest.raises(DataError, match="'zebra' is not one token"):
        model.pair("[MASK] [MASK]", ["zebra"], ["dog"])
