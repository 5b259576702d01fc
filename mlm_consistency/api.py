"""From Python: load a model, score a prompt's candidates, look at the contradictions.

    import mlm_consistency as mc
    model = mc.load_model("tiny")
    s = model.score("Tom bought 4 apples and ate 2. He now has", ["2", "4", "6"],
                    conditionals=mc.paper_conditionals("mmlu"))
    s.table()          # conditional x candidate, nats a token
    s.disagreement     # 1.0 if the conditionals' answers differ, 0.0 if not
    s.ensemble("max")  # the conditionals together

`s` is `analysis.Scores`, the object that records are read into: what is shown here and what a
run's summary says come from the same functions.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from mlm_consistency.analysis.scores import Scores
from mlm_consistency.api_masked import MaskedModel
from mlm_consistency.checkpoints.architecture import architecture
from mlm_consistency.checkpoints.bert_weights import restore_bert
from mlm_consistency.checkpoints.checkpoint import Checkpoint, open_checkpoint
from mlm_consistency.checkpoints.huggingface_bert import bert_config
from mlm_consistency.checkpoints.restore import restore
from mlm_consistency.conditionals import (
    Conditional,
    TextExample,
    check_mode,
    encode_example,
    paper_conditionals,
    parse_conditionals,
)
from mlm_consistency.conditionals.example import EncodedExample
from mlm_consistency.errors import ConfigError, DataError, ScoringError
from mlm_consistency.models.bert import logical_axes as bert_axes
from mlm_consistency.models.bert_config import BertConfig
from mlm_consistency.models.config import T5Config
from mlm_consistency.models.presets import preset
from mlm_consistency.models.t5 import logical_axes
from mlm_consistency.scoring.assemble import lengths_of, prompts_of
from mlm_consistency.scoring.loop import ScoringLoop, TaskInput
from mlm_consistency.scoring.mesh import (
    MeshConfig,
    check_model_fits_mesh,
    fitted,
    make_mesh,
    weight_shardings,
)
from mlm_consistency.scoring.shapes import PackingConfig, choose_shape, quantized
from mlm_consistency.scoring.step import make_step
from mlm_consistency.vocabularies import Vocabulary, load_vocabulary

__all__ = ["MaskedModel", "Model", "Question", "load_model", "paper_conditionals"]


@dataclasses.dataclass(frozen=True)
class Question:
    """A prompt, its candidates and, where it is known, which of them is right."""

    prompt: str
    candidates: Sequence[str]
    label: int | None = None
    id: str = ""


class Model:
    """A network with weights on a mesh, and the vocabulary that it was trained with."""

    def __init__(
        self,
        config: T5Config,
        params: Any,
        vocabulary: Vocabulary,
        mesh: jax.sharding.Mesh,
        *,
        mode: str = "",
        family: str = "t5",
        packing: PackingConfig | None = None,
    ) -> None:
        """Args:
        config: architecture.
        params: weights on `mesh`.
        vocabulary: tokens.
        mesh: devices.
        mode: UL2's mode word in front of every prompt; "" for none.
        family: "t5", "ul2" or "flan": what prompts look like.
        packing: limits of rows.
        """
        self.config, self.params, self.vocabulary, self.mesh = config, params, vocabulary, mesh
        self.mode, self.family = mode, family
        self.packing = packing or PackingConfig(tokens_per_batch=2048)
        self._step = make_step(config, mesh)

    def score(
        self,
        prompt: str,
        candidates: Sequence[str],
        conditionals: str | Sequence[str | Conditional] = "mmlu",
        label: int | None = None,
    ) -> Scores:
        """Scores of one prompt's candidates under each conditional.

        Args:
          prompt: the text before the answer.
          candidates: possible answers.
          conditionals: masking patterns, the baseline first: a preset or a list of names.
          label: the right candidate, where it is known.

        Raises:
          DataError: for an empty prompt or candidate, or a label out of range.
        """
        return self.score_all([Question(prompt, candidates, label)], conditionals)

    def score_all(
        self,
        questions: Sequence[Question],
        conditionals: str | Sequence[str | Conditional] = "mmlu",
    ) -> Scores:
        """Scores of many prompts, packed together; see `score`."""
        patterns = parse_conditionals(conditionals)
        examples = [self._encode(i, q, patterns) for i, q in enumerate(questions)]
        if not examples:
            raise DataError("there is no question to score")
        prompts = prompts_of(examples)
        lengths = lengths_of(prompts)
        # Rounded up, so that a notebook's next question finds its shape compiled already.
        shape = quantized(choose_shape(lengths, self.config, self.packing))
        counts = [sum(p.example == i for p in prompts) for i in range(len(examples))]
        first = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        loop = ScoringLoop(
            self._step, self.params, shape, self.mesh, self.vocabulary.pad_id, len(examples)
        )
        task = TaskInput("questions", lambda: iter(examples), lengths, first)
        (shard,) = loop.run([task], lambda name: set())
        return self._scores(examples, shard.token_log_probs, patterns, questions)

    def _encode(
        self, index: int, question: Question, patterns: Sequence[Conditional]
    ) -> EncodedExample:
        name = question.id or f"question {index}"
        if not isinstance(question.prompt, str):
            raise DataError(f"{name}: the prompt must be a text, got {question.prompt!r:.80}")
        if not question.prompt.strip():
            raise DataError(f"{name}: the prompt is empty")
        if isinstance(question.candidates, str) or not len(question.candidates):
            raise DataError(
                f"{name}: candidates must be a list of at least one text, "
                f"got {question.candidates!r:.80}"
            )
        for number, text in enumerate(question.candidates):
            if not isinstance(text, str):
                raise DataError(f"{name}: candidate {number} must be a text, got {text!r:.80}")
            if not text.strip():
                raise DataError(f"{name}: candidate {number} is empty or blank ({text!r})")
        if question.label is not None and not 0 <= question.label < len(question.candidates):
            raise DataError(
                f"{name}: label {question.label} is out of range; there are "
                f"{len(question.candidates)} candidates"
            )
        labels = () if question.label is None else (question.label,)
        example = TextExample(name, question.prompt, tuple(question.candidates), labels)
        return encode_example(
            example, self.vocabulary, patterns, self.mode, self.family, index=index
        )

    def _scores(
        self,
        examples: Sequence[EncodedExample],
        token_log_probs: Sequence[Sequence[Any]],
        patterns: Sequence[Conditional],
        questions: Sequence[Question],
    ) -> Scores:
        shape = (len(examples), len(patterns), max(len(e.candidates) for e in examples))
        sums = np.full(shape, -np.inf)
        lengths = np.ones((shape[0], shape[2]), np.int64)
        mask = np.zeros((shape[0], shape[2]), bool)
        labels = np.zeros((shape[0], shape[2]), bool)
        applicable = np.zeros(shape[:2], bool)
        for i, (example, rows) in enumerate(zip(examples, token_log_probs, strict=True)):
            count = len(example.candidates)
            mask[i, :count] = True
            lengths[i, :count] = [len(c) for c in example.candidates]
            labels[i, list(example.labels)] = True
            for k, row in enumerate(rows):
                if row is None:
                    continue
                applicable[i, k] = True
                sums[i, k, :count] = [float(np.sum(values, dtype=np.float64)) for values in row]
                if not np.isfinite(sums[i, k, :count]).all():
                    raise ScoringError(
                        f"{example.id}, conditional {patterns[k].name!r}: a score is not finite"
                    )
        return Scores.from_arrays(
            sums,
            [pattern.name for pattern in patterns],
            lengths=lengths,
            labels=labels,
            candidate_mask=mask,
            applicable=applicable,
            candidate_texts=[example.candidate_texts for example in examples],
            example_ids=[example.id for example in examples],
            prompt_lengths=[max(map(len, e.prompt_ids.values()), default=0) for e in examples],
            task="questions",
        )


def load_model(
    checkpoint: str = "tiny",
    *,
    vocabulary: str | None = None,
    model: str | None = None,
    mode: str | None = None,
    family: str | None = None,
    mesh: tuple[int, int] = (0, 1),
    dtype: str = "float32",
    param_dtype: str | None = None,
) -> Model | MaskedModel:
    """A model ready to score; of the BERT family, one to ask about masks (`MaskedModel`).

    Args:
      checkpoint: "tiny" for the one that ships, or a folder: T5X, Orbax or Hugging Face.
      vocabulary: path of the vocabulary; "tiny" for the shipped model, the checkpoint's own
        folder for a Hugging Face one.
      model: name of a published architecture, where the checkpoint does not say.
      mode: UL2's mode word (NLG, NLU, S2S); the shipped model is asked with NLG.
      family: "t5", "ul2" or "flan"; by default told by the name.
      mesh: (data, model) devices; data = 0 takes what is left by a model axis of at most `model`.
      dtype: of activations.
      param_dtype: of weights; `dtype` by default.

    Raises:
      CheckpointError, VocabularyError, ConfigError: naming what is missing or does not fit.
    """
    found = open_checkpoint(checkpoint)
    if isinstance(found.config, BertConfig):
        return _masked_model(
            found, vocabulary or checkpoint, mesh, dtype=dtype, param_dtype=param_dtype or dtype
        )
    config = architecture(found, None if model in (None, "tiny") else preset(model))
    config = dataclasses.replace(config, dtype=dtype, param_dtype=param_dtype or dtype)
    if family is None:
        name = model or config.name
        family = "flan" if name.startswith("flan") else "t5"
        family = "ul2" if name.startswith(("ul2", "tiny")) else family
    if mode is None:
        mode = "NLG" if checkpoint == "tiny" else ""
    else:
        mode = check_mode(mode, family)
    words = load_vocabulary(vocabulary or checkpoint)
    _check_vocabulary(words, config)
    mesh_config = fitted(MeshConfig(*mesh), config)
    devices = make_mesh(mesh_config)
    check_model_fits_mesh(config, devices)
    shardings = weight_shardings(logical_axes(config), devices, mesh_config)
    params = restore(found, config, shardings)
    return Model(config, params, words, devices, mode=mode, family=family)


def _masked_model(
    found: Checkpoint, vocabulary: str, mesh: tuple[int, int], *, dtype: str, param_dtype: str
) -> MaskedModel:
    config = dataclasses.replace(bert_config(found), dtype=dtype, param_dtype=param_dtype)
    words = load_vocabulary(vocabulary)
    _check_vocabulary(words, config)
    # The table's rows are rounded up, so that a model axis divides them.
    rounded = dataclasses.replace(config, vocab_size=config.vocab_rows)
    mesh_config = fitted(MeshConfig(*mesh), rounded)
    devices = make_mesh(mesh_config)
    shardings = weight_shardings(bert_axes(config), devices, mesh_config)
    return MaskedModel(config, restore_bert(found, config, shardings), words, devices)


def _check_vocabulary(words: Vocabulary, config: T5Config | BertConfig) -> None:
    if words.size > config.vocab_size:
        raise ConfigError(
            f"vocabulary {words.name!r} has {words.size} ids, {config.name} has "
            f"{config.vocab_size} rows: take the vocabulary that it was trained with"
        )
