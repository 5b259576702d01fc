"""SIGTERM: the machine is wanted back. Commands end with a status that means "start again"."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator

EXIT_PREEMPTED = 75  # EX_TEMPFAIL: the launchers start again


class Preempted(BaseException):
    """SIGTERM came while nothing was under way that could be finished."""


def end_now() -> None:
    """What SIGTERM does while data are read, weights are loaded or a report is drawn."""
    raise Preempted


@contextlib.contextmanager
def on_sigterm(action: Callable[[], None]) -> Iterator[None]:
    """Calls `action` at SIGTERM while the block runs (in the main thread; elsewhere nothing)."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, lambda number, frame: action())
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before or signal.SIG_DFL)
