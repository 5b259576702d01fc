"""The tables of a bigrams page, from `bigrams.json`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mlm_consistency.report import quantities as q
from mlm_consistency.report.tables import (
    NOTHING,
    Cell,
    Column,
    Row,
    Table,
    count_cell,
    number_cell,
    number_interval_cell,
    p_cell,
    share_cell,
)

Summary = Mapping[str, Any]
JOINT_NAMES = {
    "conditionals": "the conditionals themselves",
    "naive": "naive (independent)",
    "order_mixture": "mixture of both orders",
    "mrf_local": "MRF, local",
    "hcb": "Hammersley-Clifford-Besag",
    "arnold_gokhale": "Arnold-Gokhale",
}
WAYS = {
    "joint_by_order": "first word first",
    "without_closing_sentinel": "closing sentinel not counted",
    "with_closing_sentinel": "closing sentinel counted",
}


def _number(value: float | None, digits: int = 3) -> Cell:
    return NOTHING if value is None else number_cell(value, digits)


def _range(bounds: Sequence[float] | None, digits: int = 3) -> Cell:
    return NOTHING if bounds is None else number_interval_cell((bounds[0], bounds[1]), digits)


def _share(value: float | None) -> Cell:
    return NOTHING if value is None else share_cell(value)


def threshold_keys(figures: Summary) -> list[str]:
    """The thresholds of the shares, as the summary writes them: "0.5", "1", "2"."""
    return [key.removeprefix("above_") for key in figures if key.startswith("above_")]


def _columns(thresholds: Sequence[str], prefix: str = "", label: str = "") -> list[Column]:
    return [
        Column(f"{prefix}mean", f"Mean {label}".strip(), "nats"),
        Column(f"{prefix}mean_interval", "95 % interval", "nats"),
        Column(f"{prefix}median", "Median", "nats"),
        *(Column(f"{prefix}above_{x}", f"Above {x}", "% of pairs") for x in thresholds),
    ]


def _figures(figures: Summary, thresholds: Sequence[str]) -> list[Cell]:
    return [
        _number(figures["mean_abs"]),
        _range(figures["interval"]),
        _number(figures["median_abs"]),
        *(_share(figures[f"above_{x}"]) for x in thresholds),
    ]


def inconsistency_table(name: str, summary: Summary) -> Table:
    """|d| and |D| over all pairs."""
    thresholds = threshold_keys(summary["order"])
    rows = tuple(
        Row((Cell(label), count_cell(summary[key]["n"]), *_figures(summary[key], thresholds)))
        for key, label in (("order", "order |d|"), ("cross_ratio", "cross-ratio |D|"))
    )
    columns = (
        Column("figure", "Figure", numeric=False),
        Column("n", "n", "pairs"),
        *_columns(thresholds),
    )
    relative = summary["order"]
    note = (
        "As the paper’s relative difference of the two joints, 2 tanh(|d|/2), between 0 and 2: "
        f"mean {q.fixed(relative['mean_relative'], 4)}, median "
        f"{q.fixed(relative['median_relative'], 4)}."
    )
    return Table(f"{name}-inconsistency", "Inconsistency of all pairs", columns, rows, note)


def groups_table(
    name: str, caption: str, head: Column, groups: Sequence[tuple[str, Summary]]
) -> Table:
    """|d| and |D| by group, a row a group; each is (label, {order, cross_ratio})."""
    thresholds = threshold_keys(groups[0][1]["order"])
    columns = [
        head,
        Column("n", "n", "pairs"),
        *_columns(thresholds, "order_", "|d|"),
        *_columns(thresholds, "cross_ratio_", "|D|"),
    ]
    rows = tuple(
        Row(
            (
                Cell(label),
                count_cell(group["order"]["n"]),
                *_figures(group["order"], thresholds),
                *_figures(group["cross_ratio"], thresholds),
            )
        )
        for label, group in groups
    )
    return Table(name, caption, tuple(columns), rows)


def contests_table(name: str, summary: Summary) -> Table:
    """ConTestS statistics of d, over all pairs and by entropy quartile."""
    contests = summary["contests"]
    parts = [("all pairs", contests["overall"])]
    parts += [(quartile_label(part), part["statistics"]) for part in contests["quartiles"]]
    rows = []
    for label, part in parts:
        test = part["test"]
        cells = [Cell(label), count_cell(part["n"]), _number(part["mean"])]
        cells += [_number(part["variance"]), _share(part["share_positive"])]
        cells += [
            _number(test["effect"]),
            NOTHING if test["p_value"] is None else p_cell(test["p_value"]),
        ]
        rows.append(Row(tuple(cells)))
    columns = (
        Column("part", "Entropy of both positions", "nats", numeric=False),
        Column("n", "n", "pairs"),
        Column("mean", "Mean d", "nats"),
        Column("variance", "Variance", "nats²"),
        Column("positive", "d above 0", "% of pairs"),
        Column("effect", "Effect", "rank-biserial"),
        Column("p", "p", "Wilcoxon"),
    )
    note = (
        "d above 0: the joint that fills in the first word first is the larger. The signed-rank "
        "test asks whether one order wins over the pairs (ConTestS)."
    )
    return Table(f"{name}-contests", "Which order is likelier", columns, tuple(rows), note)


def quartile_label(part: Summary) -> str:
    """ "3.1 to 5.9"."""
    return f"{q.fixed(part['low'], 2)} to {q.fixed(part['high'], 2)}"


def joints_table(name: str, summary: Summary) -> Table:
    """U-NLL and P-NLL of the coherent joints at the true words."""
    rows = []
    for key, figures in summary["joints"].items():
        cells = [Cell(JOINT_NAMES.get(key, key), key), count_cell(figures["u_nll"]["n"])]
        for measure in ("u_nll", "p_nll"):
            found = figures[measure]
            if found is None:
                cells += [NOTHING, NOTHING]
            else:
                cells += [_number(found["mean"], 4), _range(found["interval"], 4)]
        rows.append(Row(tuple(cells), "baseline" if key == "conditionals" else ""))
    columns = (
        Column("joint", "Joint", numeric=False),
        Column("n", "n", "pairs"),
        Column("u_nll", "U-NLL", "nats a word"),
        Column("u_nll_interval", "95 % interval", "nats"),
        Column("p_nll", "P-NLL", "nats a pair"),
        Column("p_nll_interval", "95 % interval", "nats"),
    )
    note = (
        "At the true words, all tables normalised over the words that were asked for. U-NLL: the "
        "joint’s own conditionals, −(log q(a|b) + log q(b|a))/2. P-NLL: −log q(a, b)."
    )
    return Table(f"{name}-joints", "Coherent joints", columns, tuple(rows), note)


def preferences_table(name: str, summary: Summary) -> Table:
    """Preferences asked in two ways: how far apart, and how often the sign turns."""
    rows = []
    for kind, ways in summary["preferences"].items():
        if kind == "ngram":
            what = f"last {ways['short']} words, {ways['short']} or {ways['long']} masked"
        else:
            what = "first word, both or one masked"
        for way, figures in ways.items():
            if way not in WAYS:
                continue
            cells = [Cell(what), Cell(WAYS[way]), count_cell(figures["n"])]
            cells += [number_cell(figures[key]) for key in ("mean", "median")]
            rows.append(Row((*cells, share_cell(figures["flips"]))))
    columns = (
        Column("what", "Preference", numeric=False),
        Column("way", "Asked", numeric=False),
        Column("n", "n"),
        Column("mean", "Mean |difference|", "nats"),
        Column("median", "Median", "nats"),
        Column("flips", "Signs differ", "%"),
    )
    note = (
        "How much the true words are preferred to the model’s own proposal, asked in two ways that "
        "one joint distribution would answer alike."
    )
    return Table(
        f"{name}-preferences", "The same preference, asked twice", columns, tuple(rows), note
    )


def models_table(entries: Sequence[tuple[str, Summary]]) -> Table:
    """Several models side by side, a row a folder."""
    groups = [(label, summary) for label, summary in entries]
    return groups_table(
        "models", "Models side by side", Column("model", "Model", numeric=False), groups
    )
