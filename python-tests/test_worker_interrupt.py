"""Runs that must end: timeouts, lost leases, the end of the grace; in threads and on the event loop."""

from __future__ import annotations

import asyncio
import ctypes
import re
import signal
import threading
import time
from collections.abc import Callable

import duly
import pytest
from support import StartProgram, empty, running, until


def spin(ended: list[str]) -> None:
    """Run Python code until somebody interrupts it."""
    try:
        while True:
            time.sleep(0.001)
    except BaseException as error:
        ended.append(type(error).__name__)
        raise


def test_a_thread_whose_timeout_is_over_is_interrupted(client: duly.Client, queue: duly.Queue) -> None:
    ended: list[str] = []
    worker = duly.Worker(client, ["q"])
    worker.on("spin", lambda _job: spin(ended))
    worker.on("next", lambda _job: ended.append("next"))
    queue.push(1, name="spin", timeout=0.2, max_retries=0)
    queue.push(2, name="next")
    with running(worker) as reports:
        until(lambda: ended == ["JobInterrupted", "next"], "not interrupted")
        until(lambda: empty(queue), "not reported")
    assert [view.error for view in queue.peek("failed")] == ["ran longer than its timeout of 0.2 s"]
    assert (reports[0].acked, reports[0].failed) == (1, 1)


def test_a_handler_that_waits_in_a_call_of_the_library_is_interrupted(client: duly.Client, queue: duly.Queue) -> None:
    ended: list[str] = []
    other = client.queue("other")
    held = client.lock("held")

    def locked() -> None:
        with client.lock("held", wait=3600):
            pass

    waits: dict[str, Callable[[], object]] = {
        "result": lambda: other.wait_result(other.push(1, result_ttl=60)),
        "reserve": lambda: client.queue("empty").reserve(wait=3600),
        "from": lambda: client.reserve_from(["empty"], wait=3600),
        "lock": locked,
    }

    def handler(job: duly.Job) -> None:
        assert job.name is not None
        try:
            waits[job.name]()
        except BaseException as error:
            ended.append(type(error).__name__)
            queue.wait_result(queue.push(1, result_ttl=60))  # nothing is raised a second time
            raise

    worker = duly.Worker(client, ["q"], concurrency=2 * len(waits))
    for name in waits:
        worker.on(name, handler)
        queue.push(1, name=name, timeout=0.2, max_retries=0)
    worker.on(None, lambda _job: time.sleep(1.5))  # longer than the look that ends a wait takes
    with held, running(worker) as reports:
        until(lambda: ended == ["JobInterrupted"] * len(waits), "not interrupted")
        until(lambda: queue.counts().reserved == 0, "not ended")
    assert reports[0].failed == len(waits)


@pytest.mark.parametrize("kind", ["def", "async def"])
def test_a_hook_that_outlasts_the_timeout_does_not_hide_the_handlers_error(
    kind: str, client: duly.Client, queue: duly.Queue, caplog: pytest.LogCaptureFixture
) -> None:
    class Slow(duly.Middleware):
        def on_failure(self, _job: duly.Job, _failure: duly.Failure) -> None:
            until(lambda: queue.counts().failed == 1, "the timeout did not end it")

    worker = duly.Worker(client, ["q"], middleware=[Slow()])

    def fails(_job: duly.Job) -> None:
        raise LookupError("secret")

    async def fails_too(job: duly.Job) -> None:
        fails(job)

    worker.on(None, fails if kind == "def" else fails_too)
    job_id = queue.push(1, timeout=0.2, max_retries=0)
    with running(worker):
        until(lambda: "was interrupted behind its failure" in caplog.text, "the handler's error is not logged")
    (record,) = [one for one in caplog.records if "was interrupted behind its failure" in one.getMessage()]
    line = record.getMessage()
    assert job_id in line
    assert f"LookupError at {__file__}:" in line
    assert "secret" not in line


def test_a_coroutine_whose_timeout_is_over_is_cancelled(client: duly.Client, queue: duly.Queue) -> None:
    ended: list[str] = []
    worker = duly.Worker(client, ["q"])

    @worker.on("wait")
    async def wait(_job: duly.Job) -> None:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise

    @worker.on("next")
    async def after(_job: duly.Job) -> None:
        await asyncio.sleep(0)
        ended.append("next")

    queue.push(1, name="wait", timeout=0.2, max_retries=0)
    queue.push(2, name="next")
    with running(worker) as reports:
        until(lambda: ended == ["cancelled", "next"], "not cancelled")
        until(lambda: empty(queue), "not reported")
    assert [view.error for view in queue.peek("failed")] == ["ran longer than its timeout of 0.2 s"]
    assert (reports[0].acked, reports[0].failed) == (1, 1)


