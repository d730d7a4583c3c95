from __future__ import annotations

import logging
import signal
import threading
import time

import duly
import pytest
from support import Program, Server, StartProgram, empty, running, until

WORKER = """
import time
client = duly.Client(URL, prefix=PREFIX)
worker = duly.Worker(client, ["q"], lease=LEASE, grace=GRACE)

@worker.on("say")
def say(job):
    print("running", job.data, flush=True)

@worker.on("wait")
def wait(job):
    print("running", job.data, flush=True)
    while client.queue("q").find(key="go on") is None:
        time.sleep(0.01)
    print("done", flush=True)

print("ready", flush=True)
worker.run()
print("stopped", flush=True)
"""


def worker_program(program: StartProgram, lease: float = 10, grace: float = 30, extra: str = "") -> Program:
    code = (
        WORKER.replace("LEASE", str(lease))
        .replace("GRACE", str(grace))
        .replace('print("ready"', extra + 'print("ready"')
    )
    worker = program(code)
    assert worker.line() == "ready"
    return worker


def test_a_handler_that_returns_acks_and_one_that_raises_fails(client: duly.Client, queue: duly.Queue) -> None:
    runs: list[int] = []
    worker = duly.Worker(client, ["q"], concurrency=3)

    @worker.on("third time lucky")
    def lucky(job: duly.Job) -> None:
        runs.append(job.attempt)
        if job.attempt < 3:
            raise ValueError("not yet")

    worker.on("bad", lambda _job: 1 / 0)
    worker.on(None, lambda _job: runs.append(0))
    queue.push(1, name="third time lucky", retry=duly.RetryPolicy.fixed(0.01))
    queue.push(1, name="bad", max_retries=0)
    queue.push(1, name="unknown", max_retries=0)
    queue.push(1)
    with running(worker):
        until(lambda: empty(queue), "jobs are left")
    assert sorted(runs) == [0, 1, 2, 3]
    errors = {view.name: view.error for view in queue.peek("failed")}
    assert errors["bad"].startswith("ZeroDivisionError: division by zero\n  at ")
    assert __file__ in errors["bad"]
    assert errors["unknown"] == "this worker has no handler for the name 'unknown'"


def test_what_a_handler_settles_itself_is_respected(client: duly.Client, queue: duly.Queue) -> None:
    worker = duly.Worker(client, ["q"])
    worker.on("released", lambda job: job.release(3600))
    worker.on("failed", lambda job: job.fail("by hand", final=True))
    worker.on("acked", lambda job: job.ack())
    worker.on("acked with others", lambda job: job.queue.ack_many([job]))
    for name in ("released", "failed", "acked", "acked with others"):
        queue.push(name, name=name, result_ttl=60)
    with running(worker) as reports:
        until(lambda: queue.counts().totals.get("acked") == 2, "not acked")
    assert [view.data for view in queue.peek("delayed")] == ["released"]
    assert [view.error for view in queue.peek("failed")] == ["by hand"]
    assert reports[0].lost == 0


def test_several_queues_are_served_the_first_one_first(client: duly.Client) -> None:
    first, second = client.queue("first"), client.queue("second")
    order: list[str] = []
    worker = duly.Worker(client, ["first", "second"])
    worker.on(None, lambda job: order.append(job.data))
    for number in range(3):
        second.push(f"b{number}")
        first.push(f"a{number}")
    with running(worker):
        until(lambda: len(order) == 6, "jobs are left")
        second.push("late")
        until(lambda: len(order) == 7, "the late one is left")
    assert order == ["a0", "a1", "a2", "b0", "b1", "b2", "late"]


def test_concurrency_is_how_many_run_at_once(client: duly.Client, queue: duly.Queue) -> None:
    together = threading.Barrier(4, timeout=20)
    worker = duly.Worker(client, ["q"], concurrency=4)
    worker.on(None, lambda _job: together.wait())
    queue.push_many(duly.NewJob(n) for n in range(8))
    with running(worker):
        until(lambda: queue.counts().totals.get("acked") == 8, "they do not run together")
    assert not queue.peek("failed")


