"""A redis-server of one's own, for as long as something is measured."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time


class Server:
    """A redis-server without persistence, on a free port; as asked, on one CPU, with more options, under a program."""

    def __init__(
        self, cpu: int | None = None, options: list[str] | None = None, under: list[str] | None = None
    ) -> None:
        program = shutil.which("redis-server") or shutil.which("valkey-server")
        if program is None:
            sys.exit("bench: no redis-server here: run tools/setup.sh")
        self._port = free_port()
        self.url = f"redis://127.0.0.1:{self._port}"
        self._cpu = cpu
        self._folder = tempfile.TemporaryDirectory(prefix="duly-bench-")
        alone = ["--port", str(self._port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
        self._command = [*(under or []), program, *alone, "--dir", self._folder.name, *(options or [])]
        self._process = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(self._command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        if self._cpu is not None:
            os.sched_setaffinity(process.pid, {self._cpu})
        wait_until_it_listens(self._port, process)
        return process

    @property
    def pid(self) -> int:
        """Of the server, or of the program that it runs under."""
        return self._process.pid

    def restart(self) -> None:
        """Kills it, leaves workers time to notice, and starts it again."""
        self._process.kill()
        self._process.wait()
        time.sleep(1.2)
        self._process = self._start()

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        self._folder.cleanup()


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


def wait_until_it_listens(port: int, process: subprocess.Popen[bytes], within: float = 60) -> None:
    until = time.monotonic() + within
    while time.monotonic() < until and process.poll() is None:
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=1) as probe:
                probe.sendall(b"PING\r\n")
                if probe.recv(7).startswith(b"+PONG"):
                    return
        except OSError:
            time.sleep(0.02)
    sys.exit(f"bench: the redis-server on port {port} did not come up")
