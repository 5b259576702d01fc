"""`bigrams` from the command's arguments to its files, with a model of either family."""

from __future__ import annotations

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mlm_consistency.analysis.diagnose import diagnose
from mlm_consistency.checkpoints.bert_weights import save_bert
from mlm_consistency.cli.bigrams import BigramConfig, run, text_file
from mlm_consistency.errors import ConfigError
from mlm_consistency.models.bert import abstract_parameters
from mlm_consistency.models.bert_config import BertConfig

TEXT = "the cat sat on a mat\na dog ran over the hill\nthe hill sat under a cloud\n"


@pytest.fixture
def bert_folder(tmp_path):
    """A random BERT of 20 words, as an Orbax folder with its vocab.txt beside."""
    words = sorted(set(TEXT.split()))
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words]
    config = BertConfig(
        "random", vocab_size=len(pieces), d_model=8, num_heads=2, mlp_dim=8, layers=1,
        max_positions=16, vocab_multiple=8,
    )  # fmt: skip
    generator = np.random.default_rng(0)
    params = jax.tree.map(
        lambda leaf: jnp.asarray(generator.normal(size=leaf.shape), leaf.dtype),
        abstract_parameters(config),
    )
    save_bert(params, config, str(tmp_path / "bert"))
    (tmp_path / "bert" / "vocab.txt").write_text("\n".join(pieces) + "\n")
    return tmp_path / "bert"


def test_a_bert_of_three_words_a_position(bert_folder, tmp_path, capsys):
    (tmp_path / "text.txt").write_text(TEXT)
    arguments = {
        "TEXT_FILE": tmp_path / "text.txt",
        "CHECKPOINT_PATH": bert_folder,
        "VOCABULARY": bert_folder / "vocab.txt",
        "OUTPUT_DIR": tmp_path / "out",
        "bigrams.words": 3,
        "bigrams.proposals": 8,
        "pair_probes.pairs_per_line": 2,
    }
    assert run([f"--gin.{name}={value}" for name, value in arguments.items()]) == 0
    cases = json.loads((tmp_path / "out" / "tables.json").read_text())
    summary = json.loads((tmp_path / "out" / "bigrams.json").read_text())
    assert summary["counts"]["pairs"] == len(cases) == 6
    assert summary["counts"]["forward_rows"] == 6 * (1 + 3 + 3 + 1)
    results = diagnose(cases)
    largest = [result["cross_ratio"]["max_abs"] for result in results]
    assert summary["cross_ratio"]["mean_abs"] == pytest.approx(np.mean(largest), rel=1e-4)
    gold = [result["order_log_ratio"][0][0] for result in results]
    assert summary["order"]["mean_abs"] == pytest.approx(np.mean(np.abs(gold)), rel=1e-4)
    assert cases[0]["text"] == TEXT.split("\n")[0]
    for one in cases:
        shown = [one["text"][start:stop] for start, stop in one["spans"]]
        assert shown == one["words"]
    assert set(summary["preferences"]) == {"bigram"}
    assert "random" in (tmp_path / "out" / "report.html").read_text()
    assert "random: 6 pairs of 3 lines, 48 forward rows" in capsys.readouterr().out


def test_the_shipped_text_and_model(tmp_path):
    arguments = [
        "--gin_file=gin/runs/bigrams_tiny.gin",
        f"--gin.OUTPUT_DIR={tmp_path / 'out'}",
        "--gin.pair_probes.max_probes=4",
        "--gin.ngram_probes.max_probes=6",
    ]
    assert run(arguments) == 0
    summary = json.loads((tmp_path / "out" / "bigrams.json").read_text())
    pairs, ngram = summary["counts"]["pairs"], summary["preferences"]["ngram"]
    assert summary["counts"]["forward_rows"] == 4 * 2 + 2 * 6 * pairs + 2 * ngram["n"]
    assert (ngram["short"], ngram["long"]) == (5, 10)
    assert ngram["n"] + sum(ngram["dropped"].values()) == ngram["lines"] == 6
    for kind, count in (("bigram", pairs), ("ngram", ngram["n"])):
        ways = summary["preferences"][kind]
        closing = ways["with_closing_sentinel"], ways["without_closing_sentinel"]
        assert [way["n"] for way in closing] == [count, count]
        assert closing[0]["mean"] != closing[1]["mean"]
    cases = json.loads((tmp_path / "out" / "tables.json").read_text())
    assert {"joint_ab", "joint_ba", "a_masked", "b_masked"} <= set(cases[0])
    assert len(text_file("stories").read_text().splitlines()) == 300


@pytest.mark.real_data
def test_sentences_of_simple_wikipedia(data_dir, tmp_path):
    """The run of gin/runs/bigrams_wikipedia_tiny.gin on its first few sentences."""
    arguments = [
        "--gin_file=gin/runs/bigrams_wikipedia_tiny.gin",
        f"--gin.TEXT_FILE={data_dir / 'text' / 'eng-simple_wikipedia_2021_10K-sentences.txt'}",
        f"--gin.OUTPUT_DIR={tmp_path / 'out'}",
        "--gin.pair_probes.max_probes=12",
        "--gin.bigrams.preferences=False",
    ]
    assert run(arguments) == 0
    summary = json.loads((tmp_path / "out" / "bigrams.json").read_text())
    assert 0 < summary["counts"]["pairs"] <= 12
    assert summary["counts"]["lines"] >= 12
    cases = json.loads((tmp_path / "out" / "tables.json").read_text())
    assert not any("\t" in case["text"] for case in cases), "the number is not of the text"
    assert summary["order"]["mean_abs"] > 0
    assert (tmp_path / "out" / "report.html").exists()


def test_impossible_settings_are_refused(tmp_path):
    with pytest.raises(ConfigError, match="2 <= words <= proposals"):
        BigramConfig(words=1)
    with pytest.raises(ConfigError, match="TEXT_FILE is not set, and bigrams needs it"):
        run(["--gin.VOCABULARY=tiny", f"--gin.OUTPUT_DIR={tmp_path}"])