@pytest.mark.parametrize("kind", ["thread", "thread with hooks", "coroutine"])
def test_the_log_says_where_a_run_was_interrupted(
    kind: str, client: duly.Client, queue: duly.Queue, caplog: pytest.LogCaptureFixture
) -> None:
    class Hooks(duly.Middleware):
        def before(self, job: duly.Job) -> None: ...

    worker = duly.Worker(client, ["q"], middleware=[Hooks()] if kind == "thread with hooks" else [])

    def thread(_job: duly.Job) -> None:
        while True:
            time.sleep(0.001)

    async def coroutine(_job: duly.Job) -> None:
        await asyncio.sleep(3600)

    handler = coroutine if kind == "coroutine" else thread
    worker.on("slow", handler)
    job_id = queue.push("secret", name="slow", timeout=0.2, max_retries=0)
    with running(worker):
        until(lambda: any("was interrupted" in record.message for record in caplog.records), "it is not said")
    record = next(record for record in caplog.records if "was interrupted" in record.message)
    said = re.fullmatch(
        rf"job {job_id} \(slow, attempt 1\) of queue q was interrupted at {__file__}:(\d+) in {handler.__name__}"
        r"(?: \(raised at .*\))?",
        record.message,
    )
    assert said is not None, record.message
    assert int(said[1]) - handler.__code__.co_firstlineno in (1, 2)
    assert (record.levelname, record.name) == ("WARNING", "duly.worker")
    assert (getattr(record, "id", None), getattr(record, "job_name", None)) == (job_id, "slow")
    assert "secret" not in caplog.text


@pytest.mark.parametrize("kind", ["thread", "coroutine"])
def test_a_handler_whose_job_is_cancelled_is_interrupted(kind: str, client: duly.Client, queue: duly.Queue) -> None:
    ended: list[str] = []
    runs = threading.Event()
    worker = duly.Worker(client, ["q"], lease=1)

    def thread(_job: duly.Job) -> None:
        runs.set()
        spin(ended)

    async def coroutine(_job: duly.Job) -> None:
        runs.set()
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            ended.append("JobInterrupted")
            raise

    worker.on(None, thread if kind == "thread" else coroutine)
    job_id = queue.push(1)
    with running(worker) as reports:
        assert runs.wait(20)
        queue.cancel(job_id)
        until(lambda: ended == ["JobInterrupted"], "not interrupted")
    assert (reports[0].acked, reports[0].failed, reports[0].lost) == (0, 0, 1)


def test_the_end_of_the_grace_interrupts_and_gives_back(client: duly.Client, queue: duly.Queue) -> None:
    ended: list[str] = []
    worker = duly.Worker(client, ["q"], concurrency=2, grace=1)
    started = threading.Barrier(3, timeout=20)

    @worker.on("thread")
    def thread(_job: duly.Job) -> None:
        started.wait()
        spin(ended)

    @worker.on("coroutine")
    async def coroutine(_job: duly.Job) -> None:
        await asyncio.to_thread(started.wait)
        try:
            await asyncio.sleep(3600)
        finally:
            ended.append("cancelled")

    queue.push(1, name="thread")
    queue.push(2, name="coroutine")
    with running(worker) as reports:
        started.wait()
    assert sorted(ended) == ["JobInterrupted", "cancelled"]
    assert reports[0].released == 2
    assert (queue.counts().ready, queue.counts().reserved) == (2, 0)


# Python itself drops what is raised in a callback of its own, such as that of a weak reference.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_interruption_never_hits_another_run(client: duly.Client, queue: duly.Queue) -> None:
    """Handlers end just when their timeout does, so that the exception comes too late as often as not."""
    hit: list[str] = []
    worker = duly.Worker(client, ["q"], concurrency=4)

    def short(_job: duly.Job) -> None:
        until_s = time.perf_counter() + 0.0105
        while time.perf_counter() < until_s:
            pass

    def innocent(_job: duly.Job) -> None:
        try:
            for _ in range(2000):
                pass
        except BaseException as error:
            hit.append(type(error).__name__)
            raise

    worker.on("short", short)
    worker.on("innocent", innocent)
    for number in range(150):
        queue.push(number, name="short", timeout=0.01, max_retries=0)
        queue.push(number, name="innocent")
    with running(worker) as reports:
        until(lambda: empty(queue), "jobs are left", 60)
    assert hit == []
    assert reports[0].acked + reports[0].failed == 300
    assert reports[0].acked >= 150
    assert len(queue.peek("failed", limit=500)) == reports[0].failed


hold_the_gil = ctypes.PyDLL(None).usleep
"""As C code of a handler may, for so many microseconds."""


