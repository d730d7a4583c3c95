"""A worker: runs the handlers of jobs until it is stopped. The compiled engine does the rest."""

from __future__ import annotations

import logging
import math
import os
import queue
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import contextmanager, suppress
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypedDict, TypeVar, overload

from duly import _supervised
from duly import middleware as _middleware
from duly._core import Client, Executor, Job, NewJob, Supervision, WorkerEngine, WorkerEvent, WorkerReport
from duly._failures import brief, count_as_own
from duly._handlers import of_kind
from duly._lifespan import Lifespan, Resources, StartOrStop
from duly._misuse import check_function, is_coroutine_function, refuse_green_threads
from duly._places import Places
from duly._runs import Runs, about, context_of, log_safely, until_it_returns
from duly._switches import frequent
from duly._threads import Threads
from duly.errors import DulyError, InvalidArgumentError, UnsupportedError
from duly.outcomes import JobInterrupted

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop
    from collections.abc import Coroutine, Iterable, Iterator
    from datetime import timedelta
    from types import FrameType

    from duly._core import Schedule
    from duly._event_loop import EventLoop
    from duly.middleware import FailureHook, Middleware

Handler: TypeAlias = Callable[[Job], Any]
"""A function or coroutine function that takes a job and runs it. Its return value is the job's result, kept if the
producer asked for it (`result_ttl`)."""
AnyHandler = TypeVar("AnyHandler", bound=Handler)
AnyStart = TypeVar("AnyStart", bound=StartOrStop)

_A_WAIT_S = 3600.0
"""One wait for an event; another follows."""
_LOOK_S = 0.2
"""How often the main thread runs signal handlers that it was not woken for."""
_SOONEST_S, _LATEST_S = 0.001, 0.02
"""How soon a thread is looked at again that cannot be interrupted where it is; the longer that takes, the rarer."""
_LATE_S = 1.0
"""What was put off for so long is looked at often for a moment, the longer it waits the rarer."""
_LATE_LOOKS, _BETWEEN_LATE_LOOKS_S = 8, 0.0002
_MOST_TIMES = 8
"""As many times as many looks after so many seconds."""
_AGAIN_S = 2.0
"""After so long a handler is interrupted once more that goes on, and has not begun to end."""
_HELD_S = 30.0
"""So long it may be ending where that cannot be seen, as long as what was raised is somewhere."""
_SAID_AFTER_S = Supervision.patience()
"""After so long it is logged that a handler that was interrupted goes on, if that does not end the worker."""
_LAST_LOOKS_S = 2.0
"""So long handlers that could not be interrupted yet are looked at behind the end of the grace."""
_LAST_STEPS_S = 0.4
"""How long handlers that were interrupted may take to end, before `run` returns without them."""


class WorkerSettings(TypedDict, total=False):
    """The settings of `duly.Worker` except its client and queues."""

    concurrency: int
    lease: float | timedelta
    grace: float | timedelta
    max_jobs: int | None
    max_memory: int | None
    name: str | None
    prefetch: int | None
    timeout: float | timedelta | None
    on_failure: FailureHook | None
    middleware: Iterable[Middleware]
    log_errors: Literal["location", "full"]


