"""One naming inside: T5X's names with a leaf a layer, whatever the file calls them.

in the parameter tree                        canonical names (one a layer)
encoder/layers/attention/query/kernel  <->   encoder.layers_0.attention.query.kernel
    [L, D, H*K]                              encoder.layers_1.attention.query.kernel ...
decoder/decoder_norm/scale [D]         <->   decoder.decoder_norm.scale
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import jax

from mlm_consistency.checkpoints.leaves import LayerLeaf, Leaf
from mlm_consistency.errors import CheckpointError
from mlm_consistency.models.config import T5Config
from mlm_consistency.models.t5 import abstract_parameters

ROOTS = ("token_embedder", "encoder", "decoder", "logits_dense")
PREFIXES = ("optimizer", "_optimizer", "target", "params")
# UL2 was published without it; a norm without a scale is a norm with a scale of ones.
OPTIONAL = frozenset({"decoder.decoder_norm.scale"})


@dataclasses.dataclass(frozen=True)
class Parameter:
    """An array of the parameter tree and the leaves that it is made of.

    Attributes:
      path: keys of the tree, `("encoder", "layers", "attention", "query", "kernel")`.
      shape: in the tree; the first axis counts layers where `stacked`.
      leaves: canonical names, one a layer where `stacked`, else a single one.
    """

    path: tuple[str, ...]
    shape: tuple[int, ...]
    stacked: bool
    leaves: tuple[str, ...]

    @property
    def leaf_shape(self) -> tuple[int, ...]:
        """Shape of each leaf."""
        return self.shape[1:] if self.stacked else self.shape


@functools.lru_cache(maxsize=64)
def parameters(config: T5Config) -> tuple[Parameter, ...]:
    """The arrays of a network of this configuration, in the order of its tree."""
    found = []
    for keys, abstract in jax.tree_util.tree_leaves_with_path(abstract_parameters(config)):
        path = tuple(str(key.key) for key in keys)
        stacked = "layers" in path
        names: tuple[str, ...]
        if path[0] == "logits_dense":
            names = (".".join(("decoder", *path)),)
        elif stacked:
            names = tuple(
                ".".join(f"layers_{i}" if part == "layers" else part for part in path)
                for i in range(abstract.shape[0])
            )
        else:
            names = (".".join(path),)
        found.append(Parameter(path, tuple(abstract.shape), stacked, names))
    return tuple(found)


def expected_shapes(config: T5Config) -> dict[str, tuple[int, ...]]:
    """Canonical name -> shape of every leaf of such a network."""
    return {name: p.leaf_shape for p in parameters(config) for name in p.leaves}


def canonical(name: str) -> str | None:
    """Our name of the leaf that a T5X or Orbax checkpoint calls `name`, with dots or slashes.

    None for what is no weight: optimizer state, step counters, data iterators.
    """
    parts = name.replace("/", ".").strip(".").split(".")
    known = [i for i, part in enumerate(parts) if part not in PREFIXES]
    first = known[0] if known else len(parts)
    if first == len(parts):
        return None
    if parts[first] not in ROOTS:
        # Under target. or params. everything is a weight, so an unknown one is reported later.
        return ".".join(parts[first:]) if {"target", "params"} & set(parts[:first]) else None
    if parts[first] == "logits_dense":
        parts.insert(first, "decoder")
    return ".".join(parts[first:])


def unstacked(leaf: Leaf) -> list[Leaf]:
    """The leaves of single layers that a leaf of stacked layers holds; others unchanged.

    Raises:
      CheckpointError: for T5X's scanned ("scalable") checkpoints, whose relative bias differs
        from layer to layer: another network than T5.
    """
    parts = leaf.name.split(".")
    if parts[:2] in (["encoder", "encoder"], ["decoder", "decoder"]) or (
        "layers" in parts and "relpos_bias" in parts
    ):
        raise CheckpointError(
            f"leaf {leaf.source} belongs to a scanned T5X model, which learns a relative position "
            "bias for each layer; T5, UL2 and Flan share one in each stack. Use a checkpoint "
            "trained with t5x.examples.t5"
        )
    if "layers" not in parts:
        return [leaf]
    if not leaf.shape:
        raise CheckpointError(f"leaf {leaf.source}: expected layers on the first axis, shape ()")
    return [
        LayerLeaf(leaf.name.replace(".layers.", f".layers_{i}.", 1), leaf, i)
        for i in range(leaf.shape[0])
    ]


def nested(flat: dict[tuple[str, ...], Any]) -> dict[str, Any]:
    """The tree of dictionaries of values by path."""
    tree: dict[str, Any] = {}
    for path, value in flat.items():
        node = tree
        for part in path[:-1]:
            node = node.setdefault(part, {})
        node[path[-1]] = value
    return tree
