"""Worker processes: starts them, replaces the dead, passes signals on."""

from __future__ import annotations

import logging
import os
import select
import signal
import subprocess
import time
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from duly._core import Supervision
from duly._runs import log_safely
from duly.worker import SIGNALS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import FrameType

_log = partial(log_safely, logger=logging.getLogger("duly.supervisor"))

FAILED = 1
"""Exit status of a worker that met an error which no waiting heals: a new one would meet it too."""
USAGE = 2
"""Exit status after a wrong command line."""
READY = b"ready\n"
"""What a supervised process says on its line when it begins to work."""
FATAL = b"fatal\n"
"""What it says of an error that a new one would meet too: a handler may end it with any exit status."""
STOPS = SIGNALS
"""The signals that stop a worker."""

_LOOK_S = 0.5
"""How often it looks at source files, with `reload`, and at processes that were killed."""
_LONGEST_SLEEP_S = 3600.0


class _Child:
    """One of the worker processes, and those that came before it."""

    def __init__(self) -> None:
        self.process: subprocess.Popen[bytes] | None = None
        self.line = -1
        self.started = 0.0
        self.start_at = 0.0
        self.reloads_since: float | None = None
        self.young_deaths = 0


class Supervisor:
    """Keeps a number of worker processes running until it is asked to stop.

    A process that dies is replaced: at once, or after a pause that grows to ten seconds when it lived for less than
    that, or ended before it was ready. SIGTERM, SIGINT and SIGQUIT are passed on, a second one too; what has not ended
    fifteen seconds after the grace, or after the second signal, is killed. With `reload`, processes are restarted when
    a Python file below the current folder changes.
    """

    def __init__(self, command: Sequence[str], processes: int, *, grace: float, reload: bool = False) -> None:
        """Take the command line of one process."""
        self._command = list(command)
        self._children = [_Child() for _ in range(processes)]
        self._grace = grace
        self._sources = _sources() if reload else None
        self._signals: list[int] = []
        self._asked: list[float] = []  # to stop, and when
        self._status = 0
        self._began = time.monotonic()
        self._one_ended_well = False

    def run(self) -> int:
        """Give the exit status: the largest of those with which the processes ended after a stop."""
        with self._wakeups() as wakeup:
            while True:
                self._handle_signals()
                self._reap()
                now = time.monotonic()
                if not self._asked:
                    self._look_at_sources()
                    self._start_missing(now)
                elif not any(child.process for child in self._children):
                    return self._status
                self._kill_late(now)
                select.select([wakeup], [], [], self._sleep(now))
                with _ignored(BlockingIOError):
                    os.read(wakeup, 4096)

    def _start_missing(self, now: float) -> None:
        for child in self._children:
            if child.process is None and now >= child.start_at:
                child.started = now
                try:
                    child.process, child.line = _start(self._command)
                except OSError as error:
                    child.start_at = now + Supervision.after_no_process()
                    _log(logging.ERROR, "the system gives no process, trying again: %s", error)

    def _reap(self) -> None:
        for child in self._children:
            if child.process is None or (status := child.process.poll()) is None:
                continue
            pid, child.process = child.process.pid, None
            said = _heard(child.line)
            was_ready = READY in said
            now = time.monotonic()
            lived = now - child.started
            code, after, young_deaths = Supervision.after_exit(
                status,
                is_fatal=FATAL in said and self._sources is None,
                was_ready=was_ready,
                lived=lived,
                young_deaths=child.young_deaths,
                began_after=child.started - self._began,
                one_ended_well=self._one_ended_well,
                is_stopping=bool(self._asked),
            )
            self._one_ended_well |= status == 0 and was_ready
            if code is not None:
                self._status = max(self._status, code)
                if not self._asked:
                    what = "worker process %d met an error that no other process would be spared: all stop"
                    _log(logging.ERROR, what, pid)
                    self._stop(signal.SIGTERM)
                continue
            if child.reloads_since is not None:
                child.reloads_since, child.young_deaths, child.start_at = None, 0, 0.0
                continue
            child.young_deaths, child.start_at = young_deaths, now + after
            if status == 0 and was_ready:
                _log(logging.DEBUG, "worker process %d has run its jobs; another starts", pid)
            elif self._sources is not None and status >= 0 and young_deaths > 0:
                child.start_at = float("inf")
                _log(logging.ERROR, "worker process %d ended with status %d; waiting for a file to change", pid, status)
            else:
                how = f"was killed by signal {-status}" if status < 0 else f"ended with status {status}"
                how = "ended before it was ready" if status == 0 else how
                what = "worker process %d %s after %.1f s; another starts in %.1f s"
                _log(logging.WARNING, what, pid, how, lived, after)

    def _handle_signals(self) -> None:
        while self._signals:
            self._stop(self._signals.pop(0))

    def _stop(self, number: int) -> None:
        self._asked.append(time.monotonic())
        self._send_all(number)

    def _send_all(self, number: int) -> None:
        for child in self._children:
            if child.process is not None:
                child.process.send_signal(number)

    def _kill_late(self, now: float) -> None:
        for child in self._children:
            if child.process is not None and self._time_left(child, now) == 0.0:
                _log(logging.ERROR, "worker process %d did not end within its grace and is killed", child.process.pid)
                child.process.kill()

    def _time_left(self, child: _Child, now: float) -> float | None:
        """Give the seconds until it is killed; None if it was not asked to end."""
        asked = self._asked or ([] if child.reloads_since is None else [child.reloads_since])
        if not asked:
            return None
        return Supervision.time_left(self._grace, now - asked[0], now - asked[1] if len(asked) > 1 else None)

    def _look_at_sources(self) -> None:
        if self._sources is None or (found := _sources()) == self._sources:
            return
        self._sources = found
        _log(logging.INFO, "a Python file has changed: the workers start again")
        for child in self._children:
            child.start_at = 0.0
            if child.process is not None:
                child.reloads_since = time.monotonic()
                child.process.terminate()

    def _sleep(self, now: float) -> float | None:
        """Seconds to the next thing to do besides signals and deaths; None if there is none."""
        waits = [child.start_at - now for child in self._children if child.process is None and not self._asked]
        left = [self._time_left(child, now) for child in self._children if child.process is not None]
        # What was killed is gone as soon as the system can.
        waits += [seconds or _LOOK_S for seconds in left if seconds is not None]
        if self._sources is not None and not self._asked:
            waits.append(_LOOK_S)
        soonest = min(waits, default=float("inf"))
        return None if soonest == float("inf") else min(max(0.0, soonest), _LONGEST_SLEEP_S)

    @contextmanager
    def _wakeups(self) -> Iterator[int]:
        """Give a descriptor that can be read when a signal came or a process died."""

        def handle(number: int, _frame: FrameType | None) -> None:
            if number != signal.SIGCHLD:
                self._signals.append(number)

        read, write = os.pipe()
        os.set_blocking(read, False)
        os.set_blocking(write, False)
        before_fd = signal.set_wakeup_fd(write, warn_on_full_buffer=False)
        before = {number: signal.signal(number, handle) for number in (*STOPS, signal.SIGCHLD)}
        try:
            yield read
        finally:
            signal.set_wakeup_fd(before_fd)
            for number, handler in before.items():
                signal.signal(number, signal.SIG_DFL if handler is None else handler)
            self._send_all(signal.SIGTERM)
            os.close(read)
            os.close(write)