class Worker:
    """Runs the handlers of the jobs of some queues until it is stopped.

    A handler takes the job. Plain functions run in threads, `async def` functions on one event loop in a thread of its
    own; together at most `concurrency` run at once. If the handler returns, the job is acked. If it raises, the job
    fails and its retry policy decides, unless it raises `duly.Retry`, `duly.Release` or `duly.Fail`. `job.ack()`,
    `job.fail(...)` and `job.release(...)` in a handler are noted, and sent when it has ended.

    A native thread prefetches jobs, renews leases (also while a handler holds the GIL) and sends outcomes. A run is
    interrupted when its job's `timeout` is over, its lease is lost, or the grace is over: see `duly.JobInterrupted`.

    The log (`duly.worker`) names each failed job: its id, name and attempt, the exceptions' classes with their causes,
    and the innermost line of your own code.

    Each run has a context of its own (`contextvars`): what a handler or a hook sets there is gone after the run.
    """

    def __init__(
        self,
        client: Client,
        queues: Mapping[str, int] | Iterable[str],
        *,
        concurrency: int = 1,
        lease: float | timedelta = 10.0,
        grace: float | timedelta = 30.0,
        max_jobs: int | None = None,
        max_memory: int | None = None,
        name: str | None = None,
        prefetch: int | None = None,
        timeout: float | timedelta | None = None,
        on_failure: FailureHook | None = None,
        middleware: Iterable[Middleware] = (),
        log_errors: Literal["location", "full"] = "location",
    ) -> None:
        """Check the settings; `run` starts the worker.

        Args:
            client: the client of the server.
            queues: a list is a strict order, the first queue first; a dict gives each queue a weight (1 to 1,000).
            concurrency: the most handlers at once, 1 to 10,000. Default: 1.
            lease: how soon others take over the jobs if this worker dies, in seconds or as a timedelta, 0.1 s to 24 h.
                Default: 10 s.
            grace: how long running handlers may go on after a stop, in seconds or as a timedelta, 0 to 24 h. Default:
                30 s.
            max_jobs: `run` returns after so many runs, so that a supervisor starts a fresh process. The last runs take
                as long as they need; `on_failed` hooks for other jobs have the grace after them. Default: no limit.
            max_memory: `run` returns in the same way when the process uses more than so many MiB. Default: no limit.
            name: the worker's name in `Queue.workers`, 1 to 128 bytes. Default: none.
            prefetch: the most jobs that wait here besides those that run, 0 to 1,000. Default: as many as run within 50
                ms.
            timeout: the longest run of a job that has no `timeout` of its own, in seconds or as a timedelta, 0.001 s to
                100 years. Default: no limit.
            on_failure: a hook, called before those of `middleware`: takes a job whose run failed and the exception, and
                may return a dict of changes: `error`, `data`, `attempts`, `max_retries`, `headers`, `name`,
                `retry_after`, `counted`, `final`.
            middleware: hooks around every run: see `duly.Middleware`.
            log_errors: "location" logs where a handler failed; "full" also logs tracebacks and exception messages,
                which may hold data. Default: "location".

        Raises:
            InvalidArgumentError: a setting is of a wrong type or out of range.

        """
        if not isinstance(client, Client):
            kind = type(client).__name__
            raise InvalidArgumentError(
                f"client must be a duly.Client, not {kind}: a worker runs coroutines with it as well"
            )
        self._client = client
        self._schedules: Callable[[], list[tuple[str, str, dict[str, Schedule]]]] = list
        self._queues: Mapping[str, int] | Iterable[str]
        if isinstance(queues, Mapping):
            self._queues = dict(queues)
        else:
            self._queues = queues if isinstance(queues, str) else list(queues)  # a text is refused below
        self._settings: dict[str, Any] = {
            "concurrency": concurrency,
            "lease": lease,
            "grace": grace,
            "max_jobs": max_jobs,
            "name": name,
            "prefetch": prefetch,
            "timeout": timeout,
        }
        WorkerEngine.check(client, self._queues, **self._settings)
        if max_memory is not None and (type(max_memory) is not int or max_memory < 1):
            raise InvalidArgumentError(f"max_memory must be a number of MiB, 1 or more, not {max_memory!r}")
        self._max_memory = max_memory
        if log_errors not in ("location", "full"):
            raise InvalidArgumentError("log_errors must be 'location' or 'full'")
        self._log_errors = log_errors
        self._middleware = _middleware.check(middleware)
        if on_failure is not None:
            self._middleware.insert(0, _middleware.OnFailure(on_failure))
        self._handlers: dict[str | None, Handler] = {}
        self._lock = threading.RLock()
        self._stops = 0
        # The process in which `run` has not returned: a child that is forked meanwhile may run it, too.
        self._runs_in: int | None = None
        self._is_cancelled = False
        self._engine: WorkerEngine | None = None
        self._patience: float | None = None
        self._ending = Ending()
        self._lifespan = Lifespan()
        self.resources = Resources()
        """What functions that are given to `on_start` have made for handlers."""

    @overload
    def on(self, name: str | None, handler: AnyHandler) -> AnyHandler: ...

    @overload
    def on(self, name: str | None, handler: None = None) -> Callable[[AnyHandler], AnyHandler]: ...

    def on(self, name: str | None, handler: Handler | None = None) -> Any:
        """Set the handler of the jobs of this name, by a call or as a decorator.

        None means jobs without a name, and "*" all jobs that have no other handler here.

        Raises:
            InvalidArgumentError: no job can have the name, it has a handler, or the handler is no function, yields, or
                does not take the job.

        """
        if callable(name):
            raise InvalidArgumentError(
                'a handler needs the name of its jobs: @worker.on("order.close"), or @worker.on(None) if they have none'
            )
        if name is not None and not isinstance(name, str):
            raise InvalidArgumentError(f"the name of a handler must be a str or None, not {type(name).__name__}")
        NewJob(name=name).check()

        def register(handler: AnyHandler) -> AnyHandler:
            check_function(handler, f"the handler of {name!r}", "the job")
            if self._handlers.get(name, handler) is not handler:
                raise InvalidArgumentError(f"there is a handler for {name!r} already: a name has one handler")
            self._handlers[name] = handler
            count_as_own(handler)
            return handler

        return register if handler is None else register(handler)

    def on_start(self, function: AnyStart) -> AnyStart:
        """Call this function before the first job, to make what handlers need, such as a pool: `worker.resources.db`.

        It takes no arguments. A plain function runs in the thread of `run`, an `async def` on the event loop of the
        handlers. What it raises, `run` raises; then the functions of `on_stop` are called, too.
        """
        return self._lifespan.add(function, "an on_start function", self._lifespan.starts)  # type: ignore[no-any-return]

    def on_stop(self, function: AnyStart) -> AnyStart:
        """Call this function after the last job, to close what `on_start` has made; the last one given comes first.

        What it raises is logged.
        """
        return self._lifespan.add(function, "an on_stop function", self._lifespan.stops)  # type: ignore[no-any-return]

    def stop(self) -> None:
        """Stop as after SIGTERM; a second call acts as a second signal. Safe in any thread or signal handler."""
        with self._lock:
            self._stops += 1
            if self._engine is not None:
                self._engine.stop()

    def run(self) -> WorkerReport:
        """Run jobs until `stop`, SIGTERM, SIGINT, SIGQUIT or SIGHUP, and return what it did.

        Then running handlers may finish within the grace, and the other jobs are given back. A second signal ends the
        grace. Signals are handled only if this runs on the main thread. Server outages are waited out and logged once
        each; a permanent error, such as a wrong password at the start, is raised.

        Handlers that do not end when they are interrupted (they are in C code) are left behind in daemon threads. A
        program that ends after this exits with 0 after a stop, also by a signal, and with 1 if this raises. Before, it
        waits for its other threads, also those of pools (`asyncio.to_thread`), as every Python program does; `duly
        worker` waits for five seconds.
        """
        return self._run(None)

    async def serve(self) -> WorkerReport:
        """Do the same as `run` inside a running event loop, such as a web server's: `async def` handlers run there.

        It stops as after SIGTERM when its task is cancelled, or by `stop`; a second cancellation ends the grace. It
        handles no signals. Plain handlers run in threads, as in `run`.
        """
        import asyncio  # which takes long to import

        self._is_cancelled = False
        loop = asyncio.get_running_loop()
        ended: asyncio.Future[WorkerReport] = loop.create_future()

        def tell(say: Callable[[Any], None], what: object) -> None:
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(lambda: None if ended.done() else say(what))

        def work() -> None:
            try:
                tell(ended.set_result, self._run(loop))
            except BaseException as error:  # noqa: BLE001 - who awaits it gets it
                tell(ended.set_exception, error)

        threading.Thread(target=work, name="duly-worker-serve", daemon=True).start()
        cancelled: asyncio.CancelledError | None = None
        while True:
            try:
                report = await asyncio.shield(ended)
                break
            except asyncio.CancelledError as error:
                cancelled = error
                self._is_cancelled = True
                self.stop()
        if cancelled is not None:
            raise cancelled
        return report

    def _run(self, callers: AbstractEventLoop | None) -> WorkerReport:
        if not hasattr(signal, "pthread_sigmask"):
            raise UnsupportedError("workers do not run on this system (Windows): use Linux, macOS or WSL")
        refuse_green_threads()
        if not self._handlers:
            raise InvalidArgumentError("a worker needs at least one handler: worker.on(name, function)")
        with self._lock:
            if self._runs_in == os.getpid():
                raise InvalidArgumentError("this worker runs already: make another duly.Worker to run two at once")
            self._runs_in = os.getpid()
        self._ending = Ending()
        try:
            with self._signals() as signals_seen:
                if signals_seen is not None:
                    _supervised.ready()
                return self._serve(callers, signals_seen)
        except DulyError:
            _supervised.say(_supervised.FATAL)
            raise
        finally:
            with self._lock:
                self._engine = None
                self._stops = 0
                self._runs_in = None

    def _serve(self, callers: AbstractEventLoop | None, signals_seen: int | None) -> WorkerReport:
        runs = Runs(self._middleware, log_errors=self._log_errors)
        plain = of_kind(self._handlers, lambda handler: not is_coroutine_function(handler))
        coroutines = of_kind(self._handlers, is_coroutine_function)
        free: queue.SimpleQueue[Executor | None] = queue.SimpleQueue()
        loop: EventLoop | None = None
        if coroutines or self._lifespan.needs_a_loop:
            from duly._event_loop import EventLoop  # asyncio takes long to import

            loop = EventLoop(coroutines, runs, free.put, callers, lambda: self._is_cancelled)
        # Coroutines need no thread each; one waits for the next job.
        number = int(self._settings["concurrency"]) if plain else 1
        threads = Threads(number, plain, runs, loop, free)
        on_loop = _no_loop if loop is None else loop.wait_for
        has_begun = False
        try:
            # The system may give no thread.
            if loop is not None:
                loop.start()
            has_begun = True
            self._lifespan.start(on_loop)
            engine = WorkerEngine(
                self._client,
                self._queues,
                **self._settings,
                schedules=self._schedules(),
                patience=self._patience,
                signals_seen=signals_seen,
            )
            with self._lock:
                self._engine = engine
                for _ in range(self._stops + self._missed(signals_seen)):
                    engine.stop()
            return self._work(engine, runs, threads, loop)
        finally:
            if has_begun:
                self._lifespan.stop(on_loop)
            if loop is not None:
                loop.end(_LAST_STEPS_S)

    def _work(self, engine: WorkerEngine, runs: Runs, threads: Threads, loop: EventLoop | None) -> WorkerReport:
        concurrency = int(self._settings["concurrency"])
        executors = {executor.number: executor for executor in (engine.executor() for _ in range(concurrency))}
        # In a thread of its own: Python runs signal handlers at once only while its main thread waits for a lock; and
        # not even then when the system gave the signal to another thread, as it does when two come together.
        failures = _Failures(engine, runs)
        memory = None if self._max_memory is None else _Memory(self._max_memory)
        is_callers_loop = loop is not None and loop.is_callers
        watch = _Watch(
            engine, executors, loop, failures, self._ending, self._patience, memory, is_callers_loop=is_callers_loop
        )
        try:
            threads.start()  # the system may give none
            for executor in executors.values():
                threads.give(executor)
            watch.start()
            while not watch.is_over(_LOOK_S):
                pass
        finally:
            engine.stop()
            engine.stop()
            watch.end(_LAST_STEPS_S)
            threads.end(_LAST_STEPS_S)
            failures.end(_LAST_STEPS_S)
        self._ending.status = engine.exit_code(self._ending.signals, self._ending.stuck)
        return watch.report()

    def _missed(self, signals_seen: int | None) -> int:
        """Count the signals that came while only one side listened, on a thread that was not asked to wait."""
        if signals_seen is None:
            return 0
        return max(0, len(self._ending.signals) - (WorkerEngine.listen(()) - signals_seen))

    @contextmanager
    def _signals(self) -> Iterator[int | None]:
        """Give how many signals had come when the worker began to listen."""
        if threading.current_thread() is not threading.main_thread():
            yield None
            return

        owner = os.getpid()
        before: dict[int, Any] = {}

        def handle(number: int, _frame: FrameType | None) -> None:
            if os.getpid() != owner:
                # A process that a handler has forked is no worker: as if this had never been set there.
                signal.signal(number, before[number] or signal.SIG_DFL)
                os.kill(os.getpid(), number)
                return
            self._ending.signals.append(number)
            # The engine sees them by itself, but sooner so. One that comes before it has begun waits for it.
            if self._engine is not None:
                self._engine.handle_signals()

        # Who ignores a hang-up (nohup) goes on; with a supervisor it is for that one.
        leaves_hangup = _supervised.join() or signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
        hangup = [] if leaves_hangup else [signal.SIGHUP]
        # What comes meanwhile waits until both sides listen.
        signals = (*Supervision.stop_signals(), *hangup)
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, signals)
        for one in signals:
            before[one] = signal.signal(one, handle)
        signals_seen = WorkerEngine.listen(signals)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        try:
            yield signals_seen
        finally:
            for number, handler in before.items():
                signal.signal(number, signal.SIG_DFL if handler is None else handler)


