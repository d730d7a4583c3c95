"""A consumer: jobs for a program that runs them itself."""

from __future__ import annotations

import asyncio
import ctypes
import gc
import logging
import selectors
import signal
import sys
import threading
import time
import weakref
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import duly
import pytest
from duly import consumer as consumers
from support import Server, StartProgram, empty, until

AGAIN = duly.RetryPolicy.fixed(0)


def is_readable(consumer: duly.Consumer, wait: float) -> bool:
    with selectors.DefaultSelector() as selector:
        selector.register(consumer, selectors.EVENT_READ)
        return bool(selector.select(wait))


def push(queue: duly.Queue, count: int, **options: Any) -> None:
    queue.push_many(duly.NewJob(n, **options) for n in range(count))


def take(consumer: duly.Consumer) -> duly.Job:
    job = consumer.next(60)
    assert job is not None
    return job


def test_several_are_out_at_once_and_are_settled_in_any_order_by_any_thread(
    client: duly.Client, queue: duly.Queue
) -> None:
    ids = [queue.push(n) for n in range(4)]
    with duly.Consumer(client, ["q"], concurrency=3) as consumer:
        first, second, third = (take(consumer) for _ in range(3))
        assert [job.id for job in (first, second, third)] == ids[:3]
        assert consumer.next(0.05) is None, "three are out"
        assert consumer.next(0) is None
        with ThreadPoolExecutor(1) as pool:
            fourth = pool.submit(consumer.next, 60)
            pool2 = threading.Thread(target=third.ack)
            pool2.start()
            pool2.join()
            taken = fourth.result()
            assert taken is not None
            assert taken.id == ids[3]
            pool.submit(taken.release, 60, reason="not now").result()
        assert first.fail(ValueError("no"), retry_after=30) == 30
        second.ack()
        for job in (first, second, third, taken):
            assert (job.settled, job.acked) == (True, job in (second, third))
            with pytest.raises(duly.LeaseLostError, match="decided already") as refused:
                job.ack()
            assert (refused.value.job_id, refused.value.queue) == (job.id, "q")
    report = consumer.report()
    assert (report.acked, report.failed, report.released, report.lost) == (2, 1, 1, 0)
    assert queue.counts().delayed == 2
    found = queue.find(taken.id)
    assert found is not None
    assert found.error == "not now"


def test_the_job_is_that_of_the_queue_with_all_its_verbs(client: duly.Client, queue: duly.Queue) -> None:
    queue.push({"a": 1}, name="n", key="k", headers={"h": "v"}, result_ttl=60)
    with duly.Consumer(client, {"q": 3, "other": 1}, name="mine") as consumer:
        job = take(consumer)
        assert (job.data, job.name, job.key, job.headers, job.attempt) == ({"a": 1}, "n", "k", {"h": "v"}, 1)
        assert isinstance(job.queue, duly.Queue)
        assert job.queue.name == "q"
        job.progress(0.5, "half")
        job.extend(5)
        with job.lock("stock:42", retry_after=1):
            pass
        found = queue.find(job.id)
        assert found is not None
        assert found.progress is not None
        assert found.progress.text == "half"
        assert [worker.name for worker in queue.workers()] == ["mine"]
        assert job.interrupted is None
        job.ack({"sum": 3})
        assert queue.wait_result(job.id, timeout=10) == {"sum": 3}


def test_a_job_is_changed_by_its_failure_and_what_cannot_be_stored_decides_nothing(
    client: duly.Client, queue: duly.Queue
) -> None:
    queue.push(1, retry=AGAIN)
    with duly.Consumer(client, ["q"]) as consumer:
        job = take(consumer)
        with pytest.raises(duly.TooLargeError):
            job.fail("no", data="x" * 2_000_000)
        assert not job.settled
        job.fail("no", data=2, attempts=7, max_retries=20)
        again = take(consumer)
        assert (again.data, again.attempts, again.error) == (2, 8, "no")
        again.ack()


