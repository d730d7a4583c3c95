"""Runs that must end: timeouts, lost leases, the end of the grace; in threads and on the event loop."""

from __future__ import annotations

import asyncio
import ctypes
import re
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import duly
import pytest
from support import Program, empty, running, until

Start = Callable[[str], Program]


def spin(ended: list[str]) -> None:
    """Run Python code until somebody interrupts it."""
    try:
        while True:
            time.sleep(0.001)
    except BaseException as error:
        ended.append(type(error).__name__)
        raise


def test_a_thread_whose_timeout_is_over_is_interrupted(client: duly.Client, queue: duly.Queue) -> None:
    ended: list[str] = []
    worker = duly.Worker(client, ["q"])
    worker.on("spin", lambda _job: spin(ended))
    worker.on("next", lambda _job: ended.append("next"))
    queue.push(1, name="spin", timeout=0.2, max_retries=0)
    queue.push(2, name="next")
    with running(worker) as reports:
        until(lambda: ended == ["JobInterrupted", "next"], "not interrupted")
        until(lambda: empty(queue), "not reported")
    assert [view.error for view in queue.peek("failed")] == ["ran longer than its timeout of 0.2 s"]
    assert (reports[0].acked, reports[0].failed) == (1, 1)


@pytest.mark.parametrize("kind", ["def", "async def"])
def test_a_hook_that_outlasts_the_timeout_does_not_hide_the_handlers_error(
    kind: str, client: duly.Client, queue: duly.Queue, caplog: pytest.LogCaptureFixture
) -> None:
    class Slow(duly.Middleware):
        def on_failure(self, _job: duly.Job, _failure: duly.Failure) -> None:
            until(lambda: queue.counts().failed == 1, "the timeout did not end it")

    worker = duly.Worker(client, ["q"], middleware=[Slow()])

    def fails(_job: duly.Job) -> None:
        raise LookupError("secret")

    async def fails_too(job: duly.Job) -> None:
        fails(job)

    worker.on(None, fails if kind == "def" else fails_too)
    job_id = queue.push(1, timeout=0.2, max_retries=0)
    with running(worker):
        until(lambda: "was interrupted behind its failure" in caplog.text, "the handler's error is not logged")
    (record,) = [one for one in caplog.records if "was interrupted behind its failure" in one.getMessage()]
    line = record.getMessage()
    assert job_id in line
    assert f"LookupError at {__file__}:" in line
    assert "secret" not in line


def test_a_coroutine_whose_timeout_is_over_is_cancelled(client: duly.Client, queue: duly.Queue) -> None:
    ended: list[str] = []
    worker = duly.Worker(client, ["q"])

    @worker.on("wait")
    async def wait(_job: duly.Job) -> None:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise

    @worker.on("next")
    async def after(_job: duly.Job) -> None:
        await asyncio.sleep(0)
        ended.append("next")

    queue.push(1, name="wait", timeout=0.2, max_retries=0)
    queue.push(2, name="next")
    with running(worker) as reports:
        until(lambda: ended == ["cancelled", "next"], "not cancelled")
        until(lambda: empty(queue), "not reported")
    assert [view.error for view in queue.peek("failed")] == ["ran longer than its timeout of 0.2 s"]
    assert (reports[0].acked, reports[0].failed) == (1, 1)


@pytest.mark.parametrize("kind", ["thread", "thread with hooks", "coroutine"])
def test_the_log_says_where_a_run_was_interrupted(
    kind: str, client: duly.Client, queue: duly.Queue, caplog: pytest.LogCaptureFixture
) -> None:
    class Hooks(duly.Middleware):
        def before(self, job: duly.Job) -> None: ...

    worker = duly.Worker(client, ["q"], middleware=[Hooks()] if kind == "thread with hooks" else [])

    def thread(_job: duly.Job) -> None:
        while True:
            time.sleep(0.001)

    async def coroutine(_job: duly.Job) -> None:
        await asyncio.sleep(3600)

    handler = coroutine if kind == "coroutine" else thread
    worker.on("slow", handler)
    job_id = queue.push("secret", name="slow", timeout=0.2, max_retries=0)
    with running(worker):
        until(lambda: any("was interrupted" in record.message for record in caplog.records), "it is not said")
    record = next(record for record in caplog.records if "was interrupted" in record.message)
    said = re.fullmatch(
        rf"job {job_id} \(slow, attempt 1\) of queue q was interrupted at {__file__}:(\d+) in {handler.__name__}"
        r"(?: \(raised at .*\))?",
        record.message,
    )
    assert said is not None, record.message
    assert int(said[1]) - handler.__code__.co_firstlineno in (1, 2)
    assert (record.levelname, record.name) == ("WARNING", "duly.worker")
    assert (getattr(record, "id", None), getattr(record, "job_name", None)) == (job_id, "slow")
    assert "secret" not in caplog.text


