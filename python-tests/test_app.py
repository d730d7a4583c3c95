"""Tasks: what a push carries, what a worker calls, and what is refused."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

import duly
import pytest
from duly.testing import AppUnderTest
from support import Server


@pytest.fixture
def app(server: Server, prefix: str) -> duly.App:
    return duly.App(server.url, prefix=prefix)


def run_until(app: duly.App, done: threading.Event) -> None:
    worker = app.worker()
    thread = threading.Thread(target=worker.run)
    thread.start()
    assert done.wait(20)
    worker.stop()
    thread.join(20)


def test_a_pushed_call_runs_in_a_worker_with_its_arguments(app: duly.App) -> None:
    done = threading.Event()
    seen: list[object] = []

    @app.task("order.close", queue="orders", max_retries=3)
    def close_order(order_id: int, reason: str = "unpaid") -> None:
        job = duly.current_job()
        seen.append((order_id, reason, job.name, job.max_retries, job.attempt))
        done.set()

    pushed = close_order.push(42)
    run_until(app, done)
    assert seen == [(42, "unpaid", "order.close", 3, 1)]
    assert app.queue("orders").find(pushed) is None


def test_data_is_an_object_that_any_language_can_push(app: duly.App) -> None:
    @app.task("order.close")
    def close_order(order_id: int, *, reason: str = "unpaid") -> None: ...

    pushed = close_order.using(delay=60, key="close:42").delay(42, reason="late")
    found = app.queue().find(pushed)
    assert found is not None
    assert (found.data, found.name, found.key) == ({"order_id": 42, "reason": "late"}, "order.close", "close:42")
    assert found.state == "delayed"


def test_called_directly_it_is_the_function(app: duly.App) -> None:
    @app.task
    def double(number: int) -> int:
        """Give twice the number."""
        return 2 * number

    assert double(21) == 42
    assert double.__doc__ == "Give twice the number."
    assert double.name.endswith("double")


def test_wrong_arguments_are_refused_before_anything_is_pushed(app: duly.App) -> None:
    @app.task
    def double(number: int) -> int:
        return 2 * number

    with pytest.raises(TypeError):
        double.push()  # type: ignore[call-arg]
    assert app.queue().counts().ready == 0


def test_an_unknown_argument_is_retried_and_logged_as_an_unknown_name_is(
    app: duly.App, caplog: pytest.LogCaptureFixture
) -> None:
    @app.task("double")
    def double(number: int) -> int:
        return 2 * number

    done = threading.Event()

    @app.task("last")
    def last() -> None:
        done.set()

    queue = app.queue()
    wrong = [queue.push(data, name="double") for data in ([21], {"number": 1, "digit": 21}, "x")]
    wrong.append(queue.push({"number": 1}, name="of a newer version"))
    gives_up = queue.push({"digit": 21}, name="double", max_retries=0)
    last.push()
    run_until(app, done)
    for misfit in wrong:
        found = queue.find(misfit)
        assert found is not None
        assert (found.state, found.attempts) == ("delayed", 1)
        assert "does not fit the task double" in found.error or "no handler" in found.error
        (line,) = [record.message for record in caplog.records if misfit in record.message]
        assert found.error in line
        assert "runs again in 5 s" in line
    given_up = queue.find(gives_up)
    assert given_up is not None
    assert given_up.state == "failed"
    assert given_up.error == "the data does not fit the task double: missing a required argument: 'number'"


@pytest.mark.parametrize("options", [{"delay": 3}, {"key": "k"}, {"colour": "red"}])
def test_options_of_one_push_do_not_belong_to_the_task(app: duly.App, options: dict[str, object]) -> None:
    with pytest.raises(duly.InvalidArgumentError):
        app.task("x", **options)  # type: ignore[call-overload]


def test_functions_whose_arguments_have_no_names_are_refused(app: duly.App) -> None:
    with pytest.raises(duly.InvalidArgumentError, match="must have a name"):
        app.task("x")(lambda *numbers: numbers)
    app.task("y")(lambda: None)
    with pytest.raises(duly.InvalidArgumentError, match="already"):
        app.task("y")(lambda: None)


def test_there_is_a_current_job_only_in_a_task() -> None:
    with pytest.raises(LookupError, match="no job is running"):
        duly.current_job()


async def test_a_task_is_pushed_from_asyncio(app: duly.App) -> None:
    @app.task
    def double(number: int) -> int:
        return 2 * number

    pushed = await double.apush(21)
    assert app.queue().find(pushed) is not None


async def test_the_first_push_from_asyncio_is_waited_out_as_the_app_has_reached_the_server(
    own_server: Server,
) -> None:
    app = duly.App(own_server.url)
    app.client.ping()
    own_server.kill()

    @app.task
    def follow_up(number: int) -> None: ...

    pushing = asyncio.ensure_future(follow_up.apush(1))
    await asyncio.wait([pushing], timeout=0.3)
    assert not pushing.done()
    own_server.start()
    await pushing


def test_drain_runs_what_is_due_by_a_clock_that_the_test_moves(
    app: duly.App, duly_app: Callable[[duly.App], AppUnderTest]
) -> None:
    closed: list[int] = []

    @app.task("order.close", queue="orders")
    def close_order(order_id: int) -> None:
        closed.append(order_id)

    @app.task("order.remind", queue="mail")
    async def remind(order_id: int) -> None:
        closed.append(-order_id)

    shop = duly_app(app)
    close_order.using(delay=1800).push(order_id=42)
    remind.push(order_id=41)
    assert (shop.drain(), closed) == (1, [-41])
    shop.advance(1799)
    assert shop.drain() == 0
    shop.advance(1)
    assert (shop.drain(), closed) == (1, [-41, 42])


def test_jobs_expire_by_the_apps_clock(app: duly.App, duly_app: Callable[[duly.App], AppUnderTest]) -> None:
    ran: list[int] = []

    @app.task("order.remind")
    def remind(order_id: int) -> None:
        ran.append(order_id)

    shop = duly_app(app)
    for number, expires in enumerate((20, 31)):
        remind.using(expires=expires).push(order_id=number)
    shop.advance(30)
    shop.drain()
    assert ran == [1]


def test_adrain_needs_asyncio(app: duly.App, duly_app: Callable[[duly.App], AppUnderTest]) -> None:
    @app.task("order.remind")
    async def remind() -> None:
        pass

    shop = duly_app(app)
    remind.push()
    with pytest.raises(RuntimeError, match=r"adrain needs a running asyncio event loop: .* use drain"):
        shop.adrain().send(None)
    assert app.queue().counts().ready == 1, "no job is taken"


def test_drain_raises_what_a_task_raises_and_the_job_is_retried(
    app: duly.App, duly_app: Callable[[duly.App], AppUnderTest]
) -> None:
    @app.task("flaky")
    def flaky() -> None:
        if duly.current_job().attempt == 1:
            raise ValueError("not yet")

    shop = duly_app(app)
    flaky.push()
    with pytest.raises(ValueError, match="not yet"):
        shop.drain()
    shop.advance(5)
    assert shop.drain() == 1
    assert app.queue().counts().failed == 0


def test_drain_does_what_a_worker_does_with_outcomes(
    app: duly.App, duly_app: Callable[[duly.App], AppUnderTest]
) -> None:
    @app.task("later", queue="a")
    def later() -> None:
        raise duly.Retry(after=7)

    @app.task("back", queue="b")
    def back() -> None:
        raise duly.Release(after=9)

    @app.task("never", queue="c")
    def never() -> None:
        raise duly.Fail("no")

    shop = duly_app(app)
    ids = [later.push(), back.push(), never.push()]
    assert shop.drain() == 3
    found = [app.queue(name).find(job_id) for name, job_id in zip("abc", ids, strict=True)]
    retried, released, failed = (one for one in found if one is not None)
    assert (retried.attempts, released.attempts, failed.attempts) == (1, 0, 1)
    assert [one.state for one in (retried, released, failed)] == ["delayed", "delayed", "failed"]
    shop.advance(7)
    assert shop.drain() == 1
    shop.advance(2)
    assert shop.drain() == 1


def test_a_task_that_raises_in_drain_keeps_no_other_job_from_the_next_one(
    app: duly.App, duly_app: Callable[[duly.App], AppUnderTest]
) -> None:
    ran: list[str] = []

    @app.task("raises", queue="first")
    def raises() -> None:
        raise ValueError("no")

    @app.task("works", queue="second")
    def works() -> None:
        ran.append("second")

    shop = duly_app(app)
    raises.push()
    works.push()
    with pytest.raises(ValueError, match="no"):
        shop.drain()
    assert (shop.drain(), ran) == (1, ["second"])


async def test_a_test_that_is_a_coroutine_awaits_adrain(
    app: duly.App, duly_app: Callable[[duly.App], AppUnderTest]
) -> None:
    ran: list[int] = []

    @app.task("of.loop")
    async def of_loop(number: int) -> None:
        ran.append(number)

    shop = duly_app(app)
    await of_loop.apush(1)
    with pytest.raises(RuntimeError, match=r"await shop\.adrain\(\)"):
        shop.drain()
    assert (await shop.adrain(), ran) == (1, [1])
    assert app.queue().counts().failed == 0


class Recorder(duly.Middleware):
    def __init__(self) -> None:
        self.calls: list[str] = []

    def before(self, job: duly.Job) -> None:
        self.calls.append(f"before {job.name}")

    def after(self, job: duly.Job) -> None:
        self.calls.append(f"after {job.name}{' too late' if job.settled else ''}")

    def on_failure(self, _job: duly.Job, failure: duly.Failure) -> None:
        self.calls.append(f"on_failure {type(failure.raised).__name__}")
        failure.final = True

    def on_failed(self, _job: duly.Job, error: str) -> None:
        self.calls.append(f"on_failed {error.splitlines()[0]}")


@pytest.mark.parametrize("kind", ["plain", "coroutine"])
def test_drain_calls_the_hooks_of_the_app_as_its_workers_do(
    kind: str, duly_app: Callable[[duly.App], AppUnderTest]
) -> None:
    recorder = Recorder()
    app = duly.App(middleware=[recorder])

    def body(number: int) -> None:
        recorder.calls.append(f"run {number}")
        if number == 2:
            raise ValueError("no")

    if kind == "plain":

        @app.task("count")
        def count(number: int) -> None:
            body(number)

    else:

        @app.task("count")
        async def count(number: int) -> None:
            asyncio.get_running_loop()
            body(number)

    shop = duly_app(app)
    count.push(1)
    assert shop.drain() == 1
    assert recorder.calls == ["before count", "run 1", "after count"]
    recorder.calls.clear()
    count.push(2)
    assert shop.drain(raises=False) == 1
    assert recorder.calls == ["before count", "run 2", "on_failure ValueError", "on_failed ValueError: no"]
    assert app.queue().counts().failed == 1
    recorder.calls.clear()
    app.queue().push(1, name="nobody's")
    with pytest.raises(LookupError, match='no task "nobody\'s"'):
        shop.drain()
    what = 'this worker has no handler for the name "nobody\'s"'
    assert recorder.calls == ["before nobody's", "on_failure NoHandler", f"on_failed {what}"]


async def test_adrain_calls_the_hooks_of_the_app(duly_app: Callable[[duly.App], AppUnderTest]) -> None:
    recorder = Recorder()
    app = duly.App(middleware=[recorder])
    app.task("plain")(lambda: None)

    @app.task("of.loop")
    async def of_loop() -> None: ...

    shop = duly_app(app)
    await of_loop.apush()
    await app.tasks["plain"].apush()
    with pytest.raises(RuntimeError, match="adrain"):
        shop.drain()
    assert recorder.calls == []
    assert await shop.adrain() == 2
    assert sorted(recorder.calls) == ["after of.loop", "after plain", "before of.loop", "before plain"]


def test_drain_runs_what_a_task_was_pushed_to_another_queue_for(
    app: duly.App, duly_app: Callable[[duly.App], AppUnderTest]
) -> None:
    ran: list[int] = []

    @app.task("count", queue="orders")
    def count(number: int) -> None:
        ran.append(number)

    shop = duly_app(app)
    count.using(queue="urgent").push(1)
    count.using(queue="late", delay=60).push(2)
    assert (shop.drain(), ran) == (1, [1])
    shop.advance(59)
    assert shop.drain() == 0
    shop.advance(1)
    assert (shop.drain(), ran) == (1, [1, 2])


async def test_adrain_runs_what_was_pushed_to_another_queue_from_asyncio(
    app: duly.App, duly_app: Callable[[duly.App], AppUnderTest]
) -> None:
    app.task("count")(lambda: None)
    shop = duly_app(app)
    await app.tasks["count"].using(queue="late", delay=60).apush()
    assert await shop.adrain() == 0
    shop.advance(60)
    assert await shop.adrain() == 1


def test_jobs_for_another_program_are_left_to_it_and_have_the_same_clock(
    app: duly.App, duly_app: Callable[[duly.App], AppUnderTest]
) -> None:
    app.task("count")(lambda: None)
    shop = duly_app(app)
    theirs = app.queue("theirs")
    theirs.push({}, name="of.php", delay=60)
    shop.advance(60)
    assert shop.drain() == 0
    assert theirs.reserve() is not None


def test_a_task_that_comes_after_the_fixture_has_its_clock(duly_app: Callable[[duly.App], AppUnderTest]) -> None:
    app = duly.App()
    shop = duly_app(app)
    app.task("count", queue="new")(lambda: None)
    app.tasks["count"].using(delay=60).push()
    shop.advance(60)
    assert shop.drain() == 1


def test_the_hooks_of_an_app_surround_the_tasks_of_its_workers(app: duly.App) -> None:
    class Hooks(duly.Middleware):
        pass

    hooks = Hooks()
    hooked = duly.App(middleware=[hooks])
    hooked.task("a")(lambda: None)
    assert hooked.worker()._middleware == [hooks]
    assert app.worker()._middleware == []


def test_a_worker_of_an_app_keeps_the_handlers_that_it_was_given(app: duly.App) -> None:
    ran: list[str] = []
    worker = app.worker(["default"], max_jobs=2)
    worker.on("own", lambda _job: ran.append("own"))
    worker.on("*", lambda _job: ran.append("others"))
    app.task("own")(lambda: ran.append("a later task"))
    app.otherwise(lambda _job: ran.append("a later function"))
    for name in ("own", "none"):
        app.queue().push({}, name=name)
    worker.run()
    assert sorted(ran) == ["others", "own"]


def test_a_function_for_all_other_jobs_is_given_twice_and_is_no_task(app: duly.App) -> None:
    class Others:
        def run(self, job: duly.Job) -> None: ...

    others = Others()
    app.otherwise(others.run)
    app.otherwise(others.run)
    app.task("*")(lambda: None)
    with pytest.raises(duly.InvalidArgumentError, match="a handler for '\\*' already"):
        app.worker()