def test_a_lease_is_renewed_while_the_handler_keeps_the_gil(program: StartProgram, queue: duly.Queue) -> None:
    extra = """
@worker.on("hold the GIL")
def hold(job):
    import ctypes
    print("running", job.data, flush=True)
    ctypes.PyDLL(None).usleep(3_000_000)  # PyDLL, unlike CDLL, keeps the GIL during a call
    print("done", flush=True)

"""
    queue.push(1, name="hold the GIL")
    worker = worker_program(program, lease=1.0, extra=extra)
    assert worker.line() == "running 1"
    # Ours for the taking, if the lease ended.
    assert queue.reserve(wait=2.0) is None
    assert queue.counts().reserved == 1
    assert worker.line() == "done"
    until(lambda: empty(queue), "not acked")
    totals = queue.counts().totals
    assert (totals["acked"], totals.get("reclaimed", 0)) == (1, 0)
    worker.process.terminate()
    assert worker.ends_well().split() == ["stopped"]


def test_a_job_whose_timeout_is_over_is_renewed_no_more(client: duly.Client, queue: duly.Queue) -> None:
    taken = threading.Event()
    worker = duly.Worker(client, ["q"], lease=1)
    worker.on(None, lambda _job: taken.wait(20))
    queue.push(1, timeout=1.5)
    with running(worker):
        until(lambda: queue.counts().reserved == 1, "not reserved")
        job = None
        while job is None:
            job = queue.reserve(wait=20, lease=60)
        taken.set()
    assert job.attempt == 2
    job.ack()


def test_sigterm_lets_running_jobs_finish_and_gives_back_the_rest(program: StartProgram, queue: duly.Queue) -> None:
    queue.push(1, name="wait")
    # Of each line as much as says that it has heard of the stop.
    logs = 'import logging, sys; logging.basicConfig(level="INFO", format="%(message).16s", stream=sys.stdout); '
    worker = worker_program(program, extra=logs)
    assert worker.line() == "running 1"
    queue.push(2, name="say")
    worker.process.send_signal(signal.SIGTERM)
    assert worker.line() == "the worker stops"
    queue.push(3, name="say")
    queue.push("now", key="go on", delay=3600)
    assert worker.ends_well().split() == ["done", "stopped"]
    counts = queue.counts()
    assert (counts.ready, counts.reserved, counts.totals["acked"]) == (2, 0, 1)


def test_grace_over_gives_running_jobs_back(program: StartProgram, queue: duly.Queue) -> None:
    queue.push(1, name="wait")
    worker = worker_program(program, grace=0.1)
    assert worker.line() == "running 1"
    worker.process.send_signal(signal.SIGINT)
    status, out, err = worker.end()
    assert (status, out.split()) == (0, ["stopped"])
    assert "is over: the job goes back" in err
    counts = queue.counts()
    assert (counts.ready, counts.reserved) == (1, 0)
    job = queue.reserve()
    assert job is not None
    assert job.attempt == 1


def test_a_second_signal_stops_at_once(program: StartProgram, queue: duly.Queue) -> None:
    queue.push(1, name="wait")
    worker = worker_program(program, grace=600)
    assert worker.line() == "running 1"
    # Twice the same signal may become one: two different ones do not.
    worker.process.send_signal(signal.SIGINT)
    worker.process.send_signal(signal.SIGTERM)
    assert worker.end(20)[:2] == (0, "stopped\n")
    assert queue.counts().ready == 1


def test_a_killed_workers_job_runs_again(program: StartProgram, queue: duly.Queue) -> None:
    queue.push(1, name="wait")
    first = worker_program(program, lease=2)
    assert first.line() == "running 1"
    first.process.kill()
    # It does not lose its own lease, however busy the machine is.
    second = worker_program(program, lease=60)
    assert second.line() == "running 1"
    queue.push("now", key="go on", delay=3600)
    assert second.line() == "done"
    until(lambda: queue.counts().totals.get("acked") == 1, "not acked")
    assert queue.counts().totals["reclaimed"] == 1


