"""The BERT family without torch: packing, configuration, weights by name and back."""

from __future__ import annotations

import dataclasses
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from safetensors.numpy import save_file

from mlm_consistency.checkpoints.bert_weights import open_bert, restore_bert, save_bert
from mlm_consistency.checkpoints.huggingface_bert import PaddedLeaf, our_bert_name
from mlm_consistency.checkpoints.leaves import ArrayLeaf
from mlm_consistency.errors import CheckpointError, ConfigError
from mlm_consistency.models.bert import Bert, abstract_parameters, initialize, logical_axes
from mlm_consistency.models.bert_config import BertConfig, bert_config_from_huggingface

SMALL = BertConfig(
    "small", vocab_size=61, d_model=16, num_heads=2, mlp_dim=24, layers=2, max_positions=20
)
KINDS = {
    "bert": SMALL,
    "roberta": dataclasses.replace(SMALL, position_offset=2, token_types=1),
    "distilbert": dataclasses.replace(SMALL, token_types=0),
    "albert": dataclasses.replace(
        SMALL, embedding_size=8, shared_layers=True, activation="gelu_new"
    ),
}
THEIRS = {
    "model_type": "bert",
    "vocab_size": 61,
    "hidden_size": 16,
    "num_attention_heads": 2,
    "intermediate_size": 24,
    "num_hidden_layers": 2,
    "max_position_embeddings": 20,
}


def random_weights(config: BertConfig, seed: int = 0):
    """Weights whose every entry matters, biases and norms among them."""
    generator = np.random.default_rng(seed)
    return jax.tree.map(
        lambda leaf: jnp.asarray(
            generator.normal(float(leaf.ndim == 1), 0.5, leaf.shape), leaf.dtype
        ),
        abstract_parameters(config),
    )


@pytest.mark.parametrize("kind", KINDS)
def test_a_packed_row_gives_what_each_text_gives_alone(kind):
    config = KINDS[kind]
    params = random_weights(config)
    model = jax.jit(lambda *arrays: Bert(config).apply({"params": params}, *arrays))
    generator = np.random.default_rng(1)
    lengths = [5, 9, 3]
    texts = [generator.integers(0, 61, n) for n in lengths]
    row = np.zeros((3, 1, 24), np.int32)
    at = 0
    for segment, text in enumerate(texts, start=1):
        span = slice(at, at + len(text))
        row[:, 0, span] = text, np.full(len(text), segment), np.arange(len(text))
        at = span.stop
    packed = np.asarray(model(*row))[0]
    at = 0
    for text in texts:
        alone = np.zeros((3, 1, 24), np.int32)
        alone[:, 0, : len(text)] = text, np.ones(len(text)), np.arange(len(text))
        expected = np.asarray(model(*alone))[0, : len(text)]
        np.testing.assert_allclose(packed[at : at + len(text)], expected, rtol=0, atol=1e-5)
        at += len(text)
    assert np.ptp(packed[:at]) > 1


@pytest.mark.parametrize("kind", KINDS)
def test_weights_are_counted_and_named_with_logical_axes(kind):
    config = KINDS[kind]
    shapes = abstract_parameters(config)
    padding = (config.vocab_rows - config.vocab_size) * (config.embedding_size + 1)
    assert sum(leaf.size for leaf in jax.tree.leaves(shapes)) == config.parameter_count() + padding
    axes = logical_axes(config)
    for leaf, spec in zip(jax.tree.leaves(shapes), jax.tree.leaves(axes), strict=True):
        assert len(spec) == leaf.ndim
    assert tuple(axes["token_embedder"]["embedding"]) == ("vocab", "embed")
    boxed = initialize(config, jax.random.key(0))
    assert jax.tree.structure(jax.tree.leaves(boxed)) == jax.tree.structure(jax.tree.leaves(shapes))


