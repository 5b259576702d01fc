"""Stories as training examples and as held-out questions, in the small model's vocabulary."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from mlm_consistency.conditionals import get_conditional
from mlm_consistency.conditionals.example import EncodedExample, TextExample, encode_example
from mlm_consistency.models.config import T5Config
from mlm_consistency.models.t5 import T5
from mlm_consistency.pretraining.batches import TrainingExample
from mlm_consistency.pretraining.denoisers import (
    MIXTURE,
    MODE_WORDS,
    Masks,
    Mixture,
    denoise_answer,
)
from mlm_consistency.pretraining.stories import (
    HELDOUT_SEED,
    VALIDATION_START,
    choice_example,
    last_word_example,
    training_text,
)
from mlm_consistency.scoring.assemble import lay_out, lengths_of, prompts_of
from mlm_consistency.scoring.packing import pack
from mlm_consistency.scoring.shapes import PackingConfig, choose_shape
from mlm_consistency.scoring.step import score
from mlm_consistency.vocabularies import Vocabulary


@dataclasses.dataclass(frozen=True)
class ExampleConfig:
    """What is trained on.

    Attributes:
      seed: of the stories and of their masks.
      mixture: denoisers and their rates.
      answer_weight: weight in the loss of the tokens of an answer that was masked as such.
    """

    seed: int
    mixture: Mixture = MIXTURE
    answer_weight: float = 4.0


def story_examples(
    config: ExampleConfig, vocabulary: Vocabulary
) -> Callable[[int], TrainingExample]:
    """A function index -> masked story; the same index gives the same masks for ever."""
    mode_ids = {word: vocabulary.encode(word) for word in MODE_WORDS}
    eos = [vocabulary.eos_id]

    def example(index: int) -> TrainingExample:
        rng = np.random.default_rng((config.seed, index))
        text = training_text(config.seed, index)
        answer = np.asarray(vocabulary.encode(text.answer), np.int32)
        prompt = np.asarray(vocabulary.encode(text.prompt), np.int32)
        inputs, targets, denoiser = denoise_answer(
            prompt, answer, rng, config.mixture, mode_ids, vocabulary.sentinel
        )
        weights = np.ones(len(targets) + 1, np.float32)
        if denoiser.masks is Masks.ANSWER:  # the closing sentinel and </s> come after it
            weights[-2 - len(answer) : -2] = config.answer_weight
        return TrainingExample(
            np.concatenate([inputs, eos]).astype(np.int32),
            np.concatenate([targets, eos]).astype(np.int32),
            weights,
        )

    return example


def questions(
    ask: Callable[[int, int], dict[str, Any]], count: int, vocabulary: Vocabulary, mode: str
) -> list[EncodedExample]:
    """Held-out stories as candidate questions under the baseline conditional.

    None of them is in the shipped tasks: those use the indices below `VALIDATION_START`.
    """
    encoded = []
    for index in range(VALIDATION_START, VALIDATION_START + count):
        row = ask(HELDOUT_SEED, index)
        example = TextExample(
            str(row["id"]), row["prompt"], tuple(row["candidates"]), (row["label"],)
        )
        baseline = [get_conditional("baseline")]
        encoded.append(encode_example(example, vocabulary, baseline, mode, "ul2"))
    return encoded


class HeldOutAccuracy:
    """Accuracy of the baseline conditional on held-out questions.

    A candidate's score is the mean log-probability of its tokens.
    """

    def __init__(self, model: T5Config, examples: Sequence[EncodedExample], start_id: int) -> None:
        self.examples = examples
        self.prompts = prompts_of(examples)
        lengths = lengths_of(self.prompts)
        shape = choose_shape(lengths, model, PackingConfig(tokens_per_batch=8192))
        self.batches = [lay_out(b, self.prompts, shape, start_id) for b in pack(lengths, shape)]
        network = T5(model)
        self.step = jax.jit(lambda params, batch: score(network, params, batch))

    def __call__(self, params: Any) -> float:
        """Share of questions whose best candidate is right."""
        right = 0
        for arrays, places in self.batches:
            out = np.asarray(self.step(params, {k: v[None] for k, v in arrays.items()}))[0]
            for number, first in places:
                prompt = self.prompts[number]
                pairs = prompt.tree.candidate_pairs
                scores = [float(out[first + pair].mean()) for pair in pairs]
                right += int(np.argmax(scores)) in self.examples[prompt.example].labels
        return right / len(self.prompts)


def held_out_accuracies(
    model: T5Config, vocabulary: Vocabulary, count: int, mode: str = "NLG"
) -> dict[str, HeldOutAccuracy]:
    """`last_word` (five-way) and `choice` (four-way) on `count` held-out stories each."""
    asks = {"last_word": last_word_example, "choice": choice_example}
    return {
        name: HeldOutAccuracy(model, questions(ask, count, vocabulary, mode), vocabulary.pad_id)
        for name, ask in asks.items()
    }
