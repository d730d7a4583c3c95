"""Workers in every language that note their runs on the server (see noting/worker.py), and what befalls them."""

from __future__ import annotations

import itertools
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from journal import Journal
from support import Server, until

HERE = Path(__file__).parent
LEASE = 1.0
RUST_WORKER = Path(os.environ.get("CARGO_TARGET_DIR", HERE.parent / "target")) / "debug/examples/noting_worker"
COMMANDS: dict[str, tuple[list[str], int]] = {  # and how many handlers run at once
    "python threads": ([sys.executable, str(HERE / "noting/worker.py"), "threads"], 3),
    "python asyncio": ([sys.executable, str(HERE / "noting/worker.py"), "asyncio"], 5),
    "php": (["php", str(HERE / "noting/worker.php")], 1),
    "rust": ([str(RUST_WORKER)], 4),
}


def environment(url: str, notes_url: str) -> dict[str, str]:
    scan = f":{HERE.parent / 'build/php.d'}"
    settings = {"DULY_URL": url, "NOTING_URL": notes_url, "PHP_INI_SCAN_DIR": scan}
    return {"NOTING_LEASE": str(LEASE), **os.environ, **settings}


def what_is_missing() -> str | None:
    """What `tools/build.sh --dev` would build."""
    if not RUST_WORKER.exists():
        return f"{RUST_WORKER} is missing"
    if not (HERE.parent / "build/php.d/duly.ini").exists():
        return "build/php.d/duly.ini is missing"
    return None


class Worker:
    """One slot of the fleet: a process, and the next one when that has ended.

    It notes its runs on `server`, which also has its work unless `urls` say otherwise: each process takes the next one.
    """

    def __init__(self, what: str, server: Server, log: Path, *urls: str) -> None:
        self.what, self._server, self.log = what, server, log
        self._urls = itertools.cycle(urls or [server.url])
        self._command, self.concurrency = COMMANDS[what]
        self.frozen_until: float | None = None
        self.start()

    def start(self) -> None:
        settings = environment(next(self._urls), self._server.url)
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                self._command, env=settings, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        self.sent: signal.Signals | None = None
        self.was_frozen = False

    def send(self, number: signal.Signals) -> None:
        self.sent = number
        self.process.send_signal(number)

    def _stops(self) -> bool:
        """Freeze it, and say if it is. Again each time: what lets a stalled machine go on may let it go on as well."""
        self.process.send_signal(signal.SIGSTOP)
        return self.process.poll() is not None or _is_stopped(self.process.pid)

    def freeze_in_handlers(self, journal: Journal) -> bool:
        """Freeze it while every handler is between its two notes; gives up, unfrozen, if that does not happen soon.

        A handler that is frozen just before its first note has started by its own lights and not by the journal's.
        """
        pid = self.process.pid
        for _ in range(30):
            until(self._stops, "it does not stop")
            if self.process.returncode is not None:
                return False  # a job of its own ended it just then
            # Answered after all that the worker has sent, and what was executed is in the file by then.
            self._server.cli("ping")
            journal.read()
            if journal.running[pid] == self.concurrency:
                self.was_frozen = True
                return True
            self.process.send_signal(signal.SIGCONT)
            time.sleep(0.003)
        return False

    def thaw(self) -> None:
        self.frozen_until = None
        self.process.send_signal(signal.SIGCONT)

    def end_having_told_one_outage(self) -> None:
        """End it well; it has said once that the server did not answer, and once that it did again."""
        assert self.end() == 0
        said = self.log.read_text()
        assert (said.count("keeps trying"), said.count("answers again")) == (1, 1), said

    def ended_with(self, status: int) -> str:
        """Say so, with the last of what it said."""
        return f"{self.what} ended with {status}:\n" + "\n".join(self.log.read_text().splitlines()[-10:])

    def end(self) -> int:
        if self.frozen_until is not None:
            self.thaw()
        # Told a second time, it would stop at once; and who was killed just now may not be gone yet.
        if self.process.poll() is None and self.sent is None:
            self.send(signal.SIGTERM)
        return self.process.wait(20)


