"""What a network of the BERT family is made of, and how Hugging Face writes it down."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from mlm_consistency.errors import ConfigError
from mlm_consistency.models.config import DTYPES

# "gelu" is x Phi(x); "gelu_new" is its tanh approximation (arXiv 1606.08415).
ACTIVATIONS = ("gelu", "gelu_new", "relu", "silu")


@dataclasses.dataclass(frozen=True)
class BertConfig:
    """An encoder with a masked language head: BERT, RoBERTa, DistilBERT, ALBERT.

    Attributes:
      name: what to call it in records and reports.
      vocab_size: pieces V of the vocabulary; only they count in the softmax.
      d_model: width D of the residual stream.
      embedding_size: width E of the embeddings and of the head; below D it is ALBERT's
        factorised table, above which a projection E -> D lies; 0 means D.
      num_heads: attention heads H, which divide D.
      mlp_dim: width F of the feed-forward layers.
      layers: depth.
      shared_layers: one layer's weights serve at every depth (ALBERT).
      max_positions: rows of the table of positions, the unused ones before `position_offset`
        among them.
      position_offset: row of a segment's first token: 0, or padding id + 1 (RoBERTa).
      token_types: rows of the table of token types; the first is added to every token. 0: none
        (DistilBERT).
      activation: of the feed-forward layers, one of `ACTIVATIONS`.
      head_activation: of the head's transform.
      layer_norm_epsilon: added to the variance before the root.
      vocab_multiple: rows of the embedding are rounded up to a multiple of it (with rows that
        no softmax sees), so that every model axis divides a vocabulary of 50,265.
      dtype: of activations and matrix products. Norms, softmax and logits are float32 always.
      param_dtype: of the weights in memory.

    Raises:
      ConfigError: for a value that no such network can have.
    """

    name: str = "bert"
    vocab_size: int = 30522
    d_model: int = 768
    embedding_size: int = 0
    num_heads: int = 12
    mlp_dim: int = 3072
    layers: int = 12
    shared_layers: bool = False
    max_positions: int = 512
    position_offset: int = 0
    token_types: int = 2
    activation: str = "gelu"
    head_activation: str = "gelu"
    layer_norm_epsilon: float = 1e-12
    vocab_multiple: int = 128
    dtype: str = "float32"
    param_dtype: str = "float32"

    def __post_init__(self) -> None:
        may_be_zero = {"embedding_size", "position_offset", "token_types"}
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            least = 0 if field.name in may_be_zero else 1
            if field.type == "int" and (not isinstance(value, int) or value < least):
                kind = "an integer of at least 0" if least == 0 else "a positive integer"
                raise ConfigError(f"BertConfig.{field.name} must be {kind}, got {value!r}")
        if self.embedding_size == 0:
            object.__setattr__(self, "embedding_size", self.d_model)
        if self.d_model % self.num_heads:
            raise ConfigError(
                f"BertConfig.d_model {self.d_model} is not a multiple of num_heads {self.num_heads}"
            )
        if self.position_offset >= self.max_positions:
            raise ConfigError(
                f"BertConfig.position_offset {self.position_offset} leaves no row of "
                f"max_positions {self.max_positions}"
            )
        for name in ("activation", "head_activation"):
            if getattr(self, name) not in ACTIVATIONS:
                raise ConfigError(
                    f"BertConfig.{name} must be one of {ACTIVATIONS}, got {getattr(self, name)!r}"
                )
        for name in ("dtype", "param_dtype"):
            if getattr(self, name) not in DTYPES:
                raise ConfigError(
                    f"BertConfig.{name} must be one of {DTYPES}, got {getattr(self, name)!r}"
                )

    @property
    def head_dim(self) -> int:
        """Size K of a head."""
        return self.d_model // self.num_heads

    @property
    def max_segment_length(self) -> int:
        """Tokens of the longest text, [CLS] and [SEP] among them; a row may hold several."""
        return self.max_positions - self.position_offset

    @property
    def vocab_rows(self) -> int:
        """Rows of the embedding in memory."""
        return -(-self.vocab_size // self.vocab_multiple) * self.vocab_multiple

    # What the cost model of `scoring.shapes` asks of a network's encoder.
    @property
    def joined_kv(self) -> int:
        """H*K = D."""
        return self.d_model

    @property
    def encoder_layers(self) -> int:
        """Layers computed."""
        return self.layers

    @property
    def mlp_activations(self) -> tuple[str, ...]:
        """One activation: the layer is not gated."""
        return (self.activation,)

    def parameter_count(self) -> int:
        """Number of weights by formula, the rows that round the vocabulary up left out."""
        width, narrow = self.d_model, self.embedding_size
        tables = (self.vocab_size + self.max_positions + self.token_types) * narrow
        projection = (narrow + 1) * width if narrow != width else 0
        attention = 4 * (width + 1) * width
        mlp = (width + 1) * self.mlp_dim + (self.mlp_dim + 1) * width
        layer = attention + mlp + 4 * width
        head = (width + 1) * narrow + 2 * narrow + self.vocab_size
        depth = 1 if self.shared_layers else self.layers
        return tables + 2 * narrow + projection + depth * layer + head


# Their activations -> ours; gelu_fast and gelu_pytorch_tanh are the tanh approximation too.
HUGGINGFACE_ACTIVATIONS = {
    "gelu": "gelu",
    "gelu_python": "gelu",
    "gelu_new": "gelu_new",
    "gelu_fast": "gelu_new",
    "gelu_pytorch_tanh": "gelu_new",
    "relu": "relu",
    "silu": "silu",
    "swish": "silu",
}
ROBERTA = ("roberta", "xlm-roberta", "camembert")
MODEL_TYPES = ("bert", *ROBERTA, "distilbert", "albert")
# Our size -> its field, for all but DistilBERT.
SIZES = {
    "vocab_size": "vocab_size",
    "d_model": "hidden_size",
    "num_heads": "num_attention_heads",
    "mlp_dim": "intermediate_size",
    "layers": "num_hidden_layers",
    "max_positions": "max_position_embeddings",
}
DISTILBERT_SIZES = {
    "vocab_size": "vocab_size",
    "d_model": "dim",
    "num_heads": "n_heads",
    "mlp_dim": "hidden_dim",
    "layers": "n_layers",
    "max_positions": "max_position_embeddings",
}


def bert_config_from_huggingface(
    config: Mapping[str, Any], place: str = "config.json", model_type: str | None = None
) -> BertConfig:
    """The network that a Hugging Face `config.json` of this family describes.

    Args:
      config: the file's object.
      place: for messages.
      model_type: where the file does not say it, as those of 2019 do not.

    Raises:
      ConfigError: for another type of model, a missing size, or a variant of the family that is
        not built here (relative positions, several groups of shared layers, a decoder, an output
        matrix of its own); names `place` and the field.
    """
    kind = config.get("model_type", model_type)
    if kind not in MODEL_TYPES:
        raise ConfigError(f"{place}: model_type {kind!r}; expected one of {MODEL_TYPES}")
    names = DISTILBERT_SIZES if kind == "distilbert" else SIZES
    missing = [field for field in names.values() if field not in config]
    if missing:
        raise ConfigError(f"{place} lacks {', '.join(missing)}: expected a whole {kind}")
    _refuse_variants(config, place)
    default = "gelu_new" if kind == "albert" else "gelu"
    field = "activation" if kind == "distilbert" else "hidden_act"
    activation = _activation(config, field, default, place)
    epsilon = 1e-12 if kind == "distilbert" else float(config.get("layer_norm_eps", 1e-12))
    padding = config.get("pad_token_id")
    roberta = kind in ROBERTA
    sizes: dict[str, Any] = {ours: int(config[theirs]) for ours, theirs in names.items()}
    return BertConfig(
        name=str(config.get("_name_or_path") or kind).rstrip("/").rpartition("/")[2],
        **sizes,
        embedding_size=int(config.get("embedding_size", 128)) if kind == "albert" else 0,
        shared_layers=kind == "albert",
        position_offset=(1 if padding is None else int(padding)) + 1 if roberta else 0,
        token_types=0 if kind == "distilbert" else int(config.get("type_vocab_size", 2)),
        activation=activation,
        head_activation="gelu" if roberta else activation,
        layer_norm_epsilon=epsilon,
    )


def _activation(config: Mapping[str, Any], field: str, default: str, place: str) -> str:
    value = config.get(field, default)
    if value not in HUGGINGFACE_ACTIVATIONS:
        raise ConfigError(
            f"{place}: {field} {value!r}; expected one of {sorted(HUGGINGFACE_ACTIVATIONS)}"
        )
    return HUGGINGFACE_ACTIVATIONS[value]


def _refuse_variants(config: Mapping[str, Any], place: str) -> None:
    """Refuses what would be computed wrongly without a word."""
    expected = {
        "position_embedding_type": "absolute",
        "num_hidden_groups": 1,
        "inner_group_num": 1,
        "is_decoder": False,
        "tie_word_embeddings": True,
    }
    for field, value in expected.items():
        if config.get(field, value) != value:
            raise ConfigError(
                f"{place}: {field} {config[field]!r} is another network than the published BERT, "
                f"RoBERTa, DistilBERT and ALBERT, which have {value!r}"
            )
    if config.get("pruned_heads"):
        raise ConfigError(f"{place}: pruned_heads {config['pruned_heads']!r}; expected none")
