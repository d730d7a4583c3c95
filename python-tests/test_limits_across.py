"""The limits of a queue and of a name, over processes of every language of which one is killed."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import duly
import pytest
from fleet import COMMANDS, Worker, what_is_missing
from journal import Journal
from support import Server, empty, say, until

PLACES = 6  # more than any one worker takes
BURST, PER_US = 8, 400_000
LONG_JOBS, SHORT_JOBS = 24, 40


class Grants(Journal):
    """How many leases were held at once at most, and when each began, by the server's clock."""

    def __init__(self, file: Path) -> None:
        super().__init__(file)
        self.most_held = 0
        self.at_us: list[int] = []

    def _granted(self, job: str, token: int) -> None:
        super()._granted(job, token)
        self.most_held = max(self.most_held, sum(life.is_leased for life in self.lives.values()))
        self.at_us.append(token)

    def largest_burst(self) -> float:
        """Give by how many jobs any span of time was ahead of the rate, at most."""
        ahead = [number * PER_US - at * BURST for number, at in enumerate(self.at_us)]
        most = PER_US + max(late - early for number, early in enumerate(ahead) for late in ahead[number:])
        return most / PER_US


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server("--appendonly", "yes", "--appendfsync", "no", "--auto-aof-rewrite-percentage", "0")
    yield server
    server.close()


@pytest.mark.parametrize("of", ["the queue", "the name"])
def test_limits_hold_over_all_languages_and_the_death_of_a_worker(
    of: str, server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (missing := what_is_missing()) is None, f"{missing}: run tools/build.sh --dev"
    queue = duly.Client(server.url).queue("orders")
    rate = (BURST, PER_US / 1e6)
    if of == "the queue":
        queue.set_limits(concurrency=PLACES, rate=rate)
    else:
        queue.set_limits(names={"work": {"concurrency": PLACES, "rate": rate}})
    # Before Redis 7 it was one file.
    journal = Grants(next(server.folder.glob("**/*.incr.aof"), server.folder / "appendonly.aof"))
    workers = [Worker(what, server, tmp_path / f"{what}.log") for what in COMMANDS]
    pids = {worker.process.pid for worker in workers}

    def push(jobs: int, seconds: float) -> None:
        queue.push_many(duly.NewJob({"do": "work", "seconds": seconds}, name="work") for _ in range(jobs))

    def kill_one_that_runs() -> bool:
        for worker in workers:
            pid = worker.process.pid
            worker.process.send_signal(signal.SIGSTOP)
            os.waitid(os.P_PID, pid, os.WSTOPPED)
            server.cli("ping")  # answered after all that the worker has sent
            journal.read()
            if 0 < journal.running[pid] < journal.running.total():
                worker.send(signal.SIGKILL)
                worker.process.wait()
                return True
            worker.process.send_signal(signal.SIGCONT)
        return False

    def are_acked(jobs: int) -> bool:
        journal.read()
        return journal.counts["acked"] >= jobs

    try:
        until(lambda: len(queue.workers()) == len(workers), "not every worker is there")
        push(LONG_JOBS, 0.4)  # places are what they wait for
        push(SHORT_JOBS, 0.0)  # and starts, these
        until(lambda: are_acked(LONG_JOBS // 3), "the first jobs are not done")
        until(kill_one_that_runs, "no worker shares the limit with others")
        until(lambda: empty(queue), "jobs are left behind")
        assert sorted(worker.end() for worker in workers) == [-signal.SIGKILL, 0, 0, 0]
        journal.read()
    finally:
        for worker in workers:
            worker.process.kill()
            worker.process.wait()
        journal.close()
    burst = journal.largest_burst()
    say(capsys, f"limits of {of}: {journal.most_held} leases at once, at most {burst:.2f} jobs ahead of the rate")
    assert journal.wrong == []
    assert journal.counts["acked"] == LONG_JOBS + SHORT_JOBS == len(journal.lives)
    assert journal.counts["leases that ended"] >= 1, "who was killed had no job"
    assert pids <= journal.running.keys(), "not every worker had jobs"
    assert journal.most_held == PLACES
    assert BURST - 1 < burst <= BURST
