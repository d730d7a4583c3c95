"""Hooks, outcomes, the log and the report of a worker."""

from __future__ import annotations

import functools
import logging
import time
from collections.abc import Callable
from typing import Any

import duly
import pytest
from support import Server, empty, running, until


class Recorder(duly.Middleware):
    def __init__(self, name: str, calls: list[str]) -> None:
        self.name = name
        self.calls = calls

    def before(self, job: duly.Job) -> None:
        self.calls.append(f"{self.name} before")
        if job.name == f"{self.name} refuses":
            raise ValueError("refused")

    def after(self, _job: duly.Job) -> None:
        self.calls.append(f"{self.name} after")

    def on_failure(self, _job: duly.Job, failure: duly.Failure) -> None:
        self.calls.append(f"{self.name} on_failure {type(failure.raised).__name__}")

    def on_failed(self, _job: duly.Job, error: str) -> None:
        self.calls.append(f"{self.name} on_failed {error.splitlines()[0]}")


@pytest.mark.parametrize("kind", ["thread", "coroutine"])
def test_hooks_run_in_the_documented_order(kind: str, client: duly.Client, queue: duly.Queue) -> None:
    calls: list[str] = []
    worker = duly.Worker(client, ["q"], middleware=[Recorder("a", calls), Recorder("b", calls)])

    def handle(job: duly.Job) -> None:
        calls.append("handler")
        if job.name == "fails":
            raise KeyError("x")
        if job.name == "released":
            raise duly.Release(3600)

    async def handle_async(job: duly.Job) -> None:
        handle(job)

    for name in ("works", "fails", "released", "a refuses", "b refuses"):
        worker.on(name, handle if kind == "thread" else handle_async)
    expected = {
        "works": ["a before", "b before", "handler", "b after", "a after"],
        "fails": [
            *("a before", "b before", "handler", "b on_failure KeyError", "a on_failure KeyError"),
            *("b on_failed KeyError: 'x'", "a on_failed KeyError: 'x'"),
        ],
        "released": ["a before", "b before", "handler"],
        "a refuses": [
            *("a before", "b on_failure ValueError", "a on_failure ValueError"),
            *("b on_failed ValueError: refused", "a on_failed ValueError: refused"),
        ],
        "b refuses": [
            *("a before", "b before", "b on_failure ValueError", "a on_failure ValueError"),
            *("b on_failed ValueError: refused", "a on_failed ValueError: refused"),
        ],
        "nobody's": [
            *("a before", "b before", "b on_failure NoHandler", "a on_failure NoHandler"),
            *(f'{one} on_failed this worker has no handler for the name "nobody\'s"' for one in "ba"),
        ],
    }
    with running(worker):
        for name, order in expected.items():
            calls.clear()
            queue.push(1, name=name, max_retries=0)
            until(lambda: queue.counts().ready + queue.counts().reserved == 0, "the job is left")
            assert calls == order, name


def test_on_failed_is_only_for_the_last_failure(client: duly.Client, queue: duly.Queue) -> None:
    calls: list[str] = []
    worker = duly.Worker(client, ["q"], middleware=[Recorder("a", calls)])
    worker.on(None, lambda _job: 1 / 0)
    queue.push(1, max_retries=1, retry=duly.RetryPolicy.fixed(0))
    with running(worker):
        until(lambda: queue.counts().failed == 1, "the job is left")
    failure = "a on_failure ZeroDivisionError"
    assert calls == ["a before", failure, "a before", failure, "a on_failed ZeroDivisionError: division by zero"]


