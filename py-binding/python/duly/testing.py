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
import inspect
import itertools
import tempfile
import time
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from duly import aio
from duly._core import Client
from duly._runs import Runs
from duly.outcomes import Fail, Release, Retry

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from duly._core import Job
    from duly.app import App

_LEASE_S = 24 * 3600
_runs = Runs(())
_numbers = itertools.count()


class AppUnderTest:
    """An app on a private server, whose time stands still until `advance`."""

    def __init__(self, app: App, url: str) -> None:
        """Use the fixture `duly_app`."""
        self.app = app
        self.now = time.time()
        """Seconds since 1970 by the queues' clock."""
        prefix = f"test{next(_numbers)}:"
        self.client = Client(url, prefix=prefix, manual_clock=True)
        self.async_client = aio.Client(url, prefix=prefix, manual_clock=True)
        self._set_clock()

    def advance(self, seconds: float | timedelta) -> None:
        """Move the clock on, which makes delayed jobs due."""
        self.now += seconds.total_seconds() if isinstance(seconds, timedelta) else seconds
        self._set_clock()

    def drain(self, *, raises: bool = True) -> int:
        """Run every job that is due, here and now, until there is none, and give how many ran.

        A job whose task raises fails as in a worker, and what it raised is raised here; with `raises=False` the rest
        goes on. `Retry`, `Release` and `Fail` say what becomes of the job and are not raised. Retries run when the
        clock has come to them. In a test that is a coroutine, `adrain` runs tasks that are coroutines.
        """
        ran = 0
        while (job := self._due()) is not None:
            ran += 1
            try:
                ended = self._handler(job)(job)
                result = _awaited(ended) if inspect.isawaitable(ended) else ended
            except _LoopRunsError:
                job.release()
                what = f"the task {job.name!r} is a coroutine, and so is this test: use `await shop.adrain()`"
                raise RuntimeError(what) from None
            except Exception as error:  # noqa: BLE001 - `_failed` raises it
                self._failed(job, error, raises=raises)
            else:
                _worked(job, result)
        return ran

    async def adrain(self, *, raises: bool = True) -> int:
        """Do the same in a test that is a coroutine."""
        ran = 0
        while (job := self._due()) is not None:
            ran += 1
            try:
                ended = self._handler(job)(job)
                result = await ended if inspect.isawaitable(ended) else ended
            except Exception as error:  # noqa: BLE001 - `_failed` raises it
                self._failed(job, error, raises=raises)
            else:
                _worked(job, result)
        return ran

    def _due(self) -> Job | None:
        """Give one job: more would be lost to the next drain if this one's task raises."""
        for name in self.app.queues():
            for job in self.client.queue(name).reserve_many(1, lease=_LEASE_S):
                return job
        return None

    def _handler(self, job: Job) -> Callable[[Job], Any]:
        task = self.app.tasks.get(job.name or "")
        if task is None:
            raise LookupError(f"the app has no task {job.name!r}")
        return task.handler()

    def _failed(self, job: Job, error: Exception, *, raises: bool) -> None:
        _runs.failed(job, error)
        if raises and not isinstance(error, (Retry, Release, Fail)):
            raise error

    def _set_clock(self) -> None:
        for name in self.app.queues():
            self.client.queue(name).set_clock(self.now)

    @contextmanager
    def _in_place(self) -> Iterator[AppUnderTest]:
        before = self.app.client, self.app.async_client
        self.app.client, self.app.async_client = self.client, self.async_client
        try:
            yield self
        finally:
            self.app.client, self.app.async_client = before


class _LoopRunsError(Exception):
    """A coroutine cannot be run here."""


def _awaited(ended: Any) -> Any:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(ended)
    ended.close()
    raise _LoopRunsError


def _worked(job: Job, result: Any) -> None:
    if not job.settled:
        job.ack(result)


@pytest.fixture(scope="session")
def duly_url() -> Iterator[str]:
    """Give the URL of a private server of this test session, which starts with the first call and leaves nothing."""
    with tempfile.TemporaryDirectory(prefix="duly-test-", ignore_cleanup_errors=True) as folder:
        yield f"embedded:{folder}"


@pytest.fixture
def duly_app(duly_url: str) -> Iterator[Callable[[App], AppUnderTest]]:
    """Give a function that puts an app on the private server for one test, with queues of its own and a still clock."""
    with ExitStack() as stack:
        yield lambda app: stack.enter_context(AppUnderTest(app, duly_url)._in_place())
