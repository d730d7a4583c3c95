"""Modules that are loaded anew, and a second interpreter in one process."""

from __future__ import annotations

import pytest
from support import StartProgram


@pytest.mark.parametrize(
    "again",
    [
        "importlib.reload(duly)",
        "importlib.reload(duly.errors); importlib.reload(duly)",
        "del sys.modules['duly']; import duly",
        "[sys.modules.pop(name) for name in list(sys.modules) if name.partition('.')[0] == 'duly']; import duly",
    ],
)
def test_errors_are_caught_after_the_modules_were_loaded_anew(again: str, program: StartProgram) -> None:
    code = f"""
import importlib, sys
def refused():
    queue = duly.Client(URL, prefix=PREFIX).queue("q")
    try:
        queue.push(1, id="a")
        queue.push(1, id="a")
    except duly.DuplicateError as error:
        assert isinstance(error, duly.DulyError)
        return True
assert refused()
{again}
assert refused()
print("caught")
"""
    assert program(code).ends_well() == "caught\n"


def test_a_second_interpreter_is_refused_and_told_what_to_do(program: StartProgram) -> None:
    code = """
import sys
if sys.version_info >= (3, 13):
    import _interpreters
    another = _interpreters.create("legacy")
else:
    import _xxsubinterpreters as _interpreters
    another = _interpreters.create()
_interpreters.run_string(another, f'''
import sys
sys.path[:] = {sys.path!r}
try:
    import duly
except ImportError as error:
    print(error, flush=True)
''')
print(duly.Client(URL, prefix=PREFIX).queue("q").counts().ready)
"""
    said, here = program(code).ends_well().splitlines()
    assert "duly works in one interpreter of a process only" in said
    assert "WSGIApplicationGroup" in said
    assert here == "0"