def test_an_on_failure_hook_rewrites_the_job(client: duly.Client, queue: duly.Queue) -> None:
    class Rewrites(duly.Middleware):
        def on_failure(self, job: duly.Job, failure: duly.Failure) -> None:
            if job.attempt == 1:
                failure.data = {"new": True}
                failure.attempts = 4
                failure.max_retries = 5
                failure.error = "rewritten"
                failure.retry_after = 0
                failure.headers = {"error": type(failure.raised).__name__}
                failure.name = "again"

    seen: list[object] = []
    worker = duly.Worker(client, ["q"], middleware=[Rewrites()])

    @worker.on(None)
    @worker.on("again")
    def fail(job: duly.Job) -> None:
        seen.append((job.data, job.attempts, job.max_retries, job.error, job.headers, job.name))
        if job.attempt == 1:
            raise ValueError

    queue.push("old", headers={"tenant": "acme"})
    with running(worker):
        until(lambda: empty(queue), "the job is left")
    first, again = {"tenant": "acme"}, {"tenant": "acme", "error": "ValueError"}
    assert seen == [("old", 0, 5, "", first, None), ({"new": True}, 5, 5, "rewritten", again, "again")]


def test_hooks_that_raise_are_logged_and_change_nothing(
    client: duly.Client, queue: duly.Queue, caplog: pytest.LogCaptureFixture
) -> None:
    class Raises(duly.Middleware):
        def after(self, job: duly.Job) -> None:  # noqa: ARG002
            raise RuntimeError("after")

        def on_failure(self, job: duly.Job, failure: duly.Failure) -> None:  # noqa: ARG002
            raise RuntimeError(f"on_failure of {job.data}")

        def on_failed(self, job: duly.Job, error: str) -> None:  # noqa: ARG002
            raise RuntimeError("on_failed")

    worker = duly.Worker(client, ["q"], middleware=[Raises()])
    worker.on("works", lambda _job: None)
    worker.on("fails", lambda job: {}[job.data])
    queue.push(1, name="works")
    queue.push("secret", name="fails", max_retries=0)
    with running(worker) as reports:
        until(lambda: empty(queue), "jobs are left")
    assert (reports[0].acked, reports[0].failed) == (1, 1)
    assert [view.error.splitlines()[0] for view in queue.peek("failed")] == ["KeyError: 'secret'"]
    for hook in ("after", "on_failure", "on_failed"):
        assert f"the hook {Raises.__qualname__}.{hook} raised for job" in caplog.text
    assert caplog.text.count("RuntimeError at ") == 3
    assert "secret" not in caplog.text


async def no_changes() -> None: ...


def one_argument_too_few(_job: duly.Job) -> None: ...


WRONG_CHANGES: list[tuple[Any, str]] = [
    (
        lambda _job, _error: {"errors": "secret"},
        "a failure has only attempts, ",
    ),
    (lambda _job, _error: {"secret": 1}, "a failure has only attempts, "),
    (lambda _job, _error: "secret", "the changes to a failure must be a dict or None, not str"),
    (lambda _job, _error: no_changes(), "the hook on_failure returned a coroutine that nobody awaits"),
    (functools.partial(one_argument_too_few), "TypeError, "),
]


@pytest.mark.parametrize(("hook", "said"), WRONG_CHANGES)
def test_the_log_says_what_is_wrong_with_an_on_failure_hook_and_where_it_is(
    hook: Any, said: str, client: duly.Client, queue: duly.Queue, caplog: pytest.LogCaptureFixture
) -> None:
    worker = duly.Worker(client, ["q"], on_failure=hook)
    worker.on(None, lambda job: {}[job.data])
    pushed = queue.push("secret", max_retries=0)
    with running(worker):
        until(lambda: queue.counts().failed == 1, "it did not fail")
    function = getattr(hook, "func", hook)
    line, _ = (record.message for record in caplog.records)
    assert line.startswith(f"the hook on_failure raised for job {pushed} (no name, attempt 1) of queue q: {said}")
    assert line.endswith(f", at {__file__}:{function.__code__.co_firstlineno} in {function.__name__}")
    assert ("; 'errors' may mean 'error', at " in line) == ("errors" in str(function.__code__.co_consts))
    assert "secret" not in caplog.text