def test_rows_that_round_the_vocabulary_up_get_no_probability():
    params = random_weights(SMALL)
    hidden = jnp.asarray(np.random.default_rng(0).normal(size=(3, 16)), jnp.float32)
    logits = Bert(SMALL).apply({"params": params}, hidden, method=Bert.logits)
    assert logits.shape == (3, 128)
    log_probs = jax.nn.log_softmax(logits)[:, :61]
    np.testing.assert_allclose(np.exp(log_probs).sum(axis=-1), 1, atol=1e-6)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"num_heads": 3}, "not a multiple of num_heads"),
        ({"layers": 0}, "positive integer"),
        ({"position_offset": 20}, "leaves no row"),
        ({"activation": "tanh"}, "activation"),
        ({"dtype": "float16"}, "dtype"),
    ],
)
def test_impossible_networks_are_refused(changes, words):
    with pytest.raises(ConfigError, match=words):
        dataclasses.replace(SMALL, **changes)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"model_type": "electra"}, "model_type 'electra'"),
        ({"position_embedding_type": "relative_key"}, "position_embedding_type"),
        ({"hidden_act": "quick"}, "hidden_act"),
        ({"is_decoder": True}, "is_decoder"),
        ({"tie_word_embeddings": False}, "tie_word_embeddings"),
        ({"pruned_heads": {"0": [1]}}, "pruned_heads"),
        ({"model_type": "albert", "num_hidden_groups": 2}, "num_hidden_groups"),
    ],
)
def test_variants_that_are_not_built_are_refused(changes, words):
    with pytest.raises(ConfigError, match=words):
        bert_config_from_huggingface({**THEIRS, **changes})
    with pytest.raises(ConfigError, match="lacks hidden_size"):
        bert_config_from_huggingface({k: v for k, v in THEIRS.items() if k != "hidden_size"})


def test_roberta_starts_behind_its_padding_id():
    config = bert_config_from_huggingface(
        {**THEIRS, "model_type": "roberta", "max_position_embeddings": 514, "pad_token_id": 1}
    )
    assert (config.position_offset, config.max_segment_length) == (2, 512)


def test_names_of_2018_are_known():
    assert our_bert_name("bert.embeddings.LayerNorm.gamma") == (
        "embedding_layer_norm.scale",
        False,
    )
    assert our_bert_name("bert.encoder.layer.11.output.LayerNorm.beta") == (
        "encoder.layers_11.mlp_layer_norm.bias",
        False,
    )
    assert our_bert_name("bert.encoder.layer.0.mystery.weight")[0].startswith("bert.")


def test_padded_rows_are_zeros_wherever_a_slice_falls():
    table = np.arange(1, 11, dtype=np.float32).reshape(5, 2)
    leaf = PaddedLeaf(ArrayLeaf("t", "t", table), 8)
    whole = np.concatenate([table, np.zeros((3, 2), np.float32)])
    for start, stop in [(0, 8), (0, 3), (3, 7), (5, 8), (6, 7)]:
        read = leaf.read((slice(start, stop), slice(1, 2)))
        np.testing.assert_array_equal(read, whole[start:stop, 1:2])


@pytest.mark.parametrize("kind", ["bert", "albert"])
def test_orbax_gives_back_the_weights(kind, tmp_path):
    config = KINDS[kind]
    params = random_weights(config)
    save_bert(params, config, str(tmp_path / "saved"))
    checkpoint = open_bert(str(tmp_path / "saved"))
    assert checkpoint.config == config
    restored = restore_bert(checkpoint)
    jax.tree.map(np.testing.assert_array_equal, restored, params)
    with pytest.raises(CheckpointError, match="exists"):
        save_bert(params, config, str(tmp_path / "saved"))


def write_folder(folder, tensors, config=None):
    folder.mkdir()
    save_file(tensors, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(config or THEIRS))
    return str(folder)


def test_faults_of_a_folder_are_named(tmp_path):
    table = np.ones((61, 16), np.float32)
    encoder = {"bert.embeddings.word_embeddings.weight": table}
    with pytest.raises(CheckpointError, match=r"without its masked language head.*ForMaskedLM"):
        open_bert(write_folder(tmp_path / "no_head", encoder))
    head = {
        "cls.predictions.bias": np.zeros(61, np.float32),
        "cls.predictions.transform.dense.weight": np.ones((16, 16), np.float32),
    }
    own = {"cls.predictions.decoder.weight": 2 * table}
    with pytest.raises(CheckpointError, match=r"decoder\.weight.*is no copy"):
        open_bert(write_folder(tmp_path / "untied", encoder | head | own))
    partial = open_bert(write_folder(tmp_path / "partial", encoder | head))
    with pytest.raises(CheckpointError, match=r"missing embedding_layer_norm.*and \d+ more"):
        restore_bert(partial)
    with pytest.raises(CheckpointError, match="no such folder"):
        open_bert(str(tmp_path / "nowhere"))
