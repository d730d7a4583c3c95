"""What a handler raises to say what becomes of its job."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import timedelta


class Retry(Exception):  # noqa: N818 - the word that Dramatiq, Huey and arq use for it
    """The run failed; run the job again after this long and not when its policy says.

    Without `after` the policy says when. It counts as a failure unless `counted=False`. A text, or the exception that
    it was raised `from`, is kept with the job.
    """

    def __init__(self, error: str = "", *, after: float | timedelta | None = None, counted: bool = True) -> None:
        """Take the text of the error, the wait in seconds, and whether this failure counts."""
        super().__init__(error)
        self.after = after
        self.counted = counted


class Release(Exception):  # noqa: N818 - no error: the job was not really run
    """Give the job back without counting a failure: what it needs is not there yet, or taken."""

    def __init__(self, after: float | timedelta | None = None) -> None:
        """Take the wait in seconds; none is at once."""
        super().__init__()
        self.after = after


class Fail(Exception):  # noqa: N818 - the verb of the queue
    """Further runs are pointless: to `failed` now, whatever retries are left."""

    def __init__(self, error: str = "") -> None:
        """Take the text of the error."""
        super().__init__(error)


class JobInterrupted(BaseException):
    """Raised inside a handler whose run is over: its job's timeout, a lost lease, or the end of the worker's grace.

    What the handler still does is of no use to the queue: let it through. It does not derive from `Exception`, so that
    `except Exception` does not catch it. It arrives between two steps of Python code: a call into C (a query, a
    `time.sleep`) returns first. A handler that is a coroutine is cancelled instead (`asyncio.CancelledError`).
    """
