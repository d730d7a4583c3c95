"""What the demo stands on: processes whose lines are read as they come, a timeline, and a record of every run."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Event = dict[str, Any]

COLOURS = {"shop": 34, "producer": 35, "python": 32, "php": 36, "rust": 33, "web": 0, "demo": 0, "PROBLEM": 31}
COLOURED = sys.stdout.isatty() and "NO_COLOR" not in os.environ
WIDTH = 100


class Timeline:
    """Lines of: seconds since the start, who, what, how late."""

    def __init__(self) -> None:
        self._start = time.monotonic()
        self._lock = threading.Lock()

    def scene(self, title: str) -> None:
        with self._lock:
            print(f"\n  {title}\n  {'─' * (WIDTH - 4)}", flush=True)

    def line(self, who: str, what: str, late_ms: float | None = None) -> None:
        seconds = time.monotonic() - self._start
        late = "" if late_ms is None else f"{late_ms:.1f} ms late"
        # Long texts go on below; the first line leaves room for the lateness.
        first, *rest = textwrap.wrap(what, WIDTH - 34) or [""]
        name = f"\033[{COLOURS[who.split()[0]]}m{who:<10}\033[0m" if COLOURED else f"{who:<10}"
        with self._lock:
            print(f"  {seconds:6.2f} s  {name}  {first:<{WIDTH - 34}}  {late:>11}".rstrip(), flush=True)
            for more in rest:
                print(f"{'':24}{more}", flush=True)


@dataclass
class Process:
    who: str
    popen: subprocess.Popen[str]
    log: list[str] = field(default_factory=list)


class Stage:
    """Starts processes, reads what they tell (lines that begin with "@ "), and ends them all, whatever happens."""

    def __init__(self, environment: dict[str, str]) -> None:
        self._environment = environment
        self._processes: list[Process] = []
        self._changed = threading.Condition()
        self.events: list[Event] = []
        self.on_event: Callable[[Event], None] = lambda _: None

    def start(self, who: str, command: list[str | Path]) -> Process:
        popen = subprocess.Popen(
            [str(part) for part in command],
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            encoding="utf-8",
            # Ctrl-C is for the director, who then ends the others in order.
            start_new_session=True,
        )
        process = Process(who, popen)
        self._processes.append(process)
        threading.Thread(target=self._read, args=(process,), daemon=True).start()
        return process

    def _read(self, process: Process) -> None:
        assert process.popen.stdout is not None
        for line in process.popen.stdout:
            if not line.startswith("@ "):
                process.log.append(line)
                continue
            event = {"who": process.who, "pid": process.popen.pid, **json.loads(line[2:])}
            with self._changed:
                self.events.append(event)
                self.on_event(event)
                self._changed.notify_all()
        with self._changed:
            self._changed.notify_all()

    def wait_for(self, what: str, *, longest: float = 15.0, **wanted: object) -> Event:
        """The first event of this kind with these values; waits until there is one."""

        def found() -> Event | None:
            matching = (event for event in self.events if event["what"] == what)
            return next((event for event in matching if wanted.items() <= event.items()), None)

        with self._changed:
            self._changed.wait_for(found, timeout=longest)
            if event := found():
                return event
        said = "".join(line for process in self._processes for line in process.log[-20:])
        raise TimeoutError(f"no '{what}' with {wanted} within {longest:.0f} s; the processes said:\n{said}")

    def wait_ready(self, process: Process) -> Process:
        self.wait_for("ready", pid=process.popen.pid)
        return process

    def stop(self, process: Process) -> int:
        """SIGTERM: a worker lets its handlers finish and ends with 0."""
        process.popen.terminate()
        return process.popen.wait(timeout=10)

    @contextlib.contextmanager
    def cleared_at_the_end(self) -> Iterator[None]:
        try:
            yield
        finally:
            # This takes some seconds at most: a second Ctrl-C does not cut it short, and leave something behind.
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGQUIT, signal.SIGHUP):
                signal.signal(number, signal.SIG_IGN)
            running = [process.popen for process in self._processes if process.popen.poll() is None]
            for popen in running:
                popen.terminate()
            for popen in running:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    popen.wait(timeout=3)
                popen.kill()
                popen.wait()
