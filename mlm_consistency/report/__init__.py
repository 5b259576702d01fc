"""How it looks: one self-contained HTML page, figures for papers, a table for the terminal.

All of it is drawn from a run's records and its summary.json; nothing is computed from the model.

page            write_report: RUN/report.html
figures         write_figures: RUN/figures/*.{pdf,svg,png}
terminal        summary_table, print_summary: the short table that a run ends with
task_view       what the page shows, as plain data
task_tables     the tables of one task; tables: what a table is
diagnostics     the sections below them: vocabulary, gains, confidence, clusters, preferences
series, charts  what the figures draw; the page's interactive figures
explorer_data   the explorer's data from records; examples: its form; contradictions: its order
comparisons     differences from the baseline with their intervals
findings        the headline sentence; quantities: how numbers are written
"""

from mlm_consistency.report.figures import write_figures
from mlm_consistency.report.page import write_report
from mlm_consistency.report.terminal import print_summary, summary_table

__all__ = ["print_summary", "summary_table", "write_figures", "write_report"]
