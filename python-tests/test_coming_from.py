"""From other queues and back: each with its own library or protocol, by the commands of docs/coming-from."""

from __future__ import annotations

import json
import re
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import duly
import pytest
import redis
from celery import Celery, chain
from old_queues import Packages, Payloads, UnretryableError
from support import Server, until

PAGES = Path(__file__).resolve().parent.parent / "docs" / "coming-from"
LATER = 4_102_444_800

Bridge = Callable[..., tuple[int, str]]


def command_of(page: str, mode: str, *has: str) -> list[str]:
    """The command of a page with this mode and these options, but for its servers."""
    lines = (line.strip() for line in (PAGES / f"{page}.md").read_text(encoding="utf-8").splitlines())
    fitting = [line for line in lines if line.startswith(f"duly bridge {mode} ") and all(part in line for part in has)]
    assert fitting, f"{page}.md has no command for {mode} {has}"
    return shlex.split(re.sub(r" --(source|url) \S+", "", fitting[0]))[2:]


@pytest.fixture
def bridge(own_server: Server) -> Bridge:
    def run(*arguments: str) -> tuple[int, str]:
        command = [sys.executable, "-m", "duly", "bridge", *arguments, "--url", own_server.url]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
        return done.returncode, done.stdout + done.stderr

    return run


@pytest.fixture
def drain(bridge: Bridge) -> Callable[..., str]:
    """Runs what a page says: dry-run, drain. All must have come over."""

    def run(page: str, *has: str) -> str:
        status, said = bridge(*command_of(page, "dry-run", *has))
        assert (status, said.splitlines()[-1]) == (0, "nothing was moved"), said
        status, said = bridge(*command_of(page, "drain", *has))
        assert (status, said.splitlines()[-1]) == (0, "counts before and after agree: nothing is left"), said
        return said

    return run


@pytest.fixture
def old(own_server: Server) -> redis.Redis:
    return redis.Redis(unix_socket_path=str(own_server.socket))


@pytest.fixture
def orders(own_server: Server) -> duly.Queue:
    return duly.Client(own_server.url).queue("orders")


def test_every_page_has_its_commands() -> None:
    pages = sorted(path.stem for path in PAGES.glob("*.md"))
    assert pages == ["celery", "gmq", "laravel", "list-or-sorted-set", "think-queue", "thinkphp", "workerman"]
    for page in pages:
        for mode in ("dry-run", "follow", "drain"):
            command_of(page, mode)


@pytest.mark.parametrize("page", ["thinkphp", "workerman"])
def test_packages_come_over_and_go_back(
    page: str, old: redis.Redis, orders: duly.Queue, bridge: Bridge, drain: Callable[..., str]
) -> None:
    if page == "thinkphp":
        queue = Packages(old, "redis:queue:ready", "redis:queue:delay", "redis:queue:failed")
    else:
        shared = "{redis-queue}-"
        queue = Packages(old, f"{shared}waitingorders", f"{shared}delayed", f"{shared}failed", queue="orders")

    def refuse(_: object) -> None:
        raise ValueError("no bank")

    # One fails six times, and another one once.
    queue.send("never")
    for _ in range(6):
        assert queue.consume(refuse)
        queue.poll(time.time() + 600)
    for order in range(3):
        queue.send({"order_id": order, "name": "中文"})
    queue.send({"order_id": 3}, delay=3600)
    assert queue.consume(refuse)
    drain(page)
    assert not old.exists(queue.ready, queue.delayed, queue.failed)
    assert [job.data["order_id"] for job in orders.peek("ready")] == [1, 2]
    assert [(job.data["order_id"], job.attempts, job.error) for job in orders.peek("delayed")] == [
        (0, 1, "no bank"),
        (3, 0, ""),
    ]
    (failed,) = orders.peek("failed")
    assert (failed.data, failed.attempts, failed.error) == ("never", 6, "no bank")

    orders.push({"order_id": 9}, name="order.close")
    status, said = bridge(*command_of(page, "drain", "--back"))
    assert (status, said.splitlines()[-1]) == (0, "counts before and after agree: nothing is left"), said
    done: list[int] = []
    while queue.consume(lambda data: done.append(data["order_id"])):
        pass
    assert done == [1, 2, 9]
    assert (old.zcard(queue.delayed), old.llen(queue.failed)) == (2, 1)
    queue.poll(time.time() + 7200)
    assert queue.consume(refuse)
    (retried,) = [json.loads(text) for text in cast("list[bytes]", old.zrange(queue.delayed, 0, -1))]
    assert (retried["attempts"], retried["error"]) == (2 if retried["data"]["order_id"] == 0 else 1, "no bank")


