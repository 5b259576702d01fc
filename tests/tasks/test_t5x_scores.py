"""T5X's scores become records, whole or not at all; on a sample that our own scores made."""

from __future__ import annotations

import inspect
import json
import re
from pathlib import Path

import numpy as np
import pytest
import t5x_sample

from mlm_consistency.analysis.scores import Scores
from mlm_consistency.cli.import_t5x import UNKNOWN
from mlm_consistency.cli.main import main
from mlm_consistency.errors import ConfigError, DataError
from mlm_consistency.records import open_run
from mlm_consistency.tasks.t5x_scores import read_scores
from mlm_consistency.vocabularies import load_vocabulary


@pytest.fixture(scope="module")
def sample():
    return [json.loads(line) for line in t5x_sample.SAMPLE.read_text("utf-8").splitlines()]


@pytest.fixture(scope="module")
def own():
    return t5x_sample.own_scores()


def written(rows, folder, name="scores.jsonl"):
    file = folder / name
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return str(file)


def refused(rows, folder, capsys, *flags) -> str:
    """What import-t5x says to rows that it refuses; it writes nothing."""
    out = folder / "run"
    assert main(["import-t5x", written(rows, folder), str(out), *flags]) == 2
    assert not out.exists()
    return capsys.readouterr().err


def test_the_sample_is_what_our_flat_rows_and_scores_give(sample, own):
    now = list(t5x_sample.lines(own))
    assert [line["inputs"] for line in now] == [line["inputs"] for line in sample]
    np.testing.assert_allclose(
        [line["score"] for line in now], [line["score"] for line in sample], atol=1e-4
    )


def test_scores_become_records_that_analysis_reads(sample, own, tmp_path, capsys):
    # In any order, and in the two files of two hosts.
    files = [written(sample[1::2], tmp_path, "0.jsonl"), written(sample[::2][::-1], tmp_path)]
    out = str(tmp_path / "run")
    assert main(["import-t5x", *files, out]) == 0
    assert "2 examples, 24 scores" in capsys.readouterr().out
    run = open_run(out)
    scores = Scores.from_run(run, "stories_choice")
    assert scores.conditionals == t5x_sample.CONDITIONALS
    np.testing.assert_allclose(scores.values("sum"), own, atol=1e-4, rtol=0)
    tokens = np.array([[len(c) for c in e.candidates] for e in t5x_sample.encoded()])
    np.testing.assert_allclose(scores.values("mean"), own / tokens[:, None], atol=1e-4, rtol=0)
    manifest = run.manifest
    assert manifest.settings["scored_by"] == "t5x.infer"
    assert "evenly" in manifest.settings["token_log_probs"]
    assert (manifest.checkpoint, manifest.mode, manifest.complete) == (UNKNOWN, "NLG", True)
    # Given again, it is the same run; with other scores it is another.
    assert main(["import-t5x", *files, out]) == 0
    sample[0]["score"], before = -1.0, sample[0]["score"]
    try:
        assert main(["import-t5x", written(sample, tmp_path), out]) == 2
    finally:
        sample[0]["score"] = before
    assert "scores_sha256" in capsys.readouterr().err


def test_missing_scores_are_named(sample, tmp_path, capsys):
    said = refused(sample[:-3], tmp_path, capsys)
    assert "3 of 24 scores are missing" in said
    assert "example 'choice_00001', conditional 'span_3_3_1', candidate 1" in said
    said = refused([row for row in sample if row["inputs"]["example"] != 0], tmp_path, capsys)
    assert "12 of 24" in said
    assert "and 7 more" in said


def test_a_line_cut_short_is_named(sample, tmp_path, capsys):
    file = written(sample, tmp_path)
    with open(file, "r+", encoding="utf-8") as stream:
        stream.truncate(len(t5x_sample.SAMPLE.read_text("utf-8")) - 40)
    assert main(["import-t5x", file, str(tmp_path / "run")]) == 2
    assert "line 24: not JSON" in capsys.readouterr().err


def changed(sample, **changes):
    first = {**sample[0], "inputs": {**sample[0]["inputs"], **changes}}
    return [first, *sample[1:]]


def test_rows_that_do_not_belong_are_refused(sample, tmp_path, capsys):
    assert "line 25: " in refused([*sample, sample[3]], tmp_path, capsys)
    extra = changed(sample, candidate=9.0)[0]
    assert "no example 0, conditional 0, candidate 9" in refused([*sample, extra], tmp_path, capsys)
    assert "example_id is 'x'" in refused(changed(sample, example_id="x"), tmp_path, capsys)
    tokens = [7, *sample[0]["inputs"]["targets"][1:]]
    assert "targets is [7" in refused(changed(sample, targets=tokens), tmp_path, capsys)
    assert "must be a whole number. Got 0.5" in refused(
        changed(sample, candidate=0.5), tmp_path, capsys
    )
    assert "'asked' is not what our flat tasks write" in refused(
        changed(sample, asked="{}"), tmp_path, capsys
    )
    predicted = [{"inputs": row["inputs"], "prediction": "a"} for row in sample]
    assert "no 'score'" in refused(predicted, tmp_path, capsys)