def test_the_log_names_the_hook_whose_changes_are_refused(
    client: duly.Client, queue: duly.Queue, caplog: pytest.LogCaptureFixture
) -> None:
    worker = duly.Worker(client, ["q"], on_failure=lambda _job, _error: {"attempts": -1})
    worker.on(None, lambda _job: 1 / 0)
    pushed = queue.push(1, max_retries=0)
    with running(worker):
        until(lambda: queue.counts().failed == 1, "it did not fail")
    assert f"the hook on_failure gave for job {pushed} (no name, attempt 1) of queue q what job.fail" in caplog.text


def test_the_log_gives_reasons_that_are_dulys_own(
    own_server: Server, prefix: str, caplog: pytest.LogCaptureFixture
) -> None:
    small = duly.Client(own_server.url, prefix=prefix, max_data_bytes=100)
    queue = small.queue("q")
    worker = duly.Worker(small, ["q"])
    worker.on("large", lambda _job: "x" * 1000)
    worker.on("nonsense", lambda _job: (_ for _ in ()).throw(duly.Release(after=-1)))
    queue.push(1, name="nobody's", max_retries=0)
    queue.push(2, name="large", max_retries=0, result_ttl=60)
    queue.push(3, name="nonsense", max_retries=0)
    with running(worker):
        until(lambda: queue.counts().failed == 3, "jobs are left")
    for reason in ('no handler for the name "nobody\'s"', "the limit is 100 (max_data_bytes)", "must be 0 or more"):
        assert reason in caplog.text


def test_outcomes_that_a_handler_raises(client: duly.Client, queue: duly.Queue) -> None:
    worker = duly.Worker(client, ["q"])

    @worker.on(None)
    def handle(job: duly.Job) -> None:
        if job.data == "retry":
            raise duly.Retry(after=1000) from ValueError("slow down")
        if job.data == "uncounted":
            raise duly.Retry("not my fault", after=1000, counted=False)
        if job.data == "release":
            raise duly.Release(after=1000)
        if job.data == "nonsense":
            raise duly.Release(after=-1)
        raise duly.Fail("pointless")

    for data in ("retry", "uncounted", "release", "fail", "nonsense"):
        queue.push(data)
    with running(worker) as reports:
        until(lambda: queue.counts().ready + queue.counts().reserved == 0, "jobs are left")
    delayed = {view.data: view for view in queue.peek("delayed")}
    assert (delayed["retry"].attempts, delayed["retry"].error) == (1, "ValueError: slow down")
    assert (delayed["uncounted"].attempts, delayed["uncounted"].error) == (0, "not my fault")
    assert delayed["release"].attempts == 0
    assert delayed["nonsense"].attempts == 1
    failed = queue.peek("failed")
    assert [(view.data, view.error, view.attempts) for view in failed] == [("fail", "pointless", 1)]
    report = reports[0]
    assert (report.acked, report.failed, report.released) == (0, 4, 1)


class Later(duly.Release):
    after = -5

    def __init__(self) -> None:
        """Does not call `Release.__init__`, which would refuse it."""


SENSELESS: list[Callable[[], BaseException]] = [
    lambda: duly.Release(after=-5),
    lambda: duly.Release(float("nan")),
    lambda: duly.Retry(after="soon"),  # type: ignore[arg-type]
    lambda: duly.Retry(counted="no"),  # type: ignore[arg-type]
    lambda: Later(),
]


@pytest.mark.parametrize("outcome", SENSELESS)
def test_an_outcome_that_makes_no_sense_is_a_plain_failure_of_the_handler(
    outcome: Callable[[], BaseException], client: duly.Client, queue: duly.Queue, caplog: pytest.LogCaptureFixture
) -> None:
    called: list[str] = []

    class Hooks(duly.Middleware):
        def on_failure(self, job: duly.Job, failure: duly.Failure) -> None:  # noqa: ARG002
            called.append(type(failure.raised).__name__)

        def on_failed(self, job: duly.Job, error: str) -> None:  # noqa: ARG002
            called.append("on_failed")

    def handle(_job: duly.Job) -> None:
        raise outcome()

    worker = duly.Worker(client, ["q"], middleware=[Hooks()])
    worker.on(None, handle)
    pushed = queue.push(1, max_retries=0)
    with running(worker):
        until(lambda: queue.counts().failed == 1, "it did not fail")
    assert called == ["InvalidArgumentError", "on_failed"]
    (record,) = caplog.records
    assert f"job {pushed} (no name, attempt 1) of queue q failed for good: InvalidArgumentError (" in record.message
    assert f" at {__file__}:" in record.message


