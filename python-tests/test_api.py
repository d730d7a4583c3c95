"""The JSON API of `duly web --api`. Its description is compared with each answer, and with each body that is taken."""

from __future__ import annotations

import itertools
import json
import os
import re
import select
import socket
import struct
import subprocess
import sys
import threading
import time
from contextlib import closing
from typing import Any

import duly
import pytest
from api_client import DESCRIPTION, METHODS, ROLES, ROOT, TOKENS, Api, StartApi, operations, placed, validator
from jsonschema import Draft202012Validator
from support import Server, empty, running, until

# The life of a job.


def test_a_job_is_pushed_found_reserved_extended_and_done(api: Api, orders: duly.Queue) -> None:
    pushed = api.done("POST", "queues/orders/jobs", {"data": {"order": 42}, "name": "close", "key": "close:42"})
    assert pushed["outcome"] == "created"
    found = api.done("GET", f"queues/orders/jobs/{pushed['id']}")
    assert (found["state"], found["at"], found["data"], found["key"]) == ("ready", None, {"order": 42}, "close:42")
    assert found["why"] == "is ready and waits for a worker"
    assert api.done("GET", "queues/orders/keys/close%3A42") == found

    [job] = api.reserve(lease=5)
    assert (job["id"], job["attempt"], job["attempts"], job["redelivered"]) == (pushed["id"], 1, 0, False)
    assert (job["data"], job["name"], job["max_retries"], job["priority"]) == ({"order": 42}, "close", 5, 5)
    before = api.done("GET", f"queues/orders/jobs/{job['id']}")
    assert before["state"] == "reserved"
    assert api.settle(job, "extend", lease=3600) == {"lease": 3600}
    found = orders.find(job["id"])
    assert found is not None
    assert found.at is not None
    assert found.at - before["at"] > 3000
    assert api.settle(job, "ack") == {"outcome": "done"}
    assert api.refused("GET", f"queues/orders/jobs/{job['id']}") == (404, "not_found")
    assert api.done("GET", "queues/orders")["totals"]["acked"] == 1


def test_a_late_worker_changes_nothing(api: Api, orders: duly.Queue) -> None:
    orders.push(1)
    [job] = api.reserve(lease=0.001)
    until(lambda: orders.reclaim() == 1, "its lease does not end")
    [again] = api.reserve()
    assert again["token"] > job["token"]
    for verb in ("ack", "fail", "release", "extend"):
        answer = api.ask("POST", f"queues/orders/jobs/{job['id']}/{verb}", {"token": job["token"]})
        assert (answer.status, answer.kind, answer.value["error"]["job_id"]) == (409, "lease_lost", job["id"])
        assert answer.message.startswith(f"{verb} on queue 'orders', job '{job['id']}': the lease is lost")
    api.settle(again, "ack")
    assert api.refused("POST", f"queues/orders/jobs/{job['id']}/ack", {"token": again["token"]}) == (409, "lease_lost")


def test_failed_runs_are_retried_fail_for_good_and_are_requeued(api: Api) -> None:
    retry = {"list": {"delays": [0, 60]}}
    api.done("POST", "queues/orders/jobs", {"data": 1, "id": "a b/ä", "max_retries": 2, "retry": retry})
    [job] = api.reserve()
    assert api.settle(job, "fail", error="ValueError: no") == {"outcome": "retry", "after": 0.0, "attempts": 1}
    [job] = api.reserve(wait=5)
    assert (job["attempt"], job["error"], job["returns"]) == (2, "ValueError: no", 1)
    assert api.settle(job, "fail", error="no", retry_after=0)["after"] == 0
    [job] = api.reserve(wait=5)
    assert api.settle(job, "fail", error="timed out") == {"outcome": "failed", "attempts": 3}

    page = api.done("GET", "queues/orders/jobs", state="failed", error="timed")
    assert [(job["id"], job["state"], job["attempts"]) for job in page["jobs"]] == [("a b/ä", "failed", 3)]
    assert (page["cursor"], page["looked_at"]) == (None, 1)
    assert api.done("GET", "queues/orders/jobs", state="failed", name="other")["jobs"] == []
    outcomes = api.done("POST", "queues/orders/requeue", {"ids": ["a b/ä", "gone"]})["jobs"]
    assert outcomes == [{"id": "a b/ä", "outcome": "ready"}, {"id": "gone", "outcome": "absent"}]
    [job] = api.reserve()
    assert job["attempts"] == 0
    assert api.settle(job, "fail", final=True) == {"outcome": "failed", "attempts": 1}


def test_jobs_are_given_back(api: Api) -> None:
    api.done("POST", "queues/orders/jobs", {"data": 1})
    [job] = api.reserve()
    assert api.settle(job, "release") == {"outcome": "released", "after": 0.0}
    [job] = api.reserve()
    assert job["attempts"] == 0
    assert api.settle(job, "release", after=60, reason="busy", counted=True)["attempts"] == 1
    found = api.done("GET", f"queues/orders/jobs/{job['id']}")
    assert (found["state"], found["error"], found["attempts"]) == ("delayed", "busy", 1)


