"""The asyncio twins of `duly.Client`, `duly.Queue`, `duly.Partitions` and `duly.Job`: the same words, awaited.

A call starts when it is made, on a thread of the engine, and gives a `Call`: an `asyncio.Future` that `create_task` and
a `TaskGroup` take as well. Cancelling it drops the call: what was sent already may still happen. What a cancelled
reserve had leased is given back at once, not as a failure.

The rest of `duly` (`NewJob`, `RetryPolicy`, what verbs give, the errors) is for both. Only `duly.Worker` has no twin.
Another event loop than asyncio's, such as trio's, gets a RuntimeError: call `duly.Client` in a thread there.
"""

from duly._calls import Call
from duly._core import AsyncClient as Client
from duly._core import AsyncJob as Job
from duly._core import AsyncPartitions as Partitions
from duly._core import AsyncQueue as Queue

__all__ = ["Call", "Client", "Job", "Partitions", "Queue"]
