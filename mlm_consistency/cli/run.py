"""`mlm-consistency run`: score, analyze, report."""

from __future__ import annotations

from mlm_consistency.cli import gin_files
from mlm_consistency.cli.analyze import analysis_config, analyze
from mlm_consistency.cli.process_config import add_flags, process_config
from mlm_consistency.cli.processes import start
from mlm_consistency.cli.report import report
from mlm_consistency.cli.score import score
from mlm_consistency.cli.settings import MACROS, score_config

DESCRIPTION = "Scores a run (or goes on with it), analyses its records and draws the report."


def run(argv: list[str]) -> int:
    """The command."""
    others, bindings = gin_files.split_bindings(argv)
    parser = gin_files.parser("run", DESCRIPTION)
    parser.add_argument("--profile", metavar="DIR", help="write a JAX trace of the scoring here")
    add_flags(parser)
    flags = parser.parse_args(others)
    gin_files.load(flags.gin_file, bindings, flags.gin_search_paths, MACROS)
    config, analysis, text = score_config(), analysis_config(), gin_files.operative()
    team = start(process_config(flags))
    status = team.run(lambda: score(config, text, flags.profile, team=team))
    if status or not team.leads:
        return status
    analyze(config.output_dir, analysis)
    report(config.output_dir)
    return 0
