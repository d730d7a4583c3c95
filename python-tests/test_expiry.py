"""Jobs that expire: what Python adds to the rules of conformance/scenarios/expires.json."""

from __future__ import annotations

import logging
import subprocess
import sys
import threading
import time
from datetime import datetime, timedelta, timezone

import duly
import duly.aio
import pytest
from support import Server, running, until


def test_an_expiry_is_a_span_or_a_time(queue: duly.Queue) -> None:
    before = time.time()
    at = datetime.now(timezone.utc) + timedelta(minutes=1)
    given = {"number": 60, "fraction": 60.5, "span": timedelta(minutes=1), "time": at}
    for job_id, expires in given.items():
        queue.push(1, id=job_id, expires=expires)  # type: ignore[arg-type]
        view = queue.find(job_id)
        assert view is not None
        assert view.expires == pytest.approx(before + 60, abs=30)
    assert [job.expires is not None for job in queue.reserve_many(10)] == [True] * 4
    queue.push(1)
    job = queue.reserve()
    assert job is not None
    assert job.expires is None


@pytest.mark.parametrize("expires", ["soon", True, datetime(2100, 1, 1), -1, float("nan"), 0])
def test_what_is_no_time_is_refused(queue: duly.Queue, expires: object) -> None:
    with pytest.raises(duly.InvalidArgumentError, match="expires"):
        queue.push(1, expires=expires)  # type: ignore[arg-type]
    with pytest.raises(duly.InvalidArgumentError, match="expires"):
        duly.NewJob(1, expires=expires).check()  # type: ignore[arg-type]
    assert queue.counts().ready == 0


def test_a_worker_logs_what_it_drops(client: duly.Client, queue: duly.Queue, caplog: pytest.LogCaptureFixture) -> None:
    goes_on = threading.Event()
    ran: list[duly.Job] = []
    worker = duly.Worker(client, ["q"])
    worker.on("first", lambda _job: goes_on.wait(30))
    worker.on("late", ran.append)
    with caplog.at_level(logging.INFO), running(worker):
        queue.push(1, name="first")
        until(lambda: queue.counts().reserved == 1, "it does not run")
        late = queue.push(1, name="late", expires=0.2)
        view = queue.find(late)
        assert view is not None
        expires = view.expires
        assert expires is not None
        until(lambda: time.time() > expires + 0.05, "the time stands still")
        goes_on.set()
        until(lambda: queue.counts().totals.get("expired") == 1, "it is not counted")
    assert not ran
    assert any(late in record.getMessage() and "expired" in record.getMessage() for record in caplog.records)


async def test_an_asyncio_push_takes_it_too(server: Server, prefix: str) -> None:
    async with duly.aio.Client(server.url, prefix=prefix) as client:
        queue = client.queue("q")
        summary = await queue.push_many([duly.NewJob(1, expires=0.05), duly.NewJob(2, expires=timedelta(hours=1))])
        assert summary.created == 2
        await queue.push(3, expires=60)
        jobs = await queue.reserve_many(10)
        assert [job.data for job in jobs if job.data != 1] == [2, 3]
        assert all(job.expires for job in jobs)


def test_a_task_has_an_expiry(server: Server, prefix: str) -> None:
    app = duly.App(server.url, prefix=prefix)

    @app.task("mail.code", expires=60)
    def code(number: int) -> int:
        return number

    found = [code.push(1).find(), code.using(expires=3600).push(2).find()]
    spans = [view.expires - view.pushed_at for view in found if view is not None and view.expires is not None]
    assert spans == [pytest.approx(60, abs=5), pytest.approx(3600, abs=5)]


def test_the_command_pushes_jobs_that_expire(server: Server, prefix: str, queue: duly.Queue) -> None:
    def run(*arguments: str) -> str:
        command = [sys.executable, "-m", "duly", *arguments, "--url", server.url, "--prefix", prefix]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    job_id = run("push", "q", "1", "--expires", "10m").strip()
    assert "expires     2" in run("find", "q", job_id)
    assert "it expires in 59" in run("why", "q", job_id)
    short = run("push", "q", "1", "--expires", "50ms").strip()
    until(lambda: "expired " in run("why", "q", short), "it does not expire")
    assert queue.reserve_many(10)[0].id == job_id
