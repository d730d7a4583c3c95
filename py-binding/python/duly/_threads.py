"""The threads of a worker, in which plain handlers run."""

from __future__ import annotations

import logging
import os
import threading
import time
from contextvars import copy_context
from itertools import islice
from queue import SimpleQueue
from typing import TYPE_CHECKING, TypeAlias

from duly._core import Executor, Job
from duly._failures import brief
from duly._runs import PLAIN, check_result, context_of, log_safely, running
from duly.outcomes import JobInterrupted

if TYPE_CHECKING:
    from collections.abc import Mapping
    from contextvars import Context

    from duly._event_loop import EventLoop
    from duly._runs import Runs
    from duly.worker import Handler

_PAUSE_S = 0.2
"""Before a thread goes on after an error that no handler raised: it may come again at once."""

Given: TypeAlias = tuple[Executor, Job | None]
"""An executor, and the job that it is to run; without one the thread waits for it."""


class Threads:
    """Threads that run plain handlers, and hand jobs of coroutines to the event loop together with their executor."""

    def __init__(self, number: int, plain: Mapping[str | None, Handler], runs: Runs, loop: EventLoop | None) -> None:
        """Take how many there are to be, and what they run: handlers that are no coroutines."""
        self._pid = os.getpid()
        self._runs = runs
        self._loop = loop
        self._handlers = plain
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

    def give(self, executor: Executor, job: Job | None = None) -> None:
        """Give them an executor, with a job to run or to wait for one. From any thread."""
        self._free.put((executor, job))

    def end(self, seconds: float) -> None:
        """Wait so long for them to end, once the engine gives no more jobs. What runs in C code is left behind."""
        for _ in self._threads:
            self._free.put(None)
        until = time.monotonic() + seconds
        for thread in self._threads:
            if thread.ident is not None:  # the system may have given too few
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
            except BaseException as error:  # noqa: BLE001 - a thread that ends would keep its executor and its job
                log_safely(logging.ERROR, "a thread of the worker goes on after %s", brief(error))
                time.sleep(_PAUSE_S)

    def _serve(self, seat: _Seat) -> None:
        quick, runs = self._quick, self._runs
        set_running, reset_running = running.set, running.reset
        taken = iter(self._free.get, object())
        while True:
            job: Job | None = None
            if seat.executor is None:
                if os.getpid() != self._pid:
                    return  # a child that a handler forked, and that came back from it: the engine is the parent's
                if not seat.given:
                    # One call for both: an exception that somebody set in this thread is raised behind it.
                    seat.given.extend(islice(taken, 1))
                given = seat.given[0]
                if given is None:
                    return
                seat.executor, job = given
                seat.given.clear()
            executor = seat.executor
            if job is None or not executor.enter():
                job = executor.next()
            context: Context | None = None
            try:
                while job is not None:
                    context = None
                    handler = quick.get(job.name)
                    if handler is None:
                        job = self._run(seat, executor, job)
                        continue
                    # As `context_of` and `check_result`, without their calls: this is the whole way of a quick job.
                    token = set_running(job)
                    context = copy_context()
                    reset_running(token)
                    result = context.run(handler, job)
                    if type(result) not in PLAIN:
                        check_result(job, result)
                    job = executor.done(result)
                seat.executor = None
            except BaseException as error:  # noqa: BLE001 - whatever it raises, the thread goes on
                goes_on = executor.leave()
                if job is not None:
                    context = context or context_of(job)
                    runs.settle(executor, job, context.run(runs.failed if goes_on else runs.interrupted, job, error))

    def _run(self, seat: _Seat, executor: Executor, job: Job) -> Job | None:
        if self._loop is not None and job.name in self._loop.handlers:
            executor.leave()  # from here on the loop interrupts it
            self._loop.begin(executor, job)
            seat.executor = None
            return None
        context_of(job).run(self._run_with_hooks, executor, job)
        return executor.next()

    def _run_with_hooks(self, executor: Executor, job: Job) -> None:
        runs = self._runs
        handler = self._handlers.get(job.name, runs.no_handler)
        try:
            with runs.span(job):
                runs.before(job)
                result = handler(job)
                check_result(job, result)
            executor.keep(result)
        except BaseException as error:  # noqa: BLE001 - as above
            goes_on = executor.leave()
            runs.settle(executor, job, runs.failed(job, error) if goes_on else runs.interrupted(job, error))
        else:
            if executor.leave():
                runs.worked(job)
            runs.settle(executor, job)


class _Seat:
    """The executor that a thread has just now."""

    __slots__ = ("executor", "given")

    def __init__(self) -> None:
        self.executor: Executor | None = None
        self.given: list[Given | None] = []
        """What was taken for it, until it has it."""
