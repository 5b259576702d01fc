"""The small model that ships: its architecture, and the run that makes it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax

from mlm_consistency.models.config import T5Config
from mlm_consistency.models.t5 import T5
from mlm_consistency.pretraining.batches import Batch, BatchShape, batch_at
from mlm_consistency.pretraining.examples import (
    ExampleConfig,
    held_out_accuracies,
    story_examples,
)
from mlm_consistency.pretraining.stories import HELDOUT_SEED, TRAIN_SEED, VALIDATION_START
from mlm_consistency.pretraining.training import TrainingConfig, loss_and_weight, train
from mlm_consistency.vocabularies import Vocabulary, load_vocabulary

# UL2's form in small: gated SiLU, tied embeddings.
TINY = T5Config(
    name="tiny",
    vocab_size=2048,
    d_model=128,
    num_heads=4,
    head_dim=32,
    mlp_dim=256,
    encoder_layers=3,
    decoder_layers=3,
    mlp_activations=("silu", "linear"),
    tied_embeddings=True,
)


@dataclasses.dataclass(frozen=True)
class PretrainConfig:
    """A whole pretraining run.

    Attributes:
      folder: where checkpoints and the learning curve go; a restart goes on from there.
      model: architecture.
      training: steps, learning rate, intervals.
      batch: rows and lengths of a batch.
      stories_per_step: indices of the story stream that belong to a step; those that do not fit
        into its rows are left out.
      held_out: stories in each held-out figure.
      seed: of the story stream.
    """

    folder: str
    model: T5Config = TINY
    training: TrainingConfig = dataclasses.field(default_factory=TrainingConfig)
    batch: BatchShape = dataclasses.field(default_factory=BatchShape)
    stories_per_step: int = 40
    held_out: int = 350
    seed: int = TRAIN_SEED


def pretrain(config: PretrainConfig, log: Callable[[str], None] = print) -> Any:
    """Trains the model of `config` on stories; returns the best held-out weights."""
    vocabulary = load_vocabulary("tiny")
    example = story_examples(ExampleConfig(config.seed), vocabulary)

    def batches(step: int) -> Batch:
        start = vocabulary.pad_id
        return batch_at(step, example, config.batch, config.stories_per_step, start)[0]

    return train(
        config.model,
        config.training,
        batches,
        held_out(config, vocabulary),
        Path(config.folder),
        log,
    )


def held_out(config: PretrainConfig, vocabulary: Vocabulary) -> Callable[[Any, int], dict]:
    """Held-out figures: accuracies of both questions, loss on held-out stories, and `score`."""
    accuracies = held_out_accuracies(config.model, vocabulary, config.held_out)
    example = story_examples(ExampleConfig(HELDOUT_SEED), vocabulary)
    # Beyond the stories of the shipped tasks: index i of the stream is story i // 2.
    first = 2 * VALIDATION_START // config.stories_per_step
    loss_batches = [
        batch_at(step, example, config.batch, config.stories_per_step, vocabulary.pad_id)[0]
        for step in range(first, first + 2)
    ]
    network = T5(config.model)
    loss_of = jax.jit(lambda params, batch: loss_and_weight(network, params, batch)[0])

    def evaluate(params: Any, step: int) -> dict[str, float]:
        del step
        figures = {name: accuracy(params) for name, accuracy in accuracies.items()}
        figures["score"] = sum(figures.values()) / len(figures)
        losses = [float(loss_of(params, batch)) for batch in loss_batches]
        figures["held_out_loss"] = sum(losses) / len(losses)
        return figures

    return evaluate
