"""Each run has a context of its own, and knows its job from the first hook on."""

from __future__ import annotations

import contextvars
from collections.abc import Callable
from typing import Any

import duly
import pytest
from duly.testing import AppUnderTest
from support import empty, running, until

tag: contextvars.ContextVar[str] = contextvars.ContextVar("tag", default="nothing")


class Notes(duly.Middleware):
    """Says at each hook what it sees, and leaves a mark for the hooks behind it."""

    def __init__(self, seen: list[tuple[str, str, str]]) -> None:
        self._seen = seen

    def _note(self, hook: str, job: duly.Job) -> None:
        assert duly.current_job() is job
        self._seen.append((str(job.data), hook, tag.get()))

    def before(self, job: duly.Job) -> None:
        self._note("before", job)
        tag.set(f"{job.data} before")

    def after(self, job: duly.Job) -> None:
        self._note("after", job)

    def on_failure(self, job: duly.Job, _failure: duly.Failure) -> None:
        self._note("on_failure", job)

    def on_failed(self, job: duly.Job, _error: str) -> None:
        self._note("on_failed", job)


def handle(job: duly.Job) -> None:
    assert duly.current_job() is job
    tag.set(f"{job.data} handler")
    if job.data == "fails":
        raise ValueError


async def handle_async(job: duly.Job) -> None:
    handle(job)


EXPECTED = [
    ("works", "before", "nothing"),
    ("works", "after", "works handler"),
    ("fails", "before", "nothing"),
    ("fails", "on_failure", "fails handler"),
    ("fails", "on_failed", "fails handler"),
    ("works", "before", "nothing"),
    ("works", "after", "works handler"),
]


@pytest.mark.parametrize("handler", [handle, handle_async])
def test_what_one_run_sets_is_gone_when_the_next_begins(
    handler: Callable[[duly.Job], Any], client: duly.Client, queue: duly.Queue
) -> None:
    seen: list[tuple[str, str, str]] = []
    worker = duly.Worker(client, ["q"], middleware=[Notes(seen)])
    worker.on(None, handler)
    for data in ("works", "fails", "works"):
        queue.push(data, max_retries=0)
    with running(worker):
        until(lambda: empty(queue), "jobs are left")
    assert seen == EXPECTED


def test_a_handler_without_hooks_before_it_has_a_context_too(client: duly.Client, queue: duly.Queue) -> None:
    seen: list[str] = []

    class OnFailed(duly.Middleware):
        def on_failed(self, job: duly.Job, _error: str) -> None:
            assert duly.current_job() is job
            seen.append(f"on_failed sees {tag.get()}")

    worker = duly.Worker(client, ["q"], middleware=[OnFailed()])

    @worker.on(None)
    def note(job: duly.Job) -> None:
        seen.append(tag.get())
        handle(job)

    for data in ("works", "fails", "works"):
        queue.push(data, max_retries=0)
    with running(worker):
        until(lambda: empty(queue), "jobs are left")
    assert seen == ["nothing", "nothing", "on_failed sees fails handler", "nothing"]


def test_what_a_generator_sets_when_it_is_refused_is_gone_when_the_next_job_begins(
    client: duly.Client, queue: duly.Queue
) -> None:
    def begin() -> Any:
        try:
            yield
        finally:
            tag.set("of a generator")

    def handler(job: duly.Job) -> Any:
        if job.data == "generator":
            begun = begin()
            next(begun)
            return begun
        seen.append(tag.get())
        return None

    seen: list[str] = []
    worker = duly.Worker(client, ["q"])
    worker.on("n", handler)
    queue.push("generator", name="n", max_retries=0)
    queue.push("next", name="n")
    with running(worker):
        until(lambda: len(seen) == 1, "it does not run")
    assert seen == ["nothing"]


def test_a_drain_has_the_contexts_of_a_worker(duly_app: Callable[[duly.App], AppUnderTest]) -> None:
    seen: list[tuple[str, str, str]] = []
    app = duly.App(middleware=[Notes(seen)])
    shop = duly_app(app)
    app.task("x")(lambda: None)
    app.queue().push({}, name="x")
    assert shop.drain() == 1
    assert seen == [("{}", "before", "nothing"), ("{}", "after", "{} before")]
    assert tag.get() == "nothing"
    with pytest.raises(LookupError, match="no job is running"):
        duly.current_job()


async def test_an_adrain_has_them_too(duly_app: Callable[[duly.App], AppUnderTest]) -> None:
    seen: list[tuple[str, str, str]] = []
    app = duly.App(middleware=[Notes(seen)])
    shop = duly_app(app)

    @app.task("x")
    async def task() -> None:
        tag.set("task")

    await task.apush()
    assert await shop.adrain() == 1
    assert seen == [("{}", "before", "nothing"), ("{}", "after", "task")]
    assert tag.get() == "nothing"
