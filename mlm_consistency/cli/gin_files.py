"""Gin files and flags, as T5X has them: --gin_file, --gin.NAME=VALUE, --gin_search_paths.

Later files and flags override earlier ones. A macro that nothing reads is an error: gin itself
would take a misspelt one in silence.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import dataclasses
import inspect
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import gin

from mlm_consistency.errors import ConfigError
from mlm_consistency.tables import unknown_name

PACKAGE_ROOT = Path(__file__).resolve().parents[2]
# What the commands bind (`@gin.configurable` and `gin.external_configurable` in cli/).
CONFIGURABLES = (
    "analysis", "batch", "beams", "bigrams", "ngram_probes", "packing", "pair_probes", "pretrain",
    "task", "training",
)  # fmt: skip
MACRO = re.compile(r"^([A-Z][A-Z0-9_]*)\s*=", re.MULTILINE)


def parser(command: str, description: str) -> argparse.ArgumentParser:
    """A parser with the gin flags, to which a command adds its own."""
    made = argparse.ArgumentParser(
        prog=f"mlm-consistency {command}",
        description=description,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="--gin.NAME=VALUE binds a macro (--gin.OUTPUT_DIR='\"runs/a\"', quotes optional for "
        "plain text) or a parameter (--gin.packing.tokens_per_batch=8192).",
        allow_abbrev=False,
    )
    made.add_argument("--gin_file", action="append", default=[], metavar="FILE")
    made.add_argument(
        "--gin_search_paths", default="", metavar="A,B", help="where to look for gin files"
    )
    return made


def split_bindings(argv: Sequence[str]) -> tuple[list[str], list[str]]:
    """Takes `--gin.NAME=VALUE` out of the arguments: (the others, bindings `NAME = VALUE`)."""
    others, bindings = [], []
    for argument in argv:
        if not argument.startswith("--gin."):
            others.append(argument)
            continue
        name, equals, value = argument.removeprefix("--gin.").partition("=")
        if not equals or not name:
            raise ConfigError(f"{argument}: expected --gin.NAME=VALUE")
        bindings.append(f"{name} = {quoted(value)}")
    return others, bindings


def quoted(value: str) -> str:
    """A gin value; plain text that is no Python literal, reference or macro gets quotes.

    Raises:
      ConfigError: where a quote opens or ends that has no other.
    """
    if value.startswith(("@", "%")):
        return value
    try:
        ast.literal_eval(value)
        return value
    except (ValueError, SyntaxError):
        if any(value.count(edge) % 2 for edge in (value[:1], value[-1:]) if edge in ("'", '"')):
            raise ConfigError(
                f"--gin value {value}: a quote without its other one. Expected 'text', "
                "or plain text without quotes"
            ) from None
        return repr(value)


def load(
    files: Sequence[str],
    bindings: Sequence[str],
    search_paths: str = "",
    macros: Mapping[str, Any] | None = None,
) -> None:
    """Parses files, then bindings, into gin's state (cleared first).

    Args:
      files: paths, looked up in the search paths, the working directory and beside the package.
      bindings: `NAME = VALUE` lines.
      search_paths: more folders, separated by commas.
      macros: the macros that are read, with their defaults.

    Raises:
      ConfigError: naming the file or the binding.
    """
    gin.clear_config()
    defaults = [f"{name} = {value!r}" for name, value in (macros or {}).items()]
    folders = [*filter(None, search_paths.split(",")), ".", str(PACKAGE_ROOT)]
    for folder in reversed(folders):
        gin.add_config_file_search_path(folder)
    gin.parse_config(defaults)
    for file in files:
        found = [Path(folder) / file for folder in folders if (Path(folder) / file).is_file()]
        if not found and not Path(file).is_file():
            raise ConfigError(f"gin file {file!r} is not in {', '.join(folders)}")
        path = found[0] if found else Path(file)
        _check_macros(path.read_text(), macros, str(path))
        _parse(lambda path=path: gin.parse_config_file(str(path)), f"gin file {file}")
    for binding in bindings:
        _check_macros(binding, macros, f"--gin.{binding}")
        _parse(lambda binding=binding: gin.parse_config(binding), f"--gin.{binding}")


def _parse(parse: Any, what: str) -> None:
    try:
        parse()
    except (ValueError, SyntaxError, TypeError, OSError, ImportError) as error:
        said = str(error).strip().splitlines()[0]
        raise ConfigError(f"{what}: {_nearest(said) or said}") from error


def _nearest(said: str) -> str:
    """gin's complaint about a name that it does not know, with the names that it knows."""
    if found := re.match(r"No configurable matching '(.+?)'", said):
        return str(unknown_name("configurable of this command", found[1], _configurables()))
    if found := re.match(r"Configurable '(.+?)' doesn't have a parameter named '(.+?)'", said):
        made: Any = gin.get_configurable(found[1])
        if dataclasses.is_dataclass(made):
            names = [field.name for field in dataclasses.fields(made)]
        else:
            names = list(inspect.signature(made).parameters)
        return str(unknown_name(f"parameter of {found[1]}", found[2], names))
    return ""


def _configurables() -> list[str]:
    """The names in CONFIGURABLES that the command at hand has registered."""
    registered = []
    for name in CONFIGURABLES:
        with contextlib.suppress(ValueError):
            gin.get_configurable(name)
            registered.append(name)
    return registered


def _check_macros(text: str, macros: Mapping[str, Any] | None, where: str) -> None:
    if macros is None:
        return
    for name in MACRO.findall(text):
        if name not in macros:
            raise ConfigError(f"{where}: {unknown_name('macro', name, macros)}")


def operative() -> str:
    """The bindings that were in force, as a gin file that gives the same run."""
    return gin.config_str(max_line_length=100)
