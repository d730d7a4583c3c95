"""Mistakes are errors at the moment at which they are made, or fail the job; nothing that was not run is acked."""

from __future__ import annotations

import asyncio
import concurrent.futures
import dataclasses
import functools
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import duly
import duly.aio
import pytest
from duly.testing import AppUnderTest
from support import empty, running, until


def plain(function: Callable[..., Any]) -> Callable[..., Any]:
    """A decorator as many have one: it knows nothing of coroutines."""

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return wrapper


@pytest.mark.parametrize("hooks", ["bare", "with hooks"])
def test_a_coroutine_behind_a_plain_decorator_fails_and_is_never_acked(
    hooks: str, client: duly.Client, queue: duly.Queue, caplog: pytest.LogCaptureFixture
) -> None:
    class Hooks(duly.Middleware):
        def before(self, _job: duly.Job) -> None:
            pass

    worker = duly.Worker(client, ["q"], middleware=[Hooks()] if hooks == "with hooks" else [])
    ran: list[str] = []

    @worker.on("close")
    @plain
    async def close(job: duly.Job) -> None:
        ran.append(job.id)

    @worker.on("yields")
    @plain
    def yields(job: duly.Job) -> Iterator[int]:
        ran.append(job.id)
        yield 1

    @worker.on("object")
    async def gives_a_coroutine(job: duly.Job) -> Any:
        return close(job)

    with running(worker):
        names = {queue.push(1, name=name, max_retries=0): name for name in ("close", "yields", "object")}
        until(lambda: queue.counts().failed == 3, "they were acked")
    assert ran == []
    for view in queue.peek("failed"):
        assert "so nothing was run" in view.error
        (line,) = [record.message for record in caplog.records if view.id in record.message]
        assert f"the handler of {names[view.id]!r} returned a " in line


def test_a_task_behind_a_plain_decorator_is_not_done_in_a_test_either(
    duly_app: Callable[[duly.App], AppUnderTest],
) -> None:
    app = duly.App()

    @app.task("close", max_retries=0)
    @plain
    async def close() -> None:
        raise AssertionError("it ran")

    shop = duly_app(app)
    job_id = close.push()
    with pytest.raises(TypeError, match="so nothing was run"):
        shop.drain()
    found = job_id.find()
    assert found is not None
    assert found.state == "failed"


def test_a_handler_needs_the_name_of_its_jobs(client: duly.Client) -> None:
    worker = duly.Worker(client, ["q"])
    on: Any = worker.on
    with pytest.raises(duly.InvalidArgumentError, match="a handler needs the name of its jobs"):
        on(lambda _job: None)  # what `@worker.on` without parentheses does

    with pytest.raises(duly.InvalidArgumentError, match="must be a str or None, not int"):
        on(5, lambda _job: None)
    with pytest.raises(duly.InvalidArgumentError, match="the handler of 'x' must be a function, not int"):
        on("x", 5)


def test_a_handler_that_yields_is_refused(client: duly.Client) -> None:
    worker = duly.Worker(client, ["q"])

    def generator(_job: duly.Job) -> Iterator[int]:
        yield 1

    async def async_generator(_job: duly.Job) -> AsyncIterator[int]:
        yield 1

    handlers: list[Any] = [generator, async_generator]
    for handler in handlers:
        with pytest.raises(duly.InvalidArgumentError, match="the handler of 'x' must not yield"):
            worker.on("x", handler)
        with pytest.raises(duly.InvalidArgumentError, match="a task must not yield"):
            duly.App().task("x")(handler)


@dataclasses.dataclass
class CloseOrder:
    """Its work would be another call."""

    order_id: int

    def __call__(self, _job: duly.Job) -> None: ...


def test_a_class_is_no_handler_and_no_task(client: duly.Client) -> None:
    app = duly.App()
    made: list[tuple[str, Callable[..., Any]]] = [
        ("a task", app.task),
        ("a task", app.task("close")),
        ("the handler of 'close'", functools.partial(duly.Worker(client, ["q"]).on, "close")),
    ]
    for what, register in made:
        for one in (CloseOrder, functools.partial(CloseOrder, 1)):
            with pytest.raises(
                (duly.InvalidArgumentError, TypeError), match=f"{what} must be a function, not the class"
            ):
                register(one)
    assert app.tasks == {}
    duly.Worker(client, ["q"]).on("close", CloseOrder(42))


