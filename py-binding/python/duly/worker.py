"""A worker: runs the handlers of jobs until it is stopped. The compiled engine does the rest."""

from __future__ import annotations

import os
import queue
import signal
import threading
from collections.abc import Callable, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypedDict, TypeVar, overload

from duly import _supervised
from duly import middleware as _middleware
from duly._core import Client, Executor, Job, NewJob, Supervision, WorkerEngine, WorkerReport, _occupy_standard_streams
from duly._ending import LAST_STEPS_S, PATIENCE_S, Ending
from duly._failures import count_as_own
from duly._handlers import of_kind
from duly._lifespan import Around, Lifespan, Resources, StartOrStop
from duly._misuse import check_function, is_coroutine_function, refuse_green_threads, refuse_while_importing
from duly._program import Registration
from duly._runs import Runs
from duly._threads import Threads
from duly._watch import Failures, Memory, Watch
from duly.errors import DulyError, InvalidArgumentError, UnsupportedError

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop
    from collections.abc import Iterable, Iterator
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

_LOOK_S = 0.2
"""How often the main thread runs signal handlers that it was not woken for."""


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
            is_one = isinstance(queues, str) or not hasattr(queues, "__iter__")
            self._queues = queues if is_one else list(queues)  # what is no list of names is refused below
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
        self._registrations: dict[str | None, Registration] = {}
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
            registration = Registration.of(handler)
            is_first = self._handlers.get(name, handler) is handler
            replaces = is_first or registration.replaces(self._registrations.get(name))
            if replaces is None:
                raise InvalidArgumentError(f"there is a handler for {name!r} already: a name has one handler")
            if replaces:
                self._handlers[name], self._registrations[name] = handler, registration
            count_as_own(handler)
            return handler

        return register if handler is None else register(handler)

    def on_start(self, function: AnyStart) -> AnyStart:
        """Call this function before the first job, to make what handlers need, such as a pool: `worker.resources.db`.

        It takes no arguments. A plain function runs in the thread of `run`, an `async def` on the event loop of the
        handlers. What it raises, `run` raises; then the functions of `on_stop` are called, too. A signal raises
        KeyboardInterrupt in a plain function, and cancels an `async def`: then `run` returns as after a stop.
        """
        return self._lifespan.add(function, "an on_start function", self._lifespan.starts)  # type: ignore[no-any-return]

    def on_stop(self, function: AnyStart) -> AnyStart:
        """Call this function after the last job, to close what `on_start` has made; the last one given comes first.

        What it raises is logged. A second signal, or one more than had come before, ends it as one of `on_start`.
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

        For handlers that clean up when they are interrupted it waits for five seconds, or until another signal. Those
        that do not end (they are in C code, or clean up for longer) are left behind in daemon threads. A
        program that ends after this exits with 0 after a stop, also by a signal, and with 1 if this raises. Before, it
        waits for its other threads, also those of pools (`asyncio.to_thread`), as every Python program does; `duly
        worker` waits for five seconds.
        """
        refuse_while_importing("run a worker")
        return self._run(None)

    async def serve(self) -> WorkerReport:
        """Do the same as `run` inside a running event loop, such as a web server's: `async def` handlers run there.

        It stops as after SIGTERM when its task is cancelled, or by `stop`; a second cancellation ends the grace. A
        cancel scope of anyio counts once. It handles no signals. Plain handlers run in threads, as in `run`.
        """
        refuse_while_importing("run a worker")
        from duly import _serving  # asyncio takes long to import

        self._is_cancelled = False

        def stop() -> None:
            self._is_cancelled = True
            self.stop()

        return await _serving.serve(self._run, stop)

    def _run(self, callers: AbstractEventLoop | None) -> WorkerReport:
        if not hasattr(signal, "pthread_sigmask"):
            raise UnsupportedError("workers do not run on this system (Windows): use Linux, macOS or WSL")
        refuse_green_threads()
        if not self._handlers:
            raise InvalidArgumentError("a worker needs at least one handler: worker.on(name, function)")
        _occupy_standard_streams()  # otherwise the descriptors of an event loop could be 0 to 2
        with self._lock:
            if self._runs_in == os.getpid():
                raise InvalidArgumentError("this worker runs already: make another duly.Worker to run two at once")
            self._runs_in = os.getpid()
        try:
            with self._lifespan.used():
                return self._run_alone(callers)
        finally:
            with self._lock:
                self._engine = None
                self._stops = 0
                self._runs_in = None

    def _run_alone(self, callers: AbstractEventLoop | None) -> WorkerReport:
        self._ending = Ending(lambda: self._stops)
        try:
            with self._signals() as signals_seen:
                if signals_seen is not None:
                    self._ending.came = lambda: WorkerEngine.listen(()) - signals_seen
                return self._serve(callers, signals_seen)
        except DulyError as error:
            if _supervised.is_fatal(error):
                _supervised.say(_supervised.FATAL)
            raise

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
        around = Around(self._lifespan, self._ending, loop)
        try:
            # The system may give no thread.
            if loop is not None:
                loop.start()
            has_started = around.start()
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
            on_main_thread = signals_seen is not None
            return self._work(engine, runs, threads, loop, has_started=has_started, on_main_thread=on_main_thread)
        finally:
            around.stop()
            if loop is not None:
                loop.end(LAST_STEPS_S, self._ending)

    def _say_ready(self, watch: Watch) -> None:
        """Tell the supervisor when the server has answered, or is away: with a wrong password none is ready."""

        def say() -> None:
            try:
                self._client.ping()
            except DulyError as error:
                # If only this call is refused, the engine goes on.
                if not error.transient and watch.is_over(PATIENCE_S):
                    return
            self._tell_ready()

        if _supervised.join():
            try:
                threading.Thread(target=say, name="duly-worker-ready", daemon=True).start()
            except RuntimeError:  # the system gives no thread
                self._tell_ready()

    def _work(
        self,
        engine: WorkerEngine,
        runs: Runs,
        threads: Threads,
        loop: EventLoop | None,
        *,
        has_started: bool,
        on_main_thread: bool,
    ) -> WorkerReport:
        concurrency = int(self._settings["concurrency"])
        executors = {executor.number: executor for executor in (engine.executor() for _ in range(concurrency))}
        # In a thread of its own: Python runs signal handlers at once only while its main thread waits for a lock; and
        # not even then when the system gave the signal to another thread, as it does when two come together.
        failures = Failures(engine, runs)
        memory = None if self._max_memory is None else Memory(self._max_memory)
        is_callers_loop = loop is not None and loop.is_callers
        watch = Watch(
            engine, executors, loop, failures, self._ending, self._patience, memory, is_callers_loop=is_callers_loop
        )
        try:
            threads.start()  # the system may give none
            # Without what `on_start` makes no job runs, also before the engine has seen the signal that ended that.
            for executor in executors.values() if has_started else ():
                threads.give(executor)
            watch.start()
            if on_main_thread and has_started:
                self._say_ready(watch)
            while not watch.is_over(_LOOK_S):
                pass
        finally:
            engine.stop()
            engine.stop()
            watch.end(LAST_STEPS_S)
            threads.end(0.0 if watch.left else LAST_STEPS_S)
            failures.end(LAST_STEPS_S)
        self._ending.status = engine.exit_code(self._ending.signals, self._ending.stuck)
        report = watch.report()
        if on_main_thread and has_started:
            self._tell_ready()  # its last job may have ended sooner
        return report

    def _tell_ready(self) -> None:
        # Behind two stop signals the supervisor answers with another SIGTERM, which would interrupt `on_stop`.
        if self._ending.heard() < 2:
            _supervised.ready()

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
            if self._ending.on_signal is not None:
                self._ending.on_signal()

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
