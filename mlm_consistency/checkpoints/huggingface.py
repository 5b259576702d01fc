"""Hugging Face folders: config.json beside safetensors files, or older pickles (*.bin).

Kernels lie transposed against ours; the relative bias sits in the first block of each stack:

    encoder.block.3.layer.0.SelfAttention.q.weight [H*K, D]
        <-> encoder.layers_3.attention.query.kernel [D, H*K]
    decoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight [32, H]
        <-> decoder.relpos_bias.rel_embedding [H, 32]
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from mlm_consistency.checkpoints.addresses import Folder
from mlm_consistency.checkpoints.checkpoint import Checkpoint, Form, checkpoint_of
from mlm_consistency.checkpoints.leaves import Leaf
from mlm_consistency.checkpoints.safetensors_file import read_header, tensor_leaf
from mlm_consistency.errors import CheckpointError
from mlm_consistency.models.huggingface import config_from_huggingface

CONFIG = "config.json"
SAFETENSORS = "model.safetensors"
PICKLE = "pytorch_model.bin"
INDEX = ".index.json"
ABSENT = "mlm_consistency_absent"

ATTENTION = {"q": "query", "k": "key", "v": "value", "o": "out"}
# Block layer -> (module there, ours, our norm before it).
BLOCKS = {
    "encoder": {
        "0": ("SelfAttention", "attention", "pre_attention_layer_norm"),
        "1": ("DenseReluDense", "mlp", "pre_mlp_layer_norm"),
    },
    "decoder": {
        "0": ("SelfAttention", "self_attention", "pre_self_attention_layer_norm"),
        "1": ("EncDecAttention", "encoder_decoder_attention", "pre_cross_attention_layer_norm"),
        "2": ("DenseReluDense", "mlp", "pre_mlp_layer_norm"),
    },
}
# Copies of the shared table, and a bias that no version of the model uses.
REDUNDANT = {
    "encoder.embed_tokens.weight",
    "decoder.embed_tokens.weight",
    "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight",
}
FIXED = {
    "shared.weight": ("token_embedder.embedding", False),
    "lm_head.weight": ("decoder.logits_dense.kernel", True),
    "encoder.final_layer_norm.weight": ("encoder.encoder_norm.scale", False),
    "decoder.final_layer_norm.weight": ("decoder.decoder_norm.scale", False),
}
IN_BLOCK = re.compile(r"(encoder|decoder)\.block\.(\d+)\.layer\.(\d)\.(?:(\w+)\.)?(\w+)\.weight")


def our_name(name: str) -> tuple[str, bool]:
    """Our name of the tensor `name`, and whether it lies transposed; unknown ones stay."""
    if name in FIXED:
        return FIXED[name]
    match = IN_BLOCK.fullmatch(name)
    if match:
        stack, block, layer, module, last = match.groups()
        expected, ours, norm = BLOCKS[stack].get(layer, ("", "", ""))
        if module is None and last == "layer_norm" and norm:
            return f"{stack}.layers_{block}.{norm}.scale", False
        if module == expected and last == "relative_attention_bias" and block == "0":
            return f"{stack}.relpos_bias.rel_embedding", True
        if module == expected == "DenseReluDense":
            return f"{stack}.layers_{block}.{ours}.{last}.kernel", True
        if module == expected and last in ATTENTION:
            return f"{stack}.layers_{block}.{ours}.{ATTENTION[last]}.kernel", True
    return name, False


def their_name(name: str) -> tuple[str, bool]:
    """Hugging Face's name of our leaf `name`, and whether it is transposed there."""
    for theirs, (ours, transposed) in FIXED.items():
        if name == ours:
            return theirs, transposed
    parts = name.split(".")
    stack = parts[0]
    if parts[1] == "relpos_bias":
        return f"{stack}.block.0.layer.0.SelfAttention.relative_attention_bias.weight", True
    block = parts[1].removeprefix("layers_")
    for layer, (module, ours, norm) in BLOCKS[stack].items():
        if parts[2] == norm:
            return f"{stack}.block.{block}.layer.{layer}.layer_norm.weight", False
        if parts[2] == ours:
            last = {v: k for k, v in ATTENTION.items()}.get(parts[3], parts[3])
            return f"{stack}.block.{block}.layer.{layer}.{module}.{last}.weight", True
    raise CheckpointError(f"leaf {name} has no place in a Hugging Face T5")


