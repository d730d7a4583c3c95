"""Mistakes that would stay silent: a coroutine or a generator that nobody runs is no work done."""

from __future__ import annotations

import inspect
import os
import sys
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Iterator
from contextlib import contextmanager
from functools import partial
from types import FunctionType, MethodType
from typing import Any

from duly.errors import InvalidArgumentError, UnsupportedError


class UnrunError(TypeError):
    """A handler or a hook gave work instead of doing it. Its text has nothing of the data."""


def refuse_green_threads() -> None:
    """Refuse to work where a package has replaced Python's threads: jobs would be taken, and never run.

    Raises:
        UnsupportedError: the text says which package.

    """
    gevent, eventlet = sys.modules.get("gevent.monkey"), sys.modules.get("eventlet.patcher")
    if gevent is not None and gevent.is_module_patched("threading"):
        name = "gevent"
    elif eventlet is not None and eventlet.is_monkey_patched("thread"):
        name = "eventlet"
    else:
        return
    raise UnsupportedError(
        f"{name} has replaced Python's threads, which a worker needs: run it in a process without {name}'s patches "
        "(to push is possible here)"
    )


class _Imported(threading.local):
    """The app that `duly worker` imports in this thread: the process, and where the app is."""

    app: tuple[int, str] | None = None


_imported = _Imported()


@contextmanager
def importing(where: str) -> Iterator[None]:
    """Let no worker run in what is imported here: the import would not end before its jobs do."""
    before, _imported.app = _imported.app, (os.getpid(), where)
    try:
        yield
    finally:
        _imported.app = before


def refuse_while_importing(what: str) -> None:
    """Refuse to run where `duly worker` only wants to know the app.

    Raises:
        InvalidArgumentError: it is imported in this thread.

    """
    # A process that was forked meanwhile imports nothing for it.
    if _imported.app is not None and _imported.app[0] == os.getpid():
        raise InvalidArgumentError(
            f"`duly worker` imports this module, and runs {_imported.app[1]} itself: {what} only in a program of its "
            'own, below `if __name__ == "__main__":`'
        )


def is_coroutine_function(function: Callable[..., Any]) -> bool:
    """Tell whether a call of it gives a coroutine, also of an object whose `__call__` is `async def`."""
    called = innermost(function)
    return inspect.iscoroutinefunction(called) or inspect.iscoroutinefunction(getattr(called, "__call__", None))  # noqa: B004


def check_function(function: Any, what: str, *takes: str) -> None:
    """Refuse what is no function, what only makes an object or a generator, and what does not take these arguments.

    Raises:
        InvalidArgumentError: the text says which function.

    """
    made = innermost(function)
    if inspect.isclass(made):
        raise InvalidArgumentError(
            f"{what} must be a function, not the class {made.__qualname__}: to call a class only makes an object"
        )
    if not callable(function):
        raise InvalidArgumentError(f"{what} must be a function, not {type(function).__name__}")
    for called in (function, getattr(made, "__call__", None)):  # noqa: B004 - of an object it may yield
        if inspect.isgeneratorfunction(called) or inspect.isasyncgenfunction(called):
            raise InvalidArgumentError(f"{what} must not yield: a generator that is only made runs nothing")
    # A wrapper takes other arguments than what it wraps. Of what is no plain function nobody knows.
    if takes and type(function) in (FunctionType, MethodType):
        try:
            inspect.signature(function, follow_wrapped=False).bind(*takes)
        except TypeError as error:
            raise InvalidArgumentError(f"{what} must take {' and '.join(takes)}: {error}") from None


def check_hook(function: Any, what: str, *takes: str) -> None:
    """Refuse what is no function, and what is a coroutine function.

    Raises:
        InvalidArgumentError: the text says which hook.

    """
    if is_coroutine_function(function):
        raise InvalidArgumentError(f"{what} must be a plain function: nothing awaits a hook that is `async def`")
    check_function(function, what, *takes)


def innermost(function: Any) -> Any:
    """Give what a partial calls in the end."""
    while isinstance(function, partial):
        function = function.func
    return function


def refuse_unrun(given: Any, what: str) -> None:
    """Refuse what a function gave if it is work that was not done.

    Raises:
        UnrunError: it is a coroutine, another awaitable, a future, a generator, a `map` or a `filter`.

    """
    if given is None:
        return
    is_future = _is_future(given)
    if not is_future and not isinstance(given, (Awaitable, Generator, AsyncGenerator, map, filter)):
        return
    close = getattr(given, "close", None)
    if close is not None and not isinstance(given, AsyncGenerator):
        close()
    kind = type(given).__name__.replace("_", " ")
    returned = f"{what} returned {'an' if kind[:1] in 'aeiouAEIOU' else 'a'} {kind}"
    if is_future:
        raise UnrunError(
            f"{returned} that nobody waits for, so its work may not be done: return its result "
            "(`await future`, or `future.result()` of a thread or process pool)"
        )
    if isinstance(given, Awaitable):
        raise UnrunError(
            f"{returned} that nobody awaits, so nothing was run: a plain function or decorator stands around "
            "an `async def`; make it `async def` too, and await there"
        )
    if isinstance(given, (map, filter)):
        raise UnrunError(f"{returned} that nobody reads, so nothing was run: use a loop, or give a list of it")
    raise UnrunError(f"{returned} that nobody runs, so nothing was run: {what} must not yield")


def _is_future(given: Any) -> bool:
    """Tell it without an import: a program that has not imported them has no futures."""
    modules = (sys.modules.get(name) for name in ("asyncio", "concurrent.futures"))
    return any(isinstance(given, getattr(module, "Future", ())) for module in modules)
