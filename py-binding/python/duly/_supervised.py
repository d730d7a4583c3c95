"""What a process says to the supervisor that has started it: that it is ready for jobs, or why it ends."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from duly._core import Supervision

VARIABLE = "DULY_SUPERVISED"
"""Tells a process who supervises it: `<the supervisor's process id>:<the descriptor on which this one speaks>`."""
READY = b"ready"
"""It begins to work."""
FATAL = b"fatal"
"""It ends for an error that a new one would meet too: a handler may end it with any exit status."""
REFUSED = b"refused"
"""It ends because the app cannot be imported."""


class _Line(NamedTuple):
    """Where this process speaks."""

    owner: int
    descriptor: int


_line: _Line | None = None


def join() -> bool:
    """Find out whether a supervisor has started this process; from then on it ends with it, and leaves reloads to it.

    What this process starts has another supervisor, or none. If the supervisor is gone already, the process ends.
    """
    global _line
    given = os.environ.pop(VARIABLE, None)
    if given is None:
        return _line is not None and _line.owner == os.getpid()
    parent, descriptor = (int(number) for number in given.split(":"))
    if os.getppid() != parent:
        if _is_gone(parent):
            sys.exit(0)
        return False  # what has started this process does not supervise it
    _end_with_parent(parent)
    _leave_reloads_to_parent()
    os.set_inheritable(descriptor, False)
    _line = _Line(os.getpid(), descriptor)
    return True


def say(word: bytes) -> None:
    """Tell the supervisor, if there is one; a supervisor that is gone needs to know nothing."""
    if join() and _line is not None:
        with suppress(OSError):
            os.write(_line.descriptor, word + b"\n")


def is_fatal(error: Exception) -> bool:
    """Tell whether every other process would meet it: not if a function of `on_start` has raised it."""
    return not vars(error).get("_duly_raised_by_program", False)


def raised_by_program(error: Exception) -> None:
    """Note that a function of `on_start` has raised it."""
    vars(error)["_duly_raised_by_program"] = True


def ready() -> None:
    """Tell the `duly.Supervisor` that has started this process that it is ready for jobs; do nothing without one.

    `Worker.run` on the main thread does so by itself, behind its `on_start` functions. Any other program calls it when
    it handles signals: before, it is ended by SIGTERM whatever signal the supervisor gets, and no reload goes on to the
    next process.
    """
    say(READY)


def _is_gone(parent: int) -> bool:
    """Tell whether that process has ended; also when nobody has asked yet how it did."""
    try:
        os.kill(parent, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    try:
        state = Path(f"/proc/{parent}/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()[0]
    except OSError:
        return False  # macOS has no such file
    return state in ("Z", "X")


def _leave_reloads_to_parent() -> None:
    """Do nothing at signals that are for the supervisor.

    `systemctl kill` sends them to all. By a handler, not by SIG_IGN, which programs that this one starts would inherit.
    """
    with suppress(ValueError):  # this is not the main thread
        reloads = Supervision.reload_signals()
        for number in reloads:
            signal.signal(number, lambda *_: None)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, reloads)


def _end_with_parent(parent: int) -> None:
    """Ask the system for SIGTERM when the supervisor dies, however it dies."""
    if sys.platform == "linux":
        set_death_signal = 1
        ctypes.CDLL(None).prctl(set_death_signal, signal.SIGTERM)
    if os.getppid() != parent:
        sys.exit(0)
