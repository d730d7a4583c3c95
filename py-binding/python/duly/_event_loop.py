"""The event loop of a worker, on which handlers run that are coroutines."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from duly._runs import check_result, running

if TYPE_CHECKING:
    from duly._core import Executor, Job
    from duly._runs import Runs
    from duly.worker import Handler


class EventLoop:
    """One loop in a thread of its own; a task for each run, as many at once as the worker has places."""

    def __init__(
        self,
        handlers: Mapping[str | None, Handler],
        runs: Runs,
        give_back: Callable[[Executor, Job | None], None],
    ) -> None:
        """Take the coroutines by name, and what takes a place for which there is no coroutine to run."""
        self.handlers = handlers
        self._runs = runs
        self._give_back = give_back
        self._running: dict[int, tuple[Executor, asyncio.Task[None]]] = {}
        self._ending = False
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._main, name="duly-worker-asyncio", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def begin(self, place: Executor, job: Job) -> None:
        """Run this job. From any thread."""
        self._loop.call_soon_threadsafe(self._begin, place, job)

    def interrupt(self, number: int) -> None:
        """Cancel what runs in this place, if it was interrupted and has not ended meanwhile. From any thread."""
        self._loop.call_soon_threadsafe(self._cancel, number)

    def end(self, seconds: float) -> None:
        """Wait so long for what runs to end, once the engine gives no more jobs."""
        self._loop.call_soon_threadsafe(self._end)
        self._thread.join(seconds)

    def _main(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
            self._loop.run_until_complete(self._loop.shutdown_default_executor())
        finally:
            self._loop.close()

    # Below: on the loop's thread only.

    def _begin(self, place: Executor, job: Job | None) -> None:
        """Run the job as a task; from one job to the next the place needs no other thread."""
        if job is not None and place.interrupted is not None:
            job = place.take()
        handler = None if job is None else self.handlers.get(job.name)
        if job is None or handler is None:
            self._give_back(place, job)
            if self._ending and not self._running:
                self._loop.stop()
            return
        # A task of its own for each: a cancellation that comes too late must not reach the next job, and neither must
        # the context variables.
        task = self._loop.create_task(self._run(place, job, handler))
        self._running[place.number] = (place, task)
        task.add_done_callback(lambda task: self._ended(place, task))

    async def _run(self, place: Executor, job: Job, handler: Callable[[Job], Any]) -> None:
        runs = self._runs
        running.set(job)  # a task has a context of its own
        try:
            with runs.span(job):
                runs.before(job)
                result = await handler(job)
                check_result(job, result)
            place.keep(result)
        except BaseException as error:  # noqa: BLE001 - whatever it raises, the loop goes on
            runs.settle(place, job, runs.failed(job, error) if place.leave() else "")
        else:
            if place.leave():
                runs.worked(job)
            runs.settle(place, job)

    def _ended(self, place: Executor, task: asyncio.Task[None]) -> None:
        if not task.cancelled():
            task.exception()  # looked at
        del self._running[place.number]
        self._begin(place, place.take())

    def _cancel(self, number: int) -> None:
        place, task = self._running.get(number, (None, None))
        if place is not None and task is not None and place.interrupted is not None:
            task.cancel()

    def _end(self) -> None:
        self._ending = True
        if not self._running:
            self._loop.stop()
