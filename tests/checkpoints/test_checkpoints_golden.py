"""The committed T5X checkpoint gives the committed scores (those of torch `transformers`)."""

from __future__ import annotations

import json

import jax
import numpy as np
import pytest
from make_golden import CHECKPOINT, CONDITIONALS, CONFIG, EOS, SCORES, golden_parameters, sentinel

from mlm_consistency.checkpoints.architecture import architecture
from mlm_consistency.checkpoints.checkpoint import open_checkpoint
from mlm_consistency.checkpoints.restore import restore
from mlm_consistency.conditionals import EncodedExample, Masked, NotApplicable, parse_conditionals
from mlm_consistency.models.t5 import T5

TOLERANCE = 1e-5
QUESTIONS = json.loads(SCORES.read_text())["questions"]


@pytest.fixture(scope="module")
def params():
    checkpoint = open_checkpoint(str(CHECKPOINT))
    assert "decoder.decoder_norm.scale" not in checkpoint.leaves
    assert checkpoint.parameter_count == CONFIG.parameter_count() - CONFIG.d_model
    assert architecture(checkpoint) == CONFIG
    return restore(checkpoint, CONFIG)


def encoded_examples() -> list[EncodedExample]:
    examples = []
    for index, question in enumerate(QUESTIONS):
        prompt = np.asarray(question["prompt"], np.int32)
        masked = []
        for conditional in parse_conditionals(list(CONDITIONALS)):
            layout = conditional.layout(len(prompt))
            if not isinstance(layout, NotApplicable):
                encoder = layout.encoder_ids(prompt, sentinel, EOS)
                layout = Masked(encoder, layout.prefix_ids(prompt, sentinel))
            masked.append(layout)
        examples.append(
            EncodedExample(
                index=index,
                id=str(index),
                subject="",
                prompt="",
                candidate_texts=tuple(map(str, question["candidates"])),
                labels=(0,),
                candidates=tuple(np.asarray(y, np.int32) for y in question["candidates"]),
                prompt_ids={"": prompt},
                masked=tuple(masked),
            )
        )
    return examples


def test_the_weights(params):
    jax.tree.map(np.testing.assert_array_equal, params, golden_parameters())


def test_scores_of_one_candidate_at_a_time(params):
    """A row a candidate, padded to one shape."""
    rows = []
    for example, question in zip(encoded_examples(), QUESTIONS, strict=True):
        for name, masked in zip(CONDITIONALS, example.masked, strict=True):
            expected = question["token_log_probs"][name]
            assert (expected is None) == isinstance(masked, NotApplicable)
            for candidate, values in zip(example.candidates, expected or [], strict=False):
                rows.append((masked.encoder, [*masked.prefix, *candidate], values))
    count, length, width = len(rows), 48, 24
    encoder, segments = np.zeros((2, count, length), np.int32)
    targets, tokens, end = np.zeros((3, count, width), np.int32)
    for row, (ids, target, _) in enumerate(rows):
        encoder[row, : len(ids)], segments[row, : len(ids)] = ids, 1
        targets[row, : len(target)] = target
        tokens[row, 1 : len(target)] = target[:-1]
        end[row, : len(target)] = len(target)
    positions = np.tile(np.arange(width, dtype=np.int32), (count, 1))
    ones = np.ones_like(tokens)
    score = jax.jit(T5(CONFIG).apply)
    logits = score({"params": params}, encoder, segments, tokens, positions, end, ones)
    log_probs = np.asarray(jax.nn.log_softmax(logits))
    for row, (_, target, values) in enumerate(rows):
        place = np.arange(len(target) - len(values), len(target))
        got = log_probs[row, place, targets[row, place]]
        np.testing.assert_allclose(got, values, atol=TOLERANCE, rtol=0)


def test_packed_scores(params):
    from mlm_consistency.scoring.assemble import lengths_of, prompts_of
    from mlm_consistency.scoring.loop import ScoringLoop, TaskInput
    from mlm_consistency.scoring.mesh import MeshConfig, make_mesh
    from mlm_consistency.scoring.shapes import PackingConfig, choose_shape
    from mlm_consistency.scoring.step import make_step

    examples = encoded_examples()
    prompts = prompts_of(examples)
    lengths = lengths_of(prompts)
    counts = [sum(p.example == i for p in prompts) for i in range(len(examples))]
    first = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    mesh = make_mesh(MeshConfig(1, 1), jax.devices()[:1])
    shape = choose_shape(lengths, CONFIG, PackingConfig(tokens_per_batch=256))
    loop = ScoringLoop(make_step(CONFIG, mesh), params, shape, mesh, 0, len(examples))
    task = TaskInput("golden", lambda: iter(examples), lengths, first)
    (shard,) = loop.run([task], lambda name: set())
    checked = 0
    for question, scores in zip(QUESTIONS, shard.token_log_probs, strict=True):
        for name, row in zip(CONDITIONALS, scores, strict=True):
            expected = question["token_log_probs"][name]
            assert (row is None) == (expected is None)
            for got, values in zip(row or [], expected or [], strict=True):
                np.testing.assert_allclose(got, values, atol=TOLERANCE, rtol=0)
                checked += len(values)
    assert checked == 11 * (5 + 5 + 2)
