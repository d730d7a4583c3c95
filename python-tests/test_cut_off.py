"""A network that goes silent between a server and workers of every language: nothing comes through, nothing ends."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import duly
import pytest
from fleet import COMMANDS, Worker, what_is_missing
from support import Server, empty, say, until


class Network:
    """A TCP proxy: passes bytes on, or loses them. A connection of which it lost some is dead for ever."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._passes = threading.Event()
        self._passes.set()
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=100)
        self.url = f"redis://127.0.0.1:{self._listener.getsockname()[1]}"
        self._sockets: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        self._passes.clear()

    def mend(self) -> None:
        self._passes.set()

    def close(self) -> None:
        self._passes.set()
        for one in (self._listener, *self._sockets):
            # Wakes whoever waits in it.
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                near.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._passes.wait()
                far = socket.socket(socket.AF_UNIX)
                far.connect(str(self._server.socket))
                self._sockets += [near, far]
                for source, target in ((near, far), (far, near)):
                    threading.Thread(target=self._pump, args=(source, target), daemon=True).start()

    def _pump(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                if not self._passes.is_set():
                    return
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)


@pytest.fixture
def network(own_server: Server) -> Iterator[Network]:
    network = Network(own_server)
    yield network
    network.close()


def test_workers_of_every_language_outlive_a_silent_network(
    network: Network, own_server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (missing := what_is_missing()) is None, f"{missing}: run tools/build.sh --dev"
    client = duly.Client(own_server.url)
    queue, notes = client.queue("orders"), client.queue("notes")
    workers = [Worker(what, own_server, tmp_path / f"{what}.log", network.url) for what in COMMANDS]
    pids = {worker.process.pid for worker in workers}
    started: set[int] = set()

    def have_all_run() -> bool:
        """Whether every worker has started jobs."""
        queue.push({"do": "work", "seconds": 0.01}, name="work")
        seen = notes.reserve_many(500)
        started.update(int(str(job.data).split()[3]) for job in seen)
        notes.ack_many(seen)
        return pids <= started

    try:
        until(have_all_run, "not every worker begins")
        for _ in workers:
            queue.push({"do": "work", "seconds": 0.3}, name="work")  # handlers that run when it happens
        until(lambda: queue.counts().reserved > 0, "nothing runs")
        network.cut()
        for worker in workers:
            until(lambda log=worker.log: "keeps trying" in log.read_text(), f"{worker.what} does not say it", 30)  # type: ignore[misc]
        while old := notes.reserve_many(500):
            notes.ack_many(old)
        started.clear()
        network.mend()
        mended = time.monotonic()
        until(have_all_run, "not every worker goes on")
        say(capsys, f"every worker ran new jobs {time.monotonic() - mended:.2f} s after the network was back")
        until(lambda: empty(queue), "jobs are left behind")
        assert queue.counts().totals["pushed"] == queue.counts().totals["acked"]
        for worker in workers:
            worker.end_having_told_one_outage()
    finally:
        for worker in workers:
            worker.process.kill()
            worker.process.wait()
