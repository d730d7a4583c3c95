"""The asyncio twins of `duly.Client`, `duly.Queue`, `duly.Partitions` and `duly.Job`: the same words, awaited.

A call starts when it is made, on a thread of the engine, and gives an `asyncio.Future`. Cancelling it drops the call:
what was sent already may still happen. What a cancelled reserve had leased is given back at once, not as a failure.

The rest of `duly` (`NewJob`, `RetryPolicy`, what verbs give, the errors) is for both. Only `duly.Worker` has no twin.
"""

from duly._core import AsyncClient as Client
from duly._core import AsyncJob as Job
from duly._core import AsyncPartitions as Partitions
from duly._core import AsyncQueue as Queue

__all__ = ["Client", "Job", "Partitions", "Queue"]
