"""The threads of a worker, in which plain handlers run."""

from __future__ import annotations

import os
import threading
import time
from queue import SimpleQueue
from typing import TYPE_CHECKING, TypeAlias

from duly._core import Executor, Job
from duly._runs import check_result, context_of
from duly.outcomes import JobInterrupted

if TYPE_CHECKING:
    from collections.abc import Mapping
    from contextvars import Context

    from duly._event_loop import EventLoop
    from duly._runs import Runs
    from duly.worker import Handler

Given: TypeAlias = tuple[Executor, Job | None]
"""A place, and the job that is to run in it; without one the thread waits for it."""


class Threads:
    """Threads that run plain handlers, and hand jobs of coroutines to the event loop together with their place."""

    def __init__(self, number: int, handlers: Mapping[str | None, Handler], runs: Runs, loop: EventLoop | None) -> None:
        """Take how many there are to be, and what they run."""
        self._pid = os.getpid()
        self._runs = runs
        self._loop = loop
        self._handlers = handlers
        coroutines = loop.handlers if loop else {}
        plain = {name: handler for name, handler in handlers.items() if name not in coroutines}
        # Those that need nothing around them. What needs something takes the other way.
        self._quick = plain if runs.is_bare else {}
        self._free: SimpleQueue[Given | None] = SimpleQueue()
        self._threads = [
            threading.Thread(target=self._thread, name=f"duly-worker-{number}", daemon=True) for number in range(number)
        ]

    def start(self) -> None:
        """Start them all."""
        for thread in self._threads:
            thread.start()

    def give(self, place: Executor, job: Job | None = None) -> None:
        """Give them a place, with a job to run in it or to wait for one. From any thread."""
        self._free.put((place, job))

    def end(self, seconds: float) -> None:
        """Wait so long for them to end, once the engine gives no more jobs. What runs in C code is left behind."""
        for _ in self._threads:
            self._free.put(None)
        until = time.monotonic() + seconds
        for thread in self._threads:
            thread.join(max(0.0, until - time.monotonic()))

    def _thread(self) -> None:
        seat = _Seat()
        while True:
            try:
                self._serve(seat)
                return
            except JobInterrupted:
                # Raised by the worker just as the handler had ended: `next` finishes the run.
                continue

    def _serve(self, seat: _Seat) -> None:
        quick, runs = self._quick, self._runs
        while True:
            job: Job | None = None
            if seat.place is None:
                if os.getpid() != self._pid:
                    return  # a child that a handler forked, and that came back from it: the engine is the parent's
                given = self._free.get()
                if given is None:
                    return
                seat.place, job = given
            place = seat.place
            if job is None or not place.enter():
                job = place.next()
            context: Context | None = None
            try:
                while job is not None:
                    context = None
                    handler = quick.get(job.name)
                    if handler is None:
                        job = self._run(seat, place, job)
                        continue
                    context = context_of(job)
                    result = context.run(handler, job)
                    check_result(job, result)
                    job = place.done(result)
                seat.place = None
            except BaseException as error:  # noqa: BLE001 - whatever it raises, the thread goes on
                goes_on = place.leave()
                if job is not None:
                    context = context or context_of(job)
                    runs.settle(place, job, context.run(runs.failed, job, error) if goes_on else "")

    def _run(self, seat: _Seat, place: Executor, job: Job) -> Job | None:
        if self._loop is not None and job.name in self._loop.handlers:
            place.leave()  # from here on the loop interrupts it
            seat.place = None
            self._loop.begin(place, job)
            return None
        context_of(job).run(self._run_with_hooks, place, job)
        return place.next()

    def _run_with_hooks(self, place: Executor, job: Job) -> None:
        runs = self._runs
        handler = self._handlers.get(job.name, runs.no_handler)
        try:
            with runs.span(job):
                runs.before(job)
                result = handler(job)
                check_result(job, result)
            place.keep(result)
        except BaseException as error:  # noqa: BLE001 - as above
            runs.settle(place, job, runs.failed(job, error) if place.leave() else "")
        else:
            if place.leave():
                runs.worked(job)
            runs.settle(place, job)


class _Seat:
    """The place that a thread has just now."""

    __slots__ = ("place",)

    def __init__(self) -> None:
        self.place: Executor | None = None
