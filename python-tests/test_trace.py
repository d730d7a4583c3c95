"""The history of a queue: the life of a job, in Python, on the command line and on the page."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import socket
import subprocess
import sys
from datetime import datetime, timedelta
from urllib.parse import urlencode

import duly
import duly.aio
import pytest
from support import Command, Server, StartProgram, until, way_to
from web_client import HOSTILE, Web


def test_the_life_of_a_job_is_known_when_it_is_gone(orders: duly.Queue) -> None:
    orders.keep_history()
    job_id = orders.push({"order": 42}, delay=0.01, retry=duly.RetryPolicy.fixed(0))
    job = orders.reserve(wait=5)
    assert job is not None
    job.fail("ValueError: no such order")
    job = orders.reserve(wait=5)
    assert job is not None
    trace = orders.trace(job_id)
    assert trace is not None
    assert trace.job is not None
    assert (trace.job.state, trace.job.data, trace.runs[1].outcome) == ("reserved", {"order": 42}, None)
    job.ack()
    trace = orders.trace(job_id)
    assert trace is not None
    assert (trace.id, trace.kept, trace.complete, trace.job) == (job_id, True, True, None)
    expected = ["pushed", "promoted", "reserved", "retried", "reserved", "done"]
    assert [event.what for event in trace.events] == expected
    pushed = trace.events[0]
    assert (pushed.language, pushed.pid, pushed.host) == ("python", os.getpid(), socket.gethostname())
    assert pushed.due is not None
    assert 0.009 < pushed.due - pushed.at < 0.02
    first, second = trace.runs
    assert (first.attempt, first.outcome, first.error_class) == (1, "retried", "ValueError")
    assert (second.attempt, second.outcome, second.token) == (2, "done", job.token)
    assert first.reserved_at == first.started_at
    assert first.ended_at is not None
    assert second.reserved_at is not None
    assert first.ended_at <= second.reserved_at
    assert repr(trace) == f"<duly.Trace of {job_id}: 6 events, 2 runs>"
    assert repr(second) == "<duly.TraceRun 2: done>"
    assert repr(pushed).startswith("<duly.TraceEvent pushed at ")


def test_asyncio_has_the_same(server: Server, prefix: str) -> None:
    async def run() -> None:
        async with duly.aio.Client(server.url, prefix=prefix) as client:
            queue = client.queue("orders")
            await queue.keep_history(10, timedelta(hours=1))
            job_id = await queue.push(1)
            trace = await queue.trace(job_id)
            assert trace is not None
            assert [event.what for event in trace.events] == ["pushed"]
            await queue.keep_history(0)
            trace = await queue.trace(job_id)
            assert trace is not None
            assert not trace.kept
            assert await queue.trace("nobody") is None

    asyncio.run(run())


@pytest.mark.parametrize("wrong", [{"jobs": -1}, {"jobs": 1_000_001}, {"jobs": 1.5}, {"age": 0}, {"age": "1h"}])
def test_bounds_that_make_no_sense_are_refused(orders: duly.Queue, wrong: dict[str, int]) -> None:
    with pytest.raises((duly.InvalidArgumentError, TypeError)):
        orders.keep_history(**wrong)
    orders.push(1)
    assert orders.trace("nobody") is None


WORKER = """
    import os, signal, time
    worker = duly.Worker(duly.Client(URL, prefix=PREFIX), ["orders"], lease=1)

    @worker.on("wait")
    def wait(job):
        time.sleep(0.05)

    @worker.on("fail")
    def fail(job):
        raise KeyError("no such order")

    @worker.on("die")
    def die(job):
        os.kill(os.getpid(), signal.SIGKILL)

    worker.run()
