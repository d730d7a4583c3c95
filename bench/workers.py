"""The figures of workers: real worker processes in each language, on a server of their own.

`bench/run.py` calls this. A worker program (`duly-bench worker`, `worker.py`, `worker.php`) runs jobs that do nothing,
and says on SIGTERM when it started each.
"""

from __future__ import annotations

import json
import math
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
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
IDLE_JOBS = 500
LATE_JOBS, LATE_S = 500, 5.0
AT_ONCE = 20_000


class Workers:
    """Starts worker programs of one language, and reads what they saw."""

    def __init__(self, command: list[str], url: str, queue: str = "bench") -> None:
        self._command = command
        self.url = url
        self.queue = duly.Client(url).queue(queue)

    @contextmanager
    def running(self, reports: list[Report], *, processes: int = 1, cpu: int | None = None) -> Iterator[list[int]]:
        """Runs workers on a CPU, or on any; gives their process ids. Their reports are there afterwards."""
        started = []
        for _ in range(processes):
            program = [*self._command, self.url, self.queue.name, "1"]
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
        _latencies(workers, language, worker_cpu, add)
        _same_second(workers, language, worker_cpu, add)
        _memory(workers, language, add)
    _loaded_lateness(Workers(languages["python"], url), worker_cpu, add)
    _recovery(Workers(languages["rust"], url), rust, url, add)
    _two_hundred_idle(rust, url, add)


def _rates(workers: Workers, language: str, cpu: int, add: Add) -> None:
    for processes, name in ((1, "rate"), (2, "rate2")):
        rates, cpu_us = [], []
        for _ in range(RUNS):
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


def consumers(worker: list[str], url: str, cpu: int, add: Add) -> None:
    """Measures the jobs a second of a consumer in Python, of a worker and of reserve and ack, in turn in one run."""
    programs = {
        "worker": worker,
        "consumer": [sys.executable, "bench/consumer.py", "consumer"],
        "one_by_one": [sys.executable, "bench/consumer.py", "one_by_one"],
    }
    rates: dict[str, list[float]] = {name: [] for name in programs}
    for _ in range(RUNS):
        for name, command in programs.items():
            jobs = JOBS // 10 if name == "one_by_one" else JOBS
            workers = Workers(command, url)
            workers.fill(jobs)
            reports: list[Report] = []
            with workers.running(reports, cpu=cpu):
                workers.until_done()
            rates[name].append(jobs / (reports[0]["last_ns"] - reports[0]["first_ns"]) * 1e9)
    add("consumer.rate.python", "jobs/s", rates["consumer"])
    for name in ("worker", "one_by_one"):
        pairs = zip(rates["consumer"], rates[name], strict=True)
        add(f"consumer.times_of_{name}.python", "x", [one / other for one, other in pairs])


def _latencies(workers: Workers, language: str, cpu: int, add: Add) -> None:
    """How soon an idle worker starts a job that was pushed, and how late one that was delayed; each in five parts."""
    reports: list[Report] = []
    with workers.running(reports, cpu=cpu):
        _warm_up(workers)
        for _ in range(IDLE_JOBS):
            workers.queue.push({"t": time.monotonic_ns(), "body": BODY})
            time.sleep(random.uniform(0.002, 0.009))
        workers.until_done()
        _push_delayed(workers)
        workers.until_done()
    late_us = reports[0]["late_us"][1:]
    _add_parts(f"worker.idle_{{}}_ms.{language}", late_us[:IDLE_JOBS], add, ("p50", "p99"))
    _add_parts(f"worker.lateness_{{}}_ms.{language}", late_us[IDLE_JOBS:], add, ("p50", "p99", "max"))


def _add_parts(metric: str, late_us: list[float], add: Add, names: tuple[str, ...]) -> None:
    """Adds what each fifth of the jobs, in the order in which they were started, says."""
    size = len(late_us) // RUNS
    parts = [sorted(late_us[at : at + size]) for at in range(0, size * RUNS, size)]
    for name in names:
        share = {"p50": 0.5, "p99": 0.99, "max": 1.0}[name]
        add(metric.format(name), "ms", [_at(part, share) / 1e3 for part in parts])


