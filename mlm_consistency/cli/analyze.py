"""`mlm-consistency analyze`: records -> summary.json. Needs no model and no device."""

from __future__ import annotations

import gin

from mlm_consistency.analysis.summary import AnalysisConfig
from mlm_consistency.analysis.summary_file import analyze_run, write_summary
from mlm_consistency.cli import gin_files
from mlm_consistency.cli.settings import MACROS, macro
from mlm_consistency.records import open_run

analysis_config = gin.external_configurable(AnalysisConfig, "analysis")
DESCRIPTION = """\
Reads the records of a run folder and writes its summary.json. AnalysisConfig is bound as
`analysis`: --gin.analysis.token_reduction=sum, --gin.analysis.resamples=10000.
"""


def run(argv: list[str]) -> int:
    """The command: the run folder as an argument, or OUTPUT_DIR."""
    others, bindings = gin_files.split_bindings(argv)
    parser = gin_files.parser("analyze", DESCRIPTION)
    parser.add_argument("run_folder", nargs="?", help="the run folder (default: OUTPUT_DIR)")
    parser.add_argument(
        "--allow_incomplete", action="store_true", help="analyse a run that is not finished"
    )
    flags = parser.parse_args(others)
    gin_files.load(flags.gin_file, bindings, flags.gin_search_paths, MACROS)
    folder = flags.run_folder or macro("OUTPUT_DIR", "analyze")
    analyze(folder, analysis_config(), flags.allow_incomplete)
    return 0


def analyze(folder: str, config: AnalysisConfig, allow_incomplete: bool = False) -> str:
    """Writes the summary of a run; returns its path."""
    summary = analyze_run(open_run(folder, allow_incomplete), config)
    return write_summary(folder, summary)