def test_a_result_whose_work_is_not_done_fails_the_job(
    client: duly.Client, queue: duly.Queue, caplog: pytest.LogCaptureFixture
) -> None:
    worker = duly.Worker(client, ["q"])
    pool = concurrent.futures.ThreadPoolExecutor(1)
    worker.on("pool", lambda _job: pool.submit(lambda: 1 / 0))
    worker.on("map", lambda _job: map(print, [1, 2]))
    worker.on("filter", lambda _job: filter(print, [1, 2]))

    @worker.on("task")
    async def gives_a_task(_job: duly.Job) -> Any:
        return asyncio.ensure_future(asyncio.sleep(0))

    said = {
        "pool": "a Future that nobody waits for",
        "task": "a Task that nobody waits for",
        "map": "a map that nobody reads",
        "filter": "a filter that nobody reads",
    }
    for name in said:
        queue.push(1, name=name, max_retries=0)
    with running(worker), pool:
        until(lambda: queue.counts().failed == 4, "they were acked")
    for name, words in said.items():
        assert f"failed for good: the handler of {name!r} returned {words}" in caplog.text


@pytest.mark.parametrize("hook", ["before", "after", "on_failure", "on_failed"])
def test_a_hook_that_is_a_coroutine_function_is_refused(hook: str, client: duly.Client) -> None:
    async def never_awaited(*_arguments: Any) -> None: ...

    middleware: Any = type("Mine", (duly.Middleware,), {hook: never_awaited})()
    with pytest.raises(duly.InvalidArgumentError, match=rf"Mine\.{hook} must be a plain function"):
        duly.Worker(client, ["q"], middleware=[middleware])
    with pytest.raises(duly.InvalidArgumentError, match=rf"Mine\.{hook} must be a plain function"):
        duly.App(middleware=[middleware])
    strange: Any = object()
    with pytest.raises(duly.InvalidArgumentError, match=r"extend duly\.Middleware"):
        duly.App(middleware=[strange])


def yields(_self: object, *_arguments: object) -> Iterator[int]:
    yield 1


WRONG_HOOKS: list[tuple[Any, str]] = [
    (5, "must be a function, not int"),
    (yields, "must not yield"),
    (lambda _self: None, "must take the job.*: too many positional arguments"),
    (lambda _self, _job, _more, _and_more: None, "must take the job.*: missing a required argument"),
]


@pytest.mark.parametrize(("written", "said"), WRONG_HOOKS, ids=lambda it: str(it)[:20])
@pytest.mark.parametrize("hook", ["before", "after", "on_failure", "on_failed"])
def test_a_hook_that_nobody_can_call_is_refused(hook: str, written: Any, said: str, client: duly.Client) -> None:
    middleware: Any = type("Mine", (duly.Middleware,), {hook: written})()
    with pytest.raises(duly.InvalidArgumentError, match=rf"Mine\.{hook} {said}"):
        duly.App(middleware=[middleware])
    if hook == "on_failure":
        with pytest.raises(duly.InvalidArgumentError, match=f"on_failure {said}"):
            duly.Worker(client, ["q"], on_failure=written)


def test_a_handler_that_does_not_take_the_job_is_refused(client: duly.Client) -> None:
    handlers: list[Any] = [lambda: None, lambda _job, _more: None]
    for handler in handlers:
        with pytest.raises(duly.InvalidArgumentError, match="the handler of 'x' must take the job: "):
            duly.Worker(client, ["q"]).on("x", handler)

    @functools.wraps(handlers[1])
    def gives_more(job: duly.Job) -> Any:
        return handlers[1](job, "more")

    duly.Worker(client, ["q"]).on("x", gives_more)


def test_a_before_hook_that_gives_a_coroutine_fails_the_run(client: duly.Client, queue: duly.Queue) -> None:
    async def check(_self: Any, _job: duly.Job) -> None: ...

    middleware: Any = type("Mine", (duly.Middleware,), {"before": plain(check)})()
    ran: list[str] = []
    worker = duly.Worker(client, ["q"], middleware=[middleware])
    worker.on(None, lambda job: ran.append(job.id))
    job_id = queue.push(1, max_retries=0)
    with running(worker):
        until(lambda: queue.counts().failed == 1, "it was acked")
    assert ran == []
    found = queue.find(job_id)
    assert found is not None
    assert "Mine.before returned a coroutine" in found.error


WRONG_OPTIONS: list[tuple[dict[str, Any], str]] = [
    ({"max_retries": "a"}, "max_retries"),
    ({"max_retries": -1}, "max_retries"),
    ({"priority": 10}, "priority"),
    ({"priority": True}, "priority"),
    ({"retry": 5}, "retry"),
    ({"timeout": "soon"}, "timeout"),
    ({"timeout": 0}, "timeout"),
    ({"headers": {"a": 1}}, "headers"),
    ({"headers": {"": "empty name"}}, "header"),
    ({"result_ttl": 0}, "result_ttl"),
    ({"durability": "sure"}, "durability"),
    ({"queue": "a queue"}, "queue"),
    ({"queue": 5}, "name"),
    ({"colour": "red"}, "colour"),
]


@pytest.mark.parametrize(("options", "said"), WRONG_OPTIONS, ids=str)
def test_a_wrong_option_of_a_task_is_refused_where_it_is_written(options: dict[str, Any], said: str) -> None:
    app = duly.App()
    with pytest.raises((duly.InvalidArgumentError, TypeError), match=said):
        app.task("close", **options)
    task = app.task("close")(lambda: None)
    with pytest.raises((duly.InvalidArgumentError, TypeError), match=said):
        task.using(**options)


