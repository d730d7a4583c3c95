"""Handlers that are coroutines, wait again and again, and must end."""

from __future__ import annotations

import asyncio
import itertools
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress

import duly
import pytest
from support import empty, running, until

NEVER_S = 60.0


async def ready() -> None:
    await asyncio.wait_for(asyncio.sleep(0), 5)


async def soon() -> None:
    done = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_soon(done.set_result, None)
    await asyncio.wait_for(done, 5)


async def fails() -> None:
    done = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_soon(done.set_exception, OSError())
    try:
        await asyncio.wait_for(done, 5)
    except OSError:
        await asyncio.sleep(0)


async def forever() -> None:
    while True:
        await ready()


async def inner() -> None:
    await asyncio.wait_for(forever(), NEVER_S)


async def together() -> None:
    await asyncio.gather(forever(), forever())


async def inner_together() -> None:
    await asyncio.wait_for(asyncio.gather(forever(), inner()), NEVER_S)


async def each() -> AsyncIterator[int]:
    for number in itertools.count():
        await ready()
        yield number


async def steps() -> None:
    async for _ in each():
        pass


async def too_late() -> None:
    with suppress(asyncio.TimeoutError):
        await asyncio.wait_for(asyncio.sleep(NEVER_S), 0.001)


async def at_once() -> None:
    async def nothing() -> None: ...

    await asyncio.wait_for(nothing(), 5)
    if sys.version_info >= (3, 12):  # there it does not let the loop go on
        await asyncio.sleep(0)


WAITS: list[Callable[[], Awaitable[None]]] = [
    *(ready, soon, at_once, fails, inner, together, inner_together, steps, too_late),
]


@pytest.mark.parametrize("wait", WAITS, ids=lambda wait: wait.__name__)
def test_a_handler_that_waits_with_a_timeout_in_a_loop_is_cancelled(
    wait: Callable[[], Awaitable[None]], client: duly.Client, queue: duly.Queue
) -> None:
    started: list[object] = []
    ended: list[str] = []
    worker = duly.Worker(client, ["q"], concurrency=4)

    @worker.on(None)
    async def loop(job: duly.Job) -> None:
        started.append(job.data)
        until_s = time.monotonic() + NEVER_S
        try:
            while time.monotonic() < until_s:
                await wait()
            ended.append("by itself")
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise

    queue.push_many(duly.NewJob(number, timeout=0.1 + number / 500, max_retries=0) for number in range(40))
    with running(worker):
        # On a busy machine some are over before they begin.
        until(lambda: empty(queue) and len(ended) == len(started), "not all are cancelled", 20)
    assert set(ended) == {"cancelled"}


@pytest.mark.parametrize("wait", WAITS, ids=lambda wait: wait.__name__)
def test_a_handler_that_cleans_up_is_cancelled_once(
    wait: Callable[[], Awaitable[None]], client: duly.Client, queue: duly.Queue
) -> None:
    started: list[object] = []
    cleaned: list[object] = []
    worker = duly.Worker(client, ["q"], concurrency=4)

    @worker.on(None)
    async def loop(job: duly.Job) -> None:
        started.append(job.data)
        try:
            while True:
                await wait()
        finally:
            for _ in range(200):
                await asyncio.wait_for(asyncio.sleep(0), 5)
            await asyncio.wait_for(asyncio.sleep(0.05), 5)
            cleaned.append(job.data)

    queue.push_many(duly.NewJob(number, timeout=0.1 + number / 500, max_retries=0) for number in range(12))
    with running(worker):
        until(lambda: empty(queue) and len(cleaned) == len(started), "not all have cleaned up", 20)
    assert started


@pytest.mark.parametrize("within", ["wait_for", "gather"])
def test_what_a_handler_waits_for_cleans_up_and_is_cancelled_once(
    within: str, client: duly.Client, queue: duly.Queue
) -> None:
    started: list[object] = []
    cleaned: list[object] = []
    worker = duly.Worker(client, ["q"], concurrency=4)

    async def inner(job: duly.Job) -> None:
        started.append(job.data)
        try:
            await forever()
        finally:
            for _ in range(50):
                await ready()
            cleaned.append(job.data)

    @worker.on(None)
    async def outer(job: duly.Job) -> None:
        await (asyncio.wait_for(inner(job), NEVER_S) if within == "wait_for" else asyncio.gather(inner(job)))

    queue.push_many(duly.NewJob(number, timeout=0.1 + number / 500, max_retries=0) for number in range(12))
    with running(worker):
        until(lambda: empty(queue) and len(cleaned) == len(started), "not all have cleaned up", 20)
    assert started