def test_waiting_jobs_are_rescheduled_and_cancelled_by_id_and_by_key(api: Api, orders: duly.Queue) -> None:
    for by, path in (("id", "jobs/close%2F42"), ("key", "keys/k%C3%A4y")):
        orders.push(42, id="close/42", key="käy", delay=1800)
        assert api.done("PATCH", f"queues/orders/{path}", {"at": 4_000_000_000}) == {"id": "close/42"}
        found = api.done("GET", f"queues/orders/{path}")
        assert (found["state"], found["at"]) == ("delayed", 4_000_000_000), by
        answer = api.ask("DELETE", f"queues/orders/{path}", only="ready,failed")
        assert (answer.status, answer.kind, answer.value["error"]["job_state"]) == (409, "not_found", "delayed")
        assert api.done("PATCH", f"queues/orders/{path}", {"delay": 0}) == {"id": "close/42"}
        assert api.done("DELETE", f"queues/orders/{path}", only="ready") == {"id": "close/42", "was": "ready"}
        assert api.refused("DELETE", f"queues/orders/{path}") == (404, "not_found")
        assert api.refused("PATCH", f"queues/orders/{path}", {"delay": 1}) == (404, "not_found")
    orders.push(1, id="held")
    api.reserve()
    assert api.refused("PATCH", "queues/orders/jobs/held", {"delay": 1}) == (409, "not_found")


def test_the_options_of_a_push_are_those_of_python(api: Api, orders: duly.Queue) -> None:
    options: dict[str, Any] = {"name": "close", "id": "42", "key": "close:42", "priority": 2, "max_retries": 7}
    more = {"timeout": 1.5, "expires": 3600, "result_ttl": 60, "headers": {"tenant": "acme"}, "delay": 1800}
    api.done("POST", "queues/orders/jobs", {"data": [1], **options, **more, "retry": {"exponential": {"base": 1}}})
    package = json.loads(orders.peek("delayed")[0].package)
    assert package["retry"] == {"exponential": {"base": 1, "cap": 3600, "jitter": True}}
    ours = api.done("GET", "queues/orders/jobs/42")
    api.done("DELETE", "queues/orders/jobs/42")
    retry = duly.RetryPolicy.exponential(1)
    orders.push([1], **options, **more, retry=retry)  # type: ignore[arg-type]
    theirs = api.done("GET", "queues/orders/jobs/42")
    assert json.loads(orders.peek("delayed")[0].package)["retry"] == package["retry"]
    for moving in ("at", "pushed_at", "why", "expires"):
        assert ours.pop(moving)
        assert theirs.pop(moving)
    assert ours == theirs


def test_data_and_results_stay_byte_for_byte(api: Api, orders: duly.Queue) -> None:
    data = '{"price": 1.0,  "id":9007199254740993, "big":1e400, "text":"\\u00e9é\\ud83d\\ude00", "dup":1,"dup":2}'
    api.done("POST", "queues/orders/jobs", f'{{"result_ttl": 60, "data" : {data} }}'.encode())
    assert orders.peek("ready")[0].raw.decode() == data
    answer = api.ask("POST", "queues/orders/reserve")
    assert f'"data":{data},' in answer.text
    [job] = answer.value["jobs"]
    result = '{"total": 1.50}'
    api.done("POST", f"queues/orders/jobs/{job['id']}/ack", f'{{"token":{job["token"]},"result":{result}}}'.encode())
    assert api.ask("GET", f"queues/orders/jobs/{job['id']}/result").text == f'{{"result":{result}}}'


def test_many_jobs_are_pushed_in_a_request_all_or_none_of_them_wrong(api: Api, orders: duly.Queue) -> None:
    jobs: list[dict[str, Any]] = [{"data": n, "id": f"j{n}"} for n in range(1000)]
    outcomes = api.done("POST", "queues/orders/jobs", {"jobs": jobs})["jobs"]
    assert [(one["id"], one["outcome"]) for one in outcomes] == [(f"j{n}", "created") for n in range(1000)]
    again = [{"id": "j1"}, {"id": "j2", "on_duplicate": "keep"}, {"id": "j3", "on_duplicate": "replace"}, {}]
    outcomes = api.done("POST", "queues/orders/jobs", {"jobs": again})["jobs"]
    assert [one["outcome"] for one in outcomes] == ["duplicate", "kept", "replaced", "created"]
    assert outcomes[2]["replaced"] == "j3"
    assert orders.counts().ready == 1001
    answer = api.ask("POST", "queues/orders/jobs", {"jobs": [{"id": "new"}, {"id": "x", "priority": 11}]})
    assert (answer.status, answer.kind, answer.value["error"]["index"]) == (400, "invalid_argument", 1)
    assert api.refused("POST", "queues/orders/jobs", {"jobs": [{}] * 1001}) == (413, "too_large")
    assert orders.find("new") is None