def test_nothing_is_fetched_before_it_is_asked_for_and_what_nobody_takes_goes_back_uncounted(
    client: duly.Client, queue: duly.Queue
) -> None:
    push(queue, 500)
    with duly.Consumer(client, ["q"]) as consumer:
        time.sleep(0.05)
        assert queue.counts().ready == 500
        acked = 0
        while queue.counts().reserved < 5:
            take(consumer).ack()
            acked += 1
        until(lambda: queue.counts().ready == 500 - acked, "what nobody takes stays here")
        while queue.counts().reserved < 5:
            take(consumer).ack()
            acked += 1
    assert queue.counts().ready == 500 - acked, "the end gives it back"
    assert {(job.attempt, job.returns) for job in queue.reserve_many(500)} == {(1, 0)}


@pytest.mark.parametrize("prefetch", [0, 3])
def test_no_more_is_fetched_ahead_than_is_allowed(client: duly.Client, queue: duly.Queue, prefetch: int) -> None:
    push(queue, 300)
    with duly.Consumer(client, ["q"], prefetch=prefetch) as consumer:
        most = 0
        for _ in range(200):
            job = take(consumer)
            most = max(most, queue.counts().reserved)
            job.ack()
        # Acks that have not arrived yet are among them.
        assert most <= 2 * (prefetch + 1)


def test_a_driver_counts_attempts_and_stores_what_it_knows(client: duly.Client, queue: duly.Queue) -> None:
    queue.push(1, max_retries=0, headers={"tenant": "acme"})
    with duly.Consumer(client, ["q"]) as consumer:
        take(consumer).release(counted=True, reason="busy")
        job = take(consumer)
        assert (job.attempt, job.attempts, job.error, job.headers) == (2, 1, "busy", {"tenant": "acme"})
        assert job.fail("no", final=True, headers={"error": "IoError"}, name="mail") is None
        with pytest.raises(duly.InvalidArgumentError):
            job.fail("no", headers={"error": 5})  # type: ignore[dict-item]
    (failed,) = queue.peek("failed")
    assert (failed.attempts, failed.name, failed.headers) == (2, "mail", {"tenant": "acme", "error": "IoError"})
    assert queue.clear() == 0


@pytest.mark.parametrize("own", [True, False])
def test_behind_its_time_settling_is_refused_and_the_job_is_run_again(
    client: duly.Client, queue: duly.Queue, own: bool
) -> None:
    told: list[tuple[duly.Job, str]] = []
    queue.push(1, retry=AGAIN, timeout=0.3 if own else None)
    timeout = None if own else 0.3
    with duly.Consumer(client, ["q"], lease=0.1, timeout=timeout, on_interrupt=lambda *of: told.append(of)) as consumer:
        hung = take(consumer)
        began = time.monotonic()
        again = take(consumer)
        assert time.monotonic() - began > 0.25, "the lease was renewed"
        assert (again.id, again.attempt, again.error) == (hung.id, 2, "ran longer than its timeout of 0.3 s")
        assert hung.interrupted == "timed_out"
        with pytest.raises(duly.LeaseLostError, match="its time is over"):
            hung.ack()
        again.ack()
        until(lambda: told, "on_interrupt was not called")
        assert told == [(hung, "timed_out")]


def test_one_whose_lease_is_lost_is_told_of_and_a_callback_may_raise(
    client: duly.Client, queue: duly.Queue, caplog: pytest.LogCaptureFixture
) -> None:
    told: list[str] = []

    def tell(job: duly.Job, why: str) -> None:
        told.append(why)
        raise ValueError(job.id)

    queue.push(1)
    with duly.Consumer(client, ["q"], lease=0.3, on_interrupt=tell) as consumer:
        job = take(consumer)
        queue.cancel(job.id)
        until(lambda: told, "on_interrupt was not called")
        assert (told, job.interrupted) == (["lease_lost"], "lease_lost")
        with pytest.raises(duly.LeaseLostError, match="the lease is lost"):
            job.ack()
        until(lambda: "on_interrupt raised" in caplog.text, "it is logged")
        assert any(record.name == "duly.consumer" and record.levelno == logging.WARNING for record in caplog.records)


