"""Schedules whose workers are killed, frozen and stopped at random, twenty in every language: each slot fires once.

`DULY_KILL_SECONDS` makes it longer, `DULY_KILL_SEED` takes other random numbers than the usual ones, or repeats a run.
"""

from __future__ import annotations

import os
import random
import time
from collections import Counter
from contextlib import ExitStack, closing
from datetime import datetime, timezone
from pathlib import Path

import duly
import pytest
from fleet import Fleet, what_is_missing
from journal import Journal
from support import Server, say

SECONDS = float(os.environ.get("DULY_KILL_SECONDS", "12"))
SEED = int(os.environ.get("DULY_KILL_SEED", "24301"))
FLEETS = 5  # of four workers each
EVERY = {"a": 0.1, "b": 0.25, "c": 1.0}


def slot(seconds: float) -> str:
    at = datetime.fromtimestamp(round(seconds, 3), timezone.utc)
    fraction = f"{at.microsecond // 1000:03d}".rstrip("0")
    return f"{at:%Y-%m-%dT%H:%M:%S}{'.' if fraction else ''}{fraction}Z"


@pytest.mark.timeout(120 + 10 * SECONDS)
def test_each_slot_fires_once_whichever_workers_die(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert (missing := what_is_missing()) is None, f"{missing}: run tools/build.sh --dev"
    say(capsys, f"DULY_KILL_SEED={SEED} DULY_KILL_SECONDS={SECONDS:g}")
    with ExitStack() as stack:
        server = Server("--appendonly", "yes", "--appendfsync", "no", "--auto-aof-rewrite-percentage", "0")
        stack.callback(server.close)
        schedules = duly.Client(server.url).queue("orders").schedules
        job = duly.NewJob({"do": "work", "seconds": 0.005, "padding": ""}, name="work")
        made = {name: duly.Schedule(job, every=every, catch_up=100) for name, every in EVERY.items()}
        schedules.sync("test", made)
        first = {name: schedules.next(name, 1)[0] for name in EVERY}
        journal = Journal(next(server.folder.glob("**/*.incr.aof"), server.folder / "appendonly.aof"))
        stack.enter_context(closing(journal))
        fleets = []
        for number in range(FLEETS):
            folder = tmp_path / str(number)
            folder.mkdir()
            chance = random.Random(SEED + number)
            fleets.append(Fleet(server, folder, journal, chance, pause=(0.3, 1.0)))
            stack.callback(fleets[-1].kill)
        ends = time.monotonic() + SECONDS
        while time.monotonic() < ends:
            for fleet in fleets:
                fleet.step()
            journal.read()
            assert journal.wrong == [], journal.wrong[:10]
            time.sleep(0.01)
        assert [schedules.pause(name) for name in EVERY] == [True] * len(EVERY)
        while any(not life.acked for life in journal.lives.values()):
            for fleet in fleets:
                fleet.step()
            journal.read()
            time.sleep(0.01)
        for fleet in fleets:
            fleet.end()
        journal.read()

        faults = sum((fleet.faults for fleet in fleets), Counter[str]())
        views = {name: schedules.get(name) for name in EVERY}
        expected = set()
        for name, view in views.items():
            assert view is not None
            assert view.last is not None
            count = round((view.last - first[name]) / EVERY[name]) + 1
            assert view.fired == count, name
            expected |= {f"{name}@{slot(first[name] + number * EVERY[name])}" for number in range(count)}
        say(
            capsys,
            f"{len(expected)} slots, {journal.counts['runs']} runs; {dict(faults)}; "
            f"lost={len(expected - journal.lives.keys())} twice={len(journal.wrong)}",
        )
        assert (journal.wrong, journal.lives.keys() - expected, expected - journal.lives.keys()) == ([], set(), set())
        assert duly.Client(server.url).queue("orders").counts().totals["pushed"] == len(expected)
        assert faults["SIGKILL"] > 0