@pytest.mark.parametrize("options", [{"delay": -1}, {"at": "noon"}, {"id": ""}, {"key": 5}, {"on_duplicate": "maybe"}])
def test_a_wrong_option_of_one_push_is_refused_by_using(options: dict[str, Any]) -> None:
    task = duly.App().task("close")(lambda: None)
    with pytest.raises(duly.InvalidArgumentError):
        task.using(**options)


def test_a_wrong_name_of_a_task_is_refused_where_it_is_written() -> None:
    with pytest.raises(duly.InvalidArgumentError, match="name"):
        duly.App().task("x" * 129)(lambda: None)


def test_a_worker_takes_a_sync_client_and_known_words(client: duly.Client) -> None:
    wrong: Any = duly.aio.Client()
    with pytest.raises(duly.InvalidArgumentError, match=r"client must be a duly\.Client, not AsyncClient"):
        duly.Worker(wrong, ["q"])
    word: Any = "everything"
    with pytest.raises(duly.InvalidArgumentError, match="log_errors"):
        duly.Worker(client, ["q"], log_errors=word)


@pytest.mark.parametrize("name", ["", "x" * 129, "a\nb"])
def test_a_name_that_no_job_can_have_has_no_handler(name: str, client: duly.Client) -> None:
    with pytest.raises(duly.InvalidArgumentError, match="name"):
        duly.Worker(client, ["q"]).on(name, lambda _job: None)


@pytest.mark.parametrize("name", ["close", None])
def test_a_second_handler_of_a_name_is_refused(name: str | None, client: duly.Client, queue: duly.Queue) -> None:
    def first(_job: duly.Job) -> None: ...

    worker = duly.Worker(client, ["q"])
    worker.on(name, first)
    worker.on(name, first)  # the same one again is no mistake
    with pytest.raises(duly.InvalidArgumentError, match=f"there is a handler for {name!r} already"):
        worker.on(name, lambda _job: 1 / 0)
    queue.push(1, name=name, max_retries=0)
    with running(worker) as reports:
        until(lambda: empty(queue), "the job is left")
    assert reports[0].acked == 1


@pytest.mark.parametrize("hook", ["before", "after", "on_failure", "on_failed"])
def test_a_hook_that_is_set_on_an_object_is_refused(hook: str, client: duly.Client) -> None:
    middleware = duly.Middleware()
    with pytest.raises(duly.InvalidArgumentError, match=f"{hook} must be a method of a class"):
        setattr(middleware, hook, lambda *_arguments: None)
    middleware.__dict__[hook] = lambda *_arguments: None
    with pytest.raises(duly.InvalidArgumentError, match=f"{hook} must be a method of a class"):
        duly.Worker(client, ["q"], middleware=[middleware])


def test_a_worker_that_runs_does_not_run_once_more(client: duly.Client, queue: duly.Queue) -> None:
    said: list[str] = []
    worker = duly.Worker(client, ["q"])

    @worker.on(None)
    def runs_it(_job: duly.Job) -> None:
        with pytest.raises(duly.InvalidArgumentError, match="this worker runs already") as refused:
            worker.run()
        said.append(str(refused.value))

    for runs in (1, 2):  # one behind the other is fine
        queue.push(1, max_retries=0)
        with running(worker) as reports:
            until(lambda: empty(queue), "the job is left")
            with pytest.raises(duly.InvalidArgumentError, match="this worker runs already"):
                worker.run()
        assert reports[0].acked == 1
        assert len(said) == runs


def test_a_function_without_a_name_needs_one_as_a_task() -> None:
    app = duly.App()
    with pytest.raises(TypeError, match=r"a partial has no name of its own: give the task one, app\.task\(\"name\"\)"):
        app.task(functools.partial(print, end=""))
    assert app.task("say")(functools.partial(lambda text, end: (text, end), end="!"))("a") == ("a", "!")


def test_results_of_other_types_are_still_fine(client: duly.Client, queue: duly.Queue) -> None:
    worker = duly.Worker(client, ["q"])
    results: dict[str, Any] = {"object": object(), "set": {1}, "bytes": b"x", "class": int}
    for name, result in results.items():
        worker.on(name, lambda _job, result=result: result)
        queue.push(1, name=name)
    with running(worker):
        until(lambda: empty(queue), "they are no coroutines")
    assert queue.counts().totals["acked"] == 4


def test_what_is_no_list_is_named(client: duly.Client) -> None:
    makes: Any = duly.Worker
    with pytest.raises(TypeError, match="queues must be a list of names or a dict of weights, not Queue"):
        makes(client, client.queue("q"))
    with pytest.raises(duly.InvalidArgumentError, match="middleware must be a list of objects"):
        makes(client, ["q"], middleware=duly.Middleware())
