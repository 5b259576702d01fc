"""TensorFlow brought in without its greetings.

Its libraries write to the standard error itself while they load ("Could not find cuda drivers",
"oneDNN custom operations are on"), before any setting of logging counts. Those lines would stand
in the middle of a run's progress; whatever else is written there meanwhile is passed on.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
import tempfile
from collections.abc import Iterator

# absl's lines of information (I0000 00:00:..), what announces them, and the want of a GPU.
GREETING = re.compile(
    rb"WARNING: All log messages before absl::InitializeLog|I\d{4} \d\d:\d\d:|E\d{4} .*cuInit"
)
STANDARD_ERROR = 2
_done = False


def import_tensorflow() -> None:
    """Imports seqio, tensorflow and tensorflow_text, and leaves GPUs and their memory to JAX.

    A second call costs nothing.
    """
    global _done
    if _done:
        return
    with _greetings_left_out():
        import seqio  # noqa: F401
        import tensorflow as tf
        import tensorflow_text  # noqa: F401

        with contextlib.suppress(RuntimeError):  # too late: another has used TensorFlow already
            tf.config.set_visible_devices([], "GPU")
    _done = True


@contextlib.contextmanager
def _greetings_left_out() -> Iterator[None]:
    """Holds back what goes to the standard error; lines that are no greetings follow at the end."""
    sys.stderr.flush()
    with tempfile.TemporaryFile() as held:
        kept = os.dup(STANDARD_ERROR)
        os.dup2(held.fileno(), STANDARD_ERROR)
        try:
            yield
        finally:
            sys.stderr.flush()
            os.dup2(kept, STANDARD_ERROR)
            os.close(kept)
            held.seek(0)
            for line in held:
                if not GREETING.match(line):
                    os.write(STANDARD_ERROR, line)
