"""Figures of the first token: from the records' table, over the right examples, by definition."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from mlm_consistency.analysis.first_tokens import first_token_figures, first_tokens
from mlm_consistency.analysis.scores import Scores
from mlm_consistency.errors import UnknownNameError
from mlm_consistency.records.divergences import divergences_table

NAMES = ("baseline", "offset_1", "offset_2", "span_3_5_1")
K, N = len(NAMES), 40
FIRST, SECOND = np.triu_indices(K, 1)


def made(seed: int = 0):
    """(table, arrays, scores) of N examples; the last conditional does not fit every fifth."""
    rng = np.random.default_rng(seed)
    fits = np.ones((N, K), bool)
    fits[::5, -1] = False
    both = fits[:, FIRST] & fits[:, SECOND]
    arrays = SimpleNamespace(
        js=np.where(both, rng.random((N, len(FIRST))) * 0.69, np.nan).astype(np.float32),
        tv=np.where(both, rng.random((N, len(FIRST))), np.nan).astype(np.float32),
        entropy=np.where(fits, rng.random((N, K)) * 7, np.nan).astype(np.float32),
        top=np.where(fits, rng.integers(0, 3, (N, K)), -1).astype(np.int32),
    )
    examples = [
        SimpleNamespace(
            index=i,
            id=f"e{i}",
            masked=[SimpleNamespace(**({} if f else {"reason": "short"})) for f in fits[i]],
        )
        for i in range(N)
    ]
    shard = SimpleNamespace(task="t", shard=0, examples=examples, divergences=arrays)
    scores = Scores.from_arrays(
        rng.normal(size=(N, K, 3)),
        NAMES,
        labels=rng.integers(3, size=N),
        applicable=fits,
        example_ids=[f"e{i}" for i in range(N)],
    )
    return divergences_table(shard, NAMES), arrays, scores, fits


def test_the_table_comes_back_as_arrays_in_the_tasks_order():
    table, arrays, _, fits = made()
    pairs = len(FIRST)
    shuffled = np.concatenate([np.arange(pairs) + pairs * i for i in range(N - 1, -1, -1)])
    found = first_tokens(table.take(shuffled), NAMES)
    assert found.example_ids.tolist() == [f"e{i}" for i in range(N)]
    np.testing.assert_array_equal(found.js[:, FIRST, SECOND].astype(np.float32), arrays.js)
    np.testing.assert_array_equal(found.js, found.js.transpose(0, 2, 1))
    np.testing.assert_array_equal(found.tv[:, SECOND, FIRST].astype(np.float32), arrays.tv)
    np.testing.assert_array_equal(found.entropy.astype(np.float32), arrays.entropy)
    np.testing.assert_array_equal(found.top, arrays.top)
    assert (found.top[~fits] == -1).all()
    assert np.isfinite(found.mean_js()).all(), "over the pairs that apply"


def test_figures_are_over_the_examples_to_which_all_apply():
    table, arrays, scores, fits = made()
    figures = first_token_figures(first_tokens(table, NAMES), scores, resamples=50)
    whole = fits.all(1)
    assert figures["n"] == whole.sum() == 32
    js, top = arrays.js[whole].astype(float), arrays.top[whole]
    assert figures["js"]["value"] == pytest.approx(js.mean())
    assert figures["tv"]["value"] == pytest.approx(arrays.tv[whole].astype(float).mean())
    assert figures["top1"]["value"] == pytest.approx((top[:, FIRST] != top[:, SECOND]).mean())
    assert figures["any_top1"]["value"] == pytest.approx((top != top[:, :1]).any(1).mean())
    assert list(figures["entropy"]) == list(NAMES)
    entropy = arrays.entropy[whole].astype(float).mean(0)
    assert figures["entropy"]["offset_2"]["value"] == pytest.approx(entropy[2])
    pair = figures["pairs"]["offset_1"]["span_3_5_1"]
    assert pair["js"] == pytest.approx(js[:, 4].mean())
    assert pair == figures["pairs"]["span_3_5_1"]["offset_1"]
    for name in ("js", "tv", "top1", "any_top1"):
        low, high = figures[name]["interval"]
        assert low <= figures[name]["value"] <= high


def test_parts_and_histogram_hold_each_example_once():
    table, arrays, scores, fits = made()
    figures = first_token_figures(first_tokens(table, NAMES), scores, resamples=50)
    parts, histogram = figures["parts"], figures["histogram"]
    assert parts["agree"]["n"] + parts["disagree"]["n"] == figures["n"]
    for name, part in parts.items():
        assert sum(histogram[name]) == part["n"]
    predictions = scores.complete()[0].predictions()
    differ = (predictions != predictions[:, :1]).any(1)
    mean = arrays.js[fits.all(1)].astype(float).mean(1)
    assert parts["disagree"]["js"]["value"] == pytest.approx(mean[differ].mean())
    assert histogram["edges"][0] == 0
    assert histogram["edges"][-1] == pytest.approx(mean.max())


def test_fewer_conditionals_and_unknown_ones():
    table, arrays, scores, _ = made()
    tokens = first_tokens(table, NAMES)
    names = ("baseline", "offset_2")
    figures = first_token_figures(tokens, scores.with_conditionals(names), resamples=50)
    assert figures["n"] == N
    assert figures["js"]["value"] == pytest.approx(arrays.js[:, 1].astype(float).mean())
    with pytest.raises(UnknownNameError, match="offset_2"):
        tokens.select(tokens.example_ids, ("baseline", "ofset_2"))


def test_conditionals_that_show_the_first_token_are_left_out():
    table, _, scores, _ = made()
    tokens = first_tokens(table, NAMES)
    shown = NAMES.index("offset_2")
    for square in (tokens.js, tokens.tv):
        square[:, shown] = square[:, :, shown] = np.nan
    tokens.entropy[:, shown] = np.nan
    figures = first_token_figures(tokens, scores, resamples=50)
    assert list(figures["pairs"]) == ["baseline", "offset_1", "span_3_5_1"]
    others = [k for k in range(K) if k != shown]
    rest = scores.with_conditionals([NAMES[k] for k in others])
    wanted = first_token_figures(first_tokens(table, NAMES), rest, resamples=50)
    assert figures["js"]["value"] == pytest.approx(wanted["js"]["value"])
    assert figures["n"] == wanted["n"]
    tokens.entropy[:, 1:] = np.nan
    assert first_token_figures(tokens, scores, resamples=50) == {}