def test_a_push_with_an_id_may_be_repeated(api: Api, orders: duly.Queue) -> None:
    job = {"data": 1, "id": "42"}
    first = api.ask("POST", "queues/orders/jobs", job)
    assert (first.status, first.value) == (201, {"id": "42", "outcome": "created"})
    answer = api.ask("POST", "queues/orders/jobs", job)
    assert (answer.status, answer.kind, answer.value["error"]["job_id"]) == (409, "duplicate", "42")
    answer = api.ask("POST", "queues/orders/jobs", {**job, "on_duplicate": "keep"})
    assert (answer.status, answer.value) == (200, {"id": "42", "outcome": "kept"})
    answer = api.ask("POST", "queues/orders/jobs", {**job, "on_duplicate": "replace"})
    assert (answer.status, answer.value["replaced"]) == (201, "42")
    assert orders.counts().ready == 1


def test_jobs_are_listed_page_after_page(api: Api, orders: duly.Queue) -> None:
    orders.push_many([duly.NewJob(n, name="even" if n % 2 == 0 else None, delay=n + 60) for n in range(25)])
    seen: list[int] = []
    cursor: dict[str, str] = {}
    while True:
        page = api.done("GET", "queues/orders/jobs", state="delayed", limit=10, **cursor)
        seen += [job["data"] for job in page["jobs"]]
        if page["cursor"] is None:
            break
        cursor = {"cursor": page["cursor"]}
    assert seen == list(range(25))
    assert all(job["at"] > time.time() for job in page["jobs"])
    assert len(api.done("GET", "queues/orders/jobs", state="delayed", unnamed="true")["jobs"]) == 12
    assert len(api.done("GET", "queues/orders/jobs", state="delayed", name="even", priority=5)["jobs"]) == 13
    for wrong in ({}, {"state": "done"}, {"state": "ready", "limit": 0}, {"state": "ready", "cursor": "x"}):
        assert api.refused("GET", "queues/orders/jobs", **wrong) == (400, "invalid_argument"), wrong
    assert api.refused("GET", "queues/orders/jobs", state="ready", nam="x") == (400, "invalid_argument")


def test_queues_are_listed_counted_paused_and_deleted(
    api: Api, client: duly.Client, orders: duly.Queue, server: Server, prefix: str
) -> None:
    orders.push(1)
    client.partitions("clicks", 4).push(1)
    queues = api.done("GET", "queues")["queues"]
    assert [(queue["name"], queue["partitions"]) for queue in queues] == [("clicks", 4), ("orders", 0)]
    first = api.done("GET", "queues", limit=1)
    assert [queue["name"] for queue in first["queues"]] == ["clicks"]
    assert api.done("GET", "queues", limit=1, cursor=first["cursor"])["queues"][0]["name"] == "orders"
    assert api.done("POST", "queues/orders/pause") == {"paused": True}
    counts = api.done("GET", "queues/orders")
    assert (counts["ready"], counts["paused"]) == (1, True)
    assert api.reserve() == []
    assert api.done("POST", "queues/orders/resume") == {"paused": False}
    assert len(api.reserve()) == 1
    assert api.refused("DELETE", "queues/orders", jobs=7) == (400, "invalid_argument")
    assert api.done("DELETE", "queues/orders", jobs=1) == {"jobs": 1}
    assert api.done("GET", "queues/orders")["reserved"] == 0
    assert [queue["name"] for queue in api.done("GET", "queues")["queues"]] == ["clicks"]
    _, err = api.end()
    lines = [line.partition(" api ")[2] for line in err.splitlines()]
    assert [re.sub(r" from \S+:\d+:", ":", line) for line in lines] == [
        "token admin-4: pause queue=orders: done",
        "token admin-4: resume queue=orders: done",
        "token admin-4: delete queue=orders jobs=7: delete on queue 'orders': the queue has a job (ready, delayed, "
        "reserved and failed together), not 7: to remove it with them, give their number as `jobs`; nothing was "
        "removed",
        "token admin-4: delete queue=orders jobs=1: done",
    ]
    shown = [sys.executable, "-m", "duly", "actions", "--json", "--url", server.url, "--prefix", prefix]
    actions = json.loads(subprocess.run(shown, check=True, capture_output=True).stdout)
    assert [action["what"] for action in actions] == [
        "delete queue=orders jobs=1",
        "delete queue=orders jobs=7",
        "resume queue=orders",
        "pause queue=orders",
    ]
    assert all(action["who"].startswith("api token admin-4 from 127.0.0.1") for action in actions)


def test_the_log_says_how_many_jobs_run_again(api: Api, orders: duly.Queue) -> None:
    for id_ in ("a", "b"):
        orders.push(1, id=id_)
    for job in api.reserve(max=2):
        api.settle(job, "fail", error="no", final=True)
    for ids in (["none"], ["a", "none"], ["b"]):
        api.done("POST", "queues/orders/requeue", {"ids": ids})
    _, err = api.end()
    said = ["not done", "done in part (1 job)", "done (1 job)"]
    assert re.findall(r": requeue queue=orders: (.*)", err) == said


