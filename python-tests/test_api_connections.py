"""Connections to the API: kept, slow, cut off; how much memory their bodies and answers may have."""

from __future__ import annotations

import json
import re
import select
import socket
import time
from contextlib import closing

import duly
from api_client import TOKENS, Api, raw
from support import until


def test_polls_with_bodies_of_unknown_length_hold_nobody_up(api: Api, orders: duly.Queue) -> None:
    polls = [api.connect() for _ in range(12)]
    for poll in polls:
        poll.putrequest("POST", "/api/v1/queues/empty/reserve")
        poll.putheader("Authorization", f"Bearer {TOKENS['work']}")
        poll.putheader("Content-Type", "application/json")
        poll.putheader("Transfer-Encoding", "chunked")
        poll.endheaders()
        poll.send(b'c\r\n{"wait": 20}\r\n0\r\n\r\n')
    orders.push(1, id="a")
    (job,) = api.reserve()
    api.done("POST", "queues/orders/jobs/a/ack", {"token": job["token"]})
    assert not select.select([poll.sock for poll in polls], [], [], 0)[0], "they wait yet"
    for poll in polls:
        poll.close()


def test_a_small_body_of_unknown_length_waits_behind_no_large_ones(api: Api, orders: duly.Queue) -> None:
    orders.push(1, id="a")
    (job,) = api.reserve()
    uploads = [socket.create_connection(("127.0.0.1", api.port)) for _ in range(8)]
    for upload in uploads:
        head = raw("queues/orders/jobs", b"").replace(b"Content-Length: 0", b"Content-Length: 16777216")
        upload.sendall(head + b'{"data":"')
    began = time.monotonic()
    with closing(api.connect()) as connection:
        headers = {"Authorization": f"Bearer {TOKENS['work']}", "Content-Type": "application/json"}
        body = json.dumps({"token": job["token"]}).encode()
        connection.request("POST", "/api/v1/queues/orders/jobs/a/ack", iter([body]), headers)
        assert connection.getresponse().status == 200
    assert time.monotonic() - began < 10
    for upload in uploads:
        upload.close()


def test_pages_that_nobody_takes_have_so_much_memory_and_no_more(api: Api, orders: duly.Queue) -> None:
    orders.push_many([duly.NewJob("x" * 1_000_000) for _ in range(13)])
    head = ["GET /api/v1/queues/orders/jobs?state=ready&limit=1000 HTTP/1.1", "Host: x"]
    request = "\r\n".join([*head, f"Authorization: Bearer {TOKENS['view']}", "", ""]).encode()
    connections = [socket.socket() for _ in range(16)]
    for connection in connections:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.settimeout(60)
        connection.connect(("127.0.0.1", api.port))
        connection.sendall(request)
    statuses = [connection.recv(12) for connection in connections]
    # Each has 8 MiB or more, and all together have 128.
    assert 0 < statuses.count(b"HTTP/1.1 200") < 16
    assert set(statuses) == {b"HTTP/1.1 200", b"HTTP/1.1 503"}
    for connection in connections:
        connection.close()
    until(lambda: api.ask("GET", "queues/orders/jobs?state=ready").status == 200, "the room is not given back", 20)


def test_half_a_body_does_nothing(api: Api, orders: duly.Queue) -> None:
    body = b'{"jobs": [{"data": 1}, {"data": 2}]}'
    with socket.create_connection(("127.0.0.1", api.port)) as connection:
        connection.sendall(raw("queues/orders/jobs", body)[:-10])
    api.done("GET", "queues")
    assert orders.counts().ready == 0


def test_a_connection_is_kept_for_the_next_request_but_not_by_the_page(api: Api) -> None:
    connection = api.connect()
    with closing(connection):
        connection.connect()
        own = connection.sock
        for n in range(20):
            assert api.ask("POST", "queues/orders/jobs", {"data": n}, connection=connection).status == 201
            assert api.ask("GET", "queues/orders/jobs/none", connection=connection).status == 404
            assert api.ask("POST", "queues/orders/jobs", b"no", connection=connection).status == 400
        assert connection.sock is own
        connection.request("GET", "/style.css")
        answer = connection.getresponse()
        answer.read()
        assert (answer.status, answer.headers["connection"]) == (200, "close")


def test_connections_that_rest_make_room_for_others(api: Api) -> None:
    connections = [socket.create_connection(("127.0.0.1", api.port)) for _ in range(512)]
    request = raw("queues/orders/reserve", b"")
    for connection in connections:
        connection.settimeout(30)
        connection.sendall(request)
        assert connection.recv(1000).startswith(b"HTTP/1.1 200 ")
    api.done("GET", "queues")
    assert connections[0].recv(1) == b"", "it has rested for longest"
    connections[-1].sendall(request)
    assert connections[-1].recv(1000).startswith(b"HTTP/1.1 200 ")
    for connection in connections:
        connection.close()


def test_slow_clients_are_cut_off(api: Api) -> None:
    def lasts(connection: socket.socket) -> float:
        began = time.monotonic()
        connection.settimeout(30)
        connection.recv(1)
        return time.monotonic() - began

    with (
        socket.create_connection(("127.0.0.1", api.port)) as silent,
        socket.create_connection(("127.0.0.1", api.port)) as slow,
        socket.create_connection(("127.0.0.1", api.port)) as second,
        socket.create_connection(("127.0.0.1", api.port)) as half,
    ):
        half.sendall(raw("queues/orders/jobs", b'{"data": 1}')[:-1])
        request = raw("queues/orders/reserve", b"")
        second.sendall(request)
        assert b"200 OK" in second.recv(1000)
        # Half a head, after a request that was whole.
        second.sendall(request[:50])
        slow.sendall(request[:50])
        assert 3 < lasts(silent) < 15
        assert lasts(slow) < 5
        assert lasts(second) < 5
        assert b"HTTP/1.1 408 " in half.recv(1000)


def test_requests_on_one_connection_are_answered_in_their_order(api: Api, orders: duly.Queue) -> None:
    orders.push(1)
    with socket.create_connection(("127.0.0.1", api.port)) as connection:
        connection.sendall(raw("queues/orders/reserve", b"") + raw("queues/orders/reserve", b"", "Connection: close"))
        text = b""
        while more := connection.recv(65536):
            text += more
    first, second = (at.start() for at in re.finditer(rb"HTTP/1.1 200 OK", text))
    assert b'"data":1' in text[first:second]
    assert text.endswith(b'{"jobs":[]}')
