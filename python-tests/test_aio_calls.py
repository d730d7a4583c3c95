"""What a call of `duly.aio` gives: awaited, given to a task or a group, cancelled; and what others see."""

from __future__ import annotations

import asyncio
import inspect
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import duly
import duly.aio
import pytest
from support import Server, StartProgram


@pytest.fixture
def aqueue(server: Server, prefix: str) -> duly.aio.Queue:
    return duly.aio.Client(server.url, prefix=prefix).queue("q")


async def test_a_task_and_a_group_take_a_call(aqueue: duly.aio.Queue) -> None:
    task = asyncio.create_task(aqueue.push(1))
    assert asyncio.iscoroutine(aqueue.counts())
    first = await task
    assert isinstance(first, str)
    both = await asyncio.gather(aqueue.push(2), asyncio.create_task(aqueue.push(3)))
    assert len({first, *both}) == 3
    assert await asyncio.wait_for(aqueue.push(4), 20)
    done, _pending = await asyncio.wait([asyncio.create_task(aqueue.push(6))], timeout=20)
    assert [type(task.result()) for task in done] == [str]
    if sys.version_info >= (3, 11):
        with pytest.raises(TypeError, match="use tasks explicitly"):
            await asyncio.wait([aqueue.push(5)])
        with pytest.raises(TypeError, match="Passing coroutines is forbidden"):
            await asyncio.wait([asyncio.ensure_future(aqueue.push(5))])  # which gives the call itself
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(aqueue.push(number)) for number in range(50)]
        assert len({task.result() for task in tasks}) == 50
    assert (await aqueue.counts()).ready >= 4


async def test_a_task_gets_the_error_of_its_call(aqueue: duly.aio.Queue) -> None:
    await aqueue.push(1, id="a")
    with pytest.raises(duly.DuplicateError):
        await asyncio.create_task(aqueue.push(1, id="a"))


async def test_cancelling_the_task_cancels_the_call(aqueue: duly.aio.Queue) -> None:
    call = aqueue.reserve(wait=3600)
    task = asyncio.create_task(call)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert call.cancelled()
    never_begun = aqueue.reserve(wait=3600)
    task = asyncio.create_task(never_begun)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert never_begun.cancelled()
    closed = aqueue.reserve(wait=3600)
    closed.close()
    assert closed.cancelled()


async def test_a_call_that_nobody_awaits_happens_without_a_warning(aqueue: duly.aio.Queue) -> None:
    call, done = aqueue.push(1), asyncio.Event()
    call.add_done_callback(lambda _call: done.set())
    del call
    await done.wait()
    assert (await aqueue.counts()).ready == 1


async def test_a_framework_runs_a_verb_in_a_thread_where_it_says_what_to_do(aqueue: duly.aio.Queue) -> None:
    """As FastAPI's `add_task` does with what is no coroutine function."""
    assert not inspect.iscoroutinefunction(aqueue.push)
    with pytest.raises(RuntimeError, match="in an `async def` function, also as a background task"):
        await asyncio.to_thread(aqueue.push, 1)


def test_trio_is_told_what_to_do(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    trio = SimpleNamespace(lowlevel=SimpleNamespace(in_trio_run=lambda: True))
    monkeypatch.setitem(sys.modules, "trio", trio)
    with pytest.raises(RuntimeError, match=r"needs asyncio, and this is trio: call duly.Client in a thread"):
        duly.aio.Client(server.url).ping()


def test_producers_import_no_asyncio(program: StartProgram) -> None:
    lean = program("""
        import sys
        duly.Client(URL, prefix=PREFIX).queue("q").push(1)
        heavy = {"asyncio", "ssl", "logging", "inspect", "email"} & set(sys.modules)
        print(sorted(heavy))
        print(duly.App.__name__, duly.Worker.__name__, "asyncio" in sys.modules)
        print(hasattr(duly, "nothing"), "App" in dir(duly))
    """)
    assert lean.ends_well().splitlines() == ["[]", "App Worker False", "False True"]


WRONG: list[tuple[str, Callable[[Any], Any]]] = [
    ("name must be a str, not int", lambda client: client.queue(5)),
    ("name must be a str, not int", lambda client: client.partitions(5, 1)),
    ("queues must be a list of names or a dict of weights, not int", lambda client: client.reserve_from(3)),
    ("the name of a queue must be a str, not int", lambda client: client.reserve_from([1])),
    ("an id must be a str, not int", lambda client: client.queue("q").requeue(1)),
    ("id must be a str, not int", lambda client: client.queue("q").cancel(1)),
    ("key must be a str, not int", lambda client: client.queue("q").find(key=1)),
    ("id must be a str, not int", lambda client: client.queue("q").wait_result(1)),
    ("state must be a str, not int", lambda client: client.queue("q").purge(1)),
    ("state must be a str, not int", lambda client: client.queue("q").peek(1)),
    ("jobs must be an iterable of duly.NewJob, not int", lambda client: client.queue("q").push_many(3)),
    ("ids must be a bool, not str", lambda client: client.queue("q").push_many([], ids="x")),
    ("jobs must be a list of reserved jobs, not list", lambda client: client.queue("q").ack_many([1])),
    ("jobs must be a list of reserved jobs, not int", lambda client: client.queue("q").ack_many(1)),
    ("repair must be a bool, not str", lambda client: client.queue("q").audit(repair="x")),
]


@pytest.mark.parametrize(("said", "call"), WRONG, ids=lambda one: one if isinstance(one, str) else "")
async def test_a_type_error_names_the_argument(said: str, call: Callable[[Any], Any], client: duly.Client) -> None:
    for one in (client, duly.aio.Client()):
        with pytest.raises(TypeError) as raised:
            call(one)
        assert str(raised.value) == said


def test_a_type_error_of_a_setting_names_it() -> None:
    settings: dict[str, Any]
    for settings, said in (
        ({"allow_eviction": "x"}, "allow_eviction must be a bool, not str"),
        ({"manual_clock": 1}, "manual_clock must be a bool, not int"),
        ({"ca_file": 5}, "ca_file must be a str or a path, not int"),
    ):
        for client in (duly.Client, duly.aio.Client):
            with pytest.raises(TypeError) as raised:
                client("redis://localhost", **settings)
            assert str(raised.value) == said
    wrong: Any = 3
    with pytest.raises(TypeError, match="delays must be a list of waits, not int"):
        duly.RetryPolicy.list(wrong)
    with pytest.raises(TypeError, match="jitter must be a bool, not int"):
        duly.RetryPolicy.exponential(1, jitter=wrong)
