"""What an encoder-only model expects at masked positions: packed rows, one jitted step.

    packed rows [R, S] of a few lengths ──> states [tokens, D] ──gather──> [N, D] ──head──> [N, V]
                                                        pairs ──> [Q], or top k, or all of [N, V]

Each data slot computes its own rows; G slots make a step over the mesh (data, model).
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from mlm_consistency.errors import ScoringError
from mlm_consistency.models.bert import Bert
from mlm_consistency.models.bert_config import BertConfig
from mlm_consistency.scoring.masked_rows import (
    MaskedContext,
    Place,
    check_contexts,
    empty_slot,
    lay_out_masked,
    masked_lengths,
    masked_shape,
)
from mlm_consistency.scoring.mesh import (
    DATA,
    MeshConfig,
    activation_constraint,
    batch_sharding,
    check_model_fits_mesh,
    make_mesh,
)
from mlm_consistency.scoring.packing import pack
from mlm_consistency.scoring.shapes import PackingConfig
from mlm_consistency.scoring.slots import run_slots
from mlm_consistency.scoring.step import BatchShape, gather, pair_log_probs

FLOAT_BYTES = 4
# Arrays [N, V] that a step for whole distributions holds at once: logits, log-probabilities and
# their copy on the host.
COPIES = 3


def read_logits(model: Bert, params: Any, batch: dict[str, jax.Array]) -> jax.Array:
    """Logits [G, N, rows of V] at the read positions of a batch of arrays [G, ...]."""
    variables = {"params": params}
    slots = batch["read"].shape[0]
    states = []
    for number in range(sum(name.startswith("tokens_") for name in batch)):
        arrays = (batch[f"{name}_{number}"] for name in ("tokens", "segments", "positions"))
        rows = [array.reshape(-1, array.shape[-1]) for array in arrays]
        hidden: Any = model.apply(variables, *rows, method=Bert.encode)
        states.append(hidden.reshape(slots, -1, hidden.shape[-1]))
    hidden = gather(jnp.concatenate(states, axis=1), batch["read"])
    logits: Any = model.apply(variables, hidden.reshape(-1, hidden.shape[-1]), method=Bert.logits)
    return logits.reshape(*hidden.shape[:2], -1)


def _pairs(config: BertConfig, logits: jax.Array, batch: dict[str, jax.Array]) -> jax.Array:
    return pair_log_probs(logits, batch["pair_read"], batch["pair_target"])


def _all(config: BertConfig, logits: jax.Array, batch: dict[str, jax.Array]) -> jax.Array:
    return jax.nn.log_softmax(logits, axis=-1)[..., : config.vocab_size]


def top_words(logits: jax.Array, k: int) -> dict[str, jax.Array]:
    """Of logits [.., V]: the k likeliest `words` [.., k], their `log_probs` in nats, and the
    `entropy` [..] of the whole distribution in nats."""
    values, words = jax.lax.top_k(logits, k)
    log_probs = jax.nn.log_softmax(logits, axis=-1)
    # Rows that round the vocabulary up have probability 0 and a finite logarithm.
    entropy = -jnp.sum(jnp.exp(log_probs) * log_probs, axis=-1)
    normalizer = jax.nn.logsumexp(logits, axis=-1, keepdims=True)
    return {"words": words, "log_probs": values - normalizer, "entropy": entropy}


def _top(k: int, config: BertConfig, logits: jax.Array, batch: dict[str, jax.Array]) -> Any:
    return top_words(logits, k)


@dataclasses.dataclass(frozen=True, eq=False)
class MaskedScorer:
    """A network of the BERT family on a mesh, ready to be asked.

    Attributes:
      config: the network.
      params: its weights, laid out on `mesh` (`scoring.mesh.weight_shardings` of
        `models.bert.logical_axes`).
      mesh: (data, model); the first device alone by default.
      packing: how rows are built.
    """

    config: BertConfig
    params: Any
    mesh: Mesh = dataclasses.field(
        default_factory=lambda: make_mesh(MeshConfig(1, 1), jax.devices()[:1])
    )
    packing: PackingConfig = dataclasses.field(default_factory=PackingConfig)

    def __post_init__(self) -> None:
        rounded = dataclasses.replace(self.config, vocab_size=self.config.vocab_rows)
        check_model_fits_mesh(rounded, self.mesh)  # type: ignore[arg-type]

    @functools.cached_property
    def _model(self) -> Bert:
        return Bert(self.config, activation_constraint(self.mesh))

    @functools.cached_property
    def _steps(self) -> dict[Any, Any]:
        return {}

    def _step(self, kind: Any, answer: Callable[..., Any]) -> Callable[..., Any]:
        """The jitted step that answers `answer(config, logits, batch)`."""
        if kind not in self._steps:

            def step(params: Any, batch: dict[str, jax.Array]) -> Any:
                return answer(self.config, read_logits(self._model, params, batch), batch)

            self._steps[kind] = jax.jit(step, out_shardings=batch_sharding(self.mesh))
        return self._steps[kind]

    @property
    def slots(self) -> int:
        """Data slots G of a step."""
        return self.mesh.shape[DATA]

    def shape_for(self, contexts: Sequence[MaskedContext], spare: float = 0.1) -> BatchShape:
        """A batch shape for contexts like these, to be handed to later calls: one compilation."""
        check_contexts(contexts, self.config)
        return masked_shape(masked_lengths(contexts), self.config, self.packing, spare)

    def log_probs(
        self, contexts: Sequence[MaskedContext], shape: BatchShape | None = None
    ) -> list[tuple[np.ndarray, ...]]:
        """log p(target | context) in nats, for each context one float32 [t] a read position.

        Args:
          contexts: with targets.
          shape: from `shape_for`; by default made for these contexts.

        Raises:
          ScoringError: for contexts that the network has no rows for, or numbers that are not
            finite; names the context.
        """
        found: list[tuple[np.ndarray, ...]] = [()] * len(contexts)
        step = self._step("pairs", _pairs)
        for place, values in self._run(step, contexts, shape):
            parts, at = [], place.pair
            for words in contexts[place.context].targets:
                parts.append(values[at : at + len(words)])
                at += len(words)
            if not all(np.isfinite(part).all() for part in parts):
                raise ScoringError(
                    f"context {place.context}: a log-probability is not finite ({parts}): the "
                    "weights are damaged, or overflow in this dtype"
                )
            found[place.context] = tuple(parts)
        return found

    def top(
        self, contexts: Sequence[MaskedContext], k: int, shape: BatchShape | None = None
    ) -> list[dict[str, np.ndarray]]:
        """For each context the k likeliest words at each of its r read positions.

        Returns:
          `words` int32 [r, k] with the best first, `log_probs` float32 [r, k] and `entropy` [r] of
          the whole distributions, in nats.

        Raises:
          ScoringError: for a k that the vocabulary does not have; otherwise as `log_probs`.
        """
        if not 1 <= k <= self.config.vocab_size:
            raise ScoringError(f"top k: 1 <= k <= {self.config.vocab_size} must hold, got {k}")
        found: list[dict[str, np.ndarray]] = [{}] * len(contexts)
        step = self._step(("top", k), functools.partial(_top, k))
        for place, values in self._run(step, contexts, shape):
            part = slice(place.read, place.read + len(contexts[place.context].read))
            found[place.context] = {name: array[part] for name, array in values.items()}
        return found

    def reads_within(self, max_bytes: int) -> int:
        """How many whole distributions a step may compute in `max_bytes`, device and host
        together (`COPIES` arrays [G, N, V] of float32).

        Raises:
          ScoringError: if that is none; says how much one takes.
        """
        one = COPIES * self.slots * self.config.vocab_rows * FLOAT_BYTES
        if max_bytes < one:
            raise ScoringError(
                f"max_bytes {max_bytes} holds no distribution over {self.config.vocab_size} "
                f"words: one a data slot takes {one} bytes"
            )
        return max_bytes // one

    def distributions(
        self, contexts: Sequence[MaskedContext], max_bytes: int = 2**28
    ) -> Iterator[tuple[int, np.ndarray]]:
        """(context, log p of every word in nats, float32 [r, V]) as the steps come, in no order.

        What is yielded is a view of the step's result: copy what is to outlive the next one.
        Never more than `max_bytes` of distributions are held; see `reads_within`.
        """
        most = self.reads_within(max_bytes)
        if not contexts:
            return
        lengths = masked_lengths(contexts)
        tokens = max(1, most * int(lengths.encoder.max()) // int(lengths.reads.max()))
        packing = dataclasses.replace(
            self.packing, tokens_per_batch=min(tokens, self.packing.tokens_per_batch)
        )
        shape = masked_shape(lengths, self.config, packing, max_reads=most)
        step = self._step("all", _all)
        for place, values in self._run(step, contexts, shape, ahead=0):
            part = slice(place.read, place.read + len(contexts[place.context].read))
            yield place.context, values[part]

    def _run(
        self,
        step: Callable[..., Any],
        contexts: Sequence[MaskedContext],
        shape: BatchShape | None,
        ahead: int = 1,
    ) -> Iterator[tuple[Place, Any]]:
        """Each context's place and the numbers of its slot."""
        if not contexts:
            return
        check_contexts(contexts, self.config)
        lengths = masked_lengths(contexts)
        shape = shape or masked_shape(lengths, self.config, self.packing)
        slots = (lay_out_masked(batch, contexts, shape) for batch in pack(lengths, shape))
        ran = run_slots(step, self.params, self.mesh, slots, empty_slot(shape), ahead)
        for places, values in ran:
            for place in places:
                yield place, values
