"""`duly.aio` has the verbs of `duly`, all of them and with the same arguments."""

from __future__ import annotations

import inspect
from typing import Any

import duly
import duly.aio
import pytest

TWINS = [
    (duly.Client, duly.aio.Client),
    (duly.Queue, duly.aio.Queue),
    (duly.Job, duly.aio.Job),
    (duly.Lock, duly.aio.Lock),
    (duly.Topic, duly.aio.Topic),
    (duly.Message, duly.aio.Message),
    (duly.Schedules, duly.aio.Schedules),
    (duly.Consumer, duly.aio.Consumer),
]
# Add to this only what is said in the module's documentation.
WITHOUT_A_TWIN = {
    *("command", "Supervisor"),  # of a terminal; of processes
    # one worker runs functions and coroutines
    *("Worker", "WorkerReport", "Middleware", "Failure", "Retry", "Release", "Fail", "JobInterrupted"),
    *("App", "Task", "current_job", "Pushed", "AsyncPushed"),  # tasks have `apush`
    "NewJob",  # nothing waits in it
    "RetryPolicy",
    "Schedule",
    "ReservedJob",
    *(name for name in duly.__all__ if name.endswith("Error") or name.startswith("_")),
    # what verbs give
    *("AuditReport", "Cancelled", "Counts", "Finding", "Found", "JobView", "Limits", "Progress", "PushSummary"),
    *("QueueInfo", "QueuePage", "Requeued", "RunningJob", "WorkerInfo", "Fire", "ScheduleView", "SyncReport"),
    *("Rates", "RateWindow", "NameRates", "RunCounts", "Spread", "Trace", "TraceEvent", "TraceRun"),
    *("Published", "TopicInfo", "Subscription", "SubscriptionMember", "CutOff", "SearchPage"),
    *("ListedTopic", "TopicPage"),
}


def words(of: type) -> set[str]:
    return {name for name in dir(of) if not name.startswith("_")}


def arguments_of(function: Any) -> str:
    """Names, kinds and defaults; a function of Python's has annotations too."""
    signature = inspect.signature(function)
    parameters = [one.replace(annotation=one.empty) for one in signature.parameters.values()]
    return str(signature.replace(parameters=parameters, return_annotation=signature.empty))


@pytest.mark.parametrize(("sync", "twin"), TWINS, ids=lambda one: f"{one.__module__}.{one.__name__}")
def test_the_twin_has_the_same_words_with_the_same_arguments(sync: type, twin: type) -> None:
    assert words(sync) == words(twin)
    assert arguments_of(sync) == arguments_of(twin)
    for name in words(sync):
        one, other = getattr(sync, name), getattr(twin, name)
        assert type(one) is type(other), name
        if callable(one):
            assert arguments_of(one) == arguments_of(other), name


def test_what_has_no_twin_is_known() -> None:
    assert set(duly.__all__) - set(duly.aio.__all__) == WITHOUT_A_TWIN
    assert set(duly.aio.__all__) == {"Call", "LockCall", *(sync.__name__ for sync, _ in TWINS)}


def test_push_and_new_job_take_the_same_arguments(queue: duly.Queue) -> None:
    of_push = list(inspect.signature(queue.push).parameters.values())
    assert of_push == list(inspect.signature(duly.NewJob).parameters.values())
    # What Python shows is what is taken: None is every option's default.
    shown: dict[str, Any] = {one.name: None for one in of_push if one.kind is one.KEYWORD_ONLY}
    assert len(shown) == 15
    assert queue.find(queue.push(**shown)) is not None
    duly.NewJob(**shown)
    with pytest.raises(TypeError, match=r"push\(\) got an unexpected keyword argument 'colour'"):
        queue.push(1, colour="red")  # type: ignore[call-arg]


def test_what_python_shows_of_a_client_is_what_it_takes() -> None:
    shown = inspect.signature(duly.Client).parameters.values()
    settings = {one.name: one.default for one in shown if one.kind is one.KEYWORD_ONLY}
    assert len(settings) == 14
    clients: list[Any] = [duly.Client, duly.aio.Client]
    for client in clients:
        client("redis://localhost", **settings)
        with pytest.raises(TypeError, match=r"Client\(\) got an unexpected keyword argument 'colour'"):
            client("redis://localhost", colour="red")
