"""Code that runs around every handler of a worker."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from duly import _misuse
from duly._failures import describe
from duly.errors import InvalidArgumentError
from duly.outcomes import Fail, Retry

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import timedelta

    from duly._core import Job


class Failure:
    """A run that failed, before that is stored. An `on_failure` hook may change every attribute but `raised`."""

    raised: BaseException
    """What the handler raised."""
    error: str
    """The text that is kept with the job."""
    retry_after: float | timedelta | None
    """The wait until the next run; None leaves it to the policy."""
    counted: bool
    """Does this failure count?"""
    final: bool
    """Is there no further run, whatever retries are left?"""
    data: Any
    """The job's data from now on; `...` leaves them as they are."""
    attempts: int | None
    """Failures before this one; None leaves them as they are."""
    max_retries: int | None
    """Retries allowed; None leaves them as they are."""

    __slots__ = ("attempts", "counted", "data", "error", "final", "max_retries", "raised", "retry_after")

    def __init__(self, raised: BaseException) -> None:
        """Take what the handler raised."""
        self.raised = raised
        self.retry_after = raised.after if isinstance(raised, Retry) else None
        self.counted = raised.counted if isinstance(raised, Retry) else True
        self.final = isinstance(raised, Fail)
        self.data = ...
        self.attempts = self.max_retries = None
        self.error = describe(raised)

    def change(self, changes: Mapping[str, Any]) -> None:
        """Set several attributes at once."""
        for name in changes:
            if name not in self.__slots__ or name == "raised":
                raise TypeError(f"a failure has no {name!r} to change")
        for name, value in changes.items():
            setattr(self, name, value)

    def _arguments(self) -> dict[str, Any]:
        """Those of `job.fail`."""
        given: dict[str, Any] = {"retry_after": self.retry_after, "counted": self.counted, "final": self.final}
        if self.final:
            given = {"final": True}
        if self.data is not ...:
            given["data"] = self.data
        return {**given, "error": self.error, "attempts": self.attempts, "max_retries": self.max_retries}


class Middleware:
    """Hooks around the runs of a worker: override what you need. All do nothing by default.

    The order is the same in every language. `before` hooks run in the order in which they were given; the handler;
    then, in the opposite order, `after` hooks if it worked. If it did not: `on_failure` hooks, then the decision (retry
    or `failed`), then `on_failed` hooks if it was `failed`. A `before` that raises ends the run as if the handler had
    raised; the handler and the `before` hooks behind it do not run. What the other hooks raise is logged and changes
    nothing. A job that its handler gives back (`duly.Release`) calls none of them, and neither does a run that was
    interrupted: its job is settled by then. But `on_failed` is called for every job that enters `failed`, also for one
    whose worker died, whose time was over, or that was failed with its own verb: by any worker of the queue, within
    about ten seconds, in a thread of its own, at least once, and as a rule once. Give all workers of a queue the same.

    Hooks are plain functions. Around a coroutine they run on the event loop, so they must not wait for long.
    """

    def before(self, job: Job) -> None:
        """Do something before the handler runs."""

    def after(self, job: Job) -> None:
        """Do something after the handler worked; the job is about to be acked."""

    def on_failure(self, job: Job, failure: Failure) -> None:
        """Change what becomes of a job whose run failed, and the job itself, before that is stored."""

    def on_failed(self, job: Job, error: str) -> None:
        """Hear of a job that goes to `failed`: it has no retries left, or was told to fail now."""


def check(middleware: Iterable[Middleware]) -> list[Middleware]:
    """Give them as a list.

    Raises:
        InvalidArgumentError: for what is no middleware, and for hooks that are coroutine functions.

    """
    checked = list(middleware)
    for one in checked:
        if not isinstance(one, Middleware):
            raise InvalidArgumentError("middleware must be objects of classes that extend duly.Middleware")
        for name in HOOKS:
            if _misuse.is_coroutine_function(getattr(one, name)):
                hook = f"{type(one).__qualname__}.{name}"
                raise InvalidArgumentError(
                    f"{hook} must be a plain function: nothing awaits a hook that is `async def`"
                )
    return checked


HOOKS = ("before", "after", "on_failure", "on_failed")
