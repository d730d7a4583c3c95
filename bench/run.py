"""`make bench`: starts a server of its own, measures, writes bench/out/latest.jsonl, prints a table with the budgets.

Placement: the server is pinned to one CPU. Its client runs on the other, except where the skins are measured a second
time on the server's own CPU, where no idle CPU must be woken for each call. Nothing here asserts a timing: a missed
budget is printed, and a figure that could not be taken is named and makes the exit status 1.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

from bench import workers
from bench.server import Server

Figure = dict[str, Any]

ROOT = Path(__file__).resolve().parent.parent
OUT = ROOT / "bench" / "out" / "latest.jsonl"

# At most so much, for the metrics that have a budget: a whole life, memory with 200 bytes of data, the longest call.
BUDGETS = {
    "engine.server_us_per_job.batch100": 6.0,
    "engine.server_us_per_job.batch100.delayed": 7.5,
    "engine.server_us_per_job.single": 20.0,
    "engine.history_times_of_none.batch100": 1.1,
    "engine.mem_ready_bytes": 380.0,
    "engine.mem_delayed_bytes": 480.0,
    "engine.longest_call_ms": 5.0,
    "engine.longest_call_ms.by_server": 5.0,
    "worker.idle200_commands_per_s": 250.0,
    "worker.due_same_second_s.python": 0.3,
    "worker.reconnect_ms.rust": 1000.0,
    "worker.reconnect_ms.python": 1000.0,
    "worker.reconnect_ms.php": 1000.0,
    **{f"worker.idle_p50_ms.{language}": 0.2 for language in ("rust", "python", "php")},
    **{f"worker.idle_p99_ms.{language}": 0.8 for language in ("rust", "python", "php")},
    **{f"worker.lateness_p50_ms.{language}": 0.9 for language in ("rust", "python", "php")},
    **{f"worker.lateness_p99_ms.{language}": 2.0 for language in ("rust", "python", "php")},
}
# At least this share of `worker.floor_rate` of the same run.
SHARES = {"worker.rate.rust": 0.6, "worker.rate.python": 0.3, "worker.rate.php": 0.3}
# These promise something of every call, so the worst run is judged and not the median.
WORST_COUNTS = ("engine.longest_call_ms",)
WHAT = """\
server_us_per_job  CPU time of the server (INFO cpu) for push + reserve + ack of one job with 200 bytes of JSON; 20,000
                   jobs a run. batch100: 100 jobs a call, one call at a time. single: one job a call, 50 calls in flight
                   on one connection. delayed: due after 30 ms. floor: the raw commands of that life by the same client
                   library; floor.script: the same in one script a verb, without guards. history: in a queue that keeps
                   one; history_times_of_none: how many times as much as ready, in turn in twenty pairs.
jobs_per_s         push: of the single runs; reserve100, ack100: of the batch100 runs; push_many, promote: 50,000 jobs.
mem_*_bytes        growth of used_memory a job, 100,000 jobs, ids made by duly, no name (named: with `order.close`).
longest_call_ms    worst PING of another client while a worker takes a million jobs due at once, 1,000 a call; in five
                   parts. by_server: the longest script call in SLOWLOG. Both are judged by the worst run.
push_over_set      median latency of a push / of a SET of 200 bytes by the same client library, one at a time.
skin.*             us a call, one at a time; client and server share a CPU. split: each has its own.
worker.rate        jobs/s of one worker process (concurrency 1) whose handlers do nothing but look at the clock, 100,000
                   jobs; server on one CPU, worker on the other. rate2: two processes, nothing pinned. floor_rate: ack
                   and reserve of 100 jobs in one bare script, four calls in flight. cpu_us: of the worker, a job,
                   with its start.
consumer.*         the same of a loop over duly.Consumer in Python; times_of_worker, times_of_one_by_one: how many times
                   as many as a worker, and as a reserve and an ack for each job, in turn in the same run.
worker.idle_*      push to handler, 500 jobs one at a time. lateness: start less due time of 500 jobs over 5 s;
                   loaded: beside a stream at half of what can be pushed and run. Each fifth of the jobs is a run.
                   due_same_second: 20,000 jobs due at once.
                   floor_idle: LPUSH until the BLPOP of another connection has returned. floor_lateness: a sleep and
                   a PING, less the moment at which both should be done.
