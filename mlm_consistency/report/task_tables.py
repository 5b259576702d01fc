"""The tables of one task, from its part of summary.json."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mlm_consistency.report import quantities as q
from mlm_consistency.report.comparisons import gain_of, level_of, pair_disagreement
from mlm_consistency.report.tables import (
    NOTHING,
    Cell,
    Column,
    Row,
    Table,
    count_cell,
    interval_cell,
    p_cell,
    points_cell,
    share_cell,
)

Summary = Mapping[str, Any]
# reduction -> how it is said
REDUCTIONS = {
    "max": "max (the paper’s)",
    "mean_log": "mean of logs",
    "mean_probability": "mean of probabilities",
    "log_sum_exp": "log-sum-exp",
    "vote": "vote",
    "normalized_max": "normalized max",
    "entropy_weighted": "entropy-weighted",
    "worst_case": "worst case (max-min)",
}


def reduction_name(reduction: str) -> str:
    """A reduction as tables and figures say it."""
    return REDUCTIONS.get(reduction, reduction.replace("_", " "))


def _interval_column(summary: Summary, key: str, unit: str = "%") -> Column:
    return Column(f"{key}_interval", f"{level_of(summary)} interval", unit)


def conditionals_table(task: str, summary: Summary) -> Table:
    """Accuracy of each conditional, its disagreement with the baseline, and its ties."""
    names = list(summary["conditionals"])
    baseline = names[0]
    lost = bool(summary["lost"]["examples"])
    columns = [
        Column("conditional", "Conditional", numeric=False),
        Column("n", "n", "examples"),
        Column("accuracy", "Accuracy", "%"),
        _interval_column(summary, "accuracy"),
        Column("p_value", "p", "vs. baseline"),
        Column("disagreement_with_baseline", "Differs from baseline", "%"),
        _interval_column(summary, "disagreement_with_baseline"),
        Column("ties", "Ties", "examples"),
    ]
    if lost:
        columns += [
            Column("n_applicable", "n", "where applicable"),
            Column("accuracy_applicable", "Accuracy", "% where applicable"),
        ]
    rows = []
    for name in names:
        entry = summary["conditionals"][name]
        cells = [
            Cell(name),
            count_cell(entry["n"]),
            share_cell(entry["accuracy"]),
            interval_cell(entry["interval"]),
        ]
        if name == baseline:
            cells += [NOTHING, NOTHING, NOTHING]
        else:
            differs, bounds = pair_disagreement(summary, baseline, name)
            cells += [p_cell(entry["p_value"]), share_cell(differs), interval_cell(bounds)]
        cells.append(count_cell(entry["ties"]))
        if lost:
            alone = entry["applicable"]
            cells += [count_cell(alone["n"]), share_cell(alone["accuracy"])]
        rows.append(Row(tuple(cells), "baseline" if name == baseline else ""))
    return Table(
        f"{task}-conditionals",
        "Accuracy of each conditional",
        tuple(columns),
        tuple(rows),
        "p: exact McNemar test against the baseline, not corrected for the number of conditionals. "
        "Ties: examples whose best score candidates share; the first of them is taken.",
    )


def ensembles_table(task: str, summary: Summary) -> Table:
    """Accuracy of each ensemble against the baseline on the same examples, and the bound."""
    rows = []
    for reduction, entry in summary["ensembles"].items():
        gain = gain_of(summary, reduction)
        rows.append(
            Row(
                (
                    Cell(reduction_name(reduction), reduction),
                    count_cell(entry["n"]),
                    share_cell(entry["accuracy"]),
                    interval_cell(entry["interval"]),
                    points_cell(gain.difference),
                    interval_cell(gain.interval),
                    Cell(
                        f"+{q.count(entry['gained'])} {q.MINUS}{q.count(entry['forfeited'])}",
                        entry["gained"] - entry["forfeited"],
                    ),
                    p_cell(entry["p_value"]),
                    p_cell(entry["p_value_holm"]),
                    count_cell(entry["ties"]),
                )
            )
        )
    oracle = summary["oracle"]
    rows.append(
        Row(
            (
                Cell("oracle: some conditional is right", "oracle"),
                count_cell(oracle["n"]),
                share_cell(oracle["accuracy"]),
                interval_cell(oracle["interval"]),
                *[NOTHING] * 6,
            ),
            "bound",
        )
    )
    columns = (
        Column("reduction", "Ensemble", numeric=False),
        Column("n", "n", "examples"),
        Column("accuracy", "Accuracy", "%"),
        _interval_column(summary, "accuracy"),
        Column("gain", "Against baseline", "points"),
        _interval_column(summary, "gain", "points"),
        Column("examples_gained_minus_forfeited", "Gained, forfeited", "examples"),
        Column("p_value", "p", "McNemar"),
        Column("p_value_holm", "p", "Holm"),
        Column("ties", "Ties", "examples"),
    )
    return Table(
        f"{task}-ensembles",
        f"Ensembles of the {q.number_word(len(summary['conditionals']))} conditionals",
        columns,
        tuple(rows),
        "p: exact McNemar test against the baseline on the same examples; beside it the same "
        "after Holm’s correction for the number of ensembles. No ensemble can pass the oracle.",
    )


def curve_table(task: str, summary: Summary) -> Table:
    """Accuracy and disagreement against the number of conditionals."""
    rows = tuple(
        Row(
            (
                Cell(str(entry["conditionals"]), entry["conditionals"]),
                Cell(q.count(entry["subsets"]) + ("" if entry["exhaustive"] else " drawn"),
                     entry["subsets"]),
                share_cell(entry["accuracy"]),
                interval_cell(entry["accuracy_interval"]),
                share_cell(entry["disagreement"]),
                interval_cell(entry["disagreement_interval"]),
            )
        )
        for entry in summary["curve"]
    )  # fmt: skip
    columns = (
        Column("conditionals", "Conditionals"),
        Column("subsets", "Subsets", "averaged"),
        Column("accuracy", f"Accuracy ({summary['curve_reduction']})", "%"),
        _interval_column(summary, "accuracy"),
        Column("disagreement", "Disagreement", "%"),
        _interval_column(summary, "disagreement"),
    )
    return Table(
        f"{task}-curve",
        "The curves as numbers",
        columns,
        rows,
        "Mean over the subsets that hold the baseline and have so many conditionals; "
        f"{q.plural(summary['common'], 'example')}.",
    )


def pairwise_table(task: str, summary: Summary) -> Table:
    """The matrix of pairwise disagreement as a table."""
    pairs = summary["pairwise_disagreement"]
    rows = tuple(
        Row((Cell(a), *(NOTHING if a == b else share_cell(pairs[a][b]) for b in pairs)))
        for a in pairs
    )
    columns = (
        Column("conditional", "Conditional", numeric=False),
        *(Column(name, name, "%") for name in pairs),
    )
    note = f"n = {q.count(summary['common'])} examples for every pair."
    return Table(f"{task}-pairwise", "Pairwise disagreement as numbers", columns, rows, note)


def subjects_table(task: str, summary: Summary) -> Table | None:
    """A row a subject, or None where the task has no subjects."""
    subjects = summary["subjects"]
    if not any(subjects):
        return None
    measures = (
        ("accuracy", "baseline_accuracy", "Baseline accuracy"),
        ("ensemble_max", "max_accuracy", "Max accuracy"),
        ("disagreement", "disagreement", "Disagreement"),
    )
    columns = [Column("subject", "Subject", numeric=False), Column("n", "n", "examples")]
    for _, key, label in measures:
        columns += [Column(key, label, "%"), _interval_column(summary, key)]
    rows = []
    for name, entry in subjects.items():
        cells = [Cell(name or "(none)"), count_cell(entry["n"])]
        for measure, _, _ in measures:
            cells += [
                share_cell(entry[measure]["value"]),
                interval_cell(entry[measure]["interval"]),
            ]
        rows.append(Row(tuple(cells)))
    note = (
        f"Exact binomial intervals, widened so that those of a column hold together at "
        f"{level_of(summary)}."
    )
    return Table(f"{task}-subjects", "By subject", tuple(columns), tuple(rows), note)
