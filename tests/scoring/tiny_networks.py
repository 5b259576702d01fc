"""Random networks of the T5 family, random examples for them, and two ways to score these."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import numpy as np
from reference_t5 import ReferenceT5

from mlm_consistency.conditionals import (
    EncodedExample,
    Masked,
    NotApplicable,
    parse_conditionals,
)
from mlm_consistency.models.config import T5Config
from mlm_consistency.models.t5 import abstract_parameters, logical_axes
from mlm_consistency.scoring.assemble import lengths_of, prompts_of
from mlm_consistency.scoring.loop import ScoringLoop, TaskInput
from mlm_consistency.scoring.mesh import MeshConfig, make_mesh, weight_shardings
from mlm_consistency.scoring.packing import concatenate
from mlm_consistency.scoring.shapes import PackingConfig, choose_shape
from mlm_consistency.scoring.step import BatchShape, make_step

VOCABULARY, EOS, FIRST_WORD, SENTINELS = 160, 1, 3, 100
LAST_WORD = VOCABULARY - SENTINELS
# H K differs from D, as in T5-11B.
RELU_TIED = T5Config(
    name="relu_tied", vocab_size=VOCABULARY, d_model=32, num_heads=4, head_dim=6, mlp_dim=64,
    encoder_layers=2, decoder_layers=2, mlp_activations=("relu",), tied_embeddings=True,
)  # fmt: skip
GELU_UNTIED = dataclasses.replace(
    RELU_TIED, name="gelu_untied", mlp_activations=("gelu", "linear"), tied_embeddings=False,
    head_dim=8, decoder_layers=3,
)  # fmt: skip
SILU_TIED = dataclasses.replace(RELU_TIED, name="silu_tied", mlp_activations=("silu", "linear"))
NETWORKS = {config.name: config for config in (RELU_TIED, GELU_UNTIED, SILU_TIED)}
PACKING = PackingConfig(
    max_encoder_length=256, max_decoder_length=256, tokens_per_batch=256, memory_length=128,
    length_multiple=16, examples_per_shard=1000,
)  # fmt: skip


def sentinel(k: int) -> int:
    """<extra_id_k> of the networks' vocabulary."""
    return VOCABULARY - 1 - k


@functools.cache
def random_parameters(config: T5Config, seed: int = 0) -> Any:
    """Weights with norm scales and position biases that matter, as NumPy arrays."""
    rng = np.random.default_rng(seed)

    def draw(path: Any, leaf: jax.ShapeDtypeStruct) -> np.ndarray:
        name, shape = jax.tree_util.keystr(path), leaf.shape
        if "scale" in name:
            values = rng.uniform(0.6, 1.4, shape)
        elif "rel_embedding" in name or "embedding" in name:
            values = rng.normal(size=shape)
        else:
            spread = (shape[-2] * config.head_dim if "query" in name else shape[-2]) ** -0.5
            values = rng.normal(size=shape) * spread
        return values.astype(leaf.dtype)

    return jax.tree_util.tree_map_with_path(draw, abstract_parameters(config))


def random_candidates(rng: np.random.Generator, least: int = 1, most: int = 5) -> list[np.ndarray]:
    """Candidates with shared beginnings, repetitions, one-token ones and the padding id inside."""
    words = np.asarray([0, *range(FIRST_WORD, FIRST_WORD + 4)])  # few words: much is shared
    made: list[np.ndarray] = []
    for _ in range(rng.integers(least, most + 1)):
        if made and rng.random() < 0.3:
            tail = rng.choice(words, rng.integers(0, 3))
            made.append(np.concatenate([made[rng.integers(len(made))], tail]).astype(np.int32))
        else:
            made.append(rng.choice(words, rng.integers(1, 5)).astype(np.int32))
    return made


def make_example(
    index: int,
    prompt: np.ndarray,
    candidates: Sequence[np.ndarray],
    conditionals: str = "mmlu",
    family: str = "t5",
) -> EncodedExample:
    """An example whose prompt and candidates are given as ids."""
    masked: list[Masked | NotApplicable] = []
    for conditional in parse_conditionals(conditionals):
        layout = conditional.layout(len(prompt), family)
        if not isinstance(layout, NotApplicable):
            layout = Masked(
                layout.encoder_ids(prompt, sentinel, EOS), layout.prefix_ids(prompt, sentinel)
            )
        masked.append(layout)
    return EncodedExample(
        index=index,
        id=f"example-{index}",
        subject="",
        prompt="",
        candidate_texts=tuple(f"answer {c}" for c in range(len(candidates))),
        labels=(0,),
        candidates=tuple(np.asarray(y, np.int32) for y in candidates),
        prompt_ids={"": np.asarray(prompt, np.int32)},
        masked=tuple(masked),
    )


