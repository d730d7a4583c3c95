"""The supervisor of `duly worker`, with processes that are no workers; `test_cli.py` has what it does with workers."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from duly import supervisor
from support import Program

Start = Callable[[str], Program]

SUPERVISE = """
    import logging, sys
    from duly import supervisor

    def supervise(child, processes, grace):
        listen = "import os, signal, sys, time; from pathlib import Path; came = []; signal.alarm(120); "
        listen += "signal.signal(signal.SIGTERM, lambda *_: (came.append(1), print('came', flush=True))); "
        listen += "signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])\\n"
        command = [sys.executable, "-c", listen + child]
        sys.exit(supervisor.Supervisor(command, processes, grace=grace).run())
"""


def test_errors_of_several_processes_do_not_end_the_grace_of_the_others(program: Start, tmp_path: Path) -> None:
    # The first one works; another meets an error when that is there, and the third when it is asked to stop.
    child = f"""
folder = Path({str(tmp_path)!r})
for name in ("works", "fails", "fails too"):
    try:
        (folder / name).mkdir()
        break
    except FileExistsError:
        pass
if name == "works":
    while not came: time.sleep(0.01)
    siblings = Path(f"/proc/{{os.getppid()}}/task/{{os.getppid()}}/children")
    while len(siblings.read_text().split()) > 1: time.sleep(0.01)
    time.sleep(0.3)  # what the supervisor does about them
    print("asked", len(came), flush=True)
    sys.exit(0)
if name == "fails":
    while len(list(folder.iterdir())) < 3: time.sleep(0.01)
    os.write(int(sys.argv[-1]), b"fatal\\n")
    os._exit(1)
while not came: time.sleep(0.01)
os._exit(1)
"""
    status, out, err = program(SUPERVISE + f"    supervise({child!r}, 3, 60)\n").end()
    assert status == 1, err
    assert "asked 1" in out
    assert err.count("all stop") == 1, err


def test_no_exit_status_of_a_handler_stops_all(program: Start, tmp_path: Path) -> None:
    child = f"""
for status in (1, 2, 121):
    try:
        (Path({str(tmp_path)!r}) / str(status)).mkdir()
        os._exit(status)
    except FileExistsError:
        pass
print('there', flush=True)
while not came: time.sleep(0.01)
"""
    supervised = program(SUPERVISE + f"    supervise({child!r}, 1, 60)\n")
    assert supervised.line() == "there"
    supervised.process.send_signal(signal.SIGTERM)
    status, _, err = supervised.end()
    assert status == 0, err
    assert [err.count(f"ended with status {status} ") for status in (1, 2, 121)] == [1, 1, 1], err


def test_it_goes_on_when_the_system_gives_no_process(program: Start) -> None:
    code = """
    start, errors = supervisor._start, [OSError("no memory"), OSError("too many processes")]

    def seldom(command):
        if errors:
            raise errors.pop()
        return start(command)

    supervisor._start = seldom
"""
    child = "print('there', flush=True)\nwhile not came: time.sleep(0.01)"
    supervised = program(SUPERVISE + code + f"    supervise({child!r}, 1, 60)\n")
    assert supervised.line() == "there"
    supervised.process.send_signal(signal.SIGTERM)
    status, _, err = supervised.end()
    assert status == 0, err
    assert "the system gives no process, trying again: too many processes" in err


def test_it_hears_signals_after_a_moment_without_descriptors(program: Start) -> None:
    code = """
    import os
    start, pipe, errors = supervisor._start, os.pipe, [OSError(24, "too many open files")]

    def fails():
        raise errors.pop()

    def once(command):
        os.pipe = fails if errors else pipe
        try:
            return start(command)
        finally:
            os.pipe = pipe

    supervisor._start = once
"""
    child = "print('there', flush=True)\nwhile not came: time.sleep(0.01)"
    supervised = program(SUPERVISE + code + f"    supervise({child!r}, 1, 60)\n")
    assert supervised.line() == "there"
    supervised.process.send_signal(signal.SIGTERM)
    status, _, err = supervised.end()
    assert status == 0, err
    assert "the system gives no process, trying again: [Errno 24] too many open files" in err


def test_what_does_not_end_after_a_second_signal_is_killed_soon(program: Start) -> None:
    child = "print('there', flush=True)\nwhile True: signal.pause()"
    supervised = program(SUPERVISE + f"    supervise({child!r}, 1, 3600)\n")
    assert supervised.line() == "there"
    for _ in range(2):
        supervised.process.send_signal(signal.SIGTERM)
        assert supervised.line() == "came"
    status, _, err = supervised.end(30)
    assert status == 128 + signal.SIGKILL, err


def test_links_that_lead_to_themselves_are_no_sources(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "loop.py").symlink_to("loop.py")
    (tmp_path / "gone.py").symlink_to("nowhere.py")
    (tmp_path / "shop.py").touch()
    assert list(supervisor._sources()) == [str(tmp_path / "shop.py")]
