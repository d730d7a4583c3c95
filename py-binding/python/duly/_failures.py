"""What a failure is called: in the log, without a word of the job's data, and in the text that is kept with the job."""

from __future__ import annotations

import os
import re
import sys
import sysconfig
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any

from duly._misuse import innermost
from duly.errors import BY_KIND, DulyError, JobFailedError
from duly.outcomes import Fail, Retry

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_HERE = str(Path(__file__).parent) + os.sep
_NOT_THE_USERS = tuple(
    {sysconfig.get_path(name) + os.sep for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    | {str(Path(prefix) / "lib" / f"python{sys.version_info[0]}") for prefix in (sys.prefix, sys.base_prefix)}
)
_SITE_PACKAGES = f"{os.sep}site-packages{os.sep}"
_OWN: set[str] = set()
"""The packages of handlers: the user's own code, also where pip has installed it."""
_MOST_PLACES = 20
"""Of each exception that is kept with a job; of a recursion the rest says nothing new."""
_MOST_CAUSES = 8
_MOST_ERRORS = 40
"""Of one failure, with the causes and members of all."""
_DULYS = frozenset({DulyError, *BY_KIND.values()})
"""Classes whose messages are duly's; what a subclass of the program says may hold data."""
_PATH_IN_DATA = re.compile(r"(data|result)[.\[]")
"""What a message has that names keys of what a user pushed or gave."""


class _Seen:
    """Which errors of a failure have been described: they may be causes and members of each other."""

    def __init__(self) -> None:
        self._seen: set[int] = set()

    def takes(self, error: BaseException) -> bool:
        """Give whether to describe it: once, and not one too many."""
        if id(error) in self._seen or len(self._seen) == _MOST_ERRORS:
            return False
        self._seen.add(id(error))
        return True


def count_as_own(function: Any) -> None:
    """Take the package of a handler for the user's own code."""
    module = getattr(innermost(function), "__module__", None)
    if isinstance(module, str):
        _OWN.add(module.partition(".")[0])


def describe(error: BaseException) -> str:
    """Give `ValueError: what it says`, where it was raised, and the same of its causes: for the error text of a job."""
    try:
        seen = _Seen()
        seen.takes(error)
        return "\n".join(_described(error, "", seen))
    except BaseException as broken:  # noqa: BLE001 - code of an exception, which may do anything
        return _without_words(error, broken)


def brief(error: BaseException) -> str:
    """Give `ValueError at shop.py:12 in close, caused by KeyError at shop.py:7 in load`, for a log.

    The location is the innermost line of the user's own code. What an exception says may hold a job's data, so it is
    left out; what duly says does not.
    """
    try:
        return _brief(error)
    except BaseException as broken:  # noqa: BLE001 - as above
        return _without_words(error, broken)


def where(error: BaseException) -> str:
    """Give the innermost line of the user's own code, and where it was raised if that is another; "" without one."""
    try:
        return _where(error)
    except BaseException:  # noqa: BLE001 - as above
        return ""


def where_written(function: Any) -> str:
    """Give where the function begins."""
    function = innermost(function)
    code = getattr(function, "__code__", None) or getattr(type(function).__call__, "__code__", None)
    return f"{code.co_filename}:{code.co_firstlineno} in {code.co_name}" if code else "an unknown place"


def _without_words(error: BaseException, broken: BaseException) -> str:
    return f"{type(error).__name__} (which raised {type(broken).__name__} when it was described)"


def _text(error: BaseException) -> str:
    """Give what it says; a subclass may say it badly."""
    try:
        return str(error)
    except BaseException as broken:  # noqa: BLE001 - as above
        return f"{type(error).__qualname__} (its text raised {type(broken).__name__})"


def _brief(error: BaseException) -> str:
    seen = _Seen()
    seen.takes(error)
    parts = [_named(error, seen)]
    for relation, cause in _causes(error, seen):
        parts.append(f"{relation} {_named(cause, seen)}")
    return ", ".join(parts)


def _named(error: BaseException, seen: _Seen) -> str:
    name = type(error).__qualname__
    if isinstance(error, DulyError) and type(error) in _DULYS:
        name = f"{name} ({_of_duly(error)})"
    members = _members(error)
    if members:
        named = [_named(member, seen) for member in members[:_MOST_CAUSES] if seen.takes(member)]
        if len(members) > len(named):
            named.append(f"and {len(members) - len(named)} more")
        name = f"{name} of {'; '.join(named)}"
    place = _where(error)
    return f"{name} at {place}" if place else name


def _where(error: BaseException) -> str:
    modules = [frame.f_globals for frame, _line in traceback.walk_tb(error.__traceback__)]
    frames = traceback.extract_tb(error.__traceback__)
    inner = own = ""
    for module, frame in reversed([*zip(modules, frames, strict=False)]):  # `sys.tracebacklimit` shortens one of them
        if _is_dulys(frame):
            continue
        inner = inner or _location(frame)
        package = str(module.get("__name__")).partition(".")[0]
        if package in _OWN or not _is_library(_file(frame, module)):
            own = _location(frame)
            break
    return f"{own} (raised at {inner})" if own not in ("", inner) else inner


def _of_duly(error: DulyError) -> str:
    """Give its message, which never has data; unless it names keys of data, or ends with the error of another job."""
    said = _text(error)
    if not isinstance(error, JobFailedError) and not _PATH_IN_DATA.search(said):
        return said
    about = [
        error.kind,
        error.operation,
        error.queue and f"queue {error.queue}",
        error.job_id and f"job {error.job_id}",
    ]
    return ", ".join(part for part in about if part)


def _described(error: BaseException, indent: str, seen: _Seen) -> Iterator[str]:
    is_bare = isinstance(error, (Retry, Fail)) and not _text(error)
    if is_bare and error.__cause__ is not None and seen.takes(error.__cause__):
        yield from _described(error.__cause__, indent, seen)
        return
    yield from _said_and_locations(error, indent, seen)
    for relation, cause in _causes(error, seen):
        first, *others = _said_and_locations(cause, indent, seen)
        yield f"{indent}{relation} {first.lstrip()}"
        yield from others


def _said(error: BaseException) -> str:
    """Give `ValueError: what it says`, with its notes. `traceback` would look at all its causes and members."""
    kind = type(error)
    if isinstance(error, SyntaxError):
        return "".join(traceback.format_exception_only(kind, error)).strip()
    module = "" if kind.__module__ in ("builtins", "__main__") else f"{kind.__module__}."
    text = _text(error)
    notes = getattr(error, "__notes__", None)
    lines = [f"{module}{kind.__qualname__}: {text}" if text else f"{module}{kind.__qualname__}"]
    lines += [str(note) for note in notes] if isinstance(notes, (list, tuple)) else []
    return "\n".join(lines)


def _said_and_locations(error: BaseException, indent: str, seen: _Seen) -> Iterator[str]:
    if isinstance(error, (Retry, Fail)):
        asked = "the handler asked for a retry" if isinstance(error, Retry) else "the handler gave it up"
        yield f"{indent}{_text(error) or asked}"
        return
    members = _members(error)
    yield f"{indent}{_said(error)}"
    frames = _frames(error)
    for frame in frames[:_MOST_PLACES]:
        yield f"{indent}  at {_location(frame)}"
    if len(frames) > _MOST_PLACES:
        yield f"{indent}  and {len(frames) - _MOST_PLACES} more"
    for number, member in enumerate(members[:_MOST_CAUSES], 1):
        if not seen.takes(member):
            yield f"{indent}  {number} of {len(members)}: {type(member).__qualname__} (described above, or too many)"
            continue
        first, *others = _described(member, f"{indent}  ", seen)
        yield f"{indent}  {number} of {len(members)}: {first.lstrip()}"
        yield from others


def _causes(error: BaseException, seen: _Seen) -> Iterator[tuple[str, BaseException]]:
    """Give what it was raised from, or while what was handled, and so on; each once."""
    for _ in range(_MOST_CAUSES):
        if error.__cause__ is not None:
            relation, cause = "caused by", error.__cause__
        elif error.__context__ is not None and not error.__suppress_context__:
            relation, cause = "while handling", error.__context__
        else:
            return
        if not seen.takes(cause):
            return
        yield relation, cause
        error = cause


def _members(error: BaseException) -> tuple[BaseException, ...]:
    """Give what a group holds. By its attribute: before Python 3.11 the class is a package's."""
    try:
        members = getattr(error, "exceptions", None)
    except BaseException:  # noqa: BLE001 - as above
        return ()
    if isinstance(members, (tuple, list)) and all(isinstance(member, BaseException) for member in members):
        return tuple(members)
    return ()


def _frames(error: BaseException) -> list[traceback.FrameSummary]:
    """Where it was raised, and what called that, without the lines of the worker that called the handler."""
    frames = traceback.extract_tb(error.__traceback__)
    return [frame for frame in reversed(frames) if not _is_dulys(frame)]


def _is_dulys(frame: traceback.FrameSummary) -> bool:
    return frame.filename.startswith(_HERE)


def _file(frame: traceback.FrameSummary, module: Mapping[str, Any]) -> str:
    """Give the file of a line. Compiled code has the path of its source where it was built, relative as a rule."""
    is_path = os.path.isabs(frame.filename) or frame.filename.startswith("<")  # noqa: PTH117 - of any text
    return frame.filename if is_path else str(module.get("__file__") or frame.filename)


def _is_library(filename: str) -> bool:
    return filename.startswith((*_NOT_THE_USERS, "<frozen")) or _SITE_PACKAGES in filename


def _location(frame: traceback.FrameSummary) -> str:
    return f"{frame.filename}:{frame.lineno} in {frame.name}"