def test_what_an_operator_does_goes_on_though_the_client_goes_away(
    api: Api, client: duly.Client, server: Server, prefix: str
) -> None:
    client.partitions("clicks", 64).push(1)

    def paused_parts() -> int:
        paused: int = api.done("GET", "queues/clicks")["paused_parts"]
        return paused

    def noted() -> list[str]:
        shown = [sys.executable, "-m", "duly", "actions", "--json", "--url", server.url, "--prefix", prefix]
        actions = json.loads(subprocess.run(shown, check=True, capture_output=True).stdout)
        return [f"{action['what']}: {action['outcome']}" for action in reversed(actions)]

    def is_done(paused: int) -> None:
        until(lambda: paused_parts() == paused, "it is done in part", 20)

    told: list[str] = []
    for verb, paused in (("pause", 64), ("resume", 0), ("pause", 64), ("resume", 0)):
        request = raw(f"queues/clicks/{verb}", b"").replace(TOKENS["work"].encode(), TOKENS["operate"].encode())
        with socket.create_connection(("127.0.0.1", api.port)) as connection:
            connection.sendall(request)
        is_done(paused)
        told.append(f"{verb} queue=clicks: done")
        until(lambda: noted() == told, f"{verb} is not noted", 20)


def test_a_queue_with_partitions_is_opened_as_the_list_says(api: Api, client: duly.Client) -> None:
    clicks = client.partitions("clicks", 4)
    clicks.push(0)
    for n in range(20):
        api.done("POST", "queues/clicks/jobs", {"data": n, "id": f"own {n}", "key": f"k{n}"})
    assert clicks.counts().ready == 21
    jobs = api.reserve("clicks", max=100)
    assert len(jobs) == 21
    for job in jobs:
        api.settle(job, "ack", queue="clicks")
    assert api.refused("GET", "queues/clicks", partitions=8) == (400, "invalid_argument")
    client.queue("clicks").push(1)
    until(lambda: api.ask("GET", "queues/clicks").status == 400, "the list stays old")
    assert "`partitions=0` or `partitions=4`" in api.ask("GET", "queues/clicks").message
    assert api.done("GET", "queues/clicks", partitions=0)["ready"] == 1
    assert api.done("GET", "queues/clicks", partitions=4)["ready"] == 0


def test_a_queue_that_has_come_since_the_list_was_read_is_opened_as_it_is(api: Api, client: duly.Client) -> None:
    api.done("POST", "queues/orders/jobs", {"data": 1})
    until(lambda: client.queues().queues, "it is not listed")
    api.done("GET", "queues/none")  # the list is read
    clicks = client.partitions("clicks", 4)
    clicks.push(0)
    assert [queue.name for queue in client.queues().queues] == ["clicks", "orders"]
    api.done("POST", "queues/clicks/jobs", {"data": 1})
    assert clicks.counts().ready == 2
    client.queue("clicks").push(1)
    assert len(client.queues().queues) == 3
    assert api.done("GET", "queues/clicks", partitions=0)["ready"] == 1
    # What is on no list is a new queue, without partitions.
    api.done("POST", "queues/new/jobs", {"data": 1})
    assert client.queue("new").counts().ready == 1


def test_a_job_is_settled_also_when_a_second_queue_has_its_name(api: Api, client: duly.Client) -> None:
    twin = client.queue("twin")
    for n in range(5):
        twin.push(n, id=f"job {n}")
    [job, *others] = api.reserve("twin", max=4, lease=60)
    client.partitions("twin", 4).push("other")
    until(lambda: api.ask("GET", "queues/twin").status == 400, "the list stays old")
    assert api.settle(job, "extend", "twin", lease=60) == {"lease": 60}
    assert api.settle(job, "ack", "twin") == {"outcome": "done"}
    assert api.settle(others[0], "fail", "twin", final=True)["outcome"] == "failed"
    assert api.settle(others[1], "release", "twin")["outcome"] == "released"
    assert api.refused("POST", "queues/twin/jobs/job%200/ack", {"token": job["token"]}) == (409, "lease_lost")
    own = {"token": others[2]["token"]}
    assert api.refused("POST", "queues/twin/jobs/job%203/ack", own, partitions=4) == (409, "lease_lost")
    assert api.done("POST", "queues/twin/jobs/job%203/ack", own, partitions=0) == {"outcome": "done"}
    [parted] = api.done("POST", "queues/twin/reserve", {"lease": 60}, partitions=4)["jobs"]
    assert (parted["data"], api.settle(parted, "ack", "twin")) == ("other", {"outcome": "done"})


def test_jobs_are_settled_while_the_list_of_queues_cannot_be_read(
    api: Api, client: duly.Client, orders: duly.Queue, server: Server, prefix: str
) -> None:
    orders.push(1)
    assert [queue.name for queue in client.queues().queues] == ["orders"]
    [job] = api.reserve(lease=60)
    key = f"{prefix}{{queues}}:queues_used"
    server.cli("RENAME", key, f"{key}:aside")
    server.cli("SET", key, "somebody's")
    assert api.refused("GET", "queues/none") == (500, "corrupt")
    assert api.settle(job, "extend", lease=60) == {"lease": 60}
    assert api.settle(job, "ack") == {"outcome": "done"}