def _start(command: Sequence[str]) -> tuple[subprocess.Popen[bytes], int]:
    """Start a process in which signals that stop it wait until it lets them in: before that Python would raise.

    Give it, and a descriptor from which `_heard` reads what it has said.
    """
    line, says = os.pipe()  # first: it may fail
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, STOPS)
    try:
        # Its own session: Ctrl-C in a terminal goes to the supervisor alone, which passes it on once.
        command = [*command, "--supervisor-line", str(says)]
        process = subprocess.Popen(command, start_new_session=True, pass_fds=[says])
    except BaseException:
        os.close(line)
        raise
    finally:
        os.close(says)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    # A child of its own may hold the other end.
    os.set_blocking(line, False)
    return process, line


def say(line: int, words: bytes) -> None:
    """Tell the supervisor, from one of its processes; a supervisor that is gone needs to know nothing."""
    with _ignored(OSError):
        os.write(line, words)


def _heard(line: int) -> bytes:
    """Give all that a process which has ended had said."""
    try:
        return os.read(line, 4096)
    except BlockingIOError:
        return b""
    finally:
        os.close(line)


@contextmanager
def _ignored(kind: type[BaseException]) -> Iterator[None]:
    try:
        yield
    except kind:
        return


def _sources() -> dict[str, int]:
    """Every Python file below the current folder with the time it was written, but for hidden and installed ones."""
    found = {}
    for folder, folders, files in os.walk(Path.cwd()):
        folders[:] = [name for name in folders if not name.startswith(".") and name not in ("node_modules", "venv")]
        if "pyvenv.cfg" in files:
            folders.clear()
            continue
        for name in files:
            if name.endswith(".py"):
                path = os.path.join(folder, name)  # noqa: PTH118 - thousands of them, twice a second
                with _ignored(OSError):  # it is gone, or a link that leads nowhere or to itself
                    found[path] = os.stat(path).st_mtime_ns  # noqa: PTH116
    return found
