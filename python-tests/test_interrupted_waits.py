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
    "the ends of children": "subprocess.call(['true'])",
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
        import logging, os, queue, subprocess, sys
        logging.getLogger("duly").addHandler(logging.NullHandler())
        # On an idle machine each thread stands at the lock of the queue, hardly ever elsewhere: see docs/python.md.
        spin = "import os; parent = os.getppid()\\nwhile os.getppid() == parent: pass"
        busy = [subprocess.Popen([sys.executable, "-c", spin]) for _ in range(2 * os.cpu_count())]
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
        failed = worker.run().failed
        for process in busy:
            process.kill()
        print(failed, box.mutex.locked(), sys.getswitchinterval() == every, flush=True)
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


DROPS = {
    "a generator": "for _ in rows(): break",
    "the end of an object": "thing = Thing(); weakref.finalize(thing, wait); del thing",
    "a callback of a weak reference": "thing = Thing(); kept = weakref.ref(thing, lambda _: wait()); del thing",
    "a function of a database": "database.execute('select wait()').fetchall()",
    "a callback of C code": "ctypes.CFUNCTYPE(ctypes.c_int)(lambda: wait() or 1)()",
}
"""Where what is raised is dropped, or becomes another exception."""


@pytest.mark.parametrize("what", DROPS)
def test_an_interruption_that_is_dropped_comes_again(program: Callable[[str], Program], what: str) -> None:
    code = f"""
        import ctypes, logging, os, sqlite3, sys, time, weakref
        import duly._interruptions
        duly._interruptions._AGAIN_S = 0.2
        logging.getLogger("duly").addHandler(logging.NullHandler())
        sys.unraisablehook = lambda _: None
        worker = duly.Worker(duly.Client(URL, prefix=PREFIX), ["q"])
        waits, ended = [], []

        def wait():
            try:
                while not waits:
                    time.sleep(0.001)
            except duly.JobInterrupted:
                waits.append("dropped")
                raise

        def rows():
            try:
                yield 1
                yield 2
            finally:
                wait()

        class Thing:
            pass

        @worker.on("row")
        def row(job):
            database = sqlite3.connect(":memory:")
            database.create_function("wait", 0, wait)
            try:
                {DROPS[what]}
            except sqlite3.OperationalError:
                pass
            ended.extend(waits)
            try:
                while True:
                    time.sleep(0.001)
            except duly.JobInterrupted:
                ended.append("interrupted")
                raise

        worker.on("last", lambda job: worker.stop())
        jobs = duly.Client(URL, prefix=PREFIX).queue("q")
        jobs.push(1, name="row", timeout=0.1, max_retries=0)
        jobs.push(1, name="last")
        worker.run()
        print(*ended, flush=True)
        os._exit(0)
    """
    assert program(code).ends_well() == "dropped interrupted\n"


@pytest.mark.parametrize("how", ["finally", "except", "another exception", "with", "a coroutine", "a generator"])
def test_a_handler_that_cleans_up_is_interrupted_once(program: Callable[[str], Program], how: str) -> None:
    code = f"""
        import asyncio, logging, os, time
        import duly._interruptions
        duly._interruptions._AGAIN_S = 0.2
        logging.getLogger("duly").addHandler(logging.NullHandler())
        worker = duly.Worker(duly.Client(URL, prefix=PREFIX), ["q"])

        def wait():
            while True:
                time.sleep(0.001)

        def clean_up(how):
            if how == "another exception":
                try:
                    raise LookupError
                except LookupError:
                    clean_up("")
                return
            for _ in range(100):
                time.sleep(0.01)
            print("cleaned up", flush=True)

        class Block:
            def __enter__(self):
                pass

            def __exit__(self, *raised):
                clean_up("")

        async def wait_and_clean_up():
            try:
                while True:
                    time.sleep(0.001)
                    await asyncio.sleep(0)
            finally:
                for _ in range(100):
                    await asyncio.sleep(0.01)
                print("cleaned up", flush=True)

        def rows():
            try:
                while True:
                    yield 1
            finally:
                clean_up("")

        @worker.on("row")
        def row(job):
            how = {how!r}
            if how == "a coroutine":
                asyncio.run(wait_and_clean_up())
            elif how == "a generator":
                for _ in rows():  # it ends with this function
                    time.sleep(0.001)
            elif how == "with":
                with Block():
                    wait()
            elif how == "except":
                try:
                    wait()
                except duly.JobInterrupted:
                    clean_up(how)
            else:
                try:
                    wait()
                finally:
                    clean_up(how)

        worker.on("last", lambda job: worker.stop())
        jobs = duly.Client(URL, prefix=PREFIX).queue("q")
        jobs.push(1, name="row", timeout=0.1, max_retries=0)
        jobs.push(1, name="last")
        worker.run()
        os._exit(0)
    """
    assert program(code).ends_well() == "cleaned up\n"


