"""A year of slots in ten time zones, compared with what Python's own zone data says of every minute of it."""

from __future__ import annotations

import calendar
from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import date, datetime, timedelta, timezone
from functools import cache
from zoneinfo import ZoneInfo

import duly
import pytest
from support import Server

pytestmark = pytest.mark.xdist_group("zones")  # a process walks through each zone's year once

YEAR = 2025
ZONES = [
    "UTC",
    "Europe/Berlin",
    "America/New_York",
    "America/St_Johns",  # half an hour off
    "America/Santiago",  # changes at midnight
    "Africa/Cairo",  # changes at midnight, too
    "Australia/Lord_Howe",  # by half an hour
    "Asia/Kathmandu",
    "Asia/Shanghai",
    "Pacific/Auckland",
]
UNCHANGING = {"UTC", "Asia/Kathmandu", "Asia/Shanghai"}
MON, FRI, SUN = 0, 4, 6
MINUTE = timedelta(minutes=1)
QUARTER = [number * MINUTE for number in range(15)]  # all these clocks change at its begin


def days_of_month(day: date) -> int:
    return calendar.monthrange(day.year, day.month)[1]


def nearest_working_day(named: date) -> date:
    """Of the same month."""
    if named.weekday() < 5:
        return named
    to_friday, to_monday = named - timedelta(days=named.weekday() - FRI), named + timedelta(days=7 - named.weekday())
    is_saturday = named.weekday() == 5
    nearest, other = (to_friday, to_monday) if is_saturday else (to_monday, to_friday)
    return nearest if nearest.month == named.month else other


@dataclass(frozen=True)
class Named:
    """What a pattern names, written out."""

    minutes: Collection[int]
    hours: Collection[int]
    on: Callable[[date], bool] = lambda _: True
    fixed: bool = True
    second: int = 0


PATTERNS = {
    "30 2 * * *": Named({30}, {2}),
    "0 0 * * *": Named({0}, {0}),
    "15,45 1,2 * * *": Named({15, 45}, {1, 2}),
    "30 * * * *": Named({30}, range(24), fixed=False),
    "*/20 1-3 * * *": Named({0, 20, 40}, {1, 2, 3}, fixed=False),
    "30 0 * * 1-5": Named({30}, {0}, lambda day: day.weekday() <= FRI),
    "30 1 * * sun": Named({30}, {1}, lambda day: day.weekday() == SUN),
    "0 2 * * 0,7": Named({0}, {2}, lambda day: day.weekday() == SUN),
    "45 2 L * *": Named({45}, {2}, lambda day: day.day == days_of_month(day)),
    "0 1 * * FRI#2": Named({0}, {1}, lambda day: day.weekday() == FRI and 8 <= day.day <= 14),
    "30 2 * * SUN#L": Named({30}, {2}, lambda day: day.weekday() == SUN and day.day > days_of_month(day) - 7),
    "15 3 15W * *": Named({15}, {3}, lambda day: day == nearest_working_day(day.replace(day=15))),
    "0 0 1W * *": Named({0}, {0}, lambda day: day == nearest_working_day(day.replace(day=1))),
    "30 2 13 * FRI": Named({30}, {2}, lambda day: day.day == 13 or day.weekday() == FRI),  # one of both is enough
    "0 2 */7 * MON": Named({0}, {2}, lambda day: day.day % 7 == 1 or day.weekday() == MON),
    "30 2 29-31 MAR,OCT *": Named({30}, {2}, lambda day: day.month in {3, 10} and day.day >= 29),
    "0 12 29 2 *": Named({0}, {12}, lambda day: (day.month, day.day) == (2, 29)),  # not in this year
    "*/30 * * APR-SEP SUN": Named({0, 30}, range(24), lambda day: 4 <= day.month <= 9 and day.weekday() == SUN, False),
    "17 30 2 * * *": Named({30}, {2}, second=17),
    "59 59 23 L DEC *": Named({59}, {23}, lambda day: (day.month, day.day) == (12, 31), second=59),
    "5 */15 1-2 * * SUN": Named(range(0, 60, 15), {1, 2}, lambda day: day.weekday() == SUN, False, 5),
    "@weekly": Named({0}, {0}, lambda day: day.weekday() == SUN),
    "@hourly": Named({0}, range(24), fixed=False),
}
START = int(datetime(YEAR, 1, 1, tzinfo=timezone.utc).timestamp())
END = int(datetime(YEAR + 1, 1, 1, tzinfo=timezone.utc).timestamp())


