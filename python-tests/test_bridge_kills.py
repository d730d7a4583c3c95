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
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple, cast

import duly
import pytest
import redis
from support import Server, say, until

SEED = int(os.environ.get("DULY_KILL_SEED", "24301"))
KILLS = int(os.environ.get("DULY_BRIDGE_KILLS", "5"))
MOST_WAITING = 5000
QUEUES = ("orders", "mail", "bills")
READY, DELAYED = "redis:queue:ready", "redis:queue:delay"
SHARED = "{redis-queue}-"

Send = Callable[[redis.Redis, list[int]], None]


class Source(NamedTuple):
    """An old queue whose jobs come over."""

    options: list[str]
    state: str
    """Whose token says that a bridge has begun."""
    send: Send
    other_options: Sequence[str] = ()
    """Those of a bridge with another target, which must not go on with a batch in flight."""


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


def send_payloads(key: str, old: redis.Redis, numbers: list[int]) -> None:
    """Of think-queue, or Laravel, which has notices: some are ready, some due, some were with a killed worker."""
    ready: list[str] = []
    with old.pipeline(transaction=False) as pipeline:
        for number in numbers:
            payload = json.dumps({"job": "close", "maxTries": 0, "attempts": 1, "id": "same", "data": number})
            if number % 3 == 0:
                ready.append(payload)
            else:
                pipeline.zadd(f"{key}:{'delayed' if number % 3 == 1 else 'reserved'}", {payload: time.time() - 1})
        if ready:
            pipeline.rpush(key, *ready)
            if not key.startswith("{"):
                pipeline.rpush(f"{key}:notify", *["1"] * len(ready))
        pipeline.execute()


def named(*names: str) -> list[str]:
    return [word for name in names for word in ("--queue", name)]


SOURCES = {
    "thinkphp": Source(
        ["--from", "thinkphp", "--to", "orders"],
        f"{{{READY}}}:duly:state",
        send_packages,
        ["--from", "thinkphp", "--to", "mail"],
    ),
    "workerman": Source(["--from", "workerman", *named(*QUEUES)], f"{SHARED}delayed:duly:state", send_shared),
    "think-queue": Source(
        ["--from", "think-queue", *named("orders")],
        "{queues:orders}:duly:state",
        partial(send_payloads, "{queues:orders}"),
    ),
    "laravel": Source(
        ["--from", "laravel", *named("orders")], "{queues:orders}:duly:state", partial(send_payloads, "queues:orders")
    ),
    "celery": Source(["--from", "celery", *named("orders")], "{orders}:duly:state", send_messages),
    "gmq": Source(
        ["--from", "gmq", *named("orders"), "--buckets", "1"], "{gmq:readyqueue:orders}:duly:state", send_hashes
    ),
}


def number_of(data: Any) -> int:
    """The number of a job: a task of Celery has it as its argument, a payload as its data."""
    if isinstance(data, dict):
        return cast("int", data["args"][0] if "args" in data else data["data"])
    return cast("int", data)


@contextmanager
def again_and_again(step: Callable[[], float]) -> Iterator[None]:
    """Another program, until the end of the block. A step says how long it rests then."""
    ends = threading.Event()

    def run() -> None:
        while not ends.wait(step()):
            pass

    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(run)
        try:
            yield
        finally:
            ends.set()
            running.result(60)


@contextmanager
def producing(
    send: Callable[[list[int]], None], chance: random.Random, done: Callable[[int], int]
) -> Iterator[list[int]]:
    """A producer, until the end of the block. The list has the numbers of all its jobs.

    `done`: how many of so many have gone through. It waits while many have not: a bridge reads them first.
    """
    sent: list[int] = []

    def step() -> float:
        if len(sent) - done(len(sent)) > MOST_WAITING:
            return 0.02
        some = list(range(len(sent), len(sent) + chance.choice((1, 20, 200, 700))))
        send(some)
        sent.extend(some)
        return chance.uniform(0, 0.05)

    with again_and_again(step):
        yield sent


@contextmanager
def working(url: str) -> Iterator[Counter[int]]:
    """A program that takes what has come, until the end of the block."""
    done: Counter[int] = Counter()
    client = duly.Client(url)
    queues = [client.queue(queue) for queue in QUEUES]

    def step() -> float:
        for queue in queues:
            jobs = queue.reserve_many(500)
            done.update(number_of(job.data) for job in jobs)
            queue.ack_many(jobs)
        return 0.01

    with again_and_again(step):
        yield done


