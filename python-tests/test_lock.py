"""Locks as Python programs use them; what locks are is in conformance/scenarios/lock.json."""

from __future__ import annotations

import asyncio
import copy
import ctypes
import os
import pickle
import random
import signal
import textwrap
import threading

import duly
import duly.aio
import pytest
from support import Program, Server, StartProgram, cancel, running, say, until

LOCK_KILLS = int(os.environ.get("DULY_LOCK_KILLS", "4"))


def test_a_block_holds_it_and_releases_it(client: duly.Client) -> None:
    with client.lock("a") as lock:
        assert lock.held
        assert lock.name == "a"
        assert str(lock) == f'<duly.Lock "a", token {lock.token}>'
        with pytest.raises(duly.LockedError) as refused:
            client.lock("a")
        assert str(refused.value) == "lock 'a': another one holds it: wait for it, or try again later"
        assert (refused.value.kind, refused.value.transient, refused.value.queue) == ("locked", False, None)
    assert not lock.held
    with pytest.raises(ZeroDivisionError), client.lock("a") as second:
        raise ZeroDivisionError
    assert second.token > lock.token
    assert client.lock("a").release()


def test_one_that_was_released_in_its_block_is_no_error_at_the_end(client: duly.Client) -> None:
    with client.lock("a") as lock:
        assert lock.release()
        assert not lock.release()


def test_one_of_a_closed_client_is_released(client: duly.Client, server: Server, prefix: str) -> None:
    with duly.Client(server.url, prefix=prefix) as closing:
        lock = closing.lock("a")
    assert (lock.held, lock.release(), lock.held, lock.release()) == (True, True, False, False)
    client.lock("a").release()

    async def main() -> None:
        async with duly.aio.Client(server.url, prefix=prefix) as closing:
            lock = await closing.lock("a")
        assert await lock.release()

    asyncio.run(main())
    client.lock("a").release()


def test_a_second_block_needs_a_second_lock(client: duly.Client) -> None:
    lock = client.lock("a")
    with lock:
        pass
    with pytest.raises(duly.LeaseLostError, match="take it anew"), lock:
        raise AssertionError("it is not held")


def test_a_release_can_be_copied_and_pickled() -> None:
    for release in (duly.Release(5, reason="why"), duly.Release()):
        for other in (copy.copy(release), pickle.loads(pickle.dumps(release))):
            assert (other.after, other.reason, str(other)) == (release.after, release.reason, release.reason)


def test_one_that_comes_when_its_loop_is_closed_is_given_up(client: duly.Client, server: Server, prefix: str) -> None:
    held = [client.lock(name) for name in ("a", "b")]

    async def first() -> None:
        other = duly.aio.Client(server.url, prefix=prefix)
        calls = [other.lock("a"), other.lock("b", wait=60, ttl=60)]
        with pytest.raises(duly.LockedError):
            await asyncio.gather(*calls)  # which leaves the other call alone

    asyncio.run(first())
    held[1].release()
    with client.lock("b", wait=10):
        pass


def test_one_that_is_forgotten_is_released_soon(client: duly.Client) -> None:
    lock = client.lock("a")
    del lock
    with client.lock("a", wait=60) as second:
        assert second.waited < 30


def test_a_block_that_lost_it_raises_at_its_end_unless_it_raises_itself(
    server: Server, client: duly.Client, prefix: str
) -> None:
    def lose(error: Exception | None) -> None:
        with client.lock("a", ttl=0.3) as lock:
            server.cli("DEL", f"{prefix}{{a}}:lock")
            until(lambda: not lock.held, "it does not notice")
            if error:
                raise error

    with pytest.raises(duly.LeaseLostError, match="lost before the block ended"):
        lose(None)
    with pytest.raises(ZeroDivisionError):
        lose(ZeroDivisionError())


def test_it_is_renewed_while_c_code_holds_the_gil(client: duly.Client) -> None:
    with client.lock("a", ttl=2) as lock:
        ctypes.PyDLL(None).usleep(3_000_000)
        assert lock.held


