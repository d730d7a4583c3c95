"""`push_many` of both queues, in Python because the iterable is: nothing compiled stands below a user's generator."""

from __future__ import annotations

import sys
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING

from duly._core import _MAX_BATCH, AsyncQueue, Queue, _LongPush, _push_all
from duly.errors import DulyError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from duly._calls import Call
    from duly._core import NewJob, PushSummary


def push_many(self: Queue, jobs: Iterable[NewJob], *, ids: bool = False, durability: str | None = None) -> PushSummary:  # noqa: D417 - self is the queue
    """Push any number of jobs, a thousand with each call to the server. Holds one such batch in memory.

    A duplicate is counted and raises no error. If a call fails, the batches before it are stored. So they are if
    the iterable raises: its exception comes out, and since Python 3.11 a note of it says how many jobs are pushed.

    Args:
        jobs: any iterable of `NewJob`, also a generator.
        ids: return the ids too, in the order of the jobs. Default: False.
        durability: for jobs that do not set their own. Default: the client's.

    """
    push = _LongPush(self, ids=ids, durability=durability)
    jobs = _iterator(jobs)
    while batch := _next_batch(jobs, push):
        try:
            push.push(batch)
        except DulyError:
            raise  # its message has it
        except BaseException as error:
            _note(error, push)
            raise
    return push.summary()


def _next_batch(jobs: Iterator[NewJob], push: _LongPush) -> list[NewJob]:
    try:
        return list(islice(jobs, _MAX_BATCH))
    except BaseException as error:
        _note(error, push)
        raise


def _note(error: BaseException, push: _LongPush) -> None:
    """Say how many jobs are pushed, of an exception that comes out as it is: the generator's, or Ctrl-C."""
    if sys.version_info >= (3, 11) and (said := push.said_before()):
        with suppress(Exception):  # a class may have notes of its own
            error.add_note(said)


def push_many_async(  # noqa: D417 - as above
    self: AsyncQueue, jobs: Iterable[NewJob], *, ids: bool = False, durability: str | None = None
) -> Call[PushSummary]:
    """Push any number of jobs, a thousand with each call to the server. Reads the whole iterable first.

    A duplicate is counted and raises no error. If a call fails, the batches before it are stored. If the iterable
    raises, nothing is pushed.

    Args:
        jobs: any iterable of `NewJob`, also a generator.
        ids: return the ids too, in the order of the jobs. Default: False.
        durability: for jobs that do not set their own. Default: the client's.

    """
    return _push_all(self, list(_iterator(jobs)), ids=ids, durability=durability)


def _iterator(jobs: Iterable[NewJob]) -> Iterator[NewJob]:
    try:
        return iter(jobs)
    except TypeError:
        raise TypeError(f"jobs must be an iterable of duly.NewJob, not {type(jobs).__name__}") from None


for _function in (push_many, push_many_async):
    _function.__name__ = "push_many"
    _function.__qualname__ = "Queue.push_many"
Queue.push_many = push_many  # type: ignore[method-assign]
AsyncQueue.push_many = push_many_async  # type: ignore[method-assign]
