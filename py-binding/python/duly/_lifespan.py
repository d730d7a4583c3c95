"""What a worker makes before its first job, and closes after its last."""

from __future__ import annotations

import inspect
import logging
import math
import os
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, contextmanager, suppress
from types import FunctionType, MethodType, SimpleNamespace
from typing import TYPE_CHECKING, Any, TypeAlias

from duly._ending import PATIENCE_S
from duly._failures import brief, count_as_own
from duly._interruptions import LOOK_S
from duly._misuse import check_function, is_coroutine_function, refuse_unrun
from duly._program import Registration
from duly._runs import log_safely
from duly._supervised import raised_by_program
from duly.errors import DulyError, InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from duly._ending import Ending
    from duly._event_loop import EventLoop

StartOrStop: TypeAlias = Callable[[], Any]

BEGINS_WITHIN_S = PATIENCE_S
"""How long functions of `on_stop` wait for a loop that a handler holds up."""
STUCK_STOP_S = 10.0
"""How long a function of `on_stop` may take where a handler does not end."""


class Resources(SimpleNamespace):
    """What `on_start` functions have made for handlers: `worker.resources.http = ...`."""

    def __getattr__(self, name: str) -> Any:
        """Say where it should have been made."""
        raise AttributeError(f"there is no resource {name!r} here: make it in a function that is given to on_start")


class Functions(list[StartOrStop]):
    """Functions in their order, and where each was given."""

    def __init__(self) -> None:
        """Begin with none."""
        super().__init__()
        self._registrations: list[Registration] = []

    def add(self, function: StartOrStop, registration: Registration) -> None:
        """Add one that is not there. Of two copies of a module that gave it, that of the program is kept."""
        verdicts = [registration.replaces(known) for known in self._registrations]
        if function in self:
            index = self.index(function)
        else:
            index = next((at for at, replaces in enumerate(verdicts) if replaces is not None), len(self))
        if index == len(self):
            self.append(function)
            self._registrations.append(registration)
        elif verdicts[index]:
            self[index], self._registrations[index] = function, registration


class Lifespan:
    """The functions around the work of a worker, in their order."""

    def __init__(self) -> None:
        """Begin with none."""
        self.starts = Functions()
        self.stops = Functions()
        self._lock = threading.Lock()
        self._used_in: int | None = None
        """The process in which a worker has what they make."""

    def add(self, function: Any, what: str, to: Functions) -> Any:
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
        count_as_own(function)
        to.add(function, Registration.of(function))
        return function

    @contextmanager
    def used(self) -> Iterator[None]:
        """Let one worker have what they make.

        Raises:
            InvalidArgumentError: another one of this process, of the same app, has it.

        """
        if not self.starts and not self.stops:
            yield
            return
        with self._lock:
            if self._used_in == os.getpid():
                raise InvalidArgumentError(
                    "another worker of this app runs in this process, and its on_start functions would make the "
                    "resources of both: run each in a process of its own, or give each an app of its own"
                )
            self._used_in = os.getpid()
        try:
            yield
        finally:
            self._used_in = None

    @property
    def needs_a_loop(self) -> bool:
        """True if one of them is a coroutine."""
        return any(is_coroutine_function(function) for function in (*self.starts, *self.stops))


