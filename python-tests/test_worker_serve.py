"""`Worker.serve` in an event loop that its program ends, or in what others cancel: no job pays, and all is closed."""

from __future__ import annotations

import asyncio
import logging
import signal
from typing import Any

import duly
import pytest
from support import StartProgram, until

BEGIN = """\
import asyncio, logging
logging.basicConfig(format="%(message)s")
client = duly.Client(URL, prefix=PREFIX)
worker = duly.Worker(client, ["q"], grace=1, concurrency=2)

@worker.on("n")
async def handle(job):
    print("runs", flush=True)
    await asyncio.sleep(job.data)
"""


@pytest.mark.parametrize("way", ["beside", "within", "alone"])
def test_ctrl_c_charges_no_job(program: StartProgram, queue: duly.Queue, way: str) -> None:
    queue.push(3600, id="a", name="n", max_retries=0)
    served = {
        "beside": "serving = asyncio.create_task(worker.serve()); await asyncio.Event().wait()",
        "within": "await asyncio.gather(worker.serve(), asyncio.sleep(3600))",
        "alone": "await worker.serve()",
    }[way]
    serving = program(f"{BEGIN}\nasync def main():\n    {served}\n\nasyncio.run(main())\n")
    assert serving.line() == "runs"
    serving.process.send_signal(signal.SIGINT)
    _, _, err = serving.end()
    assert "KeyboardInterrupt" in err
    found = queue.find("a")
    assert found is not None
    assert (found.state, found.attempts) == ("ready", 0), (found, err)


def test_a_loop_that_is_closed_stops_the_worker_and_fails_no_job(program: StartProgram, queue: duly.Queue) -> None:
    queue.push(3600, id="runs", name="n", max_retries=0)
    serving = program(f"""{BEGIN}
async def main():
    global serving
    serving = asyncio.ensure_future(worker.serve())
    while not queue.counts().reserved:
        await asyncio.sleep(0.01)

import threading
queue = client.queue("q")
loop = asyncio.new_event_loop()
loop.run_until_complete(main())
loop.close()
queue.push(0, id="comes", name="n", max_retries=0)
for thread in threading.enumerate():
    if thread.name == "duly-worker-serve":
        thread.join(30)
        print("ended", not thread.is_alive())
""")
    assert serving.line() in ("runs", "ended True")
    _, _, err = serving.end()
    assert "the event loop in which `serve` runs was closed: the worker stops" in err
    until(lambda: queue.counts().ready + queue.counts().delayed == 2, f"{queue.counts()} {err}", 30)
    for job_id in ("runs", "comes"):
        found = queue.find(job_id)
        assert found is not None
        assert found.attempts == 0


@pytest.mark.parametrize("way", ["task group", "scope", "cancelled again"])
async def test_a_cancel_scope_of_anyio_asks_once(
    client: duly.Client, queue: duly.Queue, caplog: pytest.LogCaptureFixture, way: str
) -> None:
    anyio = pytest.importorskip("anyio")
    caplog.set_level(logging.INFO)
    worker = duly.Worker(client, ["q"], grace=60)
    said: list[str] = []
    began = asyncio.Event()

    @worker.on(None)
    async def handle(_job: duly.Job) -> None:
        began.set()
        try:
            await asyncio.sleep(3600 if way == "cancelled again" else 0.3)
            said.append("done")
        except asyncio.CancelledError:
            await asyncio.sleep(0.3)
            said.append("cleaned up")
            raise

    @worker.on_stop
    async def disconnect() -> None:
        await asyncio.sleep(0.3)
        said.append("closed")

    async def ask(scope: Any, serving: asyncio.Task[Any]) -> None:
        await asyncio.wait_for(began.wait(), 60)
        scope.cancel()
        if way == "cancelled again":
            await asyncio.to_thread(until, lambda: "the worker stops" in caplog.text, "the worker goes on")
            serving.cancel()

    async def serve(scope: Any) -> None:
        serving = asyncio.current_task()
        assert serving is not None
        asking = asyncio.create_task(ask(scope, serving))
        try:
            await worker.serve()
        finally:
            assert asking.done()

    queue.push(1)
    if way == "scope":
        with anyio.CancelScope() as scope:
            await serve(scope)
        assert scope.cancelled_caught
    else:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(serve, tasks.cancel_scope)
    assert said == ["cleaned up" if way == "cancelled again" else "done", "closed"]


@pytest.mark.parametrize("way", ["task group", "scope"])
async def test_a_scope_that_was_cancelled_before_its_worker_began_asks_it_to_stop(
    client: duly.Client, way: str
) -> None:
    """As by a web server whose start fails behind `start_soon`."""
    anyio = pytest.importorskip("anyio")
    worker = duly.Worker(client, ["q"])
    worker.on(None, lambda _job: None)

    @worker.on_start
    async def connect() -> None:
        await asyncio.sleep(3600)

    if way == "scope":
        with anyio.CancelScope() as scope:
            scope.cancel()
            await worker.serve()
        assert scope.cancelled_caught
    else:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(worker.serve)
            tasks.cancel_scope.cancel()


def test_trio_is_told_what_to_do(client: duly.Client) -> None:
    trio = pytest.importorskip("trio")
    worker = duly.Worker(client, ["q"])
    worker.on(None, lambda _job: None)
    with pytest.raises(RuntimeError, match=r"this is trio: call Worker\.run in a thread"):
        trio.run(worker.serve)
