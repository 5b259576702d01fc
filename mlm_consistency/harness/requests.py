"""The harness' requests, put together by context.

A multiple-choice question comes as one request a choice, each (context, continuation). Those of
one question and one context are scored together: the context goes through the encoder once, and
an ensemble can weigh the choices against each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mlm_consistency.errors import ConfigError, DataError

BLANK = ("refuse", "zero")


@dataclass(frozen=True)
class Question:
    """A context and its continuations.

    Attributes:
      context: as the harness gives it.
      continuations: texts without the space around them; none is empty.
      places: of each continuation, the position among the harness' requests.
      name: task and document, for messages.
    """

    context: str
    continuations: tuple[str, ...]
    places: tuple[int, ...]
    name: str


def questions_of(requests: Sequence[Any], blank: str = "refuse") -> list[Question]:
    """Groups requests by task, document and context, in the order in which they come.

    A continuation is scored as a candidate is: encoded on its own, so that its first piece starts
    a word. The space in front of it, with which the harness joins texts, says the same and is
    taken off, and so is space behind it, which no T5 vocabulary keeps.

    Args:
      requests: objects with `args` = (context, continuation), and `task_name` and `doc_id` where
        they know them.
      blank: what to do with continuations of nothing but space. "refuse": an error, before
        anything is scored. "zero": leave them out, so that they get log 1 = 0, the probability
        that nothing more is asked of the text; beside other choices such a one always wins.

    Raises:
      ConfigError: if `blank` is neither.
      DataError: for a request that is no pair of texts, or a blank continuation.
    """
    if blank not in BLANK:
        raise ConfigError(f"blank must be refuse or zero. Got {blank!r}.")
    found: dict[tuple[Any, Any, str], list[tuple[int, str]]] = {}
    for place, request in enumerate(requests):
        task, document = getattr(request, "task_name", None), getattr(request, "doc_id", None)
        name = _name(task, document, place)
        if len(request.args) != 2 or not all(isinstance(text, str) for text in request.args):
            raise DataError(f"{name}: expected (context, continuation). Got {request.args!r:.120}.")
        context, continuation = request.args
        text = continuation.strip()
        if text:
            found.setdefault((task, document, context), []).append((place, text))
        elif blank == "refuse":
            raise DataError(
                f"{name}: the continuation {continuation!r} has no tokens. It would score "
                "log 1 = 0 and win against every other. Mend the task, or say blank=zero in "
                f"--model_args. Its context ends in {context[-40:]!r}."
            )
    return [
        Question(context, tuple(t for _, t in members), tuple(p for p, _ in members),
                 _name(task, document, members[0][0]))
        for (task, document, context), members in found.items()
    ]  # fmt: skip


def _name(task: Any, document: Any, place: int) -> str:
    if task is None and document is None:
        return f"request {place}"
    return f"task {task!r}, document {document}"
