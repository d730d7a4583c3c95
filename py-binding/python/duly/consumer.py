"""A consumer: gives jobs to a program, or a framework's worker, that runs them itself."""

from __future__ import annotations

import atexit
import logging
import signal
import threading
import time
import weakref
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from duly._core import AsyncClient, AsyncJob, Client, Job, PullEngine
from duly._failures import brief
from duly._misuse import refuse_green_threads
from duly._runs import log_safely, until_it_returns
from duly.errors import InvalidArgumentError, UnsupportedError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, MutableMapping
    from datetime import timedelta

    from typing_extensions import Self

    from duly._core import ReservedJob, WorkerEvent, WorkerReport, _Interruption

AnyJob = TypeVar("AnyJob", Job, AsyncJob)

log = logging.getLogger("duly.consumer")

_A_WAIT_S = 3600.0
"""One wait for an event; another follows."""
_LONGEST_TURN_S = 0.0005
"""So long may a task take jobs that are here, before others of its loop have their turn."""
_MOST_EARLY = 1000

_open: weakref.WeakSet[PullEngine] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    """Send what was said last, and give back the rest."""
    engines = list(_open)
    # In an outage all have the same seconds for that.
    for engine in engines:
        with suppress(Exception):
            engine.stop()
    for engine in engines:
        with suppress(Exception):
            engine.close(0.0)


class _Consumer(Generic[AnyJob]):
    """What both consumers have in common."""

    def __init__(
        self,
        client: Any,
        queues: Mapping[str, int] | Iterable[str],
        settings: dict[str, Any],
        on_interrupt: Callable[[AnyJob, _Interruption], object] | None,
    ) -> None:
        if not hasattr(signal, "pthread_sigmask"):
            raise UnsupportedError("consumers do not run on this system (Windows): use Linux, macOS or WSL")
        if on_interrupt is not None and not callable(on_interrupt):
            raise InvalidArgumentError("on_interrupt must be a function that takes a job and why it was interrupted")
        refuse_green_threads()
        self._engine = PullEngine(client, queues, **settings)
        self._out = None if on_interrupt is None else _Out(on_interrupt)
        # Neither keeps this object, and the thread does not keep the function that may lead to it: when nobody has it
        # any more, it is stopped.
        weakref.finalize(self, self._engine.stop).atexit = False
        _open.add(self._engine)
        out = None if self._out is None else weakref.ref(self._out)
        threading.Thread(target=_watch, args=(self._engine, out), name="duly-consumer", daemon=True).start()

    def stop(self) -> None:
        """Give out no more jobs, and give back those that were fetched ahead. Returns at once.

        Jobs that are out may be settled within the grace, and then go back. Safe in any thread or signal handler.
        """
        self._engine.stop()

    @property
    def stopped(self) -> bool:
        """True once it was stopped, or has ended by an error that `next` raises: it gives no more jobs."""
        return self._engine.is_stopping

    def events(self) -> int:
        """Return a file descriptor for an event loop, such as `loop.add_reader`. Read nothing from it.

        It is readable when a job can be taken, and for ever once the consumer has stopped. It stays readable until
        `next(0)` returns None, which waits for nothing from now on: so take jobs until then.
        """
        return self._engine.events()

    def fileno(self) -> int:
        """Return the same, so that `selectors` take the consumer itself."""
        return self._engine.events()

    def report(self) -> WorkerReport:
        """Return what it has done so far, as far as the server has confirmed it."""
        return self._engine.report()

    def _given(self, job: Any) -> Any:
        if job is not None and self._out is not None:
            self._out.note(PullEngine.number(job), job)
        return job


