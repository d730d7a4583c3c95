"""Tests of programs that use duly: a pytest plugin with a private server, a clock that tests move, and `drain`.

```python
def test_an_unpaid_order_is_closed(duly_app):
    shop = duly_app(tasks.app)
    tasks.close_order.using(delay=1800).push(order_id=42)
    assert shop.drain() == 0
    shop.advance(1800)
    assert shop.drain() == 1
```
"""

from __future__ import annotations

import asyncio
import itertools
import tempfile
import time
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from duly._calls import running_loop
from duly._core import AsyncClient, Client
from duly._misuse import is_coroutine_function
from duly._runs import BadCall, NoHandler, Runs, check_result, context_of, running
from duly.outcomes import Fail, Release, Retry

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from duly._core import Job
    from duly.app import App

_LEASE_S = 24 * 3600
_numbers = itertools.count()


class AppUnderTest:
    """An app on a private server whose clock stands still until `advance`."""

    def __init__(self, app: App, url: str) -> None:
        """Use the fixture `duly_app`."""
        self.app = app
        self.now = time.time()
        """The time of the queues' clock, in unix seconds."""
        prefix = f"test{next(_numbers)}:"
        self.client = Client(url, prefix=prefix, manual_clock=True)
        self.async_client = AsyncClient(url, prefix=prefix, manual_clock=True)
        self._runs = Runs(app._middleware)
        self._pushed: dict[str, None] = {}
        self._with_clock: set[str] = set()
        for name in app.queues():
            self._notice(name)

    def advance(self, seconds: float | timedelta) -> None:
        """Move the clock forward, which makes delayed jobs due."""
        self.now += seconds.total_seconds() if isinstance(seconds, timedelta) else seconds
        for name in self._with_clock:
            self.client.queue(name).set_clock(self.now)

    def drain(self, *, raises: bool = True) -> int:
        """Run every job that is due, in this thread, until there is none, and return how many ran.

        It drains the queues of the app's tasks, and those that a task was pushed to in this test
        (`task.using(queue="other").push()`). The app's middleware is called as in a worker.

        A task that raises fails its job as in a worker, and `drain` raises the exception; with `raises=False` it goes
        on with the other jobs. `Retry`, `Release` and `Fail` act as in a worker and are not raised. A retry runs when
        the clock has reached its time. In a test that is a coroutine, use `adrain` for tasks that are coroutines.
        """
        ran = 0
        while (job := self._due()) is not None:
            handler = self._handler(job)
            if not is_coroutine_function(handler):
                context_of(job).run(self._run, job, handler, raises=raises)
            elif _is_on_loop():
                job.release()
                raise RuntimeError(
                    f"the task {job.name!r} is a coroutine, and so is this test: use `await shop.adrain()`"
                )
            else:
                asyncio.run(self._run_coroutine(job, handler, raises=raises))
            ran += 1
        return ran

    async def adrain(self, *, raises: bool = True) -> int:
        """Do the same as `drain` in a test that is a coroutine, of asyncio."""
        running_loop("adrain", "drain")
        ran = 0
        while (job := self._due()) is not None:
            handler = self._handler(job)
            if is_coroutine_function(handler):
                # A task has a context of its own.
                await asyncio.create_task(self._run_coroutine(job, handler, raises=raises))
            else:
                context_of(job).run(self._run, job, handler, raises=raises)
            ran += 1
        return ran

    def _due(self) -> Job | None:
        """Give one job: more would be lost to the next drain if this one's task raises."""
        for name in dict.fromkeys([*self.app.queues(), *self._pushed]):
            self._notice(name)
            for job in self.client.queue(name).reserve_many(1, lease=_LEASE_S):
                return job
        return None

    def _handler(self, job: Job) -> Callable[[Job], Any]:
        task = self.app.tasks.get(job.name or "")
        if task is None:
            return self.app._otherwise or self._runs.no_handler
        return task.handler()

    def _run(self, job: Job, handler: Callable[[Job], Any], *, raises: bool) -> None:
        try:
            with self._runs.span(job):
                result = None if self._runs.before(job) else handler(job)
                check_result(job, result)
            self._worked(job, result)
        except Exception as error:  # noqa: BLE001 - `_failed` raises it
            self._failed(job, error, raises=raises)

    async def _run_coroutine(self, job: Job, handler: Callable[[Job], Any], *, raises: bool) -> None:
        """Do the same on the event loop, hooks and all."""
        running.set(job)
        try:
            with self._runs.span(job):
                result = None if self._runs.before(job) else await handler(job)
                check_result(job, result)
            self._worked(job, result)
        except Exception as error:  # noqa: BLE001 - as above
            self._failed(job, error, raises=raises)

    def _worked(self, job: Job, result: Any) -> None:
        self._runs.worked(job)
        if not job.settled:
            job.ack(result)

    def _failed(self, job: Job, error: Exception, *, raises: bool) -> None:
        self._runs.failed(job, error)
        if raises and isinstance(error, NoHandler):
            raise LookupError(f"the app has no task {job.name!r}")
        if raises and isinstance(error, BadCall):
            raise TypeError(str(error))
        if raises and not isinstance(error, (Retry, Release, Fail)):
            raise error

    def _notice(self, queue: str, *, is_pushed: bool = False) -> None:
        """Set the clock of a queue when it is first heard of, which is before anything is pushed to it."""
        if queue not in self._with_clock:
            self.client.queue(queue).set_clock(self.now)
            self._with_clock.add(queue)
        if is_pushed:
            self._pushed[queue] = None

    @contextmanager
    def _in_place(self) -> Iterator[AppUnderTest]:
        before = self.app.client, self.app.async_client, self.app._notice
        self.app.client, self.app.async_client, self.app._notice = self.client, self.async_client, self._notice
        try:
            yield self
        finally:
            self.app.client, self.app.async_client, self.app._notice = before


def _is_on_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


@pytest.fixture(scope="session")
def duly_url() -> Iterator[str]:
    """Return the URL of a private server for this test session, which starts with the first call."""
    with tempfile.TemporaryDirectory(prefix="duly-test-", ignore_cleanup_errors=True) as folder:
        yield f"embedded:{folder}"


@pytest.fixture
def duly_app(duly_url: str) -> Iterator[Callable[[App], AppUnderTest]]:
    """Return a function that puts an app on the private server for one test, with its own queues and a still clock."""
    with ExitStack() as stack:
        yield lambda app: stack.enter_context(AppUnderTest(app, duly_url)._in_place())
