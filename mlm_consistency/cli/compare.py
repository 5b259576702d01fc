"""`mlm-consistency compare`: runs, tasks of runs and the paper's recorded curves side by side."""

from __future__ import annotations

import argparse
import difflib
import json
import os
import sys
from pathlib import Path

from mlm_consistency.analysis.compare import Comparison, compare
from mlm_consistency.analysis.compare_text import differences_table, entrants_table, to_dict
from mlm_consistency.analysis.ensembles import REDUCTIONS
from mlm_consistency.analysis.paper import paper_curves
from mlm_consistency.analysis.scores import TOKEN_REDUCTIONS
from mlm_consistency.errors import ConfigError
from mlm_consistency.records import layout, storage
from mlm_consistency.report.bigrams_page import is_bigrams_folder
from mlm_consistency.tables import unknown_name

DESCRIPTION = """\
Compares two entrants or more, each with each. An entrant is a run folder (all its tasks), one task
of a run (RUN:TASK), or a curve that the paper's authors recorded ("paper:UL2 MMLU").

Two entrants are paired on the examples that both have: paired bootstrap, exact McNemar test. Where
there are none, or the paper is one of them, the difference is unpaired and said to be: Fisher's
exact test. p-values are adjusted over all pairs (Holm).

Folders of `mlm-consistency bigrams` are compared with one another: BERT and T5 side by side, paired
on the pairs of words that both were asked about; --output holds a page of them too.

Recorded curves: {curves}.
"""
FORMATS = ("pdf", "svg", "png")


def run(argv: list[str]) -> int:
    """Runs the command with the arguments after its name; 0 when everything was written.

    Raises:
      UnknownNameError: for a recorded curve, task or reduction of no such name.
      ConfigError: for a path that is no run folder.
      AnalysisError: where there are fewer than two entrants.
    """
    curves = ", ".join(f'"paper:{name}"' for name in paper_curves())
    parser = argparse.ArgumentParser(
        prog="mlm-consistency compare", description=DESCRIPTION.format(curves=curves),
        formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False,
    )  # fmt: skip
    parser.add_argument("entrants", nargs="+", metavar="RUN", help='RUN, RUN:TASK or "paper:NAME"')
    parser.add_argument(
        "--output", metavar="DIR",
        help="write comparison.json, .md, .tex and the figure here (.pdf, .svg, .png)",
    )  # fmt: skip
    parser.add_argument("--token_reduction", default="mean", metavar="mean|sum")
    parser.add_argument("--reduction", default="max", help="ensemble (default: %(default)s)")
    parser.add_argument("--level", type=float, default=0.95, help="of the intervals")
    parser.add_argument("--resamples", type=int, default=2000, help="of the bootstrap")
    parser.add_argument("--seed", type=int, default=0)
    flags = parser.parse_intermixed_args(argv)
    for kind, name, known in (
        ("token reduction", flags.token_reduction, TOKEN_REDUCTIONS),
        ("ensemble reduction", flags.reduction, REDUCTIONS),
    ):
        if name not in known:
            raise unknown_name(kind, name, known)
    if not 0 < flags.level < 1:
        raise ConfigError(f"--level should lie between 0 and 1, like 0.95; came {flags.level}")
    if flags.resamples < 1:
        raise ConfigError(f"--resamples should be at least 1; came {flags.resamples}")
    if any(map(is_bigrams_folder, flags.entrants)):
        return compare_pairs(flags.entrants, flags.output, flags.resamples, flags.seed)
    for entrant in flags.entrants:
        check_entrant(entrant)
    comparison = compare(
        flags.entrants,
        flags.token_reduction,
        flags.reduction,
        level=flags.level,
        resamples=flags.resamples,
        seed=flags.seed,
    )
    print(f"{entrants_table(comparison)}\n\n{differences_table(comparison)}")
    if flags.output:
        write(comparison, flags.output)
        print(f"comparison: {storage.join(flags.output)}", file=sys.stderr)
    return 0


