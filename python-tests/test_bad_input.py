"""What makes no sense is refused as one of duly's errors before anything is sent, never as an accident of Python."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import duly
import duly.aio
import pytest
from support import Server

HALF = "\ud800"
Call = Callable[[Any, Any], object]

TEXTS: dict[str, Call] = {
    "data": lambda _client, queue: queue.push(HALF),
    "a key in data": lambda _client, queue: queue.push({HALF: 1}),
    "key": lambda _client, queue: queue.push(1, key=HALF),
    "name": lambda _client, queue: queue.push(1, name=HALF),
    "id": lambda _client, queue: queue.push(1, id=HALF),
    "on_duplicate": lambda _client, queue: queue.push(1, on_duplicate=HALF),
    "header's name": lambda _client, queue: queue.push(1, headers={HALF: "a"}),
    "header's value": lambda _client, queue: queue.push(1, headers={"a": HALF}),
    "new job": lambda _client, _queue: duly.NewJob(1, key=HALF),
    "queue": lambda client, _queue: client.queue(HALF),
    "partitions": lambda client, _queue: client.partitions(HALF, 2),
    "reserve_from": lambda client, _queue: client.reserve_from([HALF]),
    "weights": lambda client, _queue: client.reserve_from({HALF: 1}),
    "url": lambda client, _queue: type(client)(f"redis://{HALF}"),
    "password": lambda client, _queue: type(client)("redis://localhost", password=HALF),
    "prefix": lambda client, _queue: type(client)("redis://localhost", prefix=HALF),
    "durability": lambda client, _queue: type(client)("redis://localhost", durability=HALF),
    "ca_file": lambda client, _queue: type(client)("rediss://localhost", ca_file=HALF),
    "cancel": lambda _client, queue: queue.cancel(HALF),
    "cancel by key": lambda _client, queue: queue.cancel(key=HALF),
    "find": lambda _client, queue: queue.find(HALF),
    "reschedule": lambda _client, queue: queue.reschedule(HALF, delay=1),
    "requeue": lambda _client, queue: queue.requeue("a", HALF),
    "purge": lambda _client, queue: queue.purge(HALF),
    "peek": lambda _client, queue: queue.peek(HALF),
}

NUMBERS: dict[str, tuple[Call, str]] = {
    "offset": (lambda _client, queue: queue.peek("ready", offset=-1), "offset must be a whole number from 0 to "),
    "limit": (lambda _client, queue: queue.peek("ready", limit=-1), "limit must be a whole number from 1 to 1000"),
    "no limit": (lambda _client, queue: queue.peek("ready", limit=0), "from 1 to 1000"),
    "max": (lambda _client, queue: queue.reserve_many(-1), "max must be a whole number from 1 to 1000"),
    "no max": (lambda _client, queue: queue.reserve_many(0), "from 1 to 1000"),
    "a little more": (lambda _client, queue: queue.reserve_many(1001), "from 1 to 1000"),
    "much more": (lambda _client, queue: queue.reserve_many(2**70), "from 1 to 1000"),
    "a text": (lambda _client, queue: queue.reserve_many("5"), "max must be an int, not str"),
    "several": (lambda client, _queue: client.reserve_from(["q"], max=-1), "max must be a whole number from 1 to 1000"),
    "weight": (lambda client, _queue: client.reserve_from({"q": -1}), "weight must be a whole number from 1 to 1000"),
    "large weight": (lambda client, _queue: client.reserve_from({"q": 2**70}), "weight must be"),
    "priority": (lambda _client, queue: queue.push(1, priority=-1), "priority must be a whole number from 0 to 9"),
    "large priority": (lambda _client, queue: queue.push(1, priority=2**40), "from 0 to 9"),
    "retries": (lambda _client, queue: queue.push(1, max_retries=2**70), "max_retries must be a whole number"),
    "kept": (lambda _client, queue: queue.keep_failed(-1, 10), "max must be a whole number from 0 to "),
    "names": (lambda _client, queue: queue.set_limits(names={"mail": 5}), "names is a dict such as"),
    "length": (lambda _client, queue: queue.set_limits(max_length=0), "max_length must be"),
    "name of a limit": (lambda _client, queue: queue.set_limits(names={5: {}}), "names is a dict such as"),
    "kind of limit": (lambda _client, queue: queue.set_limits(names={"a": {"most": 1}}), "names is a dict such as"),
    "limit of a name": (
        lambda _client, queue: queue.set_limits(names={"a": {"concurrency": 0}}),
        "concurrency must be a whole number from 1 to",
    ),
    "rate of a name": (lambda _client, queue: queue.set_limits(names={"a": {"rate": 5}}), "rate is a pair"),
    "data bytes": (lambda client, _queue: type(client)(max_data_bytes=-1), "max_data_bytes must be a whole number"),
    "no data bytes": (lambda client, _queue: type(client)(max_data_bytes=0), "from 1 to 9007199254740991"),
    "too many data bytes": (lambda client, _queue: type(client)(max_data_bytes=2**53), "from 1 to 9007199254740991"),
    "delay": (lambda _client, queue: queue.push(1, delay=10**400), "delay is a number beyond every limit"),
    "lease": (lambda _client, queue: queue.reserve(lease=0), "a lease lasts 1 ms to 24 h, not 0 s"),
    "long lease": (lambda _client, queue: queue.reserve(lease=90000.5), "a lease lasts 1 ms to 24 h, not 90000.5 s"),
    "id": (lambda _client, queue: queue.push(1, id=5), "id must be a str, not int"),
    "retry": (lambda _client, queue: queue.push(1, retry=5), "retry must be a duly.RetryPolicy, not int"),
}


@pytest.mark.parametrize("call", TEXTS.values(), ids=TEXTS)
async def test_half_a_surrogate_pair_is_refused(call: Call, client: duly.Client, server: Server, prefix: str) -> None:
    await refused_by_both(call, "half a surrogate pair", client, duly.aio.Client(server.url, prefix=prefix))


@pytest.mark.parametrize(("call", "says"), NUMBERS.values(), ids=NUMBERS)
async def test_a_number_out_of_range_is_refused(
    call: Call, says: str, client: duly.Client, server: Server, prefix: str
) -> None:
    await refused_by_both(call, says, client, duly.aio.Client(server.url, prefix=prefix))


async def refused_by_both(call: Call, says: str, client: duly.Client, twin: duly.aio.Client) -> None:
    with pytest.raises(duly.InvalidArgumentError, match=says):
        call(client, client.queue("q"))
    with pytest.raises(duly.InvalidArgumentError, match=says):
        await awaited(call, twin)


async def awaited(call: Call, twin: duly.aio.Client) -> None:
    outcome = call(twin, twin.queue("q"))
    if isinstance(outcome, Awaitable):
        await outcome


class Boastful(list[object]):
    """A list that says it has more than there is memory for."""

    def __len__(self) -> int:
        return 1 << 62


def test_a_length_that_is_not_true_ends_no_process(queue: duly.Queue) -> None:
    assert str(duly.RetryPolicy.list(Boastful([1, 2]))) == str(duly.RetryPolicy.list([1, 2]))  # type: ignore[arg-type]
    queue.push(1)
    assert queue.ack_many(Boastful([queue.reserve()])) == [True]  # type: ignore[arg-type]
    for wrong in ("12", 5, None, Boastful(["a"])):
        with pytest.raises((TypeError, duly.InvalidArgumentError), match="delays must be "):
            duly.RetryPolicy.list(wrong)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="jobs must be a list of reserved jobs"):
            queue.ack_many(wrong)  # type: ignore[arg-type]


def test_a_policy_is_asked_with_numbers_in_range() -> None:
    policy = duly.RetryPolicy.fixed(1)
    for call in (
        lambda: policy.delay(-1),
        lambda: policy.delay(1, seed=-1),
        lambda: policy.decide(1, 2**70),
        lambda: duly.RetryPolicy.exponential(1, factor=10**400),
    ):
        with pytest.raises(duly.InvalidArgumentError):
            call()
    assert policy.delay(1, seed=2**64 - 1) == 1
