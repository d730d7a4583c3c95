"""What is read from Python's bytecode, of where a thread may be interrupted."""

from __future__ import annotations

import dis
import importlib._bootstrap
import multiprocessing.queues
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from duly._places import (
    A_WAIT,
    BEFORE_A_LOCK,
    BEHIND_A_LOCK,
    GIVES_THE_GIL,
    IN_A_LOCK,
    MAY_RETURN,
    SKIPS_AN_END,
    TAKES_A_LOCK,
    TAKES_A_LOCK_NEXT,
    Places,
    _called,
)


def calls(function: Callable[..., Any], name: str) -> set[int]:
    """Give what is known of the calls in the lines that load this name."""
    return set(each_call(function, name))


def each_call(function: Callable[..., Any], name: str) -> list[int]:
    """Give it of each."""
    places = Places()[function.__code__]
    starts = {offset for offset, _ in dis.findlinestarts(function.__code__)}
    found: list[int] = []
    is_in = False
    for one in dis.get_instructions(function):
        is_in = (is_in and one.offset not in starts) or one.argval == name
        if is_in and one.opname.startswith("CALL"):
            found.append(int.from_bytes(places[one.offset : one.offset + 2], "little"))
    assert found, name
    return found


def test_what_a_line_does_with_locks_is_read_from_its_bytecode() -> None:
    get_module_lock = vars(importlib._bootstrap)["_get_module_lock"]
    assert all(place & BEHIND_A_LOCK for place in calls(get_module_lock, "acquire_lock"))
    assert all(place & BEHIND_A_LOCK for place in calls(multiprocessing.queues.Queue.get, "acquire"))
    assert all(place & BEHIND_A_LOCK for place in calls(multiprocessing.queues.Queue.get, "_recv_bytes"))
    # The wait of a condition sees to its lock, but not while it frees it or takes it again.
    wait = threading.Condition.wait
    assert all(place & BEHIND_A_LOCK == 0 for place in calls(wait, "acquire") if place & A_WAIT)
    assert all(place & BEHIND_A_LOCK for place in calls(wait, "_release_save") | calls(wait, "_acquire_restore"))
    assert not any(place & BEHIND_A_LOCK for place in calls(queue.Queue.get, "_qsize"))


def test_what_a_lock_of_the_library_guards_is_read_from_its_bytecode() -> None:
    assert all(place & IN_A_LOCK for place in calls(queue.Queue.put, "_put") | calls(queue.Queue.put, "notify"))
    assert all(place & IN_A_LOCK for place in calls(threading.Event.set, "notify_all"))
    # What is made there is no lock: the wait for a process may be long.
    assert not any(place & IN_A_LOCK for place in calls(subprocess.run, "communicate"))
    # A wake-up that is given is no wait.
    assert len([place for place in each_call(threading.Condition.wait, "acquire") if place & A_WAIT]) == 2
    notify = calls(threading.Condition.notify, "release")
    assert all(place & BEHIND_A_LOCK and not place & A_WAIT for place in notify)


@pytest.mark.skipif(sys.version_info < (3, 13), reason="the exception comes where the thread was looked at")
def test_what_is_called_next_is_read_from_the_bytecode() -> None:
    def within(lock: Any, call: Any) -> None:
        with lock:
            call.first()
            call.last()

    def ends(call: Any) -> None:
        call.inner()

    assert not any(place & BEFORE_A_LOCK for place in calls(within, "first"))
    assert all(place & BEFORE_A_LOCK for place in calls(within, "last"))
    assert calls(ends, "inner") == {MAY_RETURN}
    # `len` does not look for exceptions: behind it an error may end the `with`.
    assert all(place & MAY_RETURN for place in calls(queue.Queue._qsize, "len"))

    def fails(file: Any, most: int) -> Any:
        data = file.read(most)
        if len(data) < most:
            raise RuntimeError(data, most - len(data))
        return data

    # What makes the error is another function than the `len` in its line, and Python looks there.
    assert calls(fails, "read") == {MAY_RETURN | GIVES_THE_GIL}
    instructions = list(dis.get_instructions(fails))
    called = [_called(instructions, index) for index, one in enumerate(instructions) if one.opname == "CALL"]
    assert called == ["read", "len", "len", "RuntimeError"]


def test_a_call_that_takes_a_lock_before_a_try_is_read_from_the_bytecode() -> None:
    def takes(has: Any, call: Any) -> None:
        call.first()
        has.lock.acquire()
        call.second()
        has.lock.acquire(timeout=1)
        call.third()
        while has.lock.acquire():
            call.last()

    assert [bool(place & TAKES_A_LOCK) for place in each_call(takes, "acquire")] == [True, False, True, True]
    if sys.version_info >= (3, 13):
        assert [bool(place & TAKES_A_LOCK_NEXT) for place in each_call(takes, "call")] == [True, False, True, True]


@pytest.mark.skipif(sys.version_info < (3, 11), reason="the end of a `with` runs there")
def test_where_a_loop_would_skip_the_end_of_a_with_is_read_from_the_bytecode() -> None:
    def counts(lock: Any, most: int) -> None:
        number = 0
        with lock:
            while number < most:
                number += 1

    def is_in_none(most: int) -> None:
        number = 0
        while number < most:
            number += 1

    def skips(function: Callable[..., Any]) -> bool:
        places = Places()[function.__code__]
        return any(places[at + 1] & SKIPS_AN_END >> 8 for at in range(0, len(places), 2))

    in_one_line: dict[str, Any] = {}
    exec("def f(number):\n  try:\n    while True: number += 1\n  finally: print(number)\n", in_one_line)
    assert skips(counts) == (sys.version_info >= (3, 13))
    assert skips(in_one_line["f"]) == (sys.version_info < (3, 13))
    assert not skips(is_in_none)


@pytest.mark.skipif(sys.version_info < (3, 11), reason="there Python itself takes longer")
def test_a_long_function_is_read_in_little_time() -> None:
    def seconds(lines: int) -> float:
        text = "def f(x):\n" + "".join(f"  try: x.a({n})\n  finally: x.c(x == {n})\n" for n in range(lines))
        of_text: dict[str, Any] = {}
        exec(text, of_text)
        began = time.thread_time()
        Places()[of_text["f"].__code__]
        return time.thread_time() - began

    seconds(10)
    # Eight times as long takes about eight times as much, not 64 times.
    assert seconds(1600) < 30 * seconds(200)
