"""What jobs give: kept by workers, waited for by producers."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import duly
import duly.aio
import pytest
from duly.testing import AppUnderTest
from support import Server, StartProgram, running


def test_what_a_handler_returns_is_the_result(client: duly.Client, queue: duly.Queue) -> None:
    worker = duly.Worker(client, ["q"], concurrency=3)
    worker.on("sum", lambda job: sum(job.data))
    worker.on("nothing", lambda _job: None)
    worker.on("by hand", lambda job: job.ack({"by": "hand"}) or "not this")

    @worker.on("coroutine")
    async def coroutine(job: duly.Job) -> list[Any]:
        return [job.data, 2**53 + 1]

    with running(worker):
        wanted = {"sum": 6, "nothing": None, "by hand": {"by": "hand"}, "coroutine": [[1, 2, 3], 2**53 + 1]}
        for name, result in wanted.items():
            job_id = queue.push([1, 2, 3], name=name, result_ttl=timedelta(minutes=1))
            assert queue.wait_result(job_id, timeout=10) == result


def test_the_result_is_kept_with_hooks_around_the_handler_too(client: duly.Client, queue: duly.Queue) -> None:
    seen: list[str] = []

    class Seen(duly.Middleware):
        def after(self, job: duly.Job) -> None:
            seen.append(job.data)

        def on_failure(self, job: duly.Job, _failure: duly.Failure) -> None:
            seen.append(f"{job.data} failed")

    worker = duly.Worker(client, ["q"], middleware=[Seen()])
    worker.on(None, lambda job: object() if job.data == "bad" else job.data)
    with running(worker):
        good, bad = (queue.push(data, result_ttl=60, max_retries=0) for data in ("good", "bad"))
        assert queue.wait_result(good, timeout=10) == "good"
        with pytest.raises(duly.JobFailedError, match="result is of type object"):
            queue.wait_result(bad, timeout=10)
    assert seen == ["good", "bad failed"]


def test_a_result_that_cannot_be_kept_fails_the_run(client: duly.Client, queue: duly.Queue) -> None:
    worker = duly.Worker(client, ["q"])
    worker.on("set", lambda _job: {1, 2})
    worker.on("large", lambda _job: "x" * 2**20)
    with running(worker):
        for name, said in (("set", "result is of type set"), ("large", "max_data_bytes")):
            failed = queue.push(1, name=name, result_ttl=60, max_retries=0)
            with pytest.raises(duly.JobFailedError, match=said) as raised:
                queue.wait_result(failed, timeout=10)
            assert (raised.value.job_id, raised.value.transient) == (failed, False)
        # What nobody wants is not looked at.
        unwanted = queue.push(1, name="set", max_retries=0)
        with pytest.raises(duly.NoResultError):
            queue.wait_result(unwanted, timeout=10)
    assert [view.id for view in queue.peek("failed")].count(unwanted) == 0


def test_a_wait_without_a_result_ends_with_its_timeout(queue: duly.Queue) -> None:
    waiting = queue.push(1, result_ttl=60)
    before = time.monotonic()
    with pytest.raises(duly.DulyTimeoutError, match="not done yet"):
        queue.wait_result(waiting, timeout=0.2)
    assert 0.2 <= time.monotonic() - before < 10
    with pytest.raises(duly.InvalidArgumentError, match="timeout"):
        queue.wait_result(waiting, timeout=-1)
    job = queue.reserve()
    assert job is not None
    assert job.result_ttl == 60
    with pytest.raises(duly.InvalidArgumentError, match="result is of type object"):
        job.ack(object())
    job.ack()
    assert queue.wait_result(waiting) is None


def test_ctrl_c_leaves_a_wait_for_a_result_within_half_a_second(program: StartProgram, queue: duly.Queue) -> None:
    job_id = queue.push(1, result_ttl=60)
    waiting = program(f"""
        import os, signal, threading, time
        queue = duly.Client(URL, prefix=PREFIX).queue("q")
        sent = 0.0
        def press():
            global sent
            while queue.counts().totals.get("cancelled", 0) == 0:
                pass
            sent = time.monotonic()
            os.kill(os.getpid(), signal.SIGINT)
        threading.Thread(target=press).start()
        queue.push(1, key="k", delay=3600)
        try:
            print("waiting")
            queue.wait_result({job_id!r})
        except KeyboardInterrupt:
            print(time.monotonic() - sent < 20)
    """)
    assert waiting.line() == "waiting"
    queue.cancel(key="k")
    assert waiting.ends_well().split() == ["True"]


async def test_asyncio_code_waits_too(server: Server, prefix: str) -> None:
    queue = duly.aio.Client(server.url, prefix=prefix).queue("q")
    job_id = await queue.push(1, result_ttl=60)
    job = await queue.reserve()
    assert job is not None
    with pytest.raises(duly.DulyTimeoutError):
        await queue.wait_result(job_id, timeout=0.05)
    with pytest.raises(duly.InvalidArgumentError, match="result"):
        await job.ack(object())
    await job.ack({"a": [1.5, None]})
    assert job.settled
    assert await queue.wait_result(job_id) == {"a": [1.5, None]}
    with pytest.raises(duly.NoResultError):
        await queue.wait_result("none", timeout=1)


app = duly.App()


@app.task("double", result_ttl=60)
def double(number: int) -> int:
    return 2 * number


async def test_a_task_has_the_option_and_waits(duly_app: Callable[[duly.App], AppUnderTest]) -> None:
    shop = duly_app(app)
    job_id = double.push(21)
    assert shop.drain() == 1
    assert double.wait_result(job_id, timeout=5) == 42
    assert await double.await_result(job_id, timeout=5) == 42
