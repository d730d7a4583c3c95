"""`duly doctor`: each check is provoked on a real server, and a healthy one gives nothing."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duly
import pytest
from support import Server, free_port, running, until

HEALTHY = ["--appendonly", "yes", "--appendfsync", "everysec", "--maxmemory", "1gb"]


@dataclass(frozen=True)
class Said:
    status: int
    findings: list[dict[str, Any]]

    def level(self, check: str, about: str | None = None) -> str | None:
        found = [one for one in self.findings if one["check"] == check and about in (None, one["about"])]
        return max((one["level"] for one in found), key=["ok", "note", "warning", "problem"].index, default=None)

    def text(self, check: str) -> str:
        return "\n".join(f"{one['what']}\n{one['do']}" for one in self.findings if one["check"] == check)

    @property
    def bad(self) -> set[str]:
        """The checks that came to a warning or a problem; each of these says what to do.

        Without that of latency: a machine on which other tests run is slow.
        """
        bad = [one for one in self.findings if one["level"] in ("warning", "problem")]
        assert all(one["do"] for one in bad)
        assert self.status == int(bool(bad))
        return {one["check"] for one in bad} - {"latency"}


def doctor(url: str, *arguments: str, **environment: str) -> Said:
    command = [sys.executable, "-m", "duly", "doctor", "--json", "--url", url, *arguments]
    ended = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=100, env={**os.environ, **environment}
    )
    assert ended.stderr == ""
    said = json.loads(ended.stdout)
    assert said["worst"] == max(
        (one["level"] for one in said["findings"]), key=["ok", "note", "warning", "problem"].index
    )
    return Said(ended.returncode, said["findings"])


Start = Callable[..., Server]


@pytest.fixture
def start() -> Iterator[Start]:
    """Start a server that nothing is wrong with but what the arguments, which come last, say."""
    started: list[Server] = []

    def run(*arguments: str) -> Server:
        started.append(Server(*HEALTHY, *arguments))
        return started[-1]

    yield run
    for server in started:
        server.close()


def test_a_healthy_server_gives_nothing(start: Start) -> None:
    server = start("--port", str(free_port()))
    orders = duly.Client(server.url).queue("orders")
    orders.push_many([duly.NewJob(number) for number in range(100)])
    worker = duly.Worker(duly.Client(server.url), ["mail"])
    worker.on("send")(lambda _job: None)
    with running(worker):
        until(lambda: duly.Client(server.url).queue("mail").workers(), "no worker")
        # Other tests may keep this machine from answering.
        until(lambda: doctor(server.url).level("latency") == "ok", "it is slow")
        said = doctor(server.url)
    assert said.bad == set()
    notes = {one["check"] for one in said.findings if one["level"] == "note"}
    assert notes == ({"version"} if is_affected(server) else set())
    checks = {
        *("connection", "version", "eviction", "persistence", "append-only file", "snapshots", "replicas"),
        *("min-replicas", "latency", "clock", "memory", "clients", "permissions", "queues", "queue memory"),
    }
    assert {one["check"] for one in said.findings} == checks


def test_people_see_what_to_do(start: Start) -> None:
    server = start("--appendonly", "no")
    command = [sys.executable, "-m", "duly", "doctor", "--url", server.url]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (1, "")
    lines = ended.stdout.splitlines()
    at = next(number for number, line in enumerate(lines) if line.startswith("problem  persistence"))
    assert "a restart loses all jobs" in lines[at]
    assert lines[at + 1].strip() == "-> CONFIG SET appendonly yes, and write it into the server's configuration"
    assert lines[-1] == "1 problem, 0 warnings, 0 notes; `duly audit QUEUE` checks the jobs of a queue"


def test_a_server_that_is_away() -> None:
    said = doctor("redis://127.0.0.1:1")
    assert (said.level("connection"), len(said.findings)) == ("problem", 1)
    assert "refused" in said.text("connection")


def test_a_server_that_evicts(start: Start) -> None:
    said = doctor(start("--maxmemory-policy", "allkeys-lru").url)
    assert (said.level("eviction"), said.bad) == ("problem", {"eviction"})
    assert "maxmemory-policy noeviction" in said.text("eviction")
    said = doctor(start("--maxmemory", "0", "--maxmemory-policy", "allkeys-lru").url)
    assert (said.level("eviction"), said.bad) == ("note", set())


def test_persistence(start: Start) -> None:
    for arguments, level in (
        (["--appendonly", "no", "--save", ""], "problem"),
        (["--appendonly", "no", "--save", "60", "1"], "warning"),
        (["--appendfsync", "no"], "warning"),
        (["--appendfsync", "always"], "ok"),
    ):
        said = doctor(start(*arguments).url)
        assert (said.level("persistence"), said.bad) == (level, set() if level == "ok" else {"persistence"})


def test_a_file_that_was_loaded_and_not_rewritten(start: Start) -> None:
    server = start()
    duly.Client(server.url).queue("orders").push(1)
    affected = is_affected(server)
    level = "note" if affected else "ok"
    assert doctor(server.url).level("version") == level
    server.kill()
    server.start()
    until(lambda: "loading:0" in server.cli("INFO", "persistence"), "it loads its file")
    said = doctor(server.url)
    assert (said.level("version"), said.bad) == (("warning", {"version"}) if affected else (level, set()))
    assert ("if it had crashed, run BGREWRITEAOF, and then `duly audit QUEUE`" in said.text("version")) == affected
    # A rewrite that goes on, and one that was killed, have not rewritten it.
    info = server.cli("INFO", "server")
    (pid,) = (line.partition(":")[2] for line in info.splitlines() if line.startswith("process_id:"))
    server.cli("CONFIG", "SET", "rdb-key-save-delay", "60000000")
    server.cli("BGREWRITEAOF")
    assert doctor(server.url).level("version") == ("warning" if affected else level)
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        os.kill(int(child), signal.SIGKILL)
    until(lambda: "aof_last_bgrewrite_status:err" in server.cli("INFO", "persistence"), "its child is killed")
    assert doctor(server.url).level("version") == ("warning" if affected else level)
    server.cli("CONFIG", "SET", "rdb-key-save-delay", "0")
    server.cli("BGREWRITEAOF")
    until(lambda: "aof_rewrite_in_progress:0" in server.cli("INFO", "persistence"), "it rewrites its file")
    said = doctor(server.url)
    assert (said.level("version"), said.bad) == (level, set())


def is_affected(server: Server) -> bool:
    """Tell whether the server keeps half of a script at the end of its file."""
    info = dict(line.split(":", 1) for line in server.cli("INFO", "server").splitlines() if ":" in line)
    valkey = info.get("valkey_version")
    return valkey.startswith("8.0.") if valkey else info["redis_version"].startswith("7.0.")


def test_a_snapshot_that_cannot_be_written(start: Start) -> None:
    server = start("--appendonly", "no", "--save", "3600", "1")
    # A file cannot take the place of a folder.
    (server.folder / "dump.rdb").mkdir()
    duly.Client(server.url).queue("orders").push(1)
    server.cli("BGSAVE")
    until(lambda: "rdb_last_bgsave_status:err" in server.cli("INFO", "persistence"), "it was written")
    said = doctor(server.url)
    assert (said.level("snapshots"), said.bad) == ("problem", {"snapshots", "persistence"})


def test_an_append_only_file_that_cannot_be_rewritten(start: Start) -> None:
    server = start()
    duly.Client(server.url).queue("orders").push(1)
    # A file cannot be a folder.
    (server.folder / "appendonlydir").rename(server.folder / "moved")
    (server.folder / "appendonlydir").touch()
    with pytest.raises(AssertionError, match="Can't execute an AOF background rewriting"):
        server.cli("BGREWRITEAOF")
    said = doctor(server.url)
    assert (said.level("append-only file"), said.bad) == ("warning", {"append-only file"})


def test_an_append_only_file_on_a_full_disk(start: Start, tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(disk)]
    mounted = subprocess.run(mount, capture_output=True, text=True, check=False)
    if mounted.returncode != 0:
        pytest.skip(f"a small disk cannot be mounted here, which takes root: {mounted.stderr.strip()}")
    try:
        server = start("--dir", str(disk))
        orders = duly.Client(server.url).queue("orders")
        orders.push_many([duly.NewJob("x" * 100_000) for _ in range(20)])
        until(lambda: "aof_last_write_status:err" in server.cli("INFO", "persistence"), "there was room")
        said = doctor(server.url)
        server.kill()
    finally:
        subprocess.run(["umount", "--lazy", str(disk)], check=True)
    assert said.level("append-only file") == "problem"
    assert "the server refuses all writes" in said.text("append-only file")


def test_a_replica_is_not_where_jobs_go_and_one_that_lags_is_seen(start: Start) -> None:
    port = free_port()
    primary = start("--port", str(port))
    replica = start("--replicaof", "127.0.0.1", str(port))
    until(lambda: "state=online" in primary.cli("INFO", "replication"), "it does not follow")
    said = doctor(replica.url)
    assert (said.bad, len(said.findings)) == ({"connection"}, 1)
    assert "redis+sentinel://" in said.text("connection")
    until(lambda: doctor(primary.url).level("replicas") == "ok", "it does not follow")
    replica.freeze()
    until(lambda: doctor(primary.url).level("replicas") == "warning", "it follows")
    replica.thaw()
    start("--replicaof", "127.0.0.1", str(port))
    until(lambda: primary.cli("INFO", "replication").count("state=online") == 2, "it does not follow")
    said = doctor(primary.url)
    assert (said.level("min-replicas"), "CONFIG SET min-replicas-to-write 1" in said.text("min-replicas")) == (
        "note",
        True,
    )


def test_a_server_that_wants_more_replicas_than_there_are(start: Start) -> None:
    server = start("--min-replicas-to-write", "1")
    said = doctor(server.url)
    assert (said.level("min-replicas"), said.bad) == ("problem", {"min-replicas"})
    assert said.level("permissions") == "note"


def as_user(server: Server, *rules: str) -> str:
    server.cli("ACL", "SETUSER", "shop", "reset", "on", ">secret", *rules)
    return server.url.replace("unix://", "unix://shop:secret@")


def test_permissions(start: Start) -> None:
    server = start()
    duly.Client(server.url).queue("orders").push(1)
    for rules, check in (
        (["~*", "+@all", "-zadd"], "connection"),
        (["~*", "+@all", "-unlink"], "permissions"),
        (["~*", "+@all", "-zrangebylex"], "permissions"),
        (["~other:*", "+@all"], "permissions"),
    ):
        said = doctor(as_user(server, *rules))
        assert said.level(check) == "problem", rules
        assert "keys-and-scripts.md" in said.text(check)
        assert check in said.bad
    said = doctor(as_user(server, *server_rules()))
    assert said.level("permissions") == "ok"
    wrong = doctor(server.url.replace("unix://", "unix://shop:wrong@"))
    assert (wrong.bad, "DULY_URL" in wrong.text("connection")) == ({"connection"}, True)


def server_rules() -> list[str]:
    """Those of the documents."""
    page = (Path(__file__).resolve().parent.parent / "docs" / "keys-and-scripts.md").read_text("utf-8")
    line = next(line for line in page.splitlines() if "ACL SETUSER shop on" in line)
    return [rule for rule in line.split("shop on ")[1].split() if not rule.startswith(">")]


def test_what_the_user_may_not_ask_is_no_error(start: Start) -> None:
    server = start()
    duly.Client(server.url).queue("orders").push(1)
    said = doctor(as_user(server, "~*", "+@all", "-config", "-info", "-memory"))
    assert said.bad == set()
    assert [said.level(check) for check in ("info", "settings", "queue memory")] == ["note", "note", "note"]
    assert said.level("persistence") is None
    said = doctor(as_user(server, "~*", "+@all", "-config"))
    assert (said.level("settings"), said.level("persistence"), said.bad) == ("note", "ok", set())


def test_a_slow_server(start: Start) -> None:
    server = start()
    stop = threading.Event()

    def slow_down() -> None:
        while not stop.is_set():
            server.cli("CLIENT", "PAUSE", "30", "ALL")

    slowing = threading.Thread(target=slow_down)
    slowing.start()
    try:
        # On a machine that other tests keep busy, it may pause too rarely to slow down half of the round trips.
        until(lambda: "SLOWLOG" in doctor(server.url).text("latency"), "it is fast")
    finally:
        stop.set()
        slowing.join()


CLOCK = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <time.h>
int clock_gettime(clockid_t clock, struct timespec *now) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int result = real(clock, now);
    if (clock == CLOCK_REALTIME) now->tv_sec -= 100;
    return result;
}
"""


