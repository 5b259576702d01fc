"""Contexts through the loop: the scores of the Python interface, and greedy by brute force."""

from __future__ import annotations

import logging

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import mlm_consistency as mc
from mlm_consistency.api import Question as Asked
from mlm_consistency.conditionals import parse_conditionals
from mlm_consistency.errors import DataError
from mlm_consistency.harness.requests import Question
from mlm_consistency.harness.scorer import Scorer
from mlm_consistency.models.t5 import T5

STORY = "Tom went with Mary to the market. There were 4 apples. Mary put the apples in"
CHOICES = ("the red box", "the kitchen", "it")
NAMES = "baseline,offset_2,span_3_3_1,span_3_3_9"


@pytest.fixture(scope="module")
def model():
    return mc.load_model("tiny")


def question(context, *continuations):
    return Question(context, continuations, tuple(range(len(continuations))), "task 't'")


def greedy_ids(model, encoder, prefix, steps) -> list[int]:
    """Greedy decoding, the whole decoder anew for each token."""
    module, tokens = T5(model.config), [model.vocabulary.pad_id, *prefix]
    size = len(tokens) + steps
    ones, segments = jnp.ones((1, size), jnp.int32), jnp.ones((1, len(encoder)), jnp.int32)
    positions, end = jnp.arange(size)[None], jnp.full((1, size), size)

    @jax.jit
    def logits(inputs):
        variables = {"params": model.params}
        return module.apply(variables, encoder[None], segments, inputs, positions, end, ones)

    while len(tokens) < size:
        inputs = np.zeros((1, size), np.int32)
        inputs[0, : len(tokens)] = tokens
        tokens.append(int(jnp.argmax(logits(inputs)[0, len(tokens) - 1])))
    return tokens[-steps:]


def test_scores_are_those_of_the_python_interface(model, caplog):
    scorer = Scorer(model, parse_conditionals(NAMES))
    with caplog.at_level(logging.WARNING):
        scored = list(scorer.score([question(STORY, *CHOICES), question("He has", "it", "2")]))
    wanted = model.score_all([Asked(STORY, CHOICES), Asked("He has", ["it", "2"])], NAMES)
    assert [len(s.sums) for s in scored] == [3, 1]
    for i, got in enumerate(scored):
        applies, count = wanted.applicable[i], got.sums.shape[1]
        np.testing.assert_allclose(
            got.sums, wanted.values("sum")[i][applies, :count], atol=1e-5, rtol=0
        )
    assert "span_3_3_9 does not apply to 2 of 2 contexts" in caplog.text


def test_greedy_is_what_decoding_gives(model):
    scorer = Scorer(model, parse_conditionals("baseline"))
    words = model.vocabulary
    example = scorer._encode(0, question(STORY, "it"))
    (masked,) = example.masked
    ids = greedy_ids(model, masked.encoder, masked.prefix, 3)
    texts = [words.decode(ids[:n]) for n in (1, 2, 3)]
    assert [words.encode(text) for text in texts] == [ids[:n] for n in (1, 2, 3)]
    other = "Tom" if texts[0] != "Tom" else "Mary"
    (scored,) = scorer.score([question(STORY, *texts, f"{texts[0]} {other} {other}", other)])
    assert scored.greedy.tolist() == [[True, True, True, False, False]]


def test_an_empty_context_is_asked_of_the_baseline_alone(model):
    plain = mc.load_model("tiny", mode="", family="t5")
    scorer = Scorer(plain, parse_conditionals(NAMES))
    example = scorer._encode(0, question("", "the kitchen"))
    x0, eos = plain.vocabulary.sentinel(0), plain.vocabulary.eos_id
    assert example.masked[0].encoder.tolist() == [x0, eos]
    assert example.masked[0].prefix.tolist() == [x0]
    assert len([m for m in example.masked if hasattr(m, "reason")]) == 3
    with pytest.raises(DataError, match="context is empty, and no conditional applies"):
        Scorer(plain, parse_conditionals("baseline@NLU"))._encode(0, question(" ", "it"))
    # A mode word is a prompt.
    assert len(Scorer(model, parse_conditionals("baseline"))._encode(0, question("", "it"))
               .masked[0].encoder) > 2  # fmt: skip


def test_contexts_are_cut_only_when_asked(model, caplog):
    long = question(" ".join([STORY] * 20), "it")
    patterns = parse_conditionals("baseline")
    with pytest.raises(DataError, match=r"task 't': \d+ encoder tokens .* raise max_length"):
        list(Scorer(model, patterns, max_length=64).score([long]))
    with caplog.at_level(logging.WARNING):
        list(Scorer(model, patterns, max_length=64, max_prompt_tokens=40).score([long]))
    assert "1 of 1 contexts were cut at the left" in caplog.text
