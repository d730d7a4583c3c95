"""The supervisor of `duly worker`, with processes that are no workers; `test_cli.py` has what it does with workers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
from datetime import timedelta
from pathlib import Path
from typing import Any

import duly
import pytest
from duly import supervisor
from support import Program, Server, StartProgram, until

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


def test_errors_of_several_processes_do_not_end_the_grace_of_the_others(program: StartProgram, tmp_path: Path) -> None:
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
    os.write(int(os.environ["DULY_SUPERVISED"].split(":")[1]), b"fatal\\n")
    os._exit(1)
while not came: time.sleep(0.01)
os._exit(1)
"""
    status, out, err = program(SUPERVISE + f"    supervise({child!r}, 3, 60)\n").end()
    assert status == 1, err
    assert "asked 1" in out
    assert err.count("all stop") == 1, err


def test_no_exit_status_of_a_handler_stops_all(program: StartProgram, tmp_path: Path) -> None:
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
    assert [err.count(f"ended with exit code {status} ") for status in (1, 2, 121)] == [1, 1, 1], err


def starts_and_stops(program: StartProgram, code: str) -> str:
    """Have a process supervised by a program that begins so, and stopped; give what the program logs."""
    child = "print('there', flush=True)\nwhile not came: time.sleep(0.01)"
    supervised = program(SUPERVISE + code + f"    supervise({child!r}, 1, 60)\n")
    assert supervised.line() == "there"
    supervised.process.send_signal(signal.SIGTERM)
    status, _, err = supervised.end()
    assert status == 0, err
    return err


def test_it_goes_on_when_the_system_gives_no_process(program: StartProgram) -> None:
    code = """
    start, errors = supervisor._start, [OSError("no memory"), OSError("too many processes")]

    def seldom(*given):
        if errors:
            raise errors.pop()
        return start(*given)

    supervisor._start = seldom
"""
    err = starts_and_stops(program, code)
    assert "the system gives no process; trying again in 1 s: too many processes" in err


def test_it_hears_signals_after_a_moment_without_descriptors(program: StartProgram) -> None:
    code = """
    import os
    start, pipe, errors = supervisor._start, os.pipe, [OSError(24, "too many open files")]

    def fails():
        raise errors.pop()

    def once(*given):
        os.pipe = fails if errors else pipe
        try:
            return start(*given)
        finally:
            os.pipe = pipe

    supervisor._start = once
"""
    err = starts_and_stops(program, code)
    assert "the system gives no process; trying again in 1 s: [Errno 24] too many open files" in err


def test_a_program_with_very_many_open_files_supervises_too(program: StartProgram) -> None:
    code = """
    import os, resource
    resource.setrlimit(resource.RLIMIT_NOFILE, (2048, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    files = [os.open("/dev/null", os.O_RDONLY) for _ in range(1100)]
"""
    starts_and_stops(program, code)


def test_what_does_not_end_after_a_second_signal_is_killed_soon(program: StartProgram) -> None:
    child = "print('there', flush=True)\nwhile True: signal.pause()"
    supervised = program(SUPERVISE + f"    supervise({child!r}, 1, 3600)\n")
    assert supervised.line() == "there"
    for _ in range(2):
        supervised.process.send_signal(signal.SIGTERM)
        assert supervised.line() == "came"
    status, _, err = supervised.end(30)
    assert status == 128 + signal.SIGKILL, err


