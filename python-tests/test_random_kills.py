"""Ten thousand jobs through workers of every language that are killed, frozen and stopped at random all the time.

`DULY_KILL_JOBS` makes it longer, `DULY_KILL_SEED` takes other random numbers than the usual ones, or repeats a run.
"""

from __future__ import annotations

import os
import random
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import duly
import pytest
from fleet import Fleet, what_is_missing
from journal import Journal
from support import Server, say

JOBS = int(os.environ.get("DULY_KILL_JOBS", "10000"))
SEED = int(os.environ.get("DULY_KILL_SEED", "24301"))
JOBS_A_SECOND = 500.0
RETRIES_OF_A_KILLER = 2


@pytest.fixture
def server() -> Iterator[Server]:
    # Not `everysec`, under which the server may answer before it writes.
    server = Server("--appendonly", "yes", "--appendfsync", "no", "--auto-aof-rewrite-percentage", "0")
    yield server
    server.close()


def some_jobs(chance: random.Random) -> Iterator[tuple[str, str, duly.NewJob]]:
    """Id, what is to become of it (acked or failed), and job."""
    for number in range(JOBS):
        what = "work"
        if number % 1000 == 500:
            what = "kill"
        elif number % 100 == 1:
            what = "fail"
        elif number % 100 == 2:
            what = "fail once"
        never = what in ("kill", "fail")
        yield (
            f"j{number}",
            "failed" if never else "acked",
            duly.NewJob(
                {"do": what, "seconds": chance.uniform(0, 0.008)},
                id=f"j{number}",
                name="work",
                delay=chance.uniform(0, JOBS / JOBS_A_SECOND) if number % 2 else 0,
                # What a worker's death costs counts as a failure, and must not be what ends a good job.
                max_retries=RETRIES_OF_A_KILLER if never else 100,
                retry=duly.RetryPolicy.fixed(0.1),
            ),
        )


@pytest.mark.timeout(120 + JOBS / 50)
def test_nothing_is_lost_and_nothing_runs_after_its_ack(
    server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (missing := what_is_missing()) is None, f"{missing}: run tools/build.sh --dev"
    say(capsys, f"DULY_KILL_SEED={SEED} DULY_KILL_JOBS={JOBS}")
    chance = random.Random(SEED)
    queue = duly.Client(server.url).queue("orders")
    jobs = list(some_jobs(chance))
    wanted = {job: end for job, end, _ in jobs}
    queue.push_many(job for _, _, job in jobs)
    began = time.monotonic()
    # Before Redis 7 it was one file.
    journal = Journal(next(server.folder.glob("**/*.incr.aof"), server.folder / "appendonly.aof"))
    fleet = Fleet(server, tmp_path, journal, chance)
    try:
        while sum(life.acked or life.failed for life in journal.lives.values()) < JOBS:
            fleet.step()
            journal.read()
            assert journal.wrong == [], journal.wrong[:10]
            time.sleep(0.01)
        took = time.monotonic() - began
        fleet.end()
        journal.read()
    finally:
        fleet.kill()
        journal.close()

    ended = {job: "acked" if life.acked else "failed" if life.failed else "lost" for job, life in journal.lives.items()}
    lost = [job for job in wanted if ended.get(job, "lost") == "lost"]
    counts, faults = journal.counts, fleet.faults
    say(
        capsys,
        f"{JOBS} jobs, {counts['runs']} runs, {counts['acked']} acked, {Counter(ended.values())['failed']} failed; "
        f"deaths and freezes: {dict(faults)}; "
        f"{counts['duplicates']} duplicates, all of jobs whose lease had ended ({counts['leases that ended']} had), "
        f"{counts['retries']} retries, {counts['runs that ended after their lease']} late ends, refused; "
        f"lost={len(lost)} after_ack={counts['after ack']} in {took:.1f} s",
    )
    assert (lost, journal.wrong) == ([], [])
    assert ended == wanted
    assert {"SIGKILL", "SIGTERM", "SIGSTOP past the lease", "by the job"} <= faults.keys(), faults
    assert counts["duplicates"] > 0
    assert counts["runs that ended after their lease"] > 0

    now = queue.counts()
    assert (now.delayed, now.ready, now.reserved, now.failed) == (0, 0, 0, Counter(wanted.values())["failed"])
    assert (now.totals["pushed"], now.totals["acked"]) == (JOBS, counts["acked"])
    assert now.totals["reclaimed"] == counts["leases that ended"]
    for view in queue.peek("failed", limit=1000):
        assert view.attempts > RETRIES_OF_A_KILLER, view
    assert queue.audit().findings == []