def test_what_a_handler_says_is_told_when_it_has_ended(client: duly.Client, queue: duly.Queue) -> None:
    seen: list[object] = []
    worker = duly.Worker(client, ["q"])

    @worker.on(None)
    def handle(job: duly.Job) -> None:
        assert job.fail("by hand", retry_after=1000) == 1000
        assert job.settled
        with pytest.raises(duly.LeaseLostError):
            job.ack()
        seen.append(queue.counts().reserved)
        seen.append(job)

    queue.push(1)
    with running(worker):
        until(lambda: queue.counts().delayed == 1, "not failed")
    assert seen[0] == 1
    assert isinstance(seen[1], duly.Job)
    with pytest.raises(duly.LeaseLostError):
        seen[1].release()
    assert [view.error for view in queue.peek("delayed")] == ["by hand"]


@pytest.mark.parametrize("is_async", [False, True])
def test_what_a_handler_raises_behind_its_word_is_told_as_such(
    client: duly.Client, queue: duly.Queue, caplog: pytest.LogCaptureFixture, is_async: bool
) -> None:
    heard: list[tuple[str | None, str]] = []

    class Hook(duly.Middleware):
        def on_failed(self, job: duly.Job, error: str) -> None:
            heard.append((job.name, error))

    def say(job: duly.Job) -> None:
        if job.name == "release":
            job.release(after=100)
        elif job.name == "retry":
            job.fail("by hand", retry_after=100)
        else:
            job.fail("by hand", final=True)
        if job.name != "returns":
            raise ValueError("later")

    async def say_async(job: duly.Job) -> None:
        say(job)

    worker = duly.Worker(client, ["q"], middleware=[Hook()], concurrency=4)
    for name in ("release", "retry", "fail", "returns"):
        worker.on(name, say_async if is_async else say)
        queue.push(1, name=name, id=name)
    with caplog.at_level("INFO", "duly.worker"), running(worker):
        until(lambda: len(heard) == 2, "the hook is not called")
        until(lambda: queue.counts().delayed == 2, "they are not settled")
    assert sorted(heard) == [("fail", "by hand"), ("returns", "by hand")]
    raised = "was settled, and then its handler raised: ValueError"
    for name, said in (
        ("release", "was released by its handler; it runs again in 100 s"),
        ("retry", "failed; it runs again in 100 s: its handler said so"),
        ("fail", "failed for good: its handler said so"),
        ("returns", "failed for good: "),
    ):
        lines = [record.getMessage() for record in caplog.records if getattr(record, "job_name", None) == name]
        (line,) = [line for line in lines if raised not in line]
        assert line.startswith(f"job {name} ({name}, attempt 1) of queue q {said}")
        assert len(lines) == (1 if name == "returns" else 2)


def test_what_the_engine_tells_of_a_job_has_the_same_fields(
    client: duly.Client, queue: duly.Queue, caplog: pytest.LogCaptureFixture
) -> None:
    worker = duly.Worker(client, ["q"])

    @worker.on("long")
    def long(_job: duly.Job) -> None:
        while True:
            time.sleep(0.001)

    pushed = queue.push("secret", name="long", timeout=0.1, max_retries=0)
    with caplog.at_level(logging.WARNING, "duly.worker"), running(worker):
        until(lambda: empty(queue), "it runs on")
    (calls,) = [record.__dict__ for record in caplog.records if "is interrupted" in record.message]
    assert (calls["queue"], calls["id"], calls["job_name"], calls["attempt"]) == ("q", pushed, "long", 1)


