"""Cancels a task, also where `asyncio.wait_for` would drop that.

Until Python 3.11 `wait_for` returns the result if it is there when the task hears of its cancellation, and the task
goes on. So what it waits for is cancelled at once if that has nothing to clean up. A task that is about to go on is
cancelled when it has. Right before it hears of its cancellation it is seen whether the result has come meanwhile: then
the task is cancelled again. No task is cancelled again that has heard of it, as it may be cleaning up.
"""

from __future__ import annotations

import asyncio
import gc
import inspect
import sys
from types import AsyncGeneratorType, CoroutineType, GeneratorType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

_WAIT_FOR = None if sys.version_info >= (3, 12) else getattr(asyncio.wait_for, "__code__", None)
_MOST_TRIES = 1000
_DEEPEST = 100


def cancel(task: asyncio.Future[Any], tries: int = _MOST_TRIES) -> None:
    """Cancel it, and what it waits for. On the thread of its loop."""
    waiter = getattr(task, "_fut_waiter", None)
    if _WAIT_FOR is None or not isinstance(task, asyncio.Task) or waiter is None or not tries:
        for child in getattr(task, "_children", ()) if _WAIT_FOR is not None else ():  # of `asyncio.gather`
            cancel(child)
        task.cancel()
        return
    awaited = _awaited(task, waiter)
    if awaited is None:
        for child in getattr(waiter, "_children", ()):
            cancel(child)
        task.cancel()
    elif waiter.done() or awaited.done():
        task.get_loop().call_soon(cancel, task, tries - 1)
    else:
        if _has_nothing_to_clean_up(awaited):
            awaited.cancel()
        task.get_loop().call_soon(_look, task, awaited, tries - 1)  # right before the task's next step
        task.cancel()


def _look(task: asyncio.Task[Any], awaited: asyncio.Future[Any], tries: int) -> None:
    if not awaited.done():
        cancel(awaited)  # as `wait_for` does next
    elif not awaited.cancelled():
        task.get_loop().call_soon(cancel, task, tries)


def _has_nothing_to_clean_up(awaited: asyncio.Future[Any]) -> bool:
    if not isinstance(awaited, asyncio.Task):
        return not hasattr(awaited, "_children")
    coroutine = awaited.get_coro()
    return isinstance(coroutine, CoroutineType) and inspect.getcoroutinestate(coroutine) == inspect.CORO_CREATED


def _awaited(task: asyncio.Task[Any], waiter: object) -> asyncio.Future[Any] | None:
    """Give for what the task waits in a `wait_for`, if it does."""
    for frame in _frames(task):
        if frame.f_code is _WAIT_FOR and frame.f_locals.get("waiter") is waiter:
            awaited = frame.f_locals.get("fut")
            return awaited if isinstance(awaited, asyncio.Future) else None
    return None


def _frames(task: asyncio.Task[Any]) -> Iterator[FrameType]:
    of: Any = task.get_coro()
    for _ in range(_DEEPEST):
        if isinstance(of, CoroutineType):
            frame, of = of.cr_frame, of.cr_await
        elif isinstance(of, AsyncGeneratorType):
            frame, of = of.ag_frame, of.ag_await
        elif isinstance(of, GeneratorType):
            frame, of = of.gi_frame, of.gi_yieldfrom
        else:  # a step of an asynchronous generator, or the like
            kinds = (CoroutineType, AsyncGeneratorType, GeneratorType)
            of = next((one for one in gc.get_referents(of) if isinstance(one, kinds)), None)
            if of is None:
                return
            continue
        if frame is not None:
            yield frame
