"""What the tests share: a Redis of their own, and Python programs that run beside them."""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
import socket
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import duly
import pytest


class Server:
    """A redis-server on a unix socket in a folder of its own."""

    def __init__(self, *arguments: str) -> None:
        self._arguments = arguments
        self._folder = tempfile.TemporaryDirectory(prefix="duly-")
        self.socket = Path(self._folder.name) / "redis.sock"
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    @property
    def folder(self) -> Path:
        return self.socket.parent

    @property
    def url(self) -> str:
        return f"unix://{self.socket}"

    def start(self) -> None:
        program = os.environ.get("DULY_TEST_SERVER", "redis-server")
        command = [program, "--port", "0", "--unixsocket", str(self.socket), "--save", ""]
        self._process = subprocess.Popen(
            [*command, "--dir", self._folder.name, *self._arguments],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        until(lambda: self._answers(), "redis-server does not answer")

    def _answers(self) -> bool:
        with socket.socket(socket.AF_UNIX) as connection:
            try:
                connection.connect(str(self.socket))
                connection.sendall(b"PING\r\n")
                return connection.recv(7) == b"+PONG\r\n"
            except OSError:
                return False

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def freeze(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def close(self) -> None:
        self.kill()
        self._folder.cleanup()

    def cli(self, *command: str, stdin: bytes | None = None) -> str:
        extra = ["-x"] if stdin is not None else []
        done = subprocess.run(
            ["redis-cli", "-e", "-s", str(self.socket), *extra, *command],
            input=stdin,
            capture_output=True,
            check=False,
        )
        if done.returncode != 0:
            raise AssertionError(f"{command}: {done.stdout!r} {done.stderr!r}")
        return done.stdout.decode().rstrip()


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
    # The nodes of a cluster use another one, 10,000 above it.
    return port if port < 55_000 else free_port()


def until(condition: Callable[[], object], otherwise: object, seconds: float = 60.0) -> None:
    """Wait until the condition holds; it is asked again and again: the longer it takes, the rarer.

    `otherwise`: what the error says, as it is then.
    """
    began = time.monotonic()
    while not condition():
        waited = time.monotonic() - began
        if waited > seconds:
            raise AssertionError(str(otherwise))
        time.sleep(min(max(waited / 8, 0.002), 0.02))


@contextmanager
def running(worker: duly.Worker) -> Iterator[list[duly.WorkerReport]]:
    """Run the worker in a thread; afterwards its report is in the list."""
    reports: list[duly.WorkerReport] = []
    thread = threading.Thread(target=lambda: reports.append(worker.run()))
    thread.start()
    try:
        yield reports
    finally:
        worker.stop()
        thread.join(60)
    assert not thread.is_alive()


def say(capsys: pytest.CaptureFixture[str], text: str) -> None:
    """Print figures of a test that passes, too; of several test processes only where it fails."""
    if "PYTEST_XDIST_WORKER" in os.environ:
        sys.stdout.write(f"{text}\n")
        return
    with capsys.disabled():
        sys.stdout.write(f"\n{text}\n")


def empty(queue: duly.Queue) -> bool:
    counts = queue.counts()
    return counts.ready + counts.reserved + counts.delayed == 0


class Program:
    """A Python program that runs beside the test. It reads `URL` and `PREFIX`, and says what it does line by line."""

    def __init__(self, server: Server, prefix: str, code: str) -> None:
        setting = f"import duly\nURL, PREFIX = {server.url!r}, {prefix!r}\n"
        self.process = subprocess.Popen(
            [sys.executable, "-u", "-W", "error", "-c", setting + textwrap.dedent(code)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONFAULTHANDLER": "1"},
        )

    def line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().rstrip("\n")

    def end(self, seconds: float = 60) -> tuple[int, str, str]:
        try:
            out, err = self.process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            out, err = self.process.communicate()
            raise AssertionError(f"the program did not end; it said {out!r} and {err!r}") from None
        return self.process.returncode, out, err

    def ends_well(self, seconds: float = 60) -> str:
        status, out, err = self.end(seconds)
        assert (status, err) == (0, ""), (status, out, err)
        return out


StartProgram = Callable[[str], Program]
"""Of the fixture `program`: begins a program of its code."""


Start = Callable[..., "subprocess.Popen[str]"]
Command = Callable[..., tuple[int, str, str]]


@contextmanager
def commands(*behind: str, **options: Any) -> Iterator[Start]:
    """Begin commands of the program `duly`, with these arguments at the end; what still runs is killed afterwards."""
    started: list[subprocess.Popen[str]] = []

    def run(*arguments: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "duly", *arguments, *behind]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)
        started.append(process)
        return process

    yield run
    for process in started:
        process.kill()
        process.communicate()


@contextmanager
def asks(command: Sequence[str]) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """Start a command that asks a question on a terminal, and wait for that; with where the answer is written."""
    ours, theirs = os.openpty()
    with subprocess.Popen(command, stdin=theirs, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        os.close(theirs)
        assert process.stderr is not None
        asked = b""
        while not asked.endswith(b"[y/N] "):
            piece = os.read(process.stderr.fileno(), 1000)
            assert piece, f"it asks nothing: {asked!r}"
            asked += piece
        yield process, ours
    os.close(ours)


def catches(pid: int | str, number: signal.Signals) -> bool:
    """Has the process a handler for the signal? Python itself has none for SIGHUP."""
    status = Path(f"/proc/{pid}/status").read_text("utf-8")
    return bool(int(status.partition("SigCgt:")[2].split()[0], 16) >> (number - 1) & 1)


def cancel() -> None:
    """Cancel the task that runs this."""
    task = asyncio.current_task()
    assert task is not None
    task.cancel()


@contextmanager
def programs(server: Server, prefix: str) -> Iterator[Callable[[str], Program]]:
    """Start programs, which are killed in the end."""
    started: list[Program] = []

    def start(code: str) -> Program:
        started.append(Program(server, prefix, code))
        return started[-1]

    try:
        yield start
    finally:
        for one in started:
            one.process.kill()
            one.process.communicate()


ways = itertools.count()


@contextmanager
def way_to(server: Server, word: bytes, act: Callable[[], object]) -> Iterator[str]:
    """A way to the server on which something happens, once, before the first call that has this word arrives."""
    path = server.folder / f"way{next(ways)}"
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen()
    is_done = threading.Event()

    def carry(source: socket.socket, target: socket.socket, is_there: bool) -> None:
        with suppress(OSError):
            while data := source.recv(1 << 16):
                if is_there and word in data and not is_done.is_set():
                    is_done.set()
                    act()
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)

    def connect(near: socket.socket) -> None:
        with near, socket.socket(socket.AF_UNIX) as far, suppress(OSError):
            far.connect(str(server.socket))
            back = threading.Thread(target=carry, args=(far, near, False), daemon=True)
            back.start()
            carry(near, far, True)
            back.join()

    def accept() -> None:
        with suppress(OSError):
            while True:
                threading.Thread(target=connect, args=(listener.accept()[0],), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield f"unix://{path}"
        assert is_done.is_set(), "no call had this word"
    finally:
        listener.close()
        path.unlink()
