"""FLOPs by formula: what a task needs, and what the packed step computes for it.

Only matrix products count, two FLOPs (a multiply and an add) for each entry; norms, softmax,
biases and gathers are left out. With D embed, J = H*K, F mlp, V vocabulary, f the number of
matrices that lead into the feed-forward layer (2 when gated), and a layer:

    encoder token        2 (4 D J + (f+1) D F)          queries, keys, values, out, feed-forward
    decoder node         2 (6 D J + (f+1) D F)          the same, and queries and out of the
                                                        attention to the encoder
    memory token         2 (2 D J)                      its keys and values, once for all nodes
    visible pair         4 J                            score and mixture of one (query, key)
    read node            2 D V                          once, not in every layer

`necessary` counts each distinct encoder token and decoder node once and the pairs that see each
other; `computed` counts whole rows, padding and hidden pairs among them. The compiler's own count
is no help: it counts the body of a loop over layers once.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import numpy as np

from mlm_consistency.models.config import T5Config

if TYPE_CHECKING:
    from mlm_consistency.scoring.packing import PromptLengths
    from mlm_consistency.scoring.step import BatchShape


@dataclasses.dataclass(frozen=True)
class Flops:
    """FLOPs by part of the network.

    Attributes:
      encoder: dense layers of the encoder.
      encoder_attention: scores and mixtures of the encoder.
      decoder: dense layers of the decoder, without the next.
      memory: keys and values of the encoder's states in every decoder layer.
      decoder_attention: scores and mixtures of the decoder, to itself and to the encoder.
      logits: the output matrix at the read nodes.
    """

    encoder: float
    encoder_attention: float
    decoder: float
    memory: float
    decoder_attention: float
    logits: float

    @property
    def total(self) -> float:
        """Sum of the parts."""
        return float(sum(getattr(self, field.name) for field in dataclasses.fields(self)))

    def __mul__(self, times: float) -> Flops:
        return Flops(*(getattr(self, field.name) * times for field in dataclasses.fields(self)))


def necessary_flops(
    lengths: PromptLengths, model: T5Config, visible: np.ndarray | None = None
) -> Flops:
    """What these prompts need: every distinct token once, no padding.

    Args:
      lengths: of the prompts.
      model: sizes of the network.
      visible: (query, key) pairs of each prompt's decoder tree that see each other, int [n]. The
        lengths do not tell them; without it each node is counted as seeing the start and itself,
        the fewest there can be (of d 4096 it is less than a thousandth).
    """
    encoder, decoder = lengths.encoder.astype(float), lengths.decoder.astype(float)
    own = 2 * decoder - 1 if visible is None else visible.astype(float)
    return _flops(
        model,
        encoder_tokens=encoder.sum(),
        encoder_pairs=(encoder**2).sum(),
        nodes=decoder.sum(),
        memory_tokens=encoder.sum(),
        decoder_pairs=(own + encoder * decoder).sum(),
        reads=float(lengths.reads.sum()),
    )


def computed_flops(shape: BatchShape, model: T5Config) -> Flops:
    """What one data slot computes in one step of this shape."""
    return _flops(
        model,
        encoder_tokens=shape.encoder_tokens,
        encoder_pairs=sum(count * length**2 for length, count in shape.rows),
        nodes=shape.decoder_tokens,
        memory_tokens=shape.decoder_rows * shape.memory_length,
        decoder_pairs=shape.decoder_tokens * (shape.decoder_length + shape.memory_length),
        reads=shape.reads,
    )


def _flops(
    model: T5Config,
    *,
    encoder_tokens: float,
    encoder_pairs: float,
    nodes: float,
    memory_tokens: float,
    decoder_pairs: float,
    reads: float,
) -> Flops:
    square = model.d_model * model.joined_kv
    feed_forward = (len(model.mlp_activations) + 1) * model.d_model * model.mlp_dim
    return Flops(
        encoder=model.encoder_layers * encoder_tokens * 2 * (4 * square + feed_forward),
        encoder_attention=model.encoder_layers * encoder_pairs * 4 * model.joined_kv,
        decoder=model.decoder_layers * nodes * 2 * (6 * square + feed_forward),
        memory=model.decoder_layers * memory_tokens * 4 * square,
        decoder_attention=model.decoder_layers * decoder_pairs * 4 * model.joined_kv,
        logits=reads * 2 * model.d_model * model.vocab_size,
    )


def attention_weights(shape: BatchShape, model: T5Config) -> float:
    """Entries of all attention matrices that one data slot computes in one step."""
    encoder = sum(count * length**2 for length, count in shape.rows)
    decoder = shape.decoder_tokens * (shape.decoder_length + shape.memory_length)
    layers = model.encoder_layers * encoder + model.decoder_layers * decoder
    return float(model.num_heads * layers)
