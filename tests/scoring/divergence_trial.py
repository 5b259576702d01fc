"""The divergence step on meshes of 8 simulated devices: its numbers, and what devices exchange.

Run in a process of its own by test_divergence.py; prints JSON.
"""

from __future__ import annotations

import json
import sys

import jax
import numpy as np
from tiny_networks import GELU_UNTIED, RELU_TIED, random_parameters

from mlm_consistency.models.t5 import logical_axes
from mlm_consistency.scoring.collectives import collectives_of
from mlm_consistency.scoring.divergence import DivergenceStep
from mlm_consistency.scoring.mesh import MeshConfig, make_mesh, weight_shardings

K, EXAMPLES, PER_SHARD = 5, 13, 3
MESHES = {
    "1x1": MeshConfig(1, 1),
    "8x1": MeshConfig(8, 1),
    "4x2": MeshConfig(4, 2),
    "2x4 weights over data": MeshConfig(2, 4, shard_weights_over_data=True),
}


def main() -> None:
    found: dict = {}
    for config in (RELU_TIED, GELU_UNTIED):
        rng = np.random.default_rng(0)
        states = rng.normal(size=(EXAMPLES, K, config.d_model)).astype(np.float32) * 4
        applies = rng.random((EXAMPLES, K)) < 0.8
        for name, mesh_config in MESHES.items():
            if config is GELU_UNTIED and name not in ("1x1", "4x2"):
                continue
            devices = jax.devices()[: mesh_config.data * mesh_config.model]
            mesh = make_mesh(mesh_config, devices)
            shardings = weight_shardings(logical_axes(config), mesh, mesh_config)
            params = jax.tree.map(jax.device_put, random_parameters(config), shardings)
            step = DivergenceStep(config, mesh, K, PER_SHARD)
            result = step(params, states, applies, step.calls(EXAMPLES))
            shape = (mesh_config.data, step.examples, K, config.d_model)
            given = jax.ShapeDtypeStruct(shape, np.float32, sharding=step._sharding)
            hlo = step.step.lower(params, given).compile().as_text()
            found[f"{config.name} {name}"] = {
                "js": np.nan_to_num(result.js, nan=-1).tolist(),
                "tv": np.nan_to_num(result.tv, nan=-1).tolist(),
                "entropy": np.nan_to_num(result.entropy, nan=-1).tolist(),
                "top": result.top.tolist(),
                "calls": step.calls(EXAMPLES),
                "vocabulary": config.vocab_size,
                "collectives": [[c.kind, list(c.shape)] for c in collectives_of(hlo)],
            }
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
