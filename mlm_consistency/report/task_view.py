"""What the page shows, as plain data for its template: header, tasks, figures, examples."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mlm_consistency.records import Manifest, Run
from mlm_consistency.report import charts, diagnostics, series, task_tables
from mlm_consistency.report import quantities as q
from mlm_consistency.report.comparisons import level_of
from mlm_consistency.report.explorer_data import examples_of_run
from mlm_consistency.report.findings import counts, finding
from mlm_consistency.report.tables import Cell, Column, Row, Table

METHOD = (
    "Every conditional masks the prompt in another way and asks the model for the same "
    "distribution over the same candidates. A model that held one joint distribution would answer "
    "alike under all of them; what differs is inconsistency.",
    "A candidate’s score is the {value} of its tokens’ log-probabilities (nats). A conditional’s "
    "answer is the candidate with the best score, the first of equals. Disagreement is the share "
    "of examples on which the conditionals’ answers are not all the same. An ensemble combines the "
    "conditionals’ scores; max takes the best score of each candidate over the conditionals.",
    "Accuracies and disagreement are over the examples to which every conditional applies. "
    "Intervals are {level} bootstrap intervals (BCa) over examples. The curves average over the "
    "subsets of conditionals that hold the baseline. After Young, Chen and You, Inconsistencies "
    "in Masked Language Models, arXiv 2301.00068.",
)


def page_view(run: Run, summary: Mapping[str, Any]) -> dict[str, Any]:
    """The whole page, except styles and scripts."""
    manifest = run.manifest
    model = str(manifest.model.get("name", "model"))
    tasks, specifications, examples = [], {}, []
    for name, part in summary["tasks"].items():
        view, drawn = _task_view(name, part)
        tasks.append(view)
        specifications.update(drawn)
        examples.append(examples_of_run(run, name, part))
    return {
        "title": f"{model}: consistency of {', '.join(summary['tasks'])}",
        "heading": f"How consistently does {model} answer?",
        "warning": "" if run.complete and summary["complete"] else (
            "This run was not complete when it was analysed: the numbers below are of the shards "
            "that were written."
        ),
        "facts": _facts(manifest, summary),
        "tasks": tasks,
        "specifications": specifications,
        "examples": examples,
        "method": _method(summary),
        "provenance": _provenance(manifest),
    }  # fmt: skip


def _method(summary: Mapping[str, Any]) -> list[str]:
    parts = list(summary["tasks"].values())
    value = " or ".join(sorted({part["token_reduction"] for part in parts}))
    level = " or ".join(sorted({level_of(part) for part in parts}))
    return [text.format(value=value, level=level) for text in METHOD]


def _task_view(name: str, part: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """One task's text, tables and figures, and the figures' specifications by name."""
    names = list(part["conditionals"])
    stem = file_stem(name)
    accuracies = series.accuracies(part)
    level = level_of(part)
    drawn = {f"{stem}-accuracy": charts.accuracy_chart(accuracies, level)}
    figures = [
        _figure(stem, "accuracy", f"Accuracy, with {level} intervals", "Dashed: the baseline.")
    ]
    if len(names) > 1:
        drawn[f"{stem}-pairwise"] = charts.pairwise_chart(series.pairwise(part), names)
        drawn[f"{stem}-curve-accuracy"] = charts.curve_chart(
            series.curve(part, "accuracy"), "accuracy", 0
        )
        drawn[f"{stem}-curve-disagreement"] = charts.curve_chart(
            series.curve(part, "disagreement"), "disagreement", 1
        )
        figures += [
            _figure(stem, "pairwise", "Pairwise disagreement (%)"),
            _figure(
                stem, "curve-accuracy", f"Accuracy of {part['curve_reduction']} over n conditionals"
            ),
            _figure(stem, "curve-disagreement", "Disagreement among n conditionals"),
        ]
    more = [task_tables.curve_table(stem, part), task_tables.pairwise_table(stem, part)]
    subjects = task_tables.subjects_table(stem, part)
    more_sections, more_drawn = diagnostics.sections(stem, part)
    drawn |= more_drawn
    view = {
        "name": name,
        "finding": finding(part),
        "counts": counts(part),
        "conditionals": task_tables.conditionals_table(stem, part),
        "ensembles": task_tables.ensembles_table(stem, part) if len(names) > 1 else None,
        "charts": figures,
        "subjects": subjects,
        "sections": more_sections,
        "folded": more if len(names) > 1 else [],
    }
    return view, drawn


def file_stem(task: str) -> str:
    """A task's name as part of a file name."""
    return "".join(letter if letter.isalnum() or letter in "_-." else "_" for letter in task)


def _figure(stem: str, name: str, caption: str, note: str = "") -> dict[str, str]:
    spoken = f"{caption}. The same numbers stand in the tables of this section."
    return {"name": f"{stem}-{name}", "caption": caption, "note": note, "spoken": spoken}


def _facts(manifest: Manifest, summary: Mapping[str, Any]) -> list[tuple[str, str]]:
    tasks = summary["tasks"].items()
    dropped = sum(sum(part["dropped"].values()) for _, part in tasks)
    facts = [
        ("Model", str(manifest.model.get("name", q.MISSING))),
        ("Tasks" if len(tasks) > 1 else "Task", ", ".join(name for name, _ in tasks)),
        ("Examples", q.count(sum(part["examples"] for _, part in tasks))),
        ("Dropped", q.count(dropped)),
        ("Conditionals", q.count(len(manifest.conditionals))),
        ("Mode word", f"[{manifest.mode}]" if manifest.mode else "none"),
        ("Scored in", manifest.dtype),
        ("Device", manifest.device),
        ("Date", manifest.created[:10]),
        ("mlm-consistency", manifest.versions.get("mlm-consistency", "")),
    ]
    return [(name, value) for name, value in facts if value]


def _provenance(manifest: Manifest) -> Table:
    mesh = " x ".join(f"{name} {size}" for name, size in manifest.mesh.items())
    facts = [
        ("checkpoint", manifest.checkpoint),
        ("vocabulary", manifest.vocabulary),
        ("revision", manifest.revision),
        ("created", manifest.created),
        ("finished", manifest.finished),
        ("device", manifest.device),
        ("mesh", mesh),
        ("conditionals", ", ".join(manifest.conditionals)),
        ("fingerprint", manifest.fingerprint_digest()),
        *manifest.versions.items(),
    ]
    rows = tuple(Row((Cell(name), Cell(str(value)))) for name, value in facts if value)
    columns = (Column("what", "What", numeric=False), Column("value", "Value", numeric=False))
    return Table("run", "What this run was made of", columns, rows, sortable=False)
