#!/usr/bin/env python3
"""Runs a command on a machine that stalls: tools/stalling.py command [argument ...]

Again and again all its processes, servers included, are frozen at once for up to half a second, as a virtual machine
is whose host is busy; the leases of the tests are made for that. Ends as the command ends. `DULY_SEED` repeats the same
pauses.
"""

import contextlib
import os
import random
import subprocess
import sys
import time

import psutil


def freeze(process: psutil.Process) -> bool:
    """Not what somebody else has frozen: it must not be thawed with the rest."""
    try:
        if process.status() == psutil.STATUS_STOPPED:
            return False
        process.suspend()
    except psutil.NoSuchProcess:
        return False
    return True


def thaw(process: psutil.Process) -> None:
    with contextlib.suppress(psutil.NoSuchProcess):  # ended in the same moment
        process.resume()


def main() -> int:
    chance = random.Random(int(os.environ.get("DULY_SEED", "24301")))
    command = subprocess.Popen(sys.argv[1:])
    root = psutil.Process(command.pid)
    stalls = 0
    while True:
        try:
            status = command.wait(timeout=chance.uniform(0.5, 5))
            break
        except subprocess.TimeoutExpired:
            pass
        try:
            frozen = [one for one in [root, *root.children(recursive=True)] if freeze(one)]
        except psutil.NoSuchProcess:
            continue
        time.sleep(chance.uniform(0.05, 0.5))
        for one in reversed(frozen):
            thaw(one)
        stalls += 1
    print(f"the machine stalled {stalls} times")
    return status


if __name__ == "__main__":
    sys.exit(main())
