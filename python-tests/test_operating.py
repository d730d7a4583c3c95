"""Audits, reserves from several queues, and failures that rewrite the job."""

from __future__ import annotations

import threading
from typing import Any

import duly
import pytest
from support import Server, running, until


def test_an_audit_of_a_sound_queue_is_clean(queue: duly.Queue) -> None:
    queue.push_many(duly.NewJob(n, key=f"k{n}") for n in range(5))
    queue.push("later", delay=60)
    queue.reserve()
    report = queue.audit()
    assert (report.clean, report.findings, report.jobs) == (True, [], 6)
    assert report.entries >= 4
    assert report.pages > 0
    assert report.suspects >= 0


def test_an_audit_finds_what_is_broken_and_repairs_it_on_request(
    queue: duly.Queue, server: Server, prefix: str
) -> None:
    lost = queue.push("lost")
    [ready] = [key for key in server.cli("KEYS", f"{prefix}*ready*").splitlines() if "ready" in key]
    server.cli("DEL", ready)
    report = queue.audit()
    assert not report.clean
    assert [(found.invariant, found.id, found.repaired) for found in report.findings] == [("one_state", lost, False)]
    assert report.findings[0].detail in repr(report.findings[0])
    assert queue.reserve() is None
    report = queue.audit(repair=True)
    assert [found.repaired for found in report.findings] == [True]
    assert repr(report).endswith("1 findings, 1 repaired>")
    assert queue.audit().clean
    job = queue.reserve()
    assert job is not None
    assert job.id == lost


def test_a_list_of_queues_is_a_strict_order(client: duly.Client) -> None:
    client.queue("b").push_many(duly.NewJob(f"b{n}") for n in range(2))
    client.queue("a").push_many(duly.NewJob(f"a{n}") for n in range(2))
    jobs = client.reserve_from(["a", "b"], max=3)
    assert [(job.data, job.queue.name) for job in jobs] == [("a0", "a"), ("a1", "a"), ("b0", "b")]
    for job in jobs:
        job.ack()
    assert [job.data for job in client.reserve_from(iter(["a", "b"]), max=3)] == ["b1"]
    assert client.reserve_from(["a", "b"]) == []


def test_a_mapping_of_queues_gives_weights(client: duly.Client) -> None:
    for name in ("heavy", "light"):
        client.queue(name).push_many(duly.NewJob(name) for _ in range(200))
    first = [client.reserve_from({"light": 1, "heavy": 1000})[0].data for _ in range(50)]
    # The light one comes first once in 1,001 times: more than five times in 50 is out of the question.
    assert first.count("heavy") >= 45
    assert len(client.reserve_from({"light": 1, "heavy": 1000}, max=300)) == 300, "the next queue fills up"


def test_a_wait_ends_when_a_job_comes_to_any_of_the_queues(client: duly.Client) -> None:
    got: list[Any] = []
    thread = threading.Thread(
        target=lambda: got.extend(job.data for job in client.reserve_from(["a", "b"], wait=20, lease=5))
    )
    thread.start()
    client.queue("b").push("here")
    thread.join(20)
    assert got == ["here"]


@pytest.mark.parametrize("queues", ["a", [], {}, ["{"], {"a": 0}, {"a": 1001}, {"a": True}, {"a": "much"}])
def test_wrong_queues_are_refused(client: duly.Client, queues: Any) -> None:
    with pytest.raises(duly.InvalidArgumentError):
        client.reserve_from(queues)


def test_a_worker_takes_weights(client: duly.Client) -> None:
    done: list[str] = []
    worker = duly.Worker(client, {"a": 3, "b": 1})
    worker.on(None, lambda job: done.append(job.data))
    for name in ("a", "b"):
        client.queue(name).push(name)
    with running(worker):
        until(lambda: sorted(done) == ["a", "b"], "a queue is left out")


def test_a_failure_may_rewrite_the_job(queue: duly.Queue) -> None:
    queue.push({"step": 1}, name="n", key="k", max_retries=5)
    job = queue.reserve()
    assert job is not None
    assert job.fail("half done", retry_after=0, data={"step": 2}, attempts=3, max_retries=4) == 0
    assert job.settled
    job = queue.reserve()
    assert job is not None
    assert (job.data, job.attempts, job.max_retries, job.error) == ({"step": 2}, 4, 4, "half done")
    assert (job.name, job.key) == ("n", "k")
    assert job.fail("over", data=None) is None, "its retries are used up"
    [view] = queue.peek("failed")
    assert (view.data, view.raw, view.attempts, view.error) == (None, b"null", 5, "over")


@pytest.mark.parametrize("changes", [{"attempts": -1}, {"max_retries": 1.5}, {"data": {1, 2}}])
def test_a_wrong_rewriting_is_refused_and_the_job_is_still_held(queue: duly.Queue, changes: dict[str, Any]) -> None:
    queue.push("kept")
    job = queue.reserve()
    assert job is not None
    with pytest.raises(duly.InvalidArgumentError):
        job.fail("no", **changes)
    assert not job.settled
    job.ack()


def test_a_failure_hook_changes_what_is_stored(client: duly.Client, queue: duly.Queue) -> None:
    seen: list[tuple[str, BaseException]] = []

    def hook(job: duly.Job, raised: BaseException) -> dict[str, Any] | None:
        seen.append((job.id, raised))
        if job.data == "raises":
            raise RuntimeError("the hook's own")
        changes: dict[str, dict[str, Any]] = {
            "rewritten": {"error": "said so", "data": "new", "attempts": 7, "max_retries": 0},
            "wrong": {"colour": "red"},
            "refused": {"attempts": -1},
        }
        return changes.get(job.data)

    worker = duly.Worker(client, ["q"], on_failure=hook)
    worker.on(None, lambda _job: 1 / 0)
    for data in ("rewritten", "plain", "raises", "wrong", "refused"):
        queue.push(data, max_retries=0)
    with running(worker):
        until(lambda: queue.counts().failed == 5, "jobs are left")
    views = {view.data: view for view in queue.peek("failed")}
    assert set(views) == {"new", "plain", "raises", "wrong", "refused"}
    assert (views["new"].error, views["new"].attempts) == ("said so", 8)
    for data in ("plain", "raises", "wrong", "refused"):
        assert views[data].error.startswith("ZeroDivisionError: "), data
        assert views[data].attempts == 1
    assert len(seen) == 5
    assert all(isinstance(raised, ZeroDivisionError) for _, raised in seen)


def test_a_failure_cannot_store_more_than_a_push(server: Server, prefix: str) -> None:
    queue = duly.Client(server.url, prefix=prefix, max_data_bytes=20, manual_clock=True).queue("q")
    queue.set_clock(1_800_000_000)
    queue.push(1)
    job = queue.reserve(lease=30)
    assert job is not None
    with pytest.raises(duly.TooLargeError):
        job.fail("too much", data="x" * 20)
    assert not job.settled
    job.extend()
    assert queue.counts().next_lease_end_in == 10
    job.ack()


def test_a_failure_hook_must_be_a_plain_function(client: duly.Client) -> None:
    with pytest.raises(duly.InvalidArgumentError):
        duly.Worker(client, ["q"], on_failure="hook")  # type: ignore[arg-type]
