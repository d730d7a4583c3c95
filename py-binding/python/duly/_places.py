"""What Python's bytecode says of where a thread may be interrupted. `worker/interruption.rs` has the rule."""

from __future__ import annotations

import dis
import os
import sys
import threading
from bisect import bisect_left
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType

BEHIND_A_LOCK = 1
"""In a line that takes or frees a lock: who is interrupted there may leave it held."""
BEFORE_A_LOCK = 2
"""What is called next may free a lock: the end of a `with`, or one of `_VERBS`. Asked from Python 3.13 on."""
MAY_RETURN = 4
"""Before it calls anything it may return; then this is to be asked of its caller."""
IN_A_LOCK = 8
"""In a `with` whose object is not made there, as a lock is not: what it guards may be half changed."""
A_WAIT = 16
"""The wait of a condition, during which it does not have its lock."""
MAY_RAISE = 32
"""The thread may be in C code that raises. This one and the next: until Python 3.10."""
HAS_AN_END = 64
"""In a `with` or a `finally`, of which nothing runs if an exception from outside comes behind an error of C code."""
TAKES_A_LOCK = 128
"""At a call of `acquire` without arguments, behind which most often the `try` begins that frees the lock."""
TAKES_A_LOCK_NEXT = 256
"""What is called next is one. From Python 3.13 on."""
GIVES_THE_GIL = 512
"""At a call of C code that waits, in which others have the GIL: a thread is at its end only for an instant. From Python
3.13 on."""
SKIPS_AN_END = 1024
"""What comes here, or from Python 3.13 on next, comes where a loop begins again, and runs no `finally` or end of a
`with` that the loop is in: https://github.com/python/cpython/issues/108214 in 3.11 and 3.12, and from 3.13 on
https://github.com/python/cpython/issues/130279."""

_VERBS = {
    *("acquire", "release", "acquire_lock", "release_lock", "_acquireLock", "_releaseLock"),
    *("_release_save", "_acquire_restore", "__enter__", "__exit__"),
    *("_recv_bytes", "_send_bytes"),
}
"""What takes or frees a lock, or moves an item of a queue of processes, for which a lock counts its places."""
_WAITS = {"waiter", "_wait_semaphore"}
"""Locks that are taken only to wait, within a `try` that sees to the rest: those of conditions."""
_GIVE_THE_GIL = {
    *("poll", "select", "sleep", "waitpid", "accept", "connect", "do_handshake"),
    *("recv", "recv_into", "recvfrom", "send", "sendall", "read", "readinto", "readline", "write"),
    *("execute", "executemany", "fetchone", "fetchmany", "fetchall", "commit"),
}
"""C code that waits; so do conditions."""
_NEVER_RAISE = {"sleep", *_WAITS}
"""C code in which a thread that is not the main one waits, and which raises nothing."""
_QUICK = {"append", "isinstance", "len", "type"}
"""Behind these, called as they are most often, Python does not look for exceptions from outside."""
_RAISES = ("WITH_EXCEPT_START", "RAISE_VARARGS", "RERAISE")
_FIRST_TO_COME_LATE = (3, 13)
_FIRST_TO_END_FIRST = (3, 11)
"""From here on a `with` and a `finally` begin to end before Python looks for exceptions from outside."""
_CANNOT_RAISE = ("LOAD_FAST", "LOAD_CONST", "STORE_FAST", "POP_", "JUMP_", "ROT_", "DUP_", "NOP")
_MOST_CODES = 1000


class Places(dict["CodeType", bytes]):
    """By code what is to be known of each of its instructions, and of the ones between: two bytes each."""

    def __init__(self) -> None:
        """Begin with nothing."""
        super().__init__()
        # As the code says it, of a method that nobody replaces to trace threads.
        self.threading = threading.Thread._bootstrap.__code__.co_filename  # type: ignore[attr-defined]
        """The file of Python's threads."""
        folder = os.path.join(os.path.dirname(self.threading), "")  # noqa: PTH118, PTH120
        self.events = os.path.join(folder, "asyncio", "events.py")  # noqa: PTH118
        """The file of the callbacks of event loops."""
        self.library = (folder, "<frozen ")
        """How the files of Python's library begin, besides which there are those of packages."""
        self.own = os.path.join(os.path.dirname(__file__), "")  # noqa: PTH118, PTH120
        """How our files begin, from which handlers are called."""

    def is_of_library(self, file: str) -> bool:
        """Tell whether this is a file of Python's library."""
        return file.startswith(self.library) and "site-packages" not in file and "dist-packages" not in file

    def __missing__(self, code: CodeType) -> bytes:
        """Read it."""
        if len(self) >= _MOST_CODES:
            self.clear()
        places = self[code] = _read(code)
        return places


