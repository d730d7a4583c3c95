"""Signals end commands: those of the program `duly`, those that a program runs, and what is forked meanwhile."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from textwrap import dedent

import duly
import pytest
from support import Program, Server, StartProgram, asks, catches, programs, until, way_to

BEGIN = """
import multiprocessing, os, signal, sys, threading, time, warnings
warnings.simplefilter("ignore", DeprecationWarning)
said = []

def catches(pid, number):
    with open(f"/proc/{pid}/status") as status:
        return int(status.read().partition("SigCgt:")[2].split()[0], 16) >> (number - 1) & 1
"""

ENDS = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGHUP: 129}


def test_each_command_of_a_program_hears_of_ctrl_c(program: StartProgram) -> None:
    both = program("""
        for run in range(2):
            print(duly.command(["web", "--listen", "127.0.0.1:0", "--url", URL, "--prefix", PREFIX]))
    """)
    for _ in range(2):
        assert both.line().startswith("http://")
        both.process.send_signal(signal.SIGINT)
        assert both.line() == "130"
    assert both.ends_well() == ""


@pytest.mark.parametrize("meanwhile", ["another command", "a handler"])
def test_a_command_that_ends_takes_no_signal_from_others(
    program: StartProgram, server: Server, prefix: str, meanwhile: str
) -> None:
    server.cli("rpush", f"{prefix}old", "1")
    may_go_on = threading.Event()
    with way_to(server, f"{prefix}old".encode(), lambda: may_go_on.wait(30)) as url:
        code = f"""
            drain = ["bridge", "drain", "--from", "list", "--ready", PREFIX + "old", "--to", "orders"]
            page = ["web", "--listen", "127.0.0.1:0"]
            if {meanwhile!r} == "another command":
                signal.signal(signal.SIGTERM, lambda *_: said.append(print("handled")))

            def run(*command):
                status = duly.command([*command, "--prefix", PREFIX])
                print(command[0], status)

            threads = [threading.Thread(target=run, args=(*drain, "--url", {url!r}))]
            threads[0].start()
            while not catches("self", signal.SIGHUP):
                time.sleep(0.01)
            if {meanwhile!r} == "another command":
                threads.append(threading.Thread(target=run, args=(*page, "--url", URL)))
                threads[1].start()
            else:
                signal.signal(signal.SIGTERM, lambda *_: said.append(print("handled meanwhile")))
                print("handler is set")
            for thread in threads:
                thread.join()
            os.kill(os.getpid(), signal.SIGTERM)
            while not said:
                time.sleep(0.01)
            print("interrupted")
            os.kill(os.getpid(), signal.SIGHUP)
        """
        both = program(BEGIN + dedent(code))
        assert both.line().startswith(("http://", "handler"))
        may_go_on.set()
        line = both.line()
        while line != "bridge 0":
            assert line, both.end()
            line = both.line()
    if meanwhile == "another command":
        both.process.send_signal(signal.SIGTERM)
        assert both.line() == "web 0"
    assert both.line() == ("handled" if meanwhile == "another command" else "handled meanwhile")
    assert both.line() == "interrupted"
    assert both.end()[0] == -signal.SIGHUP


@pytest.mark.parametrize("other_begins", ["before it", "behind it"])
def test_a_signal_that_comes_while_two_commands_run_goes_to_the_program(
    program: StartProgram, server: Server, orders: duly.Queue, tmp_path: Path, other_begins: str
) -> None:
    orders.push(1)
    are_held = [threading.Event(), threading.Event()]
    may_go_on = [threading.Event(), threading.Event()]

    def hold(number: int) -> None:
        are_held[number].set()
        may_go_on[number].wait(30)

    with way_to(server, b"{orders}", lambda: hold(0)) as one, way_to(server, b"{orders}", lambda: hold(1)) as two:
        code = f"""
            signal.signal(signal.SIGTERM, lambda *_: said.append("handled"))

            def run(url):
                status = duly.command(["purge", "orders", "ready", "--yes", "--url", url, "--prefix", PREFIX])
                print("status", status)

            def wait_for(name):
                while not os.path.exists(os.path.join({str(tmp_path)!r}, name)):
                    time.sleep(0.01)

            threads = [threading.Thread(target=run, args=(url,)) for url in ({one!r}, {two!r})]
            threads[0].start()
            wait_for("first")
            if {other_begins!r} == "behind it":
                os.kill(os.getpid(), signal.SIGTERM)
            threads[1].start()
            wait_for("second")
            if {other_begins!r} == "before it":
                os.kill(os.getpid(), signal.SIGTERM)
            print("both run", said)
            for thread in threads:
                thread.join()
            while not said:
                time.sleep(0.01)
            print(said)
        """
        both = program(BEGIN + dedent(code))
        for is_held, name in zip(are_held, ("first", "second"), strict=True):
            assert is_held.wait(30)
            (tmp_path / name).touch()
        assert both.line() == "both run []"
        for goes_on in may_go_on:
            goes_on.set()
            # It may have ended before it looked.
            while not (line := both.line()).startswith("status"):
                assert line, both.end()
        assert both.line() == "['handled']"
        assert both.end()[0] == 0


@pytest.mark.parametrize("by", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_a_push_of_a_program_that_waits_for_its_input(
    orders: duly.Queue, server: Server, prefix: str, by: signal.Signals
) -> None:
    code = f"""
    import duly, signal
    signal.signal({int(by)}, lambda *_: None)
    print("ready", flush=True)
    print("status", duly.command(["push", "orders", "--url", {server.url!r}, "--prefix", {prefix!r}]), flush=True)
    print("next", input())
    """
    command = [sys.executable, "-c", dedent(code)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        said: list[str] = []
        reads = threading.Thread(target=lambda: said.append(process.stdout.readline()))  # type: ignore[union-attr]
        reads.start()

        def is_ended() -> bool:
            process.send_signal(by)  # again, as the command may not hear of it yet
            reads.join(0.2)
            return bool(said)

        until(is_ended, "it does not end", 20)
        # What comes behind it is the program's.
        out, err = process.communicate("line\n", timeout=20)
    assert (said, out) == ([f"status {ENDS[by]}\n"], "next line\n")
    assert "interrupted; nothing was pushed" in err
    assert orders.counts().ready == 0


@pytest.mark.parametrize("by", [*ENDS, None], ids=lambda by: by.name if by else "Ctrl-C, unhandled")
@pytest.mark.parametrize("what", ["cancel", "purge", "requeue"])
def test_a_signal_ends_a_command_of_a_program_between_two_calls(
    program: StartProgram,
    server: Server,
    orders: duly.Queue,
    what: str,
    by: signal.Signals | None,
) -> None:
    orders.push_many([duly.NewJob(number, id=f"job-{number:04}") for number in range(2000)])
    if what == "requeue":
        while jobs := orders.reserve_many(1000):
            for job in jobs:
                job.fail("no", final=True)
    arguments, word, done, said = {
        # A job of the second call: those that come last are found first.
        "cancel": (
            ["cancel", "orders", "--only", "ready", "--priority", "5"],
            b"job-1899",
            200,
            "200 of 2000 jobs are removed",
        ),
        "purge": (["purge", "orders", "ready"], b"+inf", 500, "; 500 jobs were removed before that"),
        "requeue": (["requeue", "orders", "--all"], b"job-0499", 500, "; 500 jobs were made ready before that"),
    }[what]
    started: list[Program] = []

    def come() -> None:
        started[0].process.send_signal(by or signal.SIGINT)
        time.sleep(0.3)

    with way_to(server, word, come) as url:
        started.append(
            program(f"""
            import signal, threading, time
            if {by is not None}:
                signal.signal({int(by or 0)}, lambda *_: print("handled"))
            goes_on = threading.Event()
            threading.Thread(target=lambda: (time.sleep(0.1), goes_on.set()), daemon=True).start()
            status = duly.command([*{arguments!r}, "--yes", "--url", {url!r}, "--prefix", PREFIX])
            print("status", status, goes_on.is_set())
        """)
        )
        status, out, err = started[0].end()
    assert said in out + err, (out, err)
    assert "interrupted" in err
    assert (orders.counts().ready if what == "requeue" else 2000 - orders.counts().ready) == done
    if by is None:
        assert (status, "KeyboardInterrupt" in err, "status" in out) == (-signal.SIGINT, True, False)
    else:
        assert (status, out.splitlines()[-2:]) == (0, ["handled", f"status {ENDS[by]} True"])


@pytest.mark.parametrize("by", [*ENDS, None], ids=lambda by: by.name if by else "Ctrl-C, unhandled")
def test_a_signal_at_a_question_of_a_program_does_nothing(
    server: Server, prefix: str, orders: duly.Queue, by: signal.Signals | None
) -> None:
    orders.push(1)
    code = f"""if True:
        import duly, signal
        if {by is not None}:
            signal.signal({int(by or 0)}, lambda *_: None)
        print("status", duly.command(["purge", "orders", "ready", "--url", {server.url!r}, "--prefix", {prefix!r}]))
        print("read", input())
    """
    with asks([sys.executable, "-c", code]) as (process, ours):
        process.send_signal(by or signal.SIGINT)
        if by is not None:
            # It is no answer to the question.
            os.write(ours, b"y\n")
        out, err = process.communicate(timeout=20)
    assert b"duly: interrupted; nothing was changed" in err
    assert orders.counts().ready == 1
    if by is None:
        assert (process.returncode, out) == (-signal.SIGINT, b"")
    else:
        assert (process.returncode, out) == (0, f"status {ENDS[by]}\nread y\n".encode())


@pytest.mark.parametrize("command", [["counts", "orders"], ["purge", "orders", "ready", "--yes"], ["pause", "orders"]])
def test_a_signal_ends_a_command_of_a_program_whose_server_hangs(own_server: Server, command: list[str]) -> None:
    duly.Client(own_server.url).queue("orders").push(1)
    is_frozen = threading.Event()

    def freeze() -> None:
        own_server.freeze()
        is_frozen.set()

    with programs(own_server, "duly:") as program, way_to(own_server, b"{orders}", freeze) as url:
        hangs = program(f"""
            import signal
            signal.signal(signal.SIGTERM, lambda *_: print("handled"))
            print("status", duly.command([*{command!r}, "--url", {url!r}]))
        """)
        assert is_frozen.wait(30)
        hangs.process.send_signal(signal.SIGTERM)
        status, out, err = hangs.end(6)
        own_server.thaw()
    assert (status, out) == (0, "handled\nstatus 143\n"), err
    assert "duly: interrupted\n" in err if command[0] == "counts" else "this call may have been executed" in err


@pytest.mark.parametrize("when", ["at the start", "later", "twice"])
def test_a_signal_ends_a_bridge_whose_server_hangs(own_server: Server, when: str) -> None:
    queue = duly.Client(own_server.url).queue("orders")
    own_server.cli("rpush", "old", "1")
    options = ["--from", "list", "--ready", "old", "--to", "orders", "--url", own_server.url]
    if when == "at the start":
        own_server.freeze()
    command = [sys.executable, "-m", "duly", "bridge", "follow", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as follow:
        try:
            until(lambda: catches(follow.pid, signal.SIGHUP), "it hears of no signals")
            if when != "at the start":
                until(lambda: queue.counts().ready == 1, "it does not come over")
                own_server.freeze()
            follow.send_signal(signal.SIGTERM)
            if when == "twice":
                time.sleep(0.5)
                follow.send_signal(signal.SIGTERM)
            out, err = follow.communicate(timeout=1.5 if when == "twice" else 8)
        finally:
            follow.kill()
            own_server.thaw()
    if when == "twice":
        assert (follow.returncode, "interrupted: what is in flight waits" in err) == (130, True)
        return
    unnoted = "duly: this is not in the log of actions, `duly actions`: the server does not answer\n"
    assert (follow.returncode, err) == (0, unnoted if when == "later" else "")
    assert "the old keys could not be counted at the end: " in out
    assert bool(re.search(r"^old +ready +1 +[01] +\?$", out, re.MULTILINE)) == (when == "later")


def test_a_signal_ends_the_page_whose_server_hangs(own_server: Server) -> None:
    own_server.freeze()
    command = [sys.executable, "-m", "duly", "web", "--listen", "127.0.0.1:0", "--url", own_server.url]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as web:
        try:
            until(lambda: catches(web.pid, signal.SIGHUP), "it hears of no signals")
            web.send_signal(signal.SIGTERM)
            assert web.communicate(timeout=2) == ("", "")
        finally:
            web.kill()
            own_server.thaw()
    assert web.returncode == 0


COMMANDS = {
    "web": ["web", "--listen", "127.0.0.1:0"],
    "follow": ["bridge", "follow", "--from", "list", "--ready", "old", "--to", "orders"],
}

RUN = """
COMMAND = [*{command!r}, "--url", URL, "--prefix", PREFIX]
thread = threading.Thread(target=duly.command, args=(COMMAND,), daemon=True)
thread.start()
while not catches("self", signal.SIGHUP):
    time.sleep(0.01)
