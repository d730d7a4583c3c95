"""Runs that are interrupted while Python's library, or C code, holds a lock or waits for one: none stays held."""

from __future__ import annotations

import sys

import duly
import pytest
from support import StartProgram


@pytest.mark.parametrize("what", ["a log", "a queue"])
def test_an_interruption_leaves_no_lock_of_python_held(program: StartProgram, queue: duly.Queue, what: str) -> None:
    count = 80
    queue.push_many(duly.NewJob(number, name="row", timeout=0.05, max_retries=0) for number in range(count))
    code = """
        import logging, os, queue
        logging.basicConfig(level="INFO", filename=os.devnull)
        log, box = logging.getLogger("shop"), queue.Queue()
        worker = duly.Worker(duly.Client(URL, prefix=PREFIX), ["q"], concurrency=4, max_jobs=%d)

        @worker.on("row")
        def row(job):
            while True:
                %s

        print(worker.run().failed)
    """
    loop = {"a log": 'log.info("row")', "a queue": "box.put(box.qsize()); box.get()"}[what]
    assert program(code % (count, loop)).ends_well() == f"{count}\n"


HELD = {
    "the imports": ("import _imp as lock", "acquire_lock", "release_lock", "import_what_is_not_there()"),
    "a queue": ("box = queue.Queue(); box.put(1); lock = box.mutex", "acquire", "release", "box.get()"),
    "a queue of processes": (
        "box = multiprocessing.Queue(); box.put(1); lock = box._rlock",
        "acquire",
        "release",
        "box.get(timeout=60)",
    ),
    "a log": (
        "output = logging.FileHandler(os.devnull); lock = output.lock; log.addHandler(output)",
        "acquire",
        "release",
        "log.critical('row')",
    ),
    "an exit stack": (
        "lock = threading.Lock()",
        "acquire",
        "release",
        "with contextlib.ExitStack() as stack: stack.enter_context(lock)",
    ),
    "what comes through a queue of processes": (
        "box = multiprocessing.Queue(); lock = types.SimpleNamespace(wait=int, put=lambda: box.put(1))",
        "wait",
        "put",
        "box.get()",
    ),
    "half of what comes through a queue of processes": (
        "box = multiprocessing.Queue(); file = box._writer.fileno(); item = pickle.dumps(1); "
        "lock = types.SimpleNamespace("
        "begin=lambda: (box._sem.acquire(), os.write(file, len(item).to_bytes(4, 'big'))), "
        "end=lambda: os.write(file, item))",
        "begin",
        "end",
        "box.get(timeout=60)",
    ),
}
"""What has a lock, how another thread takes and frees it, and what the handler waits for it in."""


@pytest.mark.parametrize("what", HELD)
def test_who_waits_for_a_lock_of_pythons_library_frees_it_before_it_is_interrupted(
    program: StartProgram, what: str
) -> None:
    lock, take, free, use = HELD[what]
    code = f"""
        import contextlib, linecache, logging, multiprocessing, os, pickle, queue, sys, threading
        import time, traceback, types
        log = logging.getLogger("shop")
        log.propagate = False
        was_logged, ended, has_lock = threading.Event(), [], threading.Event()

        class Hears(logging.Handler):
            def emit(self, record):
                if "ran longer" in record.getMessage():
                    was_logged.set()

        logging.getLogger("duly").addHandler(Hears())
        logging.getLogger("duly").propagate = False
        {lock}
        worker = duly.Worker(duly.Client(URL, prefix=PREFIX), ["q"])

        def import_what_is_not_there():
            try:
                import a_module_that_is_not_there
            except ImportError:
                pass

        @worker.on("row")
        def row(job):
            has_lock.wait()
            try:
                {use}
                while True:
                    time.sleep(0.001)
            except duly.JobInterrupted as error:
                ended.append(traceback.extract_tb(error.__traceback__)[-1].filename)
                raise

        @worker.on("last")
        def last(job):
            worker.stop()

        def hold():
            lock.{take}()
            has_lock.set()
            was_logged.wait()
            time.sleep(0.3)  # the exception could come, but for the lock
            lock.{free}()

        threading.Thread(target=hold).start()
        jobs = duly.Client(URL, prefix=PREFIX).queue("q")
        jobs.push(1, name="row", timeout=0.2, max_retries=0)
        jobs.push(1, name="last")
        worker.run()
        # Or where the imports look for a file, behind what this is about.
        assert ended in (["<string>"], ["<frozen importlib._bootstrap_external>"]), ended

        def use():
            {use}
            print("free", flush=True)

        if "queue" in {what!r}:
            threading.Thread(target=box.put, args=(1,), daemon=True).start()
        probe = threading.Thread(target=use, daemon=True)
        probe.start()
        probe.join(20)
        os._exit(0)
    """
    status, out, err = program(code).end()
    assert (status, out) == (0, "free\n"), err


