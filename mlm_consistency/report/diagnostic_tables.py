"""The tables of a task's diagnostics, from its part of summary.json."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mlm_consistency.report import quantities as q
from mlm_consistency.report.comparisons import level_of
from mlm_consistency.report.diagnostic_series import SIGNALS
from mlm_consistency.report.tables import (
    NOTHING,
    Cell,
    Column,
    Row,
    Table,
    count_cell,
    interval_cell,
    number_cell,
    number_interval_cell,
    p_cell,
    points_cell,
    share_cell,
)
from mlm_consistency.report.task_tables import reduction_name

Summary = Mapping[str, Any]
FITTED = {
    "calibrated": "calibrated (a temperature each)",
    "learned_weights": "learned weights",
    "greedy": "chosen greedily",
    "divergent": "chosen for being different",
}


def first_tokens_table(task: str, summary: Summary) -> Table:
    """Entropy of each conditional, and how far it is from the others on average."""
    figures, level = summary["first_tokens"], level_of(summary)
    rows = []
    for name, others in figures["pairs"].items():
        apart = [pair for other, pair in others.items() if other != name]
        entropy = figures["entropy"][name]
        cells = [Cell(name), number_cell(entropy["value"])]
        cells.append(number_interval_cell(entropy["interval"]))
        cells += [
            number_cell(sum(pair["js"] for pair in apart) / len(apart)),
            number_cell(sum(pair["tv"] for pair in apart) / len(apart)),
            share_cell(sum(pair["top1"] for pair in apart) / len(apart)),
        ]
        rows.append(Row(tuple(cells)))
    columns = (
        Column("conditional", "Conditional", numeric=False),
        Column("entropy", "Entropy", "nats"),
        Column("entropy_interval", f"{level} interval", "nats"),
        Column("js", "Divergence", "nats, from the others"),
        Column("tv", "Total variation", "from the others"),
        Column("top1", "Another top token", "% of the others"),
    )
    note = f"n = {q.count(figures['n'])} examples; means over examples and the other conditionals."
    return Table(
        f"{task}-first-tokens", "Each conditional’s first token", columns, tuple(rows), note
    )


def gains_table(task: str, summary: Summary) -> Table:
    """Fitted ensembles beside the paper's, with what they cost."""
    rows = []
    for gain in summary["ensemble_gains"]:
        if gain["kind"] == "fixed" and gain["name"] != "max":
            continue  # they stand in the table of ensembles
        names = {"baseline": "baseline", "oracle": "oracle: some conditional is right"}
        name = names.get(gain["name"]) or FITTED.get(gain["name"]) or reduction_name(gain["name"])
        first = gain["kind"] == "baseline"
        per_pass = gain["gain_per_pass"]
        cells = (
            Cell(name, gain["name"]),
            number_cell(gain["passes"], 1),
            share_cell(gain["accuracy"]),
            interval_cell(gain["interval"]),
            NOTHING if first else points_cell(gain["gain"]),
            NOTHING if first else interval_cell(gain["gain_interval"]),
            NOTHING if per_pass is None else Cell(q.points(per_pass, 2), round(100 * per_pass, 6)),
            *(
                NOTHING if gain[key] is None else p_cell(gain[key])
                for key in ("p_baseline_holm", "p_max_holm")
            ),
        )
        rows.append(Row(cells, {"baseline": "baseline", "bound": "bound"}.get(gain["kind"], "")))
    level = level_of(summary)
    columns = (
        Column("ensemble", "Ensemble", numeric=False),
        Column("passes", "Passes", "an example"),
        Column("accuracy", "Accuracy", "%"),
        Column("accuracy_interval", f"{level} interval", "%"),
        Column("gain", "Against baseline", "points"),
        Column("gain_interval", f"{level} interval", "points"),
        Column("gain_per_pass", "Per further pass", "points"),
        Column("p_baseline_holm", "p, baseline", "Holm"),
        Column("p_max_holm", "p, max", "Holm"),
    )
    n = summary["ensemble_gains"][0]["n"]
    note = (
        f"n = {q.count(n)} examples. Fitted ensembles are cross-fitted: no example’s own label is "
        "used for it. Passes: forward passes an example, the mean over folds. p: exact McNemar "
        "against the baseline and against max, adjusted over all ensembles."
    )
    return Table(f"{task}-gains", "Fitted ensembles and their cost", columns, tuple(rows), note)