def test_who_keeps_the_interruption_and_goes_on_is_interrupted_again(program: Callable[[str], Program]) -> None:
    code = """
        import logging, os, time
        import duly._interruptions
        duly._interruptions._AGAIN_S, duly._interruptions._HELD_S = 0.1, 0.3
        logging.getLogger("duly").addHandler(logging.NullHandler())
        worker = duly.Worker(duly.Client(URL, prefix=PREFIX), ["q"])
        kept = []

        @worker.on("row")
        def row(job):
            while len(kept) < 2:
                try:
                    while True:
                        time.sleep(0.001)
                except duly.JobInterrupted as error:
                    kept.append(error)

        worker.on("last", lambda job: worker.stop())
        jobs = duly.Client(URL, prefix=PREFIX).queue("q")
        jobs.push(1, name="row", timeout=0.1, max_retries=0)
        jobs.push(1, name="last")
        worker.run()
        print(len(kept), len(set(map(type, kept))), flush=True)
        os._exit(0)
    """
    assert program(code).ends_well() == "2 1\n"


def test_a_handler_that_goes_on_after_it_was_cancelled_is_logged_once(program: Callable[[str], Program]) -> None:
    code = """
        import asyncio, logging, os
        import duly._watch
        duly._watch.PATIENCE_S = 0.2
        was_logged = []

        class Hears(logging.StreamHandler):
            def emit(self, record):
                super().emit(record)
                if "still runs" in record.getMessage():
                    was_logged.append(record)

        logging.getLogger("duly").addHandler(Hears())
        worker = duly.Worker(duly.Client(URL, prefix=PREFIX), ["q"], concurrency=2, grace=0)

        @worker.on("row")
        async def row(job):
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                pass
            while not was_logged:
                await asyncio.sleep(0.01)
            worker.stop()

        jobs = duly.Client(URL, prefix=PREFIX).queue("q")
        print(jobs.push(1, name="row", timeout=0.1, max_retries=0), flush=True)
        worker.run()
        os._exit(0)
    """
    status, out, err = program(code).end()
    said = f"the handler of job {out.strip()} of queue q, or a hook behind it, was interrupted 0.2 s ago and still runs"
    assert (status, err.count(said), err.count("still runs")) == (0, 1, 1), err


def test_an_interruption_that_comes_again_is_as_careful_as_the_first(program: Callable[[str], Program]) -> None:
    code = """
        import logging, os, subprocess, time
        import duly._interruptions
        duly._interruptions._AGAIN_S = 1.5
        logging.getLogger("duly").addHandler(logging.NullHandler())
        worker = duly.Worker(duly.Client(URL, prefix=PREFIX), ["q"])
        ends = []

        @worker.on("row")
        def row(job):
            try:
                while True:
                    time.sleep(0.001)
            except duly.JobInterrupted:
                process = subprocess.Popen(["sh", "-c", "sleep 1.7; exit 3"])
            try:
                process.wait()  # the other one comes, and must not come before the end is seen
                while True:
                    time.sleep(0.001)
            finally:
                ends.append(process.returncode)

        worker.on("last", lambda job: worker.stop())
        jobs = duly.Client(URL, prefix=PREFIX).queue("q")
        jobs.push(1, name="row", timeout=0.1, max_retries=0)
        jobs.push(1, name="last")
        worker.run()
        print(ends, flush=True)
        os._exit(0)
    """
    assert program(code).ends_well() == "[3]\n"


def test_who_waits_in_the_library_is_interrupted_at_the_end_of_the_grace(program: Callable[[str], Program]) -> None:
    code = """
        import asyncio, concurrent.futures, logging, os, queue, subprocess, threading
        import duly._interruptions
        duly._interruptions._LAST_LOOKS_S = 30
        logging.getLogger("duly").addHandler(logging.NullHandler())
        waits = {
            "event": lambda: threading.Event().wait(0.02),
            "queue": lambda: queue.Queue().get(timeout=0.02),
            "future": lambda: concurrent.futures.Future().result(timeout=0.02),
            "child": lambda: subprocess.run(["sleep", "0.05"]),
            "loop": lambda: asyncio.run(asyncio.sleep(0.05)),
        }
        worker = duly.Worker(duly.Client(URL, prefix=PREFIX), ["q"], concurrency=len(waits), grace=0)
        all_wait, ended = threading.Barrier(len(waits)), []

        @worker.on("wait")
        def wait(job):
            all_wait.wait()
            worker.stop()
            try:
                while True:
                    try:
                        waits[job.data]()
                    except (queue.Empty, concurrent.futures.TimeoutError):
                        pass
            finally:
                ended.append(job.data)

        jobs = duly.Client(URL, prefix=PREFIX).queue("q")
        for what in waits:
            jobs.push(what, name="wait")
        worker.run()
        print(*sorted(ended), flush=True)
        os._exit(0)
    """
    status, out, err = program(code).end()  # Python warns of a loop that was not closed
    assert (status, out) == (0, "child event future loop queue\n"), err


