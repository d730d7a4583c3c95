"""Worker processes: starts them, replaces the dead, passes signals on."""

from __future__ import annotations

import logging
import os
import random
import select
import signal
import subprocess
import time
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from duly._runs import log_safely
from duly.worker import SIGNALS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import FrameType

log = logging.getLogger("duly.supervisor")
_log = partial(log_safely, logger=log)

FAILED = 1
"""Exit status of a worker that met an error which no waiting heals: a new one would meet it too."""
USAGE = 2
"""Exit status after a wrong command line."""
STUCK = 124
"""Exit status of a worker with a handler that had to end and could not be interrupted."""
OUT_OF_GRACE = 142
"""Exit status of a worker whose grace ended before its handlers."""
FATAL = {FAILED: 121, USAGE: 122}
"""What a supervised process says for these two: a new one would end like it."""
_BY_SIGNAL = 128
STOPS = SIGNALS
"""The signals that stop a worker."""

_QUICK_S = 5.0
"""A process that lived shorter than this is replaced after a pause that grows."""
_FIRST_PAUSE_S = 0.5
_LONGEST_PAUSE_S = 30.0
_RECYCLE_S = 0.1
"""Processes that end as they should are replaced this often at the most."""
_LOOK_S = 0.5
"""How often source files are looked at, with `reload`."""
_KILL_AFTER_GRACE_S = 10.0


class _Child:
    """One of the worker processes, and those that came before it."""

    def __init__(self) -> None:
        self.process: subprocess.Popen[bytes] | None = None
        self.started = 0.0
        self.start_at = 0.0
        self.reloads_since: float | None = None
        self.pause = _FIRST_PAUSE_S


class Supervisor:
    """Keeps a number of worker processes running until it is asked to stop.

    A process that dies is replaced: at once, or after a growing pause when it lived for less than five seconds.
    SIGTERM, SIGINT and SIGQUIT are passed on, a second one too; what has not ended ten seconds after the grace is
    killed. With `reload`, processes are restarted when a Python file below the current folder changes.
    """

    def __init__(self, command: Sequence[str], processes: int, *, grace: float, reload: bool = False) -> None:
        """Take the command line of one process."""
        self._command = list(command)
        self._children = [_Child() for _ in range(processes)]
        self._grace = grace
        self._sources = _sources() if reload else None
        self._signals: list[int] = []
        self._stopping_since: float | None = None
        self._status = 0

    def run(self) -> int:
        """Give the exit status: the largest of those with which the processes ended after a stop."""
        log.disabled = False  # see `Runs`
        with self._wakeups() as wakeup:
            while True:
                self._handle_signals()
                self._reap()
                now = time.monotonic()
                if self._stopping_since is None:
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
                child.process = _start(self._command)
                child.started = now

    def _reap(self) -> None:
        for child in self._children:
            if child.process is None or (status := child.process.poll()) is None:
                continue
            pid, child.process = child.process.pid, None
            fatal = next((word for word, said in FATAL.items() if said == status), None)
            if fatal is not None and self._sources is None:
                _log(
                    logging.ERROR, "worker process %d met an error that no other process would be spared: all stop", pid
                )
                status = fatal
                self._stop(signal.SIGTERM)
            if self._stopping_since is not None:
                # By such a signal itself ends only who was not ready for it, and so had no job.
                self._status = max(
                    self._status, status if status >= 0 else 0 if -status in STOPS else _BY_SIGNAL - status
                )
                continue
            lived = time.monotonic() - child.started
            if child.reloads_since is not None:
                child.reloads_since, child.pause, child.start_at = None, _FIRST_PAUSE_S, 0.0
                continue
            if self._sources is not None and status > 0 and lived < _QUICK_S:
                _log(logging.ERROR, "worker process %d ended with status %d; waiting for a file to change", pid, status)
                child.start_at = float("inf")
                continue
            if status == 0:
                child.pause, child.start_at = _FIRST_PAUSE_S, time.monotonic() + max(0.0, _RECYCLE_S - lived)
                _log(logging.DEBUG, "worker process %d has run its jobs; another starts", pid)
                continue
            child.pause = min(child.pause * 2, _LONGEST_PAUSE_S) if lived < _QUICK_S else _FIRST_PAUSE_S
            pause = child.pause * random.uniform(0.5, 1.0) if lived < _QUICK_S else 0.0
            child.start_at = time.monotonic() + pause
            how = f"was killed by signal {-status}" if status < 0 else f"ended with status {status}"
            _log(logging.WARNING, "worker process %d %s after %.1f s; another starts in %.1f s", pid, how, lived, pause)

    def _handle_signals(self) -> None:
        while self._signals:
            self._stop(self._signals.pop(0))

    def _stop(self, number: int) -> None:
        if self._stopping_since is None:
            self._stopping_since = time.monotonic()
        self._send_all(number)

    def _send_all(self, number: int) -> None:
        for child in self._children:
            if child.process is not None:
                child.process.send_signal(number)

    def _kill_late(self, now: float) -> None:
        for child in self._children:
            since = child.reloads_since if self._stopping_since is None else self._stopping_since
            if child.process is not None and since is not None and now - since > self._grace + _KILL_AFTER_GRACE_S:
                _log(logging.ERROR, "worker process %d did not end within its grace and is killed", child.process.pid)
                child.process.kill()

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
        moments = [child.start_at for child in self._children if child.process is None and self._stopping_since is None]
        if self._stopping_since is not None:
            moments.append(self._stopping_since + self._grace + _KILL_AFTER_GRACE_S + 0.1)
        elif self._sources is not None:
            moments.append(now + _LOOK_S)
        soonest = min(moments, default=float("inf"))
        return None if soonest == float("inf") else max(0.0, soonest - now)

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


def _start(command: Sequence[str]) -> subprocess.Popen[bytes]:
    """Start a process in which signals that stop it wait until it lets them in: before that Python would raise."""
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, STOPS)
    try:
        # Its own session: Ctrl-C in a terminal goes to the supervisor alone, which passes it on once.
        return subprocess.Popen(command, start_new_session=True)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


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
                with _ignored(FileNotFoundError):
                    found[path] = os.stat(path).st_mtime_ns  # noqa: PTH116
    return found
