"""In a notebook: cells run in a process whose main thread has an event loop, and can be interrupted."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from typing import Any

import duly
import pytest
from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.manager import KernelManager, start_new_kernel
from support import Server, empty, until

PATIENCE_S = 30


class Notebook:
    """A kernel, as Jupyter starts one."""

    def __init__(self, server: Server, prefix: str) -> None:
        env = {**os.environ, "URL": server.url, "PREFIX": prefix}
        self.kernel: KernelManager
        self._cells: BlockingKernelClient
        self.kernel, self._cells = start_new_kernel(startup_timeout=PATIENCE_S, env=env)

    def run(self, code: str) -> str:
        """Run a cell to its end and give what it printed."""
        return self.end(self.begin(code))

    def begin(self, code: str) -> str:
        return str(self._cells.execute(code))

    def printed(self) -> str:
        """Wait for the next output of the cell that runs."""
        while True:
            message = self._cells.get_iopub_msg(timeout=PATIENCE_S)
            if message["msg_type"] == "stream":
                return str(message["content"]["text"])

    def end(self, cell: str) -> str:
        """Wait until the cell has ended; gives what it printed, or the name of its error."""
        printed = ""
        while True:
            message: dict[str, Any] = self._cells.get_iopub_msg(timeout=PATIENCE_S)
            if message["parent_header"].get("msg_id") != cell:
                continue
            content = message["content"]
            match message["msg_type"]:
                case "stream":
                    printed += content["text"]
                case "error":
                    printed += content["ename"]
                case "status" if content["execution_state"] == "idle":
                    return printed

    def close(self) -> None:
        self._cells.stop_channels()
        self.kernel.shutdown_kernel(now=True)


@pytest.fixture
def notebook(server: Server, prefix: str) -> Iterator[Notebook]:
    notebook = Notebook(server, prefix)
    said = notebook.run("""
import os, threading
import duly, duly.aio
client = duly.Client(os.environ["URL"], prefix=os.environ["PREFIX"])
queue = client.queue("q")
worker = duly.Worker(client, ["q"])
worker.on("say", lambda job: print(job.data, flush=True))
""")
    assert said == ""
    yield notebook
    notebook.close()


def test_cells_push_and_run_jobs(notebook: Notebook, queue: duly.Queue) -> None:
    # The main thread's loop runs: a blocking call must not mind.
    said = notebook.run("""
queue.push({"order_id": 42})
job = queue.reserve()
print(job.data["order_id"], job.ack())
""")
    assert said == "42 None\n"
    said = notebook.run("""
orders = duly.aio.Client(os.environ["URL"], prefix=os.environ["PREFIX"]).queue("q")
await orders.push(43)
job = await orders.reserve()
print(job.data)
await job.ack()
""")
    assert said == "43\n"
    notebook.run("""
thread = threading.Thread(target=worker.run)
thread.start()
queue.push(44, name="say")
""")
    until(lambda: empty(queue), "the worker does not run beside the cells")
    notebook.run("worker.stop(); thread.join()")


def test_the_interrupt_button_ends_what_waits(notebook: Notebook, queue: duly.Queue) -> None:
    cell = notebook.begin('print("waits", flush=True); queue.reserve(wait=60)')
    assert notebook.printed() == "waits\n"
    began = time.monotonic()
    notebook.kernel.interrupt_kernel()
    assert "KeyboardInterrupt" in notebook.end(cell)
    assert time.monotonic() - began < 10  # and not 60

    queue.push("hello", name="say")
    cell = notebook.begin("print(worker.run())")
    assert notebook.printed() == "hello\n"
    until(lambda: empty(queue), "the job does not end")
    notebook.kernel.interrupt_kernel()
    assert "1 acked" in notebook.end(cell)
    assert notebook.run('print("goes on")') == "goes on\n"
