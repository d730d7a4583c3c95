"""`duly.aio.Consumer`."""

from __future__ import annotations

import asyncio

import duly
import duly.aio
import pytest
from support import Server, cancel, empty, until


async def take(consumer: duly.aio.Consumer) -> duly.aio.Job:
    job = await consumer.next(60)
    assert job is not None
    return job


@pytest.fixture
def aio_client(server: Server, prefix: str) -> duly.aio.Client:
    return duly.aio.Client(server.url, prefix=prefix)


async def test_several_tasks_run_jobs_at_once(aio_client: duly.aio.Client, queue: duly.Queue) -> None:
    queue.push_many(duly.NewJob(n, result_ttl=60) for n in range(200))
    async with duly.aio.Consumer(aio_client, ["q"], concurrency=20) as consumer:
        most, running, done = 0, 0, set()

        async def run(job: duly.aio.Job) -> None:
            nonlocal most, running
            running += 1
            most = max(most, running)
            await asyncio.sleep(0.001)
            await job.progress(0.5)
            running -= 1
            done.add(job.data)
            await job.ack(job.data)

        async with asyncio.TaskGroup() if hasattr(asyncio, "TaskGroup") else pytest.skip("3.11") as group:
            async for job in consumer:
                group.create_task(run(job))
                if job.data == 199:
                    consumer.stop()
    assert done == set(range(200))
    assert 2 <= most <= 20
    assert consumer.report().acked == 200
    assert empty(queue)


async def test_a_verb_takes_no_time_and_says_what_is_wrong(aio_client: duly.aio.Client, queue: duly.Queue) -> None:
    queue.push(1, retry=duly.RetryPolicy.fixed(0))
    async with duly.aio.Consumer(aio_client, {"q": 1}, timeout=0.2) as consumer:
        job = await take(consumer)
        assert isinstance(job.queue, duly.aio.Queue)
        verb = job.fail("no")
        assert verb.done()
        assert await verb == 0.0
        with pytest.raises(duly.LeaseLostError, match="decided already"):
            await job.ack()
        hung = await take(consumer)
        again = await take(consumer)
        assert (hung.interrupted, again.attempt) == ("timed_out", 3)
        with pytest.raises(duly.LeaseLostError, match="its time is over"):
            await hung.release(5)
        await again.release(30)
        assert await consumer.next(0) is None


async def test_a_job_that_comes_when_its_task_was_cancelled_goes_back(
    aio_client: duly.aio.Client, queue: duly.Queue
) -> None:
    async with duly.aio.Consumer(aio_client, ["q"]) as consumer:
        for _ in range(50):
            waiting = asyncio.create_task(consumer.next())
            await asyncio.sleep(0)
            queue.push(1)
            await asyncio.sleep(0.0005)
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
            job = await take(consumer) if waiting.cancelled() else waiting.result()
            assert job is not None
            assert job.attempt == 1
            await job.ack()
    until(lambda: empty(queue), "one is left")


async def test_a_block_that_is_cancelled_at_its_end_stops_it(aio_client: duly.aio.Client) -> None:
    kept: list[duly.aio.Consumer] = []

    async def block() -> None:
        async with duly.aio.Consumer(aio_client, ["q"]) as consumer:
            kept.append(consumer)
            cancel()

    for _ in range(5):
        with pytest.raises(asyncio.CancelledError):
            await asyncio.create_task(block())
    assert all(consumer.stopped for consumer in kept)


async def test_other_tasks_have_their_turn_while_jobs_are_there(aio_client: duly.aio.Client, queue: duly.Queue) -> None:
    queue.push_many(duly.NewJob(n) for n in range(3000))
    turns = 0

    async def tick() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    ticks = asyncio.create_task(tick())
    async with duly.aio.Consumer(aio_client, ["q"]) as consumer:
        for _ in range(3000):
            await (await take(consumer)).ack()
    ticks.cancel()
    assert turns > 20


async def test_an_event_loop_may_read_its_descriptor(client: duly.Client, queue: duly.Queue) -> None:
    with duly.Consumer(client, ["q"], concurrency=5) as consumer:
        done: list[int] = []
        all_are_done = asyncio.Event()

        def look() -> None:
            while (job := consumer.next(0)) is not None:
                done.append(job.data)
                job.ack()
            if len(done) == 100:
                all_are_done.set()

        loop = asyncio.get_running_loop()
        loop.add_reader(consumer, look)
        for n in range(100):
            queue.push(n)
            await asyncio.sleep(0)
        await asyncio.wait_for(all_are_done.wait(), 60)
        loop.remove_reader(consumer)
        assert done == list(range(100))


async def test_what_waiting_does_not_cure_is_raised_and_a_stop_ends_a_wait(server: Server, prefix: str) -> None:
    consumer = duly.aio.Consumer(duly.aio.Client(server.url, prefix=prefix, password="wrong"), ["q"])
    with pytest.raises(duly.AuthenticationFailedError):
        await consumer.next()
    with pytest.raises(duly.InvalidArgumentError, match=r"duly\.aio\.Client, not Client"):
        duly.aio.Consumer(duly.Client(server.url), ["q"])  # type: ignore[arg-type]
    other = duly.aio.Consumer(duly.aio.Client(server.url, prefix=prefix), ["q"])
    waiting = asyncio.create_task(other.next())
    await asyncio.sleep(0.05)
    other.stop()
    assert await waiting is None
    assert (await other.close(5)).acked == 0


async def test_a_reserved_job_is_renewed(aio_client: duly.aio.Client, queue: duly.Queue) -> None:
    queue.push(1)
    job = await aio_client.queue("q").reserve(lease=0.3, renew=True)
    assert job is not None
    await asyncio.sleep(1)
    assert queue.reserve() is None
    await job.ack()
    assert empty(queue)
