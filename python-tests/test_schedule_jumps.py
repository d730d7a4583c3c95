"""Schedules whose workers are killed, frozen and stopped at random, twenty in every language, while the clock jumps.

The clock is the server's, as tests set it (`manual_clock`): it runs faster than real time, and jumps forward and back.
Leases are long, so that a jump ends few of them. `DULY_KILL_SECONDS` makes it longer, `DULY_KILL_SEED` takes other
random numbers than the usual ones, or repeats a run.
"""

from __future__ import annotations

import os
import random
import time
from collections import Counter
from contextlib import ExitStack, closing
from pathlib import Path

import duly
import pytest
from fleet import Fleet, what_is_missing
from journal import Journal
from support import Server, say
from test_schedule_kills import slot

SECONDS = float(os.environ.get("DULY_KILL_SECONDS", "12"))
SEED = int(os.environ.get("DULY_KILL_SEED", "24301"))
FLEETS = 5  # of four workers each
START = 1_790_000_000.0
EVERY = {"often": 7, "seldom": 60}
JUMP = 600.0  # less than a hundred slots
LEASE = 3600.0


class Clock:
    def __init__(self, queue: duly.Queue, chance: random.Random) -> None:
        self._queue, self._chance = queue, chance
        self.jumps: Counter[str] = Counter()
        self.now = self.latest = START
        self.move(0)

    def move(self, seconds: float) -> None:
        self.now += seconds
        self.latest = max(self.latest, self.now)
        self._queue.set_clock(self.now)

    def is_something_due(self) -> bool:
        return any(view.next is not None and view.next <= self.now for view in self._queue.schedules.list())

    def step(self) -> None:
        what = self._chance.random()
        # Of more than a hundred slots that are due some would not fire.
        if what < 0.02 and not self.is_something_due():
            self.jumps["forward"] += 1
            self.move(self._chance.uniform(0, JUMP))
        elif what < 0.03:
            self.jumps["back"] += 1
            self.move(-self._chance.uniform(0, JUMP))
        else:
            self.move(self._chance.uniform(0, 0.5))


@pytest.mark.timeout(180 + 10 * SECONDS)
def test_each_slot_fires_once_whichever_workers_die_and_however_the_clock_jumps(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (missing := what_is_missing()) is None, f"{missing}: run tools/build.sh --dev"
    say(capsys, f"DULY_KILL_SEED={SEED} DULY_KILL_SECONDS={SECONDS:g}")
    monkeypatch.setenv("NOTING_MANUAL_CLOCK", "1")
    monkeypatch.setenv("NOTING_LEASE", str(LEASE))
    with ExitStack() as stack:
        server = Server("--appendonly", "yes", "--appendfsync", "no", "--auto-aof-rewrite-percentage", "0")
        stack.callback(server.close)
        queue = duly.Client(server.url, manual_clock=True).queue("orders")
        clock = Clock(queue, random.Random(SEED + FLEETS))
        job = duly.NewJob({"do": "work", "seconds": 0.005, "padding": ""}, name="work")
        made = {name: duly.Schedule(job, every=every, catch_up=100) for name, every in EVERY.items()}
        queue.schedules.sync("test", made)
        first = {name: queue.schedules.next(name, 1)[0] for name in EVERY}
        journal = Journal(next(server.folder.glob("**/*.incr.aof"), server.folder / "appendonly.aof"))
        stack.enter_context(closing(journal))
        fleets = []
        for number in range(FLEETS):
            folder = tmp_path / str(number)
            folder.mkdir()
            fleets.append(Fleet(server, folder, journal, random.Random(SEED + number), pause=(0.3, 1.0)))
            stack.callback(fleets[-1].kill)

        def step() -> None:
            for fleet in fleets:
                fleet.step()
            journal.read()
            time.sleep(0.01)

        ends = time.monotonic() + SECONDS
        # On a busy machine the clock comes to the first slot of the rarest one later.
        while time.monotonic() < ends or clock.latest <= max(first.values()):
            step()
            clock.step()
        # It stands still behind all that it has shown, and what is due fires.
        clock.move(clock.latest - clock.now)
        while clock.is_something_due():
            step()
        end = clock.now
        assert [queue.schedules.pause(name) for name in EVERY] == [True] * len(EVERY)
        # Jobs of workers that were killed come back when their leases are over.
        while sum(getattr(queue.counts(), state) for state in ("delayed", "ready", "reserved")):
            step()
            clock.move(LEASE / 100)
        for fleet in fleets:
            fleet.end()
        journal.read()

        faults = sum((fleet.faults for fleet in fleets), Counter[str]())
        expected = set()
        for name, every in EVERY.items():
            view = queue.schedules.get(name)
            assert view is not None
            assert view.last is not None
            count = int((end - first[name]) // every) + 1
            assert (view.fired, view.last) == (count, first[name] + (count - 1) * every), name
            expected |= {f"{name}@{slot(first[name] + number * every)}" for number in range(count)}
        say(
            capsys,
            f"{len(expected)} slots; {dict(clock.jumps)}; {dict(faults)}; "
            f"lost={len(expected - journal.lives.keys())} unknown={len(journal.lives.keys() - expected)}",
        )
        assert (journal.lives.keys() - expected, expected - journal.lives.keys()) == (set(), set())
        counts = queue.counts()
        assert (counts.totals["pushed"], counts.failed) == (len(expected), 0)
        assert faults["SIGKILL"] > 0
        assert clock.jumps["forward"] > 0
        assert clock.jumps["back"] > 0