def test_what_workerman_does_not_retry_and_what_webman_sends_comes_over(
    old: redis.Redis, orders: duly.Queue, own_server: Server, bridge: Bridge, drain: Callable[..., str]
) -> None:
    shared = "{redis-queue}-"
    queue = Packages(old, f"{shared}waitingorders", f"{shared}delayed", f"{shared}failed", queue="orders")
    mail = Packages(old, f"{shared}waitingmail", f"{shared}delayed", f"{shared}failed", queue="mail")

    def refuse(_: object) -> None:
        raise UnretryableError("a/b is gone")

    queue.send({"path": "a/b", "empty": {}})
    assert queue.consume(refuse)
    queue.send_by_webman({"order_id": 1})
    mail.send_by_webman({"to": 2}, delay=3600)
    drain("workerman")
    (failed,) = orders.peek("failed")
    # PHP has written its package once more.
    assert (failed.data, failed.attempts, failed.error) == ({"path": "a/b", "empty": []}, 0, "a/b is gone")
    assert failed.extra == {"queue": "orders"}
    (ready,) = orders.peek("ready")
    assert (ready.data, ready.headers["old-id"]) == ({"order_id": 1}, "2")
    assert duly.Client(own_server.url).queue("mail").counts().delayed == 1
    # And back: the poller of one queue's consumers gives each job to its own queue.
    status, said = bridge(*command_of("workerman", "drain", "--back"))
    assert status == 0, said
    queue.poll(time.time() + 7200)
    got: list[object] = []
    assert mail.consume(got.append)
    assert got == [{"to": 2}]


def test_payloads_of_think_queue_come_over_and_go_back(
    old: redis.Redis, orders: duly.Queue, bridge: Bridge, drain: Callable[..., str]
) -> None:
    queue = Payloads(old, "{queues:orders}")
    sent = [queue.push("app/job/Close@fire", {"order_id": order}) for order in range(2)]
    queue.push("app/job/Close@fire", {"order_id": 2}, delay=3600)
    # A worker that was killed had this one, and its time is over.
    assert queue.pop(time.time() - 100)
    drain("think-queue")
    ready = orders.peek("ready")
    assert [job.data["data"]["order_id"] for job in ready] == [0, 1]
    assert [job.attempts for job in ready] == [1, 0]
    assert ready[1].raw.decode() == sent[1]
    assert ready[1].name == "app/job/Close@fire"
    orders.push({"order_id": 5}, name="app/job/Mail@fire")
    status, said = bridge(*command_of("think-queue", "drain", "--back"))
    assert status == 0, said
    runs = []
    while popped := queue.pop(time.time()):
        payload, reserved = popped
        runs.append((payload["job"], payload["data"]["order_id"], payload["attempts"]))
        queue.delete(reserved)
    close, mail = "app/job/Close@fire", "app/job/Mail@fire"
    assert runs == [(close, 0, 2), (close, 1, 1), (mail, 5, 1)]
    assert old.zcard("{queues:orders}:delayed") == 1


