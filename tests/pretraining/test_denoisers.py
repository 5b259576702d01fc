"""Denoisers lose nothing, mask as much as they say, and keep the answer last."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from mlm_consistency.pretraining.denoisers import (
    MIXTURE,
    MODE_WORDS,
    UL2_MIXTURE,
    Denoiser,
    Masks,
    Mixture,
    cut,
    denoise,
    denoise_answer,
    restore,
)

LAST = 9999
MODE_IDS = {word: [7000 + number, 7100] for number, word in enumerate(MODE_WORDS)}


def sentinel(k: int) -> int:
    return LAST - k


def masked_share(config: Denoiser, length: int, draws: int = 200) -> float:
    total = 0
    for draw in range(draws):
        _, targets = denoise(np.arange(length), np.random.default_rng(draw), config, sentinel, 2)
        total += int((targets < LAST - 100).sum())
    return total / draws / length


def test_drawing_of_the_module() -> None:
    inputs, targets = cut(np.arange(7), [(1, 3), (5, 6)], sentinel)
    x0, x1, x2 = map(sentinel, range(3))
    assert inputs.tolist() == [0, x0, 3, 4, x1, 6]
    assert targets.tolist() == [x0, 1, 2, x1, 5, x2]


@pytest.mark.parametrize("config", MIXTURE.denoisers, ids=lambda config: config.name)
def test_text_comes_back_from_inputs_and_targets(config: Denoiser) -> None:
    for draw in range(300):
        rng = np.random.default_rng(draw)
        length = int(rng.integers(2, 90))
        tokens = rng.integers(3, 2000, length)
        answer = int(rng.integers(1, min(4, length)))
        inputs, targets = denoise(tokens, rng, config, sentinel, answer)
        assert np.array_equal(restore(inputs, targets, sentinel), tokens)
        marks = [int(token) for token in inputs if token > LAST - 100]
        assert marks == [sentinel(k) for k in range(len(marks))]
        closed = [int(token) for token in targets if token > LAST - 100]
        assert closed == [*marks, sentinel(len(marks))]
        assert targets[-1] == closed[-1]
        # spans never touch, and never are empty
        assert not any(a > LAST - 100 and b > LAST - 100 for a, b in pairwise(inputs))
        assert not any(a > LAST - 100 and b > LAST - 100 for a, b in pairwise(targets))


def test_answer_is_the_last_masked_span() -> None:
    for config in MIXTURE.denoisers:
        if config.masks is not Masks.ANSWER:
            continue
        several = 0
        for draw in range(200):
            rng = np.random.default_rng(draw)
            tokens = np.arange(60)
            inputs, targets = denoise(tokens, rng, config, sentinel, answer_length=3)
            spans = int((inputs > LAST - 100).sum())
            assert inputs[-1] == sentinel(spans - 1)
            assert targets[-5:].tolist() == [sentinel(spans - 1), 57, 58, 59, sentinel(spans)]
            assert spans <= 1 + config.extra_spans
            several += spans > 1
            if config.extra_reach:
                assert inputs[: 57 - config.extra_reach].tolist() == list(
                    range(57 - config.extra_reach)
                )
        assert several == (200 if config.extra_spans else 0)


def test_densities() -> None:
    for config in MIXTURE.denoisers:
        if config.masks is Masks.SPANS:
            assert masked_share(config, 60) == pytest.approx(config.density, abs=0.02)


def test_suffix_is_a_prefix_language_model() -> None:
    config = Denoiser("S", Masks.SUFFIX, ("[S2S]",))
    inputs, targets = denoise(np.arange(20), np.random.default_rng(0), config, sentinel)
    kept = len(inputs) - 1
    assert inputs.tolist() == [*range(kept), sentinel(0)]
    assert targets.tolist() == [sentinel(0), *range(kept, 20), sentinel(1)]


def test_mixture_rates_and_mode_words() -> None:
    counts: dict[str, int] = {}
    modes: dict[str, set[int]] = {}
    draws = 4000
    rng = np.random.default_rng(0)
    for _ in range(draws):
        inputs, _, config = denoise_answer(
            np.arange(40), np.arange(2), rng, MIXTURE, MODE_IDS, sentinel
        )
        counts[config.name] = counts.get(config.name, 0) + 1
        modes.setdefault(config.name, set()).add(int(inputs[0]))
    for config, rate in zip(MIXTURE.denoisers, MIXTURE.rates, strict=True):
        assert counts[config.name] / draws == pytest.approx(rate, abs=0.025)
        assert modes[config.name] == {MODE_IDS[word][0] for word in config.mode_words}
    assert sum(MIXTURE.rates) == pytest.approx(1)
    assert all(config.masks is not Masks.ANSWER for config in UL2_MIXTURE.denoisers)


def test_same_generator_same_masks() -> None:
    for config in MIXTURE.denoisers:
        one = denoise(np.arange(50), np.random.default_rng(5), config, sentinel, 1)
        two = denoise(np.arange(50), np.random.default_rng(5), config, sentinel, 1)
        assert all(np.array_equal(a, b) for a, b in zip(one, two, strict=True))


def test_bad_settings_are_refused() -> None:
    with pytest.raises(ValueError, match="density"):
        Denoiser("bad", Masks.SPANS, ("[NLU]",), density=1.0)
    with pytest.raises(ValueError, match="one rate"):
        Mixture(MIXTURE.denoisers, (1.0,))
    with pytest.raises(ValueError, match="answer of 0"):
        denoise(np.arange(9), np.random.default_rng(0), MIXTURE.denoisers[0], sentinel)
    with pytest.raises(ValueError, match="cannot be masked"):
        denoise(np.arange(1), np.random.default_rng(0), MIXTURE.denoisers[0], sentinel, 1)


def test_seqio_wrapper_masks_the_stories() -> None:
    seqio = pytest.importorskip("seqio")
    from mlm_consistency.pretraining import preprocessors
    from mlm_consistency.pretraining.stories import HELDOUT_SEED, VALIDATION_START, training_text
    from mlm_consistency.pretraining.vocabulary import ASSET

    vocabulary = seqio.SentencePieceVocabulary(str(ASSET), extra_ids=100)
    task = seqio.Task(
        "mlmc_test_story_pretraining",
        seqio.FunctionDataSource(preprocessors.read_stories, splits=("train", "validation")),
        preprocessors=[
            seqio.preprocessors.tokenize,
            preprocessors.denoise_dataset,
            seqio.preprocessors.append_eos,
        ],
        output_features={name: seqio.Feature(vocabulary) for name in ("inputs", "targets")},
    )

    def read(seed: int) -> list[tuple[list[int], list[int]]]:
        dataset = task.get_dataset(None, "validation", shuffle=False, seed=seed).take(20)
        return [(e["inputs"].tolist(), e["targets"].tolist()) for e in dataset.as_numpy_iterator()]

    rows = read(seed=1)
    assert rows == read(seed=1)
    assert rows != read(seed=2)
    for number, (inputs, targets) in enumerate(rows):
        assert inputs[-1] == targets[-1] == 1
        whole = restore(inputs[:-1], targets[:-1], lambda k: vocabulary.vocab_size - 1 - k)
        text = training_text(HELDOUT_SEED, 2 * VALIDATION_START + number).text
        assert any(whole.tolist() == vocabulary.encode(f"{mode} {text}") for mode in MODE_WORDS)
