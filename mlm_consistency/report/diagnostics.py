"""The sections on a task's diagnostics, each only where its figures are there and say something."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mlm_consistency.report import charts, diagnostic_series, diagnostic_tables
from mlm_consistency.report import quantities as q
from mlm_consistency.report.comparisons import level_of

Summary = Mapping[str, Any]
Drawn = dict[str, dict[str, Any]]
# Where chance alone decides, another section only adds noise.
FEWEST = 10


def sections(stem: str, summary: Summary) -> tuple[list[dict[str, Any]], Drawn]:
    """The sections of a task and the specifications of their figures.

    Returns:
      ([{title, text, charts, tables}], name -> specification); tables are shown folded.
    """
    made: list[dict[str, Any]] = []
    drawn: Drawn = {}
    if len(summary["conditionals"]) < 2 or summary["common"] < FEWEST:
        return made, drawn
    for section in (_vocabulary, _gains, _confidence, _apart, _preferences):
        found, figures = section(stem, summary)
        if found:
            made.append(found)
            drawn |= figures
    return made, drawn


def _figure(name: str, caption: str, note: str = "") -> dict[str, str]:
    return {"name": name, "caption": caption, "note": note, "spoken": f"{caption}. {note}"}


def _with_interval(figure: Mapping[str, Any], level: str, digits: int = 3) -> str:
    low, high = (q.fixed(bound, digits) for bound in figure["interval"])
    return f"{q.fixed(figure['value'], digits)} ({level} interval {low} to {high})"


def _vocabulary(stem: str, summary: Summary) -> tuple[dict[str, Any] | None, Drawn]:
    figures, level = summary.get("first_tokens"), level_of(summary)
    if not figures or not figures["n"]:
        return None, {}
    names = list(figures["pairs"])
    any_top = figures["any_top1"]
    text = (
        "At the first token of the answer, over the whole vocabulary, two conditionals are "
        f"{_with_interval(figures['js'], level)} nats apart on average (Jensen-Shannon; 0 is "
        "agreement, 0.693 the most). Their likeliest tokens are not all the same on "
        f"{q.percent(any_top['value'])} % of {q.plural(figures['n'], 'example')} ({level} interval "
        f"{q.interval(any_top['interval'])})."
    )
    agree = figures["parts"]["agree"]
    if agree["n"] >= FEWEST:
        text += (
            f" Where all answers among the candidates agree ({q.plural(agree['n'], 'example')}), "
            f"the distance is still {_with_interval(agree['js'], level)} nats."
        )
    drawn = {
        f"{stem}-vocabulary-pairs": charts.pairwise_chart(
            diagnostic_series.vocabulary_pairs(summary), names, "divergence", "0.001 nats"
        ),
        f"{stem}-vocabulary": charts.histogram_chart(
            diagnostic_series.vocabulary_histogram(summary),
            "mean divergence of an example’s conditionals (nats)",
        ),
    }
    shown = [
        _figure(f"{stem}-vocabulary-pairs", "Divergence over the vocabulary (0.001 nats)"),
        _figure(f"{stem}-vocabulary", "Examples by divergence"),
    ]
    table = diagnostic_tables.first_tokens_table(stem, summary)
    return _section("Over the whole vocabulary", text, shown, table), drawn


def _gains(stem: str, summary: Summary) -> tuple[dict[str, Any] | None, Drawn]:
    gains = {gain["name"]: gain for gain in summary.get("ensemble_gains", ())}
    fitted = [gain for gain in gains.values() if gain["kind"] == "fitted"]
    if not fitted:
        return None, {}
    best = max(fitted, key=lambda gain: (gain["accuracy"], -gain["passes"]))
    p = best["p_baseline_holm"]
    name = diagnostic_tables.FITTED.get(best["name"], best["name"])
    text = (
        f"Of the ensembles that are fitted to right answers the best is “{name}”: "
        f"{q.percent(best['accuracy'])} % ({q.points(best['gain'])} points against the baseline, "
        f"{q.p_value(p)} after Holm’s correction) for {q.fixed(best['passes'], 1)} forward passes "
        f"an example. No choice among the conditionals’ answers can pass "
        f"{q.percent(gains['oracle']['accuracy'])} %."
    )
    table = diagnostic_tables.gains_table(stem, summary)
    return _section("What fitting gains, and what it costs", text, [], table), {}


def _confidence(stem: str, summary: Summary) -> tuple[dict[str, Any] | None, Drawn]:
    confidence = summary.get("confidence")
    if not confidence:
        return None, {}
    agree, differ = (confidence["parts"][part] for part in ("agree", "disagree"))
    if min(agree["n"], differ["n"]) < FEWEST:
        return None, {}

    def said(part: Mapping[str, Any]) -> str:
        right = part["ensemble"]
        return (
            f"{q.percent(right['accuracy'])} % right ({level_of(summary)} interval "
            f"{q.interval(right['interval'])}, {q.plural(part['n'], 'example')})"
        )

    text = (
        f"Where all conditionals agree, {confidence['reduction']} over them is {said(agree)}; "
        f"where they do not, {said(differ)}."
    )
    name = f"{stem}-selective"
    drawn = {name: charts.selective_chart(diagnostic_series.selective(summary))}
    shown = [_figure(name, "Accuracy of the most confident answers", "From ten answers on.")]
    table = diagnostic_tables.confidence_table(stem, summary)
    return _section("When to trust an answer", text, shown, table), drawn


def _apart(stem: str, summary: Summary) -> tuple[dict[str, Any] | None, Drawn]:
    merges = summary.get("clusters", {}).get("merges", ())
    if len(summary["conditionals"]) < 3 or not merges:
        return None, {}
    dissent = summary["lone_dissent"]
    name = max(dissent, key=lambda conditional: dissent[conditional]["alone"])
    entry, closest = dissent[name], merges[0]
    text = (
        f"Closest are {' and '.join(closest['members'])}, which differ on "
        f"{q.percent(closest['distance'])} % of the examples."
    )
    if entry["alone"]:
        text += (
            f" Most often alone against all others is {name}, on "
            f"{q.plural(entry['alone'], 'example')}: it is right on {q.count(entry['right'])} of "
            f"them, the others on {q.count(entry['others_right'])}."
        )
    tables = (
        diagnostic_tables.clusters_table(stem, summary),
        diagnostic_tables.dissent_table(stem, summary),
    )
    return _section("Which conditional stands apart", text, [], *tables), {}


def _preferences(stem: str, summary: Summary) -> tuple[dict[str, Any] | None, Drawn]:
    tables, text = [], ""
    if bias := summary.get("bias"):
        found = [
            (trait, name)
            for trait, report in bias.items()
            for name, entry in report["conditionals"].items()
            if entry["interval"][0] > 0 or entry["interval"][1] < 0
        ]
        kinds = {"tokens": "length", "frequent": "being offered most"}
        said = [
            f"{kinds.get(trait, 'the ' + trait)} ({sum(t == trait for t, _ in found)} of "
            f"{len(summary['conditionals'])} conditionals)"
            for trait in dict.fromkeys(trait for trait, _ in found)
        ]
        text = (
            "Beyond what right answers explain, candidates are preferred or shunned for "
            f"{'; for '.join(said)}."
            if said
            else "No conditional prefers a kind of candidate beyond what right answers explain."
        )
        tables.append(diagnostic_tables.bias_table(stem, summary))
    for key, caption in (
        ("prompt_length", "By tokens of the prompt"),
        ("candidate_length", "By tokens of the longest candidate"),
    ):
        if len(summary.get("breakdown", {}).get(key, ())) > 1:
            tables.append(diagnostic_tables.length_table(stem, summary, key, caption))
    return (_section("On which candidates and prompts", text, [], *tables) if tables else None), {}


def _section(title: str, text: str, figures: list[dict[str, str]], *tables: Any) -> dict[str, Any]:
    return {"title": title, "text": text, "charts": figures, "tables": tables}