def test_a_score_that_is_not_finite_is_refused(sample, tmp_path, capsys):
    rows = [{**sample[0], "score": float("nan")}, *sample[1:]]
    assert main(["import-t5x", written(rows, tmp_path), str(tmp_path / "run")]) == 2
    assert "not finite" in capsys.readouterr().err


def test_another_vocabulary_is_refused(sample, tmp_path):
    asked = read_scores([t5x_sample.SAMPLE])["stories_choice"].asked
    with pytest.raises(DataError, match="the same number of added sentinels"):
        asked.examples(load_vocabulary("tiny", extra_ids=5))
    other = json.loads(sample[0]["inputs"]["asked"]) | {"vocabulary_digest": "0" * 64}
    rows = [{**r, "inputs": {**r["inputs"], "asked": json.dumps(other)}} for r in sample]
    from mlm_consistency.cli.import_t5x import run

    with pytest.raises(ConfigError, match="give --vocabulary=PATH"):
        run([written(rows, tmp_path), str(tmp_path / "run")])


def test_tasks_asked_differently_are_not_joined(sample, tmp_path, capsys):
    asked = json.loads(sample[0]["inputs"]["asked"]) | {"mode": "NLU"}
    rows = [
        {**r, "inputs": {**r["inputs"], "task": "other", "asked": json.dumps(asked)}}
        for r in sample
    ]
    said = refused([*sample, *rows], tmp_path, capsys)
    assert "different mode: 'NLG' and 'NLU'" in said


def test_the_task_that_gin_binds():
    seqio = pytest.importorskip("seqio")
    from mlm_consistency.tasks import t5x_tasks

    words = t5x_tasks.seqio_vocabulary("tiny")
    name = t5x_tasks.flat_task(
        "stories_choice", words, conditionals=t5x_sample.CONDITIONALS, mode="NLG", family="ul2",
        limit=2, label="sample",
    )  # fmt: skip
    assert name == "mlmc_sample_flat"
    try:
        task = seqio.get_mixture_or_task(name)
        assert task.output_features["inputs"].vocabulary == words
        dataset = task.get_dataset(split="test", shuffle=False)
        assert sum(1 for _ in dataset.as_numpy_iterator()) == 24
    finally:
        for form in (name, name.removesuffix("_flat")):
            seqio.TaskRegistry.remove(form)
    with pytest.raises(ConfigError, match="offset_-1 show tokens of the answer"):
        t5x_tasks.flat_task("stories_choice", words, conditionals="baseline,offset_-1")


def test_the_converter_is_made_as_t5x_makes_it():
    pytest.importorskip("seqio")
    from mlm_consistency.tasks.feature_converters import FlatFeatureConverter

    assert FlatFeatureConverter(pack=False).pack is False
    with pytest.raises(ConfigError, match="does not pack"):
        FlatFeatureConverter(pack=True)


GIN = Path(__file__).resolve().parents[2] / "gin" / "t5x"


def bound(text: str, name: str) -> dict[str, str]:
    """What a block `name:` of a gin file binds."""
    block = re.search(rf"^{re.escape(name)}:\n((?:  .*\n)+)", text, re.MULTILINE)
    assert block is not None
    return dict(re.findall(r"^  (\w+) = (.+)$", block[1], re.MULTILINE))


def test_the_gin_files_name_what_there_is():
    from mlm_consistency.tasks import feature_converters, t5x_tasks

    text = (GIN / "score.gin").read_text("utf-8")
    parameters = inspect.signature(t5x_tasks.flat_task).parameters
    assert set(bound(text, "t5x_tasks.flat_task")) == {
        name for name, p in parameters.items() if p.kind is not p.VAR_KEYWORD
    }
    assert "t5x_tasks.seqio_vocabulary.path" in text
    assert "path" in inspect.signature(t5x_tasks.seqio_vocabulary).parameters
    (converter,) = re.findall(r"@feature_converters\.(\w+)", text)
    assert hasattr(feature_converters, converter)
    macros = set(re.findall(r"^([A-Z_]+) = ", text, re.MULTILINE))
    stories = (GIN / "tiny_stories.gin").read_text("utf-8")
    assert set(re.findall(r"^([A-Z_]+) = ", stories, re.MULTILINE)) <= macros


def test_the_gin_file_of_the_shipped_model_is_its_architecture():
    from mlm_consistency.checkpoints.architecture import architecture
    from mlm_consistency.checkpoints.checkpoint import open_checkpoint

    model = architecture(open_checkpoint("tiny"))
    assert bound((GIN / "tiny.gin").read_text("utf-8"), "network.T5Config") == {
        "vocab_size": str(model.vocab_size),
        "dtype": '"float32"',
        "emb_dim": str(model.d_model),
        "num_heads": str(model.num_heads),
        "num_encoder_layers": str(model.encoder_layers),
        "num_decoder_layers": str(model.decoder_layers),
        "head_dim": str(model.head_dim),
        "mlp_dim": str(model.mlp_dim),
        "mlp_activations": '("silu", "linear")',
        "dropout_rate": "0.0",
        "logits_via_embedding": str(model.tied_embeddings),
    }
    assert model.mlp_activations == ("silu", "linear")
