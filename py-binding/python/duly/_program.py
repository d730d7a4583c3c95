"""Functions of a program that is a module of a package: `python -m shop.tasks` loads what `shop` may have imported."""

from __future__ import annotations

import functools
import inspect
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

_OF_PROGRAM = ("__main__", "__mp_main__")
"""What a program calls its module; the second name is that in a process that multiprocessing has started."""


def module_of(function: Callable[..., Any]) -> str:
    """Give its module as others import it: that of a program, `python -m shop.tasks`, calls itself `__main__`."""
    module: str = function.__module__
    if module not in _OF_PROGRAM:
        return module
    spec = getattr(inspect.unwrap(function), "__globals__", {}).get("__spec__")
    return "__main__" if spec is None else str(spec.name)


def of_program(function: Any, known: Any) -> Any:
    """Give which of two functions counts, that of the program; None if they are two that are written at two places."""
    here, there = _plain(function), _plain(known)
    modules = (_module(here), _module(there))
    if _written(here) is None or _written(here) != _written(there) or modules[0] == modules[1]:
        return None
    if modules[0] in _OF_PROGRAM:
        return function
    return known if modules[1] in _OF_PROGRAM else None


def _plain(function: Any) -> Any:
    """Give the function below decorators and `functools.partial`, or that of an object that can be called."""
    function = inspect.unwrap(function)
    if isinstance(function, functools.partial):
        return _plain(function.func)
    return function if hasattr(function, "__code__") else type(function).__call__


def _module(function: Any) -> str | None:
    return getattr(function, "__module__", None)


def _written(function: Any) -> tuple[str, int, str] | None:
    code = getattr(function, "__code__", None)
    return code and (code.co_filename, code.co_firstlineno, code.co_name)
