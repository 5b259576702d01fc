"""The optax loop that makes the small model: Adafactor, checkpoints, learning curve, resume."""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax
import orbax.checkpoint as ocp

from mlm_consistency.models.config import T5Config
from mlm_consistency.models.t5 import T5, initialize
from mlm_consistency.pretraining.batches import Batch

Evaluate = Callable[[Any, int], dict[str, float]]


@dataclasses.dataclass(frozen=True)
class TrainingConfig:
    """How to train.

    Attributes:
      steps: number of updates in all.
      learning_rate: peak, relative to the root mean square of each weight (Adafactor's scale).
      warmup_steps: linear rise to the peak; a cosine then falls to a fiftieth of it.
      evaluate_every: steps between held-out evaluations; each one writes a checkpoint.
      log_every: steps between lines of the learning curve.
      seed: of the initial weights.
      position_bias_stddev: of the initial relative position biases. Wide ones (2) start every
        head at places of its own; with T5's narrow ones the small model stayed near chance for
        more than twice as many steps.
    """

    steps: int = 6500
    learning_rate: float = 1e-2
    warmup_steps: int = 300
    evaluate_every: int = 500
    log_every: int = 50
    seed: int = 0
    position_bias_stddev: float = 2.0


def optimizer(config: TrainingConfig) -> optax.GradientTransformation:
    """Adafactor with parameter scaling (arXiv 1804.04235) under warm-up and cosine decay."""
    schedule = optax.warmup_cosine_decay_schedule(
        0.0, config.learning_rate, config.warmup_steps, config.steps, config.learning_rate * 0.02
    )
    return optax.adafactor(
        schedule, multiply_by_parameter_scale=True, clipping_threshold=1.0, momentum=None
    )


def initial_parameters(model: T5Config, config: TrainingConfig) -> Any:
    """Random weights: T5's own, but for the relative position biases (see TrainingConfig)."""
    key = jax.random.key(config.seed)
    params = nn.meta.unbox(jax.jit(lambda k: initialize(model, k))(key))
    for number, stack in enumerate(("encoder", "decoder")):
        bias = params[stack]["relpos_bias"]
        shape = bias["rel_embedding"].shape
        draw = jax.random.normal(jax.random.fold_in(key, number), shape)
        bias["rel_embedding"] = config.position_bias_stddev * draw
    return params


def loss_and_weight(model: T5, params: Any, batch: Batch) -> tuple[jax.Array, jax.Array]:
    """Weighted cross-entropy per target (nats) and the sum of weights."""
    logits = model.apply(
        {"params": params},
        batch["encoder_tokens"],
        batch["encoder_segments"],
        batch["tokens"],
        batch["positions"],
        batch["end"],
        batch["segments"],
    )
    nll = optax.softmax_cross_entropy_with_integer_labels(logits, batch["targets"])
    weight = batch["weights"].sum()
    return (nll * batch["weights"]).sum() / weight, weight


def train(
    model_config: T5Config,
    config: TrainingConfig,
    batches: Callable[[int], Batch],
    evaluate: Evaluate,
    folder: Path,
    log: Callable[[str], None] = print,
) -> Any:
    """Trains (or goes on training) in `folder`; returns the weights with the best held-out score.

    `evaluate(params, step)` gives held-out figures; the one named `score` chooses the best. The
    learning curve is `folder/curve.jsonl`. A restart goes on from the newest checkpoint and sees
    the batches that an unbroken run would have seen.
    """
    folder.mkdir(parents=True, exist_ok=True)
    model, update_rule = T5(model_config), optimizer(config)
    params = initial_parameters(model_config, config)
    state = {"params": params, "optimizer": update_rule.init(params)}

    @jax.jit
    def update(state: Any, batch: Batch) -> tuple[Any, jax.Array]:
        def objective(params: Any) -> jax.Array:
            return loss_and_weight(model, params, batch)[0]

        loss, gradients = jax.value_and_grad(objective)(state["params"])
        updates, opt = update_rule.update(gradients, state["optimizer"], state["params"])
        return {"params": optax.apply_updates(state["params"], updates), "optimizer": opt}, loss

    options = ocp.CheckpointManagerOptions(
        best_fn=lambda metrics: metrics["score"],
        keep_checkpoints_without_metrics=False,
    )
    with ocp.CheckpointManager(folder.absolute() / "checkpoints", options=options) as manager:
        first = 0
        latest = manager.latest_step()
        if latest is not None:
            state = manager.restore(latest, args=ocp.args.StandardRestore(state))
            first = latest
            log(f"resumed at step {first}")
        losses: list[jax.Array] = []
        began, since = time.monotonic(), first
        for step in range(first, config.steps):
            state, loss = update(state, batches(step))
            losses.append(loss)
            done = step + 1
            if done % config.log_every == 0:
                mean = float(jnp.stack(losses).mean())
                pace = (time.monotonic() - began) / (done - since)
                _append(folder, {"step": done, "loss": mean, "seconds_per_step": pace})
                log(f"step {done}/{config.steps} loss {mean:.4f} {pace:.3f} s/step")
                losses, began, since = [], time.monotonic(), done
            if done % config.evaluate_every == 0 or done == config.steps:
                metrics = evaluate(state["params"], done)
                _append(folder, {"step": done, **metrics})
                log(
                    f"step {done} held out: "
                    + ", ".join(f"{k} {v:.4f}" for k, v in metrics.items())
                )
                manager.save(done, args=ocp.args.StandardSave(state), metrics=metrics)
                began, since = time.monotonic(), done
        manager.wait_until_finished()
        best = manager.best_step()
        log(f"best held-out weights: step {best}")
        restored = manager.restore(best, args=ocp.args.StandardRestore(state))
    return jax.tree.map(jnp.asarray, restored["params"])


def _append(folder: Path, row: dict[str, float]) -> None:
    with (folder / "curve.jsonl").open("a") as file:
        file.write(json.dumps(row) + "\n")
