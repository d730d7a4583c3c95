"""Whatever the code of a program raises, and wherever: the worker goes on, and no job stays with it."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import logging
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import duly
import pytest
from support import empty, running, until

tenant: contextvars.ContextVar[object] = contextvars.ContextVar("tenant", default=None)


class Busy(duly.Retry):
    """Does not call `Retry.__init__`, as many do not."""

    def __init__(self, who: str) -> None:
        self.who = who


class Later(duly.Release):
    def __init__(self, who: str) -> None:
        self.who = who


class MuteRetry(duly.Retry):
    def __str__(self) -> str:
        raise RuntimeError


class NoWait(duly.Retry):
    @property
    def after(self) -> float:
        raise RuntimeError

    @after.setter
    def after(self, value: object) -> None: ...


class OddGroupError(Exception):
    @property
    def exceptions(self) -> list[Exception]:
        raise RuntimeError


class OddCauseError(Exception):
    @property
    def __cause__(self) -> BaseException:  # type: ignore[override]
        raise SystemExit


RAISED: list[tuple[BaseException, str]] = [
    (Busy("the printer"), "the printer"),
    (MuteRetry(), "MuteRetry (its text raised RuntimeError)"),
    (NoWait("no wait"), "NoWait at "),
    (OddGroupError(), "OddGroupError"),
    (OddCauseError(), "OddCauseError (which raised SystemExit when it was described)"),
]


@pytest.mark.parametrize("kind", ["thread", "coroutine"])
@pytest.mark.parametrize(("raised", "error"), RAISED, ids=lambda it: type(it).__name__)
def test_an_exception_that_breaks_when_it_is_read_fails_its_job_alone(
    raised: BaseException,
    error: str,
    kind: str,
    client: duly.Client,
    queue: duly.Queue,
    caplog: pytest.LogCaptureFixture,
) -> None:
    ran: list[object] = []
    worker = duly.Worker(client, ["q"])

    def handle(job: duly.Job) -> None:
        ran.append(job.data)
        if job.data == "bad":
            raise raised

    async def handle_async(job: duly.Job) -> None:
        handle(job)

    worker.on(None, handle if kind == "thread" else handle_async)
    pushed = queue.push("bad", max_retries=0)
    for number in range(3):
        queue.push(number)
    with running(worker):
        until(lambda: empty(queue), "a job stays")
    assert ran == ["bad", 0, 1, 2]
    (view,) = queue.peek("failed")
    assert error in view.error
    assert f"job {pushed} (no name, attempt 1) of queue q failed for good: {type(raised).__name__}" in caplog.text


def test_a_release_that_does_not_call_its_class_is_a_release(client: duly.Client, queue: duly.Queue) -> None:
    ran: list[object] = []
    worker = duly.Worker(client, ["q"])

    @worker.on(None)
    def handle(job: duly.Job) -> None:
        ran.append(job.data)
        if ran.count("bad") == 1:
            raise Later("the printer")

    queue.push("bad", max_retries=0)
    with running(worker) as reports:
        until(lambda: empty(queue), "the job stays")
    assert ran == ["bad", "bad"]
    assert (reports[0].released, reports[0].acked) == (1, 1)


@pytest.mark.parametrize("kind", ["thread", "coroutine"])
@pytest.mark.parametrize("hook", ["before", "after", "on_failure", "on_failed"])
def test_sys_exit_in_a_hook_ends_no_executor(
    hook: str, kind: str, client: duly.Client, queue: duly.Queue, caplog: pytest.LogCaptureFixture
) -> None:
    def leaves(_self: object, job: duly.Job, *_more: object) -> None:
        if job.name == "bad":
            sys.exit(3)

    middleware: Any = type("Leaves", (duly.Middleware,), {hook: leaves})()
    worker = duly.Worker(client, ["q"], middleware=[middleware])
    ran: list[object] = []

    def handle(job: duly.Job) -> None:
        ran.append(job.name)
        if job.name == "bad" and hook != "after":
            raise ValueError

    async def handle_async(job: duly.Job) -> None:
        handle(job)

    for name in ("bad", "good"):
        worker.on(name, handle if kind == "thread" else handle_async)
        queue.push(1, name=name, max_retries=0)
    with running(worker) as reports:
        until(lambda: empty(queue), "a job stays")
    assert ran == (["good"] if hook == "before" else ["bad", "good"])
    assert (reports[0].acked, reports[0].failed) == ((2, 0) if hook == "after" else (1, 1))
    assert ("raised for job" in caplog.text) == (hook != "before")
    assert "SystemExit at " in caplog.text


class Raises(logging.Filter):
    """As one that adds an attribute which only the records of web requests have."""

    def filter(self, _record: logging.LogRecord) -> bool:
        raise AttributeError


@pytest.fixture
def broken_log() -> Iterator[None]:
    log, raises = logging.getLogger("duly.worker"), Raises()
    log.addFilter(raises)
    yield
    log.removeFilter(raises)


@pytest.mark.usefixtures("broken_log")
def test_a_log_that_raises_ends_no_executor_and_no_worker(
    client: duly.Client, queue: duly.Queue, capsys: pytest.CaptureFixture[str]
) -> None:
    worker = duly.Worker(client, ["q"])
    ran: list[object] = []

    @worker.on(None)
    def handle(job: duly.Job) -> None:
        ran.append(job.data)
        if job.data == "bad":
            raise ValueError
        while job.data == "long":
            time.sleep(0.001)

    # The line about the first one is the executor's, that about the second the worker's.
    bad = queue.push("bad", max_retries=0)
    long = queue.push("long", max_retries=0, timeout=0.05)
    queue.push("good")
    with running(worker) as reports:
        until(lambda: empty(queue), "a job stays")
    assert ran == ["bad", "long", "good"]
    assert reports[0].acked == 1
    lines = capsys.readouterr().err.splitlines()
    for pushed in (bad, long):
        assert any(pushed in line and "(logging it raised AttributeError at " in line for line in lines), lines


def test_a_record_factory_with_fields_of_its_own_loses_no_line(
    client: duly.Client, queue: duly.Queue, caplog: pytest.LogCaptureFixture
) -> None:
    plain = logging.getLogRecordFactory()

    def with_id(*args: Any, **kwargs: Any) -> logging.LogRecord:
        record = plain(*args, **kwargs)
        record.id = "request 5"
        return record

    worker = duly.Worker(client, ["q"])
    worker.on(None, lambda _job: 1 / 0)
    pushed = queue.push(1, max_retries=0)
    logging.setLogRecordFactory(with_id)
    try:
        with running(worker):
            until(lambda: empty(queue), "the job stays")
    finally:
        logging.setLogRecordFactory(plain)
    (line,) = [record for record in caplog.records if record.levelname == "ERROR"]
    assert f"job {pushed} (no name, attempt 1) of queue q failed for good" in line.getMessage()
    assert line.__dict__["id"] == "request 5"


async def leaves() -> None:
    sys.exit("goodbye")


async def in_a_task() -> None:
    await asyncio.create_task(leaves())


async def in_a_gather() -> None:
    await asyncio.gather(leaves(), asyncio.sleep(0))


async def in_a_task_group() -> None:
    if sys.version_info >= (3, 11):
        async with asyncio.TaskGroup() as group:
            group.create_task(leaves())
    else:
        await in_a_task()


async def in_a_callback() -> None:
    asyncio.get_running_loop().call_soon(sys.exit, 3)
    await asyncio.sleep(0.01)


async def by_a_stop() -> None:
    asyncio.get_running_loop().stop()
    await asyncio.sleep(0.01)


@pytest.mark.parametrize("end", [in_a_task, in_a_gather, in_a_task_group, in_a_callback, by_a_stop])
def test_the_event_loop_goes_on_until_the_worker_ends_it(
    end: Callable[[], Any], client: duly.Client, queue: duly.Queue, caplog: pytest.LogCaptureFixture
) -> None:
    worker = duly.Worker(client, ["q"], concurrency=2)
    ran: list[object] = []
    has_ended = asyncio.Event()

    @worker.on("beside")
    async def beside(_job: duly.Job) -> None:
        await has_ended.wait()
        ran.append("beside")

    @worker.on("bad")
    async def bad(_job: duly.Job) -> None:
        try:
            await end()
        finally:
            has_ended.set()

    @worker.on("good")
    async def good(_job: duly.Job) -> None:
        ran.append("good")

    for name in ("beside", "bad", "good"):
        queue.push(1, name=name, max_retries=0)
    with running(worker) as reports:
        until(lambda: empty(queue), "a job stays")
    assert sorted(map(str, ran)) == ["beside", "good"]
    failed = 0 if end in (in_a_callback, by_a_stop) else 1
    assert (reports[0].acked, reports[0].failed) == (3 - failed, failed)
    assert caplog.text.count("stopped the worker's event loop, which goes on: ") == 1


def test_a_task_factory_that_raises_takes_no_run_and_no_executor(
    client: duly.Client, queue: duly.Queue, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*_given: object, **_more: object) -> Any:
        raise OSError("no task")

    worker = duly.Worker(client, ["q"])

    @worker.on("sets")
    async def sets(_job: duly.Job) -> None:
        asyncio.get_running_loop().set_task_factory(refuse)

    @worker.on("next")
    async def next_one(_job: duly.Job) -> None: ...

    for name in ("sets", "next", "next"):
        queue.push(1, name=name)
    with running(worker) as reports:
        until(lambda: empty(queue), "a job stays")
    assert reports[0].acked == 3
    assert caplog.text.count("the task factory of the worker's event loop raised") == 2


@pytest.mark.parametrize("refused", ["duly-worker-asyncio", "duly-worker-1", "duly-worker-watch"])
def test_a_worker_that_gets_no_thread_ends_and_can_run_again(
    refused: str, client: duly.Client, queue: duly.Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = threading.Thread.start

    def start_some(thread: threading.Thread) -> None:
        if thread.name == refused:
            raise RuntimeError("can't start new thread")
        start(thread)

    ran: list[object] = []
    worker = duly.Worker(client, ["q"], concurrency=2)
    worker.on("plain", lambda job: ran.append(job.data))

    @worker.on("coroutine")
    async def coroutine(_job: duly.Job) -> None: ...

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", start_some)
        with pytest.raises(RuntimeError, match="can't start new thread"):
            worker.run()
    until(lambda: not [one for one in threading.enumerate() if one.name.startswith("duly-worker")], "threads are left")
    queue.push(1, name="plain")
    with running(worker):
        until(lambda: ran == [1], "it did not run")


def test_a_run_that_is_cancelled_before_it_begins_fails_as_others_do(
    client: duly.Client, queue: duly.Queue, caplog: pytest.LogCaptureFixture
) -> None:
    failures: list[tuple[object, str]] = []

    class Hears(duly.Middleware):
        def on_failure(self, job: duly.Job, failure: duly.Failure) -> None:
            failures.append((duly.current_job().data, type(failure.raised).__name__))
            assert job.data == "cancelled"

    worker = duly.Worker(client, ["q"], concurrency=2, middleware=[Hears()])

    @worker.on("cancels")
    async def cancels(_job: duly.Job) -> None:
        while True:
            for task in asyncio.all_tasks():
                coroutine: Any = task.get_coro()
                if inspect.getcoroutinestate(coroutine) == inspect.CORO_CREATED:
                    task.cancel()
                    return
            await asyncio.sleep(0)

    @worker.on("cancelled")
    async def cancelled(_job: duly.Job) -> None:
        raise AssertionError

    queue.push("cancels", name="cancels")
    pushed = queue.push("cancelled", name="cancelled", max_retries=0)
    with running(worker) as reports:
        until(lambda: empty(queue), "a job stays")
    assert failures == [("cancelled", "CancelledError")]
    assert (reports[0].acked, reports[0].failed) == (1, 1)
    assert f"job {pushed} (cancelled, attempt 1) of queue q failed for good: CancelledError" in caplog.text


def test_each_job_that_failed_elsewhere_is_heard_of_in_a_context_of_its_own(
    client: duly.Client, queue: duly.Queue, caplog: pytest.LogCaptureFixture
) -> None:
    heard: list[tuple[object, object, object]] = []

    class Hears(duly.Middleware):
        def on_failed(self, job: duly.Job, error: str) -> None:  # noqa: ARG002
            heard.append((job.data, tenant.get(), duly.current_job().id == job.id))
            tenant.set(job.data)
            sys.exit(3)

    for number in range(3):
        queue.push(number, max_retries=0)
        assert queue.reserve(lease=0.001) is not None
    worker = duly.Worker(client, ["q"], middleware=[Hears()])
    worker.on("other", lambda _job: None)
    with running(worker):
        until(lambda: len(heard) == 3, "a job was not heard of")
    assert sorted(heard, key=str) == [(0, None, True), (1, None, True), (2, None, True)]
    assert caplog.text.count("raised for job") == 3
