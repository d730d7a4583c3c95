"""Signals while functions of `on_start` and `on_stop` run, what a supervisor hears of them, and what is left behind."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from io import FileIO
from pathlib import Path

import duly
import pytest
from support import Server, StartProgram, running, until

WORKER = """
    import asyncio, logging, os, sys, threading, time
    logging.basicConfig(level="WARNING", format="%(message)s", stream=sys.stdout)
    jobs = duly.Client(URL, prefix=PREFIX).queue("q")
    worker = duly.Worker(duly.Client(URL, prefix=PREFIX), ["q"])
    worker.on(None, lambda job: print("ran", flush=True))

    def wait(what, seconds=60):
        until = time.monotonic() + seconds
        try:
            print(what, "begins", flush=True)
            while time.monotonic() < until:
                time.sleep(0.05)
        finally:
            print(what, "ends", flush=True)

    async def wait_async(what):
        try:
            print(what, "begins", flush=True)
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0.05)
            print(what, "ends", flush=True)
"""
KINDS = {"def": "", "async def": "_async"}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGQUIT])
@pytest.mark.parametrize("kind", KINDS)
def test_a_signal_ends_an_on_start_function(
    program: StartProgram, queue: duly.Queue, kind: str, number: signal.Signals
) -> None:
    code = f"""
    @worker.on_start
    {kind} connect():
        {"await " if KINDS[kind] else ""}wait{KINDS[kind]}("start")

    worker.on_start(lambda: print("never", flush=True))
    worker.on_stop(lambda: print("closed", flush=True))
    print(worker.run().acked, flush=True)
    """
    queue.push(1)
    started = program(WORKER + code)
    assert started.line() == "start begins"
    started.process.send_signal(number)
    said = ["start ends", "the on_start function connect was interrupted: the worker stops", "closed", "0"]
    assert started.ends_well(20).splitlines() == said
    assert queue.counts().ready == 1


@pytest.mark.parametrize("kind", KINDS)
def test_an_on_start_function_that_swallows_the_signal_is_the_last(
    program: StartProgram, queue: duly.Queue, kind: str
) -> None:
    code = f"""
    @worker.on_start
    {kind} connect():
        try:
            {"await " if KINDS[kind] else ""}wait{KINDS[kind]}("start")
        except BaseException:
            print("tries again", flush=True)

    worker.on_stop(lambda: print("closed", flush=True))
    print(worker.run().acked, flush=True)
    """
    queue.push(1)
    started = program(WORKER + code)
    assert started.line() == "start begins"
    started.process.send_signal(signal.SIGTERM)
    said = [
        "start ends",
        "tries again",
        "the on_start function connect was interrupted: the worker stops",
        "closed",
        "0",
    ]
    assert started.ends_well(20).splitlines() == said
    assert queue.counts().ready == 1


@pytest.mark.parametrize("starts", [True, False])
def test_what_no_on_start_function_has_made_is_not_closed(program: StartProgram, starts: bool) -> None:
    code = f"""
    import signal

    new_event_loop = asyncio.new_event_loop

    def new_event_loop_after_a_signal():
        os.kill(os.getpid(), signal.SIGTERM)
        return new_event_loop()

    asyncio.new_event_loop = new_event_loop_after_a_signal
    if {starts}:
        worker.on_start(lambda: print("started", flush=True))

    @worker.on_stop
    async def disconnect():
        print("closed", flush=True)

    print(worker.run().acked, flush=True)
    """
    said = ["0"] if starts else ["closed", "0"]
    assert program(WORKER + code).ends_well(20).splitlines() == said


@pytest.mark.parametrize("swallows", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_a_second_signal_ends_an_on_stop_function(program: StartProgram, kind: str, swallows: bool) -> None:
    code = f"""
    worker.on_stop(lambda: print("closed", flush=True))

    @worker.on_stop
    {kind} disconnect():
        try:
            {"await " if KINDS[kind] else ""}wait{KINDS[kind]}("stop")
        except BaseException:
            {"pass" if swallows else "raise"}

    jobs.push(1)
    worker.run()
    """
    started = program(WORKER + code)
    assert started.line() == "ran"
    started.process.send_signal(signal.SIGTERM)
    assert started.line() == "stop begins"
    started.process.send_signal(signal.SIGTERM)
    why = "the worker was asked again to stop"
    said = ["stop ends", f"the on_stop function disconnect was interrupted: {why}", "closed"]
    assert started.ends_well(20).splitlines() == said


@pytest.mark.parametrize("kind", KINDS)
def test_the_first_signal_ends_no_on_stop_function(program: StartProgram, kind: str) -> None:
    code = f"""
    import duly._lifespan
    duly._lifespan.PATIENCE_S = 0.1
    worker = duly.Worker(duly.Client(URL, prefix=PREFIX), ["q"], max_jobs=1)
    worker.on(None, lambda job: None)
    noted = []
    logging.getLogger("duly.worker").addFilter(lambda record: noted.append(record) or True)

    @worker.on_stop
    {kind} disconnect():
        print("stop begins", flush=True)
        while not noted or not worker._ending.signals:
            {"await asyncio" if KINDS[kind] else "time"}.sleep(0.01)
        print("stop ends", flush=True)

    jobs.push(1)
    worker.run()
    """
    started = program(WORKER + code)
    assert started.line() == "stop begins"
    started.process.send_signal(signal.SIGTERM)
    slow = "the on_stop function disconnect has not ended for 0.1 s: the worker waits for it, or for another signal"
    assert started.ends_well(20).splitlines() == [slow, "stop ends"]


def test_ctrl_c_of_the_functions_own_is_raised(client: duly.Client) -> None:
    def connect() -> None:
        raise KeyboardInterrupt

    worker = duly.Worker(client, ["q"])
    worker.on(None, lambda _job: None)
    worker.on_start(connect)
    with pytest.raises(KeyboardInterrupt):
        worker.run()


def test_a_coroutine_that_outlasts_its_cancellation_is_left_behind(program: StartProgram) -> None:
    code = """
    import duly._lifespan, duly._event_loop
    duly._lifespan.PATIENCE_S = duly._event_loop.PATIENCE_S = 0.1

    @worker.on_start
    async def connect():
        print("start begins", flush=True)
        while True:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                pass

    worker.run()
    print("returned", flush=True)
    os._exit(0)
    """
    started = program(WORKER + code)
    assert started.line() == "start begins"
    started.process.send_signal(signal.SIGTERM)
    said = started.ends_well(20).splitlines()
    assert said == [
        "connect was cancelled and does not end: it is left behind",
        "the on_start function connect was interrupted: the worker stops",
        "tasks that handlers have left on the worker's event loop do not end",
        "returned",
    ]


async def test_a_start_ends_when_serve_is_cancelled(client: duly.Client) -> None:
    worker = duly.Worker(client, ["q"])
    worker.on(None, lambda _job: None)
    began, ended = asyncio.Event(), asyncio.Event()

    @worker.on_start
    async def connect() -> None:
        began.set()
        try:
            await asyncio.sleep(3600)
        finally:
            ended.set()

    serving = asyncio.create_task(worker.serve())
    await asyncio.wait_for(began.wait(), 60)
    serving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(serving, 60)
    assert ended.is_set()


def test_a_task_that_a_handler_has_left_is_cancelled_at_the_end(program: StartProgram) -> None:
    code = """
    @worker.on("leaves")
    async def leaves(job):
        worker.resources.task = asyncio.create_task(wait_async("task"))
        await asyncio.sleep(0)
        worker.stop()

    worker.on_stop(lambda: print("closed", flush=True))
    jobs.push(1, name="leaves")
    worker.run()
    print("returned", flush=True)
    """
    said = program(WORKER + code).ends_well(20).splitlines()
    assert said == ["task begins", "closed", "task ends", "returned"]


SCRIPT = """
import os, sys, time
import duly
folder = {folder!r}
worker = duly.Worker(duly.Client({url!r}, prefix={prefix!r}), ["q"])
worker.on(None, lambda job: print("ran", flush=True))

