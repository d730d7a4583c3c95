"""Clients are closed, and give up soon where somebody waits for the answer."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

import duly
import duly.aio
import pytest
from support import Server, StartProgram, cancel, running, until

CLOSED = "the client was closed: make a new one"


def connections(server: Server) -> int:
    """How many there are beside that of the question; one of an earlier question may be among them."""
    return len(server.cli("CLIENT", "LIST").splitlines()) - 1


def waits(server: Server) -> bool:
    return "blocked_clients:1" in server.cli("INFO", "clients")


def test_with_closes_all_connections(own_server: Server) -> None:
    with duly.Client(own_server.url) as client:
        queue = client.queue("q")
        queue.push(1)
        assert queue.reserve() is not None
        waiting = threading.Thread(target=lambda: queue.reserve(wait=20))
        waiting.start()
        until(lambda: waits(own_server), "it does not wait")
        assert connections(own_server) >= 2  # one of them to wait on, which stays for seconds
        queue.push(2)
        waiting.join(20)
    until(lambda: connections(own_server) == 0, "connections are left")
    calls: list[Callable[[], Any]] = [client.ping, lambda: client.queue("q").counts(), queue.counts]
    for call in calls:
        with pytest.raises(duly.InvalidArgumentError, match=CLOSED):
            call()
    client.close()
    duly.Client(own_server.url).close()  # it never had one


async def test_async_with_that_is_cancelled_at_its_end_closes_all_connections(own_server: Server) -> None:
    kept: list[duly.aio.Client] = []

    async def block() -> None:
        async with duly.aio.Client(own_server.url) as client:
            kept.append(client)
            await client.ping()
            cancel()

    for _ in range(5):
        with pytest.raises(asyncio.CancelledError):
            await asyncio.create_task(block())
    until(lambda: connections(own_server) == 0, "connections are left", 20)


async def test_async_with_closes_all_connections(own_server: Server) -> None:
    async with duly.aio.Client(own_server.url) as client:
        queue = client.queue("q")
        await queue.push(1)
        assert await queue.reserve() is not None
        waiting = asyncio.ensure_future(queue.reserve(wait=20))
        await asyncio.to_thread(until, lambda: waits(own_server), "it does not wait")
        assert connections(own_server) >= 2
        await queue.push(2)
        assert await waiting is not None
    until(lambda: connections(own_server) == 0, "connections are left")
    with pytest.raises(duly.InvalidArgumentError, match=CLOSED):
        await client.ping()
    with pytest.raises(duly.InvalidArgumentError, match=CLOSED):
        await queue.counts()
    await client.close()


def test_an_app_is_closed_with_its_clients(own_server: Server) -> None:
    with duly.App(own_server.url) as app:
        app.queue().push(1)
        assert connections(own_server) >= 1
    until(lambda: connections(own_server) == 0, "connections are left")
    with pytest.raises(duly.InvalidArgumentError, match=CLOSED):
        app.queue().push(1)
    app.close()
    with pytest.raises(KeyError), duly.App(own_server.url):
        raise KeyError


async def test_an_app_of_asyncio_code_is_closed_with_both_of_its_clients(own_server: Server) -> None:
    async with duly.App(own_server.url) as app:
        task = app.task("t")(lambda: None)
        await task.apush()
        await asyncio.to_thread(task.push)
        assert connections(own_server) >= 2
    until(lambda: connections(own_server) == 0, "connections are left")
    with pytest.raises(duly.InvalidArgumentError, match=CLOSED):
        await task.apush()
    with pytest.raises(duly.InvalidArgumentError, match=CLOSED):
        task.push()
    await app.aclose()


def test_an_exception_in_with_goes_on(server: Server) -> None:
    with pytest.raises(KeyError), duly.Client(server.url):
        raise KeyError


def test_a_call_that_waits_in_another_thread_ends(own_server: Server) -> None:
    client = duly.Client(own_server.url)
    queue = client.queue("q")
    ended: list[object] = []

    def wait() -> None:
        try:
            ended.append(queue.reserve(wait=60))
        except duly.DulyError as error:
            ended.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    until(lambda: waits(own_server), "it does not wait")
    client.close()
    thread.join(20)
    (error,) = ended
    assert isinstance(error, duly.InvalidArgumentError)
    assert CLOSED in str(error)


def test_a_worker_goes_on_when_its_client_is_closed(server: Server, prefix: str) -> None:
    with duly.Client(server.url, prefix=prefix) as client:
        worker = duly.Worker(client, ["q"])
        worker.on(None, lambda _job: None)
    with pytest.raises(duly.InvalidArgumentError, match=CLOSED):
        worker.run()
    mine, other = (duly.Client(server.url, prefix=prefix) for _ in range(2))
    worker = duly.Worker(mine, ["q"])
    worker.on(None, lambda _job: None)
    queue = other.queue("q")
    with running(worker):
        queue.push(1)
        until(lambda: queue.counts().totals.get("acked") == 1, "it does not run")
        mine.close()
        queue.push(1)
        until(lambda: queue.counts().totals.get("acked") == 2, "it runs no more")


def test_a_forked_child_has_the_closed_client_closed(program: StartProgram) -> None:
    forking = program("""
        import os
        client = duly.Client(URL, prefix=PREFIX)
        client.ping()
        client.close()
        if (child := os.fork()) == 0:
            try:
                client.ping()
            except duly.InvalidArgumentError as error:
                print(error, flush=True)
            os._exit(0)
        os.waitpid(child, 0)
    """)
    assert CLOSED in forking.ends_well()


def test_behind_a_call_that_waited_in_vain_the_next_fail_at_once(own_server: Server) -> None:
    patient = duly.Client(own_server.url, deadline=1.5, fail_fast=False)
    request = duly.Client(own_server.url, deadline=1.5)
    for client in (patient, request):
        client.ping()
    own_server.kill()
    for client in (patient, request):
        with pytest.raises(duly.DulyError) as first:
            client.ping()
        assert "circuit breaker" not in str(first.value)
    for _ in range(100):
        with pytest.raises(duly.UnreachableError, match="circuit breaker open") as next_one:
            request.ping()
        assert next_one.value.transient
    with pytest.raises(duly.DulyError) as still_patient:
        patient.ping()
    assert "circuit breaker" not in str(still_patient.value)
    own_server.start()
    until(lambda: pings(request), "no probe found it")


async def test_asyncio_has_the_breaker_too(own_server: Server) -> None:
    client = duly.aio.Client(own_server.url, deadline=1.5)
    await client.ping()
    own_server.kill()
    with pytest.raises(duly.DulyError):
        await client.ping()
    with pytest.raises(duly.UnreachableError, match="circuit breaker open"):
        await client.ping()


def pings(client: duly.Client) -> bool:
    try:
        client.ping()
    except duly.UnreachableError:
        return False
    return True


PRINTS = """
import os, sys
import duly

