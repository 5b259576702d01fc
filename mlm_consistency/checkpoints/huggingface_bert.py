"""Hugging Face folders of the BERT family: whose tensors are which of our leaves.

    bert.encoder.layer.3.attention.self.query.weight [D, D]   \\
    roberta.encoder.layer.3.attention.self.query.weight        > encoder.layers_3.attention.query
    distilbert.transformer.layer.3.attention.q_lin.weight     /           .kernel, transposed
    albert.encoder.albert_layer_groups.0.albert_layers.0.attention.query.weight
                                                  -> encoder.shared_layer.attention.query.kernel

Poolers and next-sentence heads are left out; a decoder matrix that is a copy of the embedding is
checked and dropped.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable

import numpy as np

from mlm_consistency.checkpoints.addresses import Folder
from mlm_consistency.checkpoints.checkpoint import Checkpoint, Form, natural
from mlm_consistency.checkpoints.huggingface import CONFIG, INDEX, PICKLE, SAFETENSORS
from mlm_consistency.checkpoints.leaves import Index, Leaf
from mlm_consistency.checkpoints.safetensors_file import read_header, tensor_leaf
from mlm_consistency.errors import CheckpointError
from mlm_consistency.models.bert_config import (
    MODEL_TYPES,
    BertConfig,
    bert_config_from_huggingface,
)

FORM_NAME = "huggingface-bert"
PREFIX = re.compile(r"(?:(bert|roberta|distilbert|albert)\.)?(.+)\.(weight|bias|gamma|beta)")
LAYER = re.compile(r"(encoder|transformer)\.layer\.(\d+)\.(.+)")
SHARED = "encoder.albert_layer_groups.0.albert_layers.0."
# Module there -> module here. What a weight is follows from ours: "embedder" is a table, "norm"
# a norm, all else an affine map, whose kernel lies transposed.
MODULES = {
    "embeddings.word_embeddings": "token_embedder",
    "embeddings.position_embeddings": "position_embedder",
    "embeddings.token_type_embeddings": "token_type_embedder",
    "embeddings.LayerNorm": "embedding_layer_norm",
    "encoder.embedding_hidden_mapping_in": "embedding_projection",
    "cls.predictions.transform.dense": "mlm_head.dense",
    "cls.predictions.transform.LayerNorm": "mlm_head.layer_norm",
    "lm_head.dense": "mlm_head.dense",
    "lm_head.layer_norm": "mlm_head.layer_norm",
    "vocab_transform": "mlm_head.dense",
    "vocab_layer_norm": "mlm_head.layer_norm",
    "predictions.dense": "mlm_head.dense",
    "predictions.LayerNorm": "mlm_head.layer_norm",
}
IN_LAYER = {
    "attention.self.query": "attention.query",
    "attention.self.key": "attention.key",
    "attention.self.value": "attention.value",
    "attention.output.dense": "attention.out",
    "attention.output.LayerNorm": "attention_layer_norm",
    "intermediate.dense": "mlp.wi",
    "output.dense": "mlp.wo",
    "output.LayerNorm": "mlp_layer_norm",
    "attention.q_lin": "attention.query",
    "attention.k_lin": "attention.key",
    "attention.v_lin": "attention.value",
    "attention.out_lin": "attention.out",
    "sa_layer_norm": "attention_layer_norm",
    "ffn.lin1": "mlp.wi",
    "ffn.lin2": "mlp.wo",
    "output_layer_norm": "mlp_layer_norm",
}
IN_SHARED_LAYER = {
    "attention.query": "attention.query",
    "attention.key": "attention.key",
    "attention.value": "attention.value",
    "attention.dense": "attention.out",
    "attention.LayerNorm": "attention_layer_norm",
    "ffn": "mlp.wi",
    "ffn_output": "mlp.wo",
    "full_layer_layer_norm": "mlp_layer_norm",
}
HEAD_BIASES = ("cls.predictions.bias", "lm_head.bias", "predictions.bias", "vocab_projector.bias")
DECODERS = ("cls.predictions.decoder", "lm_head.decoder", "predictions.decoder", "vocab_projector")
COPY = "decoder_copy"
NOT_READ = re.compile(
    r"(\w+\.)?(pooler\..+|embeddings\.(position_ids|token_type_ids))"
    r"|cls\.seq_relationship\..+|sop_classifier\..+"
)


def our_bert_name(name: str) -> tuple[str, bool]:
    """Our name of the tensor `name`, and whether it lies transposed; unknown ones stay."""
    if name in HEAD_BIASES:
        return "mlm_head.bias", False
    match = PREFIX.fullmatch(name)
    if not match:
        return name, False
    _, module, last = match.groups()
    if module in DECODERS:
        return f"{COPY}.{last}", False
    ours = MODULES.get(module)
    if layer := LAYER.fullmatch(module):
        inside = IN_LAYER.get(layer[3])
        ours = inside and f"encoder.layers_{layer[2]}.{inside}"
    elif module.startswith(SHARED):
        inside = IN_SHARED_LAYER.get(module.removeprefix(SHARED))
        ours = inside and f"encoder.shared_layer.{inside}"
    if not ours:
        return name, False
    if ours.endswith("embedder"):
        return f"{ours}.embedding", False
    if last in ("bias", "beta"):
        return f"{ours}.bias", False
    # Checkpoints converted from TensorFlow call a norm's scale gamma and its bias beta.
    return (f"{ours}.scale", False) if ours.endswith("norm") else (f"{ours}.kernel", True)


@dataclasses.dataclass(frozen=True)
class PaddedLeaf(Leaf):
    """A leaf [V, ..] with rows of zeros behind it, up to `rows`: the vocabulary rounded up."""

    leaf: Leaf
    rows: int

    @property
    def name(self) -> str:  # type: ignore[override]
        return self.leaf.name

    @property
    def source(self) -> str:  # type: ignore[override]
        return self.leaf.source

    @property
    def shape(self) -> tuple[int, ...]:  # type: ignore[override]
        return (self.rows, *self.leaf.shape[1:])

    @property
    def dtype(self) -> np.dtype:  # type: ignore[override]
        return self.leaf.dtype

    def read(self, index: Index) -> np.ndarray:
        shape = tuple(part.stop - part.start for part in index)
        out = np.zeros(shape, self.dtype)
        stop = min(index[0].stop, self.leaf.shape[0])
        if stop > index[0].start:
            out[: stop - index[0].start] = self.leaf.read((slice(index[0].start, stop), *index[1:]))
        return out


def recognises(folder: Folder) -> bool:
    """Whether the folder holds a config.json of this family, and weights."""
    if not folder.holds(CONFIG) or _weights(folder) is None:
        return False
    kind = folder.read_json(CONFIG).get("model_type")
    return kind in MODEL_TYPES or (kind is None and _family(_tensor_names(folder)) is not None)


def open_folder(folder: Folder) -> Checkpoint:
    """The checkpoint in a Hugging Face folder of the BERT family; its `config` is a `BertConfig`.

    Raises:
      CheckpointError: if a shard is missing or damaged, the folder holds an encoder without its
        masked language head, or a decoder matrix that is no copy of the embedding.
      ConfigError: for a variant of the family that is not built here.
    """
    place = f"{folder.address}/{CONFIG}"
    tensors = [leaf for leaf in _leaves(folder) if not NOT_READ.fullmatch(leaf.source)]
    family = _family(leaf.source for leaf in tensors)
    config = bert_config_from_huggingface(folder.read_json(CONFIG), place, family)
    named: dict[str, Leaf] = {}
    for leaf in tensors:
        if leaf.name in named:
            raise CheckpointError(
                f"{folder.address}: {leaf.source} and {named[leaf.name].source} are both "
                f"{leaf.name}"
            )
        named[leaf.name] = leaf
    copies = {k: named.pop(f"{COPY}.{k}", None) for k in ("weight", "bias")}
    if copies["bias"] is not None and "mlm_head.bias" not in named:
        named["mlm_head.bias"] = dataclasses.replace(copies["bias"], name="mlm_head.bias")  # type: ignore[type-var]
    _check_head(named, folder)
    _check_copy(copies["weight"], named["token_embedder.embedding"], folder)
    for name in ("token_embedder.embedding", "mlm_head.bias"):
        if named[name].shape[0] == config.vocab_size:
            named[name] = PaddedLeaf(named[name], config.vocab_rows)
    leaves = {name: named[name] for name in sorted(named, key=natural)}
    return Checkpoint(folder.address, FORM_NAME, leaves, config)


def _weights(folder: Folder) -> str | None:
    for file in (SAFETENSORS, SAFETENSORS + INDEX, PICKLE, PICKLE + INDEX):
        if folder.holds(file):
            return file
    return None


def _leaves(folder: Folder) -> list[Leaf]:
    """A leaf for each tensor of the folder, under our name where it has one."""
    weights = _weights(folder)
    if weights is None:
        raise CheckpointError(
            f"{folder.address} holds neither {SAFETENSORS} nor {PICKLE}: download the weights too"
        )
    files = [weights]
    if weights.endswith(INDEX):
        files = sorted(set(folder.read_json(weights).get("weight_map", {}).values()))
    leaves: list[Leaf] = []
    for file in files:
        if not folder.holds(file):
            raise CheckpointError(f"{folder.address}/{file} does not exist, but {weights} names it")
        if weights.startswith(SAFETENSORS):
            for tensor in read_header(folder, file):
                name, transposed = our_bert_name(tensor.name)
                leaves.append(tensor_leaf(folder, file, tensor, name, transposed))
        else:
            from mlm_consistency.checkpoints.torch_pickle import pickle_leaves

            leaves += pickle_leaves(folder, file, our_bert_name, ())
    return leaves


def _tensor_names(folder: Folder) -> list[str]:
    return [leaf.source for leaf in _leaves(folder)]


def _family(names: Iterable[str]) -> str | None:
    """The type of model that the tensors' first words tell; files of 2019 do not say it."""
    for name in names:
        match = PREFIX.fullmatch(name)
        if match and match[1]:
            return match[1]
    return None


