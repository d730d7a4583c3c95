"""The event loop of a worker, on which handlers run that are coroutines."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from duly._failures import brief
from duly._runs import about, check_result, context_of, log_safely, running

if TYPE_CHECKING:
    from duly._core import Executor, Job
    from duly._runs import Runs
    from duly.worker import Handler


class EventLoop:
    """One loop, in a thread of its own or a caller's; a task for each run, as many at once as there are executors."""

    def __init__(
        self,
        handlers: Mapping[str | None, Handler],
        runs: Runs,
        give_back: Callable[[Executor, Job | None], None],
        callers: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        """Take the coroutines by name, and what takes an executor for which there is no coroutine to run.

        With the running loop of a caller, its tasks are there, and no thread is needed.
        """
        self.handlers = handlers
        self._runs = runs
        self._give_back = give_back
        self._running: dict[int, tuple[Executor, asyncio.Task[None]]] = {}
        self._ending = False
        self._has_ended = False
        self._over = threading.Event()
        self._loop = asyncio.new_event_loop() if callers is None else callers
        self._thread: threading.Thread | None = None
        if callers is None:
            self._thread = threading.Thread(target=self._main, name="duly-worker-asyncio", daemon=True)

    def start(self) -> None:
        """Start the thread, if it is not the caller's."""
        if self._thread is not None:
            self._thread.start()

    def wait_for(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        """Run it there, and wait for what it gives. From any other thread."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    def begin(self, executor: Executor, job: Job) -> None:
        """Run this job. From any thread."""
        self._loop.call_soon_threadsafe(self._begin, executor, job)

    def interrupt(self, number: int) -> None:
        """Cancel what runs in this executor, if it was interrupted and has not ended meanwhile. From any thread."""
        self._loop.call_soon_threadsafe(self._cancel, number)

    def end(self, seconds: float) -> None:
        """Wait so long for what runs to end, once the engine gives no more jobs."""
        if self._thread is None:
            with suppress(RuntimeError):  # it is closed
                self._loop.call_soon_threadsafe(self._end)
                self._over.wait(seconds)
            return
        if self._thread.ident is None:
            self._loop.close()  # the system has given no thread
            return
        self._loop.call_soon_threadsafe(self._end)
        self._thread.join(seconds)

    def _main(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._run_until_ended()
            self._loop.set_task_factory(None)  # of the program, which may raise
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
            self._loop.run_until_complete(self._loop.shutdown_default_executor())
        finally:
            self._loop.close()

    # Below: on the loop's thread only.

    def _run_until_ended(self) -> None:
        """Run the loop until the worker ends it: `sys.exit` in a task or callback and `loop.stop()` end it, too."""
        while not self._has_ended:
            why = "loop.stop()"
            try:
                self._loop.run_forever()
            except BaseException as error:  # asyncio raises SystemExit and KeyboardInterrupt here
                why = brief(error)
                if self._loop.is_closed():
                    raise
            if not self._has_ended:
                log_safely(logging.ERROR, "code of a handler stopped the worker's event loop, which goes on: %s", why)

    def _stop(self) -> None:
        self._has_ended = True
        self._over.set()
        if self._thread is not None:
            self._loop.stop()

    def _begin(self, executor: Executor, job: Job | None) -> None:
        """Run the job as a task; from one job to the next the executor needs no other thread."""
        if job is not None and executor.interrupted is not None:
            job = executor.take()
        handler = None if job is None else self.handlers.get(job.name)
        if job is None or handler is None:
            self._give_back(executor, job)
            if self._ending and not self._running:
                self._stop()
            return
        # A task of its own for each: a cancellation that comes too late must not reach the next job, and neither must
        # the context variables.
        task = self._task(executor, job, handler)
        self._running[executor.number] = (executor, task)
        task.add_done_callback(lambda task: self._ended(executor, job, task))

    def _task(self, executor: Executor, job: Job, handler: Callable[[Job], Any]) -> asyncio.Task[None]:
        run = self._run(executor, job, handler)
        try:
            return self._loop.create_task(run)
        except BaseException as error:  # noqa: BLE001 - a task factory of the program; nobody else would run the job
            run.close()
            what = "the task factory of the worker's event loop raised, and job %s of queue %s runs without it: %s"
            log_safely(logging.ERROR, what, job.id, job.queue.name, brief(error), fields=about(job))
            return asyncio.Task(self._run(executor, job, handler), loop=self._loop)

    async def _run(self, executor: Executor, job: Job, handler: Callable[[Job], Any]) -> None:
        runs = self._runs
        running.set(job)  # a task has a context of its own
        try:
            with runs.span(job):
                runs.before(job)
                result = await handler(job)
                check_result(job, result)
            executor.keep(result)
        except BaseException as error:  # noqa: BLE001 - whatever it raises, the loop goes on
            if runs.is_forked:
                os._exit(1)
            self._fail(executor, job, error)
        else:
            self._end_child()
            if executor.leave():
                runs.worked(job)
                self._end_child()
            runs.settle(executor, job)

    def _end_child(self) -> None:
        """End a process that a handler or a hook has forked: its loop would take what wakes the parent's."""
        if self._runs.is_forked:
            os._exit(0)

    def _fail(self, executor: Executor, job: Job, error: BaseException) -> None:
        runs, goes_on = self._runs, executor.leave()
        ending = runs.failed(job, error) if goes_on else runs.interrupted(job, error, asyncio.CancelledError)
        self._end_child()
        runs.settle(executor, job, ending)

    def _ended(self, executor: Executor, job: Job, task: asyncio.Task[None]) -> None:
        error = asyncio.CancelledError() if task.cancelled() else task.exception()
        del self._running[executor.number]
        if error is not None and executor.job is not None:
            # Cancelled before its first step, by a handler that cancels all tasks: it fails as one that has begun.
            context_of(job).run(self._fail, executor, job, error)
        self._begin(executor, executor.take())

    def _cancel(self, number: int) -> None:
        executor, task = self._running.get(number, (None, None))
        if executor is not None and task is not None and executor.interrupted is not None:
            task.cancel()

    def _end(self) -> None:
        self._ending = True
        if not self._running:
            self._stop()