first, *others = (duly.Client(sys.argv[1], prefix=sys.argv[2]) for _ in range(3))
first.queue("orders").push(1)
os.close(0)
os.close(1)
for client in others:
    client.queue("orders").push(2)
    for number in (0, 1):
        try:
            os.write(number, b"SET injected yes\\r\\n")
        except OSError:
            pass
    client.queue("orders").push(3)
"""


def test_what_is_printed_to_an_output_that_was_closed_goes_to_no_server(
    server: Server, client: duly.Client, prefix: str
) -> None:
    command = [sys.executable, "-c", PRINTS, server.url, prefix]
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, timeout=60)
    assert client.queue("orders").counts().ready == 5
    assert server.cli("EXISTS", "injected").strip() == "0"


FIRST_CALL = """
import os, sys
import duly

os.closerange(0, 3)
client = duly.Client(sys.argv[1], prefix=sys.argv[2])
client.queue("orders").push(1)
places = [os.readlink(f"/proc/self/fd/{number}") for number in range(3)]
os.write(1, b"order 6\\n")
client.queue("orders").push(places)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="not run: it reads /proc")
def test_an_output_that_was_closed_before_the_first_call_leads_nowhere(
    server: Server, client: duly.Client, prefix: str
) -> None:
    subprocess.run([sys.executable, "-c", FIRST_CALL, server.url, prefix], check=True, timeout=60)
    orders = client.queue("orders")
    assert [job.data for job in orders.reserve_many(2)] == [1, ["/dev/null"] * 3]


SERVES = """
import os, sys
import duly, duly.aio

client = duly.Client(sys.argv[1], prefix=sys.argv[2])
worker = duly.Worker(client, ["orders"], max_jobs=1)

@worker.on("where")
async def where(job):
    places = [os.readlink(f"/proc/self/fd/{number}") for number in range(3)]
    await duly.aio.Client(sys.argv[1], prefix=sys.argv[2]).queue("seen").push(places)

os.closerange(0, 3)
worker.run()
"""
CALLS = """
import asyncio, os, sys
import duly.aio

async def main():
    client = duly.aio.Client(sys.argv[1], prefix=sys.argv[2])
    os.closerange(0, 3)
    await client.ping()
    places = [os.readlink(f"/proc/self/fd/{number}") for number in range(3)]
    await client.queue("seen").push(places)

asyncio.run(main())
"""
SUPERVISES = """
import os, sys
import duly

child = '''
import os, sys
import duly, duly.supervisor
places = [os.readlink(f"/proc/self/fd/{number}") for number in range(3)]
duly.Client(sys.argv[1], prefix=sys.argv[2]).queue("seen").push(places)
duly.supervisor.ready()
os.kill(os.getppid(), 15)
'''
os.closerange(0, 3)
duly.Supervisor([sys.executable, "-c", child, *sys.argv[1:]], 1).run()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="not run: it reads /proc")
@pytest.mark.parametrize("program", [SERVES, CALLS, SUPERVISES], ids=["worker", "asyncio", "supervisor"])
def test_no_loop_and_no_line_has_the_place_of_an_output_that_was_closed(
    program: str, server: Server, client: duly.Client, prefix: str
) -> None:
    client.queue("orders").push(1, name="where")
    subprocess.run([sys.executable, "-c", program, server.url, prefix], check=True, timeout=60)
    [seen] = client.queue("seen").reserve_many(2)
    assert seen.data == ["/dev/null"] * 3
