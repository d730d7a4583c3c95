"""Exceptions by which a handler decides what happens to its job."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duly._core import NewJob
from duly.errors import InvalidArgumentError

if TYPE_CHECKING:
    from datetime import timedelta


class Retry(Exception):  # noqa: N818 - the word that Dramatiq, Huey and arq use for it
    """Raise it in a handler to fail the run and retry the job after this long, instead of when its policy says.

    Without `after` the policy decides. It counts as a failure unless `counted=False`. The text, or the exception that
    it was raised `from`, is kept with the job.
    """

    # Of the class, for subclasses whose `__init__` does not call this one.
    after: float | timedelta | None = None
    counted: bool = True

    def __init__(self, error: str = "", *, after: float | timedelta | None = None, counted: bool = True) -> None:
        """Take the error's text, the wait (seconds or a timedelta, 0 to 100 years), and whether this failure counts.

        Raises:
            InvalidArgumentError: `after` is no such wait, or `counted` no bool.

        """
        super().__init__(error)
        _check_wait(after)
        if not isinstance(counted, bool):
            raise InvalidArgumentError(f"counted must be a bool, not {type(counted).__name__}")
        self.after = after
        self.counted = counted


class Release(Exception):  # noqa: N818 - no error: the job was not really run
    """Raise it in a handler to give the job back without counting a failure: something it needs is busy or missing."""

    after: float | timedelta | None = None
    reason: str = ""

    def __init__(self, after: float | timedelta | None = None, *, reason: str = "") -> None:
        """Take the wait in seconds or as a timedelta, 0 to 100 years; without one the job may run again at once.

        A `reason` is logged, and kept with the job as its last error.

        Raises:
            InvalidArgumentError: `after` is no such wait, or `reason` no text.

        """
        super().__init__()
        _check_wait(after)
        if not isinstance(reason, str):
            raise InvalidArgumentError(f"reason must be a str, not {type(reason).__name__}")
        self.after = after
        self.reason = reason

    def __str__(self) -> str:
        """Give the reason."""
        return self.reason


class Fail(Exception):  # noqa: N818 - the verb of the queue
    """Raise it in a handler to move the job to `failed` now, whatever retries are left."""

    def __init__(self, error: str = "") -> None:
        """Take the text of the error."""
        super().__init__(error)


class JobInterrupted(BaseException):
    """Raised in a handler that must end: its job's timeout is over, its lease is lost, or the worker's grace is over.

    The outcome of the run no longer counts, so let the exception pass. It is not an `Exception`, so `except Exception`
    does not catch it. Python raises it between two steps of Python code: a call into C (a query, a `time.sleep`)
    returns first. A handler that is a coroutine is cancelled instead (`asyncio.CancelledError`).

    Each run raises a subclass of its own: ask with `except` or `isinstance`, not for the type itself.
    """

    def __reduce__(self) -> tuple[type[JobInterrupted], tuple[object, ...]]:
        """Give what another process can make: each run's is of a class of its own here."""
        return JobInterrupted, self.args


def _check_wait(after: float | timedelta | None) -> None:
    """Refuse it where it is written: it has the bounds of a delay."""
    try:
        NewJob(delay=after).check()
    except InvalidArgumentError as error:
        raise InvalidArgumentError(f"after{str(error).removeprefix('delay')}") from None
