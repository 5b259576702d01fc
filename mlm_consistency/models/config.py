"""What a network is made of: frozen configurations, checked when they are made."""

from __future__ import annotations

import dataclasses

from mlm_consistency.errors import ConfigError

ACTIVATIONS = {("relu",), ("gelu", "linear"), ("silu", "linear")}
DTYPES = ("float32", "bfloat16")


@dataclasses.dataclass(frozen=True)
class T5Config:
    """An encoder-decoder of the T5 family (T5 1.0 and 1.1, mT5, UL2, Flan).

    Attributes:
      name: what to call it in records and reports.
      vocab_size: rows V of the embedding, padding rows among them (they count in the softmax).
      d_model: width D of the residual stream.
      num_heads: attention heads H; the model axis of a mesh cannot be wider.
      head_dim: size K of a head; H*K need not equal D.
      mlp_dim: width F of the feed-forward layers.
      encoder_layers: depth of the encoder.
      decoder_layers: depth of the decoder.
      mlp_activations: `("relu",)` for T5 1.0; `("gelu", "linear")` for T5 1.1, Flan and mT5;
        `("silu", "linear")` for UL2. With two entries the layer is gated: f(x W0) * (x W1) Wo.
      tied_embeddings: logits = hidden E^T / sqrt(D) with the input embedding E; otherwise a
        matrix of its own and no scale.
      relative_buckets: buckets of the relative position bias.
      relative_max_distance: distance from which all pairs share the last bucket.
      layer_norm_epsilon: added to the mean square before the root.
      dtype: of activations and matrix products. Norms, softmax and logits are float32 always.
      param_dtype: of the weights in memory.

    Raises:
      ConfigError: for a value that no such network can have.
    """

    name: str = "t5"
    vocab_size: int = 32128
    d_model: int = 512
    num_heads: int = 8
    head_dim: int = 64
    mlp_dim: int = 2048
    encoder_layers: int = 6
    decoder_layers: int = 6
    mlp_activations: tuple[str, ...] = ("relu",)
    tied_embeddings: bool = True
    relative_buckets: int = 32
    relative_max_distance: int = 128
    layer_norm_epsilon: float = 1e-6
    dtype: str = "float32"
    param_dtype: str = "float32"

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if field.type == "int" and (not isinstance(value, int) or value < 1):
                raise ConfigError(
                    f"T5Config.{field.name} must be a positive integer, got {value!r}"
                )
        object.__setattr__(self, "mlp_activations", tuple(self.mlp_activations))
        if self.mlp_activations not in ACTIVATIONS:
            raise ConfigError(
                f"T5Config.mlp_activations must be one of {sorted(ACTIVATIONS)}, "
                f"got {self.mlp_activations}"
            )
        for name in ("dtype", "param_dtype"):
            if getattr(self, name) not in DTYPES:
                raise ConfigError(
                    f"T5Config.{name} must be one of {DTYPES} (float16 overflows in T5's "
                    f"feed-forward layers), got {getattr(self, name)!r}"
                )

    @property
    def joined_kv(self) -> int:
        """H*K, the width of all heads together."""
        return self.num_heads * self.head_dim

    def parameter_count(self) -> int:
        """Number of weights by formula, tensors that are not there (tied logits) left out."""
        norm = self.d_model
        attention = 4 * self.d_model * self.joined_kv
        mlp = (len(self.mlp_activations) + 1) * self.d_model * self.mlp_dim
        encoder = self.encoder_layers * (attention + mlp + 2 * norm) + norm
        decoder = self.decoder_layers * (2 * attention + mlp + 3 * norm) + norm
        bias = 2 * self.relative_buckets * self.num_heads
        tables = self.vocab_size * self.d_model * (1 if self.tied_embeddings else 2)
        return encoder + decoder + bias + tables
