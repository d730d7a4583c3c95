"""The way over from other queues, each with its own library or its own protocol."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import duly
import pytest
from celery import Celery, chain
from support import Server

Bridge = Callable[..., tuple[int, str]]


@pytest.fixture
def bridge(server: Server, prefix: str) -> Bridge:
    def run(mode: str, *arguments: str) -> tuple[int, str]:
        command = [sys.executable, "-m", "duly", "bridge", mode, *arguments, "--url", server.url, "--prefix", prefix]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
        return done.returncode, done.stdout + done.stderr

    return run


@pytest.fixture
def celery(server: Server, prefix: str) -> Celery:
    app = Celery("shop", broker=f"redis+socket://{server.socket}", backend=None)
    app.conf.task_default_queue = "orders"
    app.conf.broker_transport_options = {"global_keyprefix": prefix}
    app.conf.worker_hijack_root_logger = False

    @app.task(name="shop.close")  # type: ignore[untyped-decorator, unused-ignore]
    def close(*args: object, **kwargs: object) -> None:
        """Does nothing."""

    return app


def test_tasks_of_celery_come_over_and_workflows_stay(
    celery: Celery, client: duly.Client, prefix: str, bridge: Bridge
) -> None:
    close = celery.tasks["shop.close"]
    sent = close.apply_async((42,), {"how": "späte"}, headers={"shop": "7"})
    later = close.apply_async((43,), countdown=3600, expires=7200, priority=5, retries=2)
    stay = [
        close.apply_async((1,), link=close.s(2)),
        chain(close.s(1), close.s(2)).apply_async().parent,
        close.apply_async((3,), serializer="pickle"),
        close.apply_async((4,), compression="zlib"),
        close.apply_async((b"bytes",)),
    ]
    options = ["--from", "celery", "--queue", "orders", "--key-prefix", prefix]
    status, said = bridge("dry-run", *options)
    assert status == 0, said
    status, said = bridge("drain", *options)
    assert status == 1, said
    for reason in ("a callback (link)", "a chain", "and not JSON", "is compressed", "no JSON value"):
        assert reason in said, said
    orders = client.queue("orders")
    (ready,) = orders.peek("ready")
    assert (ready.name, ready.data) == ("shop.close", {"args": [42], "kwargs": {"how": "späte"}})
    assert (ready.headers["old-id"], ready.headers["shop"]) == (sent.id, "7")
    (delayed,) = orders.peek("delayed")
    assert (delayed.data["args"], delayed.attempts) == ([43], 2)
    assert (delayed.headers["old-id"], delayed.headers["priority"]) == (later.id, "5")
    assert "expires" in delayed.headers
    # A worker of Celery finds those that stay as they were.
    with celery.connection_for_read() as connection, connection.channel() as channel:
        left = [channel.basic_get("orders", no_ack=True) for _ in stay]
        assert [message.headers["id"] for message in left] == [result.id for result in stay]
        assert channel.basic_get("orders", no_ack=True) is None


def test_what_a_worker_of_celery_has_comes_over_when_its_time_is_over(
    celery: Celery, client: duly.Client, prefix: str, bridge: Bridge
) -> None:
    sent = celery.tasks["shop.close"].apply_async((1,))
    options = ["--from", "celery", "--queue", "orders", "--key-prefix", prefix]
    with celery.connection_for_read() as connection, connection.channel() as channel:
        assert channel.basic_get("orders").headers["id"] == sent.id
        status, said = bridge("drain", *options)
        assert status == 1, said
        assert "1 jobs are with workers of the old queue" in said
        status, said = bridge("drain", *options, "--visibility-timeout", "0")
        assert status == 0, said
    (job,) = client.queue("orders").peek("ready")
    assert job.headers["old-id"] == sent.id
