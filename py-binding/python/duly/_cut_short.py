"""What an interruption kept from beginning: the end of a `with`, or the release of a lock of Python's library.

If C code raises while an exception from outside is on its way, that comes at the start of the next Python function. If
that is an `__exit__`, nothing of it has happened, and nobody calls it again. So it is called here: from Python 3.11 on
where it would have run, before the ends of a `with` around it give away what it needs; else behind the handler.
"""

from __future__ import annotations

import dis
import inspect
import sys
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, Any

from duly._places import Places
from duly.outcomes import JobInterrupted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType, TracebackType

_EXITS = {"__exit__"}
_RELEASES = {"release", "_releaseLock"}
_MOST_ERRORS = 20


def begin(raised: JobInterrupted, *given: object) -> None:
    """Call what does not begin because of this one. The `__init__` of what interrupts runs.

    Where C code has raised, Python makes the instance at once, in the frame that is cut.
    """
    JobInterrupted.__init__(raised, *given)
    type(raised)._duly_is_there = True  # type: ignore[attr-defined]
    with suppress(BaseException):
        frame = sys._getframe(1)
        call = _not_begun(frame, frame.f_lasti)
        if call is not None:
            vars(raised)["_duly_calls"] = iter(())
            call()


def make_up_for(raised: BaseException) -> None:
    """Call what did not begin because of it, in the thread in which it was raised. What that raises is dropped."""
    for error in islice(_chain(raised), _MOST_ERRORS):
        if issubclass(type(error), JobInterrupted) and error.__traceback__ is not None:
            call = _not_begun(*_innermost(error.__traceback__), error)
            if call is not None:
                once = vars(error).setdefault("_duly_calls", iter((call,)))
                with suppress(BaseException):
                    list(map(_call, once))


def _call(call: Callable[[], Any]) -> None:
    call()


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """Give the error, and those behind which it was raised. Attributes of its class may be code of the program."""
    while error is not None:
        yield error
        error = vars(BaseException)["__context__"].__get__(error)


def _innermost(traceback: TracebackType) -> tuple[FrameType, int]:
    while traceback.tb_next is not None:
        traceback = traceback.tb_next
    return traceback.tb_frame, traceback.tb_lasti


def _not_begun(
    frame: FrameType, instruction: int, late_because: BaseException | None = None
) -> Callable[[], Any] | None:
    code = frame.f_code
    is_release = code.co_name in _RELEASES and Places().is_of_library(code.co_filename)
    if not (is_release or code.co_name in _EXITS) or not _is_at_its_start(frame, instruction):
        return None
    function = _function_of(frame)
    if function is None:
        return None
    given = inspect.getargvalues(frame)
    more = given.locals[given.varargs] if given.varargs else ()
    arguments = [*(given.locals[name] for name in given.args), *more]
    # Behind the ends around it nothing has ended well: a transaction is not to be committed there.
    if late_because is not None and not is_release and arguments[1:] == [None] * 3:
        arguments[1:] = [type(late_because), late_because, late_because.__traceback__]
    return lambda: function(*arguments)


def _is_at_its_start(frame: FrameType, instruction: int) -> bool:
    if sys.version_info < (3, 11):
        return instruction < 0
    return dis.opname[frame.f_code.co_code[instruction]] == "RESUME" and frame.f_code.co_code[instruction + 1] & 3 == 0


def _function_of(frame: FrameType) -> Callable[..., Any] | None:
    """Give the function of this frame: a method of its first argument, or one of its module."""
    code = frame.f_code
    of_first = type(frame.f_locals[code.co_varnames[0]]).__mro__ if code.co_argcount else ()
    for names in (*map(vars, of_first), frame.f_globals):
        function = names.get(code.co_name)
        if getattr(function, "__code__", None) is code:
            return function
    return None
