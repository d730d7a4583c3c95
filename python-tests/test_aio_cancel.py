"""An asyncio reserve that is cancelled gives back at once what it had leased."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from pathlib import Path

import duly
import duly.aio
import pytest
from support import Server


class SlowProxy:
    """Stands between a client and its server, and may hold the answers back."""

    def __init__(self, server: Server, folder: Path) -> None:
        self._server = server
        self._path = folder / "proxy.sock"
        self.url = f"unix://{self._path}"
        self.holds = False
        self.answered = asyncio.Event()
        self.goes_on = asyncio.Event()
        self._carrying: set[asyncio.Task[None]] = set()

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[SlowProxy]:
        listening = await asyncio.start_unix_server(self._accept, self._path)
        yield self
        listening.close()
        for task in self._carrying:
            task.cancel()
        await asyncio.gather(*self._carrying, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        from_server, to_server = await asyncio.open_unix_connection(self._server.socket)
        for task in (
            asyncio.create_task(self._carry(reader, to_server, False)),
            asyncio.create_task(self._carry(from_server, writer, True)),
        ):
            self._carrying.add(task)

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, answers: bool) -> None:
        with contextlib.closing(writer):
            while part := await reader.read(65536):
                if answers and self.holds and not part.startswith(b"-NOSCRIPT"):
                    self.answered.set()
                    await self.goes_on.wait()
                writer.write(part)
                await writer.drain()


@pytest.mark.parametrize("way", ["reserve", "reserve_many", "reserve_from", "partitions"])
@pytest.mark.parametrize("wait", [0, 30])
async def test_what_a_cancelled_reserve_had_leased_is_ready_at_once(
    server: Server, prefix: str, tmp_path: Path, way: str, wait: int
) -> None:
    direct = duly.Client(server.url, prefix=prefix)
    direct.queue("warm").reserve()  # the server knows the script: one call is one answer
    queue = direct.partitions("q", 1) if way == "partitions" else direct.queue("q")
    pushed = queue.push(1)
    async with SlowProxy(server, tmp_path).running() as proxy:
        aclient = duly.aio.Client(proxy.url, prefix=prefix)
        await aclient.ping()
        proxy.holds = True
        match way:
            case "reserve":
                call: asyncio.Future[object] = asyncio.ensure_future(aclient.queue("q").reserve(wait=wait, lease=3600))
            case "reserve_many":
                call = asyncio.ensure_future(aclient.queue("q").reserve_many(5, wait=wait, lease=3600))
            case "reserve_from":
                call = asyncio.ensure_future(aclient.reserve_from(["q"], wait=wait, lease=3600))
            case _:
                call = asyncio.ensure_future(aclient.partitions("q", 1).reserve(wait=wait, lease=3600))
        await asyncio.wait_for(proxy.answered.wait(), 20)
        assert queue.counts().reserved == 1
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        proxy.goes_on.set()
        # The lease lasts an hour, so nothing else gives it back.
        job = await asyncio.to_thread(queue.reserve, wait=20)
        assert job is not None
        assert (job.id, job.attempts, job.returns) == (pushed, 0, 0)  # it has not been anybody's


@pytest.mark.asyncio
@pytest.mark.parametrize("way", ["reserve", "renewed", "reserve_many", "reserve_from"])
async def test_a_job_that_has_come_when_its_task_is_cancelled_goes_back(server: Server, prefix: str, way: str) -> None:
    async with duly.aio.Client(server.url, prefix=prefix) as client:
        queue = client.queue("q")
        await queue.push({}, max_retries=0)
        match way:
            case "reserve":
                call: duly.aio.Call[duly.aio.Job | None] | duly.aio.Call[list[duly.aio.Job]] = queue.reserve(
                    wait=5, lease=600
                )
            case "renewed":
                call = queue.reserve(wait=5, lease=600, renew=True)
            case "reserve_many":
                call = queue.reserve_many(5, wait=5, lease=600)
            case _:
                call = client.reserve_from(["q"], wait=5, lease=600)

        async def consume() -> object:
            return await call

        task = asyncio.create_task(consume())
        call.add_done_callback(lambda _: task.cancel())
        with pytest.raises(asyncio.CancelledError):
            await task
        again = await queue.reserve(wait=60)
        assert again is not None
        assert (again.attempt, again.returns) == (1, 0)
        await again.ack()


async def test_jobs_that_came_when_the_future_was_cancelled_already_are_given_back(server: Server, prefix: str) -> None:
    aqueue = duly.aio.Client(server.url, prefix=prefix).queue("q")
    direct = duly.Client(server.url, prefix=prefix).queue("q")
    ids = {await aqueue.push(n) for n in range(3)}
    call = aqueue.reserve_many(10, lease=3600)
    # The loop does not run, so the answer waits to be delivered to a future that is cancelled before that.
    while direct.counts().reserved == 0:
        pass
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    seen: set[str] = set()
    while seen != ids:
        jobs = await asyncio.to_thread(direct.reserve_many, 10, wait=20)
        assert jobs
        assert {(job.attempts, job.returns) for job in jobs} == {(0, 0)}
        seen |= {job.id for job in jobs}


@pytest.mark.parametrize("way", ["nobody has the call", "a task", "the program has call and loop"])
def test_a_reserve_of_a_loop_that_is_closed_keeps_no_job(server: Server, prefix: str, way: str) -> None:
    """As in a program that calls `asyncio.run` twice with one client."""
    aqueue = duly.aio.Client(server.url, prefix=prefix).queue("q")
    kept: list[object] = []

    async def begin() -> None:
        call = aqueue.reserve(wait=60, lease=600)
        if way == "a task":
            kept.append(asyncio.create_task(call))
        elif way == "the program has call and loop":
            kept.extend([call, asyncio.get_running_loop()])
        await aqueue.counts()

    async def go_on() -> duly.aio.Job | None:
        await aqueue.push(1)
        return await aqueue.reserve(wait=10)

    asyncio.run(begin())
    job = asyncio.run(go_on())
    assert job is not None
    assert (job.attempt, job.returns) == (1, 0)


def test_jobs_that_a_closed_loop_has_not_delivered_go_back(server: Server, prefix: str) -> None:
    aqueue = duly.aio.Client(server.url, prefix=prefix).queue("q")
    queue = duly.Client(server.url, prefix=prefix).queue("q")
    loop = asyncio.new_event_loop()

    async def begin() -> object:
        call = aqueue.reserve(wait=60, lease=600)
        await aqueue.counts()
        return call

    call = loop.run_until_complete(begin())
    queue.push(1)
    while queue.counts().reserved == 0:
        time.sleep(0.01)
    loop.close()
    job = queue.reserve(wait=10)
    assert job is not None
    assert (job.attempt, job.returns) == (1, 0)
    assert call is not None
