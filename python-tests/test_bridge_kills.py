"""Bridges that are killed at random while programs of both queues run: each job comes over once, or goes back once.

`DULY_BRIDGE_KILLS` makes it longer, `DULY_KILL_SEED` takes other random numbers than the usual ones, or repeats a run.
"""

from __future__ import annotations

import base64
import json
import os
import random
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, cast

import duly
import pytest
import redis
from support import Server, say, until

SEED = int(os.environ.get("DULY_KILL_SEED", "24301"))
KILLS = int(os.environ.get("DULY_BRIDGE_KILLS", "8"))
QUEUES = ("orders", "mail", "bills")
READY, DELAYED = "redis:queue:ready", "redis:queue:delay"
SHARED = "{redis-queue}-"

SOURCES = {
    "thinkphp": ["--from", "thinkphp", "--to", "orders"],
    "workerman": ["--from", "workerman", *(word for queue in QUEUES for word in ("--queue", queue))],
    "celery": ["--from", "celery", "--queue", "orders"],
    "gmq": ["--from", "gmq", "--queue", "orders", "--buckets", "1"],
}
# Whose token says that a bridge has begun.
STATES = {
    "thinkphp": f"{{{READY}}}:duly:state",
    "workerman": f"{SHARED}delayed:duly:state",
    "celery": "{orders}:duly:state",
    "gmq": "{gmq:readyqueue:orders}:duly:state",
}

Send = Callable[[redis.Redis, list[int]], None]


def send_packages(old: redis.Redis, numbers: list[int]) -> None:
    """Some are ready, and some due."""
    packages = [json.dumps({"id": "same", "time": 1690000000, "attempts": 0, "data": number}) for number in numbers]
    old.lpush(READY, *packages[::2])
    if due := {package: time.time() - 1 for package in packages[1::2]}:
        old.zadd(DELAYED, due)


def send_shared(old: redis.Redis, numbers: list[int]) -> None:
    """All queues share a key, so that a batch has three parts."""
    due = {}
    for number in numbers:
        package = {"id": "same", "time": 1690000000, "attempts": 0, "data": number, "queue": QUEUES[number % 3]}
        due[json.dumps(package)] = time.time() - 1
    old.zadd(f"{SHARED}delayed", due)


def is_chained(number: int) -> bool:
    """Only Celery can run these."""
    return number % 5 == 1


def send_messages(old: redis.Redis, numbers: list[int]) -> None:
    """As kombu does it; some are part of a chain."""
    messages = []
    for number in numbers:
        body = [[number], {}, {"chain": [{"task": "next"}] if is_chained(number) else None}]
        message = {
            "body": base64.b64encode(json.dumps(body).encode()).decode(),
            "content-encoding": "utf-8",
            "content-type": "application/json",
            "headers": {"task": "close", "id": f"t-{number}", "retries": 0},
            "properties": {"body_encoding": "base64", "delivery_info": {"exchange": "", "routing_key": "orders"}},
        }
        messages.append(json.dumps(message))
    old.lpush("orders", *messages)


def send_hashes(old: redis.Redis, numbers: list[int]) -> None:
    """Of gmq: some are ready, and some due. The bucket comes behind the hash, as in gmq."""
    with old.pipeline(transaction=False) as pipeline:
        for number in numbers:
            due = number % 2 == 1
            job: dict[Any, Any] = {"id": f"j{number}", "topic": "orders", "TTR": "5", "body": str(number)}
            pipeline.hset(f"gmq:jobpool:j{number}", mapping={**job, "status": "1" if due else "2", "consume_num": "0"})
            if due:
                pipeline.zadd("gmq:bucket:0", {f"j{number}": time.time() - 1})
            else:
                pipeline.lpush("gmq:readyqueue:orders", f"j{number}")
        pipeline.execute()


SENDS: dict[str, Send] = {
    "thinkphp": send_packages,
    "workerman": send_shared,
    "celery": send_messages,
    "gmq": send_hashes,
}


def number_of(data: Any) -> int:
    """The number of a job: a task of Celery has it as its argument."""
    return cast("int", data["args"][0] if isinstance(data, dict) else data)


@contextmanager
def sending(send: Send, old: redis.Redis, chance: random.Random) -> Iterator[list[int]]:
    """An old producer, until the end of the block. The list has the numbers of all its jobs."""
    sent: list[int] = []
    ends = threading.Event()

    def run() -> None:
        while not ends.is_set():
            some = list(range(len(sent), len(sent) + chance.choice((1, 20, 200, 700))))
            send(old, some)
            sent.extend(some)
            ends.wait(chance.uniform(0, 0.05))

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield sent
    finally:
        ends.set()
        thread.join(60)


@contextmanager
def working(url: str) -> Iterator[Counter[int]]:
    """A program that takes what has come, until the end of the block."""
    done: Counter[int] = Counter()
    ends = threading.Event()

    def run() -> None:
        client = duly.Client(url)
        queues = [client.queue(queue) for queue in QUEUES]
        while not ends.is_set():
            for queue in queues:
                jobs = queue.reserve_many(500)
                done.update(number_of(job.data) for job in jobs)
                queue.ack_many(jobs)
            ends.wait(0.01)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield done
    finally:
        ends.set()
        thread.join(60)


def forget_locks(new: redis.Redis) -> None:
    """A bridge that was killed has them for a while, and nobody waits here."""
    if locks := new.keys("duly:{bridge:*}:lock"):
        new.delete(*locks)


def begun(old: redis.Redis, state: str, before: object, bridge: subprocess.Popen[bytes]) -> bool:
    """Has the bridge asked for a batch, or ended?"""
    return old.hget(state, "token") != before or bridge.poll() is not None


