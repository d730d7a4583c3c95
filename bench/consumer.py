"""Pulls no-op jobs, and on SIGTERM prints what it saw: `consumer.py <how> <url> <queue> <concurrency>`.

How: `consumer` is `duly.Consumer`, `one_by_one` a reserve and an ack for each job. The same as `bench/worker.py` else.
"""

from __future__ import annotations

import json
import resource
import signal
import sys
import time
from collections.abc import Iterator

import duly


def jobs_of_consumer(url: str, queue: str, concurrency: int) -> Iterator[duly.Job]:
    with duly.Consumer(duly.Client(url), [queue], concurrency=concurrency) as consumer:
        signal.signal(signal.SIGTERM, lambda *_: consumer.stop())
        yield from consumer


def jobs_one_by_one(url: str, queue: str, _concurrency: int) -> Iterator[duly.Job]:
    is_over = False

    def stop(*_: object) -> None:
        nonlocal is_over
        is_over = True

    signal.signal(signal.SIGTERM, stop)
    pulled = duly.Client(url).queue(queue)
    while not is_over:
        job = pulled.reserve(wait=0.2)
        if job is not None:
            yield job


def main(how: str, url: str, queue: str, concurrency: int) -> None:
    first_ns = last_ns = 0
    late_us: list[float] = []
    jobs = jobs_of_consumer if how == "consumer" else jobs_one_by_one
    for job in jobs(url, queue, concurrency):
        last_ns = time.monotonic_ns()
        first_ns = first_ns or last_ns
        late_us.append((last_ns - job.data["t"]) / 1e3)
        job.ack()
    usage = resource.getrusage(resource.RUSAGE_SELF)
    seen = {
        "n": len(late_us),
        "acked": len(late_us),
        "first_ns": first_ns,
        "last_ns": last_ns,
        "cpu_us": round((usage.ru_utime + usage.ru_stime) * 1e6),
        "late_us": late_us,
    }
    print(json.dumps(seen))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]))
