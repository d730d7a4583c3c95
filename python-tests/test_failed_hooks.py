"""`on_failed` hears of every job that enters `failed`, whatever sent it there."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

import duly
from duly._runs import Runs
from support import running, until

if TYPE_CHECKING:
    import pytest


class Slow(duly.Middleware):
    """A hook that goes on until the test lets it end."""

    def __init__(self) -> None:
        self.begun = threading.Semaphore(0)
        self.may_end = threading.Event()
        self.ended: list[str] = []

    def on_failed(self, job: duly.Job, _error: str) -> None:
        self.begun.release()
        assert self.may_end.wait(60)
        self.ended.append(job.id)


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


def fail_elsewhere(queue: duly.Queue) -> str:
    failed = queue.push({}, name="dead", max_retries=0)
    job = queue.reserve()
    assert job is not None
    job.fail("elsewhere")
    return failed


def test_what_waits_for_a_slow_hook_is_heard_and_logged_by_another_worker(
    client: duly.Client, caplog: pytest.LogCaptureFixture
) -> None:
    queue, slow, recorder = client.queue("orders"), Slow(), Recorder()
    failed = {fail_elsewhere(queue) for _ in range(3)}
    first = duly.Worker(client, ["orders"], middleware=[slow], lease=1)
    first.on("dead", print)
    other = duly.Worker(client, ["orders"], middleware=[recorder], lease=1)
    other.on("dead", print)
    with running(first):
        assert slow.begun.acquire(timeout=60)
        with running(other):
            until(lambda: len(recorder.calls) == 2, "they wait for the hook")
            slow.may_end.set()
            until(lambda: slow.ended, "it did not end")
    lines = [record.__dict__["id"] for record in caplog.records if "failed for good" in record.getMessage()]
    assert sorted(lines) == sorted(failed)


def test_a_hook_that_has_begun_has_the_grace_when_its_worker_stops(
    client: duly.Client, caplog: pytest.LogCaptureFixture
) -> None:
    queue, slow = client.queue("orders"), Slow()
    failed = [fail_elsewhere(queue), fail_elsewhere(queue)]
    worker = duly.Worker(client, ["orders"], middleware=[slow])
    worker.on("dead", print)
    thread = threading.Thread(target=worker.run)
    thread.start()
    assert slow.begun.acquire(timeout=60)
    worker.stop()
    thread.join(1.5)  # longer than what else a stopping worker waits for
    assert thread.is_alive()
    slow.may_end.set()
    thread.join(60)
    assert len(slow.ended) == 1
    assert "goes on behind the grace" not in caplog.text
    recorder = Recorder()
    other = duly.Worker(client, ["orders"], middleware=[recorder])
    other.on("dead", print)
    with running(other):
        until(lambda: recorder.calls, "the other one was not given back")
    assert (len(recorder.calls), len(failed)) == (1, 2)


def test_a_hook_that_does_not_end_has_the_grace_behind_the_last_run(client: duly.Client) -> None:
    queue, slow = client.queue("orders"), Slow()
    failed = fail_elsewhere(queue)
    worker = duly.Worker(client, ["orders"], middleware=[slow], max_jobs=1, grace=0.1)
    worker.on("last", lambda _job: slow.begun.acquire(timeout=60))
    queue.push({}, name="last")
    thread = threading.Thread(target=worker.run)
    thread.start()
    thread.join(30)
    has_ended = not thread.is_alive()
    worker.stop()
    thread.join(60)
    assert has_ended
    slow.may_end.set()
    recorder = Recorder()
    other = duly.Worker(client, ["orders"], middleware=[recorder])
    other.on("dead", print)
    with running(other):
        until(lambda: recorder.calls, "another worker does not call it")
    assert queue.find(failed) is not None


def test_a_hook_that_stops_cut_is_called_however_often(client: duly.Client, caplog: pytest.LogCaptureFixture) -> None:
    queue = client.queue("orders")
    failed = fail_elsewhere(queue)
    slow = Slow()
    for _ in range(4):
        worker = duly.Worker(client, ["orders"], middleware=[slow], grace=0)
        worker.on("dead", print)
        with running(worker):
            assert slow.begun.acquire(timeout=60)
        assert f"the on_failed hook for job {failed} of queue orders goes on behind the grace" in caplog.text
        caplog.clear()
    slow.may_end.set()
    recorder = Recorder()
    last = duly.Worker(client, ["orders"], middleware=[recorder])
    last.on("dead", print)
    with running(last):
        until(lambda: recorder.calls, "the hook was given up")


def test_what_a_run_came_to_stays_though_its_hooks_outlive_the_grace(client: duly.Client) -> None:
    class SlowAfter(Slow):
        def after(self, job: duly.Job) -> None:
            self.on_failed(job, "")

    queue = client.queue("orders")
    for name in ["works", "fails"]:  # a failure that is left would come first
        queue.push(None, id=name, name=name, max_retries=0)
        slow = SlowAfter()
        worker = duly.Worker(client, ["orders"], middleware=[slow], grace=0)
        worker.on("fails", lambda _job: 1 / 0)
        worker.on("works", lambda _job: None)
        with running(worker):
            assert slow.begun.acquire(timeout=60)
        slow.may_end.set()
    failed = queue.find("fails")
    assert failed is not None
    assert (failed.state, failed.attempts, queue.find("works")) == ("failed", 1, None)
    assert queue.counts().totals["acked"] == 1


def test_a_failure_whose_on_failure_hook_outlives_the_timeout_is_logged(
    client: duly.Client, caplog: pytest.LogCaptureFixture
) -> None:
    class SlowOnFailure(duly.Middleware):
        def on_failure(self, job: duly.Job, _failure: duly.Failure) -> None:
            until(lambda: (found := queue.find(job.id)) is not None and found.state == "failed", "it goes on")

    queue = client.queue("orders")
    failed = queue.push(None, name="fails", max_retries=0, timeout=0.2)
    worker = duly.Worker(client, ["orders"], middleware=[SlowOnFailure()])
    worker.on("fails", lambda _job: 1 / 0)
    said = f"job {failed} (fails, attempt 1) of queue orders was interrupted behind its failure: ZeroDivisionError"
    with running(worker):
        until(lambda: said in caplog.text, "its failure is not logged")


class LastRun:
    """Stands in for an executor: notes whether the hooks of the failure were called."""

    def __init__(self) -> None:
        self.heard: list[bool] = []

    def end(self, heard: bool) -> None:
        self.heard.append(heard)


def test_what_was_heard_of_one_job_is_not_said_of_the_next_one_at_its_address(queue: duly.Queue) -> None:
    hooks, executor = Recorder(), LastRun()
    runs = Runs([hooks])
    addresses: set[int] = set()
    for _ in range(200):
        queue.push(1, max_retries=0)
        job = queue.reserve()
        assert job is not None
        if id(job) in addresses:
            runs.settle(executor, job)  # type: ignore[arg-type]
            break
        addresses.add(id(job))
        runs.failed(job, ValueError("no"))  # nobody settles it, as in the tests of a program (duly.testing)
        del job
    assert executor.heard == [False]
    assert len(hooks.calls) == len(addresses)
