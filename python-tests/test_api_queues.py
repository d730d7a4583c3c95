"""Queues by the API: listed, paused, deleted, with partitions; an operator's request whose client goes away."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys

import duly
from api_client import TOKENS, Api, raw
from support import Server, until


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
