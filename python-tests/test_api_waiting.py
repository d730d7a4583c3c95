"""Requests of the API that wait for a job or a result, and clients that go away meanwhile."""

from __future__ import annotations

import itertools
import re
import select
import socket
import struct
import threading
import time
from typing import Any

import duly
import pytest
from api_client import Api, StartApi, raw
from support import Server, empty, until


def test_a_reserve_waits_for_a_job(api: Api, orders: duly.Queue) -> None:
    began = time.monotonic()
    assert api.reserve(wait=0.5) == []
    assert 0.5 <= time.monotonic() - began < 5
    jobs: list[dict[str, Any]] = []
    waiting = threading.Thread(target=lambda: jobs.extend(api.reserve(wait=20, max=10)))
    waiting.start()
    orders.push(1, delay=0.3)
    waiting.join(15)
    assert [job["data"] for job in jobs] == [1]


def waiters(server: Server) -> int:
    """Count the connections that wait for a wake-up."""
    return len(re.findall(r"cmd=(?:blpop|brpoplpush)\b", server.cli("CLIENT", "LIST"), re.IGNORECASE))


@pytest.mark.parametrize("reset", [False, True], ids=["closed", "reset"])
def test_who_goes_away_while_waiting_leaves_no_job_reserved(
    reset: bool, own_server: Server, start_api: StartApi
) -> None:
    api = start_api(own_server.url, "duly:")
    orders = duly.Client(own_server.url).queue("orders")
    for _ in range(20):
        with socket.create_connection(("127.0.0.1", api.port)) as connection:
            connection.sendall(raw("queues/orders/reserve", b'{"wait": 20, "lease": 3600}'))
            until(lambda: waiters(own_server) > 0, "it does not wait")
            if reset:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        orders.push(1)
        job = orders.reserve(wait=10)
        assert job is not None
        assert (job.attempt, job.redelivered) == (1, False)
        job.ack()


def test_who_has_closed_behind_a_byte_of_the_next_request_leaves_no_job_reserved(
    own_server: Server, start_api: StartApi
) -> None:
    api = start_api(own_server.url, "duly:")
    orders = duly.Client(own_server.url).queue("orders")
    for _ in range(3):
        with socket.create_connection(("127.0.0.1", api.port)) as connection:
            connection.settimeout(10)
            connection.sendall(raw("queues/orders/reserve", b'{"wait": 20, "lease": 3600}') + b"P")
            until(lambda: waiters(own_server) > 0, "it does not wait")
            connection.shutdown(socket.SHUT_WR)
            assert connection.recv(1000).startswith(b"HTTP/1.1 503 ")
        orders.push(1)
        job = orders.reserve(wait=10)
        assert job is not None
        assert (job.attempt, job.redelivered) == (1, False)
        job.ack()


def test_a_job_that_comes_as_its_waiter_goes_is_not_lost(start_api: StartApi, own_server: Server) -> None:
    api = start_api(own_server.url, "duly:")
    orders = duly.Client(own_server.url).queue("orders")
    given_back = 0
    for n in range(100):
        connection = socket.create_connection(("127.0.0.1", api.port))
        connection.sendall(raw("queues/orders/reserve", b'{"wait": 20, "lease": 0.5}'))
        until(lambda: waiters(own_server) > 0, "it does not wait")
        orders.push(n, id=str(n))
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.close()
        # Given back at once; or its lease ends, if the answer was on its way, and that counts.
        job = orders.reserve(wait=30)
        assert job is not None
        assert (job.id, job.attempt) == (str(n), 1 + job.redelivered)
        given_back += not job.redelivered
        job.ack()
    assert empty(orders)
    assert given_back > 0


def test_workers_that_go_away_at_any_moment_lose_no_job(start_api: StartApi, own_server: Server) -> None:
    """Each of several workers goes away now and then: while it waits, while its answer comes, and with a job."""
    apis = [start_api(own_server.url, "duly:") for _ in range(2)]
    orders = duly.Client(own_server.url).queue("orders")
    retry = duly.RetryPolicy.fixed(0)
    is_over = threading.Event()

    def work(number: int) -> None:
        for turn in itertools.count():
            if is_over.is_set():
                return
            # They keep nothing: one of them reserves the job, and the other one takes its ack.
            api, other = apis[turn % 2], apis[1 - turn % 2]
            if (turn + number) % 3 == 0:
                with socket.create_connection(("127.0.0.1", api.port)) as connection:
                    connection.sendall(raw("queues/orders/reserve", b'{"wait": 20, "lease": 1}'))
                    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    if turn % 2:
                        select.select([connection], [], [], 0.1)
                continue
            for job in api.reserve(wait=0.5, lease=1):
                path = f"queues/orders/jobs/{job['id']}/ack"
                # On a slow machine its lease may have ended.
                assert other.ask("POST", path, {"token": job["token"]}).status in (200, 409)

    workers = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for worker in workers:
        worker.start()
    try:
        for n in range(300):
            orders.push(n, max_retries=1000, retry=retry)
        until(lambda: empty(orders), "jobs are left")
    finally:
        is_over.set()
        for worker in workers:
            worker.join(30)
    totals = orders.counts().totals
    assert (totals["pushed"], totals["acked"], totals.get("failed", 0)) == (300, 300, 0)
    assert orders.audit().findings == []


def test_waits_end_with_the_command(api: Api, orders: duly.Queue, server: Server) -> None:
    before = waiters(server)
    answers: list[Any] = []
    result = threading.Thread(target=lambda: answers.append(api.ask("GET", "queues/orders/jobs/later/result", wait=20)))
    orders.push(1, id="later", delay=1000, result_ttl=1)
    waits = [threading.Thread(target=lambda: answers.append(api.ask("POST", "queues/orders/reserve", {"wait": 20})))]
    for thread in (*waits, result):
        thread.start()
    until(lambda: waiters(server) - before >= 2, "they do not wait")
    began = time.monotonic()
    status, err = api.end()
    took = time.monotonic() - began
    for thread in (*waits, result):
        thread.join(10)
    assert (status, err) == (0, "")
    assert took < 2
    said = sorted((answer.status, answer.text) for answer in answers)
    assert said[0] == (200, '{"jobs":[]}')
    assert said[1][0] == 503
    assert answers[0].headers["connection"] == "close"
    orders.push(2)
    job = orders.reserve()
    assert job is not None
    assert job.data == 2


def test_a_wait_is_twenty_seconds_at_most(api: Api) -> None:
    for wait in (20.1, -1, 1e999):
        body = f'{{"wait": {wait if wait < 1e9 else "1e999"}}}'.encode()
        assert api.refused("POST", "queues/orders/reserve", body) == (400, "invalid_argument")
    assert api.refused("GET", "queues/orders/jobs/1/result", wait=21) == (400, "invalid_argument")


def test_as_many_wait_as_may(start_api: StartApi, own_server: Server) -> None:
    api = start_api(own_server.url, "duly:")
    connections = [socket.create_connection(("127.0.0.1", api.port)) for _ in range(256)]
    for connection in connections:
        connection.sendall(raw("queues/orders/reserve", b'{"wait": 20, "max": 1}'))
    until(lambda: api.ask("POST", "queues/orders/reserve", {"wait": 0.01}).status == 503, "more than 256 wait")
    assert api.done("POST", "queues/orders/jobs", {"data": 1})["outcome"] == "created"
    for connection in connections:
        connection.close()
    until(lambda: api.ask("POST", "queues/orders/reserve", {"wait": 0.01}).status == 200, "nobody goes")
