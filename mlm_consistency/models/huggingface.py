"""T5 configurations as Hugging Face writes them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mlm_consistency.errors import ConfigError
from mlm_consistency.models.config import T5Config

FEED_FORWARD = {
    "relu": ("relu",),
    "gated-gelu": ("gelu", "linear"),
    "gated-silu": ("silu", "linear"),
}
# What a field that is left out means, for each type of model.
DEFAULTS = {
    "t5": {"feed_forward_proj": "relu", "tie_word_embeddings": True},
    "mt5": {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False},
}
SIZES = {
    "vocab_size": "vocab_size",
    "d_model": "d_model",
    "num_heads": "num_heads",
    "head_dim": "d_kv",
    "mlp_dim": "d_ff",
    "encoder_layers": "num_layers",
}


def config_from_huggingface(config: Mapping[str, Any], place: str = "config.json") -> T5Config:
    """The network that a Hugging Face `config.json` of a T5 or mT5 describes.

    Left out, `tie_word_embeddings` means tied for T5 and untied for mT5, `num_decoder_layers`
    means as many as the encoder has, and `feed_forward_proj` relu (mT5: gated-gelu).

    Raises:
      ConfigError: for another type of model, a missing size, or a feed-forward layer that no
        T5 has; names `place` and the field.
    """
    kind = config.get("model_type", "t5")
    if kind not in DEFAULTS:
        raise ConfigError(
            f"{place}: model_type {kind!r}; expected one of {sorted(DEFAULTS)}. UMT5, LongT5 and "
            "Switch Transformers are other networks"
        )
    missing = [field for field in SIZES.values() if field not in config]
    if missing:
        raise ConfigError(f"{place} lacks {', '.join(missing)}: expected a whole T5 configuration")
    filled = {**DEFAULTS[kind], **config}
    projection = filled["feed_forward_proj"]
    if projection not in FEED_FORWARD:
        raise ConfigError(
            f"{place}: feed_forward_proj {projection!r}; expected one of {sorted(FEED_FORWARD)}"
        )
    sizes: dict[str, Any] = {ours: int(filled[theirs]) for ours, theirs in SIZES.items()}
    return T5Config(
        name=str(filled.get("_name_or_path") or kind).rstrip("/").rpartition("/")[2],
        **sizes,
        decoder_layers=int(filled.get("num_decoder_layers") or filled["num_layers"]),
        mlp_activations=FEED_FORWARD[projection],
        tied_embeddings=bool(filled["tie_word_embeddings"]),
        relative_buckets=int(filled.get("relative_attention_num_buckets", 32)),
        relative_max_distance=int(filled.get("relative_attention_max_distance", 128)),
        layer_norm_epsilon=float(filled.get("layer_norm_epsilon", 1e-6)),
    )


def config_to_huggingface(config: T5Config) -> dict[str, Any]:
    """The fields of a `config.json` from which transformers builds the same network."""
    projections = {activations: name for name, activations in FEED_FORWARD.items()}
    return {
        "architectures": ["T5ForConditionalGeneration"],
        "model_type": "t5",
        **{theirs: getattr(config, ours) for ours, theirs in SIZES.items()},
        "num_decoder_layers": config.decoder_layers,
        "feed_forward_proj": projections[config.mlp_activations],
        "tie_word_embeddings": config.tied_embeddings,
        "relative_attention_num_buckets": config.relative_buckets,
        "relative_attention_max_distance": config.relative_max_distance,
        "layer_norm_epsilon": config.layer_norm_epsilon,
        "is_encoder_decoder": True,
        "decoder_start_token_id": 0,
        "pad_token_id": 0,
        "eos_token_id": 1,
        "dropout_rate": 0.0,
        "_name_or_path": config.name,
    }
