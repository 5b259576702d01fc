"""The denoisers as seqio preprocessors, and the stories as a seqio function source.

A pretraining task is then made of::

    source         seqio.FunctionDataSource(read_stories, splits=("train", "validation"))
    preprocessors  seqio.preprocessors.tokenize, denoise_dataset, seqio.preprocessors.append_eos

``tokenize`` sees the prompt as ``inputs`` and the answer as ``targets``; they come out masked.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping

import numpy as np
import seqio
import tensorflow as tf

from mlm_consistency.pretraining.denoisers import MIXTURE, MODE_WORDS, Mixture, denoise_answer
from mlm_consistency.pretraining.stories import (
    HELDOUT_SEED,
    TRAIN_SEED,
    VALIDATION_START,
    training_texts,
)

VALIDATION_TEXTS = 2_000


def read_stories(
    split: str, shuffle_files: bool = False, seed: int | None = None
) -> tf.data.Dataset:
    """Prompts and answers as ``inputs`` and ``targets``.

    ``train`` never ends and ``validation`` has ``VALIDATION_TEXTS`` held-out texts. Stories
    come in their own order, which is random already, so the last two arguments change nothing.
    """
    del shuffle_files, seed

    def pairs() -> Iterator[dict[str, str]]:
        if split == "train":
            texts = training_texts(TRAIN_SEED)
        else:
            heldout = training_texts(HELDOUT_SEED, start=2 * VALIDATION_START)
            texts = itertools.islice(heldout, VALIDATION_TEXTS)
        for text in texts:
            yield {"inputs": text.prompt, "targets": text.answer}

    if split not in ("train", "validation"):
        raise ValueError(f"split {split!r} is neither 'train' nor 'validation'")
    text = tf.TensorSpec([], tf.string)
    return tf.data.Dataset.from_generator(pairs, output_signature={"inputs": text, "targets": text})


def denoise_dataset(
    dataset: tf.data.Dataset,
    output_features: Mapping[str, seqio.Feature],
    mixture: Mixture = MIXTURE,
) -> tf.data.Dataset:
    """Mask tokenised ``inputs`` (prompt) and ``targets`` (answer) as ``denoise_answer`` does.

    A fixed seqio seed gives the same masks. Neither output holds ``</s>``; targets hold the
    closing sentinel. The sentinels are the last ``extra_ids`` ids of the vocabulary.
    """
    vocabulary = output_features["inputs"].vocabulary
    last = vocabulary.vocab_size - 1
    mode_ids = {word: vocabulary.encode(word) for word in MODE_WORDS}

    def mask(prompt: np.ndarray, answer: np.ndarray, seed: np.ndarray) -> list[np.ndarray]:
        rng = np.random.default_rng(seed.astype(np.uint32))
        inputs, targets, _ = denoise_answer(
            prompt, answer, rng, mixture, mode_ids, lambda k: last - k
        )
        return [inputs, targets]

    @seqio.map_over_dataset(num_seeds=1)
    def one(features: dict[str, tf.Tensor], seed: tf.Tensor) -> dict[str, tf.Tensor]:
        inputs, targets = tf.numpy_function(
            mask, [features["inputs"], features["targets"], seed], [tf.int32, tf.int32]
        )
        inputs.set_shape([None])
        targets.set_shape([None])
        return {**features, "inputs": inputs, "targets": targets}

    return one(dataset)
