"""Threads that go on when the worker has ended: Python would wait for them for ever."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import duly
import pytest
from support import Server, until

APP = """
    import asyncio, logging, os, threading, time
    import duly

    class Stuck(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            while "the worker has ended" in record.getMessage():
                time.sleep(600)

    if os.environ.get("STUCK"):
        logging.getLogger().addHandler(Stuck())

    app = duly.App(os.environ["URL"], prefix=os.environ["PREFIX"])
    if os.environ.get("REPORTS"):
        threading.Thread(target=time.sleep, args=(600,), name="metrics").start()

    @app.task("quick", queue="orders")
    def quick() -> None:
        pass

    @app.task("query", queue="orders")
    async def query() -> None:
        await asyncio.to_thread(time.sleep, 600)
"""

Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start(server: Server, prefix: str, tmp_path: Path) -> Iterator[Start]:
    (tmp_path / "shop.py").write_text(textwrap.dedent(APP))
    started: list[subprocess.Popen[str]] = []

    def run(*arguments: str, **environment: str) -> subprocess.Popen[str]:
        with (tmp_path / f"said-{len(started)}").open("w") as said:
            process = subprocess.Popen(
                [sys.executable, "-m", "duly", "worker", "shop:app", *arguments],
                cwd=tmp_path,
                env={**os.environ, "URL": server.url, "PREFIX": prefix, **environment},
                stderr=said,
                text=True,
                start_new_session=True,
            )
        started.append(process)
        return started[-1]

    yield run
    for process in started:
        process.kill()
        process.wait()


def left(queue: duly.Queue) -> int:
    counts = queue.counts()
    return counts.ready + counts.reserved


def test_a_process_whose_jobs_are_done_is_replaced_whatever_thread_goes_on(
    start: Start, client: duly.Client, tmp_path: Path
) -> None:
    orders = client.queue("orders")
    for reports in ("", "yes"):
        orders.push({}, name="quick" if reports else "query", max_retries=0, timeout=0.3)
        for _ in range(3):
            orders.push({}, name="quick")
        supervisor = start("--max-jobs", "2", "--grace", "1", REPORTS=reports)
        until(lambda: left(orders) == 0, "another process did not go on")
        supervisor.send_signal(signal.SIGTERM)
        assert supervisor.wait(60) == 0
        said = (tmp_path / f"said-{1 if reports else 0}").read_text()
        thread = "metrics" if reports else "asyncio_0"
        assert re.search(f"the worker has ended, and these threads go on: .*{thread}", said)


def test_a_worker_that_is_stopped_or_fails_ends_whatever_thread_goes_on(start: Start, client: duly.Client) -> None:
    orders = client.queue("orders")
    orders.push({}, name="query", max_retries=5)
    worker = start("--grace", "0.5")
    until(lambda: any(one.running for one in orders.workers()), "it does not run")
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(60) == 142
    failed = start("--lease", "0", REPORTS="yes")
    assert failed.wait(60) == 2


def test_a_worker_that_is_stopped_ends_also_if_its_log_takes_no_line(start: Start, client: duly.Client) -> None:
    orders = client.queue("orders")
    orders.push({}, name="query", max_retries=5)
    worker = start("--grace", "0.5", STUCK="yes")
    until(lambda: any(one.running for one in orders.workers()), "it does not run")
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(60) == 142


@pytest.mark.parametrize(
    ("module", "fake"),
    [
        ("gevent.monkey", SimpleNamespace(is_module_patched=lambda name: name == "threading")),
        ("eventlet.patcher", SimpleNamespace(is_monkey_patched=lambda name: name == "thread")),
    ],
)
def test_a_worker_refuses_to_run_where_threads_are_replaced(
    module: str, fake: object, client: duly.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, fake)
    worker = duly.Worker(client, ["orders"])
    worker.on("quick", print)
    package = module.partition(".")[0]
    with pytest.raises(duly.UnsupportedError, match=f"^{package} has replaced Python's threads"):
        worker.run()