def _check_head(named: dict[str, Leaf], folder: Folder) -> None:
    needed = ("token_embedder.embedding", "mlm_head.dense.kernel", "mlm_head.bias")
    missing = [name for name in needed if name not in named]
    if missing:
        raise CheckpointError(
            f"{folder.address} has no {', '.join(missing)}: an encoder without its masked language "
            "head cannot say which word it expects. Take the weights of a ...ForMaskedLM"
        )


def _check_copy(copy: Leaf | None, table: Leaf, folder: Folder) -> None:
    """Refuses an output matrix of its own, which this family does not have."""
    if copy is None:
        return
    part = (slice(0, min(64, table.shape[0])), slice(0, table.shape[1]))
    if copy.shape != table.shape or not np.array_equal(copy.read(part), table.read(part)):
        raise CheckpointError(
            f"{folder.address}: {copy.source} {copy.shape} is no copy of {table.source} "
            f"{table.shape}; expected an output matrix tied to the embedding"
        )


FORM = Form(recognises, open_folder)


def bert_config(checkpoint: Checkpoint) -> BertConfig:
    """The network of a checkpoint of this family.

    Raises:
      CheckpointError: if it is another family's.
    """
    if not isinstance(checkpoint.config, BertConfig):
        raise CheckpointError(f"{checkpoint.address} ({checkpoint.form}) is no BERT's checkpoint")
    return checkpoint.config
