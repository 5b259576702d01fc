"""write_bigrams_report: one page for the pairs of words of one model, or of several side by side.

Like a run's page it is one file that loads nothing; `page.render` makes both.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

from etils import epath

from mlm_consistency.analysis.bigrams import THRESHOLDS, read_pairs
from mlm_consistency.errors import RecordsError
from mlm_consistency.records import storage
from mlm_consistency.report import bigram_charts as charts
from mlm_consistency.report import bigram_tables as tables
from mlm_consistency.report import quantities as q
from mlm_consistency.report.bigram_pairs import worst_pairs
from mlm_consistency.report.page import render
from mlm_consistency.report.tables import Column, Table

SUMMARY, TABLES = "bigrams.json", "tables.json"
LEVEL = "95 %"
METHOD = (
    "Two words of a text are masked, and the model is asked for each of them given the other, "
    "p(a|b) and p(b|a), and for both with neither there. A model that held one joint distribution "
    "would say the same whichever word is filled in first.",
    "Order: d = log p(a) p(b|a) − log p(b) p(a|b) at the true words. Cross-ratio: D = L₀₀ − L₀₁ − "
    "L₁₀ + L₁₁ with L = log p(b|a) − log p(a|b), over two words at each position, the true one and "
    "the model’s own proposal; it needs no both-masked distribution. Both are 0 for conditionals "
    "of one joint distribution. Nats.",
    "Intervals are 95 % bootstrap intervals (BCa) over pairs. After Young, Chen and You, "
    "arXiv 2301.00068; ConTestS, arXiv 2409.19984; joints after Hennigen and Kim, "
    "arXiv 2305.15501.",
)


def is_bigrams_folder(folder: storage.PathLike) -> bool:
    """Whether `mlm-consistency bigrams` wrote into this folder."""
    return storage.exists(storage.join(folder, SUMMARY))


def read_bigrams(folder: storage.PathLike) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """(summary, cases): `bigrams.json` and `tables.json` of a folder.

    Raises:
      RecordsError: where one is missing or no JSON.
    """
    found = []
    for name in (SUMMARY, TABLES):
        path = storage.join(folder, name)
        if not storage.exists(path):
            raise RecordsError(
                f"{path} is not there: name the OUTPUT_DIR of a `mlm-consistency bigrams` run"
            )
        try:
            found.append(json.loads(epath.Path(path).read_text()))
        except json.JSONDecodeError as error:
            raise RecordsError(f"{path}: not JSON ({error})") from None
    return found[0], found[1]


def write_bigrams_report(
    folder: storage.PathLike, others: Sequence[storage.PathLike] = (), output: str | None = None
) -> os.PathLike[str]:
    """Writes report.html, whole or not at all, and returns its path.

    Args:
      folder: of a `mlm-consistency bigrams` run.
      others: more of them, to stand side by side.
      output: the page's path; `folder`/report.html by default.

    Raises:
      RecordsError: where a folder holds no such run.
      DataError: where its tables are of another origin.
    """
    entries = [read_bigrams(one) for one in (folder, *others)]
    path = output or storage.join(folder, "report.html")
    html = render("bigrams.html.j2", bigrams_view(entries), ("tables.js", "charts.js"))
    storage.publish(path, html.encode())
    return epath.Path(path)


def labels_of(summaries: Sequence[Mapping[str, Any]]) -> list[str]:
    """The models' names; with their texts, and then with numbers, where two are the same."""
    labels = [str(summary["model"]) for summary in summaries]
    if len(set(labels)) < len(labels):
        labels = [f"{name} on {one['text']}" for name, one in zip(labels, summaries, strict=True)]
    return [
        f"{label} ({labels[: k + 1].count(label)})" if labels.count(label) > 1 else label
        for k, label in enumerate(labels)
    ]


def bigrams_view(
    entries: Sequence[tuple[Mapping[str, Any], Sequence[Mapping[str, Any]]]],
) -> dict[str, Any]:
    """The whole page, except styles and scripts."""
    summaries = [summary for summary, _ in entries]
    labels = labels_of(summaries)
    specifications: dict[str, Any] = {}
    models = []
    for number, (label, (summary, cases)) in enumerate(zip(labels, entries, strict=True)):
        sections, drawn = _sections(f"model-{number + 1}", summary)
        specifications |= drawn
        models.append(
            {
                "name": label,
                "finding": finding(summary),
                "counts": counts(summary),
                "sections": sections,
                "worst": worst_pairs(cases, read_pairs(cases)),
            }
        )
    side_by_side = tables.models_table(list(zip(labels, summaries, strict=True)))
    if len(models) > 1:
        specifications["models"] = charts.group_chart(
            _group_rows(list(zip(labels, summaries, strict=True))), "model", LEVEL
        )
    return {
        "title": f"{', '.join(labels)}: two words at a time",
        "heading": f"Do the answers of {' and '.join(labels)} fit one joint distribution?",
        "warning": "",
        "facts": _facts(labels, summaries),
        "models": models,
        "side_by_side": side_by_side if len(models) > 1 else None,
        "models_chart": _figure("models", "Models side by side"),
        "specifications": specifications,
        "method": METHOD,
    }