"""


def test_runs_of_workers_are_told_also_of_one_that_was_killed(program: StartProgram, orders: duly.Queue) -> None:
    orders.keep_history()
    first = program(WORKER)
    died = orders.push(1, name="die", max_retries=0)
    assert first.end()[0] == -signal.SIGKILL
    second = program(WORKER)
    done, failed = orders.push(1, name="wait"), orders.push(1, name="fail", max_retries=0)

    def are_over() -> bool:
        counts = orders.counts()
        return counts.ready + counts.reserved + counts.delayed == 0

    until(are_over, "some jobs are left", 30)
    second.process.send_signal(signal.SIGTERM)
    assert second.end()[0] == 0
    (run,) = runs_of(orders, done)
    assert (run.outcome, run.language, run.pid) == ("done", "python", second.process.pid)
    assert run.started_at is not None
    assert run.ended_at is not None
    assert run.ended_at - run.started_at > 0.049
    (run,) = runs_of(orders, failed)
    assert (run.outcome, run.error_class) == ("failed", "KeyError")
    trace = orders.trace(died)
    assert trace is not None
    words = [event.what for event in trace.events]
    assert words == ["pushed", "reserved", "started", "lease_ended", "failed"], words
    (run,) = trace.runs
    assert (run.pid, run.outcome) == (first.process.pid, "lease_ended")
    assert run.started_at is not None
    assert run.error is not None
    assert "worker died" in run.error


def runs_of(queue: duly.Queue, job_id: str) -> list[duly.TraceRun]:
    trace = queue.trace(job_id)
    assert trace is not None
    return trace.runs


def test_the_command_switches_it_and_shows_a_life(duly_command: Command, client: duly.Client) -> None:
    queue = client.queue("orders")
    queue.push(1, id="order-41")
    said = "orders keeps no history: `duly history --on orders` switches it on\n"
    assert duly_command("history", "orders") == (0, said, "")
    status, out, _ = duly_command("trace", "orders", "order-41")
    assert (status, out.splitlines()[1].split()[2]) == (0, "pushed")
    assert "it is ready now, and has failed 0 times" in out
    assert "the queue keeps no history" in out
    status, out, err = duly_command("trace", "orders", "order-42")
    assert (status, out) == (1, "")
    assert "`duly history` says how" in err
    assert duly_command("history", "orders", "--on")[1] == "orders keeps what happens to about 1000 jobs, for 1d 0h\n"
    said = "orders keeps what happens to about 200 jobs, for 1h 30m\n"
    assert duly_command("history", "orders", "--jobs", "200", "--age", "90m")[1] == said
    assert json.loads(duly_command("history", "orders", "--json")[1]) == {"jobs": 200, "age": 5400.0}
    queue.push({"secret": "s3cr3t"}, id="order-42")
    queue.cancel(id="order-41")
    job = queue.reserve()
    assert job is not None
    job.fail("ValueError: \x1b[31mno\nsuch order", final=True)
    status, out, err = duly_command("trace", "orders", "order-42")
    assert (status, err) == (0, "")
    lines = out.splitlines()
    assert lines[0].split() == ["AT", "(UTC)", "WHAT", "MORE", "BY"]
    assert [line.split()[2] for line in lines[1:4]] == ["pushed", "reserved", "failed"]
    assert lines[-1] == "it is failed now, after one run"
    assert "attempt 1, token " in lines[2]
    assert f"python {socket.gethostname()}:{os.getpid()}" in lines[1]
    assert "ValueError:  [31mno such order" in lines[3]
    assert "s3cr3t" not in out
    value = json.loads(duly_command("trace", "orders", "order-42", "--json")[1])
    assert [event["what"] for event in value["events"]] == ["pushed", "reserved", "failed"]
    assert (value["state"], value["kept"]) == ("failed", True)
    assert value["runs"][0]["error_class"] == "ValueError"
    assert value["runs"][0]["outcome"] == "failed"
    out = duly_command("trace", "orders", "order-41")[1]
    assert "it is gone, after no run that is known\nwhat happened before is not kept, or no longer" in out
    assert not json.loads(duly_command("trace", "orders", "order-41", "--json")[1])["complete"]
    assert "longer ago than its history goes" in duly_command("trace", "orders", "order-43")[2]
    assert duly_command("history", "orders", "--off", "--on")[0] == 2
    assert duly_command("history", "orders", "--jobs", "0")[0] == 2
    assert duly_command("history", "orders", "--off")[0] == 0
    assert duly_command("trace", "orders", "order-41")[0] == 1


def test_the_page_of_a_job_shows_what_happened_also_when_it_is_gone(web: Web, orders: duly.Queue) -> None:
    orders.push(1, id="old")
    assert "keeps no history" in web.get("/job?queue=orders&id=old").text
    orders.keep_history()
    orders.push(1, id=HOSTILE)
    orders.cancel(id="old")
    job = orders.reserve()
    assert job is not None
    job.fail(HOSTILE, final=True)
    page = web.get("/job?queue=orders&id=old")
    assert page.status == 200
    assert "cancelled" in page.text
    assert "gone" in page.text
    page = web.get("/job?" + urlencode({"queue": "orders", "id": HOSTILE}))
    assert page.status == 200
    assert "What happened" in page.text
    assert HOSTILE not in page.text
    assert f":{os.getpid()}" in page.text
    chinese = web.ask("GET", "/job?queue=orders&id=old", headers={"Accept-Language": "zh"})
    assert "已取消" in chinese.text
    assert web.get("/job?queue=orders&id=never").status == 404


def test_a_run_whose_beginning_is_no_longer_kept_says_so(orders: duly.Queue) -> None:
    orders.push(1, id="long")
    job = orders.reserve()
    assert job is not None
    orders.keep_history()
    job.ack()
    trace = orders.trace("long")
    assert trace is not None
    assert not trace.complete
    (run,) = trace.runs
    assert (run.attempt, run.token, run.reserved_at, run.outcome) == (None, None, None, "done")
    assert repr(run) == "<duly.TraceRun ?: done>"


def test_the_page_of_a_job_shows_the_newest_of_many_events(web: Web, orders: duly.Queue) -> None:
    orders.push(1, id="before")
    orders.keep_history()
    orders.cancel(id="before")
    assert "is not kept, or no longer" in web.get("/job?queue=orders&id=before").text
    orders.push(1, id="moved", delay=60)
    for _ in range(205):
        orders.reschedule("moved", delay=60)
    text = web.get("/job?queue=orders&id=moved").text
    assert "shows the last 200 events" in text
    assert text.count('class="badge rescheduled"') == 200
    orders.push(1, id="before")
    text = web.get("/job?queue=orders&id=before").text
    assert "There is more" not in text
    assert "no longer" not in text, "a life of its own"


def test_the_page_shows_a_job_whose_history_is_another_programs(
    web: Web, orders: duly.Queue, server: Server, prefix: str
) -> None:
    orders.keep_history()
    orders.push(1, id="a")
    page = web.get("/job?queue=orders&id=a").text
    (when,) = re.findall(r'<time datetime="([^"]*)">\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.', page)
    assert datetime.fromisoformat(when.replace("Z", "+00:00")).tzinfo is not None
    server.cli("DEL", f"{prefix}{{orders}}:history")
    server.cli("SET", f"{prefix}{{orders}}:history", "mine")
    answer = web.get("/job?queue=orders&id=a")
    assert (answer.status, "What happened" in answer.text, "ready" in answer.text) == (200, False, True)
    assert web.get("/job?queue=orders&id=never").status == 404


def test_the_page_switches_a_history_on_and_finds_jobs_that_are_gone(web: Web, orders: duly.Queue) -> None:
    orders.push(1, id="order-41")
    page = "/queue?queue=orders&parts=0"
    assert "is not kept" in web.get(page).text
    assert web.act(page, "keep-history") == "What happens to the jobs of this queue is kept from now on."
    text = web.get(page).text
    assert "about 1,000 jobs" in text
    assert "Keep a history" not in text
    orders.push(1, id="order-42")
    orders.cancel(id="order-41")
    orders.cancel(id="order-42")
    text = web.get("/search?q=order-42").text
    assert "gone" in text
    assert 'href="/job?queue=orders&amp;parts=0&amp;id=order-42"' in text or "id=order-42" in text
    assert "No job has this id" in web.get("/search?q=order-43").text


def test_why_says_in_a_sentence_what_holds_a_job_back_or_how_it_ended(
    duly_command: Command, client: duly.Client, server: Server, prefix: str
) -> None:
    queue = client.queue("orders")
    queue.keep_history()
    queue.push(1, id="a", key="k", delay=60)
    status, out, _ = duly_command("why", "orders", "a")
    assert (status, out.startswith("delayed: waits for its due time, in ")) == (0, True)
    assert json.loads(duly_command("why", "orders", "--key", "k", "--json")[1])["state"] == "delayed"
    queue.cancel(id="a")
    assert duly_command("why", "orders", "a")[1].startswith("gone: cancelled at ")
    # Its ack was by a client that knows of no history.
    queue.push(1, id="c")
    queue.reserve()
    server.cli("HDEL", f"{prefix}{{orders}}:jobs", "c")
    assert duly_command("why", "orders", "c")[1].startswith("gone: nobody noted how; it was reserved at ")
    assert duly_command("why", "orders", "--key", "k")[0] == 1
    assert duly_command("why", "orders", "b")[0] == 1
    assert duly_command("why", "orders")[0] == 2


def test_why_knows_a_job_that_is_pushed_while_it_asks(orders: duly.Queue, server: Server, prefix: str) -> None:
    orders.keep_history()
    with way_to(server, b":history", lambda: orders.push(1, id="a")) as url:
        command = [sys.executable, "-m", "duly", "why", "orders", "a", "--url", url, "--prefix", prefix]
        said = subprocess.run(command, capture_output=True, text=True, check=True)
    assert said.stdout.startswith("ready: "), said
