"""Workers whose process, server or lease is taken away, with real signals."""

from __future__ import annotations

import signal
import time

import duly
from slow_lines import FAR, NEAR, SLOW, slow_lines
from support import Program, Server, StartProgram, until

WORKER = """
import os, threading, time
client = duly.Client(URL, prefix=PREFIX)
worker = duly.Worker(client, ["q"], lease=1.5, grace=5)

@worker.on("say")
def say(job):
    print("said", job.data, job.attempt, flush=True)

@worker.on("wait")
def wait(job):
    print("running", job.data, job.attempt, flush=True)
    while client.queue("q").find(key="go on") is None:
        time.sleep(0.01)
    print("done", flush=True)

@worker.on("poison")
def poison(job):
    print("poisoned", job.attempt, flush=True)
    os._exit(9)

print("ready", flush=True)
report = worker.run()
print("acked", report.acked, "lost", report.lost, flush=True)
"""


def started(program: StartProgram, code: str = WORKER) -> Program:
    worker = program(code)
    assert worker.line() == "ready"
    return worker


def said_next(worker: Program) -> str:
    """Skip what a handler says that ends before it is interrupted."""
    line = worker.line()
    return worker.line() if line == "done" else line


def totals(queue: duly.Queue, name: str) -> int:
    return queue.counts().totals.get(name, 0)


def are_acked(queue: duly.Queue, jobs: int) -> None:
    until(lambda: totals(queue, "acked") == jobs, "not acked")


def test_a_zombie_is_refused_and_harms_nothing(program: StartProgram, queue: duly.Queue) -> None:
    queue.push(1, name="wait")
    zombie = started(program)
    assert zombie.line() == "running 1 1"
    zombie.process.send_signal(signal.SIGSTOP)
    job = None
    while job is None:
        job = queue.reserve(wait=20, lease=60)
    assert (job.attempt, job.returns) == (1, 0)  # nobody knows whether the first had started it
    queue.push("now", key="go on", delay=3600)
    zombie.process.send_signal(signal.SIGCONT)
    queue.push(2, name="say")
    # Its handler ends before or after it is interrupted.
    assert said_next(zombie) == "said 2 1"
    job.ack()
    until(lambda: totals(queue, "acked") == 2, "not acked")
    zombie.process.terminate()
    status, out, err = zombie.end()
    assert (status, out) == (0, "acked 1 lost 1\n"), err
    assert "lease" in err


def test_a_poison_job_ends_in_failed(program: StartProgram, queue: duly.Queue) -> None:
    queue.push(1, name="poison", max_retries=2)
    for attempt in (1, 1, 2, 3):  # the first crash is not counted
        worker = started(program)
        assert worker.line() == f"poisoned {attempt}"
        assert worker.process.wait(20) == 9
    queue.push(2, name="say")
    worker = started(program)
    assert worker.line() == "said 2 1"
    until(lambda: queue.counts().failed == 1, "not failed")
    assert [view.attempts for view in queue.peek("failed")] == [3]
    worker.process.terminate()
    # If it has heard of that failure by now, its log has it.
    assert worker.end()[:2] == (0, "acked 1 lost 0\n")


def test_a_worker_outlives_a_restart_of_the_server(own_server: Server, own_program: StartProgram) -> None:
    queue = duly.Client(own_server.url).queue("q")
    worker = started(own_program)
    queue.push(1, name="wait")
    assert worker.line() == "running 1 1"
    own_server.kill()
    own_server.start()
    # This server kept nothing: what the worker says of its job is refused, and harms nothing.
    queue.push("now", key="go on", delay=3600)
    queue.push(2, name="say")
    assert said_next(worker) == "said 2 1"
    until(lambda: totals(queue, "acked") == 1, "not acked")
    worker.process.terminate()
    status, out, err = worker.end()
    assert (status, out) == (0, "acked 1 lost 1\n"), err
    assert err.count("keeps trying") <= 1  # none if the server was back before the worker asked


def test_a_worker_outlives_killed_connections_and_a_server_that_takes_no_writes(
    own_server: Server, own_program: StartProgram
) -> None:
    queue = duly.Client(own_server.url).queue("q")
    worker = started(own_program)
    queue.push(1, name="say")
    assert worker.line() == "said 1 1"
    own_server.cli("client", "kill", "type", "normal")
    queue.push(2, name="say")
    assert worker.line() == "said 2 1"
    own_server.cli("replicaof", "127.0.0.1", "1")
    until(lambda: "errorstat_READONLY" in own_server.cli("info", "errorstats"), "it does not try")
    own_server.cli("replicaof", "no", "one")
    queue.push(3, name="say")
    assert worker.line() == "said 3 1"
    until(lambda: totals(queue, "acked") == 3, "not acked")
    worker.process.terminate()
    status, out, err = worker.end()
    assert (status, out) == (0, "acked 3 lost 0\n"), err
    assert err.count("keeps trying") <= 2


def test_workers_behind_slow_lines_outlive_a_restart_of_the_server_and_killed_connections(
    own_server: Server, own_program: StartProgram
) -> None:
    client = duly.Client(own_server.url)
    with slow_lines(own_server.socket, [SLOW, NEAR, FAR]) as urls:
        queues = [client.queue(f"q{number}") for number in range(len(urls))]
        workers = []
        for queue, url in zip(queues, urls, strict=True):
            # Its client has had an answer before the outage.
            patient = WORKER.replace("PREFIX)", "PREFIX, deadline=60)\nclient.ping()").replace("lease=1.5", "lease=30")
            code = patient.replace('"q"', repr(queue.name))
            workers.append(own_program(f"URL = {url!r}\n{code}"))
        for queue, worker in zip(queues, workers, strict=True):
            assert worker.line() == "ready"
            queue.push(1, name="wait")
            assert worker.line() == "running 1 1"
        own_server.cli("save")
        own_server.kill()
        own_server.start()
        for queue, worker in zip(queues, workers, strict=True):
            queue.push("now", key="go on", delay=3600)
            assert worker.line() == "done"
        own_server.cli("client", "kill", "type", "normal")
        for queue, worker in zip(queues, workers, strict=True):
            queue.push(2, name="say")
            assert worker.line() == "said 2 1"
        for queue, worker in zip(queues, workers, strict=True):
            are_acked(queue, 2)
            worker.process.terminate()
            status, out, err = worker.end()
            assert (status, out) == (0, "acked 2 lost 0\n"), err


def test_a_frozen_server_is_waited_out(own_server: Server, own_program: StartProgram) -> None:
    client = duly.Client(own_server.url)
    queue = client.queue("q")
    impatient = WORKER.replace("PREFIX)", "PREFIX, command_timeout=0.3)").replace("lease=1.5", "lease=30")
    worker = started(own_program, impatient)
    queue.push(1, name="wait")
    assert worker.line() == "running 1 1"
    queue.push("now", key="go on", delay=3600)
    own_server.freeze()
    time.sleep(1)
    own_server.thaw()
    until(lambda: totals(queue, "acked") == 1, "not acked")
    queue.push(2, name="say")
    assert worker.line() == "done"
    assert worker.line() == "said 2 1"
    worker.process.terminate()
    status, out, err = worker.end()
    assert (status, out) == (0, "acked 2 lost 0\n"), err


def test_a_stop_ends_in_time_while_the_server_is_away(own_server: Server, own_program: StartProgram) -> None:
    worker = started(own_program)
    client = duly.Client(own_server.url)
    client.queue("q").push(1, name="say")
    assert worker.line() == "said 1 1"
    own_server.kill()
    worker.process.terminate()
    assert worker.end(20)[0] == 0
