"""The client in Go of `examples/go`, and its program, run for real."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

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


def environment(api: Api) -> dict[str, str]:
    return {**os.environ, "DULY_API": f"http://127.0.0.1:{api.port}", "DULY_API_TOKEN": TOKENS["work"]}


@contextmanager
def working(program: Path, api: Api) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [program, "work"], env=environment(api), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
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
        ran = subprocess.run([program, "produce"], env=environment(api), check=True, capture_output=True, text=True)
        assert ran.stdout == "pushed close-42\npushed close-43\npushed close-44\n"
    job = orders.reserve()
    assert job is not None
    assert (job.id, job.name, job.data) == ("close-42", "order.close", {"order_id": 42})
    job.ack()
    with working(program, api) as worker:
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
    with working(program, api):
        until(lambda: orders.counts().failed == 1, "it does not fail")
    [job] = orders.peek("failed")
    assert (job.id, job.error.startswith("json: cannot unmarshal string")) == ("a/b", True)


def test_a_worker_that_is_killed_while_it_waits_has_no_job(program: Path, api: Api, orders: duly.Queue) -> None:
    with working(program, api) as worker:
        orders.push({"order_id": 1})
        until(lambda: orders.counts().totals.get("acked") == 1, "it does not work")
        worker.kill()
        worker.wait()
    orders.push(2)
    job = orders.reserve(wait=10)
    assert job is not None
    assert (job.data, job.redelivered) == (2, False)