def random_examples(
    count: int, seed: int = 0, conditionals: str = "mmlu", family: str = "t5",
    lengths: tuple[int, int] = (4, 60),
) -> list[EncodedExample]:  # fmt: skip
    """Examples with prompts of lengths drawn from [least, most]."""
    rng = np.random.default_rng(seed)
    return [
        make_example(
            index,
            rng.integers(FIRST_WORD, LAST_WORD, rng.integers(lengths[0], lengths[1] + 1)),
            random_candidates(rng),
            conditionals,
            family,
        )
        for index in range(count)
    ]


def task_of(examples: Sequence[EncodedExample], name: str = "task") -> TaskInput:
    """Examples as the loop takes them."""
    tables = [lengths_of(prompts_of([example])) for example in examples]
    first = np.concatenate([[0], np.cumsum([len(table) for table in tables])])

    def stream() -> Iterator[EncodedExample]:
        return iter(examples)

    return TaskInput(name, stream, concatenate(tables), first)


@functools.cache
def compiled_step(config: T5Config, mesh_config: MeshConfig) -> tuple[Callable[..., Any], Any, Any]:
    """(step, weights on the mesh, mesh)."""
    mesh = make_mesh(mesh_config, jax.devices()[: max(1, mesh_config.data) * mesh_config.model])
    shardings = weight_shardings(logical_axes(config), mesh, mesh_config)
    weights = jax.tree.map(jax.device_put, random_parameters(config), shardings)
    return make_step(config, mesh), weights, mesh


def shape_for(
    examples: Sequence[EncodedExample], packing: PackingConfig = PACKING, spare: float = 0.0,
    config: T5Config = RELU_TIED,
) -> BatchShape:  # fmt: skip
    """The batch shape that the package chooses for these examples."""
    return choose_shape(task_of(examples).lengths, config, packing, spare)


def score_packed(
    config: T5Config,
    examples: Sequence[EncodedExample],
    shape: BatchShape,
    mesh_config: MeshConfig = MeshConfig(1, 1),  # noqa: B008 (frozen)
    examples_per_shard: int = 1000,
) -> list[list[list[np.ndarray] | None]]:
    """token_log_probs [example][conditional][candidate] through rows, trees and the loop."""
    step, weights, mesh = compiled_step(config, mesh_config)
    loop = ScoringLoop(step, weights, shape, mesh, 0, examples_per_shard)
    scores: list[list[list[np.ndarray] | None]] = []
    for number, shard in enumerate(loop.run([task_of(examples)], lambda task: set())):
        assert shard.shard == number
        scores += shard.token_log_probs
    return scores


def score_alone(
    config: T5Config, examples: Sequence[EncodedExample]
) -> list[list[list[np.ndarray] | None]]:
    """The same by the reference, one candidate of one prompt at a time."""
    reference = ReferenceT5(config, random_parameters(config))
    return [
        [
            None
            if isinstance(masked, NotApplicable)
            else [reference.candidate(masked.encoder, masked.prefix, y) for y in example.candidates]
            for masked in example.masked
        ]
        for example in examples
    ]


def largest_difference(a: Any, b: Any) -> float:
    """Largest difference of two nested scores; their structure must be the same."""
    if a is None or b is None:
        assert a is b, "one is scored, the other is not"
        return 0.0
    if isinstance(a, list):
        assert len(a) == len(b)
        return max((largest_difference(x, y) for x, y in zip(a, b, strict=True)), default=0.0)
    assert a.shape == b.shape
    return float(np.abs(np.asarray(a, np.float64) - b).max())


def flat(scores: Any) -> np.ndarray:
    """All log-probabilities of nested scores, one behind the other."""
    if scores is None:
        return np.zeros(0)
    if isinstance(scores, list):
        return np.concatenate([np.zeros(0), *map(flat, scores)])
    return np.asarray(scores, np.float64)