def test_the_first_job_of_the_page_runs(api: Api, orders: duly.Queue) -> None:
    page = (ROOT / "docs" / "api.md").read_text("utf-8")
    script = re.findall(r"```sh\n(.*?)```", page, re.DOTALL)[1].replace("127.0.0.1:8420", f"127.0.0.1:{api.port}")
    env = {**os.environ, "DULY_API_TOKEN": TOKENS["work"]}
    ran = subprocess.run(["bash", "-euc", script], env=env, check=True, capture_output=True, text=True)
    pushed, reserved, done = ran.stdout.replace("}{", "}\n{").splitlines()
    assert json.loads(pushed) == {"id": "close-42", "outcome": "created"}
    [job] = json.loads(reserved)["jobs"]
    assert (job["id"], job["data"]) == ("close-42", {"order_id": 42})
    assert json.loads(done) == {"outcome": "done"}
    assert empty(orders)


# Beside other languages.


def test_a_worker_of_python_runs_what_the_api_pushed_and_the_api_gets_its_result(api: Api, client: duly.Client) -> None:
    worker = duly.Worker(client, ["orders"])
    worker.on("total", lambda job: {"total": sum(job.data)})
    with running(worker):
        pushed = api.done("POST", "queues/orders/jobs", {"data": [1, 2, 3], "name": "total", "result_ttl": 60})
        result = api.done("GET", f"queues/orders/jobs/{pushed['id']}/result", wait=20)
    assert result == {"result": {"total": 6}}
    assert api.refused("GET", "queues/orders/jobs/none/result") == (404, "no_result")
    api.done("POST", "queues/orders/jobs", {"id": "bad", "result_ttl": 60, "max_retries": 0})
    api.settle(api.reserve()[0], "fail", error="ValueError: no order\n  at line 7\x1b[2J")
    answer = api.ask("GET", "queues/orders/jobs/bad/result", wait=5)
    assert (answer.status, answer.kind) == (409, "job_failed")
    # One line, as its description says.
    assert r"no order\n  at line 7\u{1b}[2J" in answer.message
    assert answer.message.isprintable()


def test_the_api_runs_what_python_pushed_and_python_gets_its_result(api: Api, orders: duly.Queue) -> None:
    id = orders.push({"n": 20}, name="double", result_ttl=60)  # noqa: A001
    assert api.refused("GET", f"queues/orders/jobs/{id}/result") == (504, "timeout")
    [job] = api.reserve(wait=10)
    api.settle(job, "ack", result={"n": job["data"]["n"] * 2})
    assert orders.wait_result(id, timeout=5) == {"n": 40}


# Waiting for jobs.


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


def raw(path: str, body: bytes, *headers: str) -> bytes:
    head = [
        f"POST /api/v1/{path} HTTP/1.1",
        "Host: x",
        f"Authorization: Bearer {TOKENS['work']}",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
        *headers,
    ]
    return "\r\n".join([*head, "", ""]).encode() + body


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


# Who may come in.


@pytest.mark.parametrize("role", ROLES)
def test_a_role_permits_what_the_description_says_and_no_more(role: str, api: Api) -> None:
    """Each path and method of the description is answered, and by no others than it says."""
    assert {operation["x-duly-role"] for _, _, operation in operations()} == set(ROLES)
    for method, path, operation in operations():
        body = {"wait": 0} if operation["operationId"] == "reserve" else {}
        answer = api.ask(method.upper(), placed(path), body or None, token=TOKENS[role])
        if ROLES.index(role) < ROLES.index(operation["x-duly-role"]):
            assert (answer.status, answer.kind) == (403, "forbidden"), (method, path)
            assert f"the role {role}, and this needs {operation['x-duly-role']}" in answer.message
        elif answer.status >= 400:
            assert answer.kind in ("invalid_argument", "not_found", "no_result", "timeout"), (method, path, answer.text)


def test_the_description_needs_no_token_and_is_the_file(api: Api) -> None:
    answer = api.ask("GET", "openapi.json", token="")
    assert (answer.status, answer.value) == (200, DESCRIPTION)


def test_the_description_is_one_of_openapi() -> None:
    assert DESCRIPTION["openapi"] == "3.1.0"
    schemas = DESCRIPTION["components"]["schemas"]
    for schema in schemas.values():
        Draft202012Validator.check_schema(schema)
    text = json.dumps(DESCRIPTION)
    used = set(re.findall(r'"\$ref": "#/([^"]+)"', text))
    there = {f"components/{kind}/{name}" for kind, all_of in DESCRIPTION["components"].items() for name in all_of}
    assert used == {name for name in there if not name.startswith("components/securitySchemes")}
    ids = [operation["operationId"] for _, _, operation in operations()]
    assert len(ids) == len(set(ids))
    for method, path, operation in operations():
        shared = DESCRIPTION["paths"][path].get("parameters", [])
        named = {one["$ref"].rpartition("/")[2] for one in shared} - {"partitions"}
        assert named == set(re.findall(r"\{(\w+)\}", path)), (method, path)
        assert {"default", "200"} <= operation["responses"].keys()


