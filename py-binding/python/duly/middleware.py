"""Code that runs around every handler of a worker."""

from __future__ import annotations

import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any

from duly.outcomes import Fail, Retry

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import timedelta

    from duly._core import Job

_HERE = str(Path(__file__).parent)


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
        self.error = _describe(raised)

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
    interrupted: its job is settled by then.

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


def _describe(error: BaseException) -> str:
    """Give `ValueError: what it says`, and below where it was raised."""
    if isinstance(error, (Retry, Fail)):
        if said := str(error):
            return said
        if error.__cause__ is not None:
            return _describe(error.__cause__)
        return "the handler asked for a retry" if isinstance(error, Retry) else "the handler gave it up"
    said = "".join(traceback.format_exception_only(type(error), error)).strip()
    return "\n".join([said, *(f"  at {place}" for place in _places(error))])


def class_and_place(error: BaseException) -> str:
    """Give `ValueError at shop.py:12 in close`, for a log: what an exception says may hold a job's data."""
    return " at ".join([type(error).__qualname__, *_places(error)[:1]])


def _places(error: BaseException) -> list[str]:
    """Where it was raised, and what called that, without the lines of the worker that called the handler."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith(_HERE)]
    return [f"{frame.filename}:{frame.lineno} in {frame.name}" for frame in reversed(frames)]
