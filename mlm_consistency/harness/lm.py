"""The harness' model `mlm_consistency`. Importing this module registers it."""

from __future__ import annotations

import hashlib
import json
import logging
import uuid
from collections.abc import Sequence
from typing import Any

from lm_eval.api.model import LM
from lm_eval.api.registry import register_model

from mlm_consistency.api import Model, load_model
from mlm_consistency.checkpoints.checkpoint import open_checkpoint
from mlm_consistency.checkpoints.digest import fingerprint
from mlm_consistency.conditionals import parse_conditionals
from mlm_consistency.errors import ConfigError, ScoringError
from mlm_consistency.harness.answers import RELATIVE, answers, check_choice
from mlm_consistency.harness.requests import questions_of
from mlm_consistency.harness.scorer import Scorer

log = logging.getLogger(__name__)
NAME = "mlm_consistency"


@register_model(NAME)
class MaskedLanguageModel(LM):
    """A masked language model asked through one conditional or an ensemble of them.

    Scores multiple-choice and loglikelihood tasks; it does not generate.
    """

    def __init__(
        self,
        checkpoint: str = "",
        conditionals: str | Sequence[str] = "baseline",
        ensemble: str = "max",
        score: str = "sum",
        vocabulary: str | None = None,
        model: str | None = None,
        mode: str | None = None,
        family: str | None = None,
        dtype: str = "float32",
        param_dtype: str | None = None,
        blank: str = "refuse",
        max_length: int = 2048,
        max_prompt_tokens: int | None = None,
        model_parallel: int = 1,
        batch_size: int | str | None = None,
        max_batch_size: int | None = None,
        device: str | None = None,
    ) -> None:
        """What --model_args may hold.

        Args:
          checkpoint: "tiny", or a folder: T5X, Orbax or Hugging Face.
          conditionals: a preset (mmlu, bbh, lambada, ..), or names joined by + (the harness splits
            at commas): baseline+offset_1+span_3_5_1.
          ensemble: how several conditionals come together; see `harness.answers`.
          score: "sum" over tokens, or their "mean", as the paper has it.
          vocabulary, model, mode, family, dtype, param_dtype: as in `api.load_model`.
          blank: continuations of nothing but space: "refuse" or "zero".
          max_length, max_prompt_tokens: see `harness.scorer`.
          model_parallel: devices over which weights are split.
          batch_size, max_batch_size, device: the harness' own; rows are packed by their lengths on
            the devices that JAX has, so they have no effect.

        Raises:
          ConfigError, CheckpointError, VocabularyError: naming what does not fit.
        """
        super().__init__()
        del batch_size, max_batch_size
        if device:
            log.warning("device=%s has no effect: JAX takes the devices it has", device)
        if not checkpoint:
            raise ConfigError(
                "checkpoint is missing: --model_args checkpoint=tiny, or a folder of weights"
            )
        if isinstance(conditionals, str):
            conditionals = conditionals.replace("+", ",")
        patterns = parse_conditionals(conditionals)
        check_choice(ensemble, score)
        self.ensemble, self.score, self.blank = ensemble, score, blank
        questions_of([], blank)
        loaded = load_model(
            checkpoint, vocabulary=vocabulary, model=model, mode=mode, family=family,
            mesh=(0, model_parallel), dtype=dtype, param_dtype=param_dtype,
        )  # fmt: skip
        if not isinstance(loaded, Model):
            raise ConfigError(
                f"checkpoint {checkpoint!r} is of the BERT family, which has no decoder to score "
                "continuations with: take one of the T5 family"
            )
        self.scorer = Scorer(
            loaded, patterns, max_length=max_length, max_prompt_tokens=max_prompt_tokens
        )
        self.identity = {
            "checkpoint": fingerprint(open_checkpoint(checkpoint)),
            "vocabulary": loaded.vocabulary.digest,
            "conditionals": [pattern.name for pattern in patterns],
            "ensemble": ensemble if len(patterns) > 1 else "",
            "score": score,
            "mode": loaded.mode,
            "family": loaded.family,
            "dtype": dtype,
            "param_dtype": param_dtype or dtype,
            "blank": blank,
            "max_prompt_tokens": max_prompt_tokens,
        }

    def loglikelihood(
        self, requests: list[Any], disable_tqdm: bool = False
    ) -> list[tuple[float, bool]]:
        """(log-likelihood, greedy) of each request; see `harness.answers`.

        Raises:
          DataError: for a request that cannot be scored, before any is.
        """
        del disable_tqdm
        questions = questions_of(requests, self.blank)
        found: list[tuple[float, bool]] = [(0.0, True)] * len(requests)  # blank ones
        scored = self.scorer.score(questions)
        for question, result in zip(questions, scored, strict=True):
            pairs = answers(
                result.sums, result.greedy, result.lengths, self.ensemble, self.score, question.name
            )
            for place, pair in zip(question.places, pairs, strict=True):
                found[place] = pair
        return found

    def loglikelihood_rolling(self, requests: list[Any], disable_tqdm: bool = False) -> list[float]:
        """Not defined for a model that fills masks.

        Raises:
          ScoringError: always.
        """
        raise ScoringError(
            "mlm_consistency has no rolling log-likelihood: a masked language model gives no "
            "left-to-right probability of a whole text. Take multiple_choice or loglikelihood tasks"
        )

    def generate_until(self, requests: list[Any], disable_tqdm: bool = False) -> list[str]:
        """Not offered.

        Raises:
          ScoringError: always.
        """
        raise ScoringError(
            "mlm_consistency scores and does not generate: take tasks of output_type "
            "multiple_choice or loglikelihood"
        )

    def set_cache_hook(self, cache_hook: Any) -> None:
        """Keeps models apart in the harness' cache (--use_cache), whose keys name none.

        Every key gets a hash of all that determines a score in front. Where a number depends on
        the other choices of its question, it cannot be found again by its own text: such ensembles
        are not read from the cache.
        """
        super().set_cache_hook(cache_hook)
        if cache_hook.dbdict is None:
            return
        text = json.dumps(self.identity, sort_keys=True)
        if self.ensemble in RELATIVE:
            log.warning("ensemble=%s weighs choices: the cache is not used", self.ensemble)
            text += uuid.uuid4().hex
        prefix = hashlib.sha256(text.encode()).hexdigest()
        cache_hook.dbdict.encode_key = lambda key: f"{prefix}:{key}"
        cache_hook.dbdict.decode_key = lambda key: key.removeprefix(f"{prefix}:")

    @property
    def tokenizer_name(self) -> str:
        """Name and hash of the vocabulary, by which the harness tells prepared requests apart."""
        vocabulary = self.scorer.model.vocabulary
        return f"{vocabulary.name}-{vocabulary.digest[:12]}"

    def get_model_info(self) -> dict[str, Any]:
        """What the harness writes into its results beside the model's arguments."""
        return {f"mlm_consistency_{key}": value for key, value in self.identity.items()}