def test_a_waiter_is_woken_by_the_release(client: duly.Client) -> None:
    first = client.lock("a")
    tokens: list[int] = []

    def wait() -> None:
        with client.lock("a", wait=60) as lock:
            tokens.append(lock.token)

    waiter = threading.Thread(target=wait)
    waiter.start()
    assert first.release()
    waiter.join(60)
    assert len(tokens) == 1
    assert tokens[0] > first.token


def test_the_lock_of_a_killed_process_is_free_after_its_ttl(client: duly.Client, program: StartProgram) -> None:
    other = program("""
        import time

        lock = duly.Client(URL, prefix=PREFIX).lock("a", ttl=0.5)
        print("held")
        time.sleep(600)
    """)
    assert other.line() == "held"
    with pytest.raises(duly.LockedError):
        client.lock("a")
    other.process.kill()
    client.lock("a", wait=60).release()


def test_ctrl_c_ends_a_wait_and_leaves_nothing_behind(client: duly.Client, program: StartProgram) -> None:
    with client.lock("a"):
        other = program("""
            try:
                print("waits")
                duly.Client(URL, prefix=PREFIX).lock("a", wait=600)
            except KeyboardInterrupt:
                print("interrupted")
        """)
        assert other.line() == "waits"
        other.process.send_signal(signal.SIGINT)
        assert other.ends_well() == "interrupted\n"
    client.lock("a").release()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded")
