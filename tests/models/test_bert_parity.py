"""Every kind of the BERT family against torch `transformers`, from their folders."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mlm_consistency.checkpoints.bert_weights import open_bert, restore_bert
from mlm_consistency.checkpoints.huggingface_bert import bert_config
from mlm_consistency.models.bert import Bert

os.environ.setdefault("USE_TF", "0")
torch = pytest.importorskip("torch", reason="parity: needs torch (extra `parity`)")
transformers = pytest.importorskip("transformers", reason="parity: needs transformers")

pytestmark = pytest.mark.parity

TOLERANCE = 1e-5
V = 61
SIZES = {
    "vocab_size": V,
    "hidden_size": 16,
    "num_attention_heads": 4,
    "intermediate_size": 36,
    "num_hidden_layers": 3,
}
DISTILBERT_SIZES = {"vocab_size": V, "dim": 16, "n_heads": 4, "hidden_dim": 36, "n_layers": 3}
# Kind -> (name of the model, of its configuration, its fields).
KINDS = {
    "bert": ("Bert", SIZES | {"max_position_embeddings": 24}),
    "bert_gelu_new": ("Bert", SIZES | {"max_position_embeddings": 24, "hidden_act": "gelu_new"}),
    "roberta": ("Roberta", SIZES | {"max_position_embeddings": 26, "type_vocab_size": 1}),
    "distilbert": ("DistilBert", DISTILBERT_SIZES | {"max_position_embeddings": 24}),
    "albert": ("Albert", SIZES | {"max_position_embeddings": 24, "embedding_size": 8}),
}


def random_model(kind: str):
    family, fields = KINDS[kind]
    torch.manual_seed(3)
    config = getattr(transformers, f"{family}Config")(**fields, initializer_range=0.5)
    model = getattr(transformers, f"{family}ForMaskedLM")(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 1:
                parameter.normal_(0.5, 0.4)
    return model


def theirs(model, tokens: np.ndarray, dtype: str = "float64") -> np.ndarray:
    """By default in float64, so that what differs is our error alone."""
    model = model.to(getattr(torch, dtype)).eval()
    ids = torch.tensor(tokens[None].astype(np.int64))
    with torch.no_grad():
        logits = model(input_ids=ids, attention_mask=torch.ones_like(ids)).logits
    return torch.log_softmax(logits.double(), dim=-1)[0].numpy()


def ours(config, params, texts: list[np.ndarray], length: int) -> list[np.ndarray]:
    """All texts in one packed row."""
    row = np.zeros((3, 1, length), np.int32)
    at = 0
    for segment, text in enumerate(texts, start=1):
        span = slice(at, at + len(text))
        row[:, 0, span] = text, np.full(len(text), segment), np.arange(len(text))
        at = span.stop
    logits = jax.jit(Bert(config).apply)({"params": params}, *map(jnp.asarray, row))
    # Normalised in float64 too: a log-probability of -20 has only half a tolerance of digits left.
    exact = np.asarray(logits, np.float64)[0]
    log_probs = exact - np.logaddexp.reduce(exact, axis=-1, keepdims=True)
    stops = np.cumsum([len(text) for text in texts])
    return [log_probs[stop - len(t) : stop] for t, stop in zip(texts, stops, strict=True)]


@pytest.mark.parametrize("kind", KINDS)
def test_log_probabilities_equal_those_of_transformers(kind, tmp_path):
    model = random_model(kind)
    model.save_pretrained(tmp_path)
    checkpoint = open_bert(str(tmp_path))
    config, params = bert_config(checkpoint), restore_bert(checkpoint)
    generator = np.random.default_rng(0)
    texts = [generator.integers(5, V, n) for n in (24, 7, 15)]
    for text, got in zip(texts, ours(config, params, texts, 48), strict=True):
        np.testing.assert_allclose(got, theirs(model, text), rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize("kind", ["bert", "roberta", "distilbert", "albert"])
def test_pickles_hold_the_same_weights(kind, tmp_path):
    """They hold copies too (the tied decoder, its bias), which safetensors leave out."""
    model = random_model(kind)
    model.save_pretrained(tmp_path / "safetensors")
    model.save_pretrained(tmp_path / "pickle", safe_serialization=False)
    first, second = (
        restore_bert(open_bert(str(tmp_path / form))) for form in ("safetensors", "pickle")
    )
    jax.tree.map(np.testing.assert_array_equal, first, second)


REACTION = (*"CC(=O)O.OCC", ">>", *"CC(=O)OCC")  # acetic acid and ethanol to their ester
PACKAGES = {
    "rxnfp": "models/transformers/bert_pretrained",
    "rxnmapper": "models/transformers/albert_heads_8_uspto_all_1310k",
}


@pytest.mark.skipif(
    os.environ.get("MLM_CONSISTENCY_PYPI_MODELS") != "1",
    reason="opt in: MLM_CONSISTENCY_PYPI_MODELS=1, with rxnfp and rxnmapper installed "
    "(`pip install --no-deps rxnfp rxnmapper` is enough)",
)
@pytest.mark.parametrize("package", PACKAGES)
def test_published_weights_from_a_package(package):
    """Trained on reaction SMILES: a BERT (rxnfp) and an ALBERT (rxnmapper)."""
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        pytest.skip(f"{package} is not installed")
    folder = Path(spec.origin).parent / PACKAGES[package]
    family = "Bert" if package == "rxnfp" else "Albert"
    config = getattr(transformers, f"{family}Config").from_pretrained(folder)
    model = getattr(transformers, f"{family}ForMaskedLM").from_pretrained(folder, config=config)
    checkpoint = open_bert(str(folder))
    params = restore_bert(checkpoint)
    pieces = (folder / "vocab.txt").read_text().split("\n")
    ids = [pieces.index(piece) for piece in ("[CLS]", *REACTION, "[SEP]")]
    mask = pieces.index("[MASK]")
    texts = []
    for position in (2, 5, 10, 14):
        texts.append(np.array(ids))
        texts[-1][position] = mask
    gold, error, their_error = [], 0.0, 0.0
    for text, got in zip(texts, ours(bert_config(checkpoint), params, texts, 96), strict=True):
        at = int(np.flatnonzero(text == mask)[0])
        expected = theirs(model, text)[at]
        np.testing.assert_allclose(got[at, ids[at]], expected[ids[at]], rtol=0, atol=TOLERANCE)
        assert got[at].argmax() == expected.argmax()
        gold.append(expected[ids[at]])
        error = max(error, np.abs(got[at] - expected).max())
        single = theirs(model, text, "float32")[at]
        their_error = max(their_error, np.abs(single - expected).max())
    # Of all 591 words, some at -25 nats, behind twelve layers in float32.
    print(f"{package}: largest error {error:.2e}, of transformers in float32 {their_error:.2e}")
    assert error <= max(TOLERANCE, 1.5 * their_error)
    assert np.mean(gold) > -3, "a trained model knows its chemistry (a uniform one has -6.4 nats)"
