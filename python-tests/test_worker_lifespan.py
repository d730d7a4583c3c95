"""What a worker makes before its first job, handlers for all other jobs, and a worker inside a running event loop."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import subprocess
import textwrap
import threading
from functools import partial
from pathlib import Path

import duly
import pytest
from support import Server, commands, empty, running, until


def test_resources_are_there_for_each_handler_and_are_closed_behind_the_last(
    client: duly.Client, queue: duly.Queue
) -> None:
    said: list[str] = []
    worker = duly.Worker(client, ["q"], concurrency=2)

    @worker.on_start
    def connect() -> None:
        said.append("connect")
        worker.resources.db = {"orders": 42}

    @worker.on_start
    async def open_session() -> None:
        worker.resources.session = asyncio.get_running_loop()

    @worker.on_stop
    def disconnect() -> None:
        said.append("disconnect")

    @worker.on_stop
    async def close_session() -> None:
        assert asyncio.get_running_loop() is worker.resources.session
        said.append("close session")
        raise ValueError("it was closed")

    @worker.on("plain")
    def plain(_job: duly.Job) -> None:
        said.append(f"plain {worker.resources.db['orders']}")

    @worker.on("coroutine")
    async def coroutine(_job: duly.Job) -> None:
        assert asyncio.get_running_loop() is worker.resources.session
        said.append("coroutine")

    assert worker.on_start(connect) is connect, "once is enough"
    with pytest.raises(AttributeError, match="there is no resource 'db' here: make it in a function"):
        _ = worker.resources.db
    queue.push(1, name="plain")
    queue.push(1, name="coroutine")
    with running(worker):
        until(lambda: empty(queue), "the jobs did not run")
    assert (said[0], sorted(said[1:3]), said[3:]) == (
        "connect",
        ["coroutine", "plain 42"],
        ["close session", "disconnect"],
    )


def test_what_a_start_raises_ends_the_worker_before_a_job_and_all_is_closed(
    client: duly.Client, queue: duly.Queue
) -> None:
    queue.push(1)
    closed: list[int] = []
    worker = duly.Worker(client, ["q"])
    worker.on(None, lambda _job: None)
    worker.on_start(lambda: 1 / 0)
    worker.on_stop(lambda: closed.append(1))
    with pytest.raises(ZeroDivisionError):
        worker.run()
    assert (closed, queue.counts().ready) == ([1], 1)
    for wrong in (1, lambda _job: None):
        with pytest.raises(duly.InvalidArgumentError, match="on_start"):
            worker.on_start(wrong)  # type: ignore[type-var]


def test_a_stop_during_the_start_is_heard(client: duly.Client, queue: duly.Queue) -> None:
    queue.push(1)
    worker = duly.Worker(client, ["q"])
    worker.on(None, lambda _job: None)
    worker.on_start(worker.stop)
    assert worker.run().acked == 0


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("other_is_async", [False, True])
def test_a_catch_all_runs_the_jobs_that_have_no_handler(
    client: duly.Client, queue: duly.Queue, is_async: bool, other_is_async: bool
) -> None:
    ran: list[tuple[str, str | None]] = []

    def note(job: duly.Job) -> None:
        ran.append(("own", job.name))

    async def note_async(job: duly.Job) -> None:
        note(job)

    def other(job: duly.Job) -> None:
        ran.append(("other", job.name))

    async def other_async(job: duly.Job) -> None:
        other(job)

    worker = duly.Worker(client, ["q"], concurrency=2)
    worker.on("own", note_async if is_async else note)
    worker.on("*", other_async if other_is_async else other)
    with pytest.raises(duly.InvalidArgumentError, match="a handler for '\\*' already"):
        worker.on("*", note)
    for name in ("own", "nobody's", None, "own", "*"):
        queue.push(1, name=name)
    with running(worker) as reports:
        until(lambda: empty(queue), "the jobs did not run")
    assert sorted(ran, key=str) == sorted(
        [("own", "own"), ("own", "own"), ("other", "nobody's"), ("other", None), ("other", "*")], key=str
    )
    assert reports[0].acked == 5


def test_an_app_has_starts_and_a_function_for_the_jobs_of_no_task(server: Server, prefix: str) -> None:
    app = duly.App(server.url, prefix=prefix, queue="q")
    said: list[object] = []

    @app.on_start
    def connect() -> None:
        app.resources.db = 42

    @app.on_stop
    def disconnect() -> None:
        said.append("closed")

    @app.task("known")
    def known(number: int) -> None:
        said.append(number + app.resources.db)

    @app.otherwise
    def unknown(job: duly.Job) -> None:
        said.append(job.name)

    with pytest.raises(duly.InvalidArgumentError, match="an app has one"):
        app.otherwise(lambda _job: None)
    with pytest.raises(duly.InvalidArgumentError, match="the job"):
        duly.App(server.url).otherwise(lambda: None)  # type: ignore[type-var]
    known.push(1)
    app.queue().push(1, name="of another program")
    with running(app.worker()):
        until(lambda: empty(app.queue()), "the jobs did not run")
    assert said == [43, "of another program", "closed"]


async def test_a_worker_serves_inside_a_running_loop(client: duly.Client, queue: duly.Queue) -> None:
    here = asyncio.get_running_loop()
    loops: list[object] = []
    worker = duly.Worker(client, ["q"], concurrency=3)

    @worker.on_start
    async def start() -> None:
        loops.append(asyncio.get_running_loop())

    @worker.on("coroutine")
    async def coroutine(_job: duly.Job) -> None:
        loops.append(asyncio.get_running_loop())
        await asyncio.sleep(0.001)

    @worker.on("plain")
    def plain(_job: duly.Job) -> None:
        assert threading.current_thread() is not threading.main_thread()

    serving = asyncio.create_task(worker.serve())
    for name in ("coroutine", "plain") * 20:
        queue.push(1, name=name)
    await asyncio.to_thread(until, lambda: empty(queue), "the jobs did not run")
    assert loops == [here] * 21
    serving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await serving
    assert not queue.workers()
    # And once more, to its end.
    again = asyncio.create_task(worker.serve())
    queue.push(1, name="plain")
    await asyncio.to_thread(until, lambda: empty(queue), "the job did not run")
    worker.stop()
    assert (await asyncio.wait_for(again, 60)).acked == 1


async def test_a_run_of_a_worker_that_is_cancelled_ends_within_the_grace(
    client: duly.Client, queue: duly.Queue, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    worker = duly.Worker(client, ["q"], grace=60)
    began, cancelled = asyncio.Event(), 0

    @worker.on(None)
    async def wait(job: duly.Job) -> None:
        nonlocal cancelled
        began.set()
        try:
            await asyncio.sleep(0.3 if job.data == "short" else 60)
        except asyncio.CancelledError:
            cancelled += 1
            raise

    for data, acked in (("short", True), ("long", False)):
        began.clear()
        queue.push(data)
        serving = asyncio.create_task(worker.serve())
        await asyncio.wait_for(began.wait(), 60)
        serving.cancel()
        if not acked:
            await asyncio.sleep(0.1)
            serving.cancel()  # ends the grace
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(serving, 60)
        assert empty(queue) == acked
    assert cancelled == 1
    assert queue.counts().ready == 1


async def test_what_ends_a_worker_is_raised_by_serve(server: Server, prefix: str) -> None:
    worker = duly.Worker(duly.Client(server.url, prefix=prefix, password="wrong"), ["q"])
    worker.on(None, lambda _job: None)
    with pytest.raises(duly.AuthenticationFailedError):
        await worker.serve()


STOPS = """
    import os, pathlib, signal, time
    import duly

    app = duly.App(os.environ["URL"])

    @app.task
    def note() -> None: ...

    @app.on_start
    def begin() -> None:
        heard = os.open(f"heard-{os.getpid()}", os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NONBLOCK)
        signal.set_wakeup_fd(heard)

    @app.on_stop
    def end() -> None:
        time.sleep(3)  # is what could be cut off
        pathlib.Path(f"ended-{os.getpid()}").touch()
"""


def test_a_stop_behind_two_signals_in_an_outage_is_not_cut_off(own_server: Server, tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(textwrap.dedent(STOPS))
    own_server.freeze()
    with commands(cwd=tmp_path, env={**os.environ, "URL": own_server.url}, stdin=subprocess.DEVNULL) as start:
        worker = start("worker", "shop:app", "-p", "2")

        def have_heard(signals: int) -> bool:
            return [file.stat().st_size for file in tmp_path.glob("heard-*")] == [signals] * 2

        assert worker.stderr is not None
        for _ in range(2):
            assert "serving" in worker.stderr.readline()
        for signals in range(2):
            until(partial(have_heard, signals), f"they have not heard {signals}")
            worker.send_signal(signal.SIGTERM)
        _, said = worker.communicate(timeout=60)
    own_server.thaw()
    assert len(list(tmp_path.glob("ended-*"))) == 2, said
    assert "interrupted" not in said
