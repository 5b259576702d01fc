"""Our beam search against torch `transformers`, on equal random weights."""

from __future__ import annotations

import jax
import numpy as np
import pytest

from mlm_consistency.checkpoints.architecture import architecture
from mlm_consistency.checkpoints.checkpoint import open_checkpoint
from mlm_consistency.checkpoints.restore import restore
from mlm_consistency.scoring.beams import BeamConfig, SearchTokens, make_search
from mlm_consistency.scoring.mesh import MeshConfig, make_mesh

torch = pytest.importorskip("torch", reason="parity: needs torch (extra `parity`)")
transformers = pytest.importorskip("transformers", reason="parity: needs transformers")

pytestmark = pytest.mark.parity

VOCABULARY, X0, STOP = 14, 13, 12
WIDTH, STEPS = 5, 6
TOLERANCE = 1e-5


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(3)
    config = transformers.T5Config(
        vocab_size=VOCABULARY, d_model=32, d_kv=8, d_ff=48, num_layers=2, num_decoder_layers=2,
        num_heads=4, feed_forward_proj="gated-gelu", tie_word_embeddings=False, dropout_rate=0.0,
    )  # fmt: skip
    model = transformers.T5ForConditionalGeneration(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 1:
                parameter.uniform_(0.5, 1.5)
            elif parameter.shape == (32, 4):
                parameter.normal_(0.0, 1.0)
        model.lm_head.weight *= 0.3  # several words are likely, STOP among them
    return model


@pytest.mark.parametrize("length_penalty", [1.0, 0.0])
def test_the_beams_of_transformers(model, tmp_path, length_penalty):
    rng = np.random.default_rng(0)
    lengths = np.asarray([19, 7, 12, 3, 15, 10], np.int32)
    rows = len(lengths)
    encoder = np.zeros((rows, 19), np.int32)
    for row, length in enumerate(lengths):
        encoder[row, :length] = [*rng.integers(2, STOP, length - 2), X0, 1]
    prefix = torch.tensor([[0, X0]] * rows)
    with torch.no_grad():
        found = model.generate(
            input_ids=torch.tensor(encoder, dtype=torch.long),
            attention_mask=torch.tensor(encoder != 0),
            decoder_input_ids=prefix,
            num_beams=WIDTH,
            num_return_sequences=WIDTH,
            max_new_tokens=STEPS,
            do_sample=False,
            eos_token_id=STOP,
            pad_token_id=0,
            decoder_start_token_id=0,
            length_penalty=length_penalty,
            # Their other settings stop by a guess at what the ranking can still become.
            early_stopping="never",
            output_scores=True,
            return_dict_in_generate=True,
        )
    model.save_pretrained(tmp_path)
    checkpoint = open_checkpoint(str(tmp_path))
    config = architecture(checkpoint)
    mesh = make_mesh(MeshConfig(1, 1), jax.devices()[:1])
    beams = BeamConfig(width=WIDTH, max_tokens=STEPS, length_penalty=length_penalty)
    search = make_search(config, mesh, beams, SearchTokens(STOP, VOCABULARY))
    batch = {
        "encoder_tokens": encoder,
        "encoder_lengths": lengths,
        "prefix": np.tile(np.asarray([0, X0], np.int32), (rows, 1)),
    }
    ours = jax.tree.map(np.asarray, search(restore(checkpoint, config), batch))
    theirs = found.sequences[:, 2:].numpy().reshape(rows, WIDTH, -1)
    padded = np.zeros((rows, WIDTH, STEPS), int)
    padded[..., : theirs.shape[-1]] = theirs
    stopped = np.cumsum(padded == STOP, axis=-1) - (padded == STOP)
    padded[stopped > 0] = 0  # theirs are filled up with STOP where the padding id is 0
    assert np.array_equal(ours["tokens"], padded)
    scores = found.sequences_scores.numpy().reshape(rows, WIDTH)
    np.testing.assert_allclose(ours["score"], scores, atol=TOLERANCE)
    assert len(np.unique(ours["length"])) > 1, "some end early"
    assert (ours["length"] == STEPS).any(), "some are cut"