@pytest.mark.parametrize("source", list(SOURCES))
@pytest.mark.timeout(120 + KILLS * 5)
def test_a_bridge_that_is_killed_at_random_loses_and_doubles_nothing(
    source: str, own_server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    say(capsys, f"DULY_KILL_SEED={SEED} DULY_BRIDGE_KILLS={KILLS} {source}")
    chance = random.Random(SEED)
    other = Server()
    try:
        old = redis.Redis(unix_socket_path=str(other.socket))
        new = redis.Redis(unix_socket_path=str(own_server.socket))
        command = [sys.executable, "-m", "duly", "bridge"]
        options = [*SOURCES[source], "--source", other.url, "--url", own_server.url]
        states = STATES[source]
        held = 0
        with working(own_server.url) as done:
            with sending(SENDS[source], old, random.Random(SEED)) as sent:
                for _ in range(KILLS):
                    forget_locks(new)
                    before = old.hget(states, "token")
                    bridge = subprocess.Popen([*command, "follow", *options], stderr=subprocess.PIPE)
                    has_begun = partial(begun, old, states, before, bridge)
                    until(has_begun, "it takes no job")
                    time.sleep(chance.uniform(0.0, 0.4))
                    bridge.kill()
                    said = bridge.communicate()[1].decode()
                    assert bridge.returncode == -9, said
                    held += bool(old.keys("*:duly:in_flight"))
            forget_locks(new)
            stay = [number for number in sent if source == "celery" and is_chained(number)]
            coming = Counter(number for number in sent if number not in set(stay))
            ended = subprocess.run([*command, "drain", *options], capture_output=True, text=True, check=False)
            assert ended.returncode == int(bool(stay)), ended.stdout + ended.stderr
            until(lambda: done.total() >= coming.total(), f"of {coming.total()} jobs only some came: {done.total()}")
            until(
                lambda: not any(duly.Client(own_server.url).queue(queue).counts().ready for queue in QUEUES),
                "some wait",
            )
        assert done == coming
        if source == "celery":
            left = [json.loads(text)["headers"]["id"] for text in cast("list[bytes]", old.lrange("orders", 0, -1))]
            assert Counter(left) == Counter(f"t-{number}" for number in stay)
        say(capsys, f"{len(sent)} jobs, {KILLS} kills, {held} of them with a batch in flight")
    finally:
        other.close()


@contextmanager
def pushing(url: str, chance: random.Random) -> Iterator[list[int]]:
    """A producer of duly, until the end of the block. The list has the numbers of all its jobs."""
    sent: list[int] = []
    ends = threading.Event()

    def run() -> None:
        queue = duly.Client(url).queue("orders")
        while not ends.is_set():
            some = range(len(sent), len(sent) + chance.choice((1, 20, 200, 700)))
            queue.push_many([duly.NewJob(number, name="close", delay=chance.choice((0, 0, 0.05))) for number in some])
            sent.extend(some)
            ends.wait(chance.uniform(0, 0.05))

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield sent
    finally:
        ends.set()
        thread.join(60)


@contextmanager
def consuming(other: Server) -> Iterator[Counter[int]]:
    """An old consumer of `Queue.php`, until the end of the block."""
    done: Counter[int] = Counter()
    ends = threading.Event()

    def run() -> None:
        old = redis.Redis(unix_socket_path=str(other.socket))
        while not ends.is_set():
            for due in cast("list[bytes]", old.zrangebyscore(DELAYED, "-inf", time.time() + 2, 0, 500)):
                old.zrem(DELAYED, due)
                done[json.loads(due)["data"]] += 1
            while (text := cast("bytes | None", old.rpop(READY))) is not None:
                done[json.loads(text)["data"]] += 1
            ends.wait(0.01)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield done
    finally:
        ends.set()
        thread.join(60)


@pytest.mark.timeout(120 + KILLS * 5)
def test_a_bridge_back_that_is_killed_at_random_loses_and_doubles_nothing(
    own_server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    say(capsys, f"DULY_KILL_SEED={SEED} DULY_BRIDGE_KILLS={KILLS} back")
    chance = random.Random(SEED)
    other = Server()
    try:
        new = redis.Redis(unix_socket_path=str(own_server.socket))
        command = [sys.executable, "-m", "duly", "bridge"]
        options = [*SOURCES["thinkphp"], "--source", other.url, "--url", own_server.url]
        departed, held = "duly:{orders}:departed", 0
        with consuming(other) as done:
            with pushing(own_server.url, random.Random(SEED)) as sent:
                for kill in range(KILLS):
                    forget_locks(new)
                    before = new.hget(departed, "token")
                    bridge = subprocess.Popen([*command, "follow", "--back", *options], stderr=subprocess.PIPE)
                    until(partial(begun, new, departed, before, bridge), "it takes no job")
                    time.sleep(chance.uniform(0.0, 0.4))
                    bridge.kill()
                    said = bridge.communicate()[1].decode()
                    assert bridge.returncode == -9, said
                    held += bool(new.exists("duly:{orders}:departing"))
                    if kill % 3 == 2:
                        forget_locks(new)
                        given = subprocess.run(
                            [*command, "give-back", *options], capture_output=True, text=True, check=False
                        )
                        assert given.returncode == 0, given.stdout + given.stderr
                        assert not new.exists("duly:{orders}:departing")
            forget_locks(new)
            ended = subprocess.run([*command, "drain", "--back", *options], capture_output=True, text=True, check=False)
            assert ended.returncode == 0, ended.stdout + ended.stderr
            until(lambda: done.total() >= len(sent), f"of {len(sent)} jobs only some went: {done.total()}")
        assert done == Counter(sent)
        say(capsys, f"{len(sent)} jobs, {KILLS} kills, {held} of them with a batch on its way")
    finally:
        other.close()