def test_a_forked_child_does_not_hold_its_parents_lock(client: duly.Client) -> None:
    with client.lock("a") as lock:
        child = os.fork()
        if child == 0:
            os._exit(0 if not lock.held and not lock.release() else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert lock.held
        with pytest.raises(duly.LockedError):
            client.lock("a")


def test_wrong_arguments_are_refused(client: duly.Client) -> None:
    for wrong in ({"ttl": 0}, {"ttl": "long"}, {"wait": -1}, {"wait": float("nan")}):
        with pytest.raises(duly.InvalidArgumentError):
            client.lock("a", **wrong)
    with pytest.raises(TypeError):
        client.lock("a", 5)  # type: ignore[call-arg]
    job = duly.NewJob(1)
    with pytest.raises(duly.InvalidArgumentError, match="reason must be a str"):
        duly.Release(reason=job)  # type: ignore[arg-type]


def test_a_job_that_meets_it_taken_runs_later_and_is_told_how_long_it_has_waited(
    client: duly.Client, queue: duly.Queue, caplog: pytest.LogCaptureFixture
) -> None:
    worker = duly.Worker(client, ["q"])
    waited: list[float] = []

    @worker.on("count")
    def count(job: duly.Job) -> None:
        with job.lock("stock", retry_after=0.05) as lock:
            waited.append(lock.waited)
            worker.stop()

    caplog.set_level("INFO", "duly.worker")
    lock = client.lock("stock")
    queue.push(1, name="count", max_retries=0)
    with running(worker) as reports:
        until(lambda: (view := next(iter(queue.peek("delayed")), None)) and view.error, "it does not go back")
        lock.release()
        until(lambda: waited, "it does not run again")
    assert reports[0].failed == 0
    assert reports[0].released >= 1
    assert len(waited) == 1
    assert waited[0] > 0
    released = [record.getMessage() for record in caplog.records if "was released" in record.getMessage()]
    assert "runs again in 0.05 s: waits for the lock 'stock' since " in released[0]


def test_an_async_handler_waits_for_it_without_holding_up_the_others(own_server: Server) -> None:
    client = duly.Client(own_server.url)
    queue = client.queue("q")
    worker = duly.Worker(client, ["q"], concurrency=2)
    lock = client.lock("stock")
    seen: list[object] = []
    released: list[bool] = []

    @worker.on("count")
    async def count(job: duly.Job) -> None:
        async with job.lock("stock", retry_after=5, wait=60) as lock:
            seen.append((type(lock), lock.held, lock.waited > 0))
            with pytest.raises(duly.Release, match="waits for the lock 'stock' since "):
                await job.lock("stock", retry_after=5)
        worker.stop()

    @worker.on("free")
    async def free(_job: duly.Job) -> None:
        seen.append("the other one runs")
        released.append(await asyncio.to_thread(lock.release))

    queue.push(1, name="count")
    with running(worker):
        # The worker for another job, and the handler for the lock.
        until(lambda: "blocked_clients:2" in own_server.cli("INFO", "clients").split(), "it does not wait")
        queue.push(2, name="free")
        until(lambda: len(seen) == 2, "the other one does not run, or the first one goes on waiting")
    assert seen == ["the other one runs", (duly.aio.Lock, True, True)]
    assert released == [True]


def test_a_job_of_an_async_handler_that_meets_it_taken_runs_later(server: Server, prefix: str) -> None:
    # The connections that this program has used stand still while its main thread waits for the handler.
    client = duly.Client(server.url, prefix=prefix, deadline=3)
    queue = client.queue("q")
    worker = duly.Worker(client, ["q"])
    waited: list[float] = []

    @worker.on("count")
    async def count(job: duly.Job) -> None:
        async with job.lock("stock", retry_after=0.05) as lock:
            waited.append(lock.waited)
            worker.stop()

    lock = client.lock("stock")
    queue.push(1, name="count", max_retries=0)
    with running(worker) as reports:
        until(lambda: (view := next(iter(queue.peek("delayed")), None)) and view.error, "it does not go back")
        lock.release()
        until(lambda: waited, "it does not run again")
    assert (reports[0].failed, len(waited), waited[0] > 0) == (0, 1, True)
    assert reports[0].released >= 1


async def test_the_asyncio_version(server: Server, prefix: str) -> None:
    async with duly.aio.Client(server.url, prefix=prefix) as client:
        async with client.lock("a") as lock:
            assert lock.held
            assert isinstance(lock, duly.aio.Lock)
            with pytest.raises(duly.LockedError):
                await client.lock("a", ttl=5)
            with pytest.raises(duly.LockedError):
                async with client.lock("a"):
                    raise AssertionError("it is held")
        call = client.lock("a", wait=5)
        async with call:
            pass
        with pytest.raises(duly.LeaseLostError):
            async with call:
                raise AssertionError("it is not held")
        async with await client.lock("a"):
            pass
        second = await client.lock("a", wait=5)
        assert second.token > lock.token
        assert await second.release()
        assert not await second.release()
        queue = client.queue("q")
        await queue.push(1)
        job = await queue.reserve()
        assert job is not None
        async with job.lock("a", retry_after=5) as held:
            assert held.waited == 0
            with pytest.raises(duly.Release) as release:
                await job.lock("a", retry_after=5)
        assert release.value.after == 5
        assert release.value.reason.startswith("waits for the lock 'a' since ")
        with pytest.raises(ZeroDivisionError):
            async with client.lock("a"):
                raise ZeroDivisionError

        async def lose() -> None:
            async with client.lock("a", ttl=0.3) as lock:
                server.cli("DEL", f"{prefix}{{a}}:lock")
                await asyncio.to_thread(until, lambda: not lock.held, "it does not notice")

        with pytest.raises(duly.LeaseLostError):
            await lose()


async def test_a_cancelled_wait_leaves_nothing_behind(server: Server, prefix: str) -> None:
    async with duly.aio.Client(server.url, prefix=prefix) as client:
        first = await client.lock("a")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(client.lock("a", wait=600), 0.05)
        await first.release()
        # The cancelled call, if it is on its way, is given up as soon as it is answered.
        async with client.lock("a", wait=60):
            pass


async def test_a_block_that_is_cancelled_at_its_end_releases_it(server: Server, prefix: str) -> None:
    async with duly.aio.Client(server.url, prefix=prefix) as client:
        kept: list[object] = []

        async def block(name: str) -> None:
            async with client.lock(name, ttl=600) as lock:
                kept.append(lock)
                cancel()

        async def release(name: str) -> None:
            kept.append(lock := await client.lock(name, ttl=600))
            cancel()
            await lock.release()

        async def enter(name: str) -> None:
            kept.append(lock := await client.lock(name, ttl=600))
            cancel()
            async with lock:
                await asyncio.sleep(600)

        for n, use in enumerate([block, release, enter] * 5):
            with pytest.raises(asyncio.CancelledError) as cancelled:
                await asyncio.create_task(use(f"a{n}"))
            kept.append(cancelled.value)
            async with client.lock(f"a{n}", wait=60):
                pass


@pytest.mark.parametrize("way", ["await", "with", "job"])
async def test_one_that_has_come_when_its_task_is_cancelled_is_released(server: Server, prefix: str, way: str) -> None:
    async with duly.aio.Client(server.url, prefix=prefix) as client:
        queue = client.queue("q")
        await queue.push(1)
        job = await queue.reserve(lease=600)
        assert job is not None
        call = job.lock("a", ttl=600, retry_after=1) if way == "job" else client.lock("a", ttl=600)

        async def use() -> None:
            if way == "with":
                async with call:
                    await asyncio.sleep(600)
            else:
                await call

        task = asyncio.create_task(use())
        call.add_done_callback(lambda _: task.cancel())
        with pytest.raises(asyncio.CancelledError) as cancelled:
            await task
        async with client.lock("a", wait=60):
            pass
        del cancelled  # it refers to the lock, as whoever keeps it does


CONTENDER = """
    import random, sys, time

    client = duly.Client(URL, prefix=PREFIX)
    log, chance = client.queue("log"), random.Random(SEED)
    while True:
        with client.lock("a", ttl=2, wait=60) as lock:
            log.push(["enter", os.getpid(), lock.token])
            time.sleep(chance.random() * 0.01)
            log.push(["leave", os.getpid(), lock.token])
"""


def until_grown(log: duly.Queue) -> None:
    before = log.counts().ready
    until(lambda: log.counts().ready > before + 20, "nobody gets on")


@pytest.mark.timeout(120 + LOCK_KILLS * 5)
def test_no_two_hold_it_while_holders_are_killed(
    client: duly.Client, program: StartProgram, capsys: pytest.CaptureFixture[str]
) -> None:
    """The jobs of a queue are in the order in which the server got them.

    `DULY_LOCK_KILLS` makes it longer, `DULY_KILL_SEED` takes other random numbers than the usual ones.
    """
    log = client.queue("log")
    seed = int(os.environ.get("DULY_KILL_SEED", "20"))
    say(capsys, f"DULY_KILL_SEED={seed} DULY_LOCK_KILLS={LOCK_KILLS}")
    chance = random.Random(seed)

    def contender() -> Program:
        return program(f"import os\nSEED = {chance.random()}\n{textwrap.dedent(CONTENDER)}")

    contenders = [contender() for _ in range(5)]
    for _ in range(LOCK_KILLS):
        until_grown(log)
        killed = contenders.pop(chance.randrange(len(contenders)))
        killed.process.kill()
        killed.process.wait()
        log.push(["dead", killed.process.pid, 0])
        contenders.append(contender())
    for one in contenders:
        one.process.kill()
        one.process.wait()
    holder: int | None = None
    last = 0
    entered = 0
    while job := log.reserve():
        what, pid, token = job.data
        job.ack()
        if what == "enter":
            assert holder is None, f"{pid} entered while {holder} held it (seed {seed})"
            assert token > last
            holder, last, entered = pid, token, entered + 1
        elif pid == holder:
            holder = None
    assert entered > 30
    say(capsys, f"{entered} holders one after the other, {LOCK_KILLS} kills")
