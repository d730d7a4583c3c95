"""The asyncio versions of `duly.Client`, `duly.Queue` and `duly.Job`: the same methods, awaited.

A call starts at once, on a thread of the engine, and returns a `Call`: an `asyncio.Future` that `create_task` and a
`TaskGroup` also take. `asyncio.wait` refuses it, as it refuses coroutines: give it tasks of `create_task`. Cancelling
it drops the call; what was already sent may still be executed. Jobs that a cancelled reserve had leased are given back
at once, without counting a failure; a lock whose call or release is cancelled is released.

`Consumer` gives jobs to programs that run them as tasks of their own loop.

Both APIs share the rest of `duly` (`NewJob`, `RetryPolicy`, return values, errors). `duly.Worker` has no asyncio
version: it runs `async def` handlers itself. Event loops other than asyncio's, such as trio's, get a RuntimeError: call
`duly.Client` in a thread there.
"""

from duly._calls import Call, LockCall
from duly._core import AsyncClient as Client
from duly._core import AsyncJob as Job
from duly._core import AsyncLock as Lock
from duly._core import AsyncMessage as Message
from duly._core import AsyncQueue as Queue
from duly._core import AsyncSchedules as Schedules
from duly._core import AsyncTopic as Topic
from duly.consumer import AsyncConsumer as Consumer

__all__ = ["Call", "Client", "Consumer", "Job", "Lock", "LockCall", "Message", "Queue", "Schedules", "Topic"]
