from __future__ import annotations

import asyncio

import duly
import duly.aio
import pytest
from support import Program, Server


@pytest.fixture
def aqueue(server: Server, prefix: str) -> duly.aio.Queue:
    return duly.aio.Client(server.url, prefix=prefix).queue("q")


async def test_the_words_are_the_same_and_awaited(aqueue: duly.aio.Queue, server: Server) -> None:
    await duly.aio.Client(server.url).ping()
    first = await aqueue.push({"a": 1}, name="n", key="k")
    job = await aqueue.reserve(wait=1)
    assert job is not None
    assert (job.id, job.data, job.queue) == (first, {"a": 1}, aqueue)
    await job.extend(20)
    assert await job.fail("no", retry_after=30) == 30
    assert job.settled
    assert await aqueue.reschedule(key="k", delay=0) == first
    job = await aqueue.reserve()
    assert job is not None
    assert (job.attempt, job.error) == (2, "no")
    await job.release()
    (job,) = await aqueue.reserve_many(10)
    assert await aqueue.ack_many([job]) == [True]
    with pytest.raises(duly.LeaseLostError):
        await job.ack()
    summary = await aqueue.push_many((duly.NewJob(n) for n in range(5)), ids=True)
    assert summary.ids is not None
    assert (summary.created, len(summary.ids)) == (5, 5)
    assert [view.data for view in await aqueue.peek("ready", limit=2)] == [0, 1]
    found = await aqueue.find(summary.ids[0])
    assert found is not None
    assert found.state == "ready"
    cancelled = await aqueue.cancel(summary.ids[0])
    assert cancelled is not None
    assert cancelled.was == "ready"
    await aqueue.pause()
    assert (await aqueue.counts()).paused
    await aqueue.resume()
    await aqueue.keep_failed(10, 100)
    assert (await aqueue.promote(), await aqueue.reclaim()) == (0, 0)
    assert await aqueue.purge("ready") == 4
    last = await aqueue.push(1, max_retries=0)
    job = await aqueue.reserve()
    assert job is not None
    assert await job.fail("no") is None
    assert [one.outcome for one in await aqueue.requeue(last, "absent")] == ["ready", "absent"]
    assert await aqueue.requeue_all() == 0
    with pytest.raises(duly.InvalidArgumentError, match=r"data\.a"):
        await aqueue.push({"a": {1}})


async def test_several_queues_at_once_in_order_or_by_weight(server: Server, prefix: str) -> None:
    aclient = duly.aio.Client(server.url, prefix=prefix)
    for name in ("low", "low", "high"):
        await aclient.queue(name).push(name)
    jobs = await aclient.reserve_from(["high", "low"], max=2)
    assert [(job.data, job.queue.name) for job in jobs] == [("high", "high"), ("low", "low")]
    await jobs[0].ack()
    assert await jobs[1].queue.ack_many([jobs[1]]) == [True]
    waiting = asyncio.ensure_future(aclient.reserve_from({"high": 3, "other": 1}, wait=20))
    await aclient.queue("other").push(1)
    (job,) = await asyncio.wait_for(waiting, 10)
    assert job.queue.name == "other"
    with pytest.raises(duly.InvalidArgumentError, match="list of names"):
        aclient.reserve_from("orders")


async def test_a_failure_may_rewrite_the_job(server: Server, prefix: str) -> None:
    aqueue = duly.aio.Client(server.url, prefix=prefix, max_data_bytes=20).queue("q")
    await aqueue.push({"step": 1}, max_retries=9)
    job = await aqueue.reserve()
    assert job is not None
    with pytest.raises(duly.TooLargeError):
        await job.fail("too much", data="x" * 20)
    assert not job.settled
    assert await job.fail("once more", retry_after=0, data=None, attempts=3, max_retries=4) == 0
    job = await aqueue.reserve()
    assert job is not None
    assert (job.data, job.attempts, job.max_retries, job.error) == (None, 4, 4, "once more")
    assert await job.fail("enough") is None


async def test_a_manual_clock_and_an_audit(server: Server, prefix: str) -> None:
    aqueue = duly.aio.Client(server.url, prefix=prefix, manual_clock=True).queue("q")
    await aqueue.set_clock(1_800_000_000)
    await aqueue.push(1, delay=60)
    assert await aqueue.reserve() is None
    await aqueue.set_clock(1_800_000_060)
    job = await aqueue.reserve(lease=20)
    assert job is not None
    await job.extend()
    report = await aqueue.audit()
    assert (report.clean, report.jobs) == (True, 1)
    assert (await aqueue.counts()).next_lease_end_in == 10
    assert (await aqueue.audit(repair=True)).findings == []


async def test_the_loop_runs_while_a_call_waits(aqueue: duly.aio.Queue) -> None:
    waiting = asyncio.ensure_future(aqueue.reserve(wait=20))
    for _ in range(10):
        await asyncio.sleep(0)
    await aqueue.push(1)
    assert await asyncio.wait_for(waiting, 10) is not None


async def test_cancelling_ends_the_wait_and_the_queue_goes_on(aqueue: duly.aio.Queue) -> None:
    for _ in range(20):
        with pytest.raises((asyncio.TimeoutError, TimeoutError)):
            await asyncio.wait_for(aqueue.reserve(wait=60), 0.005)
    await aqueue.push(1)
    assert await aqueue.reserve(wait=20) is not None


async def test_a_thousand_calls_at_once(aqueue: duly.aio.Queue) -> None:
    ids = await asyncio.gather(*(aqueue.push(n) for n in range(1000)))
    assert len(set(ids)) == 1000
    jobs = await asyncio.gather(*(aqueue.reserve() for _ in range(1000)))
    assert {job.id for job in jobs if job} == set(ids)
    await asyncio.gather(*(job.ack() for job in jobs if job))
    counts = await aqueue.counts()
    assert (counts.ready, counts.reserved) == (0, 0)


def test_one_client_serves_one_loop_after_another(server: Server, prefix: str) -> None:
    aqueue = duly.aio.Client(server.url, prefix=prefix).queue("q")

    async def push() -> str:
        return await aqueue.push(1)

    assert len({asyncio.run(push()) for _ in range(5)}) == 5


def test_calls_need_a_running_loop(server: Server) -> None:
    with pytest.raises(RuntimeError, match="needs a running asyncio event loop"):
        duly.aio.Client(server.url).ping()


def test_a_program_that_ends_in_the_middle_of_calls_ends_well(server: Server, prefix: str) -> None:
    code = """
        import asyncio
        import duly.aio
        async def main():
            queue = duly.aio.Client(URL, prefix=PREFIX).queue("q")
            for n in range(50):
                queue.push(n)
            queue.reserve(wait=30)
            await queue.push("last")
        asyncio.run(main())
    """
    for _ in range(5):
        Program(server, prefix, code).ends_well()


def test_a_forked_child_runs_a_loop_of_its_own(server: Server, prefix: str) -> None:
    code = """
        import asyncio, os
        import duly.aio
        queue = duly.aio.Client(URL, prefix=PREFIX).queue("q")
        async def push():
            return await queue.push(1)
        asyncio.run(push())
        child = os.fork()
        if child == 0:
            try:
                asyncio.run(push())
                os._exit(0)
            finally:
                os._exit(1)
        assert os.waitpid(child, 0)[1] == 0
    """
    Program(server, prefix, code).ends_well()
