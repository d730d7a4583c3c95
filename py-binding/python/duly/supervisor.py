"""Worker processes: starts them, replaces the dead, passes signals on.

`duly worker --processes` is made of it. `Supervisor` is for programs that start processes of their own, and `ready` for
those processes.
"""

from __future__ import annotations

import logging
import math
import os
import select
import signal
import subprocess
import sys
import threading
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from duly import _links
from duly._core import Supervision, _occupy_standard_streams
from duly._misuse import refuse_while_importing
from duly._runs import log_safely
from duly._supervised import READY, VARIABLE, ready
from duly.errors import InvalidArgumentError, UnsupportedError

__all__ = ["Supervisor", "ready"]

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import FrameType

_log = partial(log_safely, logger=logging.getLogger("duly.supervisor"))

FAILED = 1
"""Exit status of a worker that met an error which waiting does not cure: a new one would meet it too."""
USAGE = 2
"""Exit status after a wrong command line."""
STOPS = Supervision.stop_signals()
"""The signals that stop a worker."""
RELOADS = Supervision.reload_signals()
"""At these all processes are replaced, one by one."""

_LOOK_S = 0.5
"""How often it checks source files, with `reload`."""
_LONGEST_SLEEP_S = 3600.0


@dataclass
class _Child:
    """One of the worker processes, and the line on which it speaks."""

    process: subprocess.Popen[bytes]
    line: int
    speaks: bool = True


class Supervisor:
    """Keeps a number of worker processes running until it is asked to stop.

    ```python
    sys.exit(duly.Supervisor([sys.executable, "worker.py"], 4).run())
    ```

    A process that dies is replaced: at once, or after a pause that grows to ten seconds when it lived for less than
    that, or ended before it was ready. SIGTERM, SIGINT and SIGQUIT are passed on, a second one too; what has not ended
    fifteen seconds after the grace, or after the second signal, is killed. At SIGHUP and SIGUSR2 the processes are
    replaced one after the other. If the shell (PWD), or an absolute path of the command, names the current folder by a
    link, a new process starts where that leads by then, and its command has the link as well. A process with a
    permanent error, such as a wrong password at the start, stops all. With `reload`, all are restarted when a Python
    file below the current folder changes. As the first process of a container it also waits for processes whose own
    parent has ended, and for other children of the program.

    A process in which `Worker.run` runs on the main thread needs to do nothing for that. Any other one calls
    `duly.supervisor.ready()` when it is ready for jobs, and ends when SIGTERM comes, or when the supervisor dies. The
    command must be the program itself: of a shell around it, write `exec`.
    """

    _holds_signals = False
    """Whether the processes start with the signals blocked, and let them in as soon as they can take them."""

    def __init__(
        self,
        command: Sequence[str],
        processes: int,
        *,
        grace: float | timedelta = 30.0,
        reload: bool = False,
    ) -> None:
        """Take the command line of one process.

        Args:
            command: the program and its arguments, such as `[sys.executable, "worker.py"]`.
            processes: how many of them, 1 to 10,000.
            grace: how long running handlers may go on after a signal, in seconds or as a timedelta, at most 24 h: at
                least that of the workers. Default: 30 s.
            reload: for development: start all again when a Python file below the current folder changes. Default:
                False.

        Raises:
            InvalidArgumentError: one of these is wrong.
            UnsupportedError: the system has no signals (Windows).

        """
        if not hasattr(signal, "pthread_sigmask"):
            raise UnsupportedError("a supervisor does not run on this system (Windows): use Linux, macOS or WSL")
        self._command = _checked(command)
        self._supervision = Supervision(processes, grace=grace, has_terminal=os.isatty(0), await_changes=reload)
        self._children: dict[int, _Child] = {}  # by their slots
        self._sources = _sources() if reload else None
        self._signals: list[int] = []
        self._has_started = False
        self._folder: str | None = None
        """Where processes start, by the link to it, if there is one."""

    def run(self) -> int:
        """Run until a signal stops it; return the exit status: the largest with which a process ended after the stop.

        It handles signals, so it runs on the main thread.

        Raises:
            InvalidArgumentError: it is on another thread, or there is no such program.

        """
        refuse_while_importing("run a supervisor")
        if threading.current_thread() is not threading.main_thread():
            raise InvalidArgumentError("a supervisor handles signals: run it on the main thread")
        _occupy_standard_streams()  # otherwise the pipe that wakes it could be 0 to 2
        if links := _links.to_here([*self._command, *getattr(sys, "argv", []), sys.executable]):
            here = str(Path.cwd())
            self._folder = by_link if (by_link := links.renamed(here)) != here else None
            self._command = [links.renamed(word) for word in self._command]
        with self._wakeups() as wakeup:
            while (status := self._supervision.exit_code()) is None:
                self._look_at_sources()
                while (slot := self._supervision.start()) is not None:
                    self._start(slot)
                self._send()
                self._log()
                _wait([wakeup, *(child.line for child in self._children.values() if child.speaks)], self._sleep())
                with _ignored(BlockingIOError):
                    os.read(wakeup, 4096)
                for slot, child in self._children.items():
                    self._hear(slot, child)
                while self._signals:
                    self._supervision.signal(self._signals.pop(0))
                self._reap()
            self._log()
            return status

    def _start(self, slot: int) -> None:
        try:
            process, line = _start(self._command, self._folder, self._holds_signals)
        except OSError as error:
            if isinstance(error, (FileNotFoundError, NotADirectoryError, PermissionError)) and not self._has_started:
                raise InvalidArgumentError(f"the command cannot be started: {error}") from error
            self._supervision.not_started(slot, str(error))
        else:
            self._has_started = True
            self._supervision.started(slot, process.pid)
            self._children[slot] = _Child(process, line)

    def _send(self) -> None:
        for slot, number in self._supervision.signals():
            self._children[slot].process.send_signal(number)

    def _log(self) -> None:
        for level, line in self._supervision.lines():
            _log(level, "%s", line)

    def _hear(self, slot: int, child: _Child) -> None:
        words = _heard(child.line)
        # A process that closes its line goes on, in silence.
        child.speaks = words != b""
        for word in (words or b"").splitlines():
            if word == READY:
                self._supervision.ready(slot)
            else:
                self._supervision.ends(slot, word.decode("ascii", "replace"))

    def _reap(self) -> None:
        for slot, child in list(self._children.items()):
            if (status := child.process.poll()) is None:
                continue
            self._hear(slot, child)
            os.close(child.line)
            del self._children[slot]
            self._supervision.ended(slot, status)
        if os.getpid() == 1:
            self._reap_those_of_others()

    def _reap_those_of_others(self) -> None:
        """As the first process of a container, let those end whose own parent has: nobody else asks how they ended."""
        ours = {child.process.pid for child in self._children.values()}
        with suppress(ChildProcessError):
            # One that has ended stays first in line until it is asked for: one of ours is in the next turn.
            while (ended := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)) and ended.si_pid not in ours:
                os.waitpid(ended.si_pid, os.WNOHANG)

    def _look_at_sources(self) -> None:
        if self._sources is None or (found := _sources()) == self._sources:
            return
        self._sources = found
        self._supervision.code_changed()

    def _sleep(self) -> float | None:
        """Seconds to the next thing to do besides signals, deaths and words; None if there is none."""
        wait = self._supervision.wait()
        if self._sources is not None:
            return _LOOK_S if wait is None else min(wait, _LOOK_S)
        return None if wait is None else min(wait, _LONGEST_SLEEP_S)

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
        before = {number: signal.signal(number, handle) for number in (*STOPS, *RELOADS, signal.SIGCHLD)}
        try:
            yield read
        finally:
            signal.set_wakeup_fd(before_fd)
            for number, handler in before.items():
                signal.signal(number, signal.SIG_DFL if handler is None else handler)
            for child in self._children.values():
                child.process.terminate()
            os.close(read)
            os.close(write)