worker.recovery    kill -9 of a worker with 100 leases of 1 s, until another has started all of them.
worker.reconnect   from the moment a restarted server answers until a job pushed then starts.
idle200            commands a second that 200 idle workers cause together."""


class Bench:
    """What was measured so far, and what could not be."""

    def __init__(self, url: str, server_cpu: int, client_cpu: int) -> None:
        self.url = url
        self.cpus = {"same": server_cpu, "split": client_cpu}
        self.figures: list[Figure] = []
        self.missing: list[str] = []

    def add(self, metric: str, unit: str, values: list[float]) -> None:
        """Takes a figure that was measured here."""
        value = statistics.median(values)
        figure = {"metric": metric, "value": value, "unit": unit, "runs": len(values)}
        self.figures.append({**figure, "min": min(values), "max": max(values)})

    def run(self, what: str, command: list[str], place: str = "split", suffix: str = "") -> None:
        """Runs a program that prints figures. Its CPU is inherited from here."""
        print(f"bench: {what} ({place})", file=sys.stderr, flush=True)
        os.sched_setaffinity(0, {self.cpus[place]})
        done = subprocess.run([*command, self.url], cwd=ROOT, capture_output=True, text=True)
        lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
        for line in lines:
            figure: Figure = json.loads(line)
            figure["metric"] += suffix
            self.figures.append(figure)
        if done.returncode != 0 or not lines:
            said = (done.stderr.strip() or done.stdout.strip() or "it printed no figure").splitlines()
            reason = next((line for line in said if "error" in line.lower()), said[-1])
            self.missing.append(f"{what} ({place}): {reason}")


def main() -> int:
    parts = sys.argv[1:] or ["engine", "workers"]
    subprocess.run(["cargo", "build", "--release", "--quiet", "-p", "duly-bench"], cwd=ROOT, check=True)
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    rust = str(target / "release" / "duly-bench")
    php = shutil.which("php") or "php"
    cpus = sorted(os.sched_getaffinity(0))
    if len(cpus) == 1:
        print("bench: one CPU only: 'split' is 'same' here", file=sys.stderr)
    with Server(cpus[0]) as server:
        bench = Bench(server.url, server_cpu=cpus[0], client_cpu=cpus[-1])
        if "engine" in parts:
            for part in ("cycle", "memory", "stall", "schedules", "topics", "bridge"):
                bench.run(part, [rust, part])
            for place in ("same", "split"):
                bench.run("rust", [rust, "alone"], place, f".{place}")
                bench.run("python", [sys.executable, "bench/skin.py"], place, f".{place}")
                bench.run("php", [php, "bench/skin.php"], place, f".{place}")
        if "workers" in parts:
            bench.run("floor of a worker", [rust, "combined"])
            bench.run("floor of latencies", [rust, "waits"])
            os.sched_setaffinity(0, cpus)
            languages = {
                "rust": [rust, "worker"],
                "python": [sys.executable, "bench/worker.py"],
                "php": [php, "bench/worker.php"],
            }
            workers.measure(languages, rust, server.url, cpus[-1], bench.add)
            workers.consumers(languages["python"], server.url, cpus[-1], bench.add)
            workers.reconnect(languages, server.restart, server.url, bench.add)
    OUT.parent.mkdir(parents=True, exist_ok=True)
    figures = [whole_name(figure) for figure in bench.figures]
    figures += worst_languages(figures)
    OUT.write_text("".join(json.dumps(figure) + "\n" for figure in figures))
    print_table(figures)
    for missing in bench.missing:
        print(f"NOT MEASURED  {missing}")
    return 1 if bench.missing else 0


def whole_name(figure: Figure) -> Figure:
    """A skin's main figure is the one on the same CPU: it shows the skin, and not how long a CPU takes to wake."""
    name = figure["metric"]
    main_place = ".split" if name.startswith("engine.push_over_set") else ".same"
    return {**figure, "metric": name.removesuffix(main_place)}


def worst_languages(figures: list[Figure]) -> list[Figure]:
    """What holds for each language, by the name that it has without one: the figure of the slowest."""
    of_all: dict[str, list[Figure]] = {}
    for figure in figures:
        name, _, language = str(figure["metric"]).rpartition(".")
        if language in ("rust", "python", "php") and name.endswith(("_ms", "_s")):
            of_all.setdefault(name, []).append({**figure, "metric": name})
    return [max(same, key=lambda figure: float(figure["value"])) for same in of_all.values()]


def print_table(figures: list[Figure]) -> None:
    floor = next((figure["value"] for figure in figures if figure["metric"] == "worker.floor_rate"), None)
    print(f"{'metric':48} {'median':>11} {'min':>11} {'max':>11} unit    runs  budget")
    for figure in figures:
        name = figure["metric"]
        verdict = ""
        budget = BUDGETS.get(name)
        if name in SHARES and floor:
            least = SHARES[name] * floor
            met = "met" if figure["value"] >= least else "MISSED"
            verdict = f"  at least {least:,.0f} ({SHARES[name]:.0%} of the floor) {met}"
        elif budget is not None:
            judged = figure["max"] if name.startswith(WORST_COUNTS) else figure["value"]
            verdict = f"  {budget:g} {'met' if judged <= budget else 'MISSED'}"
        numbers = " ".join(f"{figure[part]:11,.2f}" for part in ("value", "min", "max"))
        print(f"{name:48} {numbers} {figure['unit']:7} {figure['runs']:4}{verdict}")
    print(f"\n{WHAT}")


if __name__ == "__main__":
    sys.exit(main())
