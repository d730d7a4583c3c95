"""The event loop of a worker, on which handlers run that are coroutines."""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
import os
import threading
from collections import deque
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from duly._cancelling import cancel
from duly._ending import LAST_STEPS_S, PATIENCE_S
from duly._failures import brief
from duly._runs import PAUSE_S, Run, about, check_result, context_of, log_safely, pass_on, running
from duly.outcomes import Release

if TYPE_CHECKING:
    from contextvars import Context

    from duly._core import Executor, Job
    from duly._ending import Ending
    from duly._runs import Runs
    from duly.worker import Handler


class EventLoop:
    """One loop, in a thread of its own or a caller's; a task for each run, as many at once as there are executors."""

    def __init__(
        self,
        handlers: Mapping[str | None, Handler],
        runs: Runs,
        give_back: Callable[[Executor], None],
        callers: asyncio.AbstractEventLoop | None = None,
        is_cancelled: Callable[[], bool] = bool,
    ) -> None:
        """Take the coroutines by name, and what takes an executor for which there is no coroutine to run.

        With the running loop of a caller, its tasks are there, and no thread is needed; `is_cancelled` tells then
        whether the caller was cancelled.
        """
        self._is_cancelled = is_cancelled
        self.handlers = handlers
        self._runs = runs
        self._give_back = give_back
        self.handed: deque[Executor] = deque()
        """Executors that threads have handed over, each with a job to run here: `wake` begins it."""
        # Those that are here, and their runs.
        self._here: dict[int, Executor] = {}
        self._running: dict[int, _TaskRun] = {}
        self._ending = False
        self._has_ended = False
        self._over = threading.Event()
        self._are_left_tasks_over = threading.Event()
        self._loop = asyncio.new_event_loop() if callers is None else callers
        self.is_callers = callers is not None
        self._thread: threading.Thread | None = None
        if callers is None:
            self._thread = threading.Thread(target=self._main, name="duly-worker-asyncio", daemon=True)

    def start(self) -> None:
        """Start the thread, if it is not the caller's."""
        if self._thread is not None:
            self._thread.start()

    def call(self, coroutine: Coroutine[Any, Any, Any]) -> Call:
        """Run it there. From any other thread."""
        return Call(coroutine, self._loop)

    def runs(self, job: Job) -> bool:
        """Tell whether this job runs here."""
        return job.name in self.handlers

    def is_closed(self) -> bool:
        """Tell whether nothing runs here any more: its caller has closed it."""
        return self._loop.is_closed()

    def has(self, number: int) -> bool:
        """Tell whether this executor is here. From any thread."""
        return number in self._here

    def wake(self) -> None:
        """Begin what was handed over, once or more often. From any thread."""
        if self._loop.is_closed():
            self.handed.clear()
        else:
            self._loop.call_soon_threadsafe(self._safely, self._begin_handed)

    def interrupt(self, number: int) -> None:
        """Cancel what runs in this executor, if it was interrupted and has not ended meanwhile. From any thread."""
        with suppress(RuntimeError):  # it is closed
            self._loop.call_soon_threadsafe(self._safely, self._cancel, number)

    def end(self, seconds: float, ending: Ending) -> None:
        """Wait so long for what runs to end, once the engine gives no more jobs; then for tasks that were left here."""
        if self._thread is not None and self._thread.ident is None:
            self._loop.close()  # the system has given no thread
            return
        with suppress(RuntimeError):  # it is closed
            self._loop.call_soon_threadsafe(self._safely, self._end)
            if self._over.wait(seconds) and self._thread is not None:
                ending.wait(self._are_left_tasks_over.wait, PATIENCE_S + LAST_STEPS_S)

    def _main(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._run_until_ended()
            self._loop.set_task_factory(None)  # of the program, which may raise
            self._run_until_cancelled()
            self._are_left_tasks_over.set()
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
            self._loop.run_until_complete(self._loop.shutdown_default_executor())
        finally:
            self._loop.close()

    # Below: on the loop's thread only.

    def _run_until_ended(self) -> None:
        """Run the loop until the worker ends it: `sys.exit` in a task or callback and `loop.stop()` end it, too."""
        while not self._has_ended:
            try:
                self._run_until_stopped()
            except BaseException:  # raised in the lines that log another one
                if self._loop.is_closed():
                    raise

    def _run_until_stopped(self) -> None:
        why = "loop.stop()"
        try:
            self._loop.run_forever()
        except BaseException as error:  # asyncio raises SystemExit and KeyboardInterrupt here
            why = brief(error)
            if self._loop.is_closed():
                raise
            self._loop.call_soon(self._safely, self._look)  # what it was about to call may be lost
        if not self._has_ended:
            log_safely(logging.ERROR, "code of a handler stopped the worker's event loop, which goes on: %s", why)

    def _run_until_cancelled(self) -> None:
        """Cancel the tasks that handlers have left, as `asyncio.run` does, and let them end."""
        try:
            left = asyncio.all_tasks(self._loop)
            for task in left:
                cancel(task)
            if left and self._loop.run_until_complete(asyncio.wait(left, timeout=PATIENCE_S))[1]:
                log_safely(logging.ERROR, "tasks that handlers have left on the worker's event loop do not end")
        except BaseException as error:  # noqa: BLE001 - `sys.exit` in a task
            log_safely(logging.ERROR, "a task that a handler has left raised at the worker's end: %s", brief(error))

    def _stop(self) -> None:
        self._has_ended = True
        self._over.set()
        if self._thread is not None:
            self._loop.stop()

    # Another thread's exception may be raised at any line, as in `Threads`: so each step may be taken again.

    def _safely(self, step: Callable[..., None], *given: Any) -> None:
        try:
            step(*given)
        except BaseException as error:  # noqa: BLE001 - no executor may be lost by it
            self._loop.call_later(PAUSE_S, self._safely, self._look)
            log_safely(logging.ERROR, "the worker's event loop goes on after %s", brief(error))
            pass_on(error)

    def _look(self) -> None:
        """Go on with all that is here, whatever was not done."""
        self._begin_handed()
        for executor in list(self._here.values()):
            self._cancel(executor.number)
            self._go_on(executor)
        if self._ending:
            self._end()

    def _begin_handed(self) -> None:
        while self.handed:
            executor = self.handed[0]
            self._here[executor.number] = executor
            self.handed.popleft()
            self._go_on(executor)

    def _go_on(self, executor: Executor) -> None:
        """Run the next job as a task, if none runs; from one job to the next the executor needs no other thread."""
        number = executor.number
        run = self._running.get(number)
        if run is not None and executor.job is run.job:
            if run.task is None or not run.task.done():
                self._start(executor, run)
                return
            self._end_run(executor, run, run.task)
        job = executor.job
        if job is None or executor.interrupted is not None:
            job = executor.take()
        if job is None or job.name not in self.handlers:
            self._running.pop(number, None)
            list(map(self._give_back, map(self._here.pop, (number,))))
            if self._ending:
                self._end()
            return
        run = self._running[number] = _TaskRun(job, context_of(job))
        self._start(executor, run)

    def _start(self, executor: Executor, run: _TaskRun) -> None:
        # A task of its own for each: a cancellation that comes too late must not reach the next job, and neither must
        # the context variables. A second task for a run does nothing.
        if run.task is None:
            run.task = self._task(executor, run)
        if run.watched is not run.task:
            run.task.add_done_callback(lambda task: self._safely(self._ended, executor, run, task))
            run.watched = run.task

    def _task(self, executor: Executor, run: _TaskRun) -> asyncio.Task[None]:
        coroutine = self._run(executor, run)
        try:
            return self._loop.create_task(coroutine)
        except BaseException as error:  # noqa: BLE001 - a task factory of the program; nobody else would run the job
            coroutine.close()
            job = run.job
            what = "the task factory of the worker's event loop raised, and job %s of queue %s runs without it: %s"
            log_safely(logging.ERROR, what, job.id, job.queue.name, brief(error), fields=about(job))
            return asyncio.Task(self._run(executor, run), loop=self._loop)

    async def _run(self, executor: Executor, run: _TaskRun) -> None:
        runs, job = self._runs, run.job
        running.set(job)  # a task has a context of its own
        if next(run.todo, None) is None:
            return
        try:
            if run.task is None:
                run.task = asyncio.current_task()
            with runs.span(job):
                if runs.before(job):
                    run.results[0] = None
                else:
                    run.results[0] = await self.handlers.get(job.name, runs.no_handler)(job)
                    check_result(job, run.results[0])
        except BaseException as error:  # noqa: BLE001 - whatever it raises, the loop goes on
            run.raised = error
            if runs.is_forked:
                os._exit(1)
        if isinstance(run.raised, asyncio.CancelledError) and executor.interrupted is None:
            await self._hear_of_the_callers_end()
            self._spare(run)
        try:
            runs.end(executor, run, asyncio.CancelledError)
        finally:
            if runs.is_forked:
                # A process that a handler or a hook has forked: its loop would take what wakes the parent's.
                os._exit(0)

    async def _hear_of_the_callers_end(self) -> None:
        """Let `serve`, which `asyncio.run` cancels with all other tasks when it ends, have its turn first."""
        for _ in range(3):
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(0)

    def _spare(self, run: _TaskRun) -> None:
        """Charge no job for it that the program ends its event loop, with all tasks."""
        if self._is_cancelled():
            run.raised = Release(reason="the program has ended the event loop of its worker")

    def _ended(self, executor: Executor, run: _TaskRun, task: asyncio.Task[None]) -> None:
        if not task.cancelled():
            task.exception()  # or else asyncio logs it
        if self._running.get(executor.number) is run:
            self._go_on(executor)

    def _end_run(self, executor: Executor, run: _TaskRun, task: asyncio.Task[None]) -> None:
        """End a run whose task has not: it was cancelled before its first step, or another thread's exception came."""
        if next(run.todo, None) is not None:
            run.raised = asyncio.CancelledError() if task.cancelled() else task.exception()
            if task.cancelled() and executor.interrupted is None:
                self._spare(run)
        run.context.run(self._runs.end, executor, run, asyncio.CancelledError)

    def _cancel(self, number: int) -> None:
        executor, run = self._here.get(number), self._running.get(number)
        if executor is not None and run is not None and run.task is not None and executor.interrupted is not None:
            cancel(run.task)

    def _end(self) -> None:
        self._ending = True
        if not self._here:
            self._stop()


class Call:
    """A coroutine that runs on the loop for another thread, which waits for it."""

    def __init__(self, coroutine: Coroutine[Any, Any, Any], loop: asyncio.AbstractEventLoop) -> None:
        """Begin it."""
        self._loop = loop
        self._task: asyncio.Task[Any] | None = None
        self._future = asyncio.run_coroutine_threadsafe(self._run(coroutine), loop)

    async def _run(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        self._task = asyncio.current_task()
        return await coroutine

    @property
    def has_begun(self) -> bool:
        """Tell whether the loop has come to it."""
        return self._task is not None

    def is_over(self, wait: float) -> bool:
        """Wait so long, and say whether it has ended."""
        return bool(concurrent.futures.wait([self._future], wait).done)

    def result(self) -> Any:
        """Give what it gave, or raise what it raised."""
        return self._future.result()

    def cancel(self) -> None:
        """Cancel it; it is over when it has ended."""
        if not self.has_begun:
            self._future.cancel()
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._cancel)

    def _cancel(self) -> None:
        if self._task is not None:
            cancel(self._task)


class _TaskRun(Run):
    """A run in a task."""

    __slots__ = ("task", "watched")

    def __init__(self, job: Job, context: Context) -> None:
        super().__init__()
        self.prepare(job, context)
        self.task: asyncio.Task[None] | None = None
        self.watched: asyncio.Task[None] | None = None
        """The task whose end is heard of."""
