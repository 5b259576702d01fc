"""Scalars that TensorBoard shows, written by TensorFlow, which reads the tasks anyway.

tensorboard --logdir OUTPUT_DIR/logs
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any

from mlm_consistency.cli.tensorflow_noise import import_tensorflow

log = logging.getLogger(__name__)

# Of TensorBoard's plugin for scalars; a summary's data class is a number of its protocol buffer.
PLUGIN, DATA_CLASS_SCALAR = "scalars", 1


class EventWriter:
    """Writes scalars into one file of events in a folder, local or `gs://`.

    What goes wrong is said once, and nothing more is written: a run does not end for its logs.
    """

    def __init__(self, folder: str) -> None:
        """Args:
        folder: is made where it is not there; every start of a run adds a file to it.
        """
        self.folder = folder
        self._writer: Any = None

    def __enter__(self) -> EventWriter:
        import_tensorflow()
        self._try(self._open)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._writer is not None:
            self._try(self._writer.close)

    def write(self, step: int, scalars: Mapping[str, float]) -> None:
        """Adds the scalars at a step (their place on the horizontal axis), and flushes."""
        if self._writer is not None:
            self._try(lambda: self._write(step, scalars))

    def _open(self) -> None:
        import tensorflow as tf

        self._writer = tf.summary.create_file_writer(self.folder)

    def _write(self, step: int, scalars: Mapping[str, float]) -> None:
        import tensorflow as tf

        # `tf.summary.scalar` would do the same and ask for the package tensorboard.
        kinds = tf.compat.v1.SummaryMetadata
        metadata = kinds(
            plugin_data=kinds.PluginData(plugin_name=PLUGIN), data_class=DATA_CLASS_SCALAR
        )
        with self._writer.as_default():
            for name, value in scalars.items():
                tf.summary.write(name, tf.constant(value, tf.float32), step, metadata)
        self._writer.flush()

    def _try(self, work: Callable[[], None]) -> None:
        import tensorflow as tf

        try:
            work()
        except (OSError, tf.errors.OpError) as error:
            self._writer = None
            first = str(error).strip().splitlines()[:1]
            log.warning("no events for TensorBoard in %s: %s", self.folder, *(first or ["failed"]))