def forget_locks(new: redis.Redis) -> None:
    """A bridge that was killed has them for a while, and nobody waits here."""
    if locks := new.keys("duly:{bridge:*}:lock"):
        new.delete(*locks)


class Bridge:
    """The command with its options, and what becomes of it when it is killed."""

    def __init__(
        self, new: redis.Redis, options: list[str], tokens: Callable[[], object], chance: random.Random
    ) -> None:
        self.new, self.options, self.tokens, self.chance = new, options, tokens, chance

    def run(self, *words: str, options: list[str] | None = None) -> subprocess.CompletedProcess[str]:
        forget_locks(self.new)
        command = [sys.executable, "-m", "duly", "bridge", *words, *(self.options if options is None else options)]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    def kill(self, *words: str) -> None:
        """Runs it until it has asked for a batch, and a bit longer."""
        forget_locks(self.new)
        before = self.tokens()
        command = [sys.executable, "-m", "duly", "bridge", *words, *self.options]
        bridge = subprocess.Popen(command, stderr=subprocess.PIPE)
        until(lambda: self.tokens() != before or bridge.poll() is not None, "it takes no job")
        time.sleep(self.chance.uniform(0.0, 0.4))
        bridge.kill()
        said = bridge.communicate()[1].decode()
        assert bridge.returncode == -9, said


def assert_refused(ended: subprocess.CompletedProcess[str]) -> None:
    assert ended.returncode == 2, ended.stdout + ended.stderr
    assert "in flight from a bridge with other options" in ended.stderr, ended.stderr


