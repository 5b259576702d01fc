"""Several processes, one run: they find one another, wait for one another and end together.

A process alone is the plain case, and costs nothing.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import logging
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from mlm_consistency.cli.preemption import EXIT_PREEMPTED, Preempted
from mlm_consistency.cli.process_config import ProcessConfig, add_flags, process_config
from mlm_consistency.cli.roll_call import End, RollCall, RunEndedError
from mlm_consistency.errors import ConfigError, MlmConsistencyError

__all__ = ["ProcessConfig", "Processes", "add_flags", "process_config", "start"]

log = logging.getLogger(__name__)

# JAX's own patience with a silent process, in seconds; ours (SILENCE) comes first.
HEARTBEAT_TIMEOUT = 55
# Seconds; pods of one job start minutes apart where an image has to be fetched.
START_TIMEOUT = 600
# Seconds that a failed collective waits for the news that its partner is gone.
NEWS = 5.0


class Processes:
    """The processes of a run as one of them sees them.

    Attributes:
      index: number of this one; 0 prints, and writes what is written once.
      count: how many.
      stop: set when the run shall end: SIGTERM here, or another process that has ended.
    """

    def __init__(self, index: int = 0, count: int = 1) -> None:
        self.index, self.count = index, count
        self.stop = threading.Event()
        self.roll_call: RollCall | None = None

    @property
    def leads(self) -> bool:
        """Whether this is process 0."""
        return self.index == 0

    @property
    def end(self) -> End | None:
        """How another process ended the run, once one has."""
        return self.roll_call.end if self.roll_call else None

    def say(self, text: str) -> None:
        """Prints a line of information on stderr, once for all processes."""
        if self.leads:
            print(text, file=sys.stderr, flush=True)

    def meet(self, value: Any = None) -> Any:
        """Waits for all processes; returns what process 0 gave (anything that JSON can hold).

        Raises:
          RunEndedError: where another process has ended.
        """
        return self.roll_call.meet(value) if self.roll_call else value

    def run(self, work: Callable[[], int]) -> int:
        """Does the work of this process and ends together with the others.

        Returns:
          The exit status: of the process that ended first, where one did not end well.
        """
        if self.roll_call is None:
            return work()
        try:
            status = work()
            if not status:
                self.roll_call.meet(last=True)
        except RunEndedError as error:
            return self._ended_elsewhere(error.end)
        except BaseException as error:
            # A collective whose partner is gone fails before the news of it is here.
            unexpected = not isinstance(
                error, MlmConsistencyError | Preempted | KeyboardInterrupt | SystemExit
            )
            end = self.roll_call.verdict(NEWS if unexpected else 0.0)
            if end is not None:
                log.info("after the end of process %d: %r", end.process, error)
                return self._ended_elsewhere(end)
            self._leave(*_last_words(error, self.index))
            raise
        if status:
            end = self.roll_call.verdict(0.0)
            if end is not None:
                return self._ended_elsewhere(end)
            stopped = status == EXIT_PREEMPTED
            why = _last_words(Preempted(), self.index)[1] if stopped else f"status {status}"
            self._leave(status, why)
            return status
        import jax

        jax.distributed.shutdown()
        self._leave(0, "")
        return 0

    def _ended_elsewhere(self, end: End) -> int:
        print(f"mlm-consistency: {end.why}", file=sys.stderr, flush=True)
        self._leave(end.status, end.why)
        return end.status

    def _leave(self, status: int, why: str) -> None:
        assert self.roll_call is not None
        if status:
            # JAX would wait minutes at exit for processes that are gone, and then abort.
            atexit.register(_end_without_waiting, status)
        self.roll_call.leave(status, why)


def _last_words(error: BaseException, index: int) -> tuple[int, str]:
    if isinstance(error, Preempted):
        return EXIT_PREEMPTED, (
            f"process {index} was stopped by SIGTERM; the same command goes on from the last "
            f"whole shard (exit status {EXIT_PREEMPTED})"
        )
    status = getattr(error, "exit_status", 2) if isinstance(error, MlmConsistencyError) else 1
    if isinstance(error, KeyboardInterrupt):
        status = 130
    text = str(error) if isinstance(error, MlmConsistencyError) else repr(error)
    return status, f"process {index} on {socket.gethostname()} failed: {text}"


def _end_without_waiting(status: int) -> None:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(status)


def start(config: ProcessConfig) -> Processes:
    """Brings the processes of a run together. Must come before JAX looks for devices.

    Raises:
      ConfigError: where the environment does not say who they are.
      RunEndedError: where they have not found one another in time; status 75, since a machine may
        only be late.
    """
    if not config.several:
        return Processes()
    import jax

    # SIGTERM is ours; JAX's service would take it.
    jax.config.update("jax_enable_preemption_service", False)
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    team = Processes()
    try:
        if not _in_time(lambda: _join(config, team), START_TIMEOUT):
            late = (
                f"the processes have not come together within {START_TIMEOUT} s "
                f"({config.described}). Start as many as --num_processes says, each with its own "
                "--process_id, and let them reach process 0 at --coordinator_address (exit status "
                f"{EXIT_PREEMPTED})."
            )
            raise RunEndedError(End(team.index, EXIT_PREEMPTED, late))
    except BaseException as error:
        atexit.register(_end_without_waiting, _last_words(error, team.index)[0])
        raise
    if not team.leads:
        # What is said of the data is the same everywhere.
        logging.getLogger("mlm_consistency").setLevel(logging.ERROR)
    return team


def _in_time(work: Callable[[], None], seconds: float) -> bool:
    """Whether something is done in time that may wait outside Python, where SIGTERM is not heard.

    Raises:
      Whatever the work raises.
    """
    failed: list[BaseException] = []

    def caught() -> None:
        try:
            work()
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=caught, daemon=True)
    thread.start()
    deadline = time.monotonic() + seconds
    while thread.is_alive() and time.monotonic() < deadline:
        thread.join(0.2)
    if failed:
        raise failed[0]
    return not thread.is_alive()


def _join(config: ProcessConfig, team: Processes) -> None:
    import jax

    try:
        jax.distributed.initialize(
            config.coordinator_address,
            config.num_processes,
            config.process_id,
            cluster_detection_method=config.found_by or "deactivate",
            initialization_timeout=2 * START_TIMEOUT,  # it would abort the process
            heartbeat_timeout_seconds=HEARTBEAT_TIMEOUT,
        )
    except jax.errors.JaxRuntimeError as error:
        raise _broken_off(config, error) from error
    except (RuntimeError, ValueError, OSError) as error:
        raise ConfigError(
            f"the processes did not come together ({config.described}): {error}. Say who they are "
            "with --coordinator_address, --num_processes and --process_id. (A machine alone that "
            "looks like one of several: localhost:8482, 1 and 0.)"
        ) from error
    # Nothing public says who we are without looking for devices.
    from jax._src.distributed import global_state

    index, count = global_state.process_id, global_state.num_processes
    if count == 1:
        return
    team.index, team.count = index, count
    roll_call = RollCall(index, count, team.stop.set)
    # The port of the roll call travels through JAX's service, which every process has reached.
    key = "mlm_consistency/roll_call"
    client: Any = global_state.client
    host = str(global_state.coordinator_address).rpartition(":")[0]
    try:
        if index == 0:
            listener, port = roll_call.listen()
            client.key_value_set(key, str(port))
            roll_call.accept(listener)
        else:
            _delay_aborts()
            port = int(client.blocking_key_value_get(key, 2000 * START_TIMEOUT))
            roll_call.call(host.strip("[]"), port)
    except jax.errors.JaxRuntimeError as error:
        raise _broken_off(config, error) from error
    team.roll_call = roll_call


def _broken_off(config: ProcessConfig, error: Exception) -> RunEndedError:
    """What JAX's service says where a process that it waits for is killed, or is silent."""
    why = (
        f"the processes did not come together ({config.described}), most likely because one was "
        f"killed while starting: {error} (exit status {EXIT_PREEMPTED})"
    )
    return RunEndedError(End(config.process_id or 0, EXIT_PREEMPTED, why))


def _delay_aborts() -> None:
    """Gives the roll call time to end this process before JAX aborts it.

    JAX's service aborts a process as soon as process 0 is gone, with a status that is no "start
    again". C's `sleep` as the handler of SIGABRT is called with the signal's number, 6: the thread
    that aborts sleeps six seconds, and then does abort.
    """
    with contextlib.suppress(OSError, AttributeError):
        c = ctypes.CDLL(None)
        c.signal.argtypes, c.signal.restype = [ctypes.c_int, ctypes.c_void_p], ctypes.c_void_p
        c.signal(signal.SIGABRT, ctypes.cast(c.sleep, ctypes.c_void_p))
