"""Ends of a `with` that an interruption kept from beginning: they run where they would have, in their order."""

from __future__ import annotations

import copy
import pickle
import sys

import duly
import pytest
from duly._interruptions import _Raised
from support import StartProgram

CUT = {
    "ends around it": ("with End('outer'), End('inner'): near.recv(1)", "inner outer finally"),
    "generators around it": ("with end('outer'), end('inner'): near.recv(1)", "inner outer finally"),
    "an end that raises": ("with End('outer'), Fails('inner'): near.recv(1)", "inner outer finally"),
    "C code that no call has begun": ("with End('outer'), End('inner'): wait[1]", "inner outer finally"),
    "an iterator in C that comes to its end": (
        "with End('outer'), Told('inner'):"
        "\n                    for _ in iter(functools.partial(os.read, end_of, 1), b''): pass",
        "outer finally inner JobInterrupted" if sys.version_info[:2] == (3, 11) else "inner None outer finally",
    ),
    "what is taken again in the `finally`": (
        "with taken: near.recv(1)",
        "finally True",
    ),
    "an `except` that drops it": (
        "\n                try:\n                    with taken: near.recv(1)"
        "\n                except BaseException: note(taken.acquire(timeout=20)); taken.release()",
        "True finally True",
    ),
}
"""What the handler does, and what it notes."""


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a socket that is closed does not raise")
@pytest.mark.parametrize("what", CUT)
def test_what_was_cut_at_its_start_ends_before_what_is_around_it(program: StartProgram, what: str) -> None:
    use, notes = CUT[what]
    code = f"""
        import contextlib, functools, logging, os, socket, threading, time
        was_logged, noted = threading.Event(), []
        note = noted.append

        class Hears(logging.Handler):
            def emit(self, record):
                if "ran longer" in record.getMessage():
                    was_logged.set()

        logging.getLogger("duly").addHandler(Hears())
        logging.getLogger("duly").propagate = False
        near, far = socket.socketpair()
        near.send(b"so that the end of the other one raises")
        end_of, begin_of = os.pipe()
        taken = threading.Semaphore(1)

        class Waits:
            __getitem__ = staticmethod(near.recv)

        class End:
            def __init__(self, name):
                self.name = name

            def __enter__(self):
                return self

            def __exit__(self, *raised):
                note(self.name)

        class Told(End):
            def __exit__(self, *raised):
                note(self.name)
                note(raised[0] and raised[0].__name__)

        class Fails(End):
            def __exit__(self, *raised):
                note(self.name)
                raise ValueError("it cannot be closed")

        @contextlib.contextmanager
        def end(name):
            try:
                yield
            except BaseException:
                note(name)
                raise

        wait, worker = Waits(), duly.Worker(duly.Client(URL, prefix=PREFIX), ["q"])

        @worker.on("row")
        def row(job):
            try:
                {use}
            finally:
                note("finally")
                if "taken" in {use!r}:
                    note(taken.acquire(timeout=20))

        @worker.on("last")
        def last(job):
            worker.stop()

        def raise_there():
            was_logged.wait()
            time.sleep(0.5)  # the exception is on its way
            far.close()
            os.close(begin_of)

        threading.Thread(target=raise_there).start()
        jobs = duly.Client(URL, prefix=PREFIX).queue("q")
        jobs.push(1, name="row", timeout=0.2, max_retries=0)
        jobs.push(1, name="last")
        worker.run()
        print(*noted)
    """
    assert program(code).ends_well() == f"{notes}\n"


def test_what_interrupts_a_run_is_an_exception_like_others() -> None:
    ended: list[object] = []

    class End:
        def __enter__(self) -> None: ...

        def __exit__(self, *raised: object) -> None:
            ended.append(kind("in the end of a with"))

    kind = _Raised(1).kind
    error = kind("why")
    assert isinstance(error, duly.JobInterrupted)
    assert (error.args, copy.copy(error).args) == (("why",), ("why",))
    assert type(pickle.loads(pickle.dumps(error))) is duly.JobInterrupted
    with pytest.raises(duly.JobInterrupted, match="on its way"), End():
        raise kind("on its way")
    assert len(ended) == 1, "what the end of a `with` makes calls it once more"
