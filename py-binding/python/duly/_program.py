"""Functions of a program that is a module of a package: `python -m shop.tasks` loads what `shop` may have imported."""

from __future__ import annotations

import inspect
import os
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

_OF_PROGRAM = ("__main__", "__mp_main__")
"""What a program calls its module; the second name is that in a process that multiprocessing has started."""


def module_of(function: Callable[..., Any]) -> str:
    """Give its module as others import it: that of a program, `python -m shop.tasks`, calls itself `__main__`."""
    module: str = function.__module__
    if module not in _OF_PROGRAM:
        return module
    spec = getattr(inspect.unwrap(function), "__globals__", {}).get("__spec__")
    return "__main__" if spec is None else str(spec.name)


class Registration(NamedTuple):
    """Where a function was given to an app or a worker: the module whose code was executed, and the line."""

    module: str
    file: str
    line: int
    name: str

    @classmethod
    def of(cls, function: Any) -> Registration:
        """Give that of the function that is being registered. All is empty if no module does that."""
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and frame.f_code.co_name != "<module>":
            frame = frame.f_back
        if frame is None:
            return cls("", "", 0, "")
        name = getattr(function, "__qualname__", None)
        name = name if isinstance(name, str) else type(function).__qualname__
        file = frame.f_code.co_filename
        if file.startswith("<") and frame.f_globals.get("__spec__") is None:
            return cls("", "", 0, "")  # of `exec`, where each has this name
        with suppress(OSError):  # the current folder is gone
            file = os.path.realpath(file)  # a program may be started by a link
        return cls(str(frame.f_globals.get("__name__")), file, frame.f_lineno, name)

    def replaces(self, known: Registration | None) -> bool | None:
        """Tell whether it takes the place of a known one: of two copies of a module, that of the program is kept.

        Returns:
            None if they are no copies of each other.

        """
        if known is None or self[1:] != known[1:] or self.module == known.module:
            return None
        if self.module in _OF_PROGRAM:
            return True
        return False if known.module in _OF_PROGRAM else None
