"""Where a thread is when it is to be interrupted: how it is looked at, and what a look leaves behind."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import duly
import pytest
from support import StartProgram, running, until


def test_no_object_of_a_handler_ends_in_the_thread_that_interrupts_it(program: StartProgram) -> None:
    """Its destructor would let other threads go on in the middle of a look, and hold up other interruptions."""
    code = """
        import logging, threading, time
        logging.getLogger("duly").addHandler(logging.NullHandler())
        ended_in = set()

        class Waits(threading.Event):
            def __del__(self):
                ended_in.add(threading.current_thread().name)

        worker = duly.Worker(duly.Client(URL, prefix=PREFIX), ["q"])

        @worker.on("row")
        def row(job):
            while True:
                Waits().wait(0.005)
                time.sleep(0.001)

        @worker.on("last")
        def last(job):
            worker.stop()

        jobs = duly.Client(URL, prefix=PREFIX).queue("q")
        for number in range(20):
            jobs.push(number, name="row", timeout=0.1, max_retries=0)
        jobs.push(1, name="last")
        worker.run()
        print(*ended_in)
    """
    assert program(code).ends_well() == "duly-worker-0\n"


def test_a_thread_that_goes_on_during_a_look_is_looked_at_again(program: StartProgram) -> None:
    """Here an audit hook of the program lets it go on: from its own code to where it waits for a lock."""
    code = """
        import contextlib, logging, sys, threading, time, traceback
        logging.getLogger("duly").addHandler(logging.NullHandler())
        lock, goes_on, ended, looks = threading.Lock(), threading.Event(), [], iter(range(1))

        def hold_up(event, given):
            if event == "object.__getattr__" and given[1] == "f_code":
                if threading.current_thread().name == "duly-worker-watch" and next(looks, None) is not None:
                    goes_on.set()
                    time.sleep(0.3)  # it waits for the lock now

        def free():
            goes_on.wait()
            time.sleep(0.6)
            lock.release()

        lock.acquire()
        threading.Thread(target=free).start()
        worker = duly.Worker(duly.Client(URL, prefix=PREFIX), ["q"])

        @worker.on("row")
        def row(job):
            try:
                while not goes_on.is_set():
                    pass
                with contextlib.ExitStack() as stack:
                    stack.enter_context(lock)
                    while True:
                        time.sleep(0.001)
            except duly.JobInterrupted as error:
                ended.append(traceback.extract_tb(error.__traceback__)[-1].filename)
                raise

        worker.on("last", lambda job: worker.stop())
        sys.addaudithook(hold_up)
        jobs = duly.Client(URL, prefix=PREFIX).queue("q")
        jobs.push(1, name="row", timeout=0.1, max_retries=0)
        jobs.push(1, name="last")
        worker.run()
        print(ended, lock.locked())
    """
    assert program(code).ends_well() == "['<string>'] False\n"


def test_what_was_seen_of_a_handler_is_let_go_when_it_ends(client: duly.Client, queue: duly.Queue) -> None:
    has_looked = threading.Event()
    ended: list[bool] = []

    class Big:
        def __del__(self) -> None:
            ended.append(True)

    class Slow:
        def __del__(self) -> None:
            self.kept = Big()
            has_looked.wait(20)
            time.sleep(0.2)  # it is looked at, and not interrupted here

    worker = duly.Worker(client, ["q"])
    worker.on(None, lambda _job: Slow() and None)
    queue.push(1, timeout=0.1, max_retries=0)
    with running(worker):
        until(lambda: queue.counts().failed == 1, "its time is not over")
        has_looked.set()
        until(lambda: ended == [True], "the frame of the handler is kept")


def test_a_file_that_is_named_as_if_it_were_of_threads_is_interrupted(program: StartProgram) -> None:
    code = """
        import logging, time
        logging.getLogger("duly").addHandler(logging.NullHandler())
        worker = duly.Worker(duly.Client(URL, prefix=PREFIX), ["q"])
        of_file = {}
        text = "def start(job):\\n    while True:\\n        sleep(0.001)"
        exec(compile(text, "/srv/shop/multithreading.py", "exec"), {"sleep": time.sleep}, of_file)
        worker.on("row", of_file["start"])
        worker.on("last", lambda job: worker.stop())
        jobs = duly.Client(URL, prefix=PREFIX).queue("q")
        jobs.push(1, name="row", timeout=0.1, max_retries=0)
        jobs.push(1, name="last")
        report = worker.run()
        print(report.acked, report.failed)
    """
    assert program(code).ends_well() == "1 1\n"


def test_a_look_that_raises_ends_no_worker(program: StartProgram) -> None:
    code = """
        import logging, threading
        from duly import _places
        said = []
        logging.getLogger("duly.worker").addFilter(lambda record: said.append(record.getMessage()))

        def cannot_be_read(code):
            raise IndexError("a line that is not there")

        _places._read = cannot_be_read
        worker = duly.Worker(duly.Client(URL, prefix=PREFIX), ["q"])

        @worker.on("row")
        def row(job):
            while True:
                threading.Event().wait(0.3)

        worker.on("last", lambda job: worker.stop())
        jobs = duly.Client(URL, prefix=PREFIX).queue("q")
        jobs.push(1, name="row", timeout=0.1, max_retries=0)
        jobs.push(1, name="last")
        report = worker.run()
        print(report.acked, report.failed, sum("IndexError" in text for text in said))
    """
    assert program(code).ends_well() == "1 1 1\n"


def test_a_callback_of_an_event_loop_of_the_handler_swallows_no_interruption(program: StartProgram) -> None:
    code = """
        import asyncio, logging, threading, time
        was_logged = threading.Event()

        class Hears(logging.Handler):
            def emit(self, record):
                if "ran longer" in record.getMessage():
                    was_logged.set()

        logging.getLogger("duly").addHandler(Hears())
        logging.getLogger("duly").propagate = False
        worker = duly.Worker(duly.Client(URL, prefix=PREFIX), ["q"])

        def callback():
            until = None
            while until is None or time.monotonic() < until:
                if until is None and was_logged.is_set():
                    until = time.monotonic() + 0.3
                time.sleep(0.001)

        async def main():
            asyncio.get_running_loop().call_soon(callback)
            while True:
                await asyncio.sleep(0.5)

        @worker.on("row")
        def row(job):
            try:
                asyncio.run(main())
            except duly.JobInterrupted:
                print("interrupted")
                raise

        worker.on("last", lambda job: worker.stop())
        jobs = duly.Client(URL, prefix=PREFIX).queue("q")
        jobs.push(1, name="row", timeout=0.2, max_retries=0)
        jobs.push(1, name="last")
        worker.run()
    """
    assert program(code).ends_well() == "interrupted\n"


@pytest.mark.parametrize("of_pool", [False, True], ids=["thread", "pool"])
def test_a_handler_that_starts_threads_may_time_out(program: StartProgram, *, of_pool: bool) -> None:
    code = f"""
        import threading, time
        from concurrent.futures import ThreadPoolExecutor
        queue = duly.Client(URL, prefix=PREFIX).queue("q")
        worker = duly.Worker(duly.Client(URL, prefix=PREFIX), ["q"], concurrency=2)

        def nothing(_=None):
            time.sleep(0.002)

        @worker.on("threads")
        def start_threads(job):
            while True:
                if {of_pool}:
                    with ThreadPoolExecutor(8) as pool:
                        list(pool.map(nothing, range(8)))
                else:
                    thread = threading.Thread(target=int)
                    thread.start()
                    thread.join()

        @worker.on("last")
        def last(job):
            worker.stop()

        for number in range({40 if of_pool else 200}):
            queue.push(number, name="threads", timeout={0.1 if of_pool else 0.03}, max_retries=0)
        queue.push(1, name="last", priority=9)
        worker.run()
        print(queue.counts().failed)
    """
    status, out, err = program(code).end(90)
    assert (status, out.strip()) == (0, "40" if of_pool else "200"), err[-2000:]


def test_no_class_of_ours_is_a_thread() -> None:
    # Attributes that a later Python gives its threads would hide methods of ours of the same names.
    for file in Path(duly.__file__).parent.glob("*.py"):
        assert not re.search(r"^class \w+\((threading\.)?Thread\b", file.read_text(), re.MULTILINE), file


@pytest.mark.parametrize("takes", [0.01, 0], ids=["slow", "quick"])
@pytest.mark.parametrize("kind", ["class", "generator"])
def test_a_handler_is_not_interrupted_where_a_with_begins_or_ends(
    client: duly.Client, queue: duly.Queue, kind: str, takes: float
) -> None:
    """What it has begun there would have no end, as a transaction of a connection that the next job uses."""
    is_open = False
    left_open: list[bool] = []

    # It sleeps where others talk to a database.
    def begin() -> None:
        nonlocal is_open
        is_open = True
        time.sleep(takes)

    def end() -> None:
        nonlocal is_open
        time.sleep(takes)
        is_open = False

    class Transaction:
        def __enter__(self) -> None:
            begin()

        def __exit__(self, *_raised: object) -> None:
            end()

    @contextmanager
    def transaction() -> Iterator[None]:
        begin()
        try:
            yield
        finally:
            end()

    worker = duly.Worker(client, ["q"], concurrency=1)

    @worker.on("import")
    def rows(_job: duly.Job) -> None:
        try:
            while True:
                with Transaction() if kind == "class" else transaction():
                    time.sleep(takes)
        finally:
            left_open.append(is_open)

    @worker.on("last")
    def last(_job: duly.Job) -> None:
        worker.stop()

    for _ in range(10):
        queue.push(1, name="import", timeout=0.1, max_retries=0)
    queue.push(1, name="last")
    worker.run()
    assert queue.counts().failed == 10
    assert left_open == [False] * 10