def test_clocks_that_differ(start: Start, tmp_path: Path) -> None:
    (tmp_path / "clock.c").write_text(CLOCK, "utf-8")
    compile_it = ["gcc", "-shared", "-fPIC", "-o", str(tmp_path / "clock.so"), str(tmp_path / "clock.c"), "-ldl"]
    subprocess.run(compile_it, check=True)
    said = doctor(start().url, LD_PRELOAD=str(tmp_path / "clock.so"))
    assert (said.level("clock"), said.bad) == ("warning", {"clock"})
    assert "s ahead of this host's" in said.text("clock")
    assert "chrony" in said.text("clock")


def test_memory_that_is_nearly_full(start: Start) -> None:
    server = start()
    orders = duly.Client(server.url).queue("orders")
    orders.push_many([duly.NewJob("x" * 1000) for _ in range(20_000)])
    used = int(server.cli("INFO", "memory").split("used_memory:")[1].split()[0])
    for percent, level in ((90, "warning"), (98, "problem")):
        server.cli("CONFIG", "SET", "maxmemory", str(used * 100 // percent))
        said = doctor(server.url)
        assert (said.level("memory"), said.bad) == (level, {"memory"})
    text = said.text("queue memory")
    assert "20000 jobs take about 2" in text
    assert "MiB" in text


def test_connections_that_are_nearly_used_up(start: Start) -> None:
    server = start("--maxclients", "20")
    held = [socket.socket(socket.AF_UNIX) for _ in range(16)]
    for one in held:
        one.connect(str(server.socket))
    until(lambda: "connected_clients:17" in server.cli("INFO", "clients"), "they are not connected")
    said = doctor(server.url)
    assert (said.level("clients"), said.bad) == ("warning", {"clients"})
    for one in held:
        one.close()


def test_a_cluster_with_slots_that_nobody_has(start: Start) -> None:
    port = free_port()
    server = start("--port", str(port), "--cluster-enabled", "yes")
    url = f"redis+cluster://127.0.0.1:{port}"
    server.cli("CLUSTER", "ADDSLOTSRANGE", "0", "16382")
    until(lambda: "cluster_slots_assigned:16383" in server.cli("CLUSTER", "INFO"), "it has no slots")
    said = doctor(url)
    assert said.level("cluster") == "problem"
    assert "1 of 16384 slots have no node" in said.text("cluster")
    server.cli("CLUSTER", "ADDSLOTS", "16383")
    until(lambda: "cluster_state:ok" in server.cli("CLUSTER", "INFO"), "it is not whole")
    duly.Client(url).partitions("orders", 4).push(1, key="k")
    said = doctor(url)
    assert (said.level("cluster"), said.bad) == ("ok", set())
    assert said.level("queue memory", "orders") == "ok"


def test_jobs_that_nobody_runs(start: Start) -> None:
    server = start()
    client = duly.Client(server.url)
    client.queue("orders").push(1, delay=0.001)
    client.queue("mail").push(1)
    until(lambda: client.queue("orders").counts().overdue, "it is not due")
    said = doctor(server.url, "--late", "0.001")
    assert (said.level("no worker", "orders"), said.level("no worker", "mail")) == ("problem", "problem")
    assert said.bad == {"no worker"}
    assert doctor(server.url, "--late", "1h").bad == set()


def test_jobs_that_are_late_although_workers_are_there(start: Start) -> None:
    server = start()
    client = duly.Client(server.url)
    may_end = threading.Event()
    worker = duly.Worker(client, ["orders", "limited"], concurrency=1)

    @worker.on("wait")
    def wait(_job: duly.Job) -> None:
        may_end.wait(60)

    limited = client.queue("limited")
    limited.set_limits(concurrency=1)
    for queue in (client.queue("orders"), limited):
        queue.push_many([duly.NewJob(number, name="wait") for number in range(3)])
    assert limited.reserve(lease=600) is not None
    with running(worker):
        until(lambda: client.queue("orders").counts().reserved and limited.workers(), "it does not run")
        said = doctor(server.url, "--late", "0.001")
        may_end.set()
        assert (said.level("late", "orders"), said.level("late", "limited")) == ("warning", "note")
        client.queue("orders").purge("ready")
        limited.purge("ready")


def test_failed_and_paused_jobs_and_queues_that_cannot_be_read(start: Start) -> None:
    server = start()
    client = duly.Client(server.url)

    def fail(name: str, count: int) -> None:
        queue = client.queue(name)
        queue.push_many([duly.NewJob(number) for number in range(count)])
        while job := queue.reserve():
            job.fail("no", final=True)

    fail("few", 1)
    fail("many", 1000)
    client.queue("trimmed").keep_failed(1, 3600)
    fail("trimmed", 3)
    client.queue("paused").push(1)
    client.queue("paused").pause()
    client.queue("foreign").push(1)
    until(lambda: len(client.queues().queues) == 5, "they are not listed")
    server.cli("DEL", "duly:{foreign}:meta")
    server.cli("SET", "duly:{foreign}:meta", "foreign")
    server.cli("ZADD", "duly:{queues}:queues", "0", "\x1b[31mno name")
    said = doctor(server.url, "--late", "0.001")
    assert said.level("queue", "\\u{1b}[31mno name") == "problem"
    levels = {name: said.level("failed", name) for name in ("few", "many", "trimmed")}
    assert levels == {"few": "note", "many": "warning", "trimmed": "note"}
    assert (said.level("paused", "paused"), said.level("queue", "foreign")) == ("note", "problem")
    # A pause is meant.
    assert said.level("no worker", "paused") is None
    assert said.bad == {"failed", "queue"}
