"""The figures of workers: real worker processes in each language, on a server of their own.

`bench/run.py` calls this. A worker program (`duly-bench worker`, `worker.py`, `worker.php`) runs jobs that do nothing,
and says on SIGTERM when it started each.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duly

Report = dict[str, Any]
Add = Callable[[str, str, list[float]], None]
"""Takes a metric, its unit, and the values of its runs."""

ROOT = Path(__file__).resolve().parent.parent
BODY = "x" * 170
JOBS = 100_000
RUNS = 5
LONG_RUNS = 3
"""Runs of what takes seconds each."""


class Workers:
    """Starts worker programs of one language, and reads what they saw."""

    def __init__(self, command: list[str], url: str) -> None:
        self._command = command
        self.url = url
        self.queue = duly.Client(url).queue("bench")

    @contextmanager
    def running(self, reports: list[Report], *, processes: int = 1, cpu: int | None = None) -> Iterator[list[int]]:
        """Runs workers on a CPU, or on any; gives their process ids. Their reports are there afterwards."""
        started = []
        for _ in range(processes):
            program = [*self._command, self.url, "bench", "1"]
            process = subprocess.Popen(program, cwd=ROOT, stdout=subprocess.PIPE, text=True)
            os.sched_setaffinity(process.pid, os.sched_getaffinity(0) if cpu is None else {cpu})
            started.append(process)
        try:
            yield [process.pid for process in started]
        finally:
            for process in started:
                process.send_signal(signal.SIGTERM)
            for process in started:
                said, _ = process.communicate(timeout=60)
                reports.append(json.loads(said.splitlines()[-1]))

    def fill(self, jobs: int) -> None:
        self.queue.push_many(duly.NewJob({"t": time.monotonic_ns(), "body": BODY}) for _ in range(jobs))

    def until_done(self) -> None:
        while (counts := self.queue.counts()).ready + counts.reserved + counts.delayed > 0:
            time.sleep(0.01)


def measure(languages: dict[str, list[str]], rust: str, url: str, worker_cpu: int, add: Add) -> None:
    """Measures everything; `languages` are the worker programs."""
    for language, command in languages.items():
        workers = Workers(command, url)
        print(f"bench: workers in {language}", file=sys.stderr, flush=True)
        _rates(workers, language, worker_cpu, add)
        _idle(workers, language, worker_cpu, add)
        _lateness(workers, language, worker_cpu, add)
        _same_second(workers, language, worker_cpu, add)
    _loaded_lateness(Workers(languages["python"], url), worker_cpu, add)
    _recovery(Workers(languages["rust"], url), rust, url, add)
    _two_hundred_idle(rust, url, add)


def _rates(workers: Workers, language: str, cpu: int, add: Add) -> None:
    for processes, name in ((1, "rate"), (2, "rate2")):
        rates, cpu_us = [], []
        for _ in range(RUNS if processes == 1 else LONG_RUNS):
            workers.fill(JOBS)
            reports: list[Report] = []
            # Two workers and the server share two CPUs: nothing is pinned then.
            with workers.running(reports, processes=processes, cpu=cpu if processes == 1 else None):
                workers.until_done()
            first = min(report["first_ns"] for report in reports)
            last = max(report["last_ns"] for report in reports)
            rates.append(JOBS / (last - first) * 1e9)
            cpu_us.append(sum(report["cpu_us"] for report in reports) / JOBS)
        add(f"worker.{name}.{language}", "jobs/s", rates)
        if processes == 1:
            add(f"worker.cpu_us.{language}", "us", cpu_us)


def _idle(workers: Workers, language: str, cpu: int, add: Add) -> None:
    p50, p99, rss = [], [], []
    for _ in range(LONG_RUNS):
        reports: list[Report] = []
        with workers.running(reports, cpu=cpu) as pids:
            _warm_up(workers)
            for _ in range(300):
                workers.queue.push({"t": time.monotonic_ns(), "body": BODY})
                time.sleep(random.uniform(0.003, 0.012))
            workers.until_done()
            rss.append(_rss_mb(pids[0]))
        late = sorted(reports[0]["late_us"][1:])
        p50.append(_at(late, 0.5) / 1e3)
        p99.append(_at(late, 0.99) / 1e3)
    add(f"worker.idle_p50_ms.{language}", "ms", p50)
    add(f"worker.idle_p99_ms.{language}", "ms", p99)
    add(f"worker.idle_rss_mb.{language}", "MiB", rss)


def _lateness(workers: Workers, language: str, cpu: int, add: Add) -> None:
    figures: dict[str, list[float]] = {"p50": [], "p99": [], "max": []}
    for _ in range(LONG_RUNS):
        reports: list[Report] = []
        with workers.running(reports, cpu=cpu):
            _warm_up(workers)
            _push_delayed(workers, 500, 5.0)
            time.sleep(5.6)  # looking would disturb: there are two CPUs
            workers.until_done()
        late = sorted(reports[0]["late_us"][1:])
        for name, value in (("p50", _at(late, 0.5)), ("p99", _at(late, 0.99)), ("max", late[-1])):
            figures[name].append(value / 1e3)
    for name, values in figures.items():
        add(f"worker.lateness_{name}_ms.{language}", "ms", values)


def _loaded_lateness(workers: Workers, cpu: int, add: Add) -> None:
    """The same beside a stream of other jobs, at half of what the server can take in and a worker then run."""
    reports: list[Report] = []
    began = time.monotonic()
    workers.fill(JOBS)
    filled = time.monotonic() - began
    with workers.running(reports, cpu=cpu):
        workers.until_done()
    rate = JOBS / (filled + (reports[0]["last_ns"] - reports[0]["first_ns"]) / 1e9)
    load = f"from bench import workers; workers.stream({workers.url!r}, {rate / 2})"
    reports = []
    with workers.running(reports, cpu=cpu):
        _warm_up(workers)
        producer = subprocess.Popen([sys.executable, "-c", load], cwd=ROOT)
        try:
            _push_delayed(workers, 500, 5.0)
            time.sleep(5.2)
        finally:
            producer.kill()
            producer.wait()
        workers.until_done()
    # The jobs of the stream have no due time of their own: they look as late as the machine is old.
    late = sorted(value for value in reports[0]["late_us"] if value < 6e7)
    for name, share in (("p50", 0.5), ("p99", 0.99)):
        add(f"worker.lateness_loaded_{name}_ms", "ms", [_at(late, share) / 1e3])


def stream(url: str, jobs_per_s: float) -> None:
    """Pushes jobs at this rate until it is killed; a due time of 0 marks them."""
    queue = duly.Client(url).queue("bench")
    batch = 200
    began, pushed = time.monotonic(), 0
    while True:
        queue.push_many(duly.NewJob({"t": 0, "body": BODY}) for _ in range(batch))
        pushed += batch
        time.sleep(max(0.0, began + pushed / jobs_per_s - time.monotonic()))


def _same_second(workers: Workers, language: str, cpu: int, add: Add) -> None:
    took = []
    for _ in range(LONG_RUNS):
        reports: list[Report] = []
        at = round(time.time() + 2.0, 3)
        due_ns = time.monotonic_ns() + int((at - time.time()) * 1e9)
        jobs = (duly.NewJob({"t": due_ns, "body": BODY}, at=at) for _ in range(20_000))
        workers.queue.push_many(jobs)
        with workers.running(reports, cpu=cpu):
            workers.until_done()
        took.append((reports[0]["last_ns"] - due_ns) / 1e9)
    add(f"worker.due_same_second_s.{language}", "s", took)


def _recovery(workers: Workers, rust: str, url: str, add: Add) -> None:
    """From the kill -9 of a worker that holds a hundred jobs (lease 1 s) until another has started them all."""
    took = []
    for _ in range(LONG_RUNS):
        workers.fill(100)
        holder = subprocess.Popen([rust, "hold", url, "bench", "100"], cwd=ROOT)
        while workers.queue.counts().reserved < 100:
            time.sleep(0.01)
        reports: list[Report] = []
        with workers.running(reports):
            time.sleep(0.3)
            holder.kill()
            killed = time.monotonic_ns()
            holder.wait()
            workers.until_done()
        took.append((reports[0]["last_ns"] - killed) / 1e6)
    add("worker.recovery_ms", "ms", took)


def reconnect(languages: dict[str, list[str]], start_server: Callable[[], Any], url: str, add: Add) -> None:
    """From the moment a restarted server answers until a job pushed then has started. `start_server` restarts it."""
    for language, command in languages.items():
        took = []
        workers = Workers(command, url)
        reports: list[Report] = []
        with workers.running(reports):
            _warm_up(workers)
            for _ in range(LONG_RUNS):
                start_server()
                workers.queue.push({"t": time.monotonic_ns(), "body": BODY})
                workers.until_done()
        took = [late / 1e3 for late in reports[0]["late_us"][-LONG_RUNS:]]
        add(f"worker.reconnect_ms.{language}", "ms", took)


def _two_hundred_idle(rust: str, url: str, add: Add) -> None:
    client = subprocess.Popen([rust, "idle", url, "bench", "200"], cwd=ROOT, stdout=subprocess.PIPE)
    try:
        assert client.stdout is not None
        client.stdout.readline()
        time.sleep(5.0)  # all have connected and wait
        rates = []
        for _ in range(LONG_RUNS):
            before, began = _commands(url), time.monotonic()
            time.sleep(4.0)
            # The question itself is one of the commands.
            rates.append((_commands(url) - before - 1) / (time.monotonic() - began))
        add("worker.idle200_commands_per_s", "1/s", rates)
    finally:
        client.kill()
        client.wait()


def _commands(url: str) -> int:
    """Commands that clients sent so far. What scripts call is counted by the server too, but not here."""
    program = shutil.which("redis-cli") or "redis-cli"
    port = url.rpartition(":")[2]
    command = [program, "-p", port, "info", "commandstats"]
    info = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    sent = ("evalsha", "eval", "blpop", "client", "ping", "info", "auth", "select")
    calls = 0
    for line in info.splitlines():
        name, _, fields = line.removeprefix("cmdstat_").partition(":")
        if name.partition("|")[0] in sent:
            calls += int(fields.partition("calls=")[2].partition(",")[0])
    return calls


def _warm_up(workers: Workers) -> None:
    """One job, so that the worker is connected and waits."""
    workers.fill(1)
    workers.until_done()
    time.sleep(0.2)


def _push_delayed(workers: Workers, jobs: int, over_s: float) -> None:
    for _ in range(jobs):
        # Due times are whole milliseconds of the server's clock.
        at = round(time.time() + 0.5 + random.uniform(0, over_s), 3)
        due_ns = time.monotonic_ns() + int((at - time.time()) * 1e9)
        workers.queue.push({"t": due_ns, "body": BODY}, at=at)


def _at(values: list[float], share: float) -> float:
    return values[min(len(values) - 1, int(len(values) * share))]


def _rss_mb(pid: int) -> float:
    fields = Path(f"/proc/{pid}/statm").read_text().split()
    return int(fields[1]) * os.sysconf("SC_PAGE_SIZE") / 1024**2
