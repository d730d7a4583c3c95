"""Ten thousand jobs through workers of every language that are killed, frozen and stopped at random all the time.

A fifth as many, of a kilobyte each, go through workers whose lines to the server are slow, narrow or long besides,
in a queue that keeps a history: each run that was seen is in it.
`DULY_KILL_JOBS` makes it longer, `DULY_KILL_SEED` takes other random numbers than the usual ones, or repeats a run.
"""

from __future__ import annotations

import os
import random
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import duly
import pytest
from fleet import Fleet, what_is_missing
from journal import Journal, Life
from slow_lines import FAR, NEAR, SLOW, Line, slow_lines
from support import Server, say

JOBS = int(os.environ.get("DULY_KILL_JOBS", "6000"))
SEED = int(os.environ.get("DULY_KILL_SEED", "24301"))
RETRIES = (0, 1, 5)


class Run(NamedTuple):
    """What goes through the workers, over which lines, and how often something befalls them."""

    jobs: int
    jobs_a_second: float
    killer: int  # which one of each thousand kills its worker: with retries of `RETRIES` in turn
    padding: int  # bytes of data at most
    lines: tuple[Line, ...]
    pause: tuple[float, float]


DIRECT = Run(JOBS, 500.0, 500, 0, (), (0.05, 0.3))
# A worker that is far away needs a second until it works.
OVER_LINES = Run(JOBS // 5, 300.0, 504, 2000, (SLOW, NEAR, FAR), (0.2, 0.6))


@pytest.fixture
def server() -> Iterator[Server]:
    # Not `everysec`, under which the server may answer before it writes.
    server = Server("--appendonly", "yes", "--appendfsync", "no", "--auto-aof-rewrite-percentage", "0")
    yield server
    server.close()


class Plan(NamedTuple):
    """What a job does, and how many retries it has."""

    what: str
    retries: int

    @property
    def end(self) -> str:
        """What becomes of it if no worker dies while it runs."""
        never = self.what in ("kill", "fail") or (self.what == "fail once" and self.retries == 0)
        return "failed" if never else "acked"


def some_jobs(chance: random.Random, run: Run) -> Iterator[tuple[str, Plan, duly.NewJob]]:
    for number in range(run.jobs):
        what = "work"
        if number % 1000 == run.killer:
            what = "kill"
        elif number % 100 == 1:
            what = "fail"
        elif number % 100 == 2:
            what = "fail once"
        plan = Plan(what, RETRIES[number % 3])
        yield (
            f"j{number}",
            plan,
            duly.NewJob(
                {"do": what, "seconds": chance.uniform(0, 0.008), "padding": "x" * chance.randint(0, run.padding)},
                id=f"j{number}",
                name="work",
                delay=chance.uniform(0, run.jobs / run.jobs_a_second) if number % 2 else 0,
                max_retries=plan.retries,
                retry=duly.RetryPolicy.fixed(0.1),
            ),
        )


def misjudged(plan: Plan, life: Life) -> str | None:
    """What is wrong with how a job ended."""
    ended = "acked" if life.acked else "failed" if life.failed else "lost"
    if ended == "lost":
        return "lost"
    if ended != plan.end and not (ended == "failed" and life.charged and life.attempts == plan.retries + 1):
        return f"{ended}, with {life.attempts} failures, of which {len(life.charged)} were its worker's death"
    runs_again = [token for token in life.runs[:-1] if life.returns[token] == "its lease ended"]
    if plan.retries == 0 and runs_again:
        return f"without retries it was run again behind a worker's death: {life.runs}"
    if plan.what == "kill" and len(life.runs) > plan.retries + 2:
        return f"it killed its worker {len(life.runs)} times"
    return None


def untold(queue: duly.Queue, job: str, life: Life) -> str | None:
    """What the history of the queue says otherwise than what was seen."""
    trace = queue.trace(job)
    if trace is None:
        return "nothing is known of it"
    told = {run.token: run for run in trace.runs}
    if missing := [token for token in life.runs if token not in told]:
        return f"runs that nobody tells of: {missing}, of {trace.events}"
    if any(run.outcome is None for run in trace.runs):
        return f"a run that goes on: {trace.events}"
    by_death = [token for token in life.runs if life.returns.get(token) == "its lease ended"]
    if wrong := [token for token in by_death if told[token].outcome != "lease_ended"]:
        return f"runs whose worker died: {wrong}, of {trace.events}"
    ends = [event.what for event in trace.events if event.what in ("done", "failed")]
    return None if ends == ["done" if life.acked else "failed"] else f"it ended by {ends}"


def seconds_too_long(seconds: float) -> float:
    """Sleep, and say how much longer that took."""
    began = time.monotonic()
    time.sleep(seconds)
    return time.monotonic() - began - seconds


@pytest.mark.parametrize("run", [pytest.param(DIRECT, id="direct"), pytest.param(OVER_LINES, id="over slow lines")])
@pytest.mark.timeout(120 + JOBS / 50)
def test_nothing_is_lost_and_nothing_runs_after_its_ack(
    run: Run, server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (missing := what_is_missing()) is None, f"{missing}: run tools/build.sh --dev"
    say(capsys, f"DULY_KILL_SEED={SEED} DULY_KILL_JOBS={JOBS} {run}")
    chance = random.Random(SEED)
    queue = duly.Client(server.url).queue("orders")
    jobs = list(some_jobs(chance, run))
    plans = {job: plan for job, plan, _ in jobs}
    if run.lines:
        queue.keep_history(4 * run.jobs, 3600)
    queue.push_many(job for _, _, job in jobs)
    began = time.monotonic()
    # Before Redis 7 it was one file.
    journal = Journal(next(server.folder.glob("**/*.incr.aof"), server.folder / "appendonly.aof"))
    with slow_lines(server.socket, run.lines) as urls, closing(journal):
        fleet = Fleet(server, tmp_path, journal, chance, urls=urls, pause=run.pause)
        held_up = 0.0
        try:
            while sum(life.acked or life.failed for life in journal.lives.values()) < run.jobs:
                fleet.step()
                journal.read()
                assert journal.wrong == [], journal.wrong[:10]
                held_up = max(held_up, seconds_too_long(0.01))
            took = time.monotonic() - began
            fleet.end()
            journal.read()
        finally:
            fleet.kill()

    lives, counts, faults = journal.lives, journal.counts, fleet.faults
    wrong = {job: why for job, plan in plans.items() if (why := misjudged(plan, lives.get(job, Life())))}
    failed = {job for job, life in lives.items() if life.failed}
    of_death = [plans[job].retries for job in failed if plans[job].end == "acked"]
    say(
        capsys,
        f"{run.jobs} jobs, {counts['runs']} runs, {counts['acked']} acked, {len(failed)} failed; "
        f"deaths and freezes: {dict(faults)}; "
        f"{counts['duplicates']} duplicates, all of jobs whose lease had ended ({counts['leases that ended']} had; "
        f"{counts['leases that were charged']} were charged, to jobs that had started; {len(of_death)} jobs failed of "
        f"it, by retries {dict(Counter(of_death))}), "
        f"{counts['retries']} retries, {counts['late starts']} late starts, "
        f"the latest by {journal.latest_start_us / 1e3:.1f} ms (this process was held up for up to "
        f"{held_up * 1e3:.1f} ms), "
        f"{counts['runs that ended after their lease']} late ends, refused; "
        f"lost={Counter(wrong.values())['lost']} after_ack={counts['after ack']} in {took:.1f} s",
    )
    assert (wrong, journal.wrong) == ({}, [])
    # No job is started in the last twentieth of its lease. Over a slow line jobs start near that, and a machine with
    # too much to do may hold up a handler for longer behind the engine's look at the lease: then this process, too.
    assert journal.latest_start_us / 1e6 <= (held_up if run.lines else 0), f"{counts['late starts']} late starts"
    assert {"SIGKILL", "by the job"} <= faults.keys(), faults
    assert counts["duplicates"] > 0
    if run.jobs >= 10_000:  # in a few seconds not everything happens
        assert {"SIGTERM", "SIGSTOP past the lease"} <= faults.keys(), faults
        assert counts["runs that ended after their lease"] > 0
    assert 0 < counts["leases that were charged"] < counts["leases that ended"]

    now = queue.counts()
    assert (now.delayed, now.ready, now.reserved, now.failed) == (0, 0, 0, len(failed))
    assert (now.totals["pushed"], now.totals["acked"]) == (run.jobs, counts["acked"])
    assert now.totals["reclaimed"] == counts["leases that ended"]
    if run.lines:
        died = {job for job, life in lives.items() if "its lease ended" in life.returns.values()}
        some = died | failed | set(chance.sample(list(lives), min(200, len(lives))))
        lies = {job: why for job in some if (why := untold(queue, job, lives[job]))}
        assert lies == {}
        say(capsys, f"{len(some)} lives are told as they were")
    for view in queue.peek("failed", limit=1000):
        assert view.attempts > plans[view.id].retries, view
    assert queue.audit().findings == []
