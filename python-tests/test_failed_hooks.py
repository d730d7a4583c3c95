"""`on_failed` hears of every job that enters `failed`, whatever sent it there."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

import duly

if TYPE_CHECKING:
    import pytest


class Recorder(duly.Middleware):
    """Notes each call."""

    def __init__(self) -> None:
        self.calls: list[tuple[str | None, object, int, str]] = []

    def on_failed(self, job: duly.Job, error: str) -> None:
        self.calls.append((job.name, job.data, job.attempt, error))


def sleeps(_job: duly.Job) -> None:
    """Go on until it is interrupted."""
    while True:
        time.sleep(0.01)


def test_jobs_that_no_run_here_failed_are_told_of(client: duly.Client, caplog: pytest.LogCaptureFixture) -> None:
    queue = client.queue("orders")
    queue.push("data", name="dead", max_retries=0)
    assert queue.reserve(lease=0.001) is not None
    queue.push("data", name="long", max_retries=0, timeout=0.05)
    queue.push("data", name="bad", max_retries=0)
    queue.push("data", name="own", max_retries=0)
    recorder = Recorder()
    worker = duly.Worker(client, ["orders"], middleware=[recorder])
    worker.on("long", sleeps)
    worker.on("bad", lambda _job: 1 / 0)
    worker.on("own", lambda job: job.fail("its own verb"))
    thread = threading.Thread(target=worker.run)
    with caplog.at_level("INFO", "duly.worker"):
        thread.start()
        until = time.monotonic() + 20
        while len(recorder.calls) < 4 and time.monotonic() < until:
            time.sleep(0.01)
        worker.stop()
        thread.join()
    calls = {call[0]: call for call in recorder.calls}
    assert len(recorder.calls) == 4, recorder.calls
    assert calls["dead"][1:3] == ("data", 1)
    assert "lease ended" in calls["dead"][3]
    assert calls["long"][3] == "ran longer than its timeout of 0.05 s"
    assert "division by zero" in calls["bad"][3]
    assert calls["own"][3] == "its own verb"
    lines = {(record.levelname, getattr(record, "job_name", None)) for record in caplog.records}
    assert {("ERROR", "dead"), ("ERROR", "long"), ("ERROR", "bad"), ("ERROR", "own")} <= lines
    assert not any("data" in record.getMessage() for record in caplog.records)
