"""A server that has lost its data is noticed, and the call is made all the same."""

from __future__ import annotations

import duly
import duly.aio
import pytest
from support import Server, StartProgram, running, until

LOST = "the server has lost what it kept of orders"


def lines(caplog: pytest.LogCaptureFixture, logger: str) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == logger]


def test_a_producer_says_so(own_server: Server, caplog: pytest.LogCaptureFixture) -> None:
    queue = duly.Client(own_server.url).queue("orders")
    queue.push(1)
    queue.push(2)
    assert lines(caplog, "duly.client") == []
    own_server.cli("FLUSHALL")
    queue.push(3)
    until(lambda: len(lines(caplog, "duly.client")) == 1, "it says nothing")
    (line,) = lines(caplog, "duly.client")
    assert line.startswith(LOST), line
    assert (queue.push(4), queue.counts().ready)[1] == 2
    assert len(lines(caplog, "duly.client")) == 1


async def test_one_in_asyncio_says_so(own_server: Server, caplog: pytest.LogCaptureFixture) -> None:
    async with duly.aio.Client(own_server.url) as client:
        queue = client.queue("orders")
        await queue.push(1)
        own_server.cli("FLUSHALL")
        await queue.push(2)
        until(lambda: any(line.startswith(LOST) for line in lines(caplog, "duly.client")), "it says nothing")


def test_a_worker_says_so(own_server: Server, caplog: pytest.LogCaptureFixture) -> None:
    client = duly.Client(own_server.url)
    queue = client.queue("orders")
    worker = duly.Worker(client, ["orders"])

    @worker.on("empty")
    def empty(_: duly.Job) -> None:
        own_server.cli("FLUSHALL")

    queue.push(name="empty")
    with running(worker):
        until(lambda: any(line.startswith(LOST) for line in lines(caplog, "duly.worker")), "it says nothing")


def test_a_program_that_ends_at_once_says_so_and_ends_well(own_program: StartProgram) -> None:
    code = """
        import subprocess
        queue = duly.Client(URL, prefix=PREFIX).queue("orders")
        queue.push(1)
        socket = URL.removeprefix("unix://")
        subprocess.run(["redis-cli", "-s", socket, "FLUSHALL"], stdout=subprocess.DEVNULL, check=True)
        queue.push(2)
    """
    for _ in range(10):
        status, _, said = own_program(code).end()
        assert (status, said.startswith(LOST)) == (0, True), (status, said)