def test_a_description_that_differs_is_noticed() -> None:
    error = {"error": {"kind": "busy", "message": "m", "transient": True}}
    schema = validator({"$ref": "#/components/schemas/Error"})
    assert schema.is_valid(error)
    assert not schema.is_valid({"error": {**error["error"], "secret": 1}})
    assert not validator({"$ref": "#/components/schemas/Push"}).is_valid({"data": 1, "dely": 2})


def test_without_a_token_or_with_a_wrong_one_nothing_is_answered(api: Api) -> None:
    answer = api.ask("GET", "queues", token="")
    assert (answer.status, answer.kind) == (401, "unauthorized")
    assert answer.headers["www-authenticate"] == 'Bearer realm="duly"'
    assert answer.headers["connection"] == "close"
    for path in ("queues", "queues/orders", "nothing"):
        assert api.refused("GET", path, token=TOKENS["view"][:-1]) == (401, "unauthorized")
    # Who is signed in to the page is nobody here.
    connection = api.connect()
    with closing(connection):
        connection.request("GET", api.page.partition(str(api.port))[2])
        cookie = connection.getresponse().headers["set-cookie"].partition(";")[0]
    assert api.refused("GET", "queues", token="", headers={"Cookie": cookie}) == (401, "unauthorized")
    basic = {"Authorization": f"Basic {TOKENS['admin']}"}
    assert api.refused("GET", "queues", token="", headers=basic) == (401, "unauthorized")
    _, err = api.end()
    assert err.count("a wrong token from 127.0.0.1") == 1, "the same one fills no log"
    assert TOKENS["view"][:-1] not in err


def test_who_guesses_tokens_is_shut_out(api: Api) -> None:
    for n in range(10):
        assert api.refused("GET", "queues", token=f"guess-{n}") == (401, "unauthorized")
    answer = api.ask("GET", "queues", token="guess-10")
    assert (answer.status, answer.kind, answer.headers["retry-after"]) == (429, "too_many_wrong_tokens", "60")
    api.done("GET", "queues", token=TOKENS["admin"])  # others may have the same address


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


def test_a_body_of_very_many_parts_is_refused(api: Api) -> None:
    many = {"jobs": b'{"jobs":[' + b"{}," * 100_000 + b"{}]}", "fields": b"{" + b'"a":1,' * 100_000 + b'"b":1}'}
    for kind, body in many.items():
        answer = api.ask("POST", "queues/orders/jobs", body)
        assert (answer.status, answer.kind) in {(400, "invalid_argument"), (413, "too_large")}, kind
    headers = {f"h{n}": "" for n in range(100)}
    assert api.refused("POST", "queues/orders/jobs", {"data": 1, "headers": headers}) == (400, "invalid_argument")
    ids = b'{"ids":["a"' + b',"b"' * 100_000 + b"]}"
    assert api.refused("POST", "queues/orders/requeue", ids) == (400, "invalid_argument")


def test_a_list_of_jobs_that_is_null_is_left_out(api: Api, orders: duly.Queue) -> None:
    assert api.ask("POST", "queues/orders/jobs", b'{"jobs": null, "data": 1}').status == 201
    job = orders.reserve()
    assert job is not None
    assert job.data == 1


def test_a_token_makes_so_many_requests(start_api: StartApi, server: Server, prefix: str) -> None:
    api = start_api(server.url, prefix, "--api", "--api-rate", "5/10m")
    for _ in range(5):
        assert api.ask("GET", "queues", token=TOKENS["view"]).status == 200
    answer = api.ask("GET", "queues", token=TOKENS["view"])
    assert (answer.status, answer.kind) == (429, "too_many_requests")
    assert 100 <= int(answer.headers["retry-after"]) <= 121
    assert api.ask("GET", "queues", token=TOKENS["work"]).status == 200, "another one has its own"


def test_the_read_only_page_has_an_api_that_acts(start_api: StartApi, server: Server, prefix: str) -> None:
    api = start_api(server.url, prefix, "--api", "--read-only")
    assert api.ask("POST", "queues/orders/jobs", {"data": 1}).status == 201


@pytest.mark.parametrize(
    ("tokens", "says"),
    [
        ("", "--api needs 1 to 1000 tokens in the environment variable DULY_API_TOKENS"),
        ("secretsecretsecretsecret", "DULY_API_TOKENS, entry 1: write it as role:token"),
        (f"view:{'s' * 24} boss:secretsecretsecretsecret", "entry 2: the role must be view, work, operate or admin"),
        ("work:secretsecretsecretsecre", "entry 1: a token has 24 characters or more"),
    ],
)
def test_wrong_tokens_keep_the_command_from_starting(
    tokens: str, says: str, start_api: StartApi, server: Server, prefix: str
) -> None:
    api = start_api(server.url, prefix, tokens=tokens)
    out, err = api.process.communicate(timeout=20)
    assert (api.process.returncode, out) == (2, "")
    assert says in err
    assert "secret" not in err


