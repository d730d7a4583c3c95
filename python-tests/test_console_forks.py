"""Processes that a program forks while a command runs in another thread of it: signals end them."""

from __future__ import annotations

from collections.abc import Callable
from textwrap import dedent

import pytest
from support import Program

COMMANDS = {
    "web": ["web", "--listen", "127.0.0.1:0"],
    "follow": ["bridge", "follow", "--from", "list", "--ready", "old", "--to", "orders"],
}

BEGIN = """\
import multiprocessing, os, signal, sys, threading, time, warnings
warnings.simplefilter("ignore", DeprecationWarning)
COMMAND = [*{command!r}, "--url", URL, "--prefix", PREFIX]

def caught(number):
    with open("/proc/self/status") as status:
        return int(status.read().partition("SigCgt:")[2].split()[0], 16) >> (number - 1) & 1

thread = threading.Thread(target=duly.command, args=(COMMAND,), daemon=True)
thread.start()
while not caught(signal.SIGHUP):
    time.sleep(0.01)
context = multiprocessing.get_context("fork")
"""


@pytest.mark.parametrize("command", COMMANDS)
def test_signals_end_what_was_forked_while_a_command_runs(program: Callable[[str], Program], command: str) -> None:
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
        with context.Pool(2) as pool:
            pool.map_async(time.sleep, [60, 60])
            time.sleep(0.3)
        print("pool", time.monotonic() - began < 10, thread.is_alive(), caught(signal.SIGHUP))
        os._exit(0)
    """
    said = [
        line
        for line in program(BEGIN.format(command=COMMANDS[command]) + dedent(code)).ends_well(90).splitlines()
        if not line.startswith("http")
    ]
    assert said == ["SIGTERM -15", "SIGHUP -1", "SIGINT 7", "pool True True 1"]


def test_a_command_of_a_forked_process_hears_of_signals(program: Callable[[str], Program]) -> None:
    code = """
        signal.signal(signal.SIGTERM, lambda *_: print("handled"))

        def run():
            status = duly.command(COMMAND)
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(0.1)
            os._exit(10 + status)

        child = context.Process(target=run)
        child.start()
        time.sleep(1)
        os.kill(child.pid, signal.SIGTERM)
        child.join(20)
        print("child", child.exitcode, thread.is_alive())
        child.kill()
        os._exit(0)
    """
    said = [
        line
        for line in program(BEGIN.format(command=COMMANDS["web"]) + dedent(code)).ends_well(90).splitlines()
        if not line.startswith("http")
    ]
    assert said == ["handled", "child 10 True"]