class Raises(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        if record.exc_info is not None:
            raise AttributeError
        return True


@pytest.mark.parametrize("raised", [SystemExit, asyncio.CancelledError, ValueError])
@pytest.mark.parametrize("log_raises", [False, True])
def test_all_are_told_of_whatever_on_interrupt_raises_for_one(
    raised: type[BaseException], log_raises: bool, client: duly.Client, queue: duly.Queue
) -> None:
    told: list[object] = []

    def tell(job: duly.Job, _why: str) -> None:
        told.append(job.data)
        if len(told) == 1:
            raise raised

    for number in range(3):
        queue.push(number, timeout=0.02 + number / 50)
    log, raises = logging.getLogger("duly.consumer"), Raises()
    if log_raises:
        log.addFilter(raises)
    try:
        with duly.Consumer(client, ["q"], concurrency=3, on_interrupt=tell) as consumer:
            jobs = [take(consumer) for _ in range(3)]
            until(lambda: len(told) == 3, "not all are told of", 10)
            assert [job.interrupted for job in jobs] == ["timed_out"] * 3
    finally:
        log.removeFilter(raises)
    assert sorted(told, key=str) == [0, 1, 2]


def test_an_exception_that_comes_late_to_the_thread_of_on_interrupt_ends_it_not(
    client: duly.Client, queue: duly.Queue
) -> None:
    """A library that on_interrupt uses sets it in this thread; it comes while that waits for the next event."""
    told: list[object] = []
    threads: list[int] = []

    def tell(job: duly.Job, _why: str) -> None:
        threads.append(threading.get_ident())
        told.append(job.data)

    def waits() -> bool:
        return sys._current_frames()[threads[0]].f_code.co_name in ("_hear", "_watch")

    with duly.Consumer(client, ["q"], concurrency=3, on_interrupt=tell) as consumer:
        jobs = []
        for number in range(3):
            if threads:
                until(waits, "it does not wait")
                ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(threads[0]), ctypes.py_object(ValueError))
            queue.push(number, timeout=0.02)
            jobs.append(take(consumer))
            until(lambda: len(told) == number + 1, "it is not told of", 10)  # noqa: B023
    assert told == [0, 1, 2]


def test_a_job_that_nobody_has_any_more_goes_back_uncounted(client: duly.Client, queue: duly.Queue) -> None:
    queue.push(1)
    with duly.Consumer(client, ["q"]) as consumer:
        job: duly.Job | None = take(consumer)
        assert job is not None
        first = job.id
        job = None
        gc.collect()
        again = take(consumer)
        assert (again.id, again.attempt) == (first, 1)
        again.ack()


def test_a_consumer_that_nobody_has_any_more_ends(client: duly.Client, queue: duly.Queue) -> None:
    queue.push(1)
    consumer = duly.Consumer(client, ["q"], grace=60)
    job = take(consumer)
    until(lambda: queue.workers(), "it is not there")
    del consumer
    gc.collect()
    job.ack()
    until(lambda: not queue.workers() and empty(queue), "it goes on")


def test_a_close_gives_back_what_is_out_behind_its_time(client: duly.Client, queue: duly.Queue) -> None:
    push(queue, 10)
    consumer = duly.Consumer(client, ["q"], concurrency=2)
    late, in_time = take(consumer), take(consumer)
    consumer.stop()
    assert consumer.stopped
    assert consumer.next() is None
    assert list(consumer) == []
    threading.Timer(0.05, in_time.ack).start()
    report = consumer.close(within=0.3)
    assert (report.acked, report.failed) == (1, 0)
    assert late.interrupted == "stopped"
    with pytest.raises(duly.LeaseLostError, match="its consumer was closed"):
        late.ack()
    assert consumer.close() == report == consumer.report()
    assert queue.counts().ready == 9


def test_an_exception_ends_the_grace(client: duly.Client, queue: duly.Queue) -> None:
    queue.push(1)
    began = time.monotonic()

    def run() -> None:
        with duly.Consumer(client, ["q"], grace=60) as consumer:
            for job in consumer:
                assert job.data / 0

    with pytest.raises(ZeroDivisionError):
        run()
    assert time.monotonic() - began < 20
    assert queue.counts().ready == 1