class Fleet:
    """Workers to which things happen at random; the same things for the same seed, though not at the same moments.

    Where URLs are given, the work is behind them: each slot begins with another one, and each process takes the next.
    """

    def __init__(
        self,
        server: Server,
        folder: Path,
        journal: Journal,
        chance: random.Random,
        *,
        urls: Sequence[str] = (),
        pause: tuple[float, float] = (0.05, 0.3),
    ) -> None:
        """Let something happen after each pause, which is between these two, in seconds."""
        self._journal, self._chance, self._pause = journal, chance, pause
        self.faults: Counter[str] = Counter()
        urls = urls or [server.url]
        self.workers = []
        for slot, what in enumerate(COMMANDS):
            first = slot % len(urls)
            self.workers.append(Worker(what, server, folder / f"{what}.log", *urls[first:], *urls[:first]))
        self._next_fault = time.monotonic() + 1

    def step(self) -> None:
        """Replace what has ended, thaw what was frozen for long enough, and let the next thing happen if it is time."""
        now = time.monotonic()
        for worker in self.workers:
            status = worker.process.poll()
            if status is not None:
                self._ended_as_told(worker, status)
                worker.start()
            elif worker.frozen_until is not None and now > worker.frozen_until:
                if self._chance.random() < 0.2:
                    worker.frozen_until = None
                    worker.send(signal.SIGKILL)
                    self.faults["killed while frozen"] += 1
                else:
                    worker.thaw()
        if now > self._next_fault:
            self._next_fault = now + self._chance.uniform(*self._pause)
            self._befall(self._chance.choice(self.workers))

    def _befall(self, worker: Worker) -> None:
        what = self._chance.choices(["kill", "freeze", "stop"], [4, 4, 2])[0]
        lasts = self._chance.uniform(1.3, 2.0) * LEASE
        if worker.frozen_until is not None or worker.sent is not None:
            return
        if what == "kill":
            worker.send(signal.SIGKILL)
            self.faults["SIGKILL"] += 1
        elif worker.process.pid not in self._journal.running:
            pass  # it is just starting, and does not listen for signals yet
        elif what == "stop":
            worker.send(signal.SIGTERM)
            self.faults["SIGTERM"] += 1
        # What a process was interrupted in when it came back does not note its end: such a one is not frozen again.
        elif not worker.was_frozen and worker.freeze_in_handlers(self._journal):
            worker.frozen_until = time.monotonic() + lasts
            self.faults["SIGSTOP past the lease"] += 1

    def _ended_as_told(self, worker: Worker, status: int) -> None:
        """Check what a worker ended with; a job may also have killed one that was asked to end."""
        by_a_job = -signal.SIGABRT if worker.what == "rust" else -signal.SIGKILL
        if worker.sent is None and status == by_a_job:
            self.faults["by the job"] += 1
            return
        assert worker.sent is not None, worker.ended_with(status)
        expected = {signal.SIGKILL: -signal.SIGKILL, signal.SIGTERM: 0}[worker.sent]
        assert status in (expected, by_a_job), worker.ended_with(status)

    def end(self) -> None:
        for worker in self.workers:
            starting = worker.process.pid not in self._journal.running
            status = worker.end()
            if not (starting and status == -signal.SIGTERM):
                self._ended_as_told(worker, status)

    def kill(self) -> None:
        for worker in self.workers:
            worker.process.kill()
            worker.process.wait()


def _is_stopped(pid: int) -> bool:
    """Is every thread of it?"""
    try:
        stats = [(task / "stat").read_text() for task in Path(f"/proc/{pid}/task").iterdir()]
    except OSError:
        return False  # a thread that has just ended; look again
    return all(stat.rpartition(")")[2].split()[0] in "TtZX" for stat in stats)