def test_as_the_first_process_of_a_container_it_reaps_those_whose_parent_has_ended() -> None:
    first = ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--kill-child"]
    tried = subprocess.run([*first, "true"], capture_output=True, text=True, check=False)
    if tried.returncode != 0:
        pytest.skip(f"not run: this system gives no namespace of processes: {tried.stderr}")
    child = "import os, signal\nfor _ in range(5): os.system('true &')\nprint('there', flush=True)\nsignal.pause()"
    code = f"import duly, sys\nsys.exit(duly.Supervisor([sys.executable, '-c', {child!r}], 1).run())"
    with subprocess.Popen([*first, sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as container:
        try:
            assert container.stdout is not None
            assert container.stdout.readline() == "there\n"
            (supervisor_id,) = children_of(container.pid)
            until(lambda: len(children_of(supervisor_id)) == 1, "zombies stay")
            os.kill(supervisor_id, signal.SIGTERM)
            assert container.wait(60) == 0
        finally:
            container.kill()


def children_of(process: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{process}/task/{process}/children").read_text().split()]


def test_links_that_lead_to_themselves_are_no_sources(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "loop.py").symlink_to("loop.py")
    (tmp_path / "gone.py").symlink_to("nowhere.py")
    (tmp_path / "shop.py").touch()
    assert list(supervisor._sources()) == [str(tmp_path / "shop.py")]


SCRIPT = """
import os, signal, sys
import duly

url, prefix, folder = sys.argv[1:4]
worker = duly.Worker(duly.Client(url, prefix=prefix), ["q"], grace=20)


@worker.on(None)
def work(job):
    print(os.getpid(), job.data, "DULY_SUPERVISED" in os.environ, flush=True)


{more}
worker.run()
"""


def script(folder: Path, more: str = "") -> Path:
    file = folder / "worker.py"
    file.write_text(SCRIPT.format(more=more))
    return file


SUPERVISE_SCRIPT = """
import duly, sys
sys.exit(duly.Supervisor([sys.executable, *args], int(processes), grace=30).run())
"""


def supervised(program: StartProgram, server: Server, prefix: str, file: Path, processes: int = 1) -> Program:
    args = [str(file), server.url, prefix, str(file.parent)]
    return program(f"    args, processes = {args!r}, {processes}\n" + textwrap.indent(SUPERVISE_SCRIPT, "    "))


def pid_and_data(line: str) -> tuple[int, str]:
    pid, data, knows = line.split()
    assert knows == "False", "programs of a handler would take themselves for its processes"
    return int(pid), data


def test_a_script_with_a_worker_needs_nothing_for_its_supervisor(
    program: StartProgram, server: Server, prefix: str, queue: duly.Queue, tmp_path: Path
) -> None:
    supervisor = supervised(program, server, prefix, script(tmp_path))
    queue.push("a")
    first, _ = pid_and_data(supervisor.line())
    os.kill(first, signal.SIGKILL)
    queue.push("b")
    second, _ = pid_and_data(supervisor.line())
    assert second != first
    os.kill(second, signal.SIGHUP)  # `systemctl kill` sends it to all; it is the supervisor's
    supervisor.process.send_signal(signal.SIGHUP)
    until(lambda: not Path(f"/proc/{second}").exists(), "it was not replaced")
    queue.push("c")
    third, data = pid_and_data(supervisor.line())
    assert third != second
    assert data == "c"
    supervisor.process.send_signal(signal.SIGTERM)
    status, _, err = supervisor.end()
    assert status == 0, err


def test_a_permanent_error_of_a_script_stops_all(
    program: StartProgram, own_server: Server, prefix: str, tmp_path: Path
) -> None:
    own_server.cli("CONFIG", "SET", "requirepass", "s3cret")
    status, _, err = supervised(program, own_server, prefix, script(tmp_path), 2).end()
    assert status == 1, err
    assert "met a permanent error, which every other one would meet, too: all stop" in err


def test_a_program_without_a_worker_says_when_it_is_ready(program: StartProgram, tmp_path: Path) -> None:
    child = tmp_path / "child.py"
    child.write_text("""
import os, signal
from duly import supervisor

came = []
signal.signal(signal.SIGTERM, lambda *_: came.append(1))
supervisor.ready()
supervisor.ready()  # once more changes nothing
os.write(1, f"{os.getpid()}\\n".encode())  # whole: the other one writes, too
while not came:
    signal.pause()
os.write(1, b"ends\\n")
""")
    code = f"    args, processes = [{str(child)!r}], 2\n" + textwrap.indent(SUPERVISE_SCRIPT, "    ")
    supervised = program(code)
    first = {supervised.line(), supervised.line()}
    supervised.process.send_signal(signal.SIGUSR2)  # one after the other: only when all are ready
    lines = [supervised.line() for _ in range(4)]
    assert lines.count("ends") == 2
    assert lines[0] == "ends"
    assert not first & set(lines)
    supervised.process.send_signal(signal.SIGTERM)
    status, out, err = supervised.end()
    assert (status, out.count("ends")) == (0, 2), err


def test_it_is_nothing_for_a_process_without_a_supervisor(monkeypatch: pytest.MonkeyPatch) -> None:
    supervisor.ready()
    monkeypatch.setenv("DULY_SUPERVISED", f"{os.getpid()}:1")  # that of a grandchild
    supervisor.ready()
    assert "DULY_SUPERVISED" not in os.environ


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"command": "python worker.py"}, "command must be a list of texts"),
    ({"command": []}, "command must be a list of texts"),
    ({"command": [5]}, "command must be a list of texts"),
    ({"processes": 0}, "processes must be a whole number"),
    ({"processes": 10_001}, "processes must be a whole number from 1 to 10000"),
    ({"processes": True}, "processes must be an int, not bool"),
    ({"grace": -1}, "grace: seconds must be 0 or more"),
    ({"grace": "5"}, "grace must be seconds"),
    ({"grace": timedelta(days=1, seconds=1)}, "a supervisor's grace is at most 24 h"),
]


@pytest.mark.parametrize(("given", "said"), WRONG)
def test_wrong_arguments_are_refused(given: dict[str, Any], said: str) -> None:
    with pytest.raises(duly.InvalidArgumentError, match=said):
        duly.Supervisor(**{"command": ["true"], "processes": 1, **given})


def test_a_program_that_is_not_there_is_refused_and_signals_are_as_before() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(duly.InvalidArgumentError, match=r"cannot be started: .*no/such/program"):
        duly.Supervisor(["/no/such/program"], 2).run()
    assert signal.getsignal(signal.SIGTERM) == before


def test_it_runs_on_the_main_thread() -> None:
    def run() -> None:
        with pytest.raises(duly.InvalidArgumentError, match="main thread"):
            duly.Supervisor(["true"], 1, grace=timedelta(seconds=1)).run()
        said.append(True)

    said: list[bool] = []
    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert said