class Consumer(_Consumer[Job]):
    """Gives jobs of some queues to a program that runs them itself, such as the worker of a framework.

    A native thread prefetches jobs while you ask for them, renews the leases of those that are out, and sends what
    becomes of them: `ack`, `fail` and `release` of its jobs return at once. Jobs are settled in any order and by any
    thread; up to `concurrency` may be out at once.

    The time of a job is its own `timeout`, or else that of the consumer. When it is over, or the lease is lost, the job
    is not yours any more: settling it raises LeaseLostError, and `job.interrupted` says why. A job that you drop
    without settling it goes back, uncounted, when it is garbage collected.

    Iterating over it gives jobs until it is stopped. `with` closes it at the end. It calls no hooks and handles no
    signals: `signal.signal(signal.SIGTERM, lambda *_: consumer.stop())`. In a forked child it gives no jobs.
    """

    def __init__(
        self,
        client: Client,
        queues: Mapping[str, int] | Iterable[str],
        *,
        concurrency: int = 1,
        lease: float | timedelta = 10.0,
        grace: float | timedelta = 30.0,
        timeout: float | timedelta | None = None,
        name: str | None = None,
        prefetch: int | None = None,
        on_interrupt: Callable[[Job, _Interruption], object] | None = None,
    ) -> None:
        """Start its thread. Nothing is fetched before you ask.

        Args:
            client: the client of the server.
            queues: a list is a strict order, the first queue first; a dict gives each queue a weight (1 to 1,000).
            concurrency: the most jobs that are out at once, 1 to 10,000. Default: 1.
            lease: how soon others take over the jobs if this process dies, in seconds or as a timedelta, 0.1 s to 24
                h. Default: 10 s.
            grace: how long jobs may be out after a stop, in seconds or as a timedelta, 0 to 24 h. Default: 30 s.
            timeout: the longest run of a job that has no `timeout` of its own, in seconds or as a timedelta, 0.001 s to
                100 years. Default: no limit.
            name: its name in `Queue.workers`, 1 to 128 bytes. Default: none.
            prefetch: the most jobs that wait here besides those that are out, 0 to 1,000. Default: as many as run
                within 50 ms.
            on_interrupt: a function, called in a thread of the consumer with a job whose time is over, or whose lease
                is lost, and why: timed_out, lease_lost or stopped. Default: only the log hears of it.

        Raises:
            InvalidArgumentError: a setting is of a wrong type or out of range.

        """
        if not isinstance(client, Client):
            raise InvalidArgumentError(f"client must be a duly.Client, not {type(client).__name__}")
        settings = {"concurrency": concurrency, "lease": lease, "grace": grace, "timeout": timeout}
        super().__init__(client, queues, settings | {"name": name, "prefetch": prefetch}, on_interrupt)

    def next(self, wait: float | timedelta | None = None) -> Job | None:
        """Return the next job; None if there is none within the wait, and always once it was stopped.

        While `concurrency` jobs are out it waits until one is settled. What came before need not be settled.

        Args:
            wait: how long to wait, in seconds or as a timedelta, a year at most; 0 checks once. Default: until there is
                a job, or the consumer is stopped.

        Raises:
            DulyError: what waiting does not cure, such as a wrong password at the start. The consumer has ended.

        """
        job = self._engine.take()
        return self._given(self._engine.next(wait) if job is None else job)  # type: ignore[no-any-return]

    def close(self, within: float | timedelta | None = None) -> WorkerReport:
        """Stop it, wait until the server knows what became of its jobs, and return what it did.

        Jobs that are out may be settled by other threads within the time, and then go back, uncounted. A second call
        returns the same.

        Args:
            within: how long to wait for jobs that are out, in seconds or as a timedelta. Default: the grace.

        Raises:
            DulyError: the error with which it ended by itself.

        """
        return self._engine.close(within)

    def __iter__(self) -> Iterator[Job]:
        """Give jobs until it is stopped."""
        while (job := self.next()) is not None:
            yield job

    def __enter__(self) -> Self:
        """Give the consumer."""
        return self

    def __exit__(self, kind: object, *_raised: object) -> None:
        """Close it; after an exception without a grace."""
        if kind is None:
            self.close()
            return
        with suppress(Exception):
            self.close(0.0)


