"""Our networks and readers against T5X's own: its checkpoints, its `score_batch`.

T5X is not on PyPI: these tests run where it is installed (extra `t5x`) and skip elsewhere.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax.core import unfreeze

from mlm_consistency.checkpoints.architecture import architecture
from mlm_consistency.checkpoints.checkpoint import open_checkpoint
from mlm_consistency.checkpoints.convert import convert
from mlm_consistency.checkpoints.digest import digest
from mlm_consistency.checkpoints.restore import restore
from mlm_consistency.models.t5 import T5

pytestmark = pytest.mark.parity
WHY = "T5X is not installed (it is not on PyPI; see the extra `t5x`)"
pytest.importorskip("t5x", reason=WHY)
checkpoints = pytest.importorskip("t5x.checkpoints", reason=WHY)
network = pytest.importorskip("t5x.examples.t5.network", reason=WHY)

TOLERANCE = 1e-5
VOCABULARY = 96
KINDS = {
    "relu_tied": (("relu",), True),
    "gated_gelu_untied": (("gelu", "linear"), False),
    "gated_silu_tied": (("silu", "linear"), True),
}


@pytest.fixture(scope="module", params=list(KINDS))
def case(request):
    """T5X's model with random weights, and the train state that its Checkpointer saves."""
    import seqio
    from t5x import adafactor, models, partitioning, train_state

    activations, tied = KINDS[request.param]
    module = network.Transformer(
        network.T5Config(
            vocab_size=VOCABULARY,
            dtype="float32",
            emb_dim=32,
            num_heads=4,
            num_encoder_layers=3,
            num_decoder_layers=2,
            head_dim=16,
            mlp_dim=48,
            mlp_activations=activations,
            dropout_rate=0.0,
            logits_via_embedding=tied,
        )
    )
    rules = adafactor.standard_logical_factor_rules()
    optimizer = adafactor.Adafactor(1e-3, logical_factor_rules=rules)
    words = seqio.PassThroughVocabulary(VOCABULARY)
    model = models.EncoderDecoderModel(module, words, words, optimizer)
    ids = jnp.ones((1, 4), jnp.int32)
    variables = module.init(jax.random.key(3), ids, ids, ids, enable_dropout=False)
    state = train_state.FlaxOptimTrainState.create(optimizer, variables)
    return model, state, partitioning.PjitPartitioner(num_partitions=1)


def written(case, folder, form: str) -> str:
    """The step folder that T5X wrote."""
    _, state, partitioner = case
    folder.mkdir()
    if form == "legacy":
        checkpoints.Checkpointer(state, partitioner, str(folder)).save(state)
    else:
        manager = checkpoints.OrbaxCheckpointManagerInterface(str(folder), state, partitioner)
        manager.save(state)
        manager.close()
    return str(folder / "checkpoint_0")


@pytest.mark.parametrize("form", ["legacy", "orbax"])
def test_scores_equal_score_batch(case, form, tmp_path):
    model, state, _ = case
    checkpoint = open_checkpoint(written(case, tmp_path / form, form))
    config = architecture(checkpoint)
    params = restore(checkpoint, config)

    rng = np.random.default_rng(1)
    encoder = rng.integers(2, VOCABULARY, (3, 40)).astype(np.int32)
    encoder[1, 17:] = 0
    targets = rng.integers(2, VOCABULARY, (3, 8)).astype(np.int32)
    inputs = np.concatenate([np.zeros((3, 1), np.int32), targets[:, :-1]], axis=1)
    batch = {
        "encoder_input_tokens": encoder,
        "decoder_input_tokens": inputs,
        "decoder_target_tokens": targets,
        "decoder_loss_weights": np.ones_like(targets),
    }
    expected = model.score_batch(state.params, batch)

    end, ones = np.full_like(inputs, 8), np.ones_like(inputs)
    positions = np.broadcast_to(np.arange(8), inputs.shape)
    segments = (encoder > 0).astype(np.int32)
    logits = T5(config).apply({"params": params}, encoder, segments, inputs, positions, end, ones)
    log_probs = jnp.take_along_axis(jax.nn.log_softmax(logits), targets[..., None], -1)
    # score_batch sums over the targets: eight terms, each within the tolerance.
    np.testing.assert_allclose(log_probs[..., 0].sum(-1), expected, atol=8 * TOLERANCE, rtol=0)


def test_t5x_restores_what_we_write(case, tmp_path):
    from t5x import train_state

    model, state, partitioner = case
    source = written(case, tmp_path / "run", "legacy")
    out = str(tmp_path / "checkpoint_7")
    assert convert(source, out, "t5x").digest == digest(open_checkpoint(source))
    ids = jnp.ones((1, 4), jnp.int32)
    other = model.module.init(jax.random.key(4), ids, ids, ids, enable_dropout=False)
    empty = train_state.InferenceState.create(other)
    restored = checkpoints.Checkpointer(empty, partitioner, str(tmp_path)).restore(path=out)
    got, expected = unfreeze(restored.params), unfreeze(state.params)
    jax.tree.map(np.testing.assert_array_equal, got, expected)
