"""Workers in processes that were forked before, after and while another one ran."""

from __future__ import annotations

import signal

import duly
import pytest
from support import StartProgram, empty, until

SETTING = """
import multiprocessing, os, sys, threading
client = duly.Client(URL, prefix=PREFIX)
queue = client.queue("q")

def work(how_many):
    worker = duly.Worker(client, ["q"], grace=5)
    left = [how_many]
    @worker.on(None)
    def count(job):
        left[0] -= 1
        if left[0] == 0:
            worker.stop()
    return worker.run().acked
"""


def test_a_worker_in_a_child_of_a_process_that_used_the_client(program: StartProgram, queue: duly.Queue) -> None:
    code = """
    queue.push(1)
    client.ping()
    child = os.fork()
    if child == 0:
        os._exit(0 if work(1) == 1 else 1)
    assert os.waitpid(child, 0)[1] == 0
    """
    assert program(SETTING + code.replace("\n    ", "\n")).ends_well() == ""
    assert empty(queue)


def test_a_worker_in_a_child_after_and_while_the_parents_runs(program: StartProgram, queue: duly.Queue) -> None:
    code = """
    queue.push(1)
    assert work(1) == 1
    queue.push(2)
    child = os.fork()
    if child == 0:
        os._exit(0 if work(1) == 1 else 1)
    assert os.waitpid(child, 0)[1] == 0
    other = duly.Worker(client, ["other"])
    thread = threading.Thread(target=other.run)
    thread.start()
    queue.push(3)
    child = os.fork()
    if child == 0:
        os._exit(0 if work(1) == 1 else 1)
    assert os.waitpid(child, 0)[1] == 0
    other.stop()
    thread.join(20)
    assert not thread.is_alive()
    print("ended")
    """
    started = program(SETTING + code.replace("\n    ", "\n"))
    status, out, err = started.end()
    assert (status, out) == (0, "ended\n"), err
    assert empty(queue)


def test_a_handler_that_forks_leaves_the_engine_to_the_parent(program: StartProgram, queue: duly.Queue) -> None:
    code = """
    worker = duly.Worker(client, ["q"], grace=5)
    @worker.on(None)
    def fork(job):
        child = os.fork()
        if child == 0:
            return  # a child that goes on as if it were the worker must take nothing and settle nothing
        os.waitpid(child, 0)
        worker.stop()
    print("acked", worker.run().acked, flush=True)
    """
    queue.push(1)
    status, out, err = program(SETTING + code.replace("\n    ", "\n")).end()
    assert (status, out) == (0, "acked 1\n"), err
    assert queue.counts().totals["acked"] == 1


@pytest.mark.parametrize("ends", ["return", "raise ValueError", "sys.exit(3)"])
@pytest.mark.parametrize("kind", ["def", "async def"])
def test_a_child_that_comes_back_from_a_handler_calls_no_hook(
    kind: str, ends: str, program: StartProgram, queue: duly.Queue
) -> None:
    code = f"""
    parent = os.getpid()
    def says(what):
        os.write(1, f"{{what}} in the {{'parent' if os.getpid() == parent else 'child'}}\\n".encode())
    class Says(duly.Middleware):
        def before(self, job): says("before")
        def after(self, job): says("after")
        def on_failure(self, job, failure): says("on_failure")
        def on_failed(self, job, error): says("on_failed")
    worker = duly.Worker(client, ["q"], grace=5, middleware=[Says()])
    @worker.on(None)
    {kind} fork(job):
        child = os.fork()
        if child == 0:
            {ends}
            return
        os.waitpid(child, 0)
        worker.stop()
    worker.run()
    """
    queue.push(1, max_retries=0)
    status, out, err = program(SETTING + code.replace("\n    ", "\n")).end()
    assert (status, out) == (0, "before in the parent\nafter in the parent\n"), err
    assert queue.counts().totals["acked"] == 1


@pytest.mark.parametrize("hook", ["before", "on_failure", "on_failed"])
@pytest.mark.parametrize("kind", ["def", "async def"])
def test_a_child_that_comes_back_from_a_hook_runs_no_handler_and_no_other_hook(
    kind: str, hook: str, program: StartProgram, queue: duly.Queue
) -> None:
    code = f"""
    parent = os.getpid()
    def says(what):
        if os.getpid() != parent:
            os.write(1, f"{{what}} in the child\\n".encode())
    def fork():
        child = os.fork()
        if child:
            os.waitpid(child, 0)
    class Says(duly.Middleware):
        def before(self, job): says("before")
        def on_failure(self, job, failure): says("on_failure")
        def on_failed(self, job, error): says("on_failed")
    class Forks(duly.Middleware):
        def {hook}(self, *given): fork()
    # In front of it for `before`, behind it for the others.
    worker = duly.Worker(client, ["q"], grace=5, middleware=[Says(), Forks(), Says()])
    @worker.on(None)
    {kind} fail(job):
        says("the handler")
        worker.stop()
        raise LookupError
    worker.run()
    """
    queue.push(1, max_retries=0)
    status, out, err = program(SETTING + code.replace("\n    ", "\n")).end()
    assert (status, out) == (0, ""), err
    assert err.count("raised for job") == 0, err
    assert queue.counts().failed == 1


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_workers_in_processes_of_multiprocessing(
    method: str, program: StartProgram, queue: duly.Queue, tmp_path_factory: pytest.TempPathFactory
) -> None:
    # A file, because spawned children import the program again.
    file = tmp_path_factory.mktemp("program") / "workers.py"
    run = """
if __name__ == "__main__":
    context = multiprocessing.get_context(METHOD)
    client.ping()
    workers = [context.Process(target=work_one) for _ in range(2)]
    for worker in workers:
        worker.start()
    for _ in range(200):
        queue.push(1)
    for worker in workers:
        worker.join(30)
        assert worker.exitcode == 0, worker.exitcode
    print("ended", flush=True)
"""
    work_one = """
def work_one():
    sys.exit(0 if work(1) >= 1 else 1)
"""
    setting = f"import duly\nURL, PREFIX, METHOD = sys.argv[1:]\n{SETTING}{work_one}{run}"
    file.write_text("import sys\n" + setting.replace("sys.argv[1:]", "__import__('os').environ['SETTING'].split()"))
    started = program(
        f"import os, sys, subprocess\n"
        f"os.environ['SETTING'] = f'{{URL}} {{PREFIX}} {method}'\n"
        f"sys.exit(subprocess.call([sys.executable, {str(file)!r}]))"
    )
    status, out, err = started.end(60)
    assert (status, out) == (0, "ended\n"), err
    until(lambda: queue.counts().reserved == 0, "leases are left")
    counts = queue.counts()
    assert counts.totals["acked"] + counts.ready == 200


def test_a_process_that_a_handler_forks_handles_signals_as_if_there_were_no_worker(
    program: StartProgram, queue: duly.Queue
) -> None:
    code = """
    import signal, time
    worker = duly.Worker(client, ["q"], grace=5)
    @worker.on(None)
    def fork(job):
        forks = multiprocessing.get_context("fork")
        ready, here = forks.Pipe()
        child = forks.Process(target=lambda: (here.send("ready"), time.sleep(60)))
        child.start()
        ready.recv()  # CPython forgets a signal that comes before the child runs Python
        child.terminate()
        child.join(20)
        print("ended by", child.exitcode, flush=True)
        worker.stop()
    worker.run()
    """
    queue.push(1)
    assert program(SETTING + code.replace("\n    ", "\n")).ends_well() == f"ended by -{signal.SIGTERM:d}\n"
    assert empty(queue)