def test_payloads_of_laravel_come_over(old: redis.Redis, orders: duly.Queue, drain: Callable[..., str]) -> None:
    queue = Payloads(old, "shop_database_queues:orders", notices=True)
    handler = "Illuminate\\Queue\\CallQueuedHandler@call"
    command = {"commandName": "App\\Jobs\\Close", "command": 'O:14:"App\\Jobs\\Close":1:{s:5:"order";i:42;}'}
    queue.push(handler, command)
    queue.push(handler, command, delay=3600)
    drain("laravel")
    (ready,) = orders.peek("ready")
    assert (ready.name, ready.data["data"]) == (handler, command)
    assert orders.counts().delayed == 1
    assert not old.exists(f"{queue.key}:notify")
    # Of Laravel, of Horizon, and of neither.
    for more in ({"createdAt": 1690000001, "pushedAt": "5"}, {"pushedAt": "1690000002.0042"}, {"createdAt": None}):
        old.rpush(queue.key, json.dumps({"job": handler, "data": {}, **more}))
    drain("laravel")
    *known, moved = [job.pushed_at for job in orders.peek("ready")[1:]]
    assert known == [1690000001, 1690000002]
    # Nobody knows when: it counts from when it came over.
    assert time.time() - 60 < moved < time.time() + 60


def send_one(old: redis.Redis, page: str, number: int) -> None:
    """As an old producer of the page does it: one job."""
    if page == "thinkphp":
        Packages(old, "redis:queue:ready", "redis:queue:delay", "redis:queue:failed").send({"order": number})
    elif page == "workerman":
        shared = "{redis-queue}-"
        Packages(old, f"{shared}waitingorders", f"{shared}delayed", f"{shared}failed", "orders").send({"order": number})
    elif page == "think-queue":
        Payloads(old, "{queues:orders}").push("close", {"order": number})
    elif page == "laravel":
        Payloads(old, "shop_database_queues:orders", notices=True).push("close", {"order": number})
    elif page == "celery":
        app = Celery("shop", broker=f"redis+socket://{old.connection_pool.connection_kwargs['path']}", backend=None)
        app.send_task("shop.close", ({"order": number},), queue="orders")
    elif page == "gmq":
        job: dict[Any, Any] = {
            "id": f"j{number}",
            "topic": "orders",
            "TTR": "5",
            "body": json.dumps({"order": number}),
            "status": "2",
        }
        old.hset(f"gmq:jobpool:j{number}", mapping={**job, "consume_num": "0"})
        old.lpush("gmq:readyqueue:orders", f"j{number}")
    else:
        old.rpush("tasks", json.dumps({"order": number}))


def order_of(data: Any) -> int:
    """The number of a job, however the page wraps it."""
    if "args" in data:
        data = data["args"][0]
    return cast("int", data.get("data", data)["order"])


@contextmanager
def sending(old: redis.Redis, page: str) -> Iterator[list[int]]:
    """Old producers in a thread, until the end of the block. The list has the numbers of all their jobs."""
    sent: list[int] = []
    ends = threading.Event()

    def send() -> None:
        while not ends.wait(0.02):
            send_one(old, page, len(sent))
            sent.append(len(sent))

    thread = threading.Thread(target=send)
    thread.start()
    try:
        yield sent
    finally:
        ends.set()
        thread.join(60)


@pytest.mark.parametrize("page", sorted(path.stem for path in PAGES.glob("*.md")))
def test_the_follow_of_each_page_takes_what_old_producers_send(
    page: str, old: redis.Redis, orders: duly.Queue, own_server: Server, drain: Callable[..., str]
) -> None:
    has = ["--from list"] if page == "list-or-sorted-set" else []
    command = [sys.executable, "-m", "duly", "bridge", *command_of(page, "follow", *has), "--url", own_server.url]
    done: list[int] = []

    def take(least: int) -> bool:
        for job in orders.reserve_many(100):
            done.append(order_of(job.data))
            job.ack()
        return len(done) >= least

    with sending(old, page) as sent:
        until(lambda: sent, "nothing is sent")
        follow = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        until(lambda: take(20) or follow.poll() is not None, "nothing comes over")
        follow.send_signal(signal.SIGINT)
        said = follow.communicate(timeout=60)[0]
        assert follow.returncode == 0, said
    # The last producer has ended.
    drain(page, *has)
    until(lambda: take(len(sent)), "some are missing")
    assert sorted(done) == sent


