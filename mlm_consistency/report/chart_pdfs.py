"""The page's figures as PDF files that the page carries: light theme, white paper, set width.

Drawn by the Vega in vl-convert-python with the settings that charts.js gives to the SVG and PNG
files, so that all three show the same figure.
"""

from __future__ import annotations

import base64
import gzip
import re
from collections.abc import Mapping
from typing import Any

WIDTH, PADDING = 520, 12
RESOURCES = re.compile(rb"(?:^ +/\w+ \d+ 0 R\n){2,}", re.MULTILINE)


def light_theme(css: str) -> dict[str, str]:
    """The variables of the light theme, `--ink` say, from the page's styles."""
    block = re.search(r":root \{(.*?)\}", css, re.DOTALL)
    assert block, "page.css has no light theme"
    return dict(re.findall(r"(--[\w-]+):\s*([^;]+);", block[1]))


def on_paper(specification: Mapping[str, Any], theme: Mapping[str, str]) -> dict[str, Any]:
    """The specification as charts.js would theme it for saving."""
    ink, rule = theme["--ink"], theme["--rule"]
    palette = [theme[f"--chart-{k}"] for k in range(3)]
    words = {
        "labelColor": ink, "titleColor": ink, "labelFontSize": 12, "titleFontSize": 12,
        "titleFontWeight": "normal",
    }  # fmt: skip
    strong = theme["--strong-rule"]
    return {
        **specification,
        "width": WIDTH,
        "padding": PADDING,
        "background": "#ffffff",
        "params": [
            {"name": "palette", "value": palette},
            {"name": "inkOnHeat", "value": theme["--ink-on-heat"]},
            {"name": "inkOnPale", "value": theme["--ink-on-pale"]},
        ],
        "config": {
            "font": theme["--sans"],
            "view": {"stroke": None},
            "axis": {**words, "gridColor": rule, "domainColor": strong, "tickColor": strong},
            "legend": {**words, "symbolSize": 64},
            "rule": {"color": theme["--muted"]},
            "text": {"color": ink},
            "range": {
                "category": palette, "heatmap": [theme["--heat-low"], theme["--heat-high"]],
            },
        },
    }  # fmt: skip


def chart_pdfs(specifications: Mapping[str, Mapping[str, Any]], css: str) -> dict[str, str]:
    """Figure -> its PDF, gzip in base64."""
    import vl_convert

    theme = light_theme(css)
    packed = {}
    for name, specification in specifications.items():
        pdf = vl_convert.vegalite_to_pdf(on_paper(specification, theme))
        packed[name] = base64.b64encode(gzip.compress(in_order(pdf), mtime=0)).decode()
    return packed


def in_order(pdf: bytes) -> bytes:
    """The file with the entries of its resource dictionaries sorted: the writer's order changes
    from call to call. The same number of bytes, so the file's table of offsets stays right."""

    def sort(match: re.Match[bytes]) -> bytes:
        return b"".join(sorted(match[0].splitlines(keepends=True)))

    return RESOURCES.sub(sort, pdf)