@pytest.mark.parametrize("kind", ["def", "def with hooks", "async def"])
def test_a_run_whose_time_is_over_before_python_hears_of_it_is_not_begun(
    kind: str, client: duly.Client, queue: duly.Queue
) -> None:
    began: list[tuple[object, str | None]] = []

    class Hooks(duly.Middleware):
        def before(self, job: duly.Job) -> None: ...

    worker = duly.Worker(client, ["q"], middleware=[Hooks()] if kind == "def with hooks" else [])

    def handle(job: duly.Job) -> None:
        began.append((job.data, job.interrupted))

    async def handle_too(job: duly.Job) -> None:
        handle(job)

    worker.on(None, handle_too if kind == "async def" else handle)

    def has_timed_out() -> bool:
        queue.push("late", timeout=0.05, max_retries=0, delay=0.4)
        time.sleep(0.3)
        # If its thread waits in the engine now, that takes the job, and ends its run.
        hold_the_gil(400_000)
        until(lambda: empty(queue), "the worker is stuck")
        return queue.counts().failed == 1

    with running(worker) as reports:
        until(has_timed_out, "it always runs")
        queue.push("next")
        until(lambda: ("next", None) in began, "the worker is stuck")
        until(lambda: empty(queue), "not reported")
    assert {why for _, why in began} == {None}
    assert (reports[0].acked, reports[0].failed) == (len(began), 1)


def test_the_end_of_a_run_that_is_heard_of_late_is_not_that_of_the_next_one(program: StartProgram) -> None:
    """With the patience of `duly worker` the next job would count as one that does not end."""
    code = """
        import logging, threading, time
        worker = duly.Worker(duly.Client(URL, prefix=PREFIX), ["q"])
        worker._patience = 1
        runs_long, said = threading.Event(), []

        def hold_up(record):
            said.append(record.getMessage())
            if threading.current_thread().name == "duly-worker-watch":
                runs_long.wait()

        logging.getLogger("duly.worker").addFilter(hold_up)

        @worker.on("interrupted")
        def interrupted(job):
            while True:
                time.sleep(0.001)

        worker.on("late", lambda job: time.sleep(0.5))

        @worker.on("long")
        def run_long(job):
            runs_long.set()
            time.sleep(3)

        worker.on("last", lambda job: worker.stop())
        jobs = duly.Client(URL, prefix=PREFIX).queue("q")
        jobs.push(1, name="interrupted", timeout=0.1, max_retries=0)
        jobs.push(2, name="late", timeout=0.1, max_retries=0)
        jobs.push(3, name="long")
        jobs.push(4, name="last")
        report = worker.run()
        print(report.acked, report.failed, *(text for text in said if "does not end" in text))
    """
    assert program(code).ends_well() == "2 2\n"


def test_a_handler_that_swallows_the_interruption_changes_nothing(client: duly.Client, queue: duly.Queue) -> None:
    refused: list[str] = []
    worker = duly.Worker(client, ["q"])

    @worker.on(None)
    def stubborn(job: duly.Job) -> None:
        try:
            spin([])
        except duly.JobInterrupted:
            try:
                job.ack()
            except duly.LeaseLostError as error:
                refused.append(error.kind)

    queue.push(1, timeout=1, max_retries=0)
    with running(worker) as reports:
        until(lambda: refused == ["lease_lost"], "not refused")
        until(lambda: queue.counts().failed == 1, "not failed")
    assert (reports[0].acked, reports[0].failed) == (0, 1)


def test_ctrl_c_and_a_second_one(program: StartProgram, queue: duly.Queue) -> None:
    code = """
    import logging, sys, time
    worker = duly.Worker(duly.Client(URL, prefix=PREFIX), ["q"], grace=600)
    output = logging.StreamHandler(sys.stdout)
    output.addFilter(lambda record: record.getMessage().startswith("the worker stops"))
    logging.basicConfig(level=logging.INFO, format="%(message)s", handlers=[output])
    @worker.on(None)
    def spin(job):
        print("running", flush=True)
        while True:
            time.sleep(0.001)
    worker.on("first", lambda job: print("first", flush=True))
    print("ready", flush=True)
    report = worker.run()
    print("stopped", report.released, flush=True)
    """
    idle = program(code)
    assert idle.line() == "ready"
    queue.push(0, name="first")
    assert idle.line() == "first"
    asked = time.monotonic()
    idle.process.send_signal(signal.SIGINT)
    assert idle.ends_well().endswith("stopped 0\n")
    assert time.monotonic() - asked < 20
    queue.push(1)
    busy = program(code)
    assert busy.line() == "ready"
    assert busy.line() == "running"
    busy.process.send_signal(signal.SIGINT)
    # Two of one kind that come at once are one.
    assert busy.line() == "the worker stops: 1 job may run on for 600 s; a second signal ends that now"
    busy.process.send_signal(signal.SIGINT)
    status, out, _ = busy.end(20)
    assert (status, out) == (0, "stopped 1\n")
    assert queue.counts().ready == 1
