"""Handlers that are coroutines."""

from __future__ import annotations

import asyncio
import contextvars
import ctypes
import sys
import threading

import duly
from support import empty, running, until

number: contextvars.ContextVar[int] = contextvars.ContextVar("number", default=0)


def test_coroutines_run_together_on_one_loop(client: duly.Client, queue: duly.Queue) -> None:
    together = most = 0
    threads: set[int] = set()
    loops: set[int] = set()
    full = asyncio.Event()
    worker = duly.Worker(client, ["q"], concurrency=50)

    @worker.on(None)
    async def wait(_job: duly.Job) -> None:
        nonlocal together, most
        together += 1
        most = max(most, together)
        threads.add(threading.get_ident())
        loops.add(id(asyncio.get_running_loop()))
        if most == 50:
            full.set()
        await full.wait()
        together -= 1

    queue.push_many(duly.NewJob(n) for n in range(120))
    with running(worker) as reports:
        until(lambda: empty(queue), "jobs are left")
    assert (most, len(threads), len(loops)) == (50, 1, 1)
    assert reports[0].acked == 120


def test_outcomes_and_errors_of_coroutines(client: duly.Client, queue: duly.Queue) -> None:
    worker = duly.Worker(client, ["q"], concurrency=3)

    @worker.on(None)
    async def handle(job: duly.Job) -> None:
        await asyncio.sleep(0)
        if job.data == "ack":
            job.ack()
        elif job.data == "release":
            raise duly.Release(after=3600)
        elif job.data == "fail":
            raise duly.Fail("by hand")
        elif job.data == "exit":
            raise SystemExit(3)
        elif job.data == "cancelled":
            raise asyncio.CancelledError
        elif job.data == "raise":
            raise ValueError("no")

    for data in ("ack", "release", "fail", "exit", "cancelled", "raise", "return"):
        queue.push(data, max_retries=0)
    with running(worker) as reports:
        until(lambda: queue.counts().ready + queue.counts().reserved == 0, "jobs are left")
    failed = {view.data: view.error for view in queue.peek("failed")}
    assert set(failed) == {"fail", "exit", "cancelled", "raise"}
    assert failed["fail"] == "by hand"
    assert failed["raise"].startswith("ValueError: no\n  at ")
    assert __file__ in failed["raise"]
    assert [view.data for view in queue.peek("delayed")] == ["release"]
    report = reports[0]
    assert (report.acked, report.failed, report.released, report.lost) == (2, 4, 1, 0)


def test_threads_and_coroutines_in_one_worker(client: duly.Client, queue: duly.Queue) -> None:
    seen: list[tuple[str, int]] = []
    worker = duly.Worker(client, ["q"], concurrency=4)

    @worker.on("plain")
    def plain(_job: duly.Job) -> None:
        seen.append(("plain", threading.get_ident()))

    @worker.on("coroutine")
    async def coroutine(_job: duly.Job) -> None:
        await asyncio.sleep(0)
        seen.append(("coroutine", threading.get_ident()))

    queue.push_many(duly.NewJob(n, name=("plain", "coroutine")[n % 2]) for n in range(1000))
    with running(worker) as reports:
        until(lambda: empty(queue), "jobs are left")
        queue.push(1, name="plain")
        until(lambda: len(seen) == 1001, "the last one is left")
        queue.push(1, name="coroutine")
        until(lambda: len(seen) == 1002, "the last one is left")
    assert reports[0].acked == 1002
    assert len({thread for kind, thread in seen if kind == "coroutine"}) == 1


def test_context_variables_do_not_leak_from_run_to_run(client: duly.Client, queue: duly.Queue) -> None:
    seen: list[int] = []
    worker = duly.Worker(client, ["q"])

    @worker.on(None)
    async def note(job: duly.Job) -> None:
        seen.append(number.get())
        number.set(job.data)

    queue.push_many(duly.NewJob(n) for n in range(1, 6))
    with running(worker):
        until(lambda: len(seen) == 5, "jobs are left")
    assert seen == [0] * 5


def test_an_exception_that_comes_late_to_a_thread_loses_no_executor(client: duly.Client, queue: duly.Queue) -> None:
    """As libraries raise it that end what takes too long: the handler had ended, and the thread waited."""
    worker = duly.Worker(client, ["q"], concurrency=1)
    threads: list[int] = []

    @worker.on("plain")
    def plain(_job: duly.Job) -> None:
        threads.append(threading.get_ident())

    @worker.on("coroutine")
    async def coroutine(_job: duly.Job) -> None:
        def waits() -> bool:
            return sys._current_frames()[threads[-1]].f_code.co_name == "_serve"

        await asyncio.to_thread(until, waits, "the thread does not wait")
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(threads[-1]), ctypes.py_object(ValueError))

    for _ in range(3):
        queue.push(None, name="plain")
        queue.push(None, name="coroutine")
    queue.push(None, name="plain")
    with running(worker) as reports:
        until(lambda: empty(queue), "jobs are left")
    assert reports[0].acked == 7