@pytest.mark.parametrize("kind", ["thread", "coroutine"])
def test_a_handler_whose_job_is_cancelled_is_interrupted(kind: str, client: duly.Client, queue: duly.Queue) -> None:
    ended: list[str] = []
    runs = threading.Event()
    worker = duly.Worker(client, ["q"], lease=1)

    def thread(_job: duly.Job) -> None:
        runs.set()
        spin(ended)

    async def coroutine(_job: duly.Job) -> None:
        runs.set()
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            ended.append("JobInterrupted")
            raise

    worker.on(None, thread if kind == "thread" else coroutine)
    job_id = queue.push(1)
    with running(worker) as reports:
        assert runs.wait(20)
        queue.cancel(job_id)
        until(lambda: ended == ["JobInterrupted"], "not interrupted")
    assert (reports[0].acked, reports[0].failed, reports[0].lost) == (0, 0, 1)


def test_the_end_of_the_grace_interrupts_and_gives_back(client: duly.Client, queue: duly.Queue) -> None:
    ended: list[str] = []
    worker = duly.Worker(client, ["q"], concurrency=2, grace=1)
    started = threading.Barrier(3, timeout=20)

    @worker.on("thread")
    def thread(_job: duly.Job) -> None:
        started.wait()
        spin(ended)

    @worker.on("coroutine")
    async def coroutine(_job: duly.Job) -> None:
        await asyncio.to_thread(started.wait)
        try:
            await asyncio.sleep(3600)
        finally:
            ended.append("cancelled")

    queue.push(1, name="thread")
    queue.push(2, name="coroutine")
    with running(worker) as reports:
        started.wait()
    assert sorted(ended) == ["JobInterrupted", "cancelled"]
    assert reports[0].released == 2
    assert (queue.counts().ready, queue.counts().reserved) == (2, 0)


# Python itself drops what is raised in a callback of its own, such as that of a weak reference.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_interruption_never_hits_another_run(client: duly.Client, queue: duly.Queue) -> None:
    """Handlers end just when their timeout does, so that the exception comes too late as often as not."""
    hit: list[str] = []
    worker = duly.Worker(client, ["q"], concurrency=4)

    def short(_job: duly.Job) -> None:
        until_s = time.perf_counter() + 0.0105
        while time.perf_counter() < until_s:
            pass

    def innocent(_job: duly.Job) -> None:
        try:
            for _ in range(2000):
                pass
        except BaseException as error:
            hit.append(type(error).__name__)
            raise

    worker.on("short", short)
    worker.on("innocent", innocent)
    for number in range(150):
        queue.push(number, name="short", timeout=0.01, max_retries=0)
        queue.push(number, name="innocent")
    with running(worker) as reports:
        until(lambda: empty(queue), "jobs are left", 60)
    assert hit == []
    assert reports[0].acked + reports[0].failed == 300
    assert reports[0].acked >= 150
    assert len(queue.peek("failed", limit=500)) == reports[0].failed


hold_the_gil = ctypes.PyDLL(None).usleep
"""As C code of a handler may, for so many microseconds."""


@pytest.mark.parametrize("kind", ["def", "def with hooks", "async def"])
def test_a_run_whose_time_is_over_before_python_hears_of_it_is_not_begun(
    kind: str, client: duly.Client, queue: duly.Queue
) -> None:
    began: list[tuple[object, str | None]] = []

    class Hooks(duly.Middleware):
        def before(self, job: duly.Job) -> None: ...

    worker = duly.Worker(client, ["q"], middleware=[Hooks()] if kind == "def with hooks" else [])

    def handle(job: duly.Job) -> None:
        began.append((job.data, job.interrupted))

    async def handle_too(job: duly.Job) -> None:
        handle(job)

    worker.on(None, handle_too if kind == "async def" else handle)

    def has_timed_out() -> bool:
        queue.push("late", timeout=0.05, max_retries=0, delay=0.4)
        time.sleep(0.3)
        # If its thread waits in the engine now, that takes the job, and ends its run.
        hold_the_gil(400_000)
        until(lambda: empty(queue), "the worker is stuck")
        return queue.counts().failed == 1

    with running(worker) as reports:
        until(has_timed_out, "it always runs")
        queue.push("next")
        until(lambda: ("next", None) in began, "the worker is stuck")
        until(lambda: empty(queue), "not reported")
    assert {why for _, why in began} == {None}
    assert (reports[0].acked, reports[0].failed) == (len(began), 1)


