"""The processes of a run keep in touch over TCP: they meet, and each learns when another ends.

    process 1 ──┐
    process 2 ──┼── process 0      JSON lines: {} every 2 s, {"arrive"}, {"go"}, {"end"}
    process 3 ──┘

Devices cannot tell: a collective whose partner is gone waits for ever on a TPU, and JAX's own
service aborts the process at the end of its patience, without a status that means "start again".
Here the end of a process is known at once, by its last word or by its connection closing, and
after 45 s of silence where a machine is gone with its network.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import socket
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from mlm_consistency.cli.preemption import EXIT_PREEMPTED
from mlm_consistency.errors import MlmConsistencyError

MAGIC = "mlm-consistency roll call 1"
BEAT = 2.0  # seconds between signs of life
SILENCE = 45.0  # seconds without one, after which a process counts as gone
GRACE = 8.0  # seconds in which the main thread may end by itself
JOIN = 30.0  # seconds until all have found process 0; JAX has brought them together before
REFUSED = 3.0  # seconds of refusals: process 0 listened before it said where, so it is gone


@dataclasses.dataclass(frozen=True)
class End:
    """How the run ended in the process that ended first.

    Attributes:
      process: its number.
      status: its exit status, which the others take over.
      why: in words.
    """

    process: int
    status: int
    why: str


class RunEndedError(MlmConsistencyError):
    """Another process has ended, or has not come, so this one cannot go on."""

    def __init__(self, end: End) -> None:
        super().__init__(end.why)
        self.end, self.exit_status = end, end.status


def _end_at_once(end: End) -> None:
    """Ends this process whatever its main thread waits for."""
    print(f"mlm-consistency: {end.why}", file=sys.stderr, flush=True)
    with contextlib.suppress(OSError, ValueError):
        sys.stdout.flush()
    os._exit(end.status)


class _Line:
    """A connection to one other process."""

    def __init__(self, connection: socket.socket, process: int) -> None:
        self.connection, self.process = connection, process
        self._lock = threading.Lock()
        connection.settimeout(SILENCE)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._buffer = b""

    def send(self, message: dict[str, Any]) -> None:
        with self._lock:
            self.connection.sendall(json.dumps(message).encode() + b"\n")

    def receive(self) -> dict[str, Any]:
        """The next message; OSError where there will be none."""
        while b"\n" not in self._buffer:
            data = self.connection.recv(1 << 16)
            if not data:
                raise ConnectionResetError("its connection closed")
            self._buffer += data
        text, _, self._buffer = self._buffer.partition(b"\n")
        return json.loads(text)


class RollCall:
    """One process's part in it. Process 0 listens, the others call.

    Attributes:
      index: number of this process.
      count: of processes.
      end: how the run ended, once it has ended in another process.
    """

    def __init__(
        self,
        index: int,
        count: int,
        on_end: Callable[[], None],
        end_at_once: Callable[[End], None] = _end_at_once,
    ) -> None:
        """Args:
        index: number of this process.
        count: of processes.
        on_end: called in another thread when the run has ended elsewhere; shall move the main
          thread to stop.
        end_at_once: called where it has not done so in time.
        """
        self.index, self.count = index, count
        self.end: End | None = None
        self._on_end, self._end_at_once = on_end, end_at_once
        self._lines: list[_Line] = []
        self._readers: list[threading.Thread] = []
        self._changed = threading.Condition()
        self._arrived: dict[int, int] = {}  # meeting -> how many have come (process 0)
        self._answers: dict[int, Any] = {}  # meeting -> what process 0 said
        self._meeting = 0
        self._over = False  # ends no longer matter: the last meeting is held, or we leave
        self._left = threading.Event()

    # ---- coming together ----------------------------------------------------------------------

    @staticmethod
    def listen() -> tuple[socket.socket, int]:
        """A socket for process 0, on a port that the system chooses, and the port."""
        try:
            listener = socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True)
        except (OSError, ValueError):
            listener = socket.create_server(("", 0))
        return listener, listener.getsockname()[1]

    def accept(self, listener: socket.socket) -> None:
        """Process 0 waits for all others.

        Raises:
          RunEndedError: naming those that have not come; status 75, since JAX's service has seen
            them just before.
        """
        missing = set(range(1, self.count))
        deadline = time.monotonic() + JOIN
        with listener:
            while missing:
                listener.settimeout(max(0.1, deadline - time.monotonic()))
                try:
                    connection, _ = listener.accept()
                    connection.settimeout(10)
                    line = _Line(connection, -1)
                    hello = line.receive()
                except TimeoutError as error:
                    if time.monotonic() < deadline:
                        continue
                    raise self._lost(
                        min(missing),
                        f"processes {sorted(missing)} of {self.count} have not found process 0",
                    ) from error
                except (OSError, ValueError):
                    continue
                # A stranger, a port scan say, gets no answer.
                if hello.get("magic") == MAGIC and hello.get("process") in missing:
                    line.process = hello["process"]
                    missing.remove(line.process)
                    self._lines.append(line)
                else:
                    connection.close()
        self._begin()

    def call(self, host: str, port: int) -> None:
        """Another process calls process 0.

        Raises:
          RunEndedError: where it cannot be reached; status 75.
        """
        began = time.monotonic()
        while True:
            try:
                connection = socket.create_connection((host, port), timeout=10)
                break
            except OSError as error:
                patience = REFUSED if isinstance(error, ConnectionRefusedError) else JOIN
                if time.monotonic() > began + patience:
                    raise self._lost(
                        0, f"process {self.index} cannot reach process 0 at {host}:{port} ({error})"
                    ) from error
                time.sleep(0.5)
        line = _Line(connection, 0)
        try:
            line.send({"magic": MAGIC, "process": self.index})
        except OSError as error:
            raise self._lost(
                0, f"process {self.index} has lost process 0 at {host}:{port} ({error})"
            ) from error
        self._lines.append(line)
        self._begin()

    def _lost(self, process: int, what: str) -> RunEndedError:
        """Who has come to JAX's service and not here was most likely killed in between."""
        return RunEndedError(
            End(
                process,
                EXIT_PREEMPTED,
                f"{what}: killed while starting, or their machines do not reach each other on all "
                f"ports (exit status {EXIT_PREEMPTED})",
            )
        )

    def _begin(self) -> None:
        for line in self._lines:
            reader = threading.Thread(target=self._read, args=(line,), daemon=True)
            self._readers.append(reader)
            reader.start()
        threading.Thread(target=self._beat, daemon=True).start()

    # ---- staying in touch ---------------------------------------------------------------------

    def _beat(self) -> None:
        while not self._left.wait(BEAT):
            self._tell({})

    def _tell(self, message: dict[str, Any], but: int = -1) -> None:
        for line in self._lines:
            if line.process != but:
                # Where a line is broken, its reader says so.
                with contextlib.suppress(OSError):
                    line.send(message)

    def _read(self, line: _Line) -> None:
        try:
            while True:
                message = line.receive()
                if "end" in message:
                    self._ended(End(**message["end"]), line.process)
                    continue
                with self._changed:
                    if "arrive" in message:
                        number = message["arrive"]
                        self._arrived[number] = self._arrived.get(number, 0) + 1
                    elif "go" in message:
                        self._over = self._over or message["last"]
                        self._answers[message["go"]] = message["value"]
                    self._changed.notify_all()
        except (OSError, ValueError) as error:
            why = (
                f"nothing heard of it for {SILENCE:.0f} s"
                if isinstance(error, TimeoutError)
                else "killed, or its machine was taken away"
            )
            lost = (
                f"process {line.process} of {self.count} is gone ({why}), so the others cannot go "
                "on. The shards in the run folder are whole; the same command goes on from there "
                f"(exit status {EXIT_PREEMPTED})."
            )
            # Without process 0, JAX's service aborts this process within seconds.
            self._ended(End(line.process, EXIT_PREEMPTED, lost), line.process, line.process == 0)

    def _ended(self, end: End, heard_from: int, at_once: bool = False) -> None:
        with self._changed:
            if self._over or self.end is not None:
                return
            self.end = end
            self._changed.notify_all()
        self._tell({"end": dataclasses.asdict(end)}, but=heard_from)
        if at_once:
            self._end_at_once(end)
        threading.Thread(target=self._see_to_the_end, args=(end,), daemon=True).start()

    def _see_to_the_end(self, end: End) -> None:
        self._on_end()
        if not self._left.wait(GRACE):
            self._wait_for_others()
            self._end_at_once(end)

    def _wait_for_others(self) -> None:
        # Process 0 goes last: its end would have JAX abort the others.
        deadline = time.monotonic() + GRACE
        for reader in self._readers if self.index == 0 else []:
            reader.join(max(0.0, deadline - time.monotonic()))

    # ---- meeting and parting ------------------------------------------------------------------

    def meet(self, value: Any = None, last: bool = False) -> Any:
        """Waits until every process has come to its n-th meeting.

        Args:
          value: what process 0 has to say, anything that JSON can hold.
          last: nobody needs the others after this one.

        Returns:
          What process 0 said.

        Raises:
          RunEndedError: where another process has ended instead.
        """
        number, self._meeting = self._meeting, self._meeting + 1
        if self.index:
            self._tell({"arrive": number})
        with self._changed:
            while True:
                if self.end is not None:
                    raise RunEndedError(self.end)
                if self.index == 0 and self._arrived.get(number, 0) == self.count - 1:
                    self._over = self._over or last
                    break
                if number in self._answers:
                    return self._answers.pop(number)
                self._changed.wait()
        self._tell({"go": number, "value": value, "last": last})
        return value

    def verdict(self, seconds: float) -> End | None:
        """How the run ended elsewhere, as far as that is heard within some seconds."""
        deadline = time.monotonic() + seconds
        with self._changed:
            while self.end is None and (left := deadline - time.monotonic()) > 0:
                self._changed.wait(left)
            return self.end

    def leave(self, status: int = 0, why: str = "") -> None:
        """The last word of this process: 0 after the last meeting, otherwise how it ended."""
        with self._changed:
            over, self._over = self._over or self.end is not None, True
        self._left.set()
        if status and not over:
            self._tell({"end": dataclasses.asdict(End(self.index, status, why))})
        if status:
            time.sleep(0.3)  # a connection that closes on unread beats may lose the last word
            self._wait_for_others()