LOOPS = {
    "with": """
                with lock:
                    while number < 10**12:
                        number += 1""",
    "with, behind a wait": """
                has_lock.wait()
                with lock:
                    while number < 10**12:
                        number += 1""",
    "a loop in a loop": """
                with lock:
                    while number < 10**12:
                        while number % 100:
                            number += 1
                        number += 1""",
    "with, and waits": """
                with lock:
                    while number < 10**12:
                        time.sleep(0.3)
                        number += 1""",
    "try": """
                lock.acquire()
                try:
                    while True: number += 1
                finally:
                    lock.release()""",
}
"""Loops in which nothing catches what comes as they begin again. All but one call nothing: it can come nowhere else."""


@pytest.mark.skipif(sys.version_info < (3, 12), reason="nothing can raise it elsewhere")
@pytest.mark.parametrize("what", LOOPS)
def test_a_loop_that_calls_nothing_ends_what_it_is_in(program: Callable[[str], Program], what: str) -> None:
    code = f"""
        import logging, os, sys, threading, time
        logging.getLogger("duly").addHandler(logging.NullHandler())
        lock, has_lock = threading.Lock(), threading.Event()
        worker = duly.Worker(duly.Client(URL, prefix=PREFIX), ["q"])

        @worker.on("row")
        def row(job):
            number = 0
            try:
                pass{LOOPS[what]}
            finally:
                print("ended", lock.locked(), flush=True)

        def hold():
            lock.acquire()
            has_lock.set()
            time.sleep(1.5)  # the exception could come, but for the lock
            lock.release()

        if "behind" in {what!r}:
            threading.Thread(target=hold).start()
        worker.on("last", lambda job: worker.stop())
        jobs = duly.Client(URL, prefix=PREFIX).queue("q")
        jobs.push(1, name="row", timeout=0.1, max_retries=0)
        jobs.push(1, name="last")
        print(worker.run().failed, sys.monitoring.get_tool(4), flush=True)
        os._exit(0)
    """
    assert program(code).ends_well() == "ended False\n1 None\n"


LOST = {
    "a folder": ("os.mkdir", "with tempfile.TemporaryDirectory(dir=folder): wait()"),
    "a file": ("os.open", "with tempfile.NamedTemporaryFile(dir=folder): wait()"),
    "pipes of a child": ("os.pipe", "subprocess.run(['true'], capture_output=True); wait()"),
    "the end of a child": (
        "os.waitpid",
        "process = subprocess.Popen(['false']); kept.append(process); process.wait(); wait()",
    ),
}
"""Behind which call it comes late, and what is used then."""


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere there is no list of descriptors")
@pytest.mark.parametrize("what", LOST)
def test_what_the_library_makes_is_not_lost_when_a_handler_is_interrupted(
    program: Callable[[str], Program], what: str
) -> None:
    call, use = LOST[what]
    code = f"""
        import gc, logging, multiprocessing, os, subprocess, tempfile, threading, time, warnings
        forks = multiprocessing.get_context("fork")
        was_logged, kept, is_late = threading.Event(), [], iter([True])

        class Hears(logging.Handler):
            def emit(self, record):
                if "ran longer" in record.getMessage():
                    was_logged.set()

        logging.getLogger("duly").addHandler(Hears())
        logging.getLogger("duly").propagate = False
        folder = tempfile.mkdtemp()
        at_once = {call}

        def late(*given, **more):
            result = at_once(*given, **more)
            if threading.current_thread().name.startswith("duly-worker-0") and next(is_late, False):
                was_logged.wait()
                until = time.monotonic() + 0.3
                while time.monotonic() < until:
                    time.sleep(0.001)  # the exception could come, but for what would be lost
            return result

        def wait():
            while True:
                time.sleep(0.001)

        worker = duly.Worker(duly.Client(URL, prefix=PREFIX), ["q"])

        @worker.on("row")
        def row(job):
            {call} = late
            try:
                {use}
            finally:
                {call} = at_once

        def left():
            gc.collect()
            files = [os.path.join("/proc/self/fd", name) for name in os.listdir("/proc/self/fd")]
            return sum(os.path.islink(file) and os.readlink(file).startswith(("pipe:", folder)) for file in files)

        @worker.on("first")
        def first(job):
            kept.append(left())

        @worker.on("last")
        def last(job):
            ends = [getattr(child, "returncode", getattr(child, "exitcode", None)) for child in kept[1:]]
            kept[1:] = []
            print(os.listdir(folder), left() - kept[0], ends, flush=True)
            worker.stop()

        warnings.simplefilter("ignore")
        jobs = duly.Client(URL, prefix=PREFIX).queue("q")
        jobs.push(1, name="first")
        jobs.push(1, name="row", timeout=0.2, max_retries=0)
        jobs.push(1, name="last")
        worker.run()
        os._exit(0)
    """
    ends = "[1]" if what == "the end of a child" else "[]"
    assert program(code).ends_well() == f"[] 0 {ends}\n"
