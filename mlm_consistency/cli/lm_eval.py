"""`mlm-consistency lm-eval ARGS`: lm-evaluation-harness, with our model among its models.

The harness looks for no models outside itself, so this command registers ours and then gives the
arguments to the harness' own command.
"""

from __future__ import annotations

import sys

from mlm_consistency.errors import ConfigError


def run(argv: list[str]) -> int:
    """The command; everything behind its name goes to `lm_eval`.

    Raises:
      ConfigError: if the harness is not installed.
    """
    try:
        from lm_eval.__main__ import cli_evaluate
    except ImportError as error:
        raise ConfigError(
            f"lm-evaluation-harness is not installed ({error}). In the repository: pip install "
            "-e '.[lm-eval]' -c constraints.txt"
        ) from error
    from mlm_consistency.harness import lm  # noqa: F401 (registers the model)

    before = sys.argv
    sys.argv = ["lm_eval", *argv]
    try:
        cli_evaluate()
    finally:
        sys.argv = before
    return 0