context = multiprocessing.get_context("fork")
"""


@pytest.mark.parametrize("command", COMMANDS)
def test_signals_end_what_was_forked_while_a_command_runs(program: StartProgram, command: str) -> None:
    code = """
        for number in (signal.SIGTERM, signal.SIGHUP):
            child = context.Process(target=time.sleep, args=(60,))
            child.start()
            os.kill(child.pid, number)
            child.join(10)
            print(number.name, child.exitcode)
            child.kill()

        def interrupted():
            try:
                os.kill(os.getpid(), signal.SIGINT)
                time.sleep(10)
            except KeyboardInterrupt:
                os._exit(7)

        child = context.Process(target=interrupted)
        child.start()
        child.join(20)
        print("SIGINT", child.exitcode)
        began = time.monotonic()
        begun = context.Semaphore(0)

        def sleep(_):
            begun.release()
            time.sleep(60)

        with context.Pool(2) as pool:
            pool.map_async(sleep, [1, 2])
            begun.acquire()
            begun.acquire()
        print("pool", time.monotonic() - began < 10, thread.is_alive(), bool(catches("self", signal.SIGHUP)))
        os._exit(0)
    """
    said = [
        line
        for line in program(BEGIN + RUN.format(command=COMMANDS[command]) + dedent(code)).ends_well(90).splitlines()
        if not line.startswith("http")
    ]
    assert said == ["SIGTERM -15", "SIGHUP -1", "SIGINT 7", "pool True True True"]


def test_a_command_of_a_forked_process_hears_of_signals(program: StartProgram) -> None:
    code = """
        signal.signal(signal.SIGTERM, lambda *_: said.append(print("handled")))

        runs = context.Event()

        def run():
            runs.set()
            status = duly.command(COMMAND)
            os.kill(os.getpid(), signal.SIGTERM)
            while not said:
                time.sleep(0.01)
            os._exit(10 + status)

        child = context.Process(target=run)
        child.start()
        runs.wait()
        while not catches(child.pid, signal.SIGHUP):
            time.sleep(0.01)
        os.kill(child.pid, signal.SIGTERM)
        child.join(20)
        print("child", child.exitcode, thread.is_alive())
        child.kill()
        os._exit(0)
    """
    said = [
        line
        for line in program(BEGIN + RUN.format(command=COMMANDS["web"]) + dedent(code)).ends_well(90).splitlines()
        if not line.startswith("http")
    ]
    assert said == ["handled", "child 10 True"]