def test_the_end_of_a_run_that_is_heard_of_late_is_not_that_of_the_next_one(program: Start) -> None:
    """With the patience of `duly worker` the next job would count as one that does not end."""
    code = """
        import logging, threading, time
        worker = duly.Worker(duly.Client(URL, prefix=PREFIX), ["q"])
        worker._patience = 1
        runs_long, said = threading.Event(), []

        def hold_up(record):
            said.append(record.getMessage())
            if threading.current_thread().name == "duly-worker-watch":
                runs_long.wait()

        logging.getLogger("duly.worker").addFilter(hold_up)

        @worker.on("interrupted")
        def interrupted(job):
            while True:
                time.sleep(0.001)

        worker.on("late", lambda job: time.sleep(0.5))

        @worker.on("long")
        def run_long(job):
            runs_long.set()
            time.sleep(3)

        worker.on("last", lambda job: worker.stop())
        jobs = duly.Client(URL, prefix=PREFIX).queue("q")
        jobs.push(1, name="interrupted", timeout=0.1, max_retries=0)
        jobs.push(2, name="late", timeout=0.1, max_retries=0)
        jobs.push(3, name="long")
        jobs.push(4, name="last")
        report = worker.run()
        print(report.acked, report.failed, *(text for text in said if "does not end" in text))
    """
    assert program(code).ends_well() == "2 2\n"


def test_a_handler_that_swallows_the_interruption_changes_nothing(client: duly.Client, queue: duly.Queue) -> None:
    refused: list[str] = []
    worker = duly.Worker(client, ["q"])

    @worker.on(None)
    def stubborn(job: duly.Job) -> None:
        try:
            spin([])
        except duly.JobInterrupted:
            try:
                job.ack()
            except duly.LeaseLostError as error:
                refused.append(error.kind)

    queue.push(1, timeout=1, max_retries=0)
    with running(worker) as reports:
        until(lambda: refused == ["lease_lost"], "not refused")
        until(lambda: queue.counts().failed == 1, "not failed")
    assert (reports[0].acked, reports[0].failed) == (0, 1)


def test_ctrl_c_and_a_second_one(program: Start, queue: duly.Queue) -> None:
    code = """
    import logging, sys, time
    worker = duly.Worker(duly.Client(URL, prefix=PREFIX), ["q"], grace=600)
    output = logging.StreamHandler(sys.stdout)
    output.addFilter(lambda record: record.getMessage().startswith("the worker stops"))
    logging.basicConfig(level=logging.INFO, format="%(message)s", handlers=[output])
    @worker.on(None)
    def spin(job):
        print("running", flush=True)
        while True:
            time.sleep(0.001)
    worker.on("first", lambda job: print("first", flush=True))
    print("ready", flush=True)
    report = worker.run()
    print("stopped", report.released, flush=True)
    """
    idle = program(code)
    assert idle.line() == "ready"
    queue.push(0, name="first")
    assert idle.line() == "first"
    asked = time.monotonic()
    idle.process.send_signal(signal.SIGINT)
    assert idle.ends_well().endswith("stopped 0\n")
    assert time.monotonic() - asked < 20
    queue.push(1)
    busy = program(code)
    assert busy.line() == "ready"
    assert busy.line() == "running"
    busy.process.send_signal(signal.SIGINT)
    # Two of one kind that come at once are one.
    assert busy.line() == "the worker stops: 1 job may run on for 600 s; a second signal ends that now"
    busy.process.send_signal(signal.SIGINT)
    status, out, _ = busy.end(20)
    assert (status, out) == (0, "stopped 1\n")
    assert queue.counts().ready == 1


@pytest.mark.parametrize("what", ["a log", "a queue"])
def test_an_interruption_leaves_no_lock_of_python_held(program: Start, queue: duly.Queue, what: str) -> None:
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
def test_who_waits_for_a_lock_of_pythons_library_frees_it_before_it_is_interrupted(program: Start, what: str) -> None:
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
        assert ended == ["<string>"], ended

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
def test_who_waits_in_pythons_library_is_interrupted(program: Start, what: str) -> None:
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


def test_a_thread_that_is_started_slowly_is_no_reason_to_wait_for_ever(program: Start) -> None:
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
    assert program(code).ends_well() == "started interrupted\n"


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
def test_an_error_of_c_code_that_comes_before_the_interruption_leaves_nothing_held(program: Start, what: str) -> None:
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


def test_no_object_of_a_handler_ends_in_the_thread_that_interrupts_it(program: Start) -> None:
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


def test_a_thread_that_goes_on_during_a_look_is_looked_at_again(program: Start) -> None:
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


def test_a_file_that_is_named_as_if_it_were_of_threads_is_interrupted(program: Start) -> None:
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


def test_a_look_that_raises_ends_no_worker(program: Start) -> None:
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


def test_a_callback_of_an_event_loop_of_the_handler_swallows_no_interruption(program: Start) -> None:
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
def test_a_handler_that_starts_threads_may_time_out(program: Callable[[str], Program], *, of_pool: bool) -> None:
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