class Around:
    """The calls of these functions in one run of a worker: signals end them."""

    def __init__(self, lifespan: Lifespan, ending: Ending, loop: EventLoop | None) -> None:
        """Take the loop on which coroutines run."""
        self._lifespan = lifespan
        self._ending = ending
        self._loop = loop
        self._has_begun = False
        """Whether there may be something to close."""
        self._runs = False
        """Whether a plain function runs."""
        self._was_interrupted = False
        """Whether a signal has interrupted it, which it may swallow."""
        self._asked_before = 0
        """How often the worker had been asked to stop: one more ends the function that runs just now."""
        self._begins_within = BEGINS_WITHIN_S
        ending.on_signal = self._hear

    def start(self) -> bool:
        """Call those of `on_start`, in the order in which they were given, and say whether no stop has ended that."""
        self._has_begun = not self._lifespan.starts
        for function in self._lifespan.starts:
            if self._ending.asked():
                return False
            self._has_begun = True
            try:
                self._call(function, 0)
            except DulyError as error:
                # Such as a lock that another process holds while it migrates the database.
                raised_by_program(error)
                raise
            except KeyboardInterrupt:
                self._runs = False  # the signal may have come in the line that says so
                if self._ending.asked() <= self._asked_before:
                    raise  # it is the function's own
                what = "the on_start function %s was interrupted: the worker stops"
                log_safely(logging.WARNING, what, _name(function))
                return False
        return not self._lifespan.starts or not self._ending.asked()

    def stop(self) -> None:
        """Call those of `on_stop`, the last that was given first, whatever one raises.

        None is called if there are functions of `on_start` and a stop came before the first: there is nothing to close.
        """
        for function in reversed(self._lifespan.stops if self._has_begun else ()):
            try:
                with _noted_if_slow(function), self._no_longer_than_a_stuck_handler(function):
                    self._call(function, max(1, self._ending.asked()), begins_within=self._begins_within)
            except BaseException as error:  # noqa: BLE001 - the others must close theirs
                self._runs = False
                what, why = "the on_stop function %s raised: %s", brief(error)
                if isinstance(error, KeyboardInterrupt) and self._ending.asked() > self._asked_before:
                    what, why = "the on_stop function %s was interrupted: %s", "the worker was asked again to stop"
                log_safely(logging.ERROR, what, _name(function), why)

    @contextmanager
    def _no_longer_than_a_stuck_handler(self, function: StartOrStop) -> Iterator[None]:
        """End the process if this waits, as the end of a pool does, for a handler for which it has to end."""
        if not self._ending.stuck:
            yield
            return

        def end() -> None:
            what = "the on_stop function %s does not end beside a handler that does not: the process ends"
            log_safely(logging.ERROR, what, _name(function))
            os._exit(self._ending.status)

        with _after(STUCK_STOP_S, end):
            yield

    def _hear(self) -> None:
        """End the plain function that runs, by what Ctrl-C raises in any program. In the handler of a signal."""
        if self._runs and self._ending.asked() > self._asked_before:
            self._was_interrupted = True
            raise KeyboardInterrupt

    def _call(self, function: StartOrStop, asked_before: int, begins_within: float = math.inf) -> None:
        self._asked_before = asked_before
        if is_coroutine_function(function):
            self._wait_for(function, begins_within)
            return
        self._was_interrupted = False
        self._runs = True
        try:
            refuse_unrun(function(), f"the function {_name(function)}")
        finally:
            self._runs = False
        if self._was_interrupted:
            raise KeyboardInterrupt

    def _wait_for(self, function: StartOrStop, begins_within: float) -> None:
        assert self._loop is not None, "the worker makes one if a function needs it"
        call = self._loop.call(function())
        until = time.monotonic() + begins_within
        while not call.is_over(LOOK_S):
            if not call.has_begun and time.monotonic() > until:
                what = "%s cannot begin, because a handler holds up the worker's event loop: it is left out"
                log_safely(logging.ERROR, what, _name(function))
                call.cancel()
                self._begins_within = 0.0  # nor can the others
                return
            if self._ending.asked() > self._asked_before:
                call.cancel()
                if not self._ending.wait(call.is_over, PATIENCE_S):
                    log_safely(logging.ERROR, "%s was cancelled and does not end: it is left behind", _name(function))
                raise KeyboardInterrupt
        call.result()


def _noted_if_slow(function: StartOrStop) -> AbstractContextManager[None]:
    what = "the on_stop function %s has not ended for %g s: the worker waits for it, or for another signal"
    return _after(PATIENCE_S, log_safely, logging.WARNING, what, _name(function), PATIENCE_S)


@contextmanager
def _after(seconds: float, function: Callable[..., None], *given: object) -> Iterator[None]:
    """Call it in a thread if the block takes longer."""
    timer = threading.Timer(seconds, function, given)
    timer.daemon = True
    with suppress(RuntimeError):  # the system gives no thread
        timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _name(function: StartOrStop) -> object:
    return getattr(function, "__qualname__", function)
