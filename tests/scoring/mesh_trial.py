"""Scores the same examples on meshes of 8 simulated devices; prints what it found as JSON.

A program of its own, because the number of devices is fixed when JAX starts.
"""

from __future__ import annotations

import dataclasses
import json
import sys

import jax
import numpy as np
from tiny_networks import (
    GELU_UNTIED,
    PACKING,
    RELU_TIED,
    compiled_step,
    flat,
    random_examples,
    score_alone,
    score_packed,
    task_of,
)

from mlm_consistency.scoring.loop import ScoringLoop
from mlm_consistency.scoring.mesh import MeshConfig
from mlm_consistency.scoring.shapes import choose_shape

EXAMPLES = random_examples(10, seed=3)
MESHES = {
    "1x1": MeshConfig(1, 1),
    "8x1": MeshConfig(8, 1),
    "4x2": MeshConfig(4, 2),
    "2x4": MeshConfig(2, 4),
    "4x2 weights over data": MeshConfig(4, 2, shard_weights_over_data=True),
}
WATCHED = {
    "query": ("decoder", "layers", "self_attention", "query", "kernel"),
    "out": ("encoder", "layers", "attention", "out", "kernel"),
    "wo": ("encoder", "layers", "mlp", "wo", "kernel"),
    "embedding": ("token_embedder", "embedding"),
    "logits": ("logits_dense", "kernel"),
    "bias": ("encoder", "relpos_bias", "rel_embedding"),
    "norm": ("encoder", "layers", "pre_mlp_layer_norm", "scale"),
}


def leaf(tree, path):
    for key in path:
        if key not in tree:
            return None
        tree = tree[key]
    return tree


def layout(array) -> dict:
    """Shape of the whole, of each device's shard, and how many distinct shards there are."""
    shards = array.addressable_shards
    return {
        "shape": array.shape,
        "shard": sorted({s.data.shape for s in shards}),
        "devices": len(shards),
        "distinct": len({str(s.index) for s in shards}),
    }


def main() -> None:
    small = dataclasses.replace(PACKING, tokens_per_batch=160)  # many batches, to be shared
    shape = choose_shape(task_of(EXAMPLES).lengths, RELU_TIED, small)
    found: dict = {"devices": len(jax.devices()), "meshes": {}, "shape": shape.pairs}
    for config in (RELU_TIED, GELU_UNTIED):
        alone = flat(score_alone(config, EXAMPLES))
        for name, mesh in MESHES.items():
            if config is GELU_UNTIED and name != "4x2":
                continue
            scores = flat(score_packed(config, EXAMPLES, shape, mesh, examples_per_shard=4))
            step, weights, device_mesh = compiled_step(config, mesh)
            outs = []

            def watched(params, batch, step=step, outs=outs):
                outs.append((step(params, batch), batch["tokens"]))
                return outs[-1][0]

            loop = ScoringLoop(watched, weights, shape, device_mesh, 0, 1000)
            again = [s.token_log_probs for s in loop.run([task_of(EXAMPLES)], lambda task: set())]
            out, tokens = outs[0]
            found["meshes"][f"{config.name} {name}"] = {
                "mesh": dict(device_mesh.shape),
                "scores": scores.tolist(),
                "alone": float(np.abs(scores - alone).max()),
                "again": float(np.abs(flat(again) - scores).max()),
                "steps": len(outs),
                "out": layout(out),
                "tokens": layout(tokens),
                "weights": {
                    key: layout(array)
                    for key, path in WATCHED.items()
                    if (array := leaf(weights, path)) is not None
                },
            }
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