def _wait(descriptors: Sequence[int], seconds: float | None) -> None:
    """Wait until one can be read. Not by `select`: that takes none from 1,024 on."""
    poll = select.poll()
    for descriptor in descriptors:
        poll.register(descriptor, select.POLLIN)
    poll.poll(None if seconds is None else math.ceil(seconds * 1000))


def _start(command: Sequence[str], folder: str | None, holds_signals: bool) -> tuple[subprocess.Popen[bytes], int]:
    """Start a process; give it, and a descriptor from which `_heard` reads what it has said.

    It starts in the current folder, or in this one.
    With `holds_signals`, signals wait until it lets them in: before that Python would raise, or end.
    """
    line, says = os.pipe()  # first: it may fail
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, (*STOPS, *RELOADS) if holds_signals else ())
    try:
        environment = {**os.environ, VARIABLE: f"{os.getpid()}:{says}"}
        if folder is not None:
            environment["PWD"] = folder
        # Its own session: Ctrl-C in a terminal goes to the supervisor alone, which passes it on once.
        process = subprocess.Popen(command, cwd=folder, start_new_session=True, pass_fds=[says], env=environment)
    except BaseException:
        os.close(line)
        raise
    finally:
        os.close(says)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    # A child of its own may hold the other end.
    os.set_blocking(line, False)
    return process, line


def _checked(command: Sequence[str]) -> list[str]:
    """Give the command as a list. A text would be taken for its letters."""
    words = [] if isinstance(command, str | bytes) else list(command)
    if not words or not all(isinstance(word, str | os.PathLike) for word in words):
        raise InvalidArgumentError("command must be a list of texts, such as [sys.executable, 'worker.py']")
    return [os.fsdecode(word) for word in words]


def _heard(line: int) -> bytes | None:
    """Give what a process has said since the last call of this; None if nothing, nothing if it has closed its line."""
    with _ignored(BlockingIOError):
        return os.read(line, 4096)
    return None


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
