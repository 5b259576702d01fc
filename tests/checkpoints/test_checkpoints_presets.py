"""Published sizes: exact counts of weights and tensors, gin files, Hugging Face configurations."""

from __future__ import annotations

import math
from pathlib import Path

import jax
import pytest

from mlm_consistency.checkpoints.naming import OPTIONAL, expected_shapes
from mlm_consistency.errors import UnknownNameError
from mlm_consistency.models.huggingface import config_from_huggingface, config_to_huggingface
from mlm_consistency.models.presets import (
    PRESETS,
    WITHOUT_DECODER_NORM,
    network_fields,
    preset,
    preset_names,
)
from mlm_consistency.models.t5 import abstract_parameters

GIN = Path(__file__).parents[2] / "gin" / "models"
COUNTS = {
    "t5_small": 60_506_624,
    "t5_base": 222_903_552,
    "t5_large": 737_668_096,
    "t5_3b": 2_851_598_336,
    "t5_11b": 11_307_321_344,
    "t5_1_1_small": 76_961_152,
    "t5_1_1_base": 247_577_856,
    "t5_1_1_large": 783_150_080,
    "t5_1_1_xl": 2_849_757_184,
    "t5_1_1_xxl": 11_135_332_352,
    "mt5_small": 300_176_768,
    "mt5_base": 582_401_280,
    "mt5_large": 1_229_581_312,
    "mt5_xl": 3_742_619_648,
    "mt5_xxl": 12_921_057_280,
    "ul2_20b": 19_459_609_600,
    "flan_ul2": 19_459_609_600,
}
for size in ("small", "base", "large", "xl", "xxl"):
    for family in ("t5_1_1_lm_adapted", "flan_t5"):
        COUNTS[f"{family}_{size}"] = COUNTS[f"t5_1_1_{size}"]


@pytest.mark.parametrize("name", list(PRESETS))
def test_parameter_count(name):
    """By the shapes of the network's own arrays, nothing allocated."""
    config = preset(name)
    total = sum(math.prod(x.shape) for x in jax.tree.leaves(abstract_parameters(config)))
    assert total == config.parameter_count()
    published = total - (config.d_model if name in WITHOUT_DECODER_NORM else 0)
    assert published == COUNTS[name]


def test_every_count_has_its_preset():
    assert PRESETS.keys() == COUNTS.keys()


def test_ul2_has_740_tensors_without_a_decoder_norm_scale():
    shapes = expected_shapes(preset("ul2_20b"))
    published = {name: shape for name, shape in shapes.items() if name not in OPTIONAL}
    assert len(published) == 740
    assert sum(map(math.prod, published.values())) == 19_459_609_600
    assert published["decoder.layers_31.encoder_decoder_attention.out.kernel"] == (4096, 4096)
    assert published["encoder.relpos_bias.rel_embedding"] == (16, 32)
    assert "decoder.logits_dense.kernel" not in published


def test_every_preset_has_its_gin_file():
    assert {path.stem for path in GIN.glob("*.gin")} == PRESETS.keys()
    for path in GIN.glob("*.gin"):
        settings = [x for x in path.read_text().splitlines() if x and not x.startswith("#")]
        assert settings == [f'MODEL = "{path.stem}"']


def test_an_unknown_name_is_answered_with_near_ones():
    with pytest.raises(UnknownNameError, match="Did you mean 'ul2_20b'"):
        preset("ul2-20b")


def test_networks_shared_by_families():
    assert preset_names(preset("flan_t5_xl")) == [
        "t5_1_1_xl",
        "t5_1_1_lm_adapted_xl",
        "flan_t5_xl",
    ]
    assert preset_names(preset("t5_11b")) == ["t5_11b"]


@pytest.mark.parametrize("name", list(PRESETS))
def test_through_a_huggingface_configuration(name):
    config = preset(name)
    again = config_from_huggingface(config_to_huggingface(config))
    assert network_fields(again) == network_fields(config)
    assert again.name == name


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        # As published: t5-11b, flan-t5-xxl, ul2, mt5-small (fields that matter).
        (
            {"model_type": "t5", "vocab_size": 32128, "d_model": 1024, "d_kv": 128, "d_ff": 65536}
            | {"num_layers": 24, "num_heads": 128},
            "t5_11b",
        ),
        (
            {"model_type": "t5", "vocab_size": 32128, "d_model": 4096, "d_kv": 64, "d_ff": 10240}
            | {"num_layers": 24, "num_heads": 64, "feed_forward_proj": "gated-gelu"}
            | {"tie_word_embeddings": False, "num_decoder_layers": 24},
            "flan_t5_xxl",
        ),
        (
            {"model_type": "t5", "vocab_size": 32128, "d_model": 4096, "d_kv": 256, "d_ff": 16384}
            | {"num_layers": 32, "num_heads": 16, "feed_forward_proj": "gated-silu"},
            "ul2_20b",
        ),
        (
            {"model_type": "mt5", "vocab_size": 250112, "d_model": 512, "d_kv": 64, "d_ff": 1024}
            | {"num_layers": 8, "num_heads": 6},
            "mt5_small",
        ),
    ],
    ids=["t5_11b", "flan_t5_xxl", "ul2_20b", "mt5_small"],
)
def test_published_configurations(fields, expected):
    assert expected in preset_names(config_from_huggingface(fields))
