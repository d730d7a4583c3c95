"""Exceptions that a library sets in a worker's thread (`PyThreadState_SetAsyncExc`) and that come late, at any line.

No job is acked that did not run, and none runs again behind its ack. It may cost the job that runs just then one of its
attempts.
"""

from __future__ import annotations

import asyncio
import collections
import ctypes
import logging
import os
import random
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable
from types import FrameType
from typing import Any

import duly
import duly._runs
import duly._threads
import pytest
from support import empty, running, until

ALONE = "DULY_LATE_ALONE"


@pytest.mark.skipif(ALONE in os.environ, reason="it runs the others")
def test_in_a_process_of_its_own() -> None:
    """Run the others where no other test has left a thread, a logger or spans that an exception could come to."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", __file__]
    ended = subprocess.run(command, env={**os.environ, ALONE: "1"}, capture_output=True, text=True, timeout=300)
    assert ended.returncode == 0, ended.stdout[-5000:] + ended.stderr[-1000:]
    assert " passed" in ended.stdout


alone = pytest.mark.skipif(ALONE not in os.environ, reason="test_in_a_process_of_its_own runs it")


class LateError(Exception):
    """As it comes late."""


def raise_in(thread: int) -> None:
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(LateError))


@pytest.fixture
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    # Where another test has imported it, no job is a quick one: each has a span.
    monkeypatch.delitem(sys.modules, "opentelemetry.trace", raising=False)
    for module in (duly._runs, duly._threads):
        monkeypatch.setattr(module, "PAUSE_S", 0.0)


@pytest.fixture
def no_log(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    """An exception that comes within `logging` may leave one of its locks held, in Python before 3.13.

    One that comes in a callback of the garbage collector, as others set it, is only told of.
    """
    monkeypatch.setattr(sys, "unraisablehook", id)
    caplog.set_level(logging.CRITICAL, "duly.worker")
    assert not logging.getLogger("duly.worker").isEnabledFor(logging.ERROR)


class Heard(duly.Middleware):
    """Notes what hooks hear of."""

    def __init__(self) -> None:
        self.after_ran: list[object] = []
        self.failing: list[tuple[object, type[BaseException]]] = []
        self.failed: list[object] = []

    def before(self, job: duly.Job) -> None:
        pass

    def after(self, job: duly.Job) -> None:
        self.after_ran.append(job.data)

    def on_failure(self, job: duly.Job, failure: duly.Failure) -> None:
        self.failing.append((job.data, type(failure.raised)))

    def on_failed(self, job: duly.Job, error: str) -> None:  # noqa: ARG002
        self.failed.append(job.data)


class At:
    """Raises in a thread of the worker, at the n-th instruction of duly's that follows a handler."""

    def __init__(self) -> None:
        self.number = 0
        self.left = 0
        self.functions: dict[int, str] = {}

    def arm(self, number: int, left: int) -> None:
        self.number, self.left = number, left
        frame = sys._getframe(1)
        while frame.f_back is not None:
            frame = frame.f_back
            if self._trace(frame, "call", None) is not None:
                frame.f_trace = self._trace
        sys.settrace(self._trace)

    def disarm(self) -> None:
        sys.settrace(None)

    def _trace(self, frame: FrameType, event: str, _given: object) -> Any:
        code = frame.f_code
        if code.co_filename not in (duly._threads.__file__, duly._runs.__file__):
            return None
        frame.f_trace_opcodes = True
        frame.f_trace_lines = False
        if event == "opcode":
            self.left -= 1
            if self.left < 0:
                self.functions[self.number] = code.co_name
                raise LateError(code.co_name) from None
        return self._trace


def ended_in(errors: Iterable[str]) -> set[str]:
    """Give where the exceptions came that ended runs: the function, or "not known" before Python calls one.

    A job that came back may be ended by what was meant for the job before it.
    """
    form = re.compile(r"test_late_exceptions\.LateError: (\w+)\n|RuntimeError: what it raised is (not known)$")
    found = [form.match(error) for error in errors]
    return {one[1] or one[2] if one else "another error" for one in found}


MOST = 800
"""More than there are instructions from one handler to the next."""


