"""What handlers end when they are interrupted as their worker stops, and what is closed behind that."""

from __future__ import annotations

import re
import signal

import pytest
from support import StartProgram

HANDLERS = """
    import asyncio, logging, sys, threading, time
    logging.basicConfig(level="ERROR", format="%(message)s")
    worker = duly.Worker(duly.Client(URL, prefix=PREFIX), ["q"], grace=GRACE)
    jobs = duly.Client(URL, prefix=PREFIX).queue("q")

    @worker.on("def")
    def handle(job):
        try:
            print("begins", flush=True)
            while True:
                time.sleep(0.001)
        finally:
            print("cleans up", flush=True)
            time.sleep(CLEANS_UP_FOR)
            print("has cleaned up", flush=True)

    @worker.on("async def")
    async def handle_async(job):
        try:
            print("begins", flush=True)
            while True:
                await asyncio.sleep(0.01)
        finally:
            print("cleans up", flush=True)
            await asyncio.sleep(CLEANS_UP_FOR)
            print("has cleaned up", flush=True)

    @worker.on("in a loop of its own")
    def in_a_loop(job):
        asyncio.run(handle_async(job))

    @worker.on("C code")
    def in_c_code(job):
        print("begins", flush=True)
        time.sleep(CLEANS_UP_FOR)

    @worker.on_stop
    def close():
        print("closed", flush=True)
"""
KINDS = ["def", "async def", "in a loop of its own"]


def handlers(grace: float, cleans_up_for: float) -> str:
    return HANDLERS.replace("GRACE", str(grace)).replace("CLEANS_UP_FOR", str(cleans_up_for))


@pytest.mark.parametrize("kind", KINDS)
def test_what_cleans_up_at_the_end_of_the_grace_ends_before_anything_is_closed(
    program: StartProgram, kind: str
) -> None:
    code = f"""
    jobs.push(1, name={kind!r})
    worker.run()
    """
    started = program(handlers(0.1, 1.5) + code)
    assert started.line() == "begins"
    started.process.send_signal(signal.SIGTERM)
    assert started.ends_well() == "cleans up\nhas cleaned up\nclosed\n"


@pytest.mark.parametrize("kind", KINDS)
def test_a_further_signal_ends_the_wait_for_a_clean_up(program: StartProgram, kind: str) -> None:
    code = f"""
    import os
    import duly._watch
    duly._watch.PATIENCE_S = 3600
    jobs.push(1, name={kind!r})
    worker.run()
    os._exit(0)
    """
    started = program(handlers(3600, 3600) + code)
    assert started.line() == "begins"
    started.process.send_signal(signal.SIGTERM)
    started.process.send_signal(signal.SIGINT)  # ends the grace
    assert started.line() == "cleans up"
    started.process.send_signal(signal.SIGTERM)
    status, out, err = started.end(20)
    assert (status, out) == (0, "closed\n"), err
    (line,) = [one for one in err.splitlines() if "left behind" in one]
    assert re.fullmatch(r"the handler of job \w+ of queue q was interrupted and has not ended: it is left behind", line)


def test_no_worker_waits_for_what_does_not_clean_up(program: StartProgram) -> None:
    code = """
    import os
    import duly._watch
    duly._watch.PATIENCE_S = 3600
    jobs.push(1, name="C code")
    worker.run()
    os._exit(0)
    """
    started = program(handlers(0.1, 3600) + code)
    assert started.line() == "begins"
    started.process.send_signal(signal.SIGTERM)
    assert started.end(20) == (0, "closed\n", "")


def test_a_clean_up_behind_a_timeout_is_waited_for_at_a_stop(program: StartProgram) -> None:
    code = """
    jobs.push(1, name="def", timeout=0.2, max_retries=0)
    worker.run()
    """
    started = program(handlers(60, 1.5) + code)
    assert (started.line(), started.line()) == ("begins", "cleans up")
    started.process.send_signal(signal.SIGTERM)
    status, out, err = started.end(20)
    assert (status, out) == (0, "has cleaned up\nclosed\n"), err
