"""`Worker.serve` in an event loop that its program ends: no job is charged for that, or fails for a false reason."""

from __future__ import annotations

import signal

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
