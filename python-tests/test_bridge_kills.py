"""Bridges that are killed at random while old producers send and workers of duly run: each job comes over once.

`DULY_BRIDGE_KILLS` makes it longer, `DULY_KILL_SEED` takes other random numbers than the usual ones, or repeats a run.
"""

from __future__ import annotations

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


SENDS: dict[str, Send] = {"thinkphp": send_packages, "workerman": send_shared}


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
                for job in queue.reserve_many(500):
                    done[job.data] += 1
                    job.ack()
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
        states = f"{SHARED}delayed:duly:state" if source == "workerman" else f"{{{READY}}}:duly:state"
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
            ended = subprocess.run([*command, "drain", *options], capture_output=True, text=True, check=False)
            assert ended.returncode == 0, ended.stdout + ended.stderr
            until(lambda: sum(done.values()) >= len(sent), f"of {len(sent)} jobs only some came: {sum(done.values())}")
            until(
                lambda: not any(duly.Client(own_server.url).queue(queue).counts().ready for queue in QUEUES),
                "some wait",
            )
        assert done == Counter(sent)
        say(capsys, f"{len(sent)} jobs, {KILLS} kills, {held} of them with a batch in flight")
    finally:
        other.close()
