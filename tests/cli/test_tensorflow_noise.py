"""TensorFlow's greetings are left out of the standard error; everything else is kept."""

from __future__ import annotations

import os

from mlm_consistency.cli import tensorflow_noise

GREETINGS = (
    b"WARNING: All log messages before absl::InitializeLog() is called are written to STDERR\n"
    b"I0000 00:00:1796140352.829077   11970 cudart_stub.cc:31] Could not find cuda drivers.\n"
    b"E0000 00:00:1796142422.9 32672 cuda_platform.cc:52] failed call to cuInit: INTERNAL\n"
)


def test_only_greetings_are_left_out(capfd):
    with tensorflow_noise._greetings_left_out():
        os.write(2, GREETINGS + b"E0000 00:00:1.0 1 loader.cc:1] cannot open shared object\n")
        os.write(2, b"a line of ours\n" + GREETINGS)
    os.write(2, b"after\n")
    assert capfd.readouterr().err == (
        "E0000 00:00:1.0 1 loader.cc:1] cannot open shared object\na line of ours\nafter\n"
    )


def test_what_was_held_back_is_shown_when_an_import_fails(capfd):
    try:
        with tensorflow_noise._greetings_left_out():
            os.write(2, b"the reason\n")
            raise ImportError
    except ImportError:
        pass
    assert capfd.readouterr().err == "the reason\n"
