"""Which leaves a network of the BERT family has, and how Orbax folders of it name them."""

from __future__ import annotations

import jax
import numpy as np

from mlm_consistency.checkpoints.checkpoint import Checkpoint
from mlm_consistency.checkpoints.leaves import ArrayLeaf, Leaf
from mlm_consistency.checkpoints.naming import Parameter
from mlm_consistency.errors import CheckpointError
from mlm_consistency.models.bert import abstract_parameters
from mlm_consistency.models.bert_config import BertConfig

BERT_ARCHITECTURE = "bert_architecture.json"
DTYPES = ("float32", "bfloat16", "float16", "float64")
SHOWN = 5


def bert_parameters(config: BertConfig) -> list[Parameter]:
    """The arrays of such a network, in the order of its tree, and the leaves that they are of."""
    found = []
    for keys, abstract in jax.tree_util.tree_leaves_with_path(abstract_parameters(config)):
        path = tuple(str(key.key) for key in keys)
        stacked = "layers" in path
        depth = range(abstract.shape[0] if stacked else 1)
        names = [".".join(f"layers_{i}" if p == "layers" else p for p in path) for i in depth]
        found.append(Parameter(path, tuple(abstract.shape), stacked, tuple(names)))
    return found


def check_bert_leaves(checkpoint: Checkpoint, config: BertConfig) -> None:
    """Holds every leaf's name, shape and dtype against the network, before anything is read.

    Raises:
      CheckpointError: for missing or extra leaves, a wrong shape, or a dtype that is no float.
    """
    wanted = {n: p.leaf_shape for p in bert_parameters(config) for n in p.leaves}
    leaves = checkpoint.leaves
    problems = [f"missing {n} {shape}" for n, shape in wanted.items() if n not in leaves]
    problems += [
        f"not expected {leaves[n].source} {leaves[n].shape}" for n in leaves if n not in wanted
    ]
    for name, shape in wanted.items():
        if name in leaves and leaves[name].shape != shape:
            problems.append(f"{leaves[name].source} has {leaves[name].shape}, expected {shape}")
        elif name in leaves and leaves[name].dtype.name not in DTYPES:
            problems.append(f"{leaves[name].source} is {leaves[name].dtype.name}, not a float")
    if problems:
        more = f" and {len(problems) - SHOWN} more" if len(problems) > SHOWN else ""
        raise CheckpointError(
            f"{checkpoint.address}: leaves do not fit {config.name}: "
            f"{'; '.join(problems[:SHOWN])}{more}. Check that config.json belongs to the weights"
        )


def under_params(leaf: Leaf, array: np.ndarray) -> ArrayLeaf:
    """The leaf as Orbax folders name it: under `params.` everything is a weight, whatever its
    first word is."""
    name = f"params.{leaf.name}"
    return ArrayLeaf(name, name, array)
