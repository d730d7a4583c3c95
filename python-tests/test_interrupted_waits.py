"""Plain handlers that wait, again and again, and must end; and what they hold or swallow meanwhile."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

import pytest
from duly._switches import frequent
from support import Program

WAITS = {
    "an event": "event.wait(0.01)",
    "a condition": "with condition: condition.wait(0.01)",
    "a queue": "box.get(timeout=0.01)",
    "a queue of processes": "shared.get(timeout=0.01)",
    "a future": "future.result(timeout=0.01)",
    "a process": "process.wait(0.01)",
    "a thread": "thread.join(0.01)",
}


@pytest.mark.parametrize("what", WAITS)
def test_who_waits_with_a_short_timeout_in_a_loop_is_interrupted(program: Callable[[str], Program], what: str) -> None:
    code = f"""
        import concurrent.futures, logging, multiprocessing, os, queue, subprocess, sys, threading
        logging.getLogger("duly").propagate = False
        event, box, shared = threading.Event(), queue.Queue(), multiprocessing.Queue()
        condition, future = threading.Condition(), concurrent.futures.Future()
        thread = threading.Thread(target=event.wait, daemon=True)
        thread.start()
        process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
        worker = duly.Worker(duly.Client(URL, prefix=PREFIX), ["q"])

        @worker.on("row")
        def row(job):
            while True:
                try:
                    {WAITS[what]}
                except (queue.Empty, concurrent.futures.TimeoutError, subprocess.TimeoutExpired):
                    pass

        @worker.on("last")
        def last(job):
            worker.stop()

        jobs = duly.Client(URL, prefix=PREFIX).queue("q")
        jobs.push(1, name="row", timeout=0.1, max_retries=0)
        jobs.push(1, name="last")
        print(worker.run().failed, flush=True)
        os._exit(0)
    """
    status, out, err = program(code).end()
    assert (status, out) == (0, "1\n"), err


TAKEN = {
    "a lock": ("threading.Lock()", "lock.acquire()"),
    "a lock that may be taken twice": ("threading.RLock()", "lock.acquire()"),
    "a condition": ("threading.Condition(threading.Lock())", "lock.acquire()"),
    "a semaphore": ("threading.Semaphore(1)", "lock.acquire()"),
    "an attribute": ("threading.Lock()", "has.lock.acquire()"),
    "a result": ("threading.Lock()", "taken = lock.acquire()"),
}


@pytest.mark.parametrize("what", TAKEN)
def test_a_lock_that_a_handler_takes_before_its_try_is_freed(program: Callable[[str], Program], what: str) -> None:
    lock, take = TAKEN[what]
    code = f"""
        import logging, os, threading, time, types
        was_logged, has_lock = threading.Event(), threading.Event()

        class Hears(logging.Handler):
            def emit(self, record):
                if "ran longer" in record.getMessage():
                    was_logged.set()

        logging.getLogger("duly").addHandler(Hears())
        logging.getLogger("duly").propagate = False
        lock = {lock}
        has = types.SimpleNamespace(lock=lock)
        worker = duly.Worker(duly.Client(URL, prefix=PREFIX), ["q"])

        @worker.on("row")
        def row(job):
            has_lock.wait()
            {take}
            try:
                while True:
                    time.sleep(0.001)
            finally:
                lock.release()

        @worker.on("last")
        def last(job):
            worker.stop()

        def hold():
            lock.acquire()
            has_lock.set()
            was_logged.wait()
            time.sleep(1.5)  # however late it is
            lock.release()

        threading.Thread(target=hold).start()
        jobs = duly.Client(URL, prefix=PREFIX).queue("q")
        jobs.push(1, name="row", timeout=0.2, max_retries=0)
        jobs.push(1, name="last")
        failed, taken = worker.run().failed, []
        probe = threading.Thread(target=lambda: taken.append(lock.acquire(timeout=20)), daemon=True)
        probe.start()
        probe.join()
        print(failed, taken, flush=True)
        os._exit(0)
    """
    assert program(code).ends_well() == "1 [True]\n"


@pytest.mark.parametrize("within", ["pass", "time.sleep(0.001)"])
def test_handlers_that_do_nothing_but_take_a_lock_and_free_it_are_interrupted(
    program: Callable[[str], Program], within: str
) -> None:
    code = f"""
        import logging, os, threading, time
        logging.getLogger("duly").addHandler(logging.NullHandler())
        lock = threading.Lock()
        worker = duly.Worker(duly.Client(URL, prefix=PREFIX), ["q"], concurrency=3, max_jobs=9)

        @worker.on("row")
        def row(job):
            while True:
                lock.acquire()
                try:
                    {within}
                finally:
                    lock.release()

        jobs = duly.Client(URL, prefix=PREFIX).queue("q")
        jobs.push_many(duly.NewJob(number, name="row", timeout=0.1, max_retries=0) for number in range(9))
        print(worker.run().failed, lock.locked(), flush=True)
        os._exit(0)
    """
    assert program(code).ends_well() == "9 False\n"


def test_handlers_that_do_nothing_but_use_one_queue_are_interrupted(program: Callable[[str], Program]) -> None:
    code = """
        import logging, os, queue, sys
        logging.getLogger("duly").addHandler(logging.NullHandler())
        box = queue.Queue(20)
        worker = duly.Worker(duly.Client(URL, prefix=PREFIX), ["q"], concurrency=6, max_jobs=12)
        every = sys.getswitchinterval()

        @worker.on("row")
        def row(job):
            while True:
                box.put(1)
                box.get()

        jobs = duly.Client(URL, prefix=PREFIX).queue("q")
        jobs.push_many(duly.NewJob(number, name="row", timeout=0.1, max_retries=0) for number in range(12))
        print(worker.run().failed, box.mutex.locked(), sys.getswitchinterval() == every, flush=True)
        os._exit(0)
    """
    assert program(code).ends_well() == "12 False True\n"


def test_a_process_that_is_forked_while_threads_take_turns_often_is_as_before() -> None:
    every = sys.getswitchinterval()
    with frequent():
        assert sys.getswitchinterval() < every
        with frequent():
            pass
        assert sys.getswitchinterval() < every
        child = os.fork()
        if child == 0:
            with frequent():
                is_short = sys.getswitchinterval() < every
            os._exit(0 if is_short and sys.getswitchinterval() == every else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert sys.getswitchinterval() == every
