"""A handler whose C code holds the GIL: no thread of Python runs, and the worker's process ends all the same."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import duly
import pytest
from support import Server, until

APP = """
    import ctypes, os
    import duly

    app = duly.App(os.environ["URL"], prefix=os.environ["PREFIX"])

    @app.task("hold", queue="q", max_retries=0)
    def hold() -> None:
        app.queue("begun").push(1)
        ctypes.PyDLL(None).usleep(60_000_000)
"""


@pytest.fixture
def worker(server: Server, prefix: str, tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    (tmp_path / "shop.py").write_text(textwrap.dedent(APP))
    command = [sys.executable, "-m", "duly", "worker", "shop:app", "--grace", "0.5"]
    environment = {**os.environ, "URL": server.url, "PREFIX": prefix}
    worker = subprocess.Popen(command, cwd=tmp_path, env=environment, stderr=subprocess.PIPE, text=True)
    yield worker
    worker.kill()
    worker.communicate()


def ends_by_itself(worker: subprocess.Popen[str]) -> None:
    _, said = worker.communicate(timeout=30)  # and not 60, the time of the C code
    assert worker.returncode == 124, said
    assert "the handler does not end: this process does, with exit code 124" in said


def test_a_timeout_is_told_and_ends_the_process(worker: subprocess.Popen[str], queue: duly.Queue) -> None:
    job = queue.push({}, name="hold", timeout=0.3, max_retries=0)
    until(lambda: queue.counts().failed == 1, "the timeout is not reported")
    ends_by_itself(worker)
    assert [(view.id, view.error) for view in queue.peek("failed")] == [(job, "ran longer than its timeout of 0.3 s")]


def test_a_signal_is_handled_and_the_job_given_back(
    worker: subprocess.Popen[str], client: duly.Client, queue: duly.Queue
) -> None:
    queue.push({}, name="hold")
    until(lambda: client.queue("begun").reserve(), "it does not begin")
    worker.send_signal(signal.SIGTERM)
    until(lambda: queue.counts().ready == 1, "the job is not given back")
    ends_by_itself(worker)
    assert queue.counts().ready == 1
