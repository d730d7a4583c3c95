"""The asyncio twins of `duly.Client`, `duly.Queue` and `duly.Job`: the same words, awaited.

A call starts when it is made, on a thread of the engine, and gives an `asyncio.Future`. Cancelling it drops the call:
what was sent already may still happen, and a job that a cancelled `reserve` had leased comes back when its lease ends.
"""

from duly._core import AsyncClient as Client
from duly._core import AsyncJob as Job
from duly._core import AsyncQueue as Queue

__all__ = ["Client", "Job", "Queue"]
