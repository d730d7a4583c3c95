"""Closes orders that nobody paid for: a worker process in Python.

If a handler returns, the job is done; if it raises, the job has failed, and its retry policy decides what comes next.
"""

import json
import os
import sqlite3
import sys
import time

import duly

client = duly.Client()  # DULY_URL says where
# A short lease: if this process dies, another takes its job over that soon. While a handler runs, the lease is renewed
# by a native thread, so a long handler does not need a long lease.
worker = duly.Worker(client, ["orders"], concurrency=4, lease=1.5, grace=5.0)


def tell(what: str, job: duly.Job | None = None) -> None:
    """Tells the director; demo/run.py reads these lines. One write a line, because handlers run in several threads."""
    line = {"what": what, "at": time.time()}
    if job is not None:
        line |= {"job": job.id, "attempt": job.attempt, "token": job.token, "about": f"order {job.data['order_id']}"}
    sys.stdout.write(f"@ {json.dumps(line)}\n")
    sys.stdout.flush()


@worker.on("order.close")
def close_order(job: duly.Job) -> None:
    tell("started", job)
    number = job.data["order_id"]
    db = sqlite3.connect(os.environ["DEMO_DB"], timeout=5)
    try:
        (trouble,) = db.execute("SELECT trouble FROM orders WHERE number = ?", (number,)).fetchone()
        try:
            get_into(trouble, job)
        except RuntimeError:
            tell("failed", job)
            raise
        # The token is larger than that of any earlier run of this job, so the database itself can refuse a worker that
        # was thought dead and comes back late.
        with db:
            db.execute(
                "UPDATE orders SET state = 'closed', token = ? WHERE number = ? AND state = 'open' AND token < ?",
                (job.token, number, job.token),
            )
    finally:
        db.close()
    tell("done", job)


def get_into(trouble: str, job: duly.Job) -> None:
    """The troubles that the demo asks for."""
    if trouble == "the bank answers at the third call" and job.attempt < 3:
        raise RuntimeError("no answer from the bank")
    if trouble == "the bank is closed":
        raise RuntimeError("the bank is closed")
    if trouble == "it takes long":
        time.sleep(30)


tell("ready")
worker.run()  # until SIGTERM or Ctrl-C