class AsyncConsumer(_Consumer[AsyncJob]):
    """The asyncio version of `duly.Consumer`: `await next()`, `async for`, `async with`.

    `await job.ack()` takes no time; the same holds for `fail` and `release`.
    """

    def __init__(
        self,
        client: AsyncClient,
        queues: Mapping[str, int] | Iterable[str],
        *,
        concurrency: int = 1,
        lease: float | timedelta = 10.0,
        grace: float | timedelta = 30.0,
        timeout: float | timedelta | None = None,
        name: str | None = None,
        prefetch: int | None = None,
        on_interrupt: Callable[[AsyncJob, _Interruption], object] | None = None,
    ) -> None:
        """Start its thread. Nothing is fetched before you ask.

        Args:
            client: the client of the server, a `duly.aio.Client`.
            queues: a list is a strict order, the first queue first; a dict gives each queue a weight (1 to 1,000).
            concurrency: the most jobs that are out at once, 1 to 10,000. Default: 1.
            lease: how soon others take over the jobs if this process dies, in seconds or as a timedelta, 0.1 s to 24
                h. Default: 10 s.
            grace: how long jobs may be out after a stop, in seconds or as a timedelta, 0 to 24 h. Default: 30 s.
            timeout: the longest run of a job that has no `timeout` of its own, in seconds or as a timedelta, 0.001 s to
                100 years. Default: no limit.
            name: its name in `Queue.workers`, 1 to 128 bytes. Default: none.
            prefetch: the most jobs that wait here besides those that are out, 0 to 1,000. Default: as many as run
                within 50 ms.
            on_interrupt: a function, called in a thread of the consumer with a job whose time is over, or whose lease
                is lost, and why: timed_out, lease_lost or stopped. Default: only the log hears of it.

        Raises:
            InvalidArgumentError: a setting is of a wrong type or out of range.

        """
        if not isinstance(client, AsyncClient):
            raise InvalidArgumentError(f"client must be a duly.aio.Client, not {type(client).__name__}")
        settings = {"concurrency": concurrency, "lease": lease, "grace": grace, "timeout": timeout}
        super().__init__(client, queues, settings | {"name": name, "prefetch": prefetch}, on_interrupt)
        self._turn_began = 0.0

    async def next(self, wait: float | timedelta | None = None) -> AsyncJob | None:
        """Return the next job; None if there is none within the wait, and always once it was stopped.

        A job that comes when its task was cancelled goes back. Arguments and errors are those of `duly.Consumer.next`.
        """
        if time.monotonic() - self._turn_began < _LONGEST_TURN_S:
            job = self._engine.take()
            if job is not None:
                return self._given(job)  # type: ignore[no-any-return]
        job = await self._engine.next_async(wait)
        self._turn_began = time.monotonic()
        return self._given(job)  # type: ignore[no-any-return]

    async def close(self, within: float | timedelta | None = None) -> WorkerReport:
        """Stop it, wait until the server knows what became of its jobs, and return what it did.

        Arguments and errors are those of `duly.Consumer.close`.
        """
        return await self._engine.close_async(within)

    async def __aiter__(self) -> AsyncIterator[AsyncJob]:
        """Give jobs until it is stopped."""
        while (job := await self.next()) is not None:
            yield job

    async def __aenter__(self) -> Self:
        """Give the consumer."""
        return self

    async def __aexit__(self, kind: object, *_raised: object) -> None:
        """Close it; after an exception without a grace."""
        if kind is None:
            await self.close()
            return
        with suppress(Exception):
            await self.close(0.0)


class _Out:
    """The jobs that are out, for who is to hear of their interruption."""

    def __init__(self, on_interrupt: Callable[[Any, _Interruption], object]) -> None:
        self._on_interrupt = on_interrupt
        self._jobs: MutableMapping[int, ReservedJob] = weakref.WeakValueDictionary()
        # Of jobs that are on their way to who asked for them.
        self._early: dict[int, _Interruption] = {}
        # Of the one that is being told of: gone once the function was called.
        self._telling: dict[int, Iterator[_Interruption]] = {}
        self._lock = threading.Lock()

    def note(self, number: int, job: ReservedJob) -> None:
        with self._lock:
            self._jobs[number] = job
            why = self._early.pop(number, None)
        if why is not None:
            self._call(job, iter((why,)))

    def interrupt(self, number: int, why: _Interruption) -> None:
        """Call the function, if the job is out. What was raised in here: call it again."""
        with self._lock:
            job = self._jobs.get(number)
            if job is None and len(self._early) < _MOST_EARLY:
                self._early[number] = why
        if job is not None:
            self._call(job, self._telling.setdefault(number, iter((why,))))
        self._jobs.pop(number, None)
        self._telling.pop(number, None)

    def _call(self, job: ReservedJob, why: Iterator[_Interruption]) -> None:
        try:
            list(map(self._on_interrupt, (job,), why))
        except BaseException as error:  # noqa: BLE001 - whatever it raises, `sys.exit` too, others must be told
            what = "on_interrupt raised %s, and the consumer goes on: correct the function"
            log_safely(logging.ERROR, what, brief(error), logger=log, raised=error)


def _watch(engine: PullEngine, out: weakref.ref[_Out] | None) -> None:
    """Log the events, and tell of interruptions, until the consumer has ended."""
    taken: list[WorkerEvent | None] = []
    until_it_returns(lambda: _hear(engine, out, taken), "the consumer", log)


def _hear(engine: PullEngine, out: weakref.ref[_Out] | None, taken: list[WorkerEvent | None]) -> None:
    while True:
        if not taken:
            taken.extend(map(engine.event, (_A_WAIT_S,)))
        event = taken[0]
        if event is None:
            if engine.is_over:
                return
        else:
            _log(event)
            if out is not None and event.run is not None and event.why is not None:
                _tell(out(), event.run, event.why)
        taken.clear()


def _tell(out: _Out | None, run: int, why: _Interruption) -> None:
    # Of a consumer that nobody has any more the job itself says it.
    if out is not None:
        out.interrupt(run, why)


def _log(event: WorkerEvent) -> None:
    level = logging.ERROR if event.is_error else logging.WARNING if event.is_warning else logging.INFO
    fields = {"queue": event.queue, "id": event.id, "job_name": event.name, "attempt": event.attempt}
    log_safely(level, "%s", event.text, fields=fields, logger=log)