def test_its_descriptor_is_readable_while_there_is_something_to_take(client: duly.Client, queue: duly.Queue) -> None:
    with duly.Consumer(client, ["q"], concurrency=2) as consumer:
        assert consumer.events() == consumer.fileno()
        while consumer.next(0) is not None:
            pass
        assert not is_readable(consumer, 0.05)
        ids = {queue.push(n) for n in range(3)}
        out: list[duly.Job] = []
        while len(out) < 2:
            assert is_readable(consumer, 60)
            out += [job for job in [consumer.next(0)] if job is not None]
        assert consumer.next(0) is None
        assert not is_readable(consumer, 0.05), "all are out"
        out[0].ack()
        while len(out) < 3:
            assert is_readable(consumer, 60)
            out += [job for job in [consumer.next(0)] if job is not None]
        assert {job.id for job in out} == ids
        out[1].ack()
        out[2].ack()
        consumer.next(0)
        consumer.stop()
        assert is_readable(consumer, 0)
        assert consumer.next(0) is None
        assert is_readable(consumer, 0)


def test_what_waiting_does_not_cure_is_raised_by_next(server: Server, prefix: str) -> None:
    consumer = duly.Consumer(duly.Client(server.url, prefix=prefix, password="wrong"), ["q"])
    for _ in range(2):
        with pytest.raises(duly.AuthenticationFailedError):
            consumer.next(60)
    assert consumer.stopped
    with pytest.raises(duly.AuthenticationFailedError):
        consumer.close()


def test_wrong_settings_are_refused(client: duly.Client) -> None:
    for settings, said in [
        ({"concurrency": 0}, "concurrency"),
        ({"prefetch": 1001}, "prefetch must be a whole number from 0 to 1000"),
        ({"timeout": 0}, "a timeout must be longer than 0"),
        ({"lease": 0.01}, "lease"),
        ({"on_interrupt": 1}, "on_interrupt"),
    ]:
        with pytest.raises(duly.InvalidArgumentError, match=said):
            duly.Consumer(client, ["q"], **settings)  # type: ignore[arg-type]
    with pytest.raises(duly.InvalidArgumentError, match=r"duly\.Client, not str"):
        duly.Consumer("redis://", ["q"])  # type: ignore[arg-type]
    with duly.Consumer(client, ["q"]) as consumer, pytest.raises(duly.InvalidArgumentError, match="wait"):
        consumer.next("soon")  # type: ignore[arg-type]


def test_others_take_over_what_a_killed_process_had_out(
    program: StartProgram, client: duly.Client, queue: duly.Queue
) -> None:
    push(queue, 3, max_retries=1)
    code = """
    consumer = duly.Consumer(duly.Client(URL, prefix=PREFIX), ["q"], concurrency=2, lease=0.5)
    out = [consumer.next(), consumer.next()]
    print("out")
    consumer.next()
    """
    started = program(code)
    assert started.line() == "out"
    started.process.kill()
    with duly.Consumer(client, ["q"], lease=0.5) as consumer:
        done: list[int] = []
        while len(done) < 3:
            job = take(consumer)
            assert job.attempt == 1, "whoever is first to die is not charged"
            job.ack()
            done.append(job.data)
        assert sorted(done) == [0, 1, 2]


def test_ctrl_c_ends_a_wait_and_what_was_fetched_goes_back(program: StartProgram, queue: duly.Queue) -> None:
    queue.push(1)
    code = """
    with duly.Consumer(duly.Client(URL, prefix=PREFIX), ["q"], grace=60, concurrency=2) as consumer:
        first = consumer.next()
        print("waits")
        consumer.next()
    """
    started = program(code)
    assert started.line() == "waits"
    began = time.monotonic()
    started.process.send_signal(signal.SIGINT)
    status, _, err = started.end()
    assert status == -signal.SIGINT
    assert err.endswith("KeyboardInterrupt\n")
    assert time.monotonic() - began < 20
    assert queue.counts().ready == 1