WAITS = {
    "an event": "event.wait(0.3)",
    "a condition": "condition.wait_for(bool, 0.3)",
    "a queue": "box.get(timeout=0.3)",
    "a queue of processes": "shared.get(timeout=0.3)",
    "a thread": "thread.join(0.3)",
    "a future": "future.result(timeout=0.3)",
    "a process": "process.wait(0.3)",
    "a socket": "stream.read(1)",
    "a selector": "selector.select(0.3)",
    "sleep": "time.sleep(0.3)",
    "code that is only Python's": "difflib.SequenceMatcher(None, text, text[::-1]).ratio()",
}


@pytest.mark.parametrize("what", WAITS)
def test_who_waits_in_pythons_library_is_interrupted(program: StartProgram, what: str) -> None:
    code = f"""
        import concurrent.futures, difflib, logging, multiprocessing, os, queue, selectors, socket, subprocess, sys
        import threading, time
        logging.getLogger("duly").propagate = False
        event, box, shared = threading.Event(), queue.Queue(), multiprocessing.Queue()
        condition = threading.Condition()
        condition.acquire()
        future = concurrent.futures.Future()
        thread = threading.Thread(target=event.wait, daemon=True)
        thread.start()
        process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
        near, far = socket.socketpair()
        near.settimeout(0.3)
        stream = near.makefile("rb", buffering=0)
        selector = selectors.DefaultSelector()
        selector.register(near, selectors.EVENT_READ)
        text = "".join(chr(33 + number * number % 89) for number in range(3000))
        worker = duly.Worker(duly.Client(URL, prefix=PREFIX), ["q"])

        @worker.on("row")
        def row(job):
            with condition if {what == "a condition"} else threading.Lock():
                while True:
                    try:
                        {WAITS[what]}
                    except (queue.Empty, OSError, concurrent.futures.TimeoutError, subprocess.TimeoutExpired):
                        near.settimeout(0.3)
                        stream = near.makefile("rb", buffering=0)

        @worker.on("last")
        def last(job):
            worker.stop()

        condition.release()
        jobs = duly.Client(URL, prefix=PREFIX).queue("q")
        jobs.push(1, name="row", timeout=0.1, max_retries=0)
        jobs.push(1, name="last")
        print(worker.run().failed, flush=True)
        os._exit(0)
    """
    status, out, err = program(code).end()
    assert (status, out) == (0, "1\n"), err