def test_log_records_have_fields_and_never_the_data(
    client: duly.Client, queue: duly.Queue, caplog: pytest.LogCaptureFixture
) -> None:
    worker = duly.Worker(client, ["q"])
    worker.on("works", lambda _job: None)
    worker.on("fails", lambda job: {}[job.data])
    with caplog.at_level(logging.DEBUG, "duly.worker"):
        works = queue.push("secret", name="works")
        fails = queue.push("secret", name="fails", max_retries=1, retry=duly.RetryPolicy.fixed(0))
        with running(worker):
            until(lambda: empty(queue), "jobs are left")
    calls = [
        (record.levelname, record.__dict__["id"], record.__dict__["job_name"], record.__dict__["attempt"])
        for record in caplog.records
    ]
    assert calls == [
        ("DEBUG", works, "works", 1),
        ("WARNING", fails, "fails", 1),
        ("ERROR", fails, "fails", 2),
    ]
    assert all(record.__dict__["queue"] == "q" for record in caplog.records)
    assert "secret" not in caplog.text


def test_what_a_hook_gives_takes_nothing_from_what_the_handler_has_said(
    client: duly.Client, caplog: pytest.LogCaptureFixture
) -> None:
    queue = client.queue("q")
    queue.push(1, name="ends", max_retries=5)
    worker = duly.Worker(client, ["q"], max_jobs=1, on_failure=lambda _job, _error: {"attempts": -1})

    @worker.on("ends")
    def ends(_job: duly.Job) -> None:
        raise duly.Fail("no order")

    worker.run()
    assert "the hook on_failure gave for job" in caplog.text
    (failed,) = queue.peek("failed")
    assert failed.attempts == 1
    assert "no order" in failed.error


@pytest.mark.parametrize("kind", ["thread", "coroutine"])
def test_a_before_hook_that_settles_the_job_keeps_the_handler_from_running(
    kind: str, client: duly.Client, queue: duly.Queue
) -> None:
    calls: list[str] = []

    class Settles(duly.Middleware):
        def before(self, job: duly.Job) -> None:
            if job.id == "released":
                job.release(3600)
            elif job.id == "failed":
                job.fail("not now", final=True)
            else:
                job.ack()

    class Another(duly.Middleware):
        def before(self, _job: duly.Job) -> None:
            calls.append("another")

    worker = duly.Worker(client, ["q"], middleware=[Settles(), Another()], max_jobs=3)

    def handle(_job: duly.Job) -> None:
        calls.append("handler")

    async def handle_async(_job: duly.Job) -> None:
        calls.append("handler")

    worker.on("n", handle if kind == "thread" else handle_async)
    queue.push_many([duly.NewJob(id, id=id, name="n") for id in ("released", "failed", "acked")])  # noqa: A001
    worker.run()
    assert calls == []
    found = {id: queue.find(id) for id in ("released", "failed", "acked")}  # noqa: A001
    states = {id: job and job.state for id, job in found.items()}  # noqa: A001
    assert states == {"released": "delayed", "failed": "failed", "acked": None}


def test_the_log_says_what_a_handler_raised_whose_job_a_hook_has_acked(
    client: duly.Client, queue: duly.Queue, caplog: pytest.LogCaptureFixture
) -> None:
    class Acks(duly.Middleware):
        def on_failure(self, job: duly.Job, _failure: duly.Failure) -> None:
            job.ack()

    worker = duly.Worker(client, ["q"], middleware=[Acks()], max_jobs=1)

    @worker.on("n")
    def handle(_job: duly.Job) -> None:
        raise ValueError

    queue.push(1, id="a", name="n")
    worker.run()
    assert queue.find("a") is None
    [said] = [line for line in caplog.messages if "job a" in line]
    assert "was acked by an on_failure hook; its handler had raised: ValueError at " in said