def finding(summary: Mapping[str, Any]) -> str:
    """The sentence that says what was found."""
    order, cross = summary["order"], summary["cross_ratio"]
    if not order["n"]:
        return "No pair has a defined order test."
    text = (
        f"Which of two words is filled in first changes their joint probability by "
        f"{q.fixed(order['mean_abs'], 2)} nats on average ({LEVEL} interval "
        f"{q.fixed(order['interval'][0], 2)} to {q.fixed(order['interval'][1], 2)}, "
        f"{q.plural(order['n'], 'pair')}), and by more than 1 nat on "
        f"{q.percent(order['above_1'])} % of the pairs."
    )
    if cross["n"]:
        text += (
            f" No joint distribution has these conditionals: the cross-ratio test is off by "
            f"{q.fixed(cross['mean_abs'], 2)} nats on average ({q.fixed(cross['interval'][0], 2)} "
            f"to {q.fixed(cross['interval'][1], 2)})."
        )
    return text


def counts(summary: Mapping[str, Any]) -> str:
    """How many pairs, rows, and what was dropped why."""
    held = summary["counts"]
    dropped = {why: n for why, n in held["dropped"].items() if n}
    text = (
        f"{q.plural(held['pairs'], 'pair')} of {q.plural(held['lines'], 'line')} of "
        f"{summary['text']}, {q.plural(held['forward_rows'], 'forward row')}."
    )
    if dropped:
        said = "; ".join(f"{why} {q.count(n)}" for why, n in dropped.items())
        text += f" Dropped lines and pairs of tokens: {said}."
    return text


def _facts(labels: Sequence[str], summaries: Sequence[Mapping[str, Any]]) -> list[tuple[str, str]]:
    texts = dict.fromkeys(str(summary["text"]) for summary in summaries)
    pairs = [q.count(summary["counts"]["pairs"]) for summary in summaries]
    return [
        ("Models" if len(labels) > 1 else "Model", ", ".join(labels)),
        ("Text", ", ".join(texts)),
        ("Pairs", ", ".join(pairs)),
    ]


def _figure(name: str, caption: str, note: str = "") -> dict[str, str]:
    spoken = f"{caption}. The same numbers stand in the tables of this section."
    return {"name": name, "caption": caption, "note": note, "spoken": spoken}


def _group_rows(groups: Sequence[tuple[str, Mapping[str, Any]]]) -> list[dict[str, Any]]:
    keys = zip(("order", "cross_ratio"), charts.QUANTITIES, strict=True)
    return [
        {
            "group": label, "quantity": quantity, "mean": group[key]["mean_abs"],
            "low": group[key]["interval"][0], "high": group[key]["interval"][1],
            "n": group[key]["n"],
        }
        for key, quantity in keys
        for label, group in groups
        if group[key]["n"]
    ]  # fmt: skip


def _sections(
    stem: str, summary: Mapping[str, Any]
) -> tuple[list[dict[str, Any]], dict[str, dict[str, Any]]]:
    limits = ", ".join(f"{limit:g}" for limit in THRESHOLDS)
    dashed = f"Dashed: {limits} nats."
    distances = [(str(n), group) for n, group in summary["by_distance"].items()]
    quartiles = [(tables.quartile_label(part), part) for part in summary["by_entropy"]]
    drawn = {
        f"{stem}-order": charts.threshold_histogram(
            summary["order"]["histogram"], THRESHOLDS, "order |d| (nats)", 0
        ),
        f"{stem}-cross-ratio": charts.threshold_histogram(
            summary["cross_ratio"]["histogram"], THRESHOLDS, "cross-ratio |D| (nats)", 1
        ),
        f"{stem}-distance": charts.group_chart(_group_rows(distances), "distance (tokens)", LEVEL),
        f"{stem}-entropy": charts.group_chart(
            _group_rows(quartiles), "entropy of both positions (nats)", LEVEL
        ),
    }

    def section(title: str, shown: list[dict[str, str]], *of_it: Table) -> dict[str, Any]:
        return {"title": title, "text": "", "charts": shown, "tables": of_it}

    made = [
        section(
            "How inconsistent",
            [
                _figure(f"{stem}-order", "Order: which word is filled in first", dashed),
                _figure(f"{stem}-cross-ratio", "Cross-ratio: p(a|b) against p(b|a)", dashed),
            ],
            tables.inconsistency_table(stem, summary),
        ),
        section(
            "By distance and by entropy",
            [
                _figure(f"{stem}-distance", "By tokens from the first word to the second"),
                _figure(f"{stem}-entropy", "By quartile of the model’s uncertainty"),
            ],
            tables.groups_table(
                f"{stem}-distance", "By distance", Column("distance", "Distance", "tokens"),
                distances,
            ),
            tables.groups_table(
                f"{stem}-entropy", "By entropy of both positions, quartiles",
                Column("entropy", "Entropy", "nats", numeric=False), quartiles,
            ),
            tables.contests_table(stem, summary),
        ),
        section("Coherent joints compared", [], tables.joints_table(stem, summary)),
    ]  # fmt: skip
    preferences = tables.preferences_table(stem, summary)
    if preferences.rows:
        made.append(section("Preferences", [], preferences))
    return made, drawn