def test_a_signal_handler_may_stop_it_and_nothing_that_was_said_is_lost(
    program: StartProgram, queue: duly.Queue
) -> None:
    code = """
    import signal
    consumer = duly.Consumer(duly.Client(URL, prefix=PREFIX), ["q"])
    signal.signal(signal.SIGTERM, lambda *_: consumer.stop())
    print("begins")
    for job in consumer:
        job.ack()
        print("one")
    # Without a close: the end of the program sends what was said.
    """
    started = program(code)
    assert started.line() == "begins"
    queue.push(1)
    assert started.line() == "one"
    started.process.send_signal(signal.SIGTERM)
    started.ends_well()
    assert empty(queue)
    assert not queue.workers()


def test_in_a_forked_child_it_gives_nothing_and_a_new_one_works(program: StartProgram, queue: duly.Queue) -> None:
    queue.push(1)
    queue.push(2)
    code = """
    import os
    client = duly.Client(URL, prefix=PREFIX)
    consumer = duly.Consumer(client, ["q"])
    consumer.events()
    job = consumer.next()
    child = os.fork()
    if child == 0:
        assert consumer.next() is None and consumer.stopped and list(consumer) == []
        try:
            job.ack()
        except duly.LeaseLostError as error:
            assert "the process that forked this one" in str(error), error
        else:
            raise AssertionError
        consumer.stop()
        consumer.close()
        del job
        own = duly.Consumer(client, ["q"])
        own.next().ack()
        own.close()
        del consumer
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    job.ack()
    assert consumer.close().acked == 1
    """
    assert program(code).ends_well() == ""
    assert empty(queue)


def test_a_loop_over_it_is_interrupted_by_no_outage(own_server: Server) -> None:
    client = duly.Client(own_server.url, deadline=1)
    queue = client.queue("q")
    queue.push(1)
    with duly.Consumer(client, ["q"], lease=5) as consumer:
        job = take(consumer)
        own_server.freeze()
        assert consumer.next(1.5) is None
        own_server.thaw()
        job.ack()
        queue.push(2)
        take(consumer).ack()
        until(lambda: consumer.report().acked == 2, "both are done")


def test_one_reserved_job_is_renewed_until_it_is_settled_or_gone(queue: duly.Queue) -> None:
    queue.push(1, retry=AGAIN)
    job = queue.reserve(lease=0.3, renew=True)
    assert job is not None
    time.sleep(1)
    assert queue.reserve() is None, "it is ours"
    job.ack()
    assert empty(queue)
    queue.push(2)
    gone: duly.Job | None = queue.reserve(lease=0.3, renew=True)
    assert gone is not None
    gone = None
    gc.collect()
    assert queue.reserve(wait=10) is not None, "nobody renews it"


def test_it_is_renewed_no_longer_than_its_timeout(queue: duly.Queue) -> None:
    queue.push(1, timeout=0.8)
    began = time.monotonic()
    job = queue.reserve(lease=0.3, renew=True)
    assert job is not None
    again = queue.reserve(wait=10)
    assert again is not None
    assert 0.7 < time.monotonic() - began < 5
    with pytest.raises(duly.LeaseLostError):
        job.ack()
    with pytest.raises(TypeError, match="renew must be a bool"):
        queue.reserve(renew=1)  # type: ignore[arg-type]


def test_a_consumer_whose_function_leads_back_to_it_is_freed(client: duly.Client) -> None:
    class App:
        def __init__(self) -> None:
            self.consumer = duly.Consumer(client, ["orders"], on_interrupt=self.told)

        def told(self, job: duly.Job, why: str) -> None: ...

    apps = [App() for _ in range(3)]
    gone = [weakref.ref(app) for app in apps]
    engines = [app.consumer._engine for app in apps]
    apps.clear()
    gc.collect()
    assert [one() for one in gone] == [None] * 3
    until(lambda: all(engine.is_over for engine in engines), "the engines go on")


def test_consumers_that_end_in_an_outage_end_together(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []

    class Engine:
        def stop(self) -> None:
            calls.append("stop")

        def close(self, _within: float) -> None:
            calls.append("close")

    monkeypatch.setattr(consumers, "_open", [Engine(), Engine()])
    consumers._close_all()
    assert calls == ["stop", "stop", "close", "close"]
