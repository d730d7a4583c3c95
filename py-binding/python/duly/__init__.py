"""duly runs work later, exactly when it is due, on Redis or Valkey.

Importing it starts nothing; the first call of a client connects.
"""

from typing import TYPE_CHECKING, Any

from duly import _push_many as _push_many  # gives the queues their `push_many`
from duly._command import command
from duly._core import (
    AuditReport,
    Cancelled,
    Client,
    Counts,
    CutOff,
    Finding,
    Fire,
    Found,
    Job,
    JobView,
    Limits,
    ListedTopic,
    Lock,
    Message,
    NameRates,
    NewJob,
    Progress,
    Published,
    PushSummary,
    Queue,
    QueueInfo,
    QueuePage,
    Rates,
    RateWindow,
    Requeued,
    ReservedJob,
    RetryPolicy,
    RunCounts,
    RunningJob,
    Schedule,
    Schedules,
    ScheduleView,
    SearchPage,
    Spread,
    Subscription,
    SubscriptionMember,
    SyncReport,
    Topic,
    TopicInfo,
    TopicPage,
    Trace,
    TraceEvent,
    TraceRun,
    WorkerInfo,
    WorkerReport,
    __version__,
)
from duly.errors import (
    AuthenticationFailedError,
    BusyError,
    CorruptError,
    CutOffError,
    DulyError,
    DulyInterruptedError,
    DulyTimeoutError,
    DuplicateError,
    EmbeddedError,
    EvictionPolicyError,
    FormatTooNewError,
    InternalError,
    InvalidArgumentError,
    JobFailedError,
    LeaseLostError,
    LockedError,
    NoResultError,
    NotDurableError,
    NotFoundError,
    PermissionDeniedError,
    ProtocolError,
    QueueFullError,
    ReadOnlyError,
    StorageFullError,
    TooLargeError,
    UnreachableError,
    UnsupportedError,
    WrongServerError,
)
from duly.outcomes import Fail, JobInterrupted, Release, Retry

if TYPE_CHECKING:
    from duly.app import App, Task, current_job
    from duly.consumer import Consumer
    from duly.middleware import Failure, Middleware
    from duly.pushed import AsyncPushed, Pushed
    from duly.supervisor import Supervisor
    from duly.worker import Worker

__all__ = [
    "App",
    "AsyncPushed",
    "AuditReport",
    "AuthenticationFailedError",
    "BusyError",
    "Cancelled",
    "Client",
    "Consumer",
    "CorruptError",
    "Counts",
    "CutOff",
    "CutOffError",
    "DulyError",
    "DulyInterruptedError",
    "DulyTimeoutError",
    "DuplicateError",
    "EmbeddedError",
    "EvictionPolicyError",
    "Fail",
    "Failure",
    "Finding",
    "Fire",
    "FormatTooNewError",
    "Found",
    "InternalError",
    "InvalidArgumentError",
    "Job",
    "JobFailedError",
    "JobInterrupted",
    "JobView",
    "LeaseLostError",
    "Limits",
    "ListedTopic",
    "Lock",
    "LockedError",
    "Message",
    "Middleware",
    "NameRates",
    "NewJob",
    "NoResultError",
    "NotDurableError",
    "NotFoundError",
    "PermissionDeniedError",
    "Progress",
    "ProtocolError",
    "Published",
    "PushSummary",
    "Pushed",
    "Queue",
    "QueueFullError",
    "QueueInfo",
    "QueuePage",
    "RateWindow",
    "Rates",
    "ReadOnlyError",
    "Release",
    "Requeued",
    "ReservedJob",
    "Retry",
    "RetryPolicy",
    "RunCounts",
    "RunningJob",
    "Schedule",
    "ScheduleView",
    "Schedules",
    "SearchPage",
    "Spread",
    "StorageFullError",
    "Subscription",
    "SubscriptionMember",
    "Supervisor",
    "SyncReport",
    "Task",
    "TooLargeError",
    "Topic",
    "TopicInfo",
    "TopicPage",
    "Trace",
    "TraceEvent",
    "TraceRun",
    "UnreachableError",
    "UnsupportedError",
    "Worker",
    "WorkerInfo",
    "WorkerReport",
    "WrongServerError",
    "__version__",
    "command",
    "current_job",
]

# Producers need none of these, and pay no time for their imports.
_LATER = {
    "App": "duly.app",
    "AsyncPushed": "duly.pushed",
    "Consumer": "duly.consumer",
    "Failure": "duly.middleware",
    "Middleware": "duly.middleware",
    "Pushed": "duly.pushed",
    "Supervisor": "duly.supervisor",
    "Task": "duly.app",
    "Worker": "duly.worker",
    "current_job": "duly.app",
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module 'duly' has no attribute {name!r}")
    from importlib import import_module

    found = getattr(import_module(_LATER[name]), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATER})
