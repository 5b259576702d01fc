"""The headline is computed and hedged."""

import copy

import pytest

from mlm_consistency.report.comparisons import gain_of, pair_disagreement
from mlm_consistency.report.findings import counts, finding


def of_counts(summary, gained, forfeited, n):
    """The summary of a task whose max gains and forfeits so many of n examples."""
    from mlm_consistency.analysis.statistics import binomial_interval, mcnemar

    task = copy.deepcopy(summary["tasks"]["stories_choice"])
    first = [True] * forfeited + [False] * (n - forfeited)
    second = [False] * forfeited + [True] * gained + [False] * (n - forfeited - gained)
    task["ensembles"]["max"] = {
        "accuracy": 0.5 + (gained - forfeited) / n,
        "interval": list(binomial_interval(n // 2, n)),
        "p_value": mcnemar(first, second),
        "gained": gained,
        "forfeited": forfeited,
        "n": n,
    }
    next(iter(task["conditionals"].values()))["accuracy"] = 0.5
    return task


def test_says_both_accuracies_interval_and_p(summary):
    task = summary["tasks"]["stories_choice"]
    said = finding(task)
    assert said.startswith("The ten conditionals agree on ")
    for part in ("87 examples", "95 % interval", "max over them changes accuracy from", "p = "):
        assert part in said, said


def test_a_change_within_its_interval_is_called_chance(summary):
    said = finding(of_counts(summary, 22, 15, 400))
    assert "from 50.0 % to 51.8 % (+1.8 points" in said
    assert said.endswith("a change that chance alone could give at this number of examples.")


@pytest.mark.parametrize(("gained", "forfeited", "word"), [(60, 10, "gain"), (10, 60, "loss")])
def test_a_change_beyond_chance_has_a_direction(summary, gained, forfeited, word):
    assert f"a {word} beyond" in finding(of_counts(summary, gained, forfeited, 400))


def test_the_gain_is_the_difference_of_the_accuracies(summary):
    for task in summary["tasks"].values():
        for reduction in task["ensembles"]:
            gain = gain_of(task, reduction)
            assert gain.difference == pytest.approx(gain.ensemble - gain.baseline, abs=1e-12)
            assert gain.interval[0] <= gain.difference <= gain.interval[1]


def test_pairs_have_an_interval_around_them(summary):
    task = summary["tasks"]["stories_choice"]
    share, (low, high) = pair_disagreement(task, "baseline", "span_3_5_2")
    assert low < share < high


def test_counts_name_what_was_dropped_and_what_was_left_out(summary):
    said = counts(summary["tasks"]["stories_choice"])
    assert "90 examples" in said
    assert "12 dropped before scoring (12: a candidate is too long)" in said
    assert "cut at the left" not in said
    assert "87 used below" in said
    assert "3 left out" in said
    assert "span_3_5_2 3" in said
    assert "Mean Jensen-Shannon divergence between two conditionals: 0." in said
    cut = {**summary["tasks"]["stories_choice"], "truncated": 7}
    assert "7 with a prompt cut at the left" in counts(cut)


def test_a_single_conditional_makes_no_claim_of_agreement(summary):
    task = copy.deepcopy(summary["tasks"]["stories_choice"])
    task["conditionals"] = {"baseline": task["conditionals"]["baseline"]}
    said = finding(task)
    assert "agree" not in said
    assert "its accuracy is" in said
