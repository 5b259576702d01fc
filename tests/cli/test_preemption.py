"""A signal ends a command wherever Python is when it comes."""

from __future__ import annotations

import gc
import os
import signal
import time

import pytest

from mlm_consistency.cli.preemption import Preempted, end_now, on_sigterm, sent_again_if_dropped


def collect_and_wait(sent: list) -> None:
    gc.collect()
    assert sent, "the callback has run"
    time.sleep(5)
    raise AssertionError("the command ran on")


@pytest.mark.parametrize(
    ("number", "raised"), [(signal.SIGTERM, Preempted), (signal.SIGINT, KeyboardInterrupt)]
)
def test_a_signal_inside_a_callback_of_the_garbage_collector_is_not_lost(number, raised):
    sent = []

    def callback(phase, info):
        if not sent:
            sent.append(number)
            os.kill(os.getpid(), number)
            for _ in range(1000):  # the handler runs between two steps of these
                pass

    # A shell's background jobs ignore SIGINT from their start.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    gc.callbacks.append(callback)
    try:
        with pytest.raises(raised), sent_again_if_dropped(), on_sigterm(end_now):
            collect_and_wait(sent)
    finally:
        gc.callbacks.remove(callback)
        signal.signal(signal.SIGINT, before)