@alone
@pytest.mark.usefixtures("no_pauses")
@pytest.mark.parametrize("raised", [None, ValueError, duly.Release], ids=["works", "raises", "releases"])
@pytest.mark.parametrize("hooks", [False, True], ids=["quick", "hooks"])
def test_at_whatever_instruction_it_comes_what_ran_is_what_was_acked(
    hooks: bool, raised: type[BaseException] | None, client: duly.Client, queue: duly.Queue
) -> None:
    at, heard, ran = At(), Heard(), collections.Counter[int]()
    # What follows a handler that raises is longer: each third instruction, one of the three at random.
    step = 1 if raised is None else 3
    first = random.Random(os.environ.get("DULY_SEED", "7")).randrange(step)
    jobs = MOST // step
    worker = duly.Worker(client, ["q"], middleware=[heard] if hooks else [])

    @worker.on(None)
    def handle(job: duly.Job) -> None:
        at.disarm()
        ran[job.data] += 1
        error = None if raised is None or ran[job.data] > 1 else raised()
        at.arm(job.data, first + step * job.data)
        if error is not None:
            raise error from None

    queue.push_many(duly.NewJob(number, max_retries=0) for number in range(jobs))
    with running(worker) as reports:
        until(lambda: empty(queue), "jobs are left")
    report = reports[0]
    errors = {view.data: view.error for view in queue.peek("failed", limit=1000)}
    failed = errors.keys()
    of_those_that_ran = [error for data, error in errors.items() if data in ran]
    assert 40 < len(at.functions) < jobs
    assert (report.acked, report.failed) == (jobs - len(failed), len(failed))
    # What is not acked has failed, and nothing is acked that did not run.
    assert {*ran, *failed} == set(range(jobs))
    if raised is None:
        # Without hooks it costs an attempt also between the handler and the ack.
        assert ended_in(of_those_that_ran) <= (set() if hooks else {"_serve"})
        assert len(ran.keys() & failed) < 20
        assert set(ran.values()) == {1}
    elif raised is ValueError:
        assert failed == set(range(jobs))
        assert set(ran.values()) == {1}
    elif not hooks:
        # Until what the handler raised is known. Python calls nothing there, and from 3.11 on it raises only at calls.
        assert ended_in(of_those_that_ran) <= {"not known", "_serve", "has_begun"}
        assert all(times == (1 if number in failed else 2) for number, times in ran.items())
    assert len(heard.after_ran) == len(set(heard.after_ran))
    assert not set(heard.after_ran) & failed
    assert len(heard.failing) == len({data for data, _ in heard.failing})
    assert {data for data, _ in heard.failing} <= failed


@alone
@pytest.mark.usefixtures("no_pauses", "no_log")
@pytest.mark.parametrize("concurrency", [1, 2])
@pytest.mark.parametrize("hooks", [False, True], ids=["quick", "hooks"])
def test_many_at_random_moments_cost_no_job_and_no_thread(
    hooks: bool, concurrency: int, client: duly.Client, queue: duly.Queue
) -> None:
    seed = int(os.environ.get("DULY_SEED", "7"))
    ran: list[duly.Job] = []
    heard: list[duly.Job] = []
    # No code of Python's, so that none comes within a handler or a hook.
    notes: Any = type("Notes", (duly.Middleware,), {"before": ran.count, "after": heard.append})()
    worker = duly.Worker(client, ["q"], concurrency=concurrency, middleware=[notes] if hooks else [])
    worker.on(None, ran.append)
    pushed = 0
    chance = random.Random(seed)
    with running(worker) as reports:
        until(lambda: sum(one.name.startswith("duly-worker-") for one in threading.enumerate()) > concurrency, "start")
        threads = {one.name: one for one in threading.enumerate() if one.name[len("duly-worker-") :].isdecimal()}
        assert len(threads) == concurrency
        ends = time.monotonic() + 2
        while time.monotonic() < ends:
            number = chance.randrange(8)
            queue.push_many(duly.NewJob(pushed + one, max_retries=0) for one in range(number))
            pushed += number
            for _ in range(chance.randrange(6)):
                for one in threads.values():
                    assert one.ident is not None
                    raise_in(one.ident)
                time.sleep(chance.random() * 0.0005)
        until(lambda: empty(queue), f"jobs are left: seed {seed}")
        assert all(one.is_alive() for one in threads.values())
    failed = [view.data for view in queue.peek("failed", limit=1000)]
    both = {job.data for job in ran} & set(failed)
    assert sorted({job.data for job in ran} | set(failed)) == list(range(pushed)), f"seed {seed}"
    assert (reports[0].acked, reports[0].failed) == (len(ran) - len(both), len(failed))
    # A job that ran is charged only if it came just between the handler and the ack, without hooks.
    assert not (hooks and both)
    assert {job.id for job in heard} <= {job.id for job in ran}
    assert len(heard) == len({job.id for job in heard})


def in_wait(thread: int) -> bool:
    return sys._current_frames()[thread].f_code.co_name == "_serve"