def test_a_thread_that_is_started_slowly_is_no_reason_to_wait_for_ever(program: StartProgram) -> None:
    """The exception comes behind `start`: in it, it would come in the new thread, in Python before 3.12."""
    code = """
        import logging, threading, time, traceback
        was_logged, start, ended = threading.Event(), threading._start_new_thread, []

        class Hears(logging.Handler):
            def emit(self, record):
                if "ran longer" in record.getMessage():
                    was_logged.set()

        logging.getLogger("duly").addHandler(Hears())
        logging.getLogger("duly").propagate = False
        worker = duly.Worker(duly.Client(URL, prefix=PREFIX), ["q"])

        def start_slowly(*given, **more):
            def later():
                was_logged.wait()
                time.sleep(0.3)  # the exception could come, but for the start
                start(*given, **more)

            start(later, ())

        @worker.on("row")
        def row(job):
            threading._start_new_thread = start_slowly
            try:
                threading.Thread(target=int).start()
                ended.append("started")
                while True:
                    time.sleep(0.001)
            except duly.JobInterrupted:
                ended.append("interrupted")
                raise
            finally:
                threading._start_new_thread = start

        @worker.on("last")
        def last(job):
            worker.stop()

        jobs = duly.Client(URL, prefix=PREFIX).queue("q")
        jobs.push(1, name="row", timeout=0.2, max_retries=0)
        jobs.push(1, name="last")
        worker.run()
        print(*ended, flush=True)
    """
    if sys.version_info >= (3, 13):
        code = code.replace("_start_new_thread", "_start_joinable_thread")
    # Where the start takes very long, it comes right behind it.
    assert program(code).ends_well() in ("started interrupted\n", "interrupted\n")


IN_C_CODE = {
    "a semaphore": ("taken = threading.Semaphore(1)", "with taken: near.recv(1)"),
    "a condition": ("taken = threading.Condition(threading.Lock())", "with taken: near.recv(1)"),
    "a log": ("taken = output.lock", "log.critical('row')"),
    "a contextmanager": ("taken = threading.Lock()", "with takes_it(): near.recv(1)"),
    "an exit stack": (
        "taken = threading.Lock()",
        "with contextlib.ExitStack() as stack: stack.enter_context(taken); near.recv(1)",
    ),
    "a class of one's own": ("taken = threading.Lock()", "with Takes(): near.recv(1)"),
}
"""What is held while a handler waits in C code, and how it waits there."""


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a socket that is closed does not raise")
@pytest.mark.parametrize("what", IN_C_CODE)
def test_an_error_of_c_code_that_comes_before_the_interruption_leaves_nothing_held(
    program: StartProgram, what: str
) -> None:
    taken, use = IN_C_CODE[what]
    code = f"""
        import contextlib, logging, os, socket, threading, time
        was_logged = threading.Event()

        class Hears(logging.Handler):
            def emit(self, record):
                if "ran longer" in record.getMessage():
                    was_logged.set()

        logging.getLogger("duly").addHandler(Hears())
        logging.getLogger("duly").propagate = False
        near, far = socket.socketpair()
        near.send(b"so that the end of the other one raises")

        class Sends(logging.Handler):
            def emit(self, record):
                near.recv(1)

        output, log = Sends(), logging.getLogger("shop")
        log.addHandler(output)
        log.propagate = False
        {taken}

        @contextlib.contextmanager
        def takes_it():
            with taken:
                yield

        class Takes:
            def __enter__(self):
                taken.acquire()

            def __exit__(self, *_raised):
                taken.release()

        worker = duly.Worker(duly.Client(URL, prefix=PREFIX), ["q"])

        @worker.on("row")
        def row(job):
            {use}

        @worker.on("last")
        def last(job):
            worker.stop()

        def raise_there():
            was_logged.wait()
            time.sleep(0.5)  # the exception is on its way
            far.close()

        threading.Thread(target=raise_there).start()
        jobs = duly.Client(URL, prefix=PREFIX).queue("q")
        jobs.push(1, name="row", timeout=0.2, max_retries=0)
        jobs.push(1, name="last")
        worker.run()
        probe = threading.Thread(target=taken.acquire, daemon=True)
        probe.start()
        probe.join(5)
        print("held" if probe.is_alive() else "free", flush=True)
        os._exit(0)
    """
    assert program(code).ends_well() == "free\n"
