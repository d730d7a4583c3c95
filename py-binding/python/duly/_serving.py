"""Waits in an event loop for a worker that runs beside it. A cancellation of the wait asks the worker to stop."""

from __future__ import annotations

import asyncio
import math
import sys
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import TYPE_CHECKING, Any

from duly._calls import running_loop

if TYPE_CHECKING:
    from duly._core import WorkerReport


async def serve(run: Callable[[asyncio.AbstractEventLoop], WorkerReport], stop: Callable[[], None]) -> WorkerReport:
    """Call `run` in a thread and wait until it has returned, however often this is cancelled; each time calls `stop`.

    Raises:
        CancelledError: this was cancelled; `run` has returned.
        RuntimeError: there is no event loop of asyncio; the text says what to do.

    """
    loop = running_loop("Worker.serve", "Worker.run")
    ended: asyncio.Future[WorkerReport] = loop.create_future()

    def tell(say: Callable[[Any], None], what: object) -> None:
        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(lambda: None if ended.done() else say(what))

    def work() -> None:
        try:
            tell(ended.set_result, run(loop))
        except BaseException as error:  # noqa: BLE001 - who awaits it gets it
            tell(ended.set_exception, error)

    threading.Thread(target=work, name="duly-worker-serve", daemon=True).start()
    cancelled: asyncio.CancelledError | None = None
    while True:
        try:
            with _no_repeats() if cancelled is not None else nullcontext():
                report = await asyncio.shield(ended)
            break
        except asyncio.CancelledError as error:
            cancelled = error
            stop()
    if cancelled is not None:
        raise cancelled
    return report


def _no_repeats() -> AbstractContextManager[Any]:
    """Keep out the cancel scope of anyio that has cancelled this task: it does so again at each turn of the loop.

    Each would be a request to stop, and they would keep the loop busy until the worker has stopped.
    """
    anyio = sys.modules.get("anyio")
    if anyio is None or not hasattr(anyio, "CancelScope") or anyio.current_effective_deadline() != -math.inf:
        return nullcontext()
    return anyio.CancelScope(shield=True)  # type: ignore[no-any-return]
