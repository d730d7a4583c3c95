"""What a push of a task gives, and how tasks are pushed in bulk."""

from __future__ import annotations

import copy
import json
import pickle
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import duly
import pytest
from support import Server, running


@pytest.fixture
def app(server: Server, prefix: str) -> duly.App:
    return duly.App(server.url, prefix=prefix)


@contextmanager
def working(app: duly.App, *queues: str) -> Iterator[None]:
    with running(app.worker(queues)):
        yield


def test_a_pushed_job_knows_its_queue(app: duly.App) -> None:
    @app.task("double", result_ttl=60)
    def double(number: int) -> int:
        return 2 * number

    elsewhere = double.using(queue="elsewhere").push(21)
    found = elsewhere.find()
    assert found is not None
    assert found.state == "ready"
    assert elsewhere.queue.name == "elsewhere"
    with working(app, "elsewhere"):
        result: int = elsewhere.wait(timeout=20)
        assert result == 42
        again: int = double.wait_result(elsewhere, timeout=20)
        assert again == 42
    with pytest.raises(duly.NoResultError):
        double.wait_result(str(elsewhere), timeout=20)  # a plain text is looked for in the task's own queue
    delayed = double.using(delay=3600, key="k").push(1)
    cancelled = delayed.cancel()
    assert cancelled is not None
    assert (cancelled.id, cancelled.was) == (delayed, "delayed")
    assert delayed.cancel() is None
    assert delayed.find() is None


async def test_asyncio_code_has_the_same(app: duly.App) -> None:
    @app.task("double", result_ttl=60)
    async def double(number: int) -> int:
        return 2 * number

    elsewhere = await double.using(queue="elsewhere").apush(21)
    found = await elsewhere.find()
    assert found is not None
    assert found.state == "ready"
    with working(app, "elsewhere"):
        result: int = await elsewhere.wait(timeout=20)
        assert result == 42
        again: int = await double.await_result(elsewhere, timeout=20)
        assert again == 42
    delayed = await double.using(delay=3600).apush(1)
    cancelled = await delayed.cancel()
    assert cancelled is not None
    assert await delayed.find() is None


def test_the_id_is_a_text_for_everybody_else(app: duly.App) -> None:
    task = app.task("nothing")(lambda: None)
    job_id = task.push()
    assert isinstance(job_id, str)
    by_id: dict[str, int] = {job_id: 1}
    assert by_id[str(job_id)] == 1
    assert json.dumps([job_id]) == f'["{job_id}"]'
    assert type(pickle.loads(pickle.dumps(job_id))) is str
    assert type(copy.deepcopy(job_id)) is str
    assert f"{job_id}" == str(job_id) == job_id
    assert type(str(job_id)) is str
    assert repr(job_id) == repr(str(job_id))
    assert job_id.find(job_id[3:5]) <= 3
    assert app.queue().find(job_id) is not None
    assert app.queue().find(app.queue().push({"id": job_id})) is not None
    assert type(task.delay()) is duly.Pushed


def test_jobs_of_a_task_are_pushed_in_bulk_with_its_options(app: duly.App) -> None:
    ran: list[int] = []
    done = threading.Event()

    @app.task("note", queue="bulk", max_retries=2, priority=3, timeout=30, headers={"from": "shop"}, result_ttl=60)
    def note(number: int) -> None:
        ran.append(number)
        if len(ran) == 1500:
            done.set()

    queue = app.queue(note.queue)
    summary = queue.push_many((note.job(number=number) for number in range(1500)), ids=True)
    assert summary.created == 1500
    assert summary.ids is not None
    view = queue.find(summary.ids[0])
    assert view is not None
    assert (view.name, view.max_retries, view.priority, view.timeout) == ("note", 2, 3, 30.0)
    assert (view.headers, view.result_ttl, view.data) == ({"from": "shop"}, 60.0, {"number": 0})
    late = note.using(delay=3600, id="late").job(7)
    assert queue.push_many([late]).created == 1
    found = queue.find("late")
    assert found is not None
    assert found.state == "delayed"
    with pytest.raises(TypeError):
        note.job("too", "many")  # type: ignore[call-arg, arg-type]
    with working(app, "bulk"):
        assert done.wait(20)
    assert sorted(ran) == list(range(1500))


def test_delay_says_that_it_does_not_wait(app: duly.App) -> None:
    task = app.task("sleep")(lambda seconds: seconds)
    found = task.delay(30).find()
    assert found is not None
    assert (found.state, found.data) == ("ready", {"seconds": 30})
    assert "using(delay=30)" in str(duly.Task.delay.__doc__)
