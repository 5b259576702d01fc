"""Packed masked positions equal one text at a time; what cannot be scored is refused by name."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import numpy as np
import pytest
from bert_networks import (
    BERT,
    MASK,
    distributions_alone,
    random_contexts,
    random_parameters,
    scorer,
)

from mlm_consistency.errors import ScoringError
from mlm_consistency.models.bert_config import BertConfig
from mlm_consistency.scoring.masked_positions import COPIES, MaskedScorer
from mlm_consistency.scoring.masked_rows import (
    MaskedContext,
    lay_out_masked,
    masked_lengths,
    masked_shape,
)
from mlm_consistency.scoring.packing import pack
from mlm_consistency.scoring.shapes import PackingConfig


def test_log_probs_equal_those_of_each_text_alone():
    contexts = random_contexts(40)
    for context, parts in zip(contexts, scorer().log_probs(contexts), strict=True):
        alone = distributions_alone(context.tokens)
        for position, words, part in zip(context.read, context.targets, parts, strict=True):
            np.testing.assert_allclose(part, alone[position, words], rtol=0, atol=1e-5)


def test_whole_distributions_and_top_k_agree_with_them():
    contexts = random_contexts(12, seed=1)
    one = COPIES * BERT.vocab_rows * 4
    found = dict(scorer().distributions(contexts, max_bytes=9 * one))
    assert sorted(found) == list(range(12))
    tops = scorer().top(contexts, 4)
    for number, context in enumerate(contexts):
        alone = distributions_alone(context.tokens)[context.read]
        np.testing.assert_allclose(found[number], alone, rtol=0, atol=1e-5)
        top = tops[number]
        np.testing.assert_array_equal(top["words"], np.argsort(-alone, axis=-1)[:, :4])
        best = np.sort(alone)[:, ::-1][:, :4]
        np.testing.assert_allclose(top["log_probs"], best, rtol=0, atol=1e-5)
        entropy = -(np.exp(alone) * alone).sum(axis=-1)
        np.testing.assert_allclose(top["entropy"], entropy, rtol=0, atol=1e-5)


def test_rows_are_filled_and_every_context_lies_in_one_once():
    contexts = [
        MaskedContext(np.full(27, 5, np.int32), np.array([3]), (np.array([7]),))
    ] * 500  # fmt: skip
    shape = masked_shape(masked_lengths(contexts), BertConfig(), PackingConfig())
    batches = pack(masked_lengths(contexts), shape)
    placed = [
        place.context for batch in batches for place in lay_out_masked(batch, contexts, shape)[1]
    ]
    assert sorted(placed) == list(range(500))
    computed = len(batches) * shape.encoder_tokens
    assert computed < 1.2 * 500 * 27, "rows are filled"


def test_positions_restart_with_each_text():
    contexts = random_contexts(6, seed=2)
    shape = masked_shape(masked_lengths(contexts), BERT, PackingConfig(tokens_per_batch=128))
    for batch in pack(masked_lengths(contexts), shape):
        arrays, _ = lay_out_masked(batch, contexts, shape)
        for index in range(len(shape.rows)):
            segments, positions = arrays[f"segments_{index}"], arrays[f"positions_{index}"]
            for row, at in zip(segments, positions, strict=True):
                for segment in range(1, row.max() + 1):
                    np.testing.assert_array_equal(
                        at[row == segment], np.arange((row == segment).sum())
                    )


@pytest.mark.parametrize(
    ("context", "words"),
    [
        (MaskedContext(np.full(25, 5), np.array([1])), r"25 tokens.*absolute positions for 24"),
        (MaskedContext(np.full(5, 5), np.array([5])), r"read positions \[5\] do not lie in 5"),
        (MaskedContext(np.full(5, 5), np.array([1]), (np.array([53]),)), "target id 53"),
        (MaskedContext(np.full(5, 99), np.array([1])), "token id 99"),
        (MaskedContext(np.full(5, 5), np.array([1, 2]), (np.array([1]),)), "1 sets of targets"),
    ],
)
def test_what_cannot_be_scored_is_named(context, words):
    good = random_contexts(1)[0]
    with pytest.raises(ScoringError, match=f"context 1.*{words}"):
        scorer().log_probs([good, context])


def test_limits_are_named():
    with pytest.raises(ScoringError, match="one a data slot takes"):
        next(scorer().distributions(random_contexts(1), max_bytes=100))
    with pytest.raises(ScoringError, match="1 <= k <= 53"):
        scorer().top(random_contexts(1), 54)
    assert scorer().log_probs([]) == []


def test_numbers_that_are_not_finite_are_named():
    params = dict(random_parameters())
    head = dict(params["mlm_head"])
    head["bias"] = head["bias"].at[5].set(np.nan)
    broken = MaskedScorer(BERT, params | {"mlm_head": head})
    context = MaskedContext(np.array([1, MASK, 2]), np.array([1]), (np.array([7]),))
    with pytest.raises(ScoringError, match=r"context 0: .*not finite"):
        broken.log_probs([context])


def test_a_mesh_of_data_and_model_gives_the_same_numbers():
    """On four simulated devices, weights and vocabulary split over `model`."""
    program = textwrap.dedent(
        """
        import jax, numpy as np
        from bert_networks import BERT, PACKING, random_contexts, random_parameters, scorer
        from mlm_consistency.models.bert import logical_axes
        from mlm_consistency.scoring.masked_positions import MaskedScorer
        from mlm_consistency.scoring.mesh import MeshConfig, make_mesh, weight_shardings

        assert len(jax.devices()) == 4
        config = MeshConfig(2, 2)
        mesh = make_mesh(config)
        shardings = weight_shardings(logical_axes(BERT), mesh, config)
        params = jax.tree.map(jax.device_put, random_parameters(), shardings)
        table = params["token_embedder"]["embedding"]
        assert table.sharding.shard_shape(table.shape) == (64, 16), table.sharding
        contexts = random_contexts(9)
        found = MaskedScorer(BERT, params, mesh, PACKING).log_probs(contexts)
        for got, want in zip(found, scorer().log_probs(contexts), strict=True):
            for a, b in zip(got, want, strict=True):
                np.testing.assert_allclose(a, b, rtol=0, atol=1e-5)
        print("same")
        """
    )
    environment = os.environ | {
        "XLA_FLAGS": "--xla_force_host_platform_device_count=4",
        "JAX_PLATFORMS": "cpu",
        "PYTHONPATH": os.pathsep.join([os.path.dirname(__file__), *sys.path]),
    }
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.split() == ["same"]