@pytest.mark.parametrize("source", list(SOURCES))
@pytest.mark.timeout(120 + KILLS * 8)
def test_a_bridge_that_is_killed_at_random_loses_and_doubles_nothing(
    source: str, own_server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    say(capsys, f"DULY_KILL_SEED={SEED} DULY_BRIDGE_KILLS={KILLS} {source}")
    options, state, send, other_options = SOURCES[source]
    other = Server()
    try:
        old = redis.Redis(unix_socket_path=str(other.socket))
        new = redis.Redis(unix_socket_path=str(own_server.socket))
        servers = ["--source", other.url, "--url", own_server.url]
        bridge = Bridge(new, [*options, *servers], lambda: old.hget(state, "token"), random.Random(SEED))
        held = refused = 0
        with working(own_server.url) as done:

            def gone(sent: int) -> int:
                return done.total() + (sent // 5 if source == "celery" else 0)

            with producing(partial(send, old), random.Random(SEED), gone) as sent:
                for _ in range(KILLS):
                    bridge.kill("follow")
                    is_held = bool(old.keys("*:duly:in_flight"))
                    held += is_held
                    # It must move nothing, also of other keys: what it had in flight would stop the first one.
                    if is_held and other_options:
                        assert_refused(bridge.run("drain", options=[*other_options, *servers]))
                        refused += 1
            stay = [number for number in sent if source == "celery" and is_chained(number)]
            staying = set(stay)
            coming = Counter(number for number in sent if number not in staying)
            ended = bridge.run("drain")
            assert ended.returncode == int(bool(stay)), ended.stdout + ended.stderr
            until(lambda: done.total() >= coming.total(), f"of {coming.total()} jobs only some came: {done.total()}")
            queues = [duly.Client(own_server.url).queue(queue) for queue in QUEUES]
            until(lambda: not any(queue.counts().ready for queue in queues), "some wait")
        assert done == coming
        if source == "celery":
            left = [json.loads(text)["headers"]["id"] for text in cast("list[bytes]", old.lrange("orders", 0, -1))]
            assert Counter(left) == Counter(f"t-{number}" for number in stay)
        if source == "laravel":
            assert not old.exists("queues:orders:notify")
        tries = f", {refused} tries with another target" if other_options else ""
        say(capsys, f"{source}: {len(sent)} jobs, {KILLS} kills, {held} of them with a batch in flight{tries}")
    finally:
        other.close()


class Target(NamedTuple):
    """An old queue that jobs go back to."""

    options: list[str]
    queues: tuple[str, ...]
    ready: list[str]
    takes_last: bool
    """A consumer takes the last entry of a list, and not the first."""
    delayed: list[str]
    other_options: list[str]
    """Those of a bridge with other keys, which must not go on with a batch on its way, nor give it back."""


TARGETS = {
    "thinkphp": Target(
        ["--from", "thinkphp", "--to", "orders"],
        ("orders",),
        [READY],
        takes_last=True,
        delayed=[DELAYED],
        other_options=["--from", "thinkphp", "--to", "orders", "--ready", "other"],
    ),
    "workerman": Target(
        ["--from", "workerman", *named(*QUEUES)],
        QUEUES,
        [f"{SHARED}waiting{queue}" for queue in QUEUES],
        takes_last=True,
        delayed=[f"{SHARED}delayed"],
        other_options=["--from", "workerman", "--key-prefix", "other"],
    ),
    "think-queue": Target(
        ["--from", "think-queue", *named("orders")],
        ("orders",),
        ["{queues:orders}"],
        takes_last=False,
        delayed=["{queues:orders}:delayed"],
        other_options=["--from", "thinkphp", "--to", "orders"],
    ),
}


def push(all_queues: list[duly.Queue], chance: random.Random, numbers: list[int]) -> None:
    for at, queue in enumerate(all_queues):
        jobs = [
            duly.NewJob(number, name="close", delay=chance.choice((0, 0, 0.05)))
            for number in numbers
            if number % len(all_queues) == at
        ]
        if jobs:
            queue.push_many(jobs)


@contextmanager
def consuming(other: Server, target: Target) -> Iterator[Counter[int]]:
    """An old consumer, until the end of the block."""
    done: Counter[int] = Counter()
    old = redis.Redis(unix_socket_path=str(other.socket))
    take = old.rpop if target.takes_last else old.lpop

    def step() -> float:
        for key in target.delayed:
            for due in cast("list[bytes]", old.zrangebyscore(key, "-inf", time.time() + 2, 0, 500)):
                old.zrem(key, due)
                done[json.loads(due)["data"]] += 1
        for key in target.ready:
            while (text := cast("bytes | None", take(key))) is not None:
                done[json.loads(text)["data"]] += 1
        return 0.01

    with again_and_again(step):
        yield done


@pytest.mark.parametrize("target", list(TARGETS))
@pytest.mark.timeout(120 + KILLS * 8)
def test_a_bridge_back_that_is_killed_at_random_loses_and_doubles_nothing(
    target: str, own_server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    say(capsys, f"DULY_KILL_SEED={SEED} DULY_BRIDGE_KILLS={KILLS} back to {target}")
    chance = random.Random(SEED)
    to = TARGETS[target]
    other = Server()
    try:
        new = redis.Redis(unix_socket_path=str(own_server.socket))
        servers = ["--source", other.url, "--url", own_server.url]

        def tokens() -> list[object]:
            return [new.hget(f"duly:{{{queue}}}:departed", "token") for queue in to.queues]

        def on_their_way() -> list[str]:
            return [queue for queue in to.queues if new.exists(f"duly:{{{queue}}}:departing")]

        bridge = Bridge(new, [*to.options, *servers], tokens, random.Random(SEED))
        client = duly.Client(own_server.url)
        send = partial(push, [client.queue(queue) for queue in to.queues], chance)
        held = refused = 0
        with consuming(other, to) as done:
            with producing(send, random.Random(SEED), lambda _: done.total()) as sent:
                for kill in range(KILLS):
                    bridge.kill("follow", "--back")
                    held += bool(on_their_way())
                    # Only of queues that have a batch on its way: what the others have would go there.
                    if queues := on_their_way():
                        other_queues = named(*queues) if target == "workerman" else []
                        for words in (["drain", "--back"], ["give-back"]):
                            assert_refused(bridge.run(*words, options=[*to.other_options, *other_queues, *servers]))
                        refused += 1
                    if kill % 3 == 2:
                        given = bridge.run("give-back")
                        assert given.returncode == 0, given.stdout + given.stderr
                        assert not on_their_way()
            ended = bridge.run("drain", "--back")
            assert ended.returncode == 0, ended.stdout + ended.stderr
            until(lambda: done.total() >= len(sent), f"of {len(sent)} jobs only some went: {done.total()}")
        assert done == Counter(sent)
        tries = f"{refused} tries with another target"
        say(
            capsys,
            f"back to {target}: {len(sent)} jobs, {KILLS} kills, {held} of them with a batch on its way, {tries}",
        )
    finally:
        other.close()
