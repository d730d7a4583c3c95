"""The end of the demo where somebody sits at a terminal: `duly web`, until Ctrl-C."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from collections.abc import Iterator

from demo.stage import Process, Stage


def is_wanted() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty()


def serve(stage: Stage) -> tuple[Process, str]:
    """Give the process, and the address that signs in one browser."""
    # Without a password, whatever the environment says: so the address has a token.
    command: list[str] = [sys.executable, "-m", "duly", "web", "--listen", "127.0.0.1:0"]
    web = stage.start("web", ["env", "-u", "DULY_WEB_PASSWORD", *command])
    give_up_at = time.monotonic() + 15
    while time.monotonic() < give_up_at and web.popen.poll() is None:
        if address := next((line.strip() for line in list(web.log) if line.startswith("http://")), None):
            return web, address
        time.sleep(0.02)
    raise RuntimeError(f"the page does not start:\n{''.join(web.log)}")


@contextlib.contextmanager
def ctrl_c_for_us_alone() -> Iterator[None]:
    """The `make` that waits for us would get it too, and end as one that was interrupted."""
    terminal, before = sys.stdin.fileno(), os.getpgrp()
    if os.getpid() == before or os.tcgetpgrp(terminal) != before:
        yield
        return
    # Whoever would continue us after a Ctrl-Z knows the other group only.
    ignored = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGTTOU, signal.SIGTSTP)}
    os.setpgid(0, 0)
    os.tcsetpgrp(terminal, os.getpgrp())
    try:
        yield
    finally:
        # It may be gone by now, or the terminal.
        with contextlib.suppress(OSError):
            os.tcsetpgrp(terminal, before)
            os.setpgid(0, before)
        for number, handler in ignored.items():
            signal.signal(number, handler)