@pytest.mark.parametrize("page", ["think-queue", "laravel"])
def test_what_a_living_worker_has_is_left_to_it(
    page: str, old: redis.Redis, orders: duly.Queue, bridge: Bridge, drain: Callable[..., str]
) -> None:
    key = "{queues:orders}" if page == "think-queue" else "shop_database_queues:orders"
    queue = Payloads(old, key, notices=page == "laravel")
    for order in range(4):
        queue.push("close", {"order": order})
    first, second = queue.pop(time.time()), queue.pop(time.time())
    assert first
    assert second
    status, said = bridge(*command_of(page, "drain"))
    assert status == 1, said
    assert "2 jobs are with workers of the old queue" in said
    # It has ended one, and gives the other one back.
    queue.delete(first[1])
    old.zrem(f"{key}:reserved", second[1])
    old.zadd(f"{key}:delayed", {second[1]: int(time.time()) - 1})
    drain(page)
    assert [job.data["data"]["order"] for job in orders.peek("ready")] == [2, 3, 1]
    assert [job.attempts for job in orders.peek("ready")] == [0, 0, 1]


def test_a_package_that_could_not_be_encoded_is_in_failed(
    old: redis.Redis, orders: duly.Queue, drain: Callable[..., str]
) -> None:
    # `json_encode` gave false, and that is an empty entry.
    old.lpush("redis:queue:ready", "")
    drain("thinkphp")
    (failed,) = orders.peek("failed")
    assert "could not read it" in failed.error


def test_what_the_go_twin_has_done_lies_in_failed(
    old: redis.Redis, orders: duly.Queue, drain: Callable[..., str]
) -> None:
    # Its data is a string, all seven fields are always there, and what it has done goes into its list of failed ones.
    package = {"id": "1", "time": 1690000000, "delay": 0, "attempts": 0, "max_attempts": 0, "error": ""}
    old.lpush("redis:queue:ready", json.dumps({**package, "data": '{"order":1}'}))
    old.lpush("redis:queue:failed", json.dumps({**package, "attempts": 1, "data": '{"order":0}'}))
    drain("thinkphp")
    assert [job.data for job in orders.peek("ready")] == ['{"order":1}']
    (done,) = orders.peek("failed")
    assert (done.data, done.attempts) == ('{"order":0}', 1)
    assert "did not say why" in done.error


def test_any_list_and_sorted_set_come_over(old: redis.Redis, orders: duly.Queue, drain: Callable[..., str]) -> None:
    old.rpush("tasks", '{"order":1}', "two")
    old.zadd("later", {'{"order":3}': LATER})
    drain("list-or-sorted-set", "--from list")
    drain("list-or-sorted-set", "--from sorted-set")
    assert [(job.name, job.data) for job in orders.peek("ready")] == [
        ("order.close", {"order": 1}),
        ("order.close", "two"),
    ]
    (delayed,) = orders.peek("delayed")
    assert delayed.data == {"order": 3}


def test_keys_of_well_known_designs_come_over(old: redis.Redis, orders: duly.Queue, bridge: Bridge) -> None:
    for number in range(3):
        old.lpush("orders.prepare", json.dumps({"content": {"order": str(number)}}))
    old.rpoplpush("orders.prepare", "orders.doing0")
    old.zadd("delay-queue", {'{"id":"u-1"}': LATER})
    old.zadd("delayed_tasks", {'{"unixNano":1,"queueName":"mail","param":"7"}': LATER * 1_000_000_000})
    for has in ("orders.prepare", "orders.doing0", "delay-queue", "delayed_tasks"):
        status, said = bridge(*command_of("list-or-sorted-set", "drain", has))
        assert status == 0, said
    assert [job.data["content"]["order"] for job in orders.peek("ready")] == ["1", "2", "0"]
    delayed = orders.peek("delayed")
    assert [job.data for job in delayed] == [{"id": "u-1"}, {"unixNano": 1, "queueName": "mail", "param": "7"}]
    assert {job.at for job in delayed} == {float(LATER)}


