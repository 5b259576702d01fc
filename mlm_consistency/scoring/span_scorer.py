"""A network of the T5 family that answers questions from memory: fillings, and likeliest tokens.

Runs over tasks go through `scoring.loop`, which records shards; this is for jobs whose questions
and answers fit in memory and whose answers every process wants whole (pair tables, n-grams).
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh

from mlm_consistency.conditionals.example import Masked
from mlm_consistency.errors import ScoringError
from mlm_consistency.models.config import T5Config
from mlm_consistency.models.t5 import T5
from mlm_consistency.scoring.assemble import Prompt, empty_batch, lay_out, lengths_of
from mlm_consistency.scoring.masked_positions import top_words
from mlm_consistency.scoring.mesh import (
    MeshConfig,
    activation_constraint,
    batch_sharding,
    make_mesh,
)
from mlm_consistency.scoring.packing import pack
from mlm_consistency.scoring.shapes import PackingConfig, choose_shape, quantized
from mlm_consistency.scoring.slots import run_slots
from mlm_consistency.scoring.step import gather, make_step, read_states
from mlm_consistency.scoring.trees import build_tree


def _make_top_step(config: T5Config, mesh: Mesh, k: int) -> Callable[..., Any]:
    """The step whose numbers are, for each pair, the likeliest tokens at its node."""
    model = T5(config, activation_constraint(mesh))

    def step(params: Any, batch: dict[str, jax.Array]) -> dict[str, jax.Array]:
        states = gather(read_states(model, params, batch), batch["pair_read"])
        flat = states.reshape(-1, states.shape[-1])
        logits: Any = model.apply({"params": params}, flat, method=T5.logits)
        return top_words(logits.reshape(*states.shape[:2], -1), k)

    return jax.jit(step, out_shardings=batch_sharding(mesh))


@dataclasses.dataclass(frozen=True, eq=False)
class SpanScorer:
    """A network of the T5 family on a mesh, ready to be asked for fillings.

    Attributes:
      config: the network.
      params: its weights on `mesh`.
      start_id: the token with which the decoder starts (the padding id).
      mesh: (data, model); the first device alone by default.
      packing: how rows are built.
    """

    config: T5Config
    params: Any
    start_id: int = 0
    mesh: Mesh = dataclasses.field(
        default_factory=lambda: make_mesh(MeshConfig(1, 1), jax.devices()[:1])
    )
    packing: PackingConfig = dataclasses.field(default_factory=PackingConfig)

    @functools.cached_property
    def _step(self) -> Callable[[Any, dict[str, jax.Array]], jax.Array]:
        return make_step(self.config, self.mesh)

    def log_probs(
        self, questions: Sequence[tuple[Masked, Sequence[np.ndarray]]]
    ) -> list[list[np.ndarray]]:
        """Per-token log-probabilities in nats, for each question a float32 [m] a candidate.

        Args:
          questions: encoder input and targets before the answer, and the candidates; many
            questions are packed together.

        Raises:
          ScoringError: for a question longer than the rows, or numbers that are not finite.
        """
        prompts = [
            Prompt(number, 0, masked, build_tree([c.tolist() for c in candidates]))
            for number, (masked, candidates) in enumerate(questions)
        ]
        found: list[list[np.ndarray]] = [[]] * len(prompts)
        for number, first, values in self._run(self._step, prompts):
            pairs = prompts[number].tree.candidate_pairs
            found[number] = [values[first + index] for index in pairs]
            if not all(np.isfinite(part).all() for part in found[number]):
                raise ScoringError(
                    f"question {number}: a log-probability is not finite: the weights are "
                    "damaged, or overflow in this dtype"
                )
        return found

    def top(self, masked: Sequence[Masked], k: int) -> list[dict[str, np.ndarray]]:
        """The k likeliest tokens behind the targets of each prompt: `words` int32 [k] and their
        `log_probs` [k], and the `entropy` (a scalar) of the whole distribution, in nats."""
        if not 1 <= k <= self.config.vocab_size:
            raise ScoringError(f"top k: 1 <= k <= {self.config.vocab_size} must hold, got {k}")
        if k not in self._top_steps:
            self._top_steps[k] = _make_top_step(self.config, self.mesh, k)
        # One nominal candidate of one token: its pair tells where the prompt's last node is read.
        nominal = build_tree([[0]])
        prompts = [Prompt(number, 0, one, nominal) for number, one in enumerate(masked)]
        found: list[dict[str, np.ndarray]] = [{}] * len(prompts)
        for number, first, values in self._run(self._top_steps[k], prompts):
            found[number] = {name: array[first] for name, array in values.items()}
        return found

    @functools.cached_property
    def _top_steps(self) -> dict[int, Any]:
        return {}

    def _run(
        self, step: Callable[..., Any], prompts: Sequence[Prompt]
    ) -> Iterator[tuple[int, int, Any]]:
        """(prompt, its first pair, numbers of its slot)."""
        if not prompts:
            return
        lengths = lengths_of(prompts)
        shape = quantized(choose_shape(lengths, self.config, self.packing))
        slots = (lay_out(batch, prompts, shape, self.start_id) for batch in pack(lengths, shape))
        ran = run_slots(step, self.params, self.mesh, slots, empty_batch(shape))
        for places, values in ran:
            for number, first in places:
                yield number, first, values
