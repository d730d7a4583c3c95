"""Watches over the runs of a worker: logs, interrupts what must end, calls the hooks of jobs that failed elsewhere."""

from __future__ import annotations

import logging
import os
import queue
import sys
import threading
import time
from itertools import islice
from typing import TYPE_CHECKING

from duly._ending import LAST_STEPS_S, PATIENCE_S
from duly._failures import brief
from duly._interruptions import LOOK_S, Interruptions
from duly._runs import about, context_of, log_safely, until_it_returns

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from duly._core import Executor, Job, WorkerEngine, WorkerEvent, WorkerReport
    from duly._ending import Ending
    from duly._event_loop import EventLoop
    from duly._runs import Runs

_A_WAIT_S = 3600.0
"""One wait for an event; another follows."""
_BETWEEN_LOOKS_S = 0.02
"""How often it is looked whether handlers have cleaned up."""


class Watch:
    """Logs the events of the engine, and interrupts runs that must end, until the engine has ended.

    With `patience`, a handler that goes on for so many seconds after it was interrupted ends the worker: the executor
    that it keeps is lost to others.
    """

    def __init__(
        self,
        engine: WorkerEngine,
        executors: Mapping[int, Executor],
        loop: EventLoop | None,
        failures: Failures,
        ending: Ending,
        patience: float | None,
        memory: Memory | None,
        *,
        is_callers_loop: bool,
    ) -> None:
        # It has a thread and is none: names of ours could be those of Python's own attributes, in whichever version.
        self._thread = threading.Thread(target=self._run, name="duly-worker-watch", daemon=True)
        self._is_callers_loop = is_callers_loop
        self._memory = memory
        self._engine = engine
        self._executors = executors
        self._loop = loop
        self._failures = failures
        self._ending = ending
        self._patience = patience
        self._interrupted: dict[int, tuple[Job, float]] = {}
        self._interruptions = Interruptions(executors, loop)
        self._ended: WorkerReport | BaseException | None = None
        self._asked: int | None = None
        """How often the worker had been asked to stop when the end of the grace interrupted the first run."""
        self.left = False
        """Whether handlers go on for which it has waited in vain."""

    def report(self) -> WorkerReport:
        """Give what the worker did, or raise what the engine ended with."""
        if isinstance(self._ended, BaseException):
            raise self._ended
        return self._ended or self._engine.report()

    def end(self, wait: float) -> None:
        """Wait so long for the end, once the engine has nothing more to say."""
        if self._thread.ident is not None:
            self._thread.join(wait)

    def start(self) -> None:
        """Begin, in a thread of its own."""
        self._thread.start()

    def is_over(self, wait: float) -> bool:
        """Wait so long, and say whether the engine has ended."""
        self._thread.join(wait)
        return not self._thread.is_alive()

    def _run(self) -> None:
        try:
            while True:
                looks = self._interrupted or self._memory is not None or self._is_callers_loop
                event = self._engine.event(self._interruptions.look_again_s() or (LOOK_S if looks else _A_WAIT_S))
                if self._memory is not None and self._memory.is_used_up():
                    self._memory = None
                    self._engine.retire()
                if self._is_callers_loop and self._loop is not None and self._loop.is_closed():
                    self._is_callers_loop = False
                    log_safely(logging.ERROR, "the event loop in which `serve` runs was closed: the worker stops")
                    self._engine.stop()
                if event is not None:
                    self._handle(event)
                elif self._ended is not None:
                    break  # its last event has been handled
                else:
                    self._look_for_end()
                self._interruptions.look()
                self._look_at_interrupted()
            self._interruptions.look_at_last()
            self._wait_for_clean_ups()
        except BaseException as error:  # noqa: BLE001 - `report` raises it
            self._ended = error

    def _wait_for_clean_ups(self) -> None:
        """Wait for handlers that end what they have begun, before what they use is closed."""
        now = time.monotonic()
        soon = now + LAST_STEPS_S
        # For those that are too late the worker has waited already.
        late = {number for number, (_, until) in self._interrupted.items() if now > until}

        def unended() -> Iterator[tuple[Executor, bool]]:
            return (one for one in self._interruptions.unended() if one[0].number not in late)

        def is_over(wait: float) -> bool:
            until = time.monotonic() + wait
            while any(cleans_up or time.monotonic() < soon for _, cleans_up in unended()):
                if time.monotonic() > until:
                    return False
                time.sleep(_BETWEEN_LOOKS_S)
            return True

        self._ending.wait(is_over, PATIENCE_S, self._asked)
        for executor, cleans_up in unended():
            self.left = True
            job = executor.job
            if cleans_up and job is not None:
                what = "the handler of job %s of queue %s was interrupted and has not ended: it is left behind"
                log_safely(logging.ERROR, what, job.id, job.queue.name, fields=about(job))

    def _look_for_end(self) -> None:
        try:
            self._ended = self._engine.ended(0.0)
        except BaseException as error:  # noqa: BLE001 - `report` raises it
            self._ended = error

    def _handle(self, event: WorkerEvent) -> None:
        if event.is_claimed:
            self._failures.hear(event)
            return
        executor = None if event.executor is None else self._executors[event.executor]
        job = None if executor is None else executor.job
        # The run may have ended meanwhile, and the job be the next one.
        is_current = executor is not None and executor.interrupted is not None
        if executor is not None and job is not None and is_current:
            patience = PATIENCE_S if self._patience is None else self._patience
            self._interrupted[executor.number] = (job, time.monotonic() + patience)
        if event.why == "stopped" and self._asked is None:
            self._asked = self._ending.asked()
        # Before its line is logged: the handler may hold up the log.
        if executor is not None and event.run is not None:
            self._interruptions.interrupt(executor, event.run)
        level = logging.ERROR if event.is_error else logging.WARNING if event.is_warning else logging.INFO
        _log_event(level, "%s", event, event.text)

    def _look_at_interrupted(self) -> None:
        """Stop when a handler does not end, or only log it; end the grace when only such handlers are left."""
        now = time.monotonic()
        for number, (job, until) in list(self._interrupted.items()):
            if self._executors[number].job is not job:
                del self._interrupted[number]
            elif now > until and self._patience is None:
                del self._interrupted[number]
                what = (
                    "the handler of job %s of queue %s, or a hook behind it, was interrupted %g s ago and still runs: "
                    "until it ends, this worker runs one job fewer at once"
                )
                log_safely(logging.ERROR, what, job.id, job.queue.name, PATIENCE_S, fields=about(job))
            elif now > until and not self._ending.stuck:
                what = (
                    "the handler of job %s of queue %s, or a hook behind it, does not end: "
                    "the worker stops when the others have ended"
                )
                log_safely(logging.ERROR, what, job.id, job.queue.name, fields=about(job))
                self._ending.stuck = True
                self._engine.stop()
        if self._ending.stuck and all(
            executor.job is None or (executor.number in self._interrupted) for executor in self._executors.values()
        ):
            self._engine.stop()


