"""A worker that notes on the server when each run starts and ends: `worker.py threads|asyncio`.

Its two siblings, `worker.php` and `core/examples/noting_worker.rs`, do the same. A note is a job of the queue `notes`
on the server at NOTING_URL. Where that is the server of the work, too, its journal has the notes in one order with
leases and acks.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
import time
from typing import Any

import duly
import duly.aio

LEASE = float(os.environ["NOTING_LEASE"])
NOTES_URL = os.environ["NOTING_URL"]
CLIENT = duly.Client(manual_clock="NOTING_MANUAL_CLOCK" in os.environ)  # DULY_URL says where


def note(what: str, job: duly.Job) -> str:
    return f"{what} {job.id} {job.token} {os.getpid()} {time.time_ns() // 1000}"


def trouble(data: dict[str, Any], job: duly.Job) -> None:
    match data["do"]:
        case "fail once" if job.attempt == 1:
            raise RuntimeError("once")
        case "fail":
            raise RuntimeError("always")
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)


def in_threads() -> duly.Worker:
    worker = duly.Worker(CLIENT, ["orders"], concurrency=3, lease=LEASE)
    notes = duly.Client(NOTES_URL).queue("notes")

    @worker.on("work")
    def work(job: duly.Job) -> None:
        notes.push(note("start", job))
        time.sleep(job.data["seconds"])
        notes.push(note("end", job))
        trouble(job.data, job)

    return worker


def with_asyncio() -> duly.Worker:
    worker = duly.Worker(CLIENT, ["orders"], concurrency=5, lease=LEASE)
    notes = duly.aio.Client(NOTES_URL).queue("notes")

    @worker.on("work")
    async def work(job: duly.Job) -> None:
        await notes.push(note("start", job))
        await asyncio.sleep(job.data["seconds"])
        await notes.push(note("end", job))
        trouble(job.data, job)

    return worker


logging.basicConfig(level=logging.WARNING, format="%(message)s")
worker = in_threads() if sys.argv[1] == "threads" else with_asyncio()
worker.run()  # until SIGTERM
