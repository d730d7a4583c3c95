"""What a call of `duly.aio` gives, and the event loop that it needs."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

from duly._core import _give_back, _give_up

if TYPE_CHECKING:
    from collections.abc import Generator

    from duly._core import AsyncJob, AsyncLock

R = TypeVar("R")


class Call(asyncio.Future[R], Coroutine[Any, Any, R]):
    """A call of `duly.aio` in progress: an `asyncio.Future` that `asyncio.create_task` and a `TaskGroup` also take.

    The call starts at once, so it happens even if it is not awaited. Cancelling it, or its task, drops it; what was
    already sent may still be executed.

    `asyncio.wait` refuses it, as it refuses coroutines, also after `ensure_future`, which gives it back: use
    `create_task`. The verbs that give it are no coroutine functions: where a function is run in a thread unless it is
    `async def` (FastAPI's `add_task`), give one that awaits the verb.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        """Take the loop on which it is completed."""
        super().__init__(loop=loop)
        self._steps: Generator[Any, None, R] | None = None

    def send(self, value: Any) -> Any:
        """Go on, as a task does with its coroutine."""
        if self._steps is None:
            self._steps = self.__await__()
        return self._steps.send(value)

    def throw(self, *raised: Any) -> Any:
        """Raise in it what its task is to hear; a task that never began cancels the call."""
        if self._steps is None:
            self.cancel()
            self._steps = self.__await__()
        return self._steps.throw(*raised)

    def close(self) -> None:
        """Drop it, unless it is done."""
        self.cancel()


class ReserveCall(Call["AsyncJob | list[AsyncJob] | None"]):
    """What reserves give. Jobs that are there when who awaits them is cancelled go back: nobody has them."""

    def __await__(self) -> Generator[Any, None, AsyncJob | list[AsyncJob] | None]:
        """Wait for the jobs."""
        try:
            return (yield from super().__await__())
        except BaseException:
            if self.done() and not self.cancelled() and self.exception() is None:
                found = self.result()
                _give_back(found if isinstance(found, list) else [] if found is None else [found])
            raise


class LockCall(Call["AsyncLock"]):
    """The answer of `duly.aio.Client.lock`: await it, or use it in `async with`, which releases the lock at its end.

    A lock that is there when who awaits it is cancelled is released: nobody has it.
    """

    def __await__(self) -> Generator[Any, None, AsyncLock]:
        """Wait for the lock."""
        try:
            return (yield from super().__await__())
        except BaseException:
            if self.done() and not self.cancelled() and self.exception() is None:
                _give_up(self.result())
            raise

    async def __aenter__(self) -> AsyncLock:
        """Wait for the lock.

        Raises:
            LeaseLostError: it was released or lost before.

        """
        return await (await self).__aenter__()

    async def __aexit__(self, *raised: Any) -> None:
        """Release it.

        Raises:
            LeaseLostError: it was lost before, and the block raised nothing itself.

        """
        await self.result().__aexit__(*raised)


def running_loop(of: str = "duly.aio", instead: str = "duly.Client") -> asyncio.AbstractEventLoop:
    """Give the loop of the caller, for what needs one; elsewhere another one can be used instead.

    Raises:
        RuntimeError: there is none; the text says what to do.

    """
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        pass
    if _is_under_trio():
        what = f"{of} needs asyncio, and this is trio: call {instead} in a thread (trio.to_thread.run_sync)"
        raise RuntimeError(what)
    raise RuntimeError(
        f"{of} needs a running asyncio event loop: call it in an `async def` function, also as a background task; "
        f"elsewhere use {instead}"
    )


def _is_under_trio() -> bool:
    trio = sys.modules.get("trio")
    return trio is not None and bool(trio.lowlevel.in_trio_run())
