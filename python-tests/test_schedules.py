"""Schedules of tasks, and what Python adds to those of the core: conversions, asyncio, what is refused."""

from __future__ import annotations

import asyncio
import logging
import threading
from datetime import datetime, timedelta, timezone
from typing import Any

import duly
import duly.aio
import pytest
from support import Server, running, until


@pytest.fixture
def app(server: Server, prefix: str) -> duly.App:
    return duly.App(server.url, prefix=prefix, owner="shop")


def test_a_task_with_a_schedule_runs_by_itself(app: duly.App) -> None:
    ran = threading.Semaphore(0)

    @app.task("tick", queue="orders", schedule={"every": 0.1}, max_retries=2)
    def tick(number: int = 7) -> None:
        job = duly.current_job()
        assert (number, job.max_retries, job.id.split("@")[0]) == (7, 2, "tick")
        ran.release()

    with running(app.worker()):
        for _ in range(3):
            assert ran.acquire(timeout=20)
    view = app.queue("orders").schedules.get("tick")
    assert view is not None
    assert (view.owner, view.fired >= 3) == ("shop", True)


def test_a_worker_that_starts_in_an_outage_stores_its_schedules_later(
    own_server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    app = duly.App(own_server.url, owner="shop")
    ran = threading.Event()
    app.task("tick", schedule={"every": 0.1})(lambda: ran.set())
    caplog.set_level(logging.INFO, "duly.worker")

    def logged(text: str) -> int:
        return sum(text in record.getMessage() for record in caplog.records)

    own_server.kill()
    with running(app.worker()) as reports:
        until(lambda: logged("the schedules cannot be stored now"), "no warning")
        own_server.start()
        assert ran.wait(60)
        until(lambda: logged("the schedules are stored"), "nothing says that they are stored")
    assert len(reports) == 1
    assert (logged("the schedules cannot be stored now"), logged("the schedules are stored")) == (1, 1)


def test_a_worker_of_a_full_server_runs_jobs_before_it_can_store_its_schedules(own_server: Server) -> None:
    app = duly.App(own_server.url, owner="shop")
    ran = threading.Event()
    task = app.task("once", schedule={"every": 3600})(lambda: ran.set())
    task.push()
    own_server.cli("CONFIG", "SET", "maxmemory", "1")
    with running(app.worker()):
        assert ran.wait(60)
        assert app.queue().schedules.get("once") is None
        own_server.cli("CONFIG", "SET", "maxmemory", "0")
        until(lambda: app.queue().schedules.get("once"), "the schedule is not stored")


def test_schedules_that_cannot_be_stored_end_a_worker(app: duly.App) -> None:
    app.queue().schedules.put("tick", duly.Schedule(duly.NewJob(), every=3600))
    app.task("tick", schedule={"every": 3600})(lambda: None)
    with pytest.raises(duly.InvalidArgumentError, match="put by hand"):
        app.worker().run()


def test_the_schedules_of_an_app_are_those_of_its_tasks(app: duly.App, server: Server, prefix: str) -> None:
    @app.task("nightly", schedule="0 3 * * *")
    def nightly() -> None: ...

    @app.task("plain")
    def plain() -> None: ...

    assert app.sync_schedules()["default"].created == ["nightly"]
    later = duly.App(server.url, prefix=prefix, owner="shop")

    @later.task("plain")
    def plain_again() -> None: ...

    assert later.sync_schedules()["default"].removed == ["nightly"]


def test_what_no_schedule_can_push_is_refused_where_it_is_written(app: duly.App, server: Server) -> None:
    refused = pytest.raises(duly.InvalidArgumentError)
    with refused as caught:
        duly.App(server.url).task("a", schedule="@daily")(lambda: None)
    assert "owner" in str(caught.value)
    with refused as caught:

        @app.task("a", schedule="@daily")
        def close(order_id: int) -> None: ...

    assert "without arguments" in str(caught.value)
    wrong: list[Any] = [
        "often",
        {"every": 1, "cron": "@daily"},
        {},
        {"every": 0},
        {"cron": "@daily", "tz": "x"},
        {"x": 1},
    ]
    for schedule in wrong:
        with refused:
            app.task("a", schedule=schedule)(lambda: None)
    with refused:
        duly.App(server.url).sync_schedules()
    assert app.tasks == {}


def test_a_schedule_takes_and_gives_the_types_of_python() -> None:
    at = datetime(2026, 11, 23, 12, tzinfo=timezone.utc)
    schedule = duly.Schedule(
        duly.NewJob({"a": 1}, name="n"),
        every=timedelta(minutes=1),
        anchor=at,
        start=at,
        until=at + timedelta(minutes=2),
        count=9,
        jitter=timedelta(seconds=5),
        catch_up=3,
        grace=timedelta(hours=1),
        overlap="replace",
    )
    assert (schedule.every, schedule.anchor, schedule.start) == (60.0, at.timestamp(), at.timestamp())
    assert (schedule.count, schedule.jitter, schedule.grace) == (9, 5.0, 3600.0)
    assert (schedule.catch_up, schedule.overlap, schedule.cron, schedule.tz) == ("3", "replace", None, None)
    assert schedule.next(at - timedelta(days=1)) == [at.timestamp() + seconds for seconds in (0, 60, 120)]
    nightly = duly.Schedule(duly.NewJob(name="n"), cron=" 0 3 * * mon ", tz="europe/berlin")
    assert (nightly.cron, nightly.tz, nightly.catch_up, nightly.until) == (
        "0 3 * * MON",
        "Europe/Berlin",
        "latest",
        None,
    )
    assert nightly == duly.Schedule(duly.NewJob(name="n"), cron="0 3 * * MON", tz="Europe/Berlin")
    assert nightly != schedule
    assert nightly != 1
    assert repr(nightly) == '<duly.Schedule "0 3 * * MON" in Europe/Berlin>'
    wrong: list[dict[str, Any]] = [
        {},
        {"every": "1"},
        {"cron": 1},
        {"every": 1, "catch_up": 1.5},
        {"every": 1, "count": 0},
        {"every": 1, "jitter": 86_401},
    ]
    for arguments in wrong:
        with pytest.raises((duly.InvalidArgumentError, TypeError)):
            duly.Schedule(duly.NewJob(), **arguments)
    with pytest.raises(TypeError):
        duly.Schedule({"a": 1}, every=1)  # type: ignore[arg-type]


def test_asyncio_has_the_same_verbs(server: Server, prefix: str) -> None:
    async def main() -> None:
        async with duly.aio.Client(server.url, prefix=prefix) as client:
            schedules = client.queue("orders").schedules
            nightly = duly.Schedule(duly.NewJob(name="n"), cron="@daily")
            assert await schedules.put("nightly", nightly) == "created"
            assert await schedules.put("nightly", nightly) == "unchanged"
            view = await schedules.get("nightly")
            assert view is not None
            assert view.schedule == nightly
            assert [view.name for view in await schedules.list()] == ["nightly"]
            assert len(await schedules.next("nightly", 3)) == 3
            assert await schedules.pause("nightly")
            assert await schedules.resume("nightly")
            assert (await schedules.run_now("nightly")).startswith("nightly@")
            assert await schedules.fire_due() == 0
            assert (await schedules.sync("shop", {"other": nightly})).created == ["other"]
            assert await schedules.remove("nightly")

    asyncio.run(main())


def test_names_and_lists_of_wrong_types_are_refused(server: Server, prefix: str) -> None:
    schedules = duly.Client(server.url, prefix=prefix).queue("orders").schedules
    nightly = duly.Schedule(duly.NewJob(name="n"), cron="@daily")
    for wrong in ("", "a\n", "x" * 97):
        with pytest.raises(duly.InvalidArgumentError):
            schedules.put(wrong, nightly)
    lists: list[Any] = [[nightly], {"a": 1}, {1: nightly}, None]
    for given in lists:
        with pytest.raises((duly.InvalidArgumentError, TypeError)):
            schedules.sync("shop", given)
    with pytest.raises(duly.NotFoundError):
        schedules.next("nightly")
    until(lambda: schedules.list() == [], "nothing was stored")
