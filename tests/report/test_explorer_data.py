"""The explorer's data are the records: answers, scores and masked prompts can be rebuilt."""

import numpy as np
import pytest

from mlm_consistency.analysis.scores import Scores
from mlm_consistency.conditionals import NotApplicable, get_conditional
from mlm_consistency.records import open_run
from mlm_consistency.report.explorer_data import examples_of_run, family_of, layout_entries


@pytest.fixture(scope="module")
def data(run_folder, summary) -> dict:
    """What the page holds of the first task."""
    part = summary["tasks"]["stories_choice"]
    return examples_of_run(open_run(run_folder), "stories_choice", part)


@pytest.fixture(scope="module")
def scores(run_folder) -> Scores:
    """The first task's scores."""
    return Scores.from_run(open_run(run_folder), "stories_choice")


def test_nothing_is_left_out(data, scores):
    assert len(data["ids"]) == len(scores) == 90
    assert data["ids"] == scores.example_ids.tolist()


def test_scores_are_the_records_to_a_thousandth_of_a_nat(data, scores):
    values = scores.values("mean")
    for i in (0, 1, 7, 89):
        shown = np.array([np.nan if v is None else v / 1000 for v in data["scores"][i]])
        expected = values[i, :, : len(data["candidates"][i])].ravel()
        np.testing.assert_allclose(shown, expected, atol=0.0005000001)


def test_answers_and_ensemble_are_the_analysis(data, scores, summary):
    assert data["answers"] == scores.predictions("mean").tolist()
    everywhere = scores.applicable.all(1)
    right = [
        choice in labels
        for choice, labels, common in zip(
            data["ensemble"], data["labels"], everywhere, strict=True
        )
        if common
    ]  # fmt: skip
    expected = summary["tasks"]["stories_choice"]["ensembles"]["max"]["accuracy"]
    assert np.mean(right) == pytest.approx(expected, abs=1e-12)


def test_what_does_not_apply_has_its_reason(data):
    i, k = 7, data["conditionals"].index("span_3_5_2")
    assert data["answers"][i][k] == -1
    reason = data["reason_texts"][data["reasons"][f"{i},{k}"]]
    n = len(data["pieces"][i][0])
    assert reason == get_conditional("span_3_5_2").layout(n).reason


@pytest.mark.parametrize("family", ["t5", "flan"])
@pytest.mark.parametrize("name", ["baseline", "offset_2", "span_3_5_2"])
@pytest.mark.parametrize("n", [8, 17, 40])
def test_masked_prompts_are_rebuilt_from_layouts(name, n, family):
    layout = get_conditional(name).layout(n, family)
    entries = layout_entries(name, n, family)
    if isinstance(layout, NotApplicable):
        assert entries is None
        return
    pieces = [f"▁{i}" for i in range(n)]

    def drawn(parts):
        shown = [[f"<extra_id_{p}>"] if isinstance(p, int) else pieces[slice(*p)] for p in parts]
        return [piece for part in shown for piece in part]

    assert [*drawn(entries[0]), "</s>"] == layout.encoder_pieces(pieces)
    assert drawn(entries[1]) == layout.prefix_pieces(pieces)


def test_prompts_travel_once(data):
    assert set(data["prompts"]) == {None}


def test_the_family_is_the_manifests(run_folder):
    manifest = open_run(run_folder).manifest
    assert family_of(manifest) == "t5"
    assert family_of(manifest.replace(settings={}, mode="NLG")) == "ul2"
    assert family_of(manifest.replace(settings={}, model={"family": "flan"})) == "flan"
