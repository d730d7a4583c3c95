"""A year of slots in ten time zones, compared with an enumeration of every minute by Python's own zone data."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import duly
import pytest

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
# Pattern, the minutes and hours that it names, and whether it is one of fixed times.
PATTERNS = {
    "30 2 * * *": ({30}, {2}, True),
    "0 0 * * *": ({0}, {0}, True),
    "15,45 1,2 * * *": ({15, 45}, {1, 2}, True),
    "30 * * * *": ({30}, set(range(24)), False),
    "*/20 1-3 * * *": ({0, 20, 40}, {1, 2, 3}, False),
}


START = int(datetime(YEAR, 1, 1, tzinfo=timezone.utc).timestamp())
END = int(datetime(YEAR + 1, 1, 1, tzinfo=timezone.utc).timestamp())


def minutes_of_year(zone: ZoneInfo) -> list[tuple[int, datetime]]:
    """Walk the year minute by minute, as the clock on a wall shows it."""
    return [(at, datetime.fromtimestamp(at, zone).replace(tzinfo=None, fold=0)) for at in range(START, END, 60)]


def expected(year: list[tuple[int, datetime]], minutes: set[int], hours: set[int], is_fixed: bool) -> list[int]:
    slots = set()
    before: datetime | None = None
    shown: set[datetime] = set()
    for at, wall in year:
        is_named = wall.minute in minutes and wall.hour in hours
        if is_fixed and before is not None and wall - before > timedelta(minutes=1):
            left_out = before + timedelta(minutes=1)
            while left_out < wall:  # what the clock leaves out, at the first moment behind
                if left_out.minute in minutes and left_out.hour in hours:
                    slots.add(at)
                left_out += timedelta(minutes=1)
        if is_named and not (is_fixed and wall in shown):
            slots.add(at)
        if is_fixed and is_named:
            shown.add(wall)
        before = wall
    return sorted(slots)


@pytest.mark.parametrize("zone", ZONES)
def test_a_year_of_slots(zone: str) -> None:
    year = minutes_of_year(ZoneInfo(zone))
    for pattern, named in PATTERNS.items():
        schedule = duly.Schedule(duly.NewJob(name="n"), cron=pattern, tz=zone)
        slots: list[float] = []
        after: float = START - 1
        while after < END:
            page = schedule.next(after, 1000)
            slots += page
            after = page[-1]
        assert [slot for slot in slots if slot < END] == expected(year, *named), pattern
