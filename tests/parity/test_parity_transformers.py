"""Our networks against torch `transformers`, on random weights read from a Hugging Face folder.

The version is pinned below 5: from 5 on, transformers ties T5's output matrix to the embeddings
whatever the configuration says, which is another network for T5 1.1, Flan-T5 and mT5.
"""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mlm_consistency.checkpoints.architecture import architecture
from mlm_consistency.checkpoints.checkpoint import open_checkpoint
from mlm_consistency.checkpoints.convert import convert
from mlm_consistency.checkpoints.restore import restore
from mlm_consistency.models.t5 import T5

torch = pytest.importorskip("torch", reason="parity: needs torch (extra `parity`)")
transformers = pytest.importorskip("transformers", reason="parity: needs transformers")

pytestmark = pytest.mark.parity

TOLERANCE = 1e-5
VOCABULARY, ENCODER_LENGTH, DECODER_LENGTH = 96, 150, 140
KINDS = {
    "relu_tied": ("relu", True),
    "gated_gelu_untied": ("gated-gelu", False),
    "gated_silu_tied": ("gated-silu", True),
}


def random_model(kind: str):
    """A small torch model whose every weight is random, norms and biases among them."""
    projection, tied = KINDS[kind]
    torch.manual_seed(7)
    config = transformers.T5Config(
        vocab_size=VOCABULARY,
        d_model=32,
        d_kv=16,
        d_ff=48,
        num_layers=3,
        num_decoder_layers=2,
        num_heads=4,
        feed_forward_proj=projection,
        tie_word_embeddings=tied,
        dropout_rate=0.0,
    )
    model = transformers.T5ForConditionalGeneration(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 1:
                parameter.uniform_(0.5, 1.5)
            elif parameter.shape == (32, 4):
                parameter.normal_(0.0, 1.0)
    return model


@pytest.fixture(scope="module", params=list(KINDS))
def case(request, tmp_path_factory):
    """The torch model, our configuration and parameters read from its folder, and the folder."""
    assert int(transformers.__version__.split(".")[0]) < 5, "transformers 5 ties every T5"
    model = random_model(request.param)
    folder = tmp_path_factory.mktemp(request.param)
    model.save_pretrained(folder)
    checkpoint = open_checkpoint(str(folder))
    config = architecture(checkpoint)
    return model, config, restore(checkpoint, config), folder


@pytest.fixture(scope="module")
def ids():
    """Prompts [2, S] (the second one padded) and targets [2, T], padding id 0 inside a target."""
    rng = np.random.default_rng(5)
    encoder = rng.integers(2, VOCABULARY, (2, ENCODER_LENGTH))
    targets = rng.integers(2, VOCABULARY, (2, DECODER_LENGTH))
    encoder[1, 61:] = 0
    targets[1, 4] = 0
    return encoder.astype(np.int32), targets.astype(np.int32)


def reference(model, encoder, targets):
    """Encoder states, decoder states and log p of each target token, by torch, as NumPy."""
    inputs = np.concatenate([np.zeros_like(targets[:, :1]), targets[:, :-1]], axis=1)
    with torch.no_grad():
        out = model(
            input_ids=torch.tensor(encoder, dtype=torch.long),
            attention_mask=torch.tensor(encoder != 0),
            decoder_input_ids=torch.tensor(inputs, dtype=torch.long),
            output_hidden_states=True,
        )
    log_probs = torch.log_softmax(out.logits.float(), -1)
    picked = log_probs.gather(-1, torch.tensor(targets, dtype=torch.long)[..., None])[..., 0]
    states = (out.encoder_last_hidden_state, out.decoder_hidden_states[-1], picked)
    return tuple(x.numpy() for x in states)


@functools.partial(jax.jit, static_argnums=0)
def ours(config, params, encoder, segments, tokens, positions, end, tree_segments):
    """Encoder states, decoder states and log-probabilities over the vocabulary."""
    network, variables = T5(config), {"params": params}
    encoded = network.apply(variables, encoder, segments, method=T5.encode)
    hidden = network.apply(
        variables, tokens, positions, end, tree_segments, encoded, segments, method=T5.decode
    )
    logits = network.apply(variables, hidden.reshape(-1, hidden.shape[-1]), method=T5.logits)
    log_probs = jax.nn.log_softmax(logits, axis=-1).reshape(*tokens.shape, -1)
    return encoded, hidden, log_probs


def test_states_and_log_probs_of_whole_rows(case, ids):
    model, config, params, _ = case
    encoder, targets = ids
    inputs = np.concatenate([np.zeros_like(targets[:, :1]), targets[:, :-1]], axis=1)
    positions = np.broadcast_to(np.arange(DECODER_LENGTH), inputs.shape)
    chain = np.full_like(inputs, DECODER_LENGTH)
    one = np.ones_like(inputs)
    segments = (encoder != 0).astype(np.int32)
    encoded, hidden, log_probs = ours(
        config, params, encoder, segments, inputs, positions, chain, one
    )
    expected = reference(model, encoder, targets)
    picked = np.take_along_axis(np.asarray(log_probs), targets[..., None], -1)[..., 0]
    real = encoder != 0
    np.testing.assert_allclose(
        np.asarray(encoded)[real], expected[0][real], atol=TOLERANCE, rtol=TOLERANCE
    )
    np.testing.assert_allclose(hidden, expected[1], atol=TOLERANCE, rtol=TOLERANCE)
    np.testing.assert_allclose(picked, expected[2], atol=TOLERANCE, rtol=TOLERANCE)


def test_packed_trees(case, ids):
    """Two prompts in an encoder row, and for each a tree of two candidates in a decoder row.

    node      0      1      2   3   4   5  | 6      7      8   9
    token   start   x_0     a   b   c   d  | start  x_0    a   e
    branch                 [a   b] [c   d]                [a] [e]
    """
    model, config, params, _ = case
    first, second = ids[0][:, :20]
    x_0, a, b, c, d, e = 95, 11, 12, 13, 14, 15
    tree = np.array(
        [
            [0, x_0, a, b, c, d, 0, x_0, a, e],
            [0, 1, 2, 3, 2, 3, 0, 1, 2, 2],
            [6, 6, 4, 4, 6, 6, 10, 10, 9, 10],
            [1, 1, 1, 1, 1, 1, 2, 2, 2, 2],
        ],
        np.int32,
    )
    prompts = np.array([[*first, *second[:9]], [1] * 20 + [2] * 9], np.int32)
    # In the shapes of the test above (padding after the row, and an empty row): compiled once.
    encoder, segments = np.zeros((2, 2, ENCODER_LENGTH), np.int32)
    encoder[0, :29], segments[0, :29] = prompts
    rows = np.zeros((4, 2, DECODER_LENGTH), np.int32)
    rows[:, 0, :10] = tree
    tokens, positions, end, trees = rows
    _, _, log_probs = ours(config, params, encoder, segments, tokens, positions, end, trees)
    log_probs = np.asarray(log_probs)

    def packed(*edges):
        return np.array([log_probs[0, node, token] for node, token in edges])

    for prompt, target, got in [
        (first, [x_0, a, b], packed((0, x_0), (1, a), (2, b))),
        (first, [x_0, c, d], packed((0, x_0), (1, c), (4, d))),
        (second[:9], [x_0, a], packed((6, x_0), (7, a))),
        (second[:9], [x_0, e], packed((6, x_0), (7, e))),
    ]:
        alone = reference(model, prompt[None], np.array([target], np.int32))[2][0]
        np.testing.assert_allclose(got, alone, atol=TOLERANCE, rtol=TOLERANCE)


def test_converted_folder_loads_in_transformers(case, ids, tmp_path):
    model, config, _, folder = case
    convert(str(folder), str(tmp_path / "t5x"), "t5x", config)
    convert(str(tmp_path / "t5x"), str(tmp_path / "back"), "huggingface", config)
    loaded = transformers.T5ForConditionalGeneration.from_pretrained(tmp_path / "back").eval()
    for name, tensor in model.state_dict().items():
        assert torch.equal(loaded.state_dict()[name], tensor), name
    encoder, targets = ids
    for got, expected in zip(
        reference(loaded, encoder, targets), reference(model, encoder, targets), strict=True
    ):
        np.testing.assert_array_equal(got, expected)


def test_pickles_hold_the_same_weights(case, tmp_path):
    model, config, params, _ = case
    model.save_pretrained(tmp_path, safe_serialization=False)
    assert (tmp_path / "pytorch_model.bin").exists()
    again = restore(open_checkpoint(str(tmp_path)), config)
    assert jax.tree.all(jax.tree.map(jnp.array_equal, params, again))
