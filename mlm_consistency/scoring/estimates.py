"""Memory, collectives and a mesh by formula, for where no compiler is asked."""

from __future__ import annotations

from mlm_consistency.models.config import T5Config
from mlm_consistency.scoring.collectives import Collective
from mlm_consistency.scoring.compiled import CompiledStep
from mlm_consistency.scoring.hardware import Topology
from mlm_consistency.scoring.mesh import MeshConfig
from mlm_consistency.scoring.step import BatchShape

# A mesh is chosen such that weights and the estimate of temporary memory leave this much over.
HEADROOM = 0.15
ITEM_BYTES = {"float32": 4, "bfloat16": 2}


def model_axes(model: T5Config, devices: int) -> list[int]:
    """Model axes that divide heads, feed-forward layer, vocabulary and devices, ascending."""
    widths = (model.num_heads, model.mlp_dim, model.vocab_size, devices)
    return [n for n in range(1, model.num_heads + 1) if not any(width % n for width in widths)]


def possible_meshes(model: T5Config, topology: Topology, shape: BatchShape) -> list[MeshConfig]:
    """The meshes on which weights and temporary memory fit by formula, narrow model axes first.

    Where there is none, those that shard the weights over the data axis too; where even they do
    not do, the layout of the least memory, for the compiler to refuse.
    """
    room = topology.device.memory * (1 - HEADROOM)
    axes = model_axes(model, topology.devices)
    for over_data in (False, True):
        meshes = [
            MeshConfig(topology.devices // n, n, over_data and n < topology.devices) for n in axes
        ]
        fits = [
            mesh
            for mesh in meshes
            if weight_bytes(model, mesh) + temporary_bytes(model, shape, mesh.model) <= room
        ]
        if fits:
            return fits
    return [MeshConfig(topology.devices // axes[-1], axes[-1])]


def weight_bytes(model: T5Config, mesh: MeshConfig) -> int:
    """Bytes of the weights on one device; norms are whole on each, and too small to count."""
    ways = mesh.model * (mesh.data if mesh.shard_weights_over_data else 1)
    return int(model.parameter_count() * ITEM_BYTES[model.param_dtype] / ways)


def temporary_bytes(model: T5Config, shape: BatchShape, model_axis: int) -> int:
    """An estimate of what a step holds beside the weights on one device.

    The states of all tokens a few times over, and the greatest of: the scores of one layer's
    attention with their bias in float32, the inner states of a feed-forward layer, the logits.
    """
    item = ITEM_BYTES[model.dtype]
    tokens = shape.encoder_tokens + shape.decoder_tokens
    tokens += shape.decoder_rows * shape.memory_length
    encoder = max(count * length**2 for length, count in shape.rows)
    decoder = shape.decoder_tokens * (shape.decoder_length + shape.memory_length)
    scores = 3 * 4 * max(encoder, decoder) * model.num_heads / model_axis
    inner = 3 * item * shape.encoder_tokens * model.mlp_dim / model_axis
    logits = 2 * 4 * shape.reads * model.vocab_size / model_axis
    return int(4 * item * tokens * model.d_model + max(scores, inner, logits))


def estimate_step(
    model: T5Config, topology: Topology, mesh: MeshConfig, shape: BatchShape
) -> CompiledStep:
    """What `compile_step` finds, by formula: two all-reduces of the states in each encoder layer
    and three in each decoder layer when the model axis is wider than one."""
    item, axis = ITEM_BYTES[model.dtype], mesh.model
    sums = []
    if axis > 1:
        for tokens, times in (
            (shape.encoder_tokens, 2 * model.encoder_layers + 1),
            (shape.decoder_tokens, 3 * model.decoder_layers + 1),
        ):
            size = item * tokens * model.d_model
            sums.append(Collective("all-reduce", (tokens, model.d_model), size, times, axis))
    if mesh.shard_weights_over_data:
        whole = weight_bytes(model, MeshConfig(1, axis))
        sums.append(Collective("all-gather", (), whole, 1, mesh.data))
    hosts = 1
    if topology.kind == "tpu":
        per_host = min(4 * topology.device.devices_per_chip, topology.devices)
        hosts = topology.devices // per_host
    return CompiledStep(
        mesh=(mesh.data, axis),
        lanes=min(hosts, mesh.data),
        weights=weight_bytes(model, mesh),
        arguments=0,
        temporary=temporary_bytes(model, shape, axis),
        refused="",
        limit=0,
        collectives=tuple(sums),
        gathered_weights=(),
    )
