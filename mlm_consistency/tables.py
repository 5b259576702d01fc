"""Tables of names: name -> "module:object", imported when asked for.

Every room of the package (conditionals, tasks, models, analysis) keeps one such table, so that a
new entry is one new file and one new line, and so that listing names imports nothing heavy.
"""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Iterable, Mapping
from typing import Any

from mlm_consistency.errors import UnknownNameError


def unknown_name(kind: str, name: str, known: Iterable[str]) -> UnknownNameError:
    """The error for a name that is in no table: the nearest names first, then all of them."""
    names = sorted(set(known))
    near = difflib.get_close_matches(name, names, n=3, cutoff=0.5)
    hint = f" Did you mean {' or '.join(repr(n) for n in near)}?" if near else ""
    return UnknownNameError(f"unknown {kind} {name!r}.{hint} Known: {', '.join(names)}.")


def lookup(table: Mapping[str, str], name: str, kind: str) -> Any:
    """The object that `table[name]` ("module:attribute") stands for.

    Raises:
      UnknownNameError: if `name` is not in the table, with the nearest names.
    """
    if name not in table:
        raise unknown_name(kind, name, table)
    module, _, attribute = table[name].partition(":")
    return getattr(importlib.import_module(module), attribute)
