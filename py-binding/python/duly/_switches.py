"""How often Python's threads take turns, while a late run is looked for.

A thread that does nothing but take a lock which others take, too, gives the GIL away where it waits for that lock, and
nearly nowhere else. There it must not be interrupted. So for some milliseconds it is made to give it away elsewhere.
"""

from __future__ import annotations

import os
import sys
import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_SHORTEST_S = 1e-6

_lock = threading.Lock()
_before: list[float] = []
"""What the program had set."""


@contextmanager
def frequent() -> Iterator[None]:
    """Let them take turns as often as they can, unless another worker of this process does so just now."""
    if not _lock.acquire(blocking=False):
        yield
        return
    try:
        _before.append(sys.getswitchinterval())
        sys.setswitchinterval(_SHORTEST_S)
        yield
    finally:
        _as_before()
        _lock.release()


def _as_before() -> None:
    if _before and sys.getswitchinterval() <= _SHORTEST_S:  # the program may have set it meanwhile
        sys.setswitchinterval(_before[0])
    _before.clear()


def _in_child() -> None:
    _as_before()
    with suppress(RuntimeError):
        _lock.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