@alone
@pytest.mark.parametrize("raises", [False, True])
@pytest.mark.parametrize("hooks", [False, True], ids=["quick", "hooks"])
def test_one_that_comes_while_the_thread_waits_costs_the_next_job_nothing(
    hooks: bool, raises: bool, client: duly.Client, queue: duly.Queue
) -> None:
    heard, ran, threads = Heard(), [], []
    worker = duly.Worker(client, ["q"], middleware=[heard] if hooks else [])

    @worker.on(None)
    def handle(job: duly.Job) -> None:
        threads.append(threading.get_ident())
        ran.append(job.data)
        if raises and job.data == "first":
            raise ValueError

    queue.push("first", max_retries=0)
    with running(worker) as reports:
        for data in ("second", "third"):
            until(lambda: threads and empty(queue) and in_wait(threads[-1]), "the thread does not wait")
            raise_in(threads[-1])
            queue.push(data, max_retries=0)
            until(lambda: ran[-1] == data, "it did not run")  # noqa: B023
        until(lambda: empty(queue), "jobs are left", 30)
    assert ran == ["first", "second", "third"]
    assert (reports[0].acked, reports[0].failed) == ((2, 1) if raises else (3, 0))
    if hooks:
        assert heard.failing == ([("first", ValueError)] if raises else [])
        assert heard.failed == (["first"] if raises else [])
        assert heard.after_ran == ran[1 if raises else 0 :]


@alone
def test_a_second_one_while_the_first_is_logged_ends_no_thread(client: duly.Client, queue: duly.Queue) -> None:
    threads: list[int] = []
    worker = duly.Worker(client, ["q"])
    worker.on(None, lambda _job: threads.append(threading.get_ident()))
    queue.push(0)

    def pauses() -> bool:
        return sys._current_frames()[threads[0]].f_code.co_name == "_go_on"

    with running(worker) as reports:
        until(lambda: threads and empty(queue) and in_wait(threads[0]), "the thread does not wait")
        raise_in(threads[0])
        queue.push(1)
        until(pauses, "the first one was not raised")
        raise_in(threads[0])
        for number in range(2, 5):
            queue.push(number)
        until(lambda: empty(queue), "jobs are left", 30)
    assert (len(threads), reports[0].acked) == (5, 5)
    assert len(set(threads)) == 1


@alone
@pytest.mark.usefixtures("no_pauses")
@pytest.mark.parametrize("hooks", [False, True])
def test_what_runs_on_the_event_loop_is_what_was_acked(
    hooks: bool, client: duly.Client, queue: duly.Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It comes behind the end of a coroutine, where its run is ended, and in what begins the next one."""
    heard, ran = Heard(), collections.Counter[int]()
    worker = duly.Worker(client, ["q"], concurrency=2, middleware=[heard] if hooks else [])
    chance = random.Random(7)

    def late(call: Callable[..., Any]) -> Callable[..., Any]:
        def raises(*given: Any, **more: Any) -> Any:
            when = chance.randrange(6)
            if when == 0:
                raise LateError from None
            result = call(*given, **more)
            if when == 1:
                raise LateError from None
            return result

        return raises

    from duly import _event_loop

    for name in ("_go_on", "_start", "_begin_handed", "_end_run", "_ended"):
        monkeypatch.setattr(_event_loop.EventLoop, name, late(getattr(_event_loop.EventLoop, name)))
    for name in ("end", "settle", "worked"):
        monkeypatch.setattr(duly._runs.Runs, name, late(getattr(duly._runs.Runs, name)))
    monkeypatch.setattr(_event_loop, "PAUSE_S", 0.0)

    @worker.on(None)
    async def handle(job: duly.Job) -> None:
        await asyncio.sleep(0)
        ran[job.data] += 1

    queue.push_many(duly.NewJob(number, max_retries=0) for number in range(200))
    with running(worker) as reports:
        until(lambda: empty(queue), "jobs are left", 30)
    assert reports[0].acked == 200
    assert sorted(ran) == list(range(200))
    assert set(ran.values()) == {1}
    assert heard.failing == heard.failed == []
    assert len(heard.after_ran) == len(set(heard.after_ran))


@alone
def test_one_that_comes_while_on_failed_is_waited_for_does_not_end_its_thread(
    client: duly.Client, queue: duly.Queue
) -> None:
    """As the hook of a job that failed elsewhere runs in a thread of its own."""
    told: list[object] = []
    threads: list[int] = []

    class Hears(duly.Middleware):
        def on_failed(self, job: duly.Job, error: str) -> None:  # noqa: ARG002
            threads.append(threading.get_ident())
            told.append(job.data)

    def waits() -> bool:
        return sys._current_frames()[threads[0]].f_code.co_name in ("_call_hooks", "_go_on")

    worker = duly.Worker(client, ["q"], middleware=[Hears()])

    @worker.on(None)
    def handle(_job: duly.Job) -> None:
        while True:
            time.sleep(0.001)

    with running(worker):
        for number in range(3):
            if threads:
                until(waits, "it does not wait")
                raise_in(threads[0])
            queue.push(number, max_retries=0, timeout=0.02)
            until(lambda: number in told, "a job was not heard of")  # noqa: B023
    assert set(told) == {0, 1, 2}
    assert len(set(threads)) == 1
