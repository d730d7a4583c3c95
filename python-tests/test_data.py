from __future__ import annotations

import gc
import json
import math
import random
import string
import weakref
from collections import OrderedDict, namedtuple
from datetime import datetime, timedelta, timezone
from enum import IntEnum
from typing import Any

import duly
import pytest
from support import running, until

Point = namedtuple("Point", "x y")


class Level(IntEnum):
    LOW = 1


class Text(str):
    __slots__ = ()


def there_and_back(queue: duly.Queue, data: Any) -> tuple[Any, bytes]:
    queue.push(data)
    job = queue.reserve()
    assert job is not None
    job.ack()
    return job.data, job.raw


@pytest.mark.parametrize(
    ("data", "raw"),
    [
        (None, b"null"),
        (True, b"true"),
        (False, b"false"),
        (0, b"0"),
        (-1, b"-1"),
        (2**53 + 1, b"9007199254740993"),
        (2**63 - 1, b"9223372036854775807"),
        (-(2**63), b"-9223372036854775808"),
        (2**64 - 1, b"18446744073709551615"),
        (Level.LOW, b"1"),
        (0.1, b"0.1"),
        (1.0, b"1.0"),
        (-0.0, b"-0.0"),
        (1e300, b"1e300"),
        (5e-324, b"5e-324"),
        ("", b'""'),
        (Text("a"), b'"a"'),
        ('"\\\b\f\n\r\t\0\x1f\x7f/', b'"\\"\\\\\\u0008\\u000c\\n\\r\\t\\u0000\\u001f\x7f/"'),
        ("订单😀", '"订单😀"'.encode()),
        ([], b"[]"),
        ({}, b"{}"),
        ((1, (2,)), b"[1,[2]]"),
        (Point(1, 2), b"[1,2]"),
        (OrderedDict(b=1, a=[None]), b'{"b":1,"a":[null]}'),
        ({"": {"a b": [{}]}}, b'{"":{"a b":[{}]}}'),
    ],
)
def test_json_able_data_is_pushed_exactly_and_comes_back_equal(queue: duly.Queue, data: Any, raw: bytes) -> None:
    back, found = there_and_back(queue, data)
    assert found == raw
    assert back == json.loads(raw)
    assert type(back) is type(json.loads(raw))


def test_any_value_comes_back_as_pythons_own_json_reads_it(queue: duly.Queue) -> None:
    chance = random.Random(7)
    characters = string.printable + "éß订😀\0\u2028"

    def value(depth: int) -> Any:
        kinds = 6 if depth > 4 else 8
        match chance.randrange(kinds):
            case 0:
                return None
            case 1:
                return chance.random() < 0.5
            case 2:
                return chance.choice([1, -1]) * chance.getrandbits(chance.randrange(63))
            case 3:
                return chance.uniform(-1, 1) * 10 ** chance.randrange(-300, 300)
            case 4 | 5:
                return "".join(chance.choices(characters, k=chance.randrange(12)))
            case 6:
                return [value(depth + 1) for _ in range(chance.randrange(5))]
            case _:
                return {str(value(9)): value(depth + 1) for _ in range(chance.randrange(5))}

    values = [value(0) for _ in range(1000)]
    summary = queue.push_many((duly.NewJob(one) for one in values), ids=True)
    assert summary.created == 1000
    assert summary.ids is not None
    jobs = queue.reserve_many(1000)
    assert [job.id for job in jobs] == summary.ids
    for job, one in zip(jobs, values, strict=True):
        assert job.data == one
        assert json.loads(job.raw) == one


def nested(levels: int) -> Any:
    data: Any = 1
    for _ in range(levels):
        data = [data]
    return data


def cycle() -> Any:
    data: dict[str, Any] = {}
    data["me"] = [data]
    return data


@pytest.mark.parametrize(
    ("data", "path", "why"),
    [
        (2**64, "data ", "64 bits"),
        (-(2**63) - 1, "data ", "64 bits"),
        (math.nan, "data ", "NaN"),
        ({"items": [0, 1, 2, {"price": math.inf}]}, "data.items[3].price ", "infinite"),
        ({"a": {1: 2}}, "data.a ", "key of type int"),
        ({"a b": {None: 2}}, 'data["a b"] ', "key of type NoneType"),
        (["\ud800"], "data[0] ", "surrogate"),
        ({"a": {"\udfff": 1}}, "data.a ", "surrogate"),
        ([b"bytes"], "data[0] ", "of type bytes"),
        ({"s": {1}}, "data.s ", "of type set"),
        ([object()], "data[0] ", "of type object"),
        (datetime.now(timezone.utc), "data ", "of type datetime"),
        (nested(513), "data[0][0]", "deeper than 512"),
        (cycle(), "data.me[0].me[0]", "contains itself"),
    ],
)
def test_what_json_cannot_hold_is_refused_with_its_path_before_anything_is_sent(
    queue: duly.Queue, data: Any, path: str, why: str
) -> None:
    with pytest.raises(duly.InvalidArgumentError) as caught:
        queue.push(data)
    assert path in str(caught.value)
    assert why in str(caught.value)
    assert len(str(caught.value)) < 300
    assert (caught.value.kind, caught.value.operation, caught.value.queue) == ("invalid_argument", "push", "q")
    assert queue.counts().totals.get("pushed", 0) == 0


