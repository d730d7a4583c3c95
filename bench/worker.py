"""A worker of no-op jobs, which on SIGTERM prints what it saw: `worker.py <url> <queue> <concurrency>`.

The same as `duly-bench worker` and `bench/worker.php`.
"""

from __future__ import annotations

import json
import resource
import sys
import time

import duly


def main(url: str, queue: str, concurrency: int) -> None:
    worker = duly.Worker(duly.Client(url), [queue], concurrency=concurrency)
    first_ns = last_ns = 0
    late_us: list[float] = []

    @worker.on(None)
    def note(job: duly.Job) -> None:
        nonlocal first_ns, last_ns
        last_ns = time.monotonic_ns()
        first_ns = first_ns or last_ns
        late_us.append((last_ns - job.data["t"]) / 1e3)

    report = worker.run()
    usage = resource.getrusage(resource.RUSAGE_SELF)
    seen = {
        "n": len(late_us),
        "acked": report.acked,
        "first_ns": first_ns,
        "last_ns": last_ns,
        "cpu_us": round((usage.ru_utime + usage.ru_stime) * 1e6),
        "late_us": late_us,
    }
    print(json.dumps(seen))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
