"""Searches on random networks, and what exhaustive search finds there."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Sequence

import jax
import numpy as np
from reference_t5 import ReferenceT5
from tiny_networks import EOS, GELU_UNTIED, random_parameters

from mlm_consistency.conditionals import EncodedExample, Masked
from mlm_consistency.models.t5 import logical_axes
from mlm_consistency.scoring.beam_loop import BeamLoop, BeamShard, SearchInput
from mlm_consistency.scoring.beams import BeamConfig, SearchTokens, make_search
from mlm_consistency.scoring.mesh import MeshConfig, make_mesh, weight_shardings

START, WORDS = 0, 7
# Small enough that everything it could say can be listed.
NETWORK = dataclasses.replace(GELU_UNTIED, name="seven", vocab_size=WORDS)
X0, STOP = WORDS - 1, WORDS - 2
PREFIX = np.asarray([START, X0], np.int32)


def prompts(count: int, seed: int = 0, longest: int = 20) -> list[np.ndarray]:
    """Encoder inputs of random lengths, x_0 and </s> at the end."""
    rng = np.random.default_rng(seed)
    return [
        np.asarray([*rng.integers(2, STOP, rng.integers(2, longest)), X0, EOS], np.int32)
        for _ in range(count)
    ]


def search_input(encoders: Sequence[np.ndarray], name: str = "task") -> SearchInput:
    """Encoder inputs as the search takes them."""
    examples = [
        EncodedExample(
            index, f"example-{index}", "", "", (), (), (), {}, (Masked(ids, PREFIX[1:]),)
        )
        for index, ids in enumerate(encoders)
    ]

    def stream() -> Iterator[EncodedExample]:
        return iter(examples)

    return SearchInput(name, stream, np.asarray([len(ids) for ids in encoders], np.int64))


def beam_loop(
    encoders: Sequence[np.ndarray],
    config: BeamConfig,
    mesh_config: MeshConfig | None = None,
    network=NETWORK,
    known: int | None = None,
) -> BeamLoop:
    """The loop that searches what random weights would say."""
    mesh_config = mesh_config or MeshConfig(1, 1)
    mesh = make_mesh(mesh_config, jax.devices()[: mesh_config.data * mesh_config.model])
    shardings = weight_shardings(logical_axes(network), mesh, mesh_config)
    weights = jax.tree.map(jax.device_put, random_parameters(network), shardings)
    ids = SearchTokens(STOP, network.vocab_size if known is None else known)
    find = make_search(network, mesh, config, ids)
    return BeamLoop(find, weights, mesh, config, PREFIX, [search_input(encoders)])


def search(
    encoders: Sequence[np.ndarray], config: BeamConfig, *arguments, **options
) -> tuple[list[BeamShard], BeamLoop]:
    """The beams, shard by shard, and the loop that found them; see `beam_loop`."""
    loop = beam_loop(encoders, config, *arguments, **options)
    return list(loop.run(lambda task: set())), loop


def everything(steps: int) -> list[tuple[int, ...]]:
    """All that could be said in `steps` tokens: what ends with STOP, and what is cut."""
    going = [word for word in range(WORDS) if word != STOP]
    ended = [(*begin, STOP) for n in range(steps) for begin in itertools.product(going, repeat=n)]
    return ended + list(itertools.product(going, repeat=steps))


def exhaustive(encoder: np.ndarray, steps: int) -> dict[tuple[int, ...], np.ndarray]:
    """Everything that could be said -> log p of each of its tokens, by the float64 reference."""
    model = ReferenceT5(NETWORK, random_parameters(NETWORK))
    return {
        said: model.candidate(encoder, PREFIX[1:], np.asarray(said)) for said in everything(steps)
    }


def ranked(
    said: dict[tuple[int, ...], np.ndarray], length_penalty: float = 1.0
) -> list[tuple[float, tuple[int, ...]]]:
    """(score, tokens), best first."""
    scores = [(log_p.sum() / len(key) ** length_penalty, key) for key, log_p in said.items()]
    return sorted(scores, key=lambda entry: -entry[0])


def plain_beam_search(
    said: dict[tuple[int, ...], np.ndarray], width: int, steps: int, length_penalty: float = 1.0
) -> list[tuple[float, tuple[int, ...]]]:
    """Beam search over a table of what could be said, written with lists and sorts."""
    total = {
        key[: n + 1]: log_p[: n + 1].sum() for key, log_p in said.items() for n in range(len(key))
    }
    live: list[tuple[int, ...]] = [()]
    finished: list[tuple[float, tuple[int, ...]]] = []
    for step in range(1, steps + 1):
        grown = [(*beam, word) for beam in live for word in range(WORDS)]
        grown = sorted(grown, key=lambda beam: -total[beam])[: 2 * width]
        ended = [beam for beam in grown[:width] if beam[-1] == STOP or step == steps]
        finished += [(total[beam] / step**length_penalty, beam) for beam in ended]
        finished = sorted(finished, key=lambda entry: -entry[0])[:width]
        live = [beam for beam in grown if beam[-1] != STOP][:width]
    return finished
