"""How far a run is: a bar on a terminal, a line every few seconds elsewhere."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Any

LINE_EVERY = 5.0  # seconds


class Progress:
    """Counts things that are done and shows it on stderr."""

    def __init__(
        self,
        what: str,
        total: int,
        done: int = 0,
        unit: str = "examples",
        quiet: bool = False,
    ) -> None:
        """Args:
        what: what is being done.
        total: how many there are.
        done: how many were done before.
        unit: what they are called.
        quiet: only count; another process shows it.
        """
        self.what, self.total, self.unit = what, total, unit
        self.done = self.first = done
        self.quiet = quiet
        self.began = self.last = time.monotonic()
        self.bar: Any = None
        self.task: Any = None

    def __enter__(self) -> Progress:
        if sys.stderr.isatty() and not self.quiet:
            from rich.console import Console
            from rich.progress import (
                BarColumn,
                MofNCompleteColumn,
                TextColumn,
                TimeElapsedColumn,
                TimeRemainingColumn,
            )
            from rich.progress import Progress as Bar

            self.bar = Bar(
                TextColumn(self.what),
                BarColumn(),
                MofNCompleteColumn(),
                TextColumn("{task.fields[note]}"),
                TimeElapsedColumn(),
                TimeRemainingColumn(),
                console=Console(stderr=True),
            )
            self.bar.start()
            self.task = self.bar.add_task(self.what, total=self.total, completed=self.done, note="")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.bar is not None:
            self.bar.stop()
        elif kind is None:
            self._line()

    def advance(self, count: int, note: str = "") -> None:
        """Counts `count` more."""
        self.done += count
        if self.bar is not None:
            self.bar.update(self.task, completed=self.done, note=note)
        elif time.monotonic() - self.last >= LINE_EVERY:
            self.last = time.monotonic()
            self._line(note)

    def _line(self, note: str = "") -> None:
        if self.quiet:
            return
        spent = time.monotonic() - self.began
        rate = (self.done - self.first) / spent if spent > 0 else 0.0
        going = rate > 0 and self.done < self.total
        ends = f", {(self.total - self.done) / rate:.0f} s left" if going else ""
        print(
            f"{self.what}: {self.done}/{self.total} {self.unit}, {rate:.1f}/s{ends}"
            + (f" ({note})" if note else ""),
            file=sys.stderr,
            flush=True,
        )