def test_data_may_be_512_levels_deep(queue: duly.Queue) -> None:
    assert there_and_back(queue, nested(512))[0] == nested(512)


@pytest.mark.parametrize(
    ("raw", "data"),
    [
        (b' {"a" : [ 1 , 2.50 ] }\n', {"a": [1, 2.5]}),
        (b"123456789012345678901234567890", 123456789012345678901234567890),
        (b"-18446744073709551616", -(2**64)),
        (b"1E2", 100.0),
        (b"-0", 0),
        (b'"\\ud83d\\ude00\\/\\b\\f"', "😀/\b\f"),
        (b'"\\ud800x"', "\ud800x"),
        (b'"\\ud800\\ud83d\\ude00"', "\ud800😀"),
        (b'{"a":1,"a":2}', {"a": 2}),
    ],
)
def test_raw_json_is_kept_byte_for_byte_and_decoded_exactly(queue: duly.Queue, raw: bytes, data: Any) -> None:
    queue.push(raw=raw)
    job = queue.reserve()
    assert job is not None
    assert job.raw == raw
    assert job.data == data
    assert type(job.data) is type(data)


@pytest.mark.parametrize("raw", [b"", b"{", b"NaN", b"{} {}", b"\xff", "1", bytearray(b"1"), [1]])
def test_raw_that_is_not_bytes_of_json_is_refused(queue: duly.Queue, raw: Any) -> None:
    with pytest.raises(duly.InvalidArgumentError):
        queue.push(raw=raw)
    with pytest.raises(duly.InvalidArgumentError):
        duly.NewJob(raw=raw)


def test_data_and_raw_exclude_each_other(queue: duly.Queue) -> None:
    with pytest.raises(duly.InvalidArgumentError):
        queue.push(1, raw=b"1")


def test_data_is_decoded_once(queue: duly.Queue) -> None:
    queue.push({"a": []})
    job = queue.reserve()
    assert job is not None
    job.data["a"].append(1)
    assert job.data == {"a": [1]}
    assert job.raw == b'{"a":[]}'


def test_data_over_the_limit_is_refused(server: Any, prefix: str) -> None:
    queue = duly.Client(server.url, prefix=prefix, max_data_bytes=10).queue("q")
    queue.push("12345678")
    with pytest.raises(duly.TooLargeError):
        queue.push("123456789")


@pytest.mark.parametrize("delay", [60, 60.0, timedelta(minutes=1)])
def test_a_delay_is_seconds_or_a_timedelta(queue: duly.Queue, delay: Any) -> None:
    queue.push(1, delay=delay)
    due_in = queue.counts().next_due_in
    assert due_in is not None
    assert 50 < due_in <= 60.01


@pytest.mark.parametrize("moment", ["datetime", "seconds", "int", "other zone"])
def test_a_moment_is_an_aware_datetime_or_unix_seconds(queue: duly.Queue, moment: str) -> None:
    at = datetime.now(timezone.utc) + timedelta(minutes=1)
    given: Any = {
        "datetime": at,
        "seconds": at.timestamp(),
        "int": int(at.timestamp()),
        "other zone": at.astimezone(timezone(timedelta(hours=8))),
    }[moment]
    queue.push(1, at=given)
    due_in = queue.counts().next_due_in
    assert due_in is not None
    assert 50 < due_in <= 60.01


