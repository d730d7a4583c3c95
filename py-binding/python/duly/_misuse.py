"""Mistakes that would stay silent: a coroutine or a generator that nobody runs is no work done."""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from typing import Any

from duly.errors import InvalidArgumentError


class UnrunError(TypeError):
    """A handler gave work instead of doing it. Its text has nothing of the data."""


def is_coroutine_function(function: Callable[..., Any]) -> bool:
    """Tell whether a call of it gives a coroutine, also of an object whose `__call__` is `async def`."""
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004


def check_function(function: Any, what: str) -> None:
    """Refuse what is no function, and what only makes a generator when it is called.

    Raises:
        InvalidArgumentError: the text says which function.

    """
    if not callable(function):
        raise InvalidArgumentError(f"{what} must be a function, not {type(function).__name__}")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise InvalidArgumentError(f"{what} must not yield: a generator that is only made runs nothing")


def refuse_unrun(given: Any, what: str) -> None:
    """Refuse what a function gave if it is work that was not done.

    Raises:
        UnrunError: it is a coroutine, another awaitable, or a generator.

    """
    if not isinstance(given, (Awaitable, Generator, AsyncGenerator)):
        return
    kind = type(given).__name__
    close = getattr(given, "close", None)
    if close is not None and not isinstance(given, AsyncGenerator):
        close()
    if isinstance(given, Awaitable):
        raise UnrunError(
            f"{what} gave a {kind} that nobody awaits, so nothing was run: a plain function or decorator stands around "
            "an `async def`; make it `async def` too, and await there"
        )
    raise UnrunError(f"{what} gave a {kind} that nobody runs, so nothing was run: a handler must not yield")