def _read(code: CodeType) -> bytes:
    instructions = list(dis.get_instructions(code))
    offsets = [one.offset for one in instructions]
    index_at = {offset: index for index, offset in enumerate(offsets)}
    names = _names_of_lines(code, instructions)
    # That of a thread that ends, until Python 3.12, sees to it.
    sees_to_it = code.co_name == "_wait_for_tstate_lock"
    in_locks, have_an_end, in_a_try = _blocks(code, instructions, index_at, offsets)
    waits = [
        bool(of_line & _WAITS) and "acquire" in of_line and False not in of_line and index in in_a_try
        for index, of_line in enumerate(names)
    ]
    in_lock_lines = [
        bool(of_line & _VERBS) and not is_wait and not sees_to_it for of_line, is_wait in zip(names, waits, strict=True)
    ]
    takes = [_takes_a_lock(instructions, index) for index in range(len(instructions))]
    skips = _skip_an_end(code, instructions)
    comes_next = _next(instructions, index_at, in_lock_lines, takes, skips)
    places = bytearray()
    ends = [*offsets[1:], len(code.co_code)]
    for index, one in enumerate(instructions):
        # Python 3.10 looks for exceptions also where it goes to what catches one, such as the end of a `with`.
        place = BEHIND_A_LOCK if in_lock_lines[index] or one.opname in _RAISES else 0
        place |= IN_A_LOCK * (index in in_locks) | A_WAIT * waits[index] | HAS_AN_END * (index in have_an_end)
        place |= TAKES_A_LOCK * takes[index]
        if sys.version_info < _FIRST_TO_END_FIRST:
            place |= MAY_RAISE * (not one.opname.startswith(_CANNOT_RAISE) and not names[index] & _NEVER_RAISE)
        elif sys.version_info < _FIRST_TO_COME_LATE:
            place |= SKIPS_AN_END * (index in skips)
        else:
            place |= GIVES_THE_GIL * (waits[index] or _called(instructions, index) in _GIVE_THE_GIL)
            for behind in _behind(instructions, index_at, index):
                place |= comes_next[behind]
        places += place.to_bytes(2, "little") * ((ends[index] - one.offset) // 2)  # with its caches
    return bytes(places)


def _skip_an_end(code: CodeType, instructions: list[dis.Instruction]) -> set[int]:
    """Give where a loop begins again, and what comes there is not caught by what its first line is in."""
    handler = _handlers(code)
    # Python looks for exceptions from outside behind the jump, and takes the instruction ahead of that for the place;
    # from 3.13 on it does before the jump.
    looks_first = sys.version_info >= _FIRST_TO_COME_LATE
    jumps = ((index, one) for index, one in enumerate(instructions) if one.opname == "JUMP_BACKWARD")
    ends = ((index, handler(one.argval), one.offset if looks_first else one.argval - 2) for index, one in jumps)
    return {index for index, end, taken_for in ends if end is not None and end != handler(taken_for)}


def _handlers(code: CodeType) -> Callable[[int], int | None]:
    """Give what gives, of each offset, where it goes on with what is raised there."""
    entries = getattr(dis.Bytecode(code), "exception_entries", ())
    return lambda offset: next((entry.target for entry in entries if entry.start <= offset < entry.end), None)


def where_loops_begin(code: CodeType) -> frozenset[int]:
    """Give the offsets at which such loops begin: each turn comes by, and what is raised ends what they are in."""
    instructions = list(dis.get_instructions(code))
    return frozenset(instructions[index].argval for index in _skip_an_end(code, instructions))


def _takes_a_lock(instructions: list[dis.Instruction], index: int) -> bool:
    """Tell whether this is the call of an `acquire` without arguments, or until Python 3.11 what prepares that."""
    one = instructions[index]
    if one.opname not in ("CALL", "PRECALL", "CALL_METHOD") or one.arg:
        return False
    before = instructions[max(index - 2, 0) : index]
    if before and before[-1].opname == "PRECALL":
        before.pop()
    return bool(before) and before[-1].opname in ("LOAD_METHOD", "LOAD_ATTR") and before[-1].argval == "acquire"


def _names_of_lines(code: CodeType, instructions: list[dis.Instruction]) -> list[set[object]]:
    """Give for each instruction the names that its line loads, and whether it loads False."""
    starts = {offset: line for offset, line in dis.findlinestarts(code) if line is not None}
    names: dict[int, set[object]] = {}
    of_instructions = []
    line = code.co_firstlineno
    for one in instructions:
        line = starts.get(one.offset, line)
        of_line = names.setdefault(line, set())
        of_instructions.append(of_line)
        if one.opname.startswith("LOAD_") and (isinstance(one.argval, str) or one.argval is False):
            of_line.add(one.argval)
    return of_instructions


def _blocks(
    code: CodeType, instructions: list[dis.Instruction], index_at: dict[int, int], offsets: list[int]
) -> tuple[set[int], set[int], set[int]]:
    """Give what is in a `with` of a lock, until Python 3.10 in any `with` or `finally`, and what is in any block."""
    in_locks: set[int] = set()
    have_an_end: set[int] = set()
    in_a_try: set[int] = set()
    if sys.version_info < _FIRST_TO_END_FIRST:
        for index, one in enumerate(instructions):
            if one.opname not in ("SETUP_WITH", "SETUP_FINALLY"):
                continue
            handler = index_at[one.argval]
            block = range(index, handler)  # with the wait for its lock
            in_a_try.update(block)
            if one.opname == "SETUP_WITH" and not _is_made_there(instructions, index + 1):
                in_locks.update(block)
            if instructions[handler].opname != "DUP_TOP":  # which an `except` with a class begins with
                have_an_end.update(block)
        return in_locks, have_an_end, in_a_try
    entries = getattr(dis.Bytecode(code), "exception_entries", ())
    handlers: dict[int, int] = {}
    begins: dict[int, int] = {}
    for entry in entries:
        begins[entry.target] = min(entry.start, begins.get(entry.target, entry.start))
        block = range(bisect_left(offsets, entry.start), bisect_left(offsets, entry.end))
        in_a_try.update(block)
        handlers.update(dict.fromkeys(block, entry.target))
    locks = {
        handler
        for handler, begin in begins.items()
        if instructions[index_at[handler] + 1].opname == "WITH_EXCEPT_START"
        and not _is_made_there(instructions, index_at[begin])
    }
    in_locks.update(index_at[begins[handler]] - 1 for handler in locks)  # the wait for it
    for index in in_a_try:
        handler_at = handlers.get(index)
        seen: set[int] = set()
        while handler_at is not None and handler_at not in seen:
            if handler_at in locks:
                in_locks.add(index)
                break
            seen.add(handler_at)
            handler_at = handlers.get(index_at[handler_at])
    return in_locks, have_an_end, in_a_try


def _is_made_there(instructions: list[dis.Instruction], index: int) -> bool:
    """Tell whether the object of the `with` whose block begins here is what a call has given."""
    index -= 1
    if instructions[index].opname not in ("BEFORE_WITH", "SETUP_WITH"):  # Python 3.14 has several in their place
        while index > 0 and instructions[index].opname != "COPY":
            index -= 1
    return index > 0 and instructions[index - 1].opname.startswith("CALL")


def _next(
    instructions: list[dis.Instruction],
    index_at: dict[int, int],
    in_lock_lines: list[bool],
    takes: list[bool],
    skips: set[int],
) -> list[int]:
    """Give what may be called from each instruction on, before Python looks again for exceptions from outside."""
    found = [0] * (len(instructions) + 1)
    has_changed = sys.version_info >= _FIRST_TO_COME_LATE
    called = [_called(instructions, index) if has_changed else None for index in range(len(instructions))]
    # From behind, so that once is most often enough: Python looks where a loop begins again.
    while has_changed:
        has_changed = False
        for index in range(len(instructions) - 1, -1, -1):
            name = instructions[index].opname
            place = 0
            if name in _RAISES:
                place = BEFORE_A_LOCK  # what raises leaves a `with`, if it is in one
            elif name.startswith("CALL") and not name.startswith("CALL_INTRINSIC"):
                if in_lock_lines[index] or _ends_a_with(instructions, index):
                    place = BEFORE_A_LOCK | TAKES_A_LOCK_NEXT * takes[index]
                elif called[index] in _QUICK:
                    place = found[index + 1]
            elif name.startswith(("RETURN", "YIELD")):
                place = MAY_RETURN
            elif index in skips:
                place = SKIPS_AN_END
            elif name not in ("RESUME", "JUMP_BACKWARD"):
                for behind in _behind(instructions, index_at, index):
                    place |= found[behind]
            has_changed = has_changed or place != found[index]
            found[index] = place
    return found


def _called(instructions: list[dis.Instruction], index: int) -> object:
    """Give the name of what is called there, as far as it is loaded in the same expression. From Python 3.13 on."""
    if instructions[index].opname != "CALL":
        return None
    missing = (instructions[index].arg or 0) + 2  # the arguments, the function, and its object or nothing
    for at in range(index - 1, -1, -1):
        one = instructions[at]
        if one.opcode in dis.hasjrel:
            return None
        missing -= dis.stack_effect(one.opcode, one.arg)
        if missing == 0 or (missing == 1 and one.opname == "LOAD_ATTR"):
            return one.argval if one.opname.startswith("LOAD_") else None
    return None


def _behind(instructions: list[dis.Instruction], index_at: dict[int, int], index: int) -> list[int]:
    one = instructions[index]
    behind = []
    if one.opcode in dis.hasjrel or one.opcode in dis.hasjabs:
        behind.append(index_at[one.argval])
    if not one.opname.startswith(("JUMP_", "RETURN_VALUE", "RETURN_CONST")) or "_IF_" in one.opname:
        behind.append(index + 1)
    return behind


def _ends_a_with(instructions: list[dis.Instruction], index: int) -> bool:
    """Tell whether this is the call of an `__exit__`: with None three times."""
    before = instructions[max(index - 3, 0) : index]
    return len(before) == 3 and all(one.opname == "LOAD_CONST" and one.argval is None for one in before)
