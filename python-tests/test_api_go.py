"""The client in Go of `examples/go`, and its program, run for real."""

from __future__ import annotations

import http.client
import os
import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import duly
import pytest
from api_client import ROOT, TOKENS, Api
from support import empty, until

SOURCE = ROOT / "examples" / "go" / "duly.go"
GO = shutil.which("go")

pytestmark = pytest.mark.skipif(GO is None, reason="not run: Go is not installed (tools/setup.sh --soak installs it)")


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the example once: `go run` would do the same each time."""
    built = tmp_path_factory.mktemp("go") / "duly"
    subprocess.run([str(GO), "build", "-o", built, SOURCE], check=True)
    return built


def environment(port: int) -> dict[str, str]:
    return {**os.environ, "DULY_API": f"http://127.0.0.1:{port}", "DULY_API_TOKEN": TOKENS["work"]}


@contextmanager
def working(program: Path, port: int) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [program, "work"], env=environment(port), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as worker:
        try:
            yield worker
        finally:
            worker.kill()


def test_it_is_written_as_go_wants_it() -> None:
    assert subprocess.run(["gofmt", "-l", SOURCE], check=True, capture_output=True, text=True).stdout == ""
    subprocess.run([str(GO), "vet", SOURCE], check=True)


def test_what_it_pushes_its_worker_and_others_run(program: Path, api: Api, orders: duly.Queue) -> None:
    for _ in range(2):  # the ids are its own: a second time changes nothing
        ran = subprocess.run(
            [program, "produce"], env=environment(api.port), check=True, capture_output=True, text=True
        )
        assert ran.stdout == "pushed close-42\npushed close-43\npushed close-44\n"
    job = orders.reserve()
    assert job is not None
    assert (job.id, job.name, job.data) == ("close-42", "order.close", {"order_id": 42})
    job.ack()
    with working(program, api.port) as worker:
        until(lambda: empty(orders), "it does not work")
        orders.push({"order_id": 45}, delay=0.1, timeout=10)
        until(lambda: empty(orders), "it does not wait for more")
        worker.terminate()
        out, err = worker.communicate(timeout=20)
    assert (worker.returncode, err) == (0, "")
    assert sorted(out.splitlines()) == [f"closed order {n}" for n in (43, 44, 45)]
    assert orders.counts().totals["acked"] == 4


def test_a_handler_that_fails_fails_its_job(program: Path, api: Api, orders: duly.Queue) -> None:
    orders.push("no order", id="a/b", max_retries=0)
    with working(program, api.port):
        until(lambda: orders.counts().failed == 1, "it does not fail")
    [job] = orders.peek("failed")
    assert (job.id, job.error.startswith("json: cannot unmarshal string")) == ("a/b", True)


def test_a_worker_that_is_killed_while_it_waits_has_no_job(program: Path, api: Api, orders: duly.Queue) -> None:
    with working(program, api.port) as worker:
        orders.push({"order_id": 1})
        until(lambda: orders.counts().totals.get("acked") == 1, "it does not work")
        worker.kill()
        worker.wait()
    orders.push(2)
    job = orders.reserve(wait=10)
    assert job is not None
    assert (job.data, job.redelivered) == (2, False)


@contextmanager
def proxy(api: Api, acks: list[bytes]) -> Iterator[int]:
    """Stand before the API, and answer the first acks with these bodies and status 502 instead."""

    class Between(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            status, text = 502, b""
            if acks and self.path.endswith("/ack"):
                text = acks.pop(0)
            else:
                connection = http.client.HTTPConnection("127.0.0.1", api.port, timeout=60)
                given = {name: self.headers[name] for name in ("Authorization", "Content-Type")}
                connection.request("POST", self.path, body, given)
                answer = connection.getresponse()
                status, text = answer.status, answer.read()
                connection.close()
            self.send_response(status)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Between) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()


def test_an_ack_is_repeated_where_a_proxy_answers_something_else(program: Path, api: Api, orders: duly.Queue) -> None:
    acks = [b'{"error": null}', b"<html>Bad Gateway", b'{"error": {"kind": "busy", "message": "", "transient": true}}']
    with proxy(api, acks) as port, working(program, port) as worker:
        orders.push({"order_id": 7})
        until(lambda: orders.counts().totals.get("acked") == 1, "it is not acked")
        worker.terminate()
        out, err = worker.communicate(timeout=30)
    assert (worker.returncode, out, err, acks) == (0, "closed order 7\n", "", [])
