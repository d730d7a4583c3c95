"""The threads of a worker, in which plain handlers run."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections import defaultdict
from contextvars import copy_context
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

from duly._failures import brief
from duly._runs import PAUSE_S, PLAIN, Run, check_result, context_of, log_safely, running
from duly.outcomes import JobInterrupted, Release

if TYPE_CHECKING:
    from collections.abc import Mapping
    from queue import SimpleQueue

    from duly._core import Executor, Job
    from duly._event_loop import EventLoop
    from duly._runs import Runs
    from duly.worker import Handler


class Threads:
    """Threads that run plain handlers, and hand jobs of coroutines to the event loop together with their executor."""

    def __init__(
        self,
        number: int,
        plain: Mapping[str | None, Handler],
        runs: Runs,
        loop: EventLoop | None,
        free: SimpleQueue[Executor | None],
    ) -> None:
        """Take how many there are to be, what they run (handlers that are no coroutines), and where executors wait."""
        self._pid = os.getpid()
        self._runs = runs
        self._loop = loop
        self._handlers = plain
        # Those that need nothing around them. What needs something takes the other way.
        self._quick = plain if runs.is_bare else {}
        self._free = free
        self._threads = [
            threading.Thread(target=self._thread, name=f"duly-worker-{number}", daemon=True) for number in range(number)
        ]

    def start(self) -> None:
        """Start them all."""
        for thread in self._threads:
            thread.start()

    def give(self, executor: Executor) -> None:
        """Give them an executor, to run the job that it has, or to wait for one. From any thread."""
        self._free.put(executor)

    def end(self, seconds: float) -> None:
        """Wait so long for them to end, once the engine gives no more jobs. What runs in C code is left behind."""
        for _ in self._threads:
            self._free.put(None)
        until = time.monotonic() + seconds
        for thread in self._threads:
            if thread.ident is not None:  # the system may have given too few
                thread.join(max(0.0, until - time.monotonic()))

    # CPython may raise what another thread has set for this one (`PyThreadState_SetAsyncExc`: ours, to interrupt a run,
    # and those of libraries that end what takes too long) at any line below, also in `except`, and behind each call
    # before its result is stored. So no local variable says how far the thread is, but the seat, the run and the
    # executor: whatever is raised, and wherever, `_serve` begins again and goes on with what these three say. Each step
    # that must be taken once is one call into C code, which changes one of them, and has then either not begun or
    # happened: `list.extend(map(...))` calls a function and keeps its result, and so does a `defaultdict`.

    def _thread(self) -> None:
        seat = _Seat()
        while True:
            try:
                self._go_on(seat)
                return
            except BaseException:  # noqa: BLE001 - raised in the lines of `_go_on`, which is busy with another one
                pass

    def _go_on(self, seat: _Seat) -> None:
        while True:
            try:
                self._serve(seat)
                return
            except BaseException as error:  # noqa: BLE001 - whatever is raised, the thread goes on
                if seat.run.raised is None:
                    seat.run.raised = error
                if not seat.knows(error):
                    log_safely(logging.ERROR, "a thread of the worker goes on after %s", brief(error))
                    time.sleep(PAUSE_S)

    def _serve(self, seat: _Seat) -> None:
        quick, held, loop, run = self._quick, seat.held, self._loop, seat.run
        set_running, reset_running = running.set, running.reset
        taken = iter(self._free.get, object())
        # A child that a handler forked, and that came back from it, leaves: the engine is the parent's.
        while os.getpid() == self._pid:
            if not held:
                if loop is not None and loop.handed:
                    loop.wake()
                held.extend(islice(taken, 1))
            executor = held[0]
            if executor is None:
                return
            job = executor.job
            if job is not None and run.job is job and run.has_begun:
                run.context.run(self._runs.end, executor, run)
                continue
            if job is None or not executor.enter():
                job = executor.next()
            while job is not None:
                handler = quick.get(job.name)
                if handler is None:
                    self._run(seat, executor, job)
                    break
                # As `context_of` and `check_result`, without their calls: this is the whole way of a quick job.
                token = set_running(job)
                context = copy_context()
                reset_running(token)
                # With the job it has begun: what is raised between here and `done` is a failure of this job.
                run.raised = run.endings = None
                run.context = context
                run.job = job
                result = context.run(handler, job)
                if type(result) not in PLAIN:
                    context.run(check_result, job, result)
                job = executor.done(result)
            else:
                held.clear()

    def _run(self, seat: _Seat, executor: Executor, job: Job) -> None:
        if self._loop is not None and self._loop.runs(job) and not self._loop.is_closed():
            executor.leave()  # from here on the loop interrupts it
            self._loop.handed.extend(map(seat.held.pop, (0,)))  # type: ignore[arg-type]
            return
        run = seat.run
        run.prepare(job, context_of(job))
        list(map(run.context.run, (self._run_with_hooks,), (run,), run.todo))

    def _without_handler(self, job: Job) -> None:
        if self._loop is not None and self._loop.runs(job):
            raise Release(1, reason="the event loop of its worker was closed")
        self._runs.no_handler(job)

    def _run_with_hooks(self, run: Run, job: Job) -> None:
        runs = self._runs
        handler = self._handlers.get(job.name, self._without_handler)
        with runs.span(job):
            try:
                if runs.before(job):
                    run.results = {0: None}  # a hook has said what becomes of it
                    return
                # Not by `map`: a StopIteration of the handler would only end it.
                run.results = defaultdict(partial(handler, job))
                check_result(job, run.results[0])
            except BaseException as error:
                run.raised = error  # before the span hears of it
                raise


class _Seat:
    """What a thread has just now."""

    __slots__ = ("held", "run")

    def __init__(self) -> None:
        self.held: list[Executor | None] = []
        """The executor; None once there is none any more."""
        self.run = Run()
        """The last run that was prepared here. It is the executor's if the jobs are the same."""

    def knows(self, error: BaseException) -> bool:
        """Tell whether this was raised in the run, which ends with it, or to interrupt a run."""
        run = self.run
        if isinstance(error, JobInterrupted):
            return True
        executor = self.held[0] if self.held else None
        has_it = executor is not None and run.job is not None and executor.job is run.job
        return has_it and run.has_begun and run.raised is error
