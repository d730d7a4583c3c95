"""A failover by Sentinel under workers of every language: planned, and after the death of the primary."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import duly
import pytest
from fleet import COMMANDS, Worker, what_is_missing
from support import Server, empty, free_port, say, until


class Replicated:
    """A primary, its replica, and the sentinel that watches them."""

    def __init__(self, folder: Path) -> None:
        ports = [free_port() for _ in range(3)]
        # A primary that has lost its replica takes no more writes: what it took would be forgotten with its demotion.
        # The replica must take some when it is alone.
        self.primary = Server("--port", str(ports[0]), "--min-replicas-to-write", "1")
        self.replica = Server("--port", str(ports[1]), "--replicaof", "127.0.0.1", str(ports[0]))
        until(lambda: "state=online" in self.primary.cli("INFO", "replication"), "the replica is not in sync")
        settings = folder / "sentinel.conf"
        settings.write_text(
            f"port {ports[2]}\nsentinel monitor main 127.0.0.1 {ports[0]} 1\n"
            "sentinel down-after-milliseconds main 500\nsentinel failover-timeout main 5000\n"
        )
        self._port = str(ports[2])
        self._asked = 0
        self._sentinel = subprocess.Popen(
            [os.environ.get("DULY_TEST_SERVER", "redis-server"), str(settings), "--sentinel"], stdout=subprocess.DEVNULL
        )
        until(lambda: "num-slaves\n1" in self.ask("SENTINEL", "MASTER", "main"), "the sentinel knows no replica")
        self._of_replica = str(ports[1])

    @property
    def url(self) -> str:
        return f"redis+sentinel://127.0.0.1:{self._port}/main"

    def ask(self, *command: str) -> str:
        self._asked += 1
        done = subprocess.run(["redis-cli", "-p", self._port, *command], capture_output=True, text=True, check=False)
        return done.stdout.strip()

    def connections_of_others(self) -> int:
        """How many connections to the sentinel others than `ask` have made so far."""
        made = self.ask("INFO", "stats").partition("total_connections_received:")[2].split()[0]
        return int(made) - self._asked

    def is_named(self) -> bool:
        """Whether the sentinel says that the replica is the primary now."""
        return self._of_replica in self.ask("SENTINEL", "get-master-addr-by-name", "main")

    def close(self) -> None:
        self._sentinel.kill()
        self._sentinel.wait()
        self.primary.close()
        self.replica.close()


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[Replicated]:
    servers = Replicated(tmp_path)
    yield servers
    servers.close()


class Notes:
    """What the handlers have noted, on a server that has no part in the failover."""

    def __init__(self, server: Server) -> None:
        self._queue = duly.Client(server.url).queue("notes")
        self.starts: list[str] = []
        self.ends: set[str] = set()
        self.pids: dict[str, set[int]] = {}  # of a job, where it was started

    def read(self) -> None:
        while jobs := self._queue.reserve_many(500):
            for job in jobs:
                what, noted, _, pid, _ = str(job.data).split()
                if what == "start":
                    self.starts.append(noted)
                    self.pids.setdefault(noted, set()).add(int(pid))
                else:
                    self.ends.add(noted)
            self._queue.ack_many(jobs)


def push(queue: duly.Queue, seconds: float, durability: str | None = None) -> str:
    return queue.push({"do": "work", "seconds": seconds}, name="work", durability=durability)


class Producer:
    """Pushes on and on, and knows which jobs are on two servers: those survive the end of one."""

    def __init__(self, url: str) -> None:
        self.confirmed: set[str] = set()
        self._queue = duly.Client(url).queue("orders")
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._over.wait(0.01):
            # Where no replica confirms a job, or no answer comes, it may be in or not.
            with suppress(duly.NotDurableError, duly.DulyTimeoutError):
                self.confirmed.add(push(self._queue, 0.01, "wait:1"))

    def end(self) -> None:
        self._over.set()
        self._thread.join()


def test_a_producer_that_says_nothing_meanwhile_follows_a_planned_failover(servers: Replicated) -> None:
    queue = duly.Client(servers.url).queue("orders")
    before = servers.connections_of_others()
    push(queue, 0)
    # A slow machine may need more.
    until(lambda: servers.connections_of_others() >= before + 3, "it does not ask, listen, and ask again")
    before = servers.connections_of_others()
    until(lambda: servers.ask("SENTINEL", "FAILOVER", "main") == "OK", "the failover does not begin")
    until(lambda: servers.connections_of_others() > before, "it does not ask what the news means")
    pushed = push(queue, 0)
    assert "role:master" in servers.primary.cli("INFO", "replication"), "the old primary could not have taken it"
    assert duly.Client(servers.replica.url).queue("orders").find(pushed) is not None, "it went to the old primary"


@pytest.mark.parametrize("how", ["planned", "after a kill"])
def test_workers_of_every_language_follow_a_failover(
    how: str, servers: Replicated, own_server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (missing := what_is_missing()) is None, f"{missing}: run tools/build.sh --dev"
    queue = duly.Client(servers.url).queue("orders")
    notes = Notes(own_server)
    producer = Producer(servers.url)
    workers = [Worker(what, own_server, tmp_path / f"{what}.log", servers.url) for what in COMMANDS]
    pids = {worker.process.pid for worker in workers}

    def have_all_run(ids: set[str]) -> bool:
        notes.read()
        return pids <= set().union(*(notes.pids.get(one, set()) for one in tuple(ids)))

    try:
        until(lambda: have_all_run(producer.confirmed), "not every worker begins")
        for _ in range(16):
            push(queue, 0.2)  # some run, some were fetched ahead, some wait when it happens

        if how == "planned":
            until(lambda: servers.ask("SENTINEL", "FAILOVER", "main") == "OK", "the failover does not begin")
        else:
            servers.primary.kill()
        began = time.monotonic()
        until(servers.is_named, "the failover does not end")
        named = time.monotonic()
        after: set[str] = set()

        def goes_on() -> bool:
            after.add(push(queue, 0.01))
            return have_all_run(after)

        until(goes_on, "not every worker goes on")
        resumed = time.monotonic()
        assert resumed - named < 6, "a worker stayed until the old primary was demoted, after some ten seconds"
        producer.end()
        until(lambda: empty(queue), "jobs are left behind")
        notes.read()
        assert producer.confirmed | after <= notes.ends, "jobs were lost"
        assert queue.counts().failed == 0
        assert queue.audit().clean
        twice = len(notes.starts) - len(set(notes.starts))
        say(
            capsys,
            f"failover, {how}: another primary after {named - began:.2f} s, every worker ran new jobs "
            f"{resumed - named:.2f} s later; {len(producer.confirmed)} confirmed jobs, none lost, "
            f"{twice} of {len(notes.starts)} runs repeated",
        )
        for worker in workers:
            assert worker.end() == 0
            said = worker.log.read_text()
            assert said.count("keeps trying") == said.count("answers again") <= 2, said
    finally:
        producer.end()
        for worker in workers:
            worker.process.kill()
            worker.process.wait()
