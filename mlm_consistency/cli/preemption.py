"""SIGTERM: the machine is wanted back. Commands end with a status that means "start again"."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
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


@contextlib.contextmanager
def sent_again_if_dropped() -> Iterator[None]:
    """While the block runs, sends a signal again whose exception Python has dropped.

    An exception that a signal raises inside a callback of the garbage collector (JAX has one) or a
    `__del__` is printed and forgotten: the command would run on as if nothing had come.
    """
    before = sys.unraisablehook
    signals = {Preempted: signal.SIGTERM, KeyboardInterrupt: signal.SIGINT}

    def hook(unraisable: sys.UnraisableHookArgs) -> None:
        number = signals.get(unraisable.exc_type)
        if number is None:
            before(unraisable)
            return
        # A moment later, when the callback is over.
        again = threading.Timer(0.05, os.kill, (os.getpid(), number))
        again.daemon = True
        again.start()

    sys.unraisablehook = hook
    try:
        yield
    finally:
        sys.unraisablehook = before