@pytest.mark.parametrize(
    "options",
    [
        {"delay": True},
        {"delay": "5"},
        {"delay": -1},
        {"delay": math.nan},
        {"delay": math.inf},
        {"delay": 10**400},
        {"delay": timedelta(seconds=-1)},
        {"delay": timedelta(days=40000)},
        {"delay": 1, "at": 1},
        {"at": datetime(2030, 1, 1)},
        {"at": False},
        {"at": -1},
        {"timeout": True},
        {"timeout": -1},
        {"priority": 10},
        {"priority": -1},
        {"priority": True},
        {"priority": 1.0},
        {"max_retries": -1},
        {"max_retries": 2**32},
        {"max_retries": True},
        {"headers": {"a": 1}},
        {"headers": [("a", "b")]},
        {"on_duplicate": "ignore"},
        {"name": ""},
        {"key": "\n"},
        {"id": "x" * 129},
    ],
)
def test_bad_options_are_refused(queue: duly.Queue, options: dict[str, Any]) -> None:
    with pytest.raises(duly.InvalidArgumentError) as caught:
        queue.push(1, **options)
    assert caught.value.queue == "q"
    assert queue.counts().totals.get("pushed", 0) == 0


def test_a_naive_datetime_is_refused_with_advice(queue: duly.Queue) -> None:
    with pytest.raises(duly.InvalidArgumentError, match="time zone"):
        queue.push(1, at=datetime(2030, 1, 1))


def test_a_job_says_all_that_was_pushed(queue: duly.Queue) -> None:
    headers = {"traceparent": "00-1-2-01", "": "x"} | {"a": "ü"}
    del headers[""]
    job_id = queue.push(
        {"a": 1}, name="n", id="i", key="k", priority=2, max_retries=7, timeout=1.5, headers=headers,
        retry=duly.RetryPolicy.fixed(3),
    )  # fmt: skip
    job = queue.reserve(lease=timedelta(seconds=20))
    assert job is not None
    assert (job.id, job.name, job.key, job.priority) == (job_id, "n", "k", 2) == ("i", "n", "k", 2)
    assert (job.max_retries, job.timeout, job.headers) == (7, 1.5, headers)
    assert (job.attempt, job.attempts, job.error, job.returns, job.settled) == (1, 0, "", 0, False)
    assert job.queue is queue
    assert abs(job.pushed_at - datetime.now(timezone.utc).timestamp()) < 60
    assert job.fail(ValueError("no")) == 3
    assert job.settled
    found = queue.find(key="k")
    assert found is not None
    assert (found.state, found.attempts, found.error, found.data) == ("delayed", 1, "ValueError: no", {"a": 1})
    assert "retried" in found.why


def test_push_many_reads_lazily_and_stops_where_the_iterable_raises(queue: duly.Queue) -> None:
    def jobs() -> Any:
        for number in range(2500):
            if number == 2200:
                raise KeyError("mine")
            yield duly.NewJob(number)

    with pytest.raises(KeyError, match="mine"):
        queue.push_many(jobs())
    assert queue.counts().ready == 2000
    with pytest.raises(duly.InvalidArgumentError, match="NewJob"):
        queue.push_many([1])  # type: ignore[list-item]


def test_policies_say_how_long_they_wait() -> None:
    assert [duly.RetryPolicy.linear(5).delay(n) for n in (1, 2, 3)] == [5, 10, 15]
    assert [duly.RetryPolicy.list([1, timedelta(seconds=2)]).delay(n) for n in (1, 2, 3)] == [1, 2, 2]
    assert duly.RetryPolicy.exponential(1, cap=10, jitter=False).delay(9) == 10
    assert 0 <= duly.RetryPolicy.exponential(1).delay(3, seed=5) <= 4
    assert duly.RetryPolicy.fixed(1).decide(2, max_retries=1) is None
    assert duly.RetryPolicy.fixed(1) == duly.RetryPolicy.fixed(1.0) != duly.RetryPolicy.fixed(2)
    assert repr(duly.RetryPolicy.exponential(1)) == "RetryPolicy.exponential(1, factor=2.0, cap=3600, jitter=True)"
    with pytest.raises(duly.InvalidArgumentError):
        duly.RetryPolicy.list([])
    with pytest.raises(duly.InvalidArgumentError):
        duly.RetryPolicy.fixed(True)


@pytest.mark.parametrize("kind", ["reserved", "in a worker"])
def test_a_job_in_its_own_data_is_collected(kind: str, client: duly.Client, queue: duly.Queue) -> None:
    class Probe:
        """What has weak references, unlike a dict."""

    probes: list[weakref.ref[Probe]] = []

    def tie(job: duly.Job) -> None:
        probe = Probe()
        probes.append(weakref.ref(probe))
        job.data.update(job=job, probe=probe)

    queue.push({"a": 1})
    if kind == "reserved":
        job = queue.reserve()
        assert job is not None
        tie(job)
        del job
    else:
        worker = duly.Worker(client, ["q"])
        worker.on(None, tie)
        with running(worker):
            until(lambda: queue.counts().totals.get("acked") == 1, "it did not run")
    gc.collect()
    assert [probe() for probe in probes] == [None]
