"""duly runs work later, exactly when it is due, on Redis or Valkey."""

from duly._core import (
    Cancelled,
    Client,
    Counts,
    Found,
    Job,
    JobView,
    NewJob,
    PushSummary,
    Queue,
    Requeued,
    RetryPolicy,
    __version__,
)
