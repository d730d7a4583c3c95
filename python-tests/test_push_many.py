"""Long pushes: the iterable is read where it belongs, in the caller's own Python."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import duly
import duly.aio
import pytest
from support import Server, StartProgram


def notes_of(error: BaseException) -> list[str]:
    return getattr(error, "__notes__", [])


@pytest.mark.parametrize("parts", [0, 3])
def test_a_generator_may_call_duly_itself(parts: int, client: duly.Client) -> None:
    queue = client.partitions("parted", parts) if parts else client.queue("q")
    other = client.queue("other")

    def jobs() -> Iterator[duly.NewJob]:
        for number in range(2500):
            if number % 1000 == 0:
                other.push(number)
                assert queue.counts().ready == number
            yield duly.NewJob(number)

    assert queue.push_many(jobs()).created == 2500
    assert other.counts().ready == 3


def test_a_generator_that_waits_holds_up_nobody(queue: duly.Queue) -> None:
    begun, may_go_on = threading.Event(), threading.Event()

    def jobs() -> Iterator[duly.NewJob]:
        begun.set()
        assert may_go_on.wait(20)
        yield duly.NewJob(1)

    thread = threading.Thread(target=lambda: queue.push_many(jobs()))
    thread.start()
    assert begun.wait(20)
    queue.push(2)  # waited for the generator before
    assert queue.counts().ready == 1
    may_go_on.set()
    thread.join(20)
    assert queue.counts().ready == 2


def test_what_a_generator_raises_comes_out_and_the_batches_before_are_in(queue: duly.Queue) -> None:
    def jobs() -> Iterator[duly.NewJob]:
        for number in range(1500):
            yield duly.NewJob(number)
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine") as raised:
        queue.push_many(jobs())
    assert queue.counts().ready == 1000
    assert notes_of(raised.value) == ["push_many on queue 'q': 1000 jobs of the batches before are pushed"]


@pytest.mark.parametrize("own", [{"__notes__": "mine"}, {"add_note": None}])
def test_an_exception_that_takes_no_notes_comes_out_as_well(own: dict[str, Any], queue: duly.Queue) -> None:
    error = type("OwnError", (Exception,), own)

    def jobs() -> Iterator[duly.NewJob]:
        for number in range(1500):
            yield duly.NewJob(number)
        raise error

    with pytest.raises(error):
        queue.push_many(jobs())


def test_an_error_of_duly_in_a_generator_says_how_many_jobs_are_pushed(queue: duly.Queue) -> None:
    queue.push(0, key="taken")

    def jobs(count: int) -> Iterator[duly.NewJob]:
        for number in range(count):
            yield duly.NewJob(number)
        queue.push(0, key="taken")

    with pytest.raises(duly.DuplicateError) as raised:
        queue.push_many(jobs(2000))
    assert notes_of(raised.value) == ["push_many on queue 'q': 2000 jobs of the batches before are pushed"]
    with pytest.raises(duly.DuplicateError) as raised:
        queue.push_many(jobs(999))
    assert notes_of(raised.value) == []
    assert queue.counts().ready == 2001


async def test_asyncio_pushes_nothing_if_a_generator_raises(server: Server, prefix: str) -> None:
    queue = duly.aio.Client(server.url, prefix=prefix).queue("q")

    def jobs() -> Iterator[duly.NewJob]:
        for number in range(1500):
            yield duly.NewJob(number)
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine") as raised:
        await queue.push_many(jobs())
    assert notes_of(raised.value) == []
    assert (await queue.counts()).ready == 0


def test_a_summary_has_the_ids_in_order(queue: duly.Queue) -> None:
    summary = queue.push_many((duly.NewJob(number, id=f"j{number}") for number in range(2100)), ids=True)
    assert summary.ids == [f"j{number}" for number in range(2100)]
    assert queue.push_many([duly.NewJob(1, id="j1")]).duplicates == 1
    assert queue.push_many([], ids=True).ids == []
    assert queue.push_many([]).ids is None


async def test_asyncio_reads_the_iterable_before_it_sends(server: Server, prefix: str) -> None:
    queue = duly.aio.Client(server.url, prefix=prefix).queue("q")
    summary = await queue.push_many((duly.NewJob(number, id=f"j{number}") for number in range(2100)), ids=True)
    assert summary.ids == [f"j{number}" for number in range(2100)]


def test_a_job_that_is_refused_is_named_by_its_index(queue: duly.Queue) -> None:
    large = duly.NewJob("x" * 2_000_000)
    for refused, why in [(1, duly.InvalidArgumentError), (large, duly.TooLargeError)]:
        jobs: list[Any] = [duly.NewJob(number) for number in range(2500)]
        jobs[2003] = refused
        with pytest.raises(why, match=r"\(at index 2003; 2000 jobs of the batches before are pushed\)"):
            queue.push_many(jobs)
        assert queue.purge("ready") == 2000


async def test_asyncio_names_a_job_that_is_refused_by_its_index(server: Server, prefix: str) -> None:
    queue = duly.aio.Client(server.url, prefix=prefix).queue("q")
    jobs: list[Any] = [duly.NewJob(number) for number in range(2500)]
    jobs[2003] = duly.NewJob("x" * 2_000_000)
    with pytest.raises(duly.TooLargeError, match=r"\(at index 2003; 2000 jobs of the batches before are pushed\)"):
        await queue.push_many(jobs)
    with pytest.raises(duly.InvalidArgumentError, match=r"\(at index 1; 0 jobs of the batches before are pushed\)"):
        await queue.push_many([jobs[0], 5])  # type: ignore[list-item]


@pytest.mark.parametrize("jobs", [5, [1], "ab"])
def test_what_is_no_job_is_refused(jobs: Any, queue: duly.Queue) -> None:
    with pytest.raises((TypeError, duly.InvalidArgumentError), match=r"duly\.NewJob"):
        queue.push_many(jobs)


def test_a_daemon_thread_in_a_generator_does_not_abort_the_exit(program: StartProgram) -> None:
    ending = program("""
        import threading, time
        queue = duly.Client(URL, prefix=PREFIX).queue("q")
        begun = threading.Event()
        def jobs():
            begun.set()
            while True:
                time.sleep(0.001)
                yield duly.NewJob(1)
        for _ in range(4):
            threading.Thread(target=lambda: queue.push_many(jobs()), daemon=True).start()
        begun.wait()
        time.sleep(0.05)
        print("ends")
    """)
    assert ending.ends_well() == "ends\n"
