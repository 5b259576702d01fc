"""`mlm-consistency diagnose TABLES.json`: pair diagnostics for anybody's conditional tables."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from mlm_consistency.analysis.compatibility import TOLERANCE
from mlm_consistency.analysis.diagnose import diagnose
from mlm_consistency.errors import DataError

_DESCRIPTION = """\
Reads {"a_given_b": [[..]], "b_given_a": [[..]], "a_masked": [..], "b_masked": [..]} or a list of
such (a_given_b[i][j] = p(a_i|b_j), b_given_a[i][j] = p(b_j|a_i); the last two are optional) and
writes JSON: cross-ratios, compatibility, order log-ratios, coherent joints and their divergences.
An object gives an object, a list gives a list. All logarithms are natural (nats); what is
undefined is null, with its reason under "reasons". "subset": true marks tables that hold only some
words of a vocabulary.
"""


def run(argv: list[str]) -> int:
    """Runs the command with the arguments after its name; 0 when the JSON was written.

    Raises:
      DataError: for a file that cannot be read or cases that are malformed.
    """
    parser = argparse.ArgumentParser(
        prog="mlm-consistency diagnose", description=_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("tables", metavar="TABLES.json", help="the cases; - reads standard input")
    parser.add_argument("-o", "--output", metavar="FILE", help="write here, not standard output")
    parser.add_argument(
        "--tolerance", type=float, default=TOLERANCE, metavar="NATS",
        help="disagreement that still counts as compatible (default: %(default)g)",
    )  # fmt: skip
    arguments = parser.parse_args(argv)
    content = _read(arguments.tables)
    try:
        results = diagnose(content, arguments.tolerance)
    except DataError as error:
        raise DataError(f"{arguments.tables}: {error}") from None
    text = json.dumps(results if isinstance(content, list) else results[0], indent=1) + "\n"
    if arguments.output:
        try:
            Path(arguments.output).write_text(text, encoding="utf-8")
        except OSError as error:
            raise DataError(f"{arguments.output}: cannot be written ({error.strerror}).") from None
    else:
        sys.stdout.write(text)
    return 0


def _read(path: str) -> Any:
    try:
        text = sys.stdin.read() if path == "-" else Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: cannot be read ({error}).") from None
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise DataError(
            f"{path}, line {error.lineno}, column {error.colno}: not JSON ({error.msg})."
        ) from None
