"""Raises an exception in a loop of Python that calls nothing, in the thread that runs it. From Python 3.12 on.

What is set for a thread from outside comes there only where the loop begins again, and then Python runs no `finally`
and no end of a `with` around it: see `duly._places.SKIPS_AN_END`. What a callback of `sys.monitoring` raises comes at
the instruction that it is called for, as if that had raised it.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from duly._places import where_loops_begin

if TYPE_CHECKING:
    from types import CodeType

    from duly._core import Executor

_LOOKS, _BETWEEN_LOOKS_S = 20, 0.001
_TOOLS = (4, 3)
"""The numbers that Python has for tools without a purpose of their own."""

_lock = threading.Lock()
_watched: list[tuple[int, CodeType]] = []
"""The code whose steps are reported just now, and our number."""


def raise_in_loop(executor: Executor, run: int, thread: int, exception: type[BaseException], code: CodeType) -> bool:
    """Raise it in this run as soon as it is in a loop of the code, and say whether that was done, or soon is."""
    monitoring: Any = getattr(sys, "monitoring", None)
    begins = where_loops_begin(code)
    if monitoring is None or not begins:
        return False
    ticket = [exception]  # whoever takes it decides

    def step(_code: CodeType, offset: int) -> None:
        if offset in begins and threading.get_ident() == thread and executor.runs(run):
            with suppress(IndexError):
                raise ticket.pop()

    with _lock:
        tool = next(filter(partial(_is_free, monitoring), _TOOLS), None)
        if tool is None:
            return False
        try:
            _watched.append((tool, code))
            monitoring.register_callback(tool, monitoring.events.INSTRUCTION, step)
            monitoring.set_local_events(tool, code, monitoring.events.INSTRUCTION)
            for _ in range(_LOOKS):
                time.sleep(_BETWEEN_LOOKS_S)
                if not ticket:
                    break
        finally:
            _forget()
    try:
        ticket.pop()
    except IndexError:
        return True
    return False


def _is_free(monitoring: Any, tool: int) -> bool:
    try:
        monitoring.use_tool_id(tool, "duly")
    except ValueError:  # it is another's
        return False
    return True


def _forget() -> None:
    monitoring: Any = getattr(sys, "monitoring", None)
    while _watched:
        tool, code = _watched.pop()
        monitoring.set_local_events(tool, code, 0)
        monitoring.register_callback(tool, monitoring.events.INSTRUCTION, None)
        monitoring.free_tool_id(tool)


def _in_child() -> None:
    global _lock
    _lock = threading.Lock()
    _forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
