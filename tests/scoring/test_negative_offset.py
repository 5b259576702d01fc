"""Scores under negative offsets: the shown tokens at the baseline's price, then the rest."""

from __future__ import annotations

import numpy as np
import pytest

import mlm_consistency as mc
from mlm_consistency.api import Question
from mlm_consistency.conditionals import parse_conditionals
from mlm_consistency.records.divergences import divergences_table
from mlm_consistency.scoring.assemble import lengths_of, prompts_of
from mlm_consistency.scoring.divergence import DivergenceStep
from mlm_consistency.scoring.loop import ScoringLoop, TaskInput
from mlm_consistency.scoring.shapes import choose_shape, quantized
from mlm_consistency.scoring.step import make_step

STORY = "Tom went with Mary to the market. The apples are in"
CANDIDATES = ["the red box", "the red bag", "the red box of Mary"]
NAMES = ("baseline", "offset_-1", "offset_-2", "offset_-3", "span_3_3_1")


@pytest.fixture(scope="module")
def model():
    return mc.load_model("tiny")


def test_a_score_is_the_baselines_price_and_the_rest(model):
    scores = model.score_all([Question(STORY, CANDIDATES), Question(STORY, ["red", "the"])], NAMES)
    # By hand: a prompt that ends in the shown tokens, asked for what is left, as ids.
    shown = model.score_all(
        [
            Question(f"{STORY} the", ["red box", "red bag", "red box of Mary"]),
            Question(f"{STORY} the red", ["box", "bag", "box of Mary"]),
        ],
        "baseline",
    ).values("sum")
    price = model.score_all([Question(STORY, ["the", "the red"])], "baseline").values("sum")[0, 0]
    got = scores.values("sum")
    for k, n in ((1, 0), (2, 1)):
        np.testing.assert_allclose(got[0, k, :3], price[n] + shown[n, 0], atol=2e-5, rtol=0)
    assert scores.applicable.tolist() == [
        [True, True, True, False, True], [True, False, False, False, True],
    ]  # fmt: skip
    # The shown tokens count in the mean, as they do for every other conditional.
    lengths = [len(model.vocabulary.encode(text)) for text in CANDIDATES]
    np.testing.assert_allclose(scores.values("mean")[0, 2], got[0, 2] / lengths, rtol=1e-6)


def test_they_are_left_out_where_first_tokens_are_compared(model):
    patterns = parse_conditionals(NAMES)
    examples = [model._encode(0, Question(STORY, CANDIDATES, 0), patterns)]
    lengths = lengths_of(prompts_of(examples))
    shape = quantized(choose_shape(lengths, model.config, model.packing))
    loop = ScoringLoop(
        make_step(model.config, model.mesh, with_states=True), model.params, shape, model.mesh,
        model.vocabulary.pad_id, 1, divergence=DivergenceStep(model.config, model.mesh, 5, 1),
    )  # fmt: skip
    task = TaskInput("t", lambda: iter(examples), lengths, np.array([0, len(lengths)]))
    (shard,) = loop.run([task], lambda name: set())
    assert np.isfinite(shard.divergences.entropy[0]).tolist() == [True, False, False, False, True]
    table = divergences_table(shard, NAMES)
    assert sum(table["applicable"].to_pylist()) == 1