class Memory:
    """How much the process may use."""

    def __init__(self, most_mib: int) -> None:
        self._most_mib = most_mib

    def is_used_up(self) -> bool:
        """Look, and log that it is."""
        mib = memory_mib()
        if mib <= self._most_mib:
            return False
        what = "the process uses %d MiB, which is more than %d: the worker ends when its running jobs have"
        log_safely(logging.INFO, what, mib, self._most_mib)
        return True


def memory_mib() -> float:
    """Give what this process has in memory; where the system does not say that, the most that it has had."""
    try:
        with open("/proc/self/statm", "rb") as file:  # noqa: PTH123 - five times a second
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20
    except OSError:
        import resource

        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2 ** (20 if sys.platform == "darwin" else 10)


class Failures:
    """Calls the hooks of jobs that failed while none was called, in a thread: a slow one holds up nothing."""

    def __init__(self, engine: WorkerEngine, runs: Runs) -> None:
        self._engine = engine
        self._runs = runs
        self._events: queue.SimpleQueue[WorkerEvent | None] = queue.SimpleQueue()
        self._taken: list[WorkerEvent | None] = []
        self._thread: threading.Thread | None = None
        # Of the job whose hooks it calls.
        self._calls: WorkerEvent | None = None

    def hear(self, event: WorkerEvent) -> None:
        """Take the event of such a job. It is logged when its hooks are called: another worker may do both."""
        self._events.put(event)
        if self._thread is None:
            thread = threading.Thread(target=self._run, name="duly-worker-failures", daemon=True)
            try:
                thread.start()
            except RuntimeError as error:  # the next one tries it again
                what = "on_failed is not called for job %s of queue %s, and will be later: %s"
                _log_event(logging.ERROR, what, event, event.id, event.queue, error)
            else:
                self._thread = thread

    def end(self, wait: float) -> None:
        """Wait for the hooks that are called; what they leave is reported by another worker."""
        if self._thread is not None:
            self._events.put(None)
            self._thread.join(wait)
            event = self._calls
            if event is not None:
                what = "the on_failed hook for job %s of queue %s goes on behind the grace: another worker calls it"
                _log_event(logging.WARNING, what, event, event.id, event.queue)

    def _run(self) -> None:
        until_it_returns(self._call_hooks, "the thread of on_failed")

    def _call_hooks(self) -> None:
        taken = iter(self._events.get, object())
        while True:
            if not self._taken:
                self._taken.extend(islice(taken, 1))
            event = self._taken[0]
            if event is None:
                return
            try:
                failed = self._engine.failed(event)
                if failed is not None:
                    self._calls = event
                    if not self._runs.has_logged(event):
                        _log_event(logging.ERROR, "%s", event, event.text)
                    context_of(failed[0]).run(self._runs.failed_for_good, *failed)
                    if self._runs.is_forked:
                        return  # a process that a hook has forked is no worker
                    self._engine.heard(event)
            except BaseException as error:  # noqa: BLE001 - the next job must be heard of
                self._engine.leave_hooks(event)
                what = "on_failed was not called for job %s of queue %s, and will be later: %s"
                _log_event(logging.ERROR, what, event, event.id, event.queue, brief(error))
            self._calls = None
            self._taken.clear()


def _log_event(level: int, what: str, event: WorkerEvent, *args: object) -> None:
    fields = {"queue": event.queue, "id": event.id, "job_name": event.name, "attempt": event.attempt}
    log_safely(level, what, *args, fields=fields)
