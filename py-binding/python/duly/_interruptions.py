"""Raises `JobInterrupted` in the threads of runs that must end, where that does no harm.

`worker/interruption.rs` says where that is. A run whose thread is elsewhere is put off, and looked at again soon.
"""

from __future__ import annotations

import logging
import math
import sys
import time
from typing import TYPE_CHECKING

from duly import _cut_short
from duly._failures import brief
from duly._places import Places
from duly._runs import log_safely
from duly._switches import frequent
from duly.outcomes import JobInterrupted

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from duly._core import Executor
    from duly._event_loop import EventLoop

_SOONEST_S, _LATEST_S = 0.001, 0.02
"""How soon a thread is looked at again that cannot be interrupted where it is; the longer that takes, the rarer."""
_LATE_S = 1.0
"""What was put off for so long is looked at often for a moment, the longer it waits the rarer."""
_LATE_LOOKS, _BETWEEN_LATE_LOOKS_S = 8, 0.0002
_MOST_TIMES = 8
"""As many times as many looks after so many seconds."""
_ROUND_S = 0.5
"""No longer: meanwhile nothing else is looked at."""
_AGAIN_S = 2.0
"""After so long a handler is interrupted once more that goes on, and has not begun to end."""
LOOK_S = 0.2
"""How often it is looked whether what was raised has led to anything."""
_HELD_S = 30.0
"""So long it may be ending where that cannot be seen, as long as what was raised is somewhere."""
_LAST_LOOKS_S = 2.0
"""So long handlers that could not be interrupted yet are looked at behind the end of the grace."""


class Interruptions:
    """The runs that are to end, or were interrupted and have not ended. For one thread."""

    def __init__(self, executors: Mapping[int, Executor], loop: EventLoop | None) -> None:
        """Take the executors by their numbers, and what interrupts runs that are in no thread."""
        self._executors = executors
        self._loop = loop
        self._places = Places()
        self._put_off: dict[int, tuple[int, float]] = {}
        """Of executors whose run could not be interrupted yet: that run, and since when."""
        self._raised: dict[int, _Raised] = {}
        """By executor what was raised in its run."""
        self._next_round = 0.0
        """When those that are late are looked at often."""

    def look_again_s(self) -> float | None:
        """Give after how many seconds to `look` again; None if nothing is to be looked at."""
        if self._put_off:
            return self._look_again_s()
        return LOOK_S if self._raised else None

    def interrupt(self, executor: Executor, run: int) -> None:
        """Interrupt this run, at once or soon."""
        raised = self._raised.get(executor.number)
        if raised is None or raised.run != run:
            raised = self._raised[executor.number] = _Raised(run)
        try:
            is_raised = executor.interrupt(run, raised.kind, self._places)
        except Exception as error:  # noqa: BLE001 - of code that cannot be read; other runs must end as well
            what = "where a handler is cannot be seen, so it is interrupted there: %s"
            log_safely(logging.ERROR, what, brief(error))
            is_raised = executor.interrupt(run, raised.kind, None)
        if is_raised is None:
            raised.look_at = math.inf
            before = self._put_off.get(executor.number)
            if before is None or before[0] != run:
                self._put_off[executor.number] = (run, time.monotonic())
            return
        self._put_off.pop(executor.number, None)
        if is_raised:
            raised.note()
            return
        del self._raised[executor.number]
        if self._loop is not None:
            self._loop.interrupt(executor.number)

    def look(self) -> None:
        """Look at all of them."""
        self._look_at_those_put_off()
        self._look_often()
        self._raise_again()

    def look_at_last(self) -> None:
        """Go on to look at those that could not be interrupted where they were: the program may go on behind `run`."""
        until = time.monotonic() + _LAST_LOOKS_S
        while self._put_off and time.monotonic() < until:
            time.sleep(self._look_again_s())
            self._look_at_those_put_off()
            self._look_often()

    def unended(self) -> Iterator[tuple[Executor, bool]]:
        """Give the executors whose run was interrupted and has not ended, and whether it cleans up."""
        for executor in self._executors.values():
            if executor.job is None or executor.interrupted is None:
                continue
            raised = self._raised.get(executor.number)
            if raised is None:
                yield executor, self._loop is not None and self._loop.has(executor.number)
            else:
                yield executor, executor.handles(raised.run, JobInterrupted) or raised.is_there(time.monotonic())

    def _look_at_those_put_off(self) -> None:
        for number, (run, _) in list(self._put_off.items()):
            self.interrupt(self._executors[number], run)

    def _look_often(self) -> None:
        """Look often at the runs that were put off for long, while their threads are made to be elsewhere, too."""
        now = time.monotonic()
        waited = [now - since for _, since in self._put_off.values() if now - since > _LATE_S]
        if not waited or now < self._next_round:
            return
        with frequent():
            for _ in range(_LATE_LOOKS * min(max(int(min(waited)), 1), _MOST_TIMES)):
                if time.monotonic() > now + _ROUND_S:
                    break
                time.sleep(_BETWEEN_LATE_LOOKS_S)
                for number, (run, since) in list(self._put_off.items()):
                    if now - since > _LATE_S:
                        self.interrupt(self._executors[number], run)
        self._next_round = time.monotonic() + min(max(min(waited) / 20, _LATEST_S), _LATE_S)

    def _raise_again(self) -> None:
        """Interrupt the runs once more where C code has dropped what was raised, as in the `finally` of a generator."""
        now = time.monotonic()
        for number, raised in list(self._raised.items()):
            if now < raised.look_at:
                continue
            executor = self._executors[number]
            if executor.handles(raised.run, JobInterrupted) or raised.is_held(now):
                raised.look_at = now + LOOK_S
            else:
                self.interrupt(executor, raised.run)

    def _look_again_s(self) -> float:
        waited = time.monotonic() - max(since for _, since in self._put_off.values())
        return min(max(waited / 200, _SOONEST_S), _LATEST_S)


class _Raised:
    """What is raised in a run, and when it is looked whether it has led to anything."""

    def __init__(self, run: int) -> None:
        self.run = run
        # A class of its own: each exception that is on its way or there has a reference to it.
        names = {
            "__module__": JobInterrupted.__module__,
            "__doc__": JobInterrupted.__doc__,
            "__init__": _cut_short.begin,
        }
        self.kind: type[JobInterrupted] = type(JobInterrupted.__name__, (JobInterrupted,), names)
        self._references = sys.getrefcount(self.kind)
        self._since = 0.0
        self.look_at = math.inf

    def note(self) -> None:
        """Note that it was raised just now."""
        self._since = time.monotonic()
        self.look_at = self._since + _AGAIN_S

    def is_there(self, now: float) -> bool:
        """Tell whether it has come, and may be what somebody cleans up for: what is only on its way is held, too."""
        return vars(self.kind).get("_duly_is_there", False) and self.is_held(now)

    def is_held(self, now: float) -> bool:
        """Tell whether it may have led to code that is not on the thread just now, such as a coroutine that waits.

        A handler may also keep it for good, and go on: then this is False after a while.
        """
        return sys.getrefcount(self.kind) > self._references and now < self._since + _HELD_S
