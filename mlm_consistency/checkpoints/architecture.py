"""Which network a checkpoint's weights belong to, and whether they are all there."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable

from mlm_consistency.checkpoints.checkpoint import Checkpoint
from mlm_consistency.checkpoints.naming import OPTIONAL, expected_shapes
from mlm_consistency.errors import CheckpointError
from mlm_consistency.models.bert_config import BertConfig
from mlm_consistency.models.config import DTYPES, T5Config
from mlm_consistency.models.presets import network_fields, preset_names

LAYER = re.compile(r"(encoder|decoder)\.layers_(\d+)\.")
SHOWN = 5


def architecture(checkpoint: Checkpoint, expected: T5Config | None = None) -> T5Config:
    """The network that the leaves' names and shapes, and a configuration beside them, describe.

    Shapes tell everything but the activation of a gated layer. Where no configuration says it,
    an untied output means gelu (T5 1.1, Flan, mT5) and a tied one silu (UL2).

    Args:
      checkpoint: opened, not read.
      expected: what the user says it is (`MODEL`); the checkpoint is held against it.

    Raises:
      CheckpointError: if the leaves are not a T5's, or differ from `expected` or from the
        configuration beside them; names the fields, the leaf and both values.
    """
    if isinstance(checkpoint.config, BertConfig):
        raise CheckpointError(
            f"{checkpoint.address} ({checkpoint.form}) is of the BERT family, which has no decoder "
            "to score candidates with: ask it about pairs of words (`mlm-consistency bigrams`) or "
            "from Python (`load_model`)"
        )
    inferred = _inferred(checkpoint)
    claims = [(checkpoint.config, "its configuration file"), (expected, "MODEL")]
    for claim, who in claims:
        if claim is not None:
            _agree(checkpoint, inferred, claim, who)
            # Shapes cannot contradict what they do not tell.
            inferred = dataclasses.replace(
                inferred,
                mlp_activations=claim.mlp_activations,
                relative_max_distance=claim.relative_max_distance,
                layer_norm_epsilon=claim.layer_norm_epsilon,
            )
    if expected is not None:
        return expected
    if checkpoint.config is not None:
        return dataclasses.replace(inferred, name=checkpoint.config.name)
    names = preset_names(inferred)
    if names:  # T5 1.1 and Flan, or UL2 and Flan-UL2, cannot be told apart by their shapes
        alike = names[0] if len(names) == 1 else f"like_{names[0]}"
        inferred = dataclasses.replace(inferred, name=alike)
    return inferred


def check_leaves(checkpoint: Checkpoint, config: T5Config) -> None:
    """Holds every leaf's name, shape and dtype against the network, before anything is read.

    Raises:
      CheckpointError: for missing or extra leaves, a wrong shape (with both shapes), or a dtype
        that is not float32 or bfloat16.
    """
    wanted = expected_shapes(config)
    leaves = checkpoint.leaves
    missing = [n for n in wanted if n not in leaves and n not in OPTIONAL]
    extra = [n for n in leaves if n not in wanted]
    if missing or extra:
        problems = []
        if missing:
            problems.append("missing " + _some(f"{n} of shape {wanted[n]}" for n in missing))
        if extra:
            problems.append("not expected " + _some(f"{n} {leaves[n].shape}" for n in extra))
        raise CheckpointError(
            f"{checkpoint.address}: leaves do not fit {config.name}: {'; '.join(problems)}. "
            "Choose another MODEL, or check that the checkpoint is whole"
        )
    wrong = [n for n, leaf in leaves.items() if leaf.shape != wanted[n]]
    if wrong:
        shapes = _some(f"{n} has {leaves[n].shape}, expected {wanted[n]}" for n in wrong)
        raise CheckpointError(f"{checkpoint.address}: shapes do not fit {config.name}: {shapes}")
    for name, leaf in leaves.items():
        if leaf.dtype.name == "float16":
            raise CheckpointError(
                f"{checkpoint.address}: leaf {name} is float16, which T5's feed-forward layers "
                "overflow (values above 65504 became infinite or were clipped when it was "
                "written). Use the float32 or bfloat16 weights"
            )
        if leaf.dtype.name not in DTYPES:
            raise CheckpointError(
                f"{checkpoint.address}: leaf {name} is {leaf.dtype.name}; expected one of {DTYPES}"
            )


def _some(items: Iterable[str]) -> str:
    """The first few of `items`, and how many more there are."""
    listed = list(items)
    more = f" and {len(listed) - SHOWN} more" if len(listed) > SHOWN else ""
    return ", ".join(listed[:SHOWN]) + more


def _inferred(checkpoint: Checkpoint) -> T5Config:
    leaves = checkpoint.leaves

    def shape(name: str, axes: int) -> tuple[int, ...]:
        if name not in leaves:
            raise CheckpointError(
                f"{checkpoint.address} ({checkpoint.form}) has no leaf {name}, which every T5 "
                f"has; it holds {_some(leaves)}"
            )
        if len(leaves[name].shape) != axes:
            raise CheckpointError(
                f"{checkpoint.address}: leaf {name} has shape {leaves[name].shape}, expected "
                f"{axes} axes"
            )
        return leaves[name].shape

    depth = {"encoder": 0, "decoder": 0}
    for name in leaves:
        match = LAYER.match(name)
        if match:
            depth[match[1]] = max(depth[match[1]], int(match[2]) + 1)
    vocab_size, width = shape("token_embedder.embedding", 2)
    heads, buckets = shape("encoder.relpos_bias.rel_embedding", 2)
    joined = shape("encoder.layers_0.attention.query.kernel", 2)[1]
    if joined % heads:
        raise CheckpointError(
            f"{checkpoint.address}: encoder.layers_0.attention.query.kernel gives {joined} "
            f"columns, which {heads} heads (encoder.relpos_bias.rel_embedding) do not divide"
        )
    gated = "encoder.layers_0.mlp.wi_0.kernel" in leaves
    tied = "decoder.logits_dense.kernel" not in leaves
    activations = (("silu" if tied else "gelu"), "linear") if gated else ("relu",)
    mlp = "encoder.layers_0.mlp.wi_0.kernel" if gated else "encoder.layers_0.mlp.wi.kernel"
    shape("decoder.layers_0.self_attention.query.kernel", 2)
    return T5Config(
        name="custom",
        vocab_size=vocab_size,
        d_model=width,
        num_heads=heads,
        head_dim=joined // heads,
        mlp_dim=shape(mlp, 2)[1],
        encoder_layers=depth["encoder"],
        decoder_layers=depth["decoder"],
        mlp_activations=activations,
        tied_embeddings=tied,
        relative_buckets=buckets,
    )


def _agree(checkpoint: Checkpoint, inferred: T5Config, claim: T5Config, who: str) -> None:
    """Refuses a claim that the shapes contradict."""
    found, wanted = network_fields(inferred), network_fields(claim)
    known = {"relative_max_distance", "layer_norm_epsilon"}
    if len(inferred.mlp_activations) == len(claim.mlp_activations):
        known.add("mlp_activations")
    differ = [k for k in found if k not in known and found[k] != wanted[k]]
    if differ:
        listed = ", ".join(f"{k} {found[k]} (not {wanted[k]})" for k in differ)
        names = preset_names(inferred)
        hint = f" Its shapes are those of {' or '.join(names)}." if names else ""
        raise CheckpointError(
            f"{checkpoint.address}: {who} says {claim.name}, but the weights have {listed}.{hint}"
        )
