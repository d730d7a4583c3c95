"""Who works on a queue, and how far runs have come."""

from __future__ import annotations

import math
import signal
import socket
import threading
import time

import duly
import duly.aio
import pytest
from support import Server, StartProgram, running, until


def test_a_worker_is_listed_with_what_it_runs_until_it_stops(client: duly.Client, queue: duly.Queue) -> None:
    go_on = threading.Event()
    before = time.time()
    worker = duly.Worker(client, {"q": 2, "other": 1}, concurrency=4, lease=1, name="nightly")
    worker.on("wait", lambda _job: go_on.wait(20))
    with running(worker):
        job_id = queue.push({"secret": 42}, name="wait")
        until(lambda: any(info.running for info in queue.workers()), "nobody says that it runs")
        (info,) = queue.workers()
        assert (info.name, info.language, info.version) == ("nightly", "python", duly.__version__)
        assert (info.host, info.queues, info.concurrency) == (socket.gethostname(), ["q", "other"], 4)
        assert before - 1 < info.started_at < time.time() + 1
        (run,) = info.running
        assert (run.id, run.name) == (job_id, "wait")
        assert info.started_at <= run.started_at + 0.1
        assert "nightly" in repr(info)
        assert job_id in repr(run)
        (elsewhere,) = client.queue("other").workers()
        assert (elsewhere.id, elsewhere.running) == (info.id, [])
        go_on.set()
    assert queue.workers() == []


def test_a_worker_that_is_killed_is_left_out_after_its_time(program: StartProgram, queue: duly.Queue) -> None:
    worker = program("""
        worker = duly.Worker(duly.Client(URL, prefix=PREFIX), ["q"], lease=1)
        worker.on("n", lambda job: None)
        worker.run()
    """)
    until(lambda: queue.workers(), "it is not listed")
    (info,) = queue.workers()
    assert (info.pid, info.name) == (worker.process.pid, None)
    worker.process.send_signal(signal.SIGKILL)
    # With the lease that is usual it would be half a minute.
    until(lambda: not queue.workers(), "it is listed for ever", 20)


def test_a_wrong_name_is_refused(client: duly.Client) -> None:
    for name in ("", "a\nb", "a" * 129):
        with pytest.raises(duly.InvalidArgumentError, match="worker's name"):
            duly.Worker(client, ["q"], name=name)


def test_handlers_tell_how_far_they_are(client: duly.Client, queue: duly.Queue) -> None:
    reported, go_on = threading.Event(), threading.Event()
    worker = duly.Worker(client, ["q"])

    @worker.on("export")
    def export(job: duly.Job) -> None:
        job.progress(0.4, "4 of 10")
        reported.set()
        go_on.wait(20)

    with running(worker):
        job_id = queue.push(1, name="export")
        assert reported.wait(20)
        found = queue.find(job_id)
        assert found is not None
        assert found.progress is not None
        assert (found.progress.fraction, found.progress.text) == (0.4, "4 of 10")
        assert abs(found.progress.at - time.time()) < 60
        (view,) = queue.peek("reserved")
        assert repr(view.progress) == '<duly.Progress 0.4 "4 of 10">'
        go_on.set()
        until(lambda: queue.find(job_id) is None, "it is not done")


def test_progress_that_makes_no_sense_is_refused(queue: duly.Queue) -> None:
    queue.push(1)
    job = queue.reserve()
    assert job is not None
    for wrong in (-0.1, 1.1, math.nan, math.inf):
        with pytest.raises(duly.InvalidArgumentError, match="from 0 to 1"):
            job.progress(wrong)
    for wrong_type in (True, "0.5", None):
        with pytest.raises(duly.InvalidArgumentError, match="from 0 to 1"):
            job.progress(wrong_type)  # type: ignore[arg-type]
    job.progress(1)
    job.ack()
    with pytest.raises(duly.LeaseLostError):
        job.progress(1)


async def test_asyncio_has_the_same_words(server: Server, prefix: str) -> None:
    queue = duly.aio.Client(server.url, prefix=prefix).queue("q")
    job_id = await queue.push(1)
    job = await queue.reserve()
    assert job is not None
    await job.progress(0.5)
    found = await queue.find(job_id)
    assert found is not None
    assert found.progress is not None
    assert (found.progress.fraction, found.progress.text) == (0.5, "")
    with pytest.raises(duly.InvalidArgumentError):
        await job.progress(2)
    assert await queue.workers() == []