@worker.on_start
def connect():
    print("start begins", flush=True)
    while not os.path.exists(folder + "/go"):
        time.sleep(0.02)

@worker.on_stop
def disconnect():
    print("closed", flush=True)

worker.run()
"""


@pytest.fixture
def script(server: Server, prefix: str, tmp_path: Path) -> Path:
    file = tmp_path / "worker.py"
    file.write_text(SCRIPT.format(folder=str(tmp_path), url=server.url, prefix=prefix))
    return file


@contextmanager
def supervised(script: Path) -> Iterator[tuple[subprocess.Popen[str], FileIO]]:
    """Start it as a supervisor does; with where it speaks."""
    ours, theirs = os.pipe()
    process = subprocess.Popen(
        [sys.executable, str(script)],
        stdout=subprocess.PIPE,
        text=True,
        pass_fds=[theirs],
        env={**os.environ, "DULY_SUPERVISED": f"{os.getpid()}:{theirs}"},
    )
    os.close(theirs)
    with process, FileIO(ours) as line:
        try:
            yield process, line
        finally:
            process.kill()


def test_a_supervised_worker_is_ready_when_its_on_start_functions_have_run(script: Path) -> None:
    with supervised(script) as (process, line):
        assert process.stdout is not None
        assert process.stdout.readline() == "start begins\n"
        os.set_blocking(line.fileno(), False)
        assert line.read(100) is None, "it has not made what its jobs need"
        os.set_blocking(line.fileno(), True)
        (script.parent / "go").touch()
        assert line.read(100) == b"ready\n"
        process.send_signal(signal.SIGTERM)
        assert (process.stdout.read(), process.wait(60)) == ("closed\n", 0)


def test_a_supervised_worker_with_a_wrong_password_is_never_ready(script: Path) -> None:
    script.write_text(script.read_text().replace("prefix=", "password='wrong', prefix="))
    (script.parent / "go").touch()
    with supervised(script) as (process, line):
        assert line.read(100) == b"fatal\n"
        assert process.wait(60) == 1


def test_a_supervisor_that_is_stopped_ends_an_on_start_function(program: StartProgram, script: Path) -> None:
    code = f"""
    import sys
    sys.exit(duly.Supervisor([sys.executable, "-u", {str(script)!r}], 1, grace=30).run())
    """
    supervisor = program(code)
    assert supervisor.line() == "start begins"
    supervisor.process.send_signal(signal.SIGINT)
    assert supervisor.end(30)[:2] == (0, "closed\n")


def test_two_workers_of_an_app_do_not_share_what_on_start_has_made(server: Server, prefix: str) -> None:
    app = duly.App(server.url, prefix=prefix, queue="q")
    has_begun: list[int] = []

    @app.task("known")
    def known() -> None: ...

    with running(app.worker()), running(app.worker()):
        pass  # nothing is shared yet
    app.on_start(lambda: has_begun.append(os.getpid()))
    with running(app.worker()):
        until(lambda: has_begun, "it does not start")
        with pytest.raises(duly.InvalidArgumentError, match="another worker of this app runs in this process"):
            app.worker().run()
    with running(app.worker()):
        until(lambda: len(has_begun) == 2, "it does not start")


def test_a_handler_that_holds_up_the_loop_does_not_hold_up_the_end(program: StartProgram) -> None:
    code = """
    import socket
    import duly._lifespan, duly._watch
    duly._lifespan.BEGINS_WITHIN_S = duly._watch.PATIENCE_S = 0.1
    worker = duly.Worker(duly.Client(URL, prefix=PREFIX), ["q"], grace=0)
    ours, theirs = socket.socketpair()

    @worker.on(None)
    async def hangs(job):
        print("there", flush=True)
        ours.recv(1)

    @worker.on_stop
    async def disconnect():
        print("never", flush=True)

    worker.on_stop(lambda: print("closed", flush=True))
    jobs.push(1)
    worker.run()
    print("returned", flush=True)
    os._exit(0)
    """
    stopped = program(WORKER + code)
    assert stopped.line() == "there"
    stopped.process.send_signal(signal.SIGTERM)
    lines = stopped.ends_well(20).splitlines()
    assert "disconnect cannot begin, because a handler holds up the worker's event loop: it is left out" in lines
    assert [line for line in lines if line in ("never", "closed", "returned")] == ["closed", "returned"]


def test_what_passes_in_an_on_start_function_ends_its_process_alone(script: Path) -> None:
    begins = 'print("start begins", flush=True)'
    script.write_text(script.read_text().replace(begins, 'raise duly.errors.LockedError("another one migrates")'))
    with supervised(script) as (process, line):
        assert line.read(100) == b"", "it says nothing of the others"
        assert process.wait(60) == 1


def test_a_stop_that_waits_for_a_handler_that_does_not_end_does_not_hold_the_process(program: StartProgram) -> None:
    code = """
    import socket
    import duly._lifespan
    duly._lifespan.STUCK_STOP_S = 0.1
    worker._patience = 0.1  # as `duly worker` has it
    ours, theirs = socket.socketpair()
    worker.on("hangs", lambda job: ours.recv(1))
    worker.on_stop(lambda: threading.Event().wait())
    jobs.push(1, name="hangs", timeout=0.1, max_retries=0)
    worker.run()
    """
    status, out, _ = program(WORKER + code).end(60)
    assert status == 124
    assert "does not end beside a handler that does not: the process ends" in out
