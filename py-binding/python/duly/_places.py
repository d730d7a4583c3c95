"""What Python's bytecode says of where a thread may be interrupted. `worker/interruption.rs` has the rule."""

from __future__ import annotations

import dis
import os
import sys
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import CodeType

BEHIND_A_LOCK = 1
"""In a line that takes or frees a lock: who is interrupted there may leave it held."""
BEFORE_A_LOCK = 2
"""What is called next may free a lock: the end of a `with`, or one of `_VERBS`. Asked from Python 3.13 on."""
MAY_RETURN = 4
"""Before it calls anything it may return; then this is to be asked of its caller."""

_VERBS = {
    *("acquire", "release", "acquire_lock", "release_lock", "_acquireLock", "_releaseLock"),
    *("_release_save", "_acquire_restore", "__enter__", "__exit__"),
}
_WAITS = {"waiter", "_wait_semaphore"}
"""Locks of which nothing but a wait is made, within a `try` that sees to the rest: those of conditions."""
_QUICK = {"append", "isinstance", "len", "type"}
"""Behind these, called as they are most often, Python does not look for exceptions from outside."""
_RAISES = ("WITH_EXCEPT_START", "RAISE_VARARGS", "RERAISE")
_FIRST_TO_COME_LATE = (3, 13)
_MOST_CODES = 1000


class Places(dict["CodeType", bytes]):
    """By code what is to be known of each of its instructions, and of the ones between."""

    def __init__(self) -> None:
        """Begin with nothing."""
        super().__init__()
        folder = os.path.dirname(threading.Thread.start.__code__.co_filename)  # noqa: PTH120 - as the code says it
        self.library = (os.path.join(folder, ""), "<frozen ")  # noqa: PTH118
        """How the files of Python's library begin, besides which there are those of packages."""

    def __missing__(self, code: CodeType) -> bytes:
        """Read it."""
        if len(self) >= _MOST_CODES:
            self.clear()
        places = self[code] = _read(code)
        return places


def _read(code: CodeType) -> bytes:
    instructions = list(dis.get_instructions(code))
    index_at = {one.offset: index for index, one in enumerate(instructions)}
    names = _names_of_lines(code, instructions)
    # That of a thread that ends, until Python 3.12, sees to it.
    sees_to_it = code.co_name == "_wait_for_tstate_lock"
    in_lock_lines = [bool(of_line & _VERBS) and not of_line & _WAITS and not sees_to_it for of_line in names]
    is_quick = [bool(of_line & _QUICK) for of_line in names]
    places = bytearray()
    ends = [*(one.offset for one in instructions[1:]), len(code.co_code)]
    for index, one in enumerate(instructions):
        # Python 3.10 looks for exceptions also where it goes to what catches one, such as the end of a `with`.
        place = BEHIND_A_LOCK if in_lock_lines[index] or one.opname in _RAISES else 0
        if sys.version_info >= _FIRST_TO_COME_LATE:
            place |= _next(instructions, index_at, in_lock_lines, is_quick, index)
        places += bytes([place]) * ((ends[index] - one.offset) // 2)  # with its caches
    return bytes(places)


def _names_of_lines(code: CodeType, instructions: list[dis.Instruction]) -> list[set[object]]:
    """Give for each instruction the names that its line loads."""
    starts = {offset: line for offset, line in dis.findlinestarts(code) if line is not None}
    names: dict[int, set[object]] = {}
    of_instructions = []
    line = code.co_firstlineno
    for one in instructions:
        line = starts.get(one.offset, line)
        of_line = names.setdefault(line, set())
        of_instructions.append(of_line)
        if one.opname.startswith("LOAD_") and isinstance(one.argval, str):
            of_line.add(one.argval)
    return of_instructions


def _next(
    instructions: list[dis.Instruction],
    index_at: dict[int, int],
    in_lock_lines: list[bool],
    is_quick: list[bool],
    index: int,
) -> int:
    """Give what may be called behind this instruction, before Python looks again for exceptions from outside."""
    place = 0
    seen: set[int] = set()
    todo = _behind(instructions, index_at, index)
    while todo:
        index = todo.pop()
        if index in seen or index >= len(instructions):
            continue
        seen.add(index)
        name = instructions[index].opname
        if name in _RAISES:
            return BEFORE_A_LOCK  # what raises leaves a `with`, if it is in one
        if name.startswith("CALL") and not name.startswith("CALL_INTRINSIC"):
            if in_lock_lines[index] or _ends_a_with(instructions, index):
                return BEFORE_A_LOCK
            if is_quick[index]:
                todo.append(index + 1)
        elif name.startswith(("RETURN", "YIELD")):
            place |= MAY_RETURN
        elif name not in ("RESUME", "JUMP_BACKWARD"):
            todo += _behind(instructions, index_at, index)
    return place


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