def test_a_worker_survives_an_outage_and_says_so_once(own_server: Server, caplog: pytest.LogCaptureFixture) -> None:
    client = duly.Client(own_server.url)
    queue = client.queue("q")
    seen: list[int] = []
    worker = duly.Worker(client, ["q"])
    worker.on(None, lambda job: seen.append(job.data))
    queue.push(1)
    with caplog.at_level(logging.WARNING, "duly.worker"), running(worker):
        until(lambda: seen == [1], "the first is left")
        own_server.kill()
        until(lambda: "keeps trying" in caplog.text, "nothing was said")
        own_server.start()
        until(lambda: "answers again" in caplog.text, "it did not come back")
        queue.push(2)
        until(lambda: seen == [1, 2], "the second is left")
    assert caplog.text.count("keeps trying") == 1


def test_an_error_that_no_waiting_heals_is_raised(server: Server) -> None:
    worker = duly.Worker(duly.Client(server.url, username="nobody", password="wrong"), ["q"])
    worker.on("n", lambda _job: None)
    with pytest.raises(duly.AuthenticationFailedError):
        worker.run()


def test_wrong_settings_are_refused(client: duly.Client) -> None:
    worker = duly.Worker(client, ["q"])
    for wrong in (
        lambda: duly.Worker(client, "q"),
        lambda: duly.Worker(client, []),
        lambda: duly.Worker(client, ["{"]),
        lambda: duly.Worker(client, ["q"], concurrency=0),
        lambda: duly.Worker(client, ["q"], concurrency=True),
        lambda: duly.Worker(client, ["q"], lease=0),
        lambda: duly.Worker(client, ["q"], grace=-1),
        lambda: duly.Worker(client, ["q", "q"]),
        lambda: duly.Worker(client, ["q"], middleware=["hook"]),  # type: ignore[list-item]
        lambda: worker.on("a", "handler"),  # type: ignore[call-overload]
        duly.Worker(client, ["q"]).run,  # it has no handler
    ):
        with pytest.raises(duly.InvalidArgumentError):
            wrong()


@pytest.mark.parametrize("prefetch", [0, 3])
def test_no_more_jobs_wait_in_a_worker_than_it_may_prefetch(
    client: duly.Client, queue: duly.Queue, prefetch: int
) -> None:
    most = 0

    def count(_job: duly.Job) -> None:
        nonlocal most
        most = max(most, queue.counts().reserved)

    queue.push_many(duly.NewJob(n) for n in range(200))
    worker = duly.Worker(client, ["q"], prefetch=prefetch)
    worker.on(None, count)
    with running(worker):
        until(lambda: empty(queue), "the jobs did not run")
    # Outcomes that are on their way are among them.
    assert most <= 2 * (prefetch + 1)


def test_a_job_without_a_timeout_has_that_of_its_worker(client: duly.Client, queue: duly.Queue) -> None:
    own = queue.push(1, name="sleep", timeout=60, max_retries=0)
    without = queue.push(2, name="sleep", max_retries=0)
    worker = duly.Worker(client, ["q"], timeout=0.2, concurrency=2)
    interrupted: list[str | None] = []

    @worker.on("sleep")
    def sleep(job: duly.Job) -> None:
        try:
            end = time.monotonic() + (1 if job.id == own else 60)
            while time.monotonic() < end:
                time.sleep(0.01)
        except duly.JobInterrupted:
            interrupted.append(job.interrupted)
            raise

    with running(worker) as reports:
        until(lambda: queue.counts().failed == 1 and queue.find(own) is None, "they did not end")
    found = queue.find(without)
    assert found is not None
    assert found.error == "ran longer than its timeout of 0.2 s"
    assert interrupted == ["timed_out"]
    assert reports[0].acked == 1
