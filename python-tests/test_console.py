"""What `duly bridge` and `duly counts` say: real processes, real signals."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator

import duly
import pytest
from support import Server, until

Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start(server: Server, prefix: str) -> Iterator[Start]:
    started: list[subprocess.Popen[str]] = []

    def run(*arguments: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "duly", *arguments, "--url", server.url, "--prefix", prefix]
        started.append(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
        return started[-1]

    yield run
    for process in started:
        process.kill()
        process.communicate()


@pytest.fixture
def orders(client: duly.Client) -> duly.Queue:
    return client.queue("orders")


def test_counts_shows_queues(start: Start, orders: duly.Queue) -> None:
    orders.push({"text": "one"}, name="note", delay=60)
    said, _ = start("counts", "orders").communicate(timeout=20)
    assert said == "orders: delayed 1  ready 0  reserved 0  failed 0\n"


def test_the_command_is_a_function(
    server: Server, prefix: str, orders: duly.Queue, capfd: pytest.CaptureFixture[str]
) -> None:
    orders.push(1)
    assert duly.command(["counts", "orders", "--url", server.url, "--prefix", prefix]) == 0
    assert capfd.readouterr().out == "orders: delayed 0  ready 1  reserved 0  failed 0\n"
    assert duly.command(("bridge", "drain")) == 2
    assert "--from" in capfd.readouterr().err


def test_bridge_takes_over_the_jobs_of_another_queue(
    start: Start, orders: duly.Queue, server: Server, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def bridge(mode: str, *more: str) -> tuple[int, str, str]:
        command = start("bridge", mode, "--from", "list", "--ready", f"{prefix}old", "--to", "orders", *more)
        out, err = command.communicate(timeout=60)
        return command.returncode, out, err

    server.cli("rpush", f"{prefix}old", '{"order":1}', "two")
    status, out, _ = bridge("dry-run")
    assert (status, out.splitlines()[-1]) == (0, "nothing was moved")
    status, out, _ = bridge("drain", "--name", "close")
    assert (status, out.splitlines()[-1]) == (0, "counts before and after agree: nothing is left")
    assert [(job.name, job.data) for job in orders.peek("ready")] == [("close", {"order": 1}), ("close", "two")]

    follow = start("bridge", "follow", "--from", "list", "--ready", f"{prefix}old", "--to", "orders")
    server.cli("rpush", f"{prefix}old", "3")
    until(lambda: orders.counts().ready == 3, "it does not come over")
    follow.send_signal(signal.SIGINT)
    out, err = follow.communicate(timeout=30)
    assert (follow.returncode, err) == (0, "")
    assert "1" in out

    status, _, err = bridge("drain", "--source", "redis://127.0.0.1:1")
    assert status == 1
    assert err.startswith("duly: bridge: ")
    # A password on the command line is seen by every user of the machine.
    monkeypatch.setenv("DULY_SOURCE_URL", "redis://127.0.0.1:1")
    assert bridge("drain")[:2] == (1, "")
    monkeypatch.setenv("DULY_SOURCE_URL", "")
    assert bridge("dry-run")[0] == 0
    status, _, err = bridge("all")
    assert status == 2
    assert "dry-run" in err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (
            ["--from", "list", "--ready", "a", "--queue", "b"],
            "--queue is no option of --from list, but of think-queue,",
        ),
        (["--from", "thinkphp", "--newest-first"], "--newest-first is no option of --from thinkphp, but of list"),
        (["--from", "celery", "--queue", "a", "--name", "b"], "--name is no option of --from celery"),
        (["--from", "gmq"], "say which queues: --queue NAME"),
        (["--from", "sorted-set"], "say which key it is: --delayed KEY"),
        (["--from", "thinkphp", "--durability", "often"], "durability must be 'none', 'fsync', or 'wait:<n>'"),
    ],
)
def test_an_option_that_means_nothing_is_refused(start: Start, arguments: list[str], says: str) -> None:
    command = start("bridge", "drain", *arguments)
    out, err = command.communicate(timeout=20)
    assert (command.returncode, out) == (2, "")
    assert says in err


def test_a_job_counts_as_taken_over_when_it_is_as_durable_as_was_asked(
    start: Start, orders: duly.Queue, server: Server, prefix: str
) -> None:
    server.cli("rpush", f"{prefix}old", "1")
    # The server of the tests has no replica.
    options = ["--from", "list", "--ready", f"{prefix}old", "--to", "orders"]
    command = start("bridge", "drain", *options, "--durability", "wait:1")
    _, err = command.communicate(timeout=60)
    assert command.returncode == 1
    assert "wait:1" in err or "replica" in err
    command = start("bridge", "drain", *options)
    out, _ = command.communicate(timeout=60)
    assert command.returncode == 0, out
    assert orders.counts().ready == 1
