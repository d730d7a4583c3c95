"""`duly top` in a real terminal, with a real server."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import duly
import pytest
from support import Server, running, until
from terminal import Terminal

Start = Callable[..., Terminal]
PHP = Path(__file__).parent.parent / "php-binding"
HOSTILE = "a\x1b[2Jb\x1b]0;title\x07"


@pytest.fixture
def start(server: Server, prefix: str) -> Iterator[Start]:
    started: list[Terminal] = []

    def run(*arguments: str, url: str = server.url, columns: int = 160, program: str = "-m duly") -> Terminal:
        command = [sys.executable, *program.split(" ", 1), "top", "--url", url, "--prefix", prefix, *arguments]
        started.append(Terminal(command, columns=columns))
        return started[-1]

    yield run
    for terminal in started:
        terminal.close()


def once(server: Server, prefix: str, *arguments: str) -> tuple[int, str, str]:
    command = [sys.executable, "-m", "duly", "top", "--url", server.url, "--prefix", prefix, *arguments]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    return ended.returncode, ended.stdout, ended.stderr


def test_all_queues_and_workers_are_shown_as_they_change(start: Start, client: duly.Client) -> None:
    orders, mail = client.queue("orders"), client.partitions("mail", 2)
    orders.push(1, delay=600)
    mail.push(1, key="k")
    mail.pause()
    may_end = threading.Event()
    worker = duly.Worker(client, ["orders"], concurrency=3, name="shop")

    @worker.on("wait")
    def wait(_job: duly.Job) -> None:
        may_end.wait(60)

    orders.push(2, name="wait")
    with running(worker):
        top = start("--interval", "200ms")
        until(lambda: re.match(r"orders +0 +1 +1 +0 ", top.line("orders")), top)
        assert top.line("QUEUE").split()[1:5] == ["READY", "RESERVED", "DELAYED", "FAILED"]
        assert top.line("mail").split()[1:5] == ["1", "0", "0", "0"]
        assert "paused" in top.line("mail")
        assert "no worker" in top.line("mail")
        assert top.lines[0].startswith("2 queues: 1 ready, 1 reserved, 1 delayed, 0 failed;")
        until(lambda: any(" shop " in line and " of 3 " in line for line in top.lines), top)
        assert top.line("orders").split()[-1] == "1", "a worker serves it"
        may_end.set()
        until(lambda: re.match(r"orders +0 +0 +1 +0 ", top.line("orders")), top)
    top.press("q")
    assert top.end() == 0
    assert top.is_restored()


def test_rates_are_what_changed_between_two_readings(start: Start, client: duly.Client) -> None:
    orders = client.queue("orders")
    orders.push(1)
    top = start("--interval", "200ms")
    top.wait_for("orders")

    def rates() -> list[str]:
        return top.line("orders").split()[7:10]

    until(lambda: rates() == ["0", "0", "0"], top)
    seen: list[str] = []

    def pushes() -> bool:
        orders.push_many([duly.NewJob(number) for number in range(100)])
        seen.append(rates()[0])
        return seen[-1] not in ("0", "-")

    until(pushes, "nothing is pushed")
    until(lambda: rates() == ["0", "0", "0"], top)


def test_keys_choose_and_sort(start: Start, client: duly.Client) -> None:
    for name, count in (("a", 1), ("b", 3), ("c", 2)):
        client.queue(name).push_many([duly.NewJob(number) for number in range(count)])
    top = start("--interval", "200ms")
    top.wait_for("QUEUE*")

    def order() -> str:
        return "".join(line[0] for line in top.lines if re.match("[abc] ", line))

    until(lambda: order() == "abc", top)
    top.press("s")
    top.wait_for("READY*")
    until(lambda: order() == "bca", top)
    top.press("S")
    until(lambda: order() == "abc", top)
    for keys, name in (("j", "b"), ("\x1b[B", "c"), ("k", "b"), ("\x1b[A", "a"), ("\x1b[F", "c"), ("\x1b[H", "a")):
        top.press(f"{keys}p")
        top.wait_for(f"Pause the queue {name}? y/n")
        top.press("n")
        until(lambda: top.shows("q quit"), top)


def test_a_queue_is_paused_after_a_yes(start: Start, client: duly.Client) -> None:
    orders = client.queue("orders")
    orders.push(1)
    # Nothing but the yes makes it read again.
    top = start("--interval", "1h")
    top.wait_for("orders")
    top.press("p")
    top.wait_for("Pause the queue orders? y/n")
    top.press("n")
    top.wait_for("q quit")
    assert not orders.counts().paused
    top.press("py")
    top.wait_for("the queue orders is paused")
    until(lambda: "paused" in top.line("orders"), top)
    assert orders.counts().paused
    top.press("p")
    top.wait_for("Resume the queue orders? y/n")
    top.press("y")
    top.wait_for("the queue orders hands out jobs again")
    assert not orders.counts().paused


@pytest.mark.parametrize(
    ("end", "status"),
    [("q", 0), ("\x03", 130), (signal.SIGINT, 130), (signal.SIGTERM, 0), (signal.SIGHUP, 0)],
    ids=["q", "Ctrl-C", "SIGINT", "SIGTERM", "SIGHUP"],
)
def test_the_terminal_is_given_back(start: Start, client: duly.Client, end: str | signal.Signals, status: int) -> None:
    client.queue("orders").push(1)
    top = start()
    top.wait_for("orders")
    assert top.is_alternate
    assert not top.is_restored()
    if isinstance(end, str):
        top.press(end)
    else:
        os.kill(top.pid, end)
    assert top.end() == status
    assert top.is_restored()


@pytest.mark.parametrize(("by", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 0), (signal.SIGHUP, 0)])
def test_phps_terminal_is_given_back(
    client: duly.Client, server: Server, prefix: str, by: signal.Signals, status: int
) -> None:
    extension = PHP.parent / "build/duly_console.so"
    php = shutil.which("php")
    if php is None or not extension.exists():
        pytest.skip("php, or build/duly_console.so, is missing")
    client.queue("orders").push(1)
    command = [php, "-n", "-d", f"extension={extension}", str(PHP / "bin/duly"), "top"]
    top = Terminal([*command, "--url", server.url, "--prefix", prefix])
    try:
        top.wait_for("orders")
        os.kill(top.pid, by)
        assert top.end() == status
        assert top.is_restored()
    finally:
        top.close()


def test_a_server_that_goes_away_is_shown_and_comes_back(start: Start, own_server: Server, prefix: str) -> None:
    orders = duly.Client(own_server.url, prefix=prefix).queue("orders")
    orders.push(1)
    top = start("--interval", "100ms", url=own_server.url)
    top.wait_for("orders")
    own_server.kill()
    top.wait_for("the server is away since ")
    assert "(numbers of " in top.lines[1]
    assert top.line("orders")
    own_server.start()
    until(lambda: top.lines[1].startswith("read at "), top)
    own_server.freeze()
    top.wait_for("the server is away since ")
    # Keys go on.
    top.press("p")
    top.wait_for("Pause the queue") if top.line("orders") else top.press("n")
    own_server.thaw()
    top.press("n")
    until(lambda: top.lines[1].startswith("read at "), top)
    top.press("q")
    assert top.end() == 0


def test_names_do_not_act_on_the_terminal(start: Start, client: duly.Client, server: Server, prefix: str) -> None:
    client.queue("orders").push(1)
    until(lambda: client.queues().queues, "it is not listed")
    listed = next(key for key in server.cli("KEYS", f"{prefix}*queues*").split() if key.endswith("queues"))
    server.cli("ZADD", listed, "0", HOSTILE)
    server.cli("ZADD", listed, "0", "x" * 1000)
    top = start("--interval", "200ms")
    top.wait_for("orders")
    top.wait_for(r"a\u{1b}[2Jb")
    top.wait_for("x" * 20)
    assert top.shows("a queue name must"), "it says why such a queue cannot be read"
    assert HOSTILE.encode() not in top.said
    assert b"\x1b]0;" not in top.said
    top.press("q")
    assert top.end() == 0


def test_it_fits_into_every_size(start: Start, client: duly.Client) -> None:
    for number in range(40):
        client.queue(f"q{number:02}").push(1)
    top = start("--interval", "100ms")
    top.wait_for("FAILED/S")
    for columns, rows in ((80, 24), (20, 5), (1, 1), (120, 12)):
        top.resize(columns, rows)
    until(lambda: top.line("q00") and top.line("QUEUE*") and not top.shows("FAILED/S"), top)
    assert not top.line("q39")
    top.press("\x1b[F")
    until(lambda: top.line("q39"), top)
    # A key that comes together with a new size acts at once, and not with the next key.
    for number in range(100):
        top.resize(120, 12 + number % 2)
        key, chosen = ("\x1b[H", "q00") if number % 2 == 0 else ("\x1b[F", "q39")
        top.press(key)
        top.wait_for(chosen)


def test_many_queues_are_read_at_a_bounded_rate(start: Start, own_server: Server, prefix: str) -> None:
    client = duly.Client(own_server.url, prefix=prefix)
    for number in range(300):
        client.queue(f"q{number:03}").push(1)
    top = start("--interval", "100ms", url=own_server.url)
    top.wait_for("300 queues: 300 ready")

    def calls() -> int:
        said = own_server.cli("INFO", "commandstats")
        return sum(map(int, re.findall(r"cmdstat_(?:evalsha|evalsha_ro|fcall|fcall_ro):calls=(\d+)", said)))

    first = top.lines[1]
    before = calls()
    until(lambda: top.lines[1] != first, "it is read once only")
    # The whole of one reading, and the beginning of another: 601 calls take 1.2 s at least.
    assert calls() - before <= 2 * 601


def test_without_a_terminal_it_says_what_to_use(server: Server, prefix: str) -> None:
    status, out, err = once(server, prefix)
    assert (status, out) == (2, "")
    assert "`duly top --once`" in err
    assert "`duly queues --json`" in err
    for wrong in (["--interval", "0"], ["--interval", "soon"], ["no such name"]):
        assert once(server, prefix, *wrong)[0] == 2, wrong
        assert once(server, prefix, "--once", *wrong)[0] == 2, wrong


def test_one_frame_is_a_plain_table(server: Server, prefix: str, client: duly.Client) -> None:
    arguments = ["--once", "--interval", "100ms"]
    assert once(server, prefix, *arguments) == (0, "no queue was used under this prefix\n", "")
    client.queue("orders").push(1, delay=600)
    client.queue("mail").push(1)
    status, out, err = once(server, prefix, *arguments)
    assert (status, err) == (0, "")
    heading, *rows = (line.split() for line in out.splitlines())
    assert heading[:5] == ["QUEUE", "READY", "RESERVED", "DELAYED", "FAILED"]
    assert [row[:5] for row in rows] == [["mail", "1", "0", "0", "0"], ["orders", "0", "0", "1", "0"]]
    assert rows[0][7:] == ["0", "0", "0", "0", "no", "worker"]
    assert [line.split()[0] for line in once(server, prefix, *arguments, "mail")[1].splitlines()] == ["QUEUE", "mail"]
    server.cli("DEL", f"{prefix}{{mail}}:ready:5")
    server.cli("SET", f"{prefix}{{mail}}:ready:5", "foreign")
    status, out, err = once(server, prefix, *arguments)
    assert status == 1
    assert err.startswith("duly: the queue mail: ")
    assert "orders" in out


def test_a_server_that_is_away_from_the_start_is_an_error(start: Start) -> None:
    top = start(url="redis://127.0.0.1:1")
    assert top.end() == 1
    assert b"refused" in top.said
    assert not top.is_alternate
    assert b"\x1b[?1049h" not in top.said


def test_it_runs_in_a_program_of_python(start: Start, client: duly.Client) -> None:
    client.queue("orders").push(1)
    code = "-c import sys,duly;status=duly.command(sys.argv[1:]);print(f'ended with {status}')"
    top = start(program=code)
    top.wait_for("orders")
    top.press("q")
    assert top.end() == 0
    assert b"ended with 0" in top.said
    assert top.is_restored()
