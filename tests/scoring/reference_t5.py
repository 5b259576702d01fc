"""A T5 in plain NumPy, float64, one prompt and one candidate at a time: the ground truth.

Written from the papers (arXiv 1910.10683, section 2.1; 1910.07467; 2002.05202) and sharing no code
with the package: no rows, no trees, no segments, no masks but "not to the right".
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

Tree = dict[str, Any]


def bucket(offset: int, bidirectional: bool, buckets: int = 32, farthest: int = 128) -> int:
    """Bucket of the relative position key - query, by integer comparison wherever that decides."""
    first = 0
    if bidirectional:
        buckets //= 2
        first = buckets if offset > 0 else 0
        distance = abs(offset)
    else:
        distance = max(-offset, 0)
    exact = buckets // 2
    if distance < exact:
        return first + distance
    # The largest k with (farthest / exact)^(k / (buckets - exact)) <= distance / exact, in whole
    # numbers: (farthest / exact)^k exact^m <= distance^m, m = buckets - exact.
    m = buckets - exact
    k = 0
    while k + 1 < m and (farthest ** (k + 1)) * exact ** (m - k - 1) <= distance**m:
        k += 1
    return first + exact + k


@functools.cache
def buckets_of(bidirectional: bool, buckets: int, farthest: int = 600) -> np.ndarray:
    """Buckets of the offsets -farthest .. farthest."""
    offsets = range(-farthest, farthest + 1)
    return np.asarray([bucket(offset, bidirectional, buckets) for offset in offsets])


def bias(table: np.ndarray, queries: int, keys: int, bidirectional: bool) -> np.ndarray:
    """[H, Q, M] from a table [H, buckets]."""
    offsets = np.arange(keys)[None] - np.arange(queries)[:, None]
    return table[:, buckets_of(bidirectional, table.shape[1])[offsets + 600]]


def norm(x: np.ndarray, scale: np.ndarray, epsilon: float) -> np.ndarray:
    return x / np.sqrt((x**2).mean(-1, keepdims=True) + epsilon) * scale


def attention(weights: Tree, x: np.ndarray, memory: np.ndarray, added: Any, heads: int):
    """added: [H, Q, M] or 0, minus infinity where a query may not look."""

    def split(name: str, y: np.ndarray) -> np.ndarray:
        z = y @ weights[name]["kernel"]
        return z.reshape(len(y), heads, -1)

    query, key, value = split("query", x), split("key", memory), split("value", memory)
    mixed = np.empty_like(query)
    for h in range(heads):
        scores = query[:, h] @ key[:, h].T + (added[h] if np.ndim(added) else 0.0)
        scores = np.exp(scores - scores.max(-1, keepdims=True))
        mixed[:, h] = scores / scores.sum(-1, keepdims=True) @ value[:, h]
    return mixed.reshape(len(x), -1) @ weights["out"]["kernel"]


def feed_forward(weights: Tree, x: np.ndarray, activations: tuple[str, ...]) -> np.ndarray:
    def act(name: str, y: np.ndarray) -> np.ndarray:
        if name == "relu":
            return np.maximum(y, 0)
        if name == "silu":
            return y / (1 + np.exp(-y))
        if name == "gelu":  # the tanh form, which T5 1.1 was trained with
            return 0.5 * y * (1 + np.tanh(math.sqrt(2 / math.pi) * (y + 0.044715 * y**3)))
        return y

    if len(activations) == 1:
        return act(activations[0], x @ weights["wi"]["kernel"]) @ weights["wo"]["kernel"]
    gate = act(activations[0], x @ weights["wi_0"]["kernel"])
    return (gate * act(activations[1], x @ weights["wi_1"]["kernel"])) @ weights["wo"]["kernel"]


def layer(stack: Tree, number: int) -> Tree:
    """Weights of one layer out of a stack with layers on the leading axis."""
    return {k: layer(v, number) if isinstance(v, dict) else v[number] for k, v in stack.items()}


class ReferenceT5:
    """Log-probabilities of targets given encoder tokens, for weights in the package's tree."""

    def __init__(self, config: Any, params: Any) -> None:
        def wide(tree: Any) -> Any:
            if hasattr(tree, "items"):
                return {k: wide(v) for k, v in tree.items()}
            return np.asarray(tree, np.float64)

        self.config, self.params = config, wide(params)

    @functools.lru_cache(maxsize=64)  # noqa: B019 (a handful of references a session)
    def encoded(self, tokens: tuple[int, ...]) -> np.ndarray:
        """Encoder states [S, D]; the candidates of a prompt ask for the same ones."""
        return self.encode(np.asarray(tokens))

    def encode(self, tokens: np.ndarray) -> np.ndarray:
        c, p = self.config, self.params["encoder"]
        x = self.params["token_embedder"]["embedding"][tokens]
        added = bias(p["relpos_bias"]["rel_embedding"], len(x), len(x), bidirectional=True)
        for number in range(c.encoder_layers):
            w = layer(p["layers"], number)
            y = norm(x, w["pre_attention_layer_norm"]["scale"], c.layer_norm_epsilon)
            x = x + attention(w["attention"], y, y, added, c.num_heads)
            y = norm(x, w["pre_mlp_layer_norm"]["scale"], c.layer_norm_epsilon)
            x = x + feed_forward(w["mlp"], y, c.mlp_activations)
        return norm(x, p["encoder_norm"]["scale"], c.layer_norm_epsilon)

    def target_log_probs(self, encoder: np.ndarray, targets: np.ndarray) -> np.ndarray:
        """log p(targets[t] | encoder, targets[:t]) in nats, float64 [T]; start token 0."""
        log_p = self.next_log_probs(encoder, targets[:-1])
        return log_p[np.arange(len(targets)), targets]

    def next_log_probs(self, encoder: np.ndarray, targets: np.ndarray) -> np.ndarray:
        """log p(. | encoder, targets[:t]) for t = 0 .. len(targets), float64 [T + 1, V]."""
        c, p = self.config, self.params["decoder"]
        encoded = self.encoded(tuple(map(int, encoder)))
        table = self.params["token_embedder"]["embedding"]
        x = table[np.concatenate([[0], targets]).astype(int)]
        added = bias(p["relpos_bias"]["rel_embedding"], len(x), len(x), bidirectional=False)
        added = added + np.where(np.tri(len(x)), 0.0, -np.inf)
        for number in range(c.decoder_layers):
            w = layer(p["layers"], number)
            y = norm(x, w["pre_self_attention_layer_norm"]["scale"], c.layer_norm_epsilon)
            x = x + attention(w["self_attention"], y, y, added, c.num_heads)
            y = norm(x, w["pre_cross_attention_layer_norm"]["scale"], c.layer_norm_epsilon)
            x = x + attention(w["encoder_decoder_attention"], y, encoded, 0.0, c.num_heads)
            y = norm(x, w["pre_mlp_layer_norm"]["scale"], c.layer_norm_epsilon)
            x = x + feed_forward(w["mlp"], y, c.mlp_activations)
        x = norm(x, p["decoder_norm"]["scale"], c.layer_norm_epsilon)
        if c.tied_embeddings:
            logits = x @ table.T / math.sqrt(c.d_model)
        else:
            logits = x @ self.params["logits_dense"]["kernel"]
        top = logits.max(-1, keepdims=True)
        return logits - top - np.log(np.exp(logits - top).sum(-1, keepdims=True))

    def candidate(self, encoder: np.ndarray, prefix: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Of the tokens of one candidate behind its prefix."""
        return self.target_log_probs(encoder, np.concatenate([prefix, y]))[len(prefix) :]