@dataclass
class Clock:
    """A clock on a wall, minute by minute: when it shows each, and where it goes on after each that it leaves out."""

    shows: dict[datetime, list[int]]
    leaves_out: dict[datetime, int]


@cache
def clock(zone: str) -> Clock:
    of, read = ZoneInfo(zone), Clock({}, {})
    before: datetime | None = None
    for quarter in range(START, END, 900):
        shown = datetime.fromtimestamp(quarter, of).replace(tzinfo=None, fold=0)
        while before is not None and before + MINUTE < shown:
            before += MINUTE
            read.leaves_out[before] = quarter
        for number, minute in enumerate(QUARTER):
            before = shown + minute
            read.shows.setdefault(before, []).append(quarter + 60 * number)
    return read


def expected(zone: str, named: Named) -> list[int]:
    read, slots = clock(zone), set()
    for number in range(-1, 367):
        day = date(YEAR, 1, 1) + timedelta(days=number)
        if not named.on(day):
            continue
        for hour in named.hours:
            for minute in named.minutes:
                wall = datetime(day.year, day.month, day.day, hour, minute)
                shown = [at + named.second for at in read.shows.get(wall, [])]
                slots.update(shown[:1] if named.fixed else shown)
                if named.fixed and wall in read.leaves_out:
                    slots.add(read.leaves_out[wall])
    return sorted(slots)


@pytest.mark.parametrize("zone", ZONES)
def test_a_year_of_slots(zone: str) -> None:
    assert bool(clock(zone).leaves_out) == (zone not in UNCHANGING)
    assert any(len(shown) > 1 for shown in clock(zone).shows.values()) == (zone not in UNCHANGING)
    for pattern, named in PATTERNS.items():
        schedule = duly.Schedule(duly.NewJob(name="n"), cron=pattern, tz=zone)
        slots: list[float] = []
        after: float = START - 1
        while after < END:
            page = schedule.next(after, 1000)
            slots += page
            after = page[-1] if len(page) == 1000 else END
        assert [slot for slot in slots if slot < END] == expected(zone, named), pattern


FIRED = dict(
    zip(
        ZONES,
        [
            "30 * * * *",
            "30 2 * * *",
            "15,45 1,2 * * *",
            "30 2 * * SUN#L",
            "0 0 * * *",
            "30 0 * * 1-5",
            "*/20 1-3 * * *",
            "15 3 15W * *",
            "30 2 13 * FRI",
            "5 */15 1-2 * * SUN",
        ],
        strict=True,
    )
)


@pytest.mark.timeout(600)  # it computes for a quarter of a minute, on a machine that does nothing else
def test_a_year_of_fires(server: Server, prefix: str) -> None:
    """The clock goes on by six hours at a time, and each slot fires in the step in which it is due."""
    step = 6 * 3600
    queue = duly.Client(server.url, prefix=prefix, manual_clock=True).queue("q")
    queue.set_clock(START - 1)
    made, due = {}, [set[str]() for _ in range((END - START) // step + 1)]
    for number, (zone, pattern) in enumerate(FIRED.items()):
        name = f"s{number}"
        made[name] = duly.Schedule(duly.NewJob(), cron=pattern, tz=zone, catch_up=100)
        for slot in expected(zone, PATTERNS[pattern]):
            job_id = f"{name}@{datetime.fromtimestamp(slot, timezone.utc):%Y-%m-%dT%H:%M:%SZ}"
            due[-((START - slot) // step)].add(job_id)
    assert queue.schedules.sync("test", made).created == list(made)
    assert sum(map(len, due)) > 10_000
    for at, ids in enumerate(due):
        queue.set_clock(min(START + step * at, END - 1))
        assert queue.schedules.fire_due() == len(ids)
        jobs = queue.reserve_many(1000)
        assert {job.id for job in jobs} == ids
        assert all(queue.ack_many(jobs))
    for name, view in ((name, queue.schedules.get(name)) for name in made):
        assert view is not None
        assert view.fired == sum(job_id.startswith(f"{name}@") for ids in due for job_id in ids)
