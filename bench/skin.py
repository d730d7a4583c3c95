"""One call at a time through the Python skin: prints one JSON object a figure, as `duly-bench` does."""

from __future__ import annotations

import json
import statistics
import sys
import time

import duly

RUNS = 5
CALLS = 1_000
DATA = {"order_id": 42, "to": "someone@example.org", "body": "x" * 147}


def main(url: str) -> None:
    queue = duly.Client(url).queue("python")
    figures: dict[str, list[float]] = {"push": [], "reserve": [], "ack": []}
    for run in range(RUNS + 1):
        started = time.perf_counter()
        for _ in range(CALLS):
            queue.push(DATA)
        pushed = time.perf_counter()
        jobs = [queue.reserve(lease=600.0) for _ in range(CALLS)]
        reserved = time.perf_counter()
        for job in jobs:
            if job is None:
                sys.exit("a job was not reserved")
            job.ack()
        acked = time.perf_counter()
        if run == 0:
            continue  # the first only warms up
        for verb, took in zip(figures, (pushed - started, reserved - pushed, acked - reserved), strict=True):
            figures[verb].append(took / CALLS * 1e6)
    for verb, took_us in figures.items():
        figure = {
            "metric": f"skin.python_us_per_{verb}",
            "value": round(statistics.median(took_us), 3),
            "unit": "us",
            "runs": RUNS,
            "min": round(min(took_us), 3),
            "max": round(max(took_us), 3),
        }
        print(json.dumps(figure))


if __name__ == "__main__":
    main(sys.argv[1])
