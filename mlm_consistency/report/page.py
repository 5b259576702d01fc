"""write_report: one self-contained HTML page from a run's records and its summary.json.

The page opens from disk and loads nothing from anywhere: styles, scripts, the charting library
(Vega, taken from vl-convert-python) and all examples are inside it, and a content security policy
forbids the rest.
"""

from __future__ import annotations

import base64
import gzip
import json
import os
from collections.abc import Sequence
from importlib import resources
from typing import Any

import jinja2
from etils import epath
from markupsafe import Markup

from mlm_consistency.analysis.summary_file import read_summary
from mlm_consistency.errors import RecordsError
from mlm_consistency.records import open_run, storage
from mlm_consistency.report.chart_pdfs import chart_pdfs
from mlm_consistency.report.task_view import page_view

# Above this many characters the examples travel compressed, to about a fifth of their size.
_PLAIN_LIMIT = 300_000
_SCRIPTS = ("tables.js", "charts.js", "drawing.js", "explorer.js")


def _asset(name: str) -> str:
    return (resources.files("mlm_consistency.report") / "assets" / name).read_text("utf-8")


def json_in_script(value: Any) -> Markup:
    """JSON that may stand inside a <script> element: no "<" is left that could end it."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for sign in "<>&\u2028\u2029":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return Markup(text)


def examples_in_script(value: Any) -> tuple[str, Markup]:
    """(type, content) of the script element that holds the examples: JSON, or gzip in base64."""
    text = json_in_script(value)
    if len(text) <= _PLAIN_LIMIT:
        return "application/json", text
    packed = gzip.compress(text.encode(), compresslevel=6, mtime=0)
    return "application/gzip", Markup(base64.b64encode(packed).decode())


def vega_library() -> str:
    """The JavaScript of Vega, Vega-Lite and Vega-Embed as one script."""
    import vl_convert

    return vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;")


def render(template: str, view: dict[str, Any], scripts: Sequence[str]) -> str:
    """The HTML of a page: `view` in a template, with styles, scripts, Vega and figures' PDFs."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("mlm_consistency.report", "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    specifications = view["specifications"]
    return environment.get_template(template).render(
        **view,
        css=Markup(_asset("page.css")),
        theme=Markup(_asset("theme.js")),
        scripts=[Markup(_asset(name)) for name in scripts],
        vega=Markup(vega_library()),
        charts_json=json_in_script(specifications),
        pdfs_json=json_in_script(chart_pdfs(specifications, _asset("page.css"))),
    )


def render_page(view: dict[str, Any]) -> str:
    """The HTML of a run's page from what `page_view` made."""
    examples_type, examples_data = examples_in_script(view["examples"])
    examples = {"examples_type": examples_type, "examples_data": examples_data}
    return render("page.html.j2", view | examples, _SCRIPTS)


def write_report(run_folder: storage.PathLike, allow_incomplete: bool = False) -> os.PathLike[str]:
    """Writes report.html into a run folder, whole or not at all, and returns its path.

    Args:
      run_folder: a folder with manifest.json, records/ and summary.json.
      allow_incomplete: report what is there of a run that did not end; the page says so.

    Raises:
      RecordsError: where the run is missing or incomplete, or the summary is of other records.
      AnalysisError: where the summary is missing or of another schema.
    """
    summary = read_summary(run_folder)
    run = open_run(run_folder, allow_incomplete=allow_incomplete)
    if summary.get("fingerprint") != run.manifest.fingerprint_digest():
        raise RecordsError(
            f"summary.json of {run.folder} was made from records of another configuration "
            f"(fingerprint {str(summary.get('fingerprint', 'absent'))[:12]}, the records' is "
            f"{run.manifest.fingerprint_digest()[:12]}): analyze the run again"
        )
    html = render_page(page_view(run, summary))
    path = storage.join(run_folder, "report.html")
    storage.publish(path, html.encode())
    return epath.Path(path)
