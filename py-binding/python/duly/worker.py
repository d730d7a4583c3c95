"""A worker: threads that run the handlers of reserved jobs, until it is told to stop."""

from __future__ import annotations

import inspect
import logging
import random
import signal
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from contextlib import contextmanager
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, overload

from duly._core import Job, LeaseKeeper
from duly.errors import DulyError, InvalidArgumentError, LeaseLostError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from types import FrameType

    from duly._core import Client

Handler: TypeAlias = Callable[[Job], Any]
"""What runs a job: it takes the job, and what it returns does not matter."""
FailureHook: TypeAlias = Callable[[Job, BaseException], "Mapping[str, Any] | None"]
"""Gives the arguments of `job.fail` that it wants changed, such as `{"data": ...}`, or None."""
AnyHandler = TypeVar("AnyHandler", bound=Handler)

log = logging.getLogger("duly.worker")

_LONGEST_LOOK_S = 0.5
"""How long one wait for a job may keep the worker from seeing that it must stop."""
_STOP_LOOK_S = 0.1
"""How long any other wait may keep it from seeing that."""
_FIRST_PAUSE_S = 0.1
_LONGEST_PAUSE_S = 5.0


class Worker:
    """Reserves jobs of some queues and runs their handlers in threads.

    A list of queues is a strict order, the first queue first; a mapping gives each queue a weight.

    A handler takes the job. If it returns, the job is acked; if it raises, the job fails and its policy decides. A job
    that its handler settled (`job.ack()`, `job.fail(...)`, `job.release(...)`) is left alone. Leases are renewed from
    a native thread, also while a handler keeps the GIL, up to the job's `timeout`.

    `on_failure` is called with a job whose handler raised, and the exception, before the failure is stored. It may give
    a dict of what `job.fail` is to take: `error`, `data`, `attempts`, `max_retries`, `retry_after`, `counted`, `final`.
    """

    def __init__(
        self,
        client: Client,
        queues: Mapping[str, int] | Iterable[str],
        *,
        concurrency: int = 1,
        lease: float = 10.0,
        grace: float = 30.0,
        on_failure: FailureHook | None = None,
    ) -> None:
        """Take the queues' names, how many jobs run at once, the length of a lease and the grace in seconds."""
        if isinstance(queues, str):
            raise InvalidArgumentError("queues must be a list of names, such as ['orders']")
        self._queues = dict(queues) if isinstance(queues, Mapping) else list(queues)
        for name in self._queues:
            client.queue(name)  # refuses a wrong name
        if not self._queues:
            raise InvalidArgumentError("a worker needs at least one queue")
        if isinstance(concurrency, bool) or not isinstance(concurrency, int) or concurrency < 1:
            raise InvalidArgumentError("concurrency must be a whole number, 1 or more")
        if isinstance(grace, bool) or not grace >= 0:
            raise InvalidArgumentError("grace must be 0 or more seconds")
        if on_failure is not None and (not callable(on_failure) or inspect.iscoroutinefunction(on_failure)):
            raise InvalidArgumentError("on_failure must be a plain function that takes the job and the exception")
        self._client = client
        self._on_failure = on_failure
        self._concurrency = concurrency
        self._lease = lease
        self._grace = grace
        self._keeper = LeaseKeeper(client, lease)
        self._handlers: dict[str | None, Handler] = {}
        self._stop_asked = 0
        self._reserved: SimpleQueue[Job | None] = SimpleQueue()
        self._ended: SimpleQueue[Job] = SimpleQueue()
        self._running: dict[Job, None] = {}

    @overload
    def on(self, name: str | None, handler: AnyHandler) -> AnyHandler: ...

    @overload
    def on(self, name: str | None, handler: None = None) -> Callable[[AnyHandler], AnyHandler]: ...

    def on(self, name: str | None, handler: Handler | None = None) -> Any:
        """Set the handler of the jobs of this name (None: jobs without a name), by a call or as a decorator."""

        def register(handler: AnyHandler) -> AnyHandler:
            if not callable(handler) or inspect.iscoroutinefunction(handler):
                raise InvalidArgumentError(f"the handler of {name!r} must be a plain function that takes the job")
            self._handlers[name] = handler
            return handler

        return register if handler is None else register(handler)

    def stop(self) -> None:
        """Stop as SIGTERM does; a second call as a second signal. From any thread, a handler, or a signal handler."""
        # Nothing but this: a signal handler that puts something into a queue can leave its own thread waiting for ever.
        self._stop_asked += 1

    def run(self) -> None:
        """Work until `stop`, SIGTERM or SIGINT; then let what runs finish within the grace, and give the rest back.

        A second signal gives everything back at once. Signals are heeded when this runs on the main thread. Lost
        connections are survived; an error that no waiting heals (a wrong password) is raised once running jobs ended.
        """
        threads = [
            threading.Thread(target=self._run_jobs, name=f"duly-worker-{number}", daemon=True)
            for number in range(self._concurrency)
        ]
        for thread in threads:
            thread.start()
        with self._signals():
            try:
                self._fetch()
            finally:
                self._stop_asked = max(self._stop_asked, 1)
                self._wind_up()
                for _ in threads:
                    self._reserved.put(None)
                self._stop_asked = 0

    def _fetch(self) -> None:
        pause = _FIRST_PAUSE_S
        while not self._stop_asked:
            free = self._concurrency - len(self._running)
            if free == 0:
                self._wait_for_end(_STOP_LOOK_S)
                continue
            try:
                jobs = self._client.reserve_from(self._queues, max=free, wait=_LONGEST_LOOK_S, lease=self._lease)
            except DulyError as error:
                if not error.transient:
                    raise
                if pause == _FIRST_PAUSE_S:
                    log.warning("no jobs for now, the worker keeps trying: %s", error)
                self._pause(pause * random.uniform(0.5, 1.0))
                pause = min(pause * 2, _LONGEST_PAUSE_S)
                continue
            if pause != _FIRST_PAUSE_S:
                log.warning("the server answers again")
                pause = _FIRST_PAUSE_S
            for job in jobs:
                self._running[job] = None
                self._keeper.hold(job)
                self._reserved.put(job)
            self._tell_lost()

    def _tell_lost(self) -> None:
        lost = set(self._keeper.lost())
        for job in list(self._running):
            # A job that was settled while its lease was being renewed has lost nothing.
            if job.id in lost and not job.settled:
                log.warning(
                    "the lease of job %s of queue %s is lost: another worker may run it", job.id, job.queue.name
                )

    def _wait_for_end(self, longest: float) -> None:
        """Wait until a job has ended, or until it is time to look whether the worker must stop."""
        try:
            self._ended.get(timeout=min(longest, _STOP_LOOK_S))
        except Empty:
            return

    def _pause(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while not self._stop_asked and (left := until - time.monotonic()) > 0:
            time.sleep(min(left, _STOP_LOOK_S))

    def _run_jobs(self) -> None:
        while (job := self._reserved.get()) is not None:
            try:
                if self._stop_asked:
                    self._settle(job, job.release)
                else:
                    self._run_one(job)
            finally:
                self._keeper.let_go(job)
                self._running.pop(job, None)
                self._ended.put(job)

    def _run_one(self, job: Job) -> None:
        handler = self._handlers.get(job.name)
        if handler is None:
            self._settle(job, lambda: job.fail(f"this worker has no handler for the name {job.name!r}"))
            return
        try:
            handler(job)
        except BaseException as error:  # whatever it raises, the job has failed and the thread goes on
            if job.settled:
                log.exception("job %s of queue %s was settled, and then its handler raised", job.id, job.queue.name)
                return
            self._fail(job, error)
        else:
            if not job.settled:
                self._settle(job, job.ack)

    def _fail(self, job: Job, raised: BaseException) -> None:
        text = _describe(raised)
        changes: dict[str, Any] = {}
        try:
            changes = dict(self._on_failure(job, raised) or {}) if self._on_failure else {}
        except BaseException:  # the job has failed all the same
            log.exception("on_failure raised for job %s of queue %s", job.id, job.queue.name)
        if job.settled:
            return

        def fail() -> None:
            try:
                job.fail(**{"error": text, **changes})
            except (TypeError, ValueError):
                log.exception("on_failure gave for job %s what job.fail does not take", job.id)
                job.fail(text)

        self._settle(job, fail)

    def _settle(self, job: Job, verb: Callable[[], Any]) -> None:
        """Say what became of the job. If that fails, its lease ends and it runs again; the log says so."""
        self._keeper.let_go(job)
        try:
            verb()
        except LeaseLostError as error:
            log.warning("%s", error)
        except DulyError as error:
            log.error("the job will run again when its lease ends: %s", error)

    def _wind_up(self) -> None:
        """Let running handlers finish within the grace, then give their leases back."""
        until = time.monotonic() + self._grace
        while self._running and self._stop_asked == 1 and (left := until - time.monotonic()) > 0:
            self._wait_for_end(left)
        for job in list(self._running):
            log.warning("job %s of queue %s is given back while it still runs", job.id, job.queue.name)
            self._settle(job, job.release)

    @contextmanager
    def _signals(self) -> Iterator[None]:
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        def heed(_number: int, _frame: FrameType | None) -> None:
            self.stop()

        before = {number: signal.signal(number, heed) for number in (signal.SIGTERM, signal.SIGINT)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, signal.SIG_DFL if handler is None else handler)


def _describe(error: BaseException) -> str:
    """Give `ValueError: what it says`, and below where it was raised."""
    said = "".join(traceback.format_exception_only(type(error), error)).strip()
    # Without the line of this file that called the handler.
    frames = traceback.extract_tb(error.__traceback__)[1:]
    return "\n".join([said, *(f"  at {frame.filename}:{frame.lineno} in {frame.name}" for frame in reversed(frames))])
