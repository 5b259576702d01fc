"""The same search on several meshes of 8 simulated devices; prints what each finds as JSON."""

from __future__ import annotations

import dataclasses
import json

import beam_networks as networks
import jax

from mlm_consistency.scoring.beams import BeamConfig
from mlm_consistency.scoring.mesh import MeshConfig

# Heads, feed-forward width and vocabulary divide by 4.
NETWORK = dataclasses.replace(networks.NETWORK, name="sixteen", vocab_size=16)
MESHES = {"1x1": (1, 1), "4x1": (4, 1), "2x4": (2, 4)}


def main() -> None:
    assert len(jax.devices()) == 8
    config = BeamConfig(width=3, max_tokens=4, tokens_per_batch=64, max_row_lengths=1)
    found = {}
    for name, (data, model) in MESHES.items():
        shards, loop = networks.search(
            networks.prompts(12), config, MeshConfig(data, model), NETWORK
        )
        beams = [beam for shard in shards for each in shard.beams for beam in each]
        found[name] = {
            "tokens": [beam.tokens.tolist() for beam in beams],
            "log_probs": [beam.log_probs.tolist() for beam in beams],
            "steps": loop.steps,
        }
    print(json.dumps(found))


if __name__ == "__main__":
    main()