def compare_pairs(
    folders: list[str], output: str | None, resamples: int = 2000, seed: int = 0
) -> int:
    """Folders of `mlm-consistency bigrams` side by side.

    Raises:
      ConfigError: where other entrants are among them.
      AnalysisError: where there is one alone.
    """
    from mlm_consistency.analysis import compare_bigrams as pairs
    from mlm_consistency.report.bigrams_page import (
        labels_of,
        read_bigrams,
        write_bigrams_report,
    )

    if others := [name for name in folders if not is_bigrams_folder(name)]:
        raise ConfigError(
            f"{', '.join(others)}: no folder of `mlm-consistency bigrams`, as others are. Runs and "
            "pairs of words are not compared with each other"
        )
    read = [read_bigrams(folder) for folder in folders]
    labels = labels_of([summary for summary, _ in read])
    entries = [(label, *one) for label, one in zip(labels, read, strict=True)]
    comparison = pairs.compare_bigrams(entries, resamples, seed)
    entrants, differences = pairs.entrants_table(comparison), pairs.differences_table(comparison)
    print(f"{entrants}\n\n{differences}")
    if output:
        storage.make_folder(output)
        for name, text in {
            "comparison.json": json.dumps(comparison, indent=1, ensure_ascii=False) + "\n",
            "comparison.md": f"{entrants.to_markdown()}\n{differences.to_markdown()}",
            "comparison.tex": f"{entrants.to_latex()}\n{differences.to_latex()}",
        }.items():
            storage.publish(storage.join(output, name), text.encode())
        page = storage.join(output, "comparison.html")
        write_bigrams_report(folders[0], folders[1:], page)
        print(f"comparison: {page}", file=sys.stderr)
    return 0


def check_entrant(entrant: str) -> None:
    """Refuses what is neither a recorded curve nor a run folder, with the nearest names.

    Raises:
      ConfigError: naming it and what may have been meant.
    """
    if entrant.startswith("paper:") or not storage.is_local(entrant):
        return  # the one is checked by its table, the other where it is opened
    folders = [entrant, *([entrant.rpartition(":")[0]] if ":" in entrant else [])]
    if any(storage.exists(storage.join(f, layout.MANIFEST)) for f in folders if f):
        return
    near = difflib.get_close_matches(entrant, _candidates(folders[-1]), n=3, cutoff=0.5)
    hint = f" Did you mean {' or '.join(repr(name) for name in near)}?" if near else ""
    what = "holds no run" if os.path.isdir(folders[-1]) else "is not there"
    raise ConfigError(
        f"{entrant}: {what}.{hint} Name the OUTPUT_DIR of a run, RUN:TASK, or a recorded curve: "
        + ", ".join(f'"paper:{name}"' for name in paper_curves())
    )


def _candidates(folder: str) -> list[str]:
    """The recorded curves, and the runs beside `folder`, as one would write them."""
    parent = Path(folder).parent
    beside = parent.iterdir() if parent.is_dir() else ()
    runs = [str(path) for path in beside if (path / layout.MANIFEST).exists()]
    return [*(f"paper:{name}" for name in paper_curves()), *sorted(runs)]


def write(comparison: Comparison, folder: str) -> None:
    """comparison.json, .md, .tex, and the figure as .pdf, .svg, .png, each whole or not at all."""
    from mlm_consistency.report.compare_figure import comparison_figure
    from mlm_consistency.report.figures import render

    entrants, differences = entrants_table(comparison), differences_table(comparison)
    note = (
        f"{100 * comparison.level:g} % intervals; {comparison.token_reduction} of token "
        f"log-probabilities; ensemble: {comparison.reduction}. p: exact McNemar (paired) or Fisher "
        "(not paired), beside it adjusted over all pairs (Holm)."
    )
    files = {
        "comparison.json": json.dumps(to_dict(comparison), indent=1, ensure_ascii=False) + "\n",
        "comparison.md": f"{entrants.to_markdown()}\n{differences.to_markdown()}\n{note}\n\n"
        "![Accuracy and disagreement against the number of conditionals](comparison.svg)\n",
        "comparison.tex": f"{entrants.to_latex()}\n{differences.to_latex()}",
    }
    storage.make_folder(folder)
    for name, text in files.items():
        storage.publish(storage.join(folder, name), text.encode())
    figure = comparison_figure(comparison)
    for kind in FORMATS:
        storage.publish(storage.join(folder, f"comparison.{kind}"), render(figure, kind))
