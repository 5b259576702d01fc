"""`mlm-consistency report`: summary.json and records -> report.html, figures/, a short table."""

from __future__ import annotations

from mlm_consistency.analysis.summary_file import read_summary
from mlm_consistency.cli import gin_files
from mlm_consistency.cli.settings import MACROS, macro
from mlm_consistency.report import print_summary, write_figures, write_report
from mlm_consistency.report.bigrams_page import is_bigrams_folder, write_bigrams_report

DESCRIPTION = "Draws the report of a run folder: one HTML page, figures for papers, a table."


def run(argv: list[str]) -> int:
    """The command: the run folder as an argument, or OUTPUT_DIR."""
    others, bindings = gin_files.split_bindings(argv)
    parser = gin_files.parser("report", DESCRIPTION)
    parser.add_argument("run_folder", nargs="?", help="the run folder (default: OUTPUT_DIR)")
    flags = parser.parse_args(others)
    gin_files.load(flags.gin_file, bindings, flags.gin_search_paths, MACROS)
    report(flags.run_folder or macro("OUTPUT_DIR", "report"))
    return 0


def report(folder: str) -> None:
    """Writes page and figures of an analysed run, prints its table and where the page is; of a
    `mlm-consistency bigrams` folder the page alone."""
    if is_bigrams_folder(folder):
        print(f"report: {write_bigrams_report(folder)}")
        return
    write_figures(folder)
    page = write_report(folder)
    print_summary(read_summary(folder))
    print(f"report: {page}")
