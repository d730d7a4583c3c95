"""What a worker makes before its first job, and closes after its last."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Coroutine, Sequence
from types import FunctionType, MethodType, SimpleNamespace
from typing import Any, TypeAlias

from duly._failures import brief, count_as_own
from duly._misuse import check_function, is_coroutine_function, refuse_unrun
from duly._runs import log_safely
from duly.errors import InvalidArgumentError

StartOrStop: TypeAlias = Callable[[], Any]


class Resources(SimpleNamespace):
    """What `on_start` functions have made for handlers: `worker.resources.http = ...`."""

    def __getattr__(self, name: str) -> Any:
        """Say where it should have been made."""
        raise AttributeError(f"there is no resource {name!r} here: make it in a function that is given to on_start")


class Lifespan:
    """The functions around the work of a worker, in their order."""

    def __init__(self) -> None:
        """Begin with none."""
        self.starts: list[StartOrStop] = []
        self.stops: list[StartOrStop] = []

    def add(self, function: Any, what: str, to: list[StartOrStop]) -> Any:
        """Add a function without arguments, plain or `async def`, and give it.

        Raises:
            InvalidArgumentError: it is none, or takes arguments.

        """
        check_function(function, what)
        if isinstance(function, (FunctionType, MethodType)):
            try:
                inspect.signature(function, follow_wrapped=False).bind()
            except TypeError as error:
                raise InvalidArgumentError(f"{what} is called without arguments: {error}") from None
        if function not in to:
            to.append(function)
            count_as_own(function)
        return function

    @property
    def needs_a_loop(self) -> bool:
        """True if one of them is a coroutine."""
        return any(is_coroutine_function(function) for function in (*self.starts, *self.stops))

    def start(self, on_loop: Callable[[Coroutine[Any, Any, Any]], object]) -> None:
        """Call them, in the order in which they were given; what one raises ends it."""
        _call(self.starts, on_loop)

    def stop(self, on_loop: Callable[[Coroutine[Any, Any, Any]], object]) -> None:
        """Call them, the last that was given first, whatever one raises."""
        for function in reversed(self.stops):
            try:
                _call([function], on_loop)
            except BaseException as error:  # noqa: BLE001 - the others must close theirs
                what = "the on_stop function %s raised: %s"
                log_safely(logging.ERROR, what, getattr(function, "__qualname__", function), brief(error))


def _call(functions: Sequence[StartOrStop], on_loop: Callable[[Coroutine[Any, Any, Any]], object]) -> None:
    for function in functions:
        if is_coroutine_function(function):
            on_loop(function())
        else:
            refuse_unrun(function(), f"the function {getattr(function, '__qualname__', function)}")