def _memory(workers: Workers, language: str, add: Add) -> None:
    with workers.running([], processes=RUNS) as pids:
        while len(workers.queue.workers()) < RUNS:
            time.sleep(0.01)
        time.sleep(0.2)
        add(f"worker.idle_rss_mb.{language}", "MiB", [_rss_mb(pid) for pid in pids])


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
            _push_delayed(workers)
        finally:
            producer.kill()
            producer.wait()
        workers.until_done()
    # The jobs of the stream have no due time of their own: they look as late as the machine is old.
    late_us = [value for value in reports[0]["late_us"][1:] if value < 6e7]
    _add_parts("worker.lateness_loaded_{}_ms", late_us, add, ("p50", "p99"))


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
    reports: list[Report] = []
    with workers.running(reports, cpu=cpu):
        for _ in range(RUNS):
            at = round(time.time() + 0.4, 3)
            due_ns = time.monotonic_ns() + int((at - time.time()) * 1e9)
            workers.queue.push_many(duly.NewJob({"t": due_ns, "body": BODY}, at=at) for _ in range(AT_ONCE))
            time.sleep(max(0.0, at - time.time()) + 0.1)
            workers.until_done()
    late_us = reports[0]["late_us"]
    took = [max(late_us[first : first + AT_ONCE]) / 1e6 for first in range(0, len(late_us), AT_ONCE)]
    add(f"worker.due_same_second_s.{language}", "s", took)


def _recovery(workers: Workers, rust: str, url: str, add: Add) -> None:
    """From the kill -9 of a worker that holds a hundred jobs (lease 1 s) until another has started them all."""
    took = []
    for _ in range(RUNS):
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
    of_all = {language: Workers(command, url, f"bench-{language}") for language, command in languages.items()}
    reports: list[Report] = []
    with ExitStack() as running:
        for workers in of_all.values():
            running.enter_context(workers.running(reports))
            _warm_up(workers)
        for _ in range(RUNS):
            start_server()
            for workers in of_all.values():
                workers.queue.push({"t": time.monotonic_ns(), "body": BODY})
            for workers in of_all.values():
                workers.until_done()
    # The last that was started has ended first.
    for language, report in zip(of_all, reversed(reports), strict=True):
        add(f"worker.reconnect_ms.{language}", "ms", [late / 1e3 for late in report["late_us"][-RUNS:]])


def _two_hundred_idle(rust: str, url: str, add: Add) -> None:
    client = subprocess.Popen([rust, "idle", url, "bench", "200"], cwd=ROOT, stdout=subprocess.PIPE)
    try:
        assert client.stdout is not None
        client.stdout.readline()
        time.sleep(1.0)
        rates = []
        for _ in range(RUNS):
            before, began = _commands(url), time.monotonic()
            time.sleep(2.9)  # as long as an idle worker sleeps, or they would be counted in gusts
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


def _push_delayed(workers: Workers) -> None:
    """Pushes jobs that are due over some seconds, and sleeps until the last is: to look would disturb."""
    first = time.time() + 0.3
    for _ in range(LATE_JOBS):
        # Due times are whole milliseconds of the server's clock.
        at = round(first + random.uniform(0, LATE_S), 3)
        due_ns = time.monotonic_ns() + int((at - time.time()) * 1e9)
        workers.queue.push({"t": due_ns, "body": BODY}, at=at)
    time.sleep(max(0.0, first + LATE_S - time.time()) + 0.1)


def _at(values: list[float], share: float) -> float:
    """The nearest rank, of values in order."""
    return values[math.ceil(len(values) * share) - 1]


def _rss_mb(pid: int) -> float:
    fields = Path(f"/proc/{pid}/statm").read_text().split()
    return int(fields[1]) * os.sysconf("SC_PAGE_SIZE") / 1024**2
