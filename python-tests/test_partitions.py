"""A partitioned queue, in both Python APIs. What partitions do is tested in Rust; here it is what comes through."""

from __future__ import annotations

import duly
import duly.aio
import pytest
from support import Server


def test_a_queue_that_is_not_split_has_no_parts(client: duly.Client) -> None:
    assert client.queue("orders").parts == []


def test_the_verbs_of_a_queue_reach_every_part(client: duly.Client) -> None:
    orders = client.partitions("orders", 4)
    assert orders.name == "orders"
    assert [part.name for part in orders.parts] == [f"orders/{n}" for n in range(4)]
    assert repr(orders) == '<duly.Queue "orders", 4 parts>'
    summary = orders.push_many((duly.NewJob(n, key=f"k{n}", max_retries=0) for n in range(40)), ids=True)
    assert summary.ids is not None
    assert summary.created == 40
    assert orders.counts().ready == 40
    assert all(part.counts().ready > 0 for part in orders.parts)
    assert len({view.id for view in orders.peek("ready", offset=5, limit=30)}) == 30
    found = orders.find(key="k7")
    assert found is not None
    assert (found.data, found.id) == (7, summary.ids[7])
    cancelled = orders.cancel(summary.ids[7])
    assert cancelled is not None
    assert orders.reschedule(key="k8", delay=0) == summary.ids[8]
    orders.pause()
    assert orders.reserve() is None
    orders.resume()
    jobs = orders.reserve_many(100, lease=60)
    assert len(jobs) == 39
    assert {job.queue.name for job in jobs} == {part.name for part in orders.parts}
    jobs[0].extend(60)
    jobs[0].fail("no")
    assert orders.ack_many(jobs[1:]) == [True] * 38
    assert jobs[1].settled
    assert [one.outcome for one in orders.requeue(jobs[0].id, "absent")] == ["ready", "absent"]
    job = orders.reserve(wait=1)
    assert job is not None
    job.fail("no")
    assert orders.requeue_all() == 1
    assert (orders.promote(), orders.reclaim()) == (0, 0)
    orders.keep_failed(10, 100)
    assert orders.audit().clean
    assert orders.purge("ready") == 1


async def test_the_asyncio_twin(server: Server, prefix: str) -> None:
    orders = duly.aio.Client(server.url, prefix=prefix).partitions("orders", 3)
    assert [part.name for part in orders.parts] == ["orders/0", "orders/1", "orders/2"]
    assert repr(orders) == '<duly.aio.Queue "orders", 3 parts>'
    summary = await orders.push_many([duly.NewJob(n, key=f"k{n}") for n in range(20)])
    assert summary.created == 20
    found = await orders.find(key="k3")
    assert found is not None
    assert await orders.reschedule(found.id, delay=0) == found.id
    assert await orders.cancel(key="k3") is not None
    jobs = await orders.reserve_many(100)
    assert len(jobs) == 19
    assert {job.queue.name for job in jobs} == {part.name for part in orders.parts}
    await jobs[0].release()
    await jobs[1].queue.ack_many([jobs[1]])
    await orders.ack_many(jobs[2:])
    assert [part for part in orders.parts if (await part.counts()).ready] != []
    job = await orders.reserve(wait=1)
    assert job is not None
    await job.ack()
    assert (await orders.audit()).clean
    totals = (await orders.counts()).totals
    assert totals["acked"] + totals["cancelled"] == 20


def test_a_manual_clock_moves_in_every_part(server: Server, prefix: str) -> None:
    orders = duly.Client(server.url, prefix=prefix, manual_clock=True).partitions("orders", 3)
    orders.set_clock(1_800_000_000)
    orders.push_many(duly.NewJob(n, delay=10) for n in range(9))
    assert orders.reserve() is None
    orders.set_clock(1_800_000_010)
    assert orders.promote() == 9


@pytest.mark.parametrize("count", [0, 257, -1, 2**70])
def test_a_queue_has_1_to_256_parts(client: duly.Client, server: Server, count: int) -> None:
    for one in (client, duly.aio.Client(server.url)):
        with pytest.raises(duly.InvalidArgumentError, match="count must be a whole number from 1 to 256"):
            one.partitions("orders", count)
        with pytest.raises(duly.InvalidArgumentError):
            one.partitions("orders/0", 3)


def test_a_worker_serves_the_parts_and_renews_their_leases(client: duly.Client) -> None:
    orders = client.partitions("orders", 2)
    worker = duly.Worker(client, [part.name for part in orders.parts], lease=1.0)
    seen: list[str] = []
    taken: list[duly.Job | None] = []

    @worker.on(None)
    def note(job: duly.Job) -> None:
        taken.append(job.queue.reserve(wait=1.5))  # ours for the taking, if the lease ended
        seen.append(job.queue.name)
        if len(seen) == 2:
            worker.stop()

    for part in orders.parts:
        part.push(1)
    report = worker.run()
    assert sorted(seen) == ["orders/0", "orders/1"]
    assert taken == [None, None]
    assert (report.acked, report.lost) == (2, 0)