def recognises(folder: Folder) -> bool:
    """Whether the folder holds a config.json and weights."""
    return folder.holds(CONFIG) and _weights(folder) is not None


def _weights(folder: Folder) -> str | None:
    for file in (SAFETENSORS, SAFETENSORS + INDEX, PICKLE, PICKLE + INDEX):
        if folder.holds(file):
            return file
    return None


def open_folder(folder: Folder) -> Checkpoint:
    """The checkpoint in a Hugging Face folder.

    Raises:
      CheckpointError: if a shard is missing or cut short, if the configuration contradicts the
        weights, or if there are pickles alone and torch is not installed.
    """
    config = folder.read_json(CONFIG)
    weights = _weights(folder) or SAFETENSORS
    files = [weights]
    if weights.endswith(INDEX):
        index = folder.read_json(weights).get("weight_map")
        if not isinstance(index, dict) or not index:
            raise CheckpointError(f"{folder.address}/{weights} has no weight_map")
        files = sorted(set(index.values()))
    leaves: list[Leaf] = []
    for file in files:
        if not folder.holds(file):
            raise CheckpointError(f"{folder.address}/{file} does not exist, but {weights} names it")
        if weights.startswith(SAFETENSORS):
            for tensor in read_header(folder, file):
                name, transposed = our_name(tensor.name)
                if tensor.name not in REDUNDANT:
                    leaves.append(tensor_leaf(folder, file, tensor, name, transposed))
        else:
            from mlm_consistency.checkpoints.torch_pickle import pickle_leaves

            leaves += pickle_leaves(folder, file, our_name, REDUNDANT)
    leaves = _with_table(leaves, folder)
    absent = set(config.get(ABSENT, ()))
    kept = _consistent([leaf for leaf in leaves if leaf.name not in absent], config, folder)
    place = f"{folder.address}/{CONFIG}"
    network = config_from_huggingface({"_name_or_path": folder.name, **config}, place)
    return checkpoint_of(folder, "huggingface", kept, network)


def _with_table(leaves: list[Leaf], folder: Folder) -> list[Leaf]:
    """Checks that the shared table is there under its own name."""
    if not any(leaf.name == "token_embedder.embedding" for leaf in leaves):
        raise CheckpointError(
            f"{folder.address} has no tensor shared.weight, the table of embeddings: expected the "
            "weights of a T5ForConditionalGeneration"
        )
    return leaves


def _consistent(leaves: list[Leaf], config: Mapping[str, Any], folder: Folder) -> list[Leaf]:
    """The leaves with the output matrix dropped where it is a copy of the tied table."""
    head = next((leaf for leaf in leaves if leaf.name == "decoder.logits_dense.kernel"), None)
    tied = config.get("tie_word_embeddings", config.get("model_type") != "mt5")
    if not tied and head is None:
        raise CheckpointError(
            f"{folder.address}/{CONFIG} says tie_word_embeddings: false, but there is no tensor "
            "lm_head.weight. If the model ties its embeddings, as T5 1.0 and UL2 do, set "
            "tie_word_embeddings to true there (logits are then scaled by d_model^-0.5); "
            "otherwise the weights are incomplete"
        )
    if not tied or head is None:
        return leaves
    table = next(leaf for leaf in leaves if leaf.name == "token_embedder.embedding")
    rows = slice(0, min(64, table.shape[0]))
    columns = slice(0, table.shape[1])
    if head.shape != table.shape[::-1] or not np.array_equal(
        head.read((columns, rows)), table.read((rows, columns)).T
    ):
        raise CheckpointError(
            f"{folder.address}/{CONFIG} ties the output to the embeddings, but lm_head.weight "
            f"differs from shared.weight (shapes {head.shape[::-1]} and {table.shape}). Set "
            "tie_word_embeddings to false if lm_head is meant, or remove it from the file"
        )
    return [leaf for leaf in leaves if leaf is not head]


FORM = Form(recognises, open_folder)