def test_jobs_of_gmq_come_over(old: redis.Redis, orders: duly.Queue, drain: Callable[..., str]) -> None:
    for number, status in enumerate(["2", "1", "3"]):
        job: dict[Any, Any] = {
            "id": f"j{number}",
            "topic": "orders",
            "delay": "0",
            "TTR": "5",
            "body": '{"order":1}',
            "status": status,
        }
        old.hset(f"gmq:jobpool:j{number}", mapping={**job, "consume_num": "0"})
    old.lpush("gmq:readyqueue:orders", "j0")
    old.zadd("gmq:bucket:1", {"j1": LATER})
    old.zadd("gmq:bucket:TTR:A", {"j2": time.time() - 5})
    drain("gmq")
    assert {job.headers["old-id"] for job in orders.peek("ready")} == {"j0", "j2"}
    assert orders.counts().delayed == 1
    assert not old.keys("gmq:jobpool:*")


@pytest.fixture
def celery(own_server: Server) -> Celery:
    app = Celery("shop", broker=f"redis+socket://{own_server.socket}", backend=None)
    app.conf.task_default_queue = "orders"

    @app.task(name="shop.close")  # type: ignore[untyped-decorator, unused-ignore]
    def close(*args: object, **kwargs: object) -> None:
        """Does nothing."""

    return app


def test_tasks_of_celery_come_over_and_workflows_stay(celery: Celery, orders: duly.Queue, bridge: Bridge) -> None:
    close = celery.tasks["shop.close"]
    sent = close.apply_async((42,), {"how": "späte"}, headers={"shop": "7"})
    later = close.apply_async((43,), countdown=3600, expires=7200, priority=5, retries=2)
    stay = [
        close.apply_async((1,), link=close.s(2)),
        chain(close.s(1), close.s(2)).apply_async().parent,
        close.apply_async((3,), serializer="pickle"),
        close.apply_async((4,), compression="zlib"),
        close.apply_async((b"bytes",)),
    ]
    status, said = bridge(*command_of("celery", "dry-run"))
    assert status == 0, said
    status, said = bridge(*command_of("celery", "drain"))
    assert status == 1, said
    for reason in ("a callback (link)", "a chain", "and not JSON", "is compressed", "no JSON value"):
        assert reason in said, said
    (ready,) = orders.peek("ready")
    assert (ready.name, ready.data) == ("shop.close", {"args": [42], "kwargs": {"how": "späte"}})
    assert (ready.headers["old-id"], ready.headers["shop"]) == (sent.id, "7")
    (delayed,) = orders.peek("delayed")
    assert (delayed.data["args"], delayed.attempts) == ([43], 2)
    assert (delayed.headers["old-id"], delayed.headers["priority"]) == (later.id, "5")
    assert "expires" in delayed.headers
    # A worker of Celery finds those that stay as they were.
    with celery.connection_for_read() as connection, connection.channel() as channel:
        left = [channel.basic_get("orders", no_ack=True) for _ in stay]
        assert [message.headers["id"] for message in left] == [result.id for result in stay]
        assert channel.basic_get("orders", no_ack=True) is None


def test_what_a_worker_of_celery_has_comes_over_when_its_time_is_over(
    celery: Celery, orders: duly.Queue, bridge: Bridge
) -> None:
    sent = celery.tasks["shop.close"].apply_async((1,))
    with celery.connection_for_read() as connection, connection.channel() as channel:
        assert channel.basic_get("orders").headers["id"] == sent.id
        status, said = bridge(*command_of("celery", "drain"))
        assert status == 1, said
        assert "1 job is with workers of the old queue" in said
        status, said = bridge(*command_of("celery", "drain"), "--visibility-timeout", "0")
        assert status == 0, said
    (job,) = orders.peek("ready")
    assert job.headers["old-id"] == sent.id