def confidence_table(task: str, summary: Summary) -> Table:
    """AURC and calibration error of each confidence."""
    rows = []
    for name, signal in summary["confidence"]["signals"].items():
        rows.append(
            Row(
                (
                    Cell(SIGNALS[name], name),
                    share_cell(signal["accuracy"]),
                    number_cell(signal["aurc"]["value"]),
                    number_interval_cell(signal["aurc"]["interval"]),
                    number_cell(signal["ece"]["value"]),
                    number_interval_cell(signal["ece"]["interval"]),
                )
            )
        )
    level = level_of(summary)
    columns = (
        Column("signal", "Confidence", numeric=False),
        Column("accuracy", "Accuracy", "% of all"),
        Column("aurc", "AURC", "less is better"),
        Column("aurc_interval", f"{level} interval"),
        Column("ece", "Calibration error", "ECE, 10 bins"),
        Column("ece_interval", f"{level} interval"),
    )
    note = (
        "AURC: mean error rate among the answers at least as confident, over all answers. ECE: "
        "mean distance of accuracy and confidence over ten bins; biased upwards for few examples."
    )
    return Table(f"{task}-confidence", "Confidences compared", columns, tuple(rows), note)


def dissent_table(task: str, summary: Summary) -> Table:
    """How often each conditional alone contradicts all the others, and who is right then."""
    rows = [
        Row(
            (
                Cell(name),
                count_cell(entry["alone"]),
                share_cell(entry["share"]),
                interval_cell(entry["interval"]),
                count_cell(entry["right"]),
                count_cell(entry["others_right"]),
            )
        )
        for name, entry in summary["lone_dissent"].items()
    ]
    columns = (
        Column("conditional", "Conditional", numeric=False),
        Column("alone", "Alone", "examples"),
        Column("share", "Share", "%"),
        Column("share_interval", f"{level_of(summary)} interval", "%"),
        Column("right", "It is right", "examples"),
        Column("others_right", "They are right", "examples"),
    )
    note = (
        "Alone: all others give one answer and this conditional another. Intervals hold together."
    )
    return Table(f"{task}-dissent", "One against all others", columns, tuple(rows), note)


def clusters_table(task: str, summary: Summary) -> Table:
    """The tree of the conditionals, cluster by cluster."""
    rows = [
        Row(
            (
                Cell(", ".join(merge["members"])),
                count_cell(len(merge["members"])),
                share_cell(merge["distance"]),
                share_cell(merge["support"]),
            )
        )
        for merge in summary["clusters"]["merges"]
    ]
    columns = (
        Column("members", "Cluster", numeric=False),
        Column("size", "Size"),
        Column("distance", "Joined at", "% disagreement"),
        Column("support", "Support", "% of resamples"),
    )
    note = (
        "Average linkage of pairwise disagreement. Support: the share of bootstrap resamples in "
        "which the same conditionals form a cluster."
    )
    return Table(f"{task}-clusters", "Which conditionals go together", columns, tuple(rows), note)


def bias_table(task: str, summary: Summary) -> Table:
    """For each conditional, how much more often it prefers a trait than right answers have it."""
    traits = summary["bias"]
    columns = [Column("conditional", "Conditional", numeric=False)]
    for trait in traits:
        unit = "tokens" if trait == "tokens" else "points"
        label = {"tokens": "Length", "frequent": "Most offered"}.get(trait, trait.capitalize())
        columns += [
            Column(trait, label, unit),
            Column(f"{trait}_interval", f"{level_of(summary)} interval", unit),
        ]
    rows = []
    for name in summary["conditionals"]:
        cells = [Cell(name)]
        for trait, report in traits.items():
            entry = report["conditionals"][name]
            if trait == "tokens":
                cells += [number_cell(entry["bias"], 2), number_interval_cell(entry["interval"], 2)]
            else:
                cells += [points_cell(entry["bias"]), interval_cell(entry["interval"])]
        rows.append(Row(tuple(cells)))
    note = (
        "The share of predictions that have the trait minus the share of right answers that have "
        "it; 0 is unbiased. Intervals of a column hold together (Bonferroni)."
    )
    return Table(
        f"{task}-bias", "Preference for a kind of candidate", tuple(columns), tuple(rows), note
    )


def length_table(task: str, summary: Summary, key: str, caption: str) -> Table:
    """Accuracy and disagreement by length; `key` is that of the break-down."""
    rows = []
    for name, entry in summary["breakdown"][key].items():
        ends = dict.fromkeys(part.lstrip("0") or "0" for part in name.split("-"))
        cells = [Cell("–".join(ends), name)]
        cells.append(count_cell(entry["n"]))
        for measure in ("accuracy", "ensemble_max", "disagreement"):
            cells += [
                share_cell(entry[measure]["value"]),
                interval_cell(entry[measure]["interval"]),
            ]
        rows.append(Row(tuple(cells)))
    level = level_of(summary)
    columns = [Column("tokens", "Tokens", numeric=False), Column("n", "n", "examples")]
    for key_, label in (
        ("baseline_accuracy", "Baseline accuracy"),
        ("max_accuracy", "Max accuracy"),
        ("disagreement", "Disagreement"),
    ):
        columns += [Column(key_, label, "%"), Column(f"{key_}_interval", f"{level} interval", "%")]
    note = f"Exact binomial intervals, widened so that those of a column hold together at {level}."
    return Table(f"{task}-{key.replace('_', '-')}", caption, tuple(columns), tuple(rows), note)
