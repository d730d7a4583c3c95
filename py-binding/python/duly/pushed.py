"""The answer of a push of a task: the job's id, which knows its queue."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast, overload

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterable
    from datetime import timedelta
    from typing import SupportsIndex

    from duly._core import AsyncQueue, Cancelled, Found, Queue, _State

R_co = TypeVar("R_co", covariant=True)


class _Id(str):
    """A `str` for everybody else: pickled, copied and printed as one."""

    __slots__ = ("_queue",)
    _queue: Any

    def __reduce__(self) -> tuple[Any, ...]:
        return str, (str(self),)


class Pushed(_Id, Generic[R_co]):
    """The id of a job that a task has pushed, with the methods `wait`, `find` and `cancel`."""

    __slots__ = ()

    def __new__(cls, job_id: str, queue: Queue) -> Pushed[R_co]:
        """Take the id and the queue."""
        pushed = super().__new__(cls, job_id)
        pushed._queue = queue
        return pushed

    @property
    def queue(self) -> Queue:
        """The queue that it was pushed to."""
        return cast("Queue", self._queue)

    def wait(self, timeout: float | timedelta | None = None) -> R_co:
        """Wait until the job is done and return the task's result; see `Queue.wait_result`. Needs `result_ttl`."""
        return cast("R_co", self.queue.wait_result(str(self), timeout=timeout))

    @overload
    def find(self) -> Found | None: ...

    @overload
    def find(self, sub: str, start: SupportsIndex | None = ..., end: SupportsIndex | None = ..., /) -> int: ...

    def find(self, *text: Any) -> Any:
        """Return where the job is and why it is not running; None once it is done or cancelled.

        With arguments it is `str.find`, for code that uses the id as a `str`.
        """
        return str.find(self, *text) if text else self.queue.find(str(self))

    def cancel(self, *, only: _State | Iterable[_State] | None = None) -> Cancelled | None:
        """Remove the job in whatever state it is, or `only` in some; return None if it is gone: see `Queue.cancel`."""
        return self.queue.cancel(str(self), only=only)


class AsyncPushed(_Id, Generic[R_co]):
    """The same for a job that was pushed from asyncio code; the methods are awaited."""

    __slots__ = ()

    def __new__(cls, job_id: str, queue: AsyncQueue) -> AsyncPushed[R_co]:
        """Take the id and the queue."""
        pushed = super().__new__(cls, job_id)
        pushed._queue = queue
        return pushed

    @property
    def queue(self) -> AsyncQueue:
        """The queue that it was pushed to."""
        return cast("AsyncQueue", self._queue)

    async def wait(self, timeout: float | timedelta | None = None) -> R_co:
        """Wait until the job is done and return the task's result; see `Queue.wait_result`. Needs `result_ttl`."""
        return cast("R_co", await self.queue.wait_result(str(self), timeout=timeout))

    @overload
    def find(self) -> Awaitable[Found | None]: ...

    @overload
    def find(self, sub: str, start: SupportsIndex | None = ..., end: SupportsIndex | None = ..., /) -> int: ...

    def find(self, *text: Any) -> Any:
        """Return where the job is and why it is not running; None once it is done or cancelled.

        With arguments it is `str.find`, for code that uses the id as a `str`.
        """
        return str.find(self, *text) if text else self.queue.find(str(self))

    async def cancel(self, *, only: _State | Iterable[_State] | None = None) -> Cancelled | None:
        """Remove the job in whatever state it is, or `only` in some; return None if it is gone: see `Queue.cancel`."""
        return await self.queue.cancel(str(self), only=only)