def test_without_the_option_there_is_no_api(start_api: StartApi, server: Server, prefix: str) -> None:
    api = start_api(server.url, prefix, "--read-only")
    connection = api.connect()
    with closing(connection):
        connection.request("GET", "/api/v1/queues", headers={"Authorization": f"Bearer {TOKENS['admin']}"})
        answer = connection.getresponse()
        assert (answer.status, answer.headers["content-type"]) == (404, "text/plain; charset=utf-8")
    refused = subprocess.run(
        [sys.executable, "-m", "duly", "web", "--api-rate", "5/1s"], capture_output=True, text=True, check=False
    )
    assert (refused.returncode, "--api" in refused.stderr) == (2, True)


# What is hostile, and what is slow.


def test_other_paths_and_methods_are_refused(api: Api) -> None:
    for path in ("", "queues/", "queues/a/b", "queues//jobs", "queues/a/jobs/1/", "queues/a/jobs/1/push", "x"):
        assert api.refused("GET", path) == (404, "no_such_path"), path
    assert api.refused("GET", "queues/a%FF") == (400, "invalid_argument")
    assert api.refused("GET", "queues/a%2Fb") == (400, "invalid_argument"), "no queue has such a name"
    for path, item in DESCRIPTION["paths"].items():
        if path.endswith("openapi.json"):
            continue
        for method in {"get", "post", "patch", "delete", "put", "options"} - item.keys():
            answer = api.ask(method.upper(), placed(path))
            assert (answer.status, answer.kind) == (405, "method_not_allowed"), (method, path)
            allowed = {name.strip().lower() for name in answer.headers["allow"].split(",")}
            assert allowed == {name for name in METHODS if name in item}, (method, path)


DEEP = b"[" * 100_000 + b"]" * 100_000


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"secret", "the body is not JSON (line 1, column 1)"),
        (b'{"data": NaN}', "the body is not JSON (line 1, column 10)"),
        (b'{"data": Infinity}', "the body is not JSON"),
        (b'{"data": 1', "the body is not JSON"),
        (b'{"data": 1} {}', "the body is not JSON"),
        (b'{"data": "\xff"}', "the body is not JSON"),
        (b'\xef\xbb\xbf{"data": 1}', "the body is not JSON"),
        (b"[]", "the body must be a JSON object"),
        (b'"secret"', "the body must be a JSON object"),
        (DEEP, "the body must be a JSON object"),
        (
            b'{"data":' + DEEP + b"}",
            "`data` must be one JSON value in UTF-8, at most 512 levels deep",
        ),
        (
            b'{"headers":' + DEEP + b"}",
            "`headers` must be an object of strings",
        ),
        (b'{"jobs":' + DEEP + b"}", "`jobs[0]` must be a JSON object"),
        (b'{"data": 1, "data": 2}', "`data` is there twice"),
        (b'{"dta": 1}', "`dta` is not known here: `data`, `name`"),
        (b'{"jobs": [], "data": 1}', "`data` is not known here: `jobs` may be given"),
        (b'{"jobs": [{"data": 1}, {"name": 5}]}', "`jobs[1].name` must be a string"),
        (b'{"jobs": {}}', "`jobs` must be a list"),
        (b'{"jobs": []}', "`jobs` must have 1 job or more"),
        (b'{"delay": "5"}', "`delay` must be a number of seconds"),
        (b'{"delay": -1}', "seconds must be 0 or more"),
        (b'{"delay": 1e400}', "`delay` must be a number of seconds"),
        (b'{"delay": 5, "at": 5}', "give `delay` or `at`, not both"),
        (b'{"priority": 5.5}', "`priority` must be a whole number in its range"),
        (b'{"priority": 10}', "priority must be 0 to 9"),
        (b'{"max_retries": -1}', "`max_retries` must be a whole number in its range"),
        (b'{"timeout": 0}', "a timeout must be longer than 0"),
        (b'{"id": ""}', "a job id must have 1 to 128 bytes"),
        (b'{"key": "a\\u0000"}', "a key must have 1 to 256 bytes of UTF-8 and no control characters"),
        (b'{"on_duplicate": "drop"}', "on_duplicate must be"),
        (b'{"durability": "wait"}', "durability"),
        (b'{"retry": {"linear": {"step": 5, "secret": 1}}}', "`retry.linear.secret` is not known here"),
    ],
)
def test_bodies_that_are_wrong_are_refused_with_what_is_wrong(body: bytes, says: str, api: Api) -> None:
    answer = api.ask("POST", "queues/orders/jobs", body)
    assert (answer.status, answer.kind) == (400, "invalid_argument")
    assert says in answer.message
    assert api.done("GET", "queues/orders")["ready"] == 0


