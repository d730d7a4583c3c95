"""A system without the signals of POSIX, as Windows is one: simulated, because there is no build for Windows."""

from __future__ import annotations

from support import StartProgram

WITHOUT_POSIX = """
import signal, sys
for name in ("SIGQUIT", "SIGCHLD", "SIGKILL", "SIGHUP", "SIG_BLOCK", "SIG_UNBLOCK", "SIG_SETMASK", "pthread_sigmask"):
    delattr(signal, name)
for name in [name for name in sys.modules if name.partition(".")[0] == "duly"]:
    del sys.modules[name]
"""


def test_without_the_signals_of_posix_a_push_works_and_a_worker_says_where_it_runs(program: StartProgram) -> None:
    windows = program(f"""
{WITHOUT_POSIX}
import asyncio
import duly, duly.aio, duly.cli, duly.testing

app = duly.App(URL, prefix=PREFIX)
close = app.task("close")(lambda: None)
print(close.push().find().state)
queue = app.queue()
queue.push_many([close.job()] * 3)
print(queue.counts().ready, asyncio.run(close.apush()) != "")
job = queue.reserve()
job.ack()
try:
    app.worker().run()
except duly.UnsupportedError as error:
    print(error)
print(duly.cli.main(["worker", "shop"]))
print(duly.cli.main(["counts", "default", "--url", URL, "--prefix", PREFIX]))
""")
    status, out, err = windows.end()
    assert status == 0, err
    assert out.splitlines() == [
        "ready",
        "4 True",
        "workers do not run on this system (Windows): use Linux, macOS or WSL",
        "2",
        "default: delayed 0  ready 4  reserved 0  failed 0",
        "0",
    ]
    assert err == "duly: workers do not run on this system (Windows): use Linux, macOS or WSL\n"
