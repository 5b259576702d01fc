"""What was found, in one plain sentence a task, hedged by its interval; and what was counted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mlm_consistency.report import quantities as q
from mlm_consistency.report.comparisons import gain_of, level_of


def finding(summary: Mapping[str, Any], reduction: str = "max") -> str:
    """The headline of one task, computed from its part of summary.json.

    "The ten conditionals agree on 63.5 % of 400 examples (95 % interval 58.8 to 68.2); max over
    them changes accuracy from 71.2 % to 73.0 % (+1.8 points, 95 % interval −0.4 to 4.1, p = 0.12),
    a change that chance alone could give at this number of examples."
    """
    names, level = list(summary["conditionals"]), level_of(summary)
    if len(names) < 2:
        only = summary["conditionals"][names[0]]
        return (
            f"One conditional was asked: its accuracy is {q.percent(only['accuracy'])} % on "
            f"{q.plural(only['n'], 'example')} ({level} interval {q.interval(only['interval'])})."
        )
    disagreement = summary["disagreement"]
    low, high = disagreement["interval"]
    agree = (
        f"The {q.number_word(len(names))} conditionals agree on "
        f"{q.percent(1 - disagreement['value'])} % of {q.plural(disagreement['n'], 'example')} "
        f"({level} interval {q.interval((1 - high, 1 - low))})"
    )
    if reduction not in summary["ensembles"]:
        return agree + "."
    gain = gain_of(summary, reduction)
    if gain.beyond_chance:
        verdict = "a gain" if gain.difference > 0 else "a loss"
        verdict += " beyond what chance alone would give"
    else:
        verdict = "a change that chance alone could give at this number of examples"
    return (
        f"{agree}; {reduction} over them changes accuracy from {q.percent(gain.baseline)} % to "
        f"{q.percent(gain.ensemble)} % ({q.points(gain.difference)} points, {level} interval "
        f"{q.interval(gain.interval)}, {q.p_value(gain.p_value)}), {verdict}."
    )


def counts(summary: Mapping[str, Any]) -> str:
    """How many examples there are, what was dropped and why, and what no figure could use."""
    said = [f"{q.plural(summary['examples'], 'example')}"]
    dropped = {reason: n for reason, n in summary["dropped"].items() if n}
    if dropped:
        reasons = "; ".join(f"{q.count(n)}: {reason}" for reason, n in dropped.items())
        said.append(f"{q.count(sum(dropped.values()))} dropped before scoring ({reasons})")
    else:
        said.append("none dropped before scoring")
    if cut := summary.get("truncated"):
        said.append(f"{q.count(cut)} with a prompt cut at the left")
    lost = summary["lost"]
    if lost["examples"]:
        which = ", ".join(f"{name} {q.count(n)}" for name, n in lost["by_conditional"].items())
        said.append(
            f"{q.count(summary['common'])} used below, to which every conditional applies "
            f"({q.count(lost['examples'])} left out; not applicable: {which})"
        )
    if summary["without_right_candidate"]:
        said.append(f"{q.count(summary['without_right_candidate'])} have no right candidate")
    text = "; ".join(said) + f". Chance: {q.percent(summary['chance'])} %."
    apart = summary.get("mean_js_divergence")  # absent from the first summaries of schema 1
    if apart is None or len(summary["conditionals"]) < 2:
        return text
    low, high = (q.fixed(bound, 3) for bound in apart["interval"])
    return (
        f"{text} Mean Jensen-Shannon divergence between two conditionals: "
        f"{q.fixed(apart['value'], 3)} nats ({level_of(summary)} interval {low} to {high})."
    )