def _no_loop(_coroutine: Coroutine[Any, Any, Any]) -> None:
    """Never called: there is no coroutine."""


class Ending:
    """How a worker ended, for the exit status of a command."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self.signals: list[int] = []
        self.stuck = False
        self.status = 0


class _Watch:
    """Logs the events of the engine, and interrupts runs that must end, until the engine has ended.

    With `patience`, a handler that goes on for so many seconds after it was interrupted ends the worker: the executor
    that it keeps is lost to others.
    """

    def __init__(
        self,
        engine: WorkerEngine,
        executors: Mapping[int, Executor],
        loop: EventLoop | None,
        failures: _Failures,
        ending: Ending,
        patience: float | None,
        memory: _Memory | None,
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
        self._places = Places()
        self._put_off: dict[int, tuple[int, float]] = {}
        """Of executors whose run could not be interrupted yet: that run, and since when."""
        self._raised: dict[int, _Raised] = {}
        """By executor what was raised in its run."""
        self._next_round = 0.0
        """When those that are late are looked at often."""
        self._ended: WorkerReport | BaseException | None = None

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
                looks = self._interrupted or self._raised or self._memory is not None or self._is_callers_loop
                event = self._engine.event(self._look_again_s() if self._put_off else _LOOK_S if looks else _A_WAIT_S)
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
                for number, (run, _) in list(self._put_off.items()):
                    self._interrupt(self._executors[number], run)
                self._interrupt_late_ones()
                self._interrupt_again()
                self._look_at_interrupted()
            self._interrupt_last_ones()
        except BaseException as error:  # noqa: BLE001 - `report` raises it
            self._ended = error

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
            patience = _SAID_AFTER_S if self._patience is None else self._patience
            self._interrupted[executor.number] = (job, time.monotonic() + patience)
        # Before its line is logged: the handler may hold up the log.
        if executor is not None and event.run is not None:
            self._interrupt(executor, event.run)
        level = logging.ERROR if event.is_error else logging.WARNING if event.is_warning else logging.INFO
        _log_event(level, "%s", event, event.text)

    def _interrupt(self, executor: Executor, run: int) -> None:
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

    def _interrupt_late_ones(self) -> None:
        """Look often at the runs that were put off for long, while their threads are made to be elsewhere, too."""
        now = time.monotonic()
        waited = [now - since for _, since in self._put_off.values() if now - since > _LATE_S]
        if not waited or now < self._next_round:
            return
        with frequent():
            for _ in range(_LATE_LOOKS * min(max(int(min(waited)), 1), _MOST_TIMES)):
                time.sleep(_BETWEEN_LATE_LOOKS_S)
                for number, (run, since) in list(self._put_off.items()):
                    if now - since > _LATE_S:
                        self._interrupt(self._executors[number], run)
        self._next_round = time.monotonic() + min(max(min(waited) / 20, _LATEST_S), _LATE_S)

    def _interrupt_again(self) -> None:
        """Interrupt the runs once more where C code has dropped what was raised, as in the `finally` of a generator."""
        now = time.monotonic()
        for number, raised in list(self._raised.items()):
            if now < raised.look_at:
                continue
            executor = self._executors[number]
            if executor.handles(raised.run, JobInterrupted) or raised.is_held(now):
                raised.look_at = now + _LOOK_S
            else:
                self._interrupt(executor, raised.run)

    def _interrupt_last_ones(self) -> None:
        """Go on to look at those that could not be interrupted where they were: the program may go on behind `run`."""
        until = time.monotonic() + _LAST_LOOKS_S
        while self._put_off and time.monotonic() < until:
            time.sleep(self._look_again_s())
            for number, (run, _) in list(self._put_off.items()):
                self._interrupt(self._executors[number], run)
            self._interrupt_late_ones()

    def _look_again_s(self) -> float:
        waited = time.monotonic() - max(since for _, since in self._put_off.values())
        return min(max(waited / 200, _SOONEST_S), _LATEST_S)

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
                log_safely(logging.ERROR, what, job.id, job.queue.name, _SAID_AFTER_S, fields=about(job))
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


class _Raised:
    """What is raised in a run, and when it is looked whether it has led to anything."""

    def __init__(self, run: int) -> None:
        self.run = run
        # A class of its own: each exception that is on its way or there has a reference to it.
        names = {"__module__": JobInterrupted.__module__, "__doc__": JobInterrupted.__doc__}
        self.kind: type[JobInterrupted] = type(JobInterrupted.__name__, (JobInterrupted,), names)
        self._references = sys.getrefcount(self.kind)
        self._since = 0.0
        self.look_at = math.inf

    def note(self) -> None:
        """Note that it was raised just now."""
        self._since = time.monotonic()
        self.look_at = self._since + _AGAIN_S

    def is_held(self, now: float) -> bool:
        """Tell whether it may have led to code that is not on the thread just now, such as a coroutine that waits.

        Who keeps it for good is told apart by the time.
        """
        return sys.getrefcount(self.kind) > self._references and now < self._since + _HELD_S


class _Memory:
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


class _Failures:
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
