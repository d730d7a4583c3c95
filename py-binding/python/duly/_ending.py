"""How a worker ends: what asks it to, how long it waits for what goes on, and its exit status."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from duly._core import Supervision
from duly._interruptions import LOOK_S

if TYPE_CHECKING:
    from collections.abc import Callable

PATIENCE_S = Supervision.patience()
"""After so long it is logged that a handler that was interrupted goes on, if that does not end the worker. At its end a
worker waits so long for what cleans up."""
LAST_STEPS_S = 0.4
"""How long handlers that were interrupted may take to begin to end, before `run` returns without them."""


class Ending:
    """How a worker ends: what asks it to, and the exit status of a command."""

    def __init__(self, stops: Callable[[], int] = int) -> None:
        """Take what counts the calls of `stop`; the signals come from here on."""
        self.signals: list[int] = []
        self.came: Callable[[], int] = int
        """Counts them sooner than Python handles them."""
        self.on_signal: Callable[[], None] | None = None
        """Called at each of them, on the main thread: it may raise."""
        self.stuck = False
        self.status = 0
        self._stops = stops

    def heard(self) -> int:
        """Count the signals that have come to this process."""
        return max(len(self.signals), self.came())

    def asked(self) -> int:
        """Count how often it was asked to stop, in whichever way."""
        return self.heard() + self._stops()

    def wait(self, is_over: Callable[[float], bool], seconds: float, asked: int | None = None) -> bool:
        """Wait until that is over, so long at the most, and only until the worker is asked again; say whether it is.

        `is_over` gets the seconds for which it is to wait itself, and says whether it is over. More than `asked`
        requests are a new one; by default more than there are now.
        """
        asked = self.asked() if asked is None else asked
        until = time.monotonic() + seconds
        while not is_over(LOOK_S):
            if self.asked() > asked or time.monotonic() > until:
                return False
        return True
