"""The exceptions of duly: one class for each kind of error, all of them under `DulyError`."""

from __future__ import annotations

from typing import Any, Literal


class DulyError(Exception):
    """Any error of duly. The error of the server or the system is in `__cause__`, if there is one."""

    kind: str = "internal"
    """The kind of error, as one word, the same in every language."""
    transient: bool = False
    """Whether the same call may succeed later."""
    operation: str | None = None
    """The operation that failed, such as `push`."""
    queue: str | None = None
    """The name of the queue that the call was about."""
    job_id: str | None = None
    """The job that the call was about; for a `DuplicateError`, the job that already has the id or key."""
    job_state: Literal["delayed", "ready", "reserved", "failed"] | None = None
    """The state of that job, for a `NotFoundError` where the state does not allow the call."""

    def __init__(self, message: str, **about: Any) -> None:
        """Take the message and the details: kind, transient, operation, queue, job_id, job_state."""
        super().__init__(message)
        self.__dict__.update(about)

    def __reduce__(self) -> tuple[Any, ...]:
        """Keep everything when it is pickled, such as on the way out of a process pool."""
        return type(self), (str(self),), self.__dict__


class InvalidArgumentError(DulyError, ValueError):
    """An argument is wrong; the message says what is allowed. Nothing was sent."""

    kind = "invalid_argument"


class WrongServerError(InvalidArgumentError):
    """The server is of another kind than the URL says: with or without TLS, a sentinel, part of a cluster or none."""

    kind = "wrong_server"


class TooLargeError(DulyError, ValueError):
    """The data, the error text or the key is longer than its limit. Nothing was sent."""

    kind = "too_large"


class DuplicateError(DulyError):
    """Another job has this id or key; its id is in `job_id`."""

    kind = "duplicate"


class LeaseLostError(DulyError):
    """The lease of this job is lost: another worker may run it now.

    It ended and the job was taken back, or the job was settled or cancelled. Or a lock is no longer held.
    """

    kind = "lease_lost"


class LockedError(DulyError):
    """Another one holds the lock. Wait for it, or try again later."""

    kind = "locked"


class NotFoundError(DulyError, LookupError):
    """There is no job with this id or key, or its state does not allow the operation."""

    kind = "not_found"


class CutOffError(DulyError, LookupError):
    """A subscription was silent for so long that messages which it had not read are gone. Subscribe again."""

    kind = "cut_off"


class JobFailedError(DulyError):
    """The job whose result was waited for has failed for good. The message ends with its last error."""

    kind = "job_failed"


class NoResultError(DulyError, LookupError):
    """There will be no result: cancelled, purged, pushed without `result_ttl`, or the result has expired."""

    kind = "no_result"


class UnreachableError(DulyError, ConnectionError):
    """The server could not be reached, and nothing of this call was executed."""

    kind = "unreachable"
    transient = True


class DulyTimeoutError(DulyError, TimeoutError):
    """No answer came in time. The call may have been executed; a push with an id or a key can be repeated safely."""

    kind = "timeout"
    transient = True


class AuthenticationFailedError(DulyError, PermissionError):
    """The server refused the user or the password."""

    kind = "authentication_failed"


class PermissionDeniedError(DulyError, PermissionError):
    """The server's user (ACL) may not run a command or touch a key that duly needs. The message names it."""

    kind = "permission_denied"


class ReadOnlyError(DulyError):
    """The server is a read-only replica."""

    kind = "read_only"
    transient = True


class BusyError(DulyError):
    """The server is loading its data, or is busy with a script."""

    kind = "busy"
    transient = True


class StorageFullError(DulyError):
    """The server has no memory or disk space left. Nothing was stored."""

    kind = "storage_full"
    transient = True


class QueueFullError(DulyError):
    """The queue has as many jobs as its limits let it take (`max_length`). Nothing was stored."""

    kind = "queue_full"
    transient = True


class EvictionPolicyError(DulyError):
    """The server may evict keys, and with them jobs. `allow_eviction=True` accepts that."""

    kind = "eviction_policy"


class UnsupportedError(DulyError):
    """The server is too old, or lacks a feature that the call needs."""

    kind = "unsupported"


class NotDurableError(DulyError):
    """The job was stored, but not confirmed by as many replicas, or by the disk, as `durability` asks."""

    kind = "not_durable"


class CorruptError(DulyError):
    """A key of this queue holds something that duly did not write. The message names the key."""

    kind = "corrupt"


class FormatTooNewError(DulyError):
    """The queue was written by a newer version of duly."""

    kind = "format_too_new"


class ProtocolError(DulyError):
    """The server, or a network device between, sent an answer that is not a valid reply."""

    kind = "protocol"
    transient = True


class EmbeddedError(DulyError):
    """The embedded server could not be found or started."""

    kind = "embedded"


class DulyInterruptedError(DulyError, InterruptedError):
    """The call was interrupted by the caller."""

    kind = "interrupted"


class InternalError(DulyError, RuntimeError):
    """A bug in duly. Please report it."""


BY_KIND: dict[str, type[DulyError]] = {
    error.kind: error
    for error in (
        InvalidArgumentError,
        WrongServerError,
        TooLargeError,
        DuplicateError,
        LeaseLostError,
        LockedError,
        NotFoundError,
        CutOffError,
        JobFailedError,
        NoResultError,
        UnreachableError,
        DulyTimeoutError,
        AuthenticationFailedError,
        PermissionDeniedError,
        ReadOnlyError,
        BusyError,
        StorageFullError,
        QueueFullError,
        EvictionPolicyError,
        UnsupportedError,
        NotDurableError,
        CorruptError,
        FormatTooNewError,
        ProtocolError,
        EmbeddedError,
        DulyInterruptedError,
        InternalError,
    )
}
