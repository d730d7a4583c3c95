"""The JSON API of `duly web --api`. Its description is compared with each answer, and with each body that is taken."""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
from typing import Any

import duly
from api_client import ROOT, TOKENS, Api, StartApi
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
    assert "all 2 jobs of this batch are pushed" in answer.message
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
