"""Ends of lines as probes: cut between words, punctuation left in place, every loss counted."""

from __future__ import annotations

import numpy as np
import pytest

from mlm_consistency.errors import ConfigError, DataError
from mlm_consistency.tasks.ngram_probes import NgramProbeConfig, choose_proposals, ngram_probes
from mlm_consistency.vocabularies import load_vocabulary

VOCABULARY = load_vocabulary("tiny")
LINE = "It was raining and the wind was blowing. In the end Paul is in the barn."


@pytest.fixture
def probes(tmp_path):
    lines = [LINE, "Too few words.", "The sky was grey and Tom went to the old ...", ""]
    path = tmp_path / "text.txt"
    path.write_text("\n".join(lines), encoding="utf-8")
    return ngram_probes(path, VOCABULARY, NgramProbeConfig(short=3, long=6))


def test_a_line_is_cut_between_words(probes):
    (probe,) = probes.probes
    assert probe.id == "text.txt:1"
    parts = (probe.context, probe.between, probe.last, probe.after)
    texts = [VOCABULARY.decode(part.tolist()) for part in parts]
    assert texts == [
        "It was raining and the wind was blowing. In the", "end Paul is", "in the barn", "."
    ]  # fmt: skip
    assert np.concatenate(parts).tolist() == VOCABULARY.encode(LINE)
    assert (probes.lines, probes.dropped) == (3, {"too few words": 1, "ends without a word": 1})


def test_proposals_have_as_many_words_and_are_not_the_truth(probes):
    beams = ["in the barn", "in the old barn", "at the mill", "in the mill"]
    ids = [np.array(VOCABULARY.encode(text)) for text in beams]
    chosen = choose_proposals(probes.probes, [ids], VOCABULARY, 3)
    assert chosen.kept == (0,)
    assert VOCABULARY.decode(chosen.ids[0].tolist()) == "at the mill"
    for offered, reason in (
        ([], "no proposal ends"), (ids[:1], "same words"), (ids[:2], "different length")
    ):  # fmt: skip
        chosen = choose_proposals(probes.probes, [offered], VOCABULARY, 3)
        assert (chosen.kept, chosen.dropped) == ((), {reason: 1})
    with pytest.raises(DataError, match="Got 0 for 1"):
        choose_proposals(probes.probes, [], VOCABULARY, 3)


@pytest.mark.parametrize("settings", [{"short": 5, "long": 5}, {"short": 0}, {"max_probes": 0}])
def test_impossible_settings_are_refused(settings):
    with pytest.raises(ConfigError, match="n-gram probes"):
        NgramProbeConfig(**settings)