def test_wrong_bodies_of_other_requests_are_refused(api: Api) -> None:
    wrong = [
        ("orders/reserve", {"max": 0}),
        ("orders/reserve", {"max": 1001}),
        ("orders/reserve", {"lease": 0}),
        ("orders/reserve", {"lese": 5}),
        ("orders/jobs/1/ack", {}),
        ("orders/jobs/1/ack", {"token": "1"}),
        ("orders/jobs/1/ack", {"token": -1}),
        ("orders/jobs/1/fail", {"token": 1, "final": True, "retry_after": 1}),
        ("orders/jobs/1/fail", {"token": 1, "result": 1}),
        ("orders/jobs/1/release", {"token": 1, "after": -1}),
        ("orders/jobs/1/extend", {"token": 1, "lease": 1e9}),
        ("orders/requeue", {"ids": []}),
        ("orders/requeue", {"ids": [1]}),
        ("a b/reserve", {}),
    ]
    for path, body in wrong:
        path = path.replace(" ", "%20")
        assert api.refused("POST", f"queues/{path}", body) == (400, "invalid_argument"), (path, body)
    assert api.refused("PATCH", "queues/orders/jobs/1", {}) == (400, "invalid_argument")
    assert api.refused("PATCH", "queues/orders/jobs/1", {"delay": 1, "at": 1}) == (400, "invalid_argument")


def test_a_body_is_json_and_not_too_large(api: Api) -> None:
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    assert api.refused("POST", "queues/orders/jobs", b"data=1", headers=form) == (415, "unsupported_media_type")
    with_charset = {"Content-Type": "application/json; charset=utf-8"}
    assert api.ask("POST", "queues/orders/jobs", b'{"data":1}', headers=with_charset).status == 201
    large = json.dumps({"data": "x" * (1 << 20)}).encode()
    assert api.refused("POST", "queues/orders/jobs", large) == (413, "too_large"), "of one job"
    # Fifteen jobs of a megabyte are as much as a request may have.
    many = json.dumps({"jobs": [{"data": "x" * 1_000_000}] * 15}).encode()
    assert len(api.done("POST", "queues/orders/jobs", many)["jobs"]) == 15
    with socket.create_connection(("127.0.0.1", api.port)) as connection:
        head = raw("queues/orders/jobs", b"").replace(b"Content-Length: 0", b"Content-Length: 16777217")
        connection.sendall(head)
        assert b"HTTP/1.1 413 " in connection.recv(1000), "before it is sent"
    with socket.create_connection(("127.0.0.1", api.port)) as connection:
        connection.settimeout(30)
        head = raw("queues/orders/jobs", b"").replace(b"Content-Length: 0", b"Transfer-Encoding: chunked")
        connection.sendall(head)
        with pytest.raises((BrokenPipeError, ConnectionResetError)):
            connection.sendall((b"100000\r\n" + b" " * 0x100000 + b"\r\n") * 64)


def test_nobody_without_a_token_has_a_body_read(api: Api) -> None:
    with socket.create_connection(("127.0.0.1", api.port)) as connection:
        body = b"[" * 1000
        connection.sendall(raw("queues/orders/jobs", body).replace(TOKENS["work"].encode(), b"wrong")[:-500])
        assert b"HTTP/1.1 401 " in connection.recv(1000)


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


# What the server of the queues says.


def test_a_full_queue_says_when_to_come_again(api: Api, orders: duly.Queue) -> None:
    orders.set_limits(max_length=1)
    orders.push(1)
    answer = api.ask("POST", "queues/orders/jobs", {"data": 2})
    assert (answer.status, answer.kind, answer.headers["retry-after"]) == (429, "queue_full", "1")
    assert answer.value["error"]["transient"] is True


def test_a_push_that_is_not_durable_names_its_job(api: Api, orders: duly.Queue) -> None:
    answer = api.ask("POST", "queues/orders/jobs", {"data": 1, "durability": "wait:1"})
    assert (answer.status, answer.kind) == (500, "not_durable")
    found = orders.find(answer.value["error"]["job_id"])
    assert found is not None
    assert found.state == "ready"
    answer = api.ask("POST", "queues/orders/jobs", {"jobs": [{"data": 2}, {"data": 3, "durability": "wait:1"}]})
    assert (answer.status, answer.kind) == (500, "not_durable")
    assert "2 of the 2 jobs of this batch are stored" in answer.message
    assert orders.counts().ready == 3


def test_a_settle_that_did_not_begin_says_so(start_api: StartApi, own_server: Server) -> None:
    api = start_api(own_server.url, "duly:")
    api.done("POST", "queues/orders/jobs", {"data": 1})
    [job] = api.reserve(lease=3600)
    own_server.freeze()
    path = f"queues/orders/jobs/{job['id']}/ack"
    answer = api.ask("POST", path, {"token": job["token"]})
    assert (answer.status, answer.kind) == (503, "unreachable")
    assert answer.message.startswith(f"ack on queue 'orders', job '{job['id']}': "), answer.message
    assert "may have been executed" not in answer.message
    own_server.thaw()
    until(lambda: api.ask("POST", path, {"token": job["token"]}).status == 200, "it is not settled")


def test_an_outage_is_said_and_survived(start_api: StartApi, own_server: Server) -> None:
    api = start_api(own_server.url, "duly:")
    assert api.ask("POST", "queues/orders/jobs", {"data": 1}).status == 201
    own_server.kill()
    answer = api.ask("POST", "queues/orders/jobs", {"data": 1})
    assert (answer.status, answer.kind, answer.value["error"]["transient"]) == (503, "unreachable", True)
    own_server.start()
    until(lambda: api.ask("POST", "queues/orders/jobs", {"data": 1}).status == 201, "it does not come back")


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
