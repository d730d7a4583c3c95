"""The guard of the plain path: counts what push, reserve and ack cost, and compares that with `bench/guard.json`.

    python -m bench.guard [--write]

It takes no times. For each phase it counts:

- the commands that the server executes and the keys that script calls are given: compared exactly;
- the bytes on the wire, and the allocations of the client: within 1 %;
- the instructions of the client and of the server, under callgrind: within 3 %.

What got cheaper is a difference too, because the table is to be true. `--write` writes the table anew; a commit that
changes it says why in a line. Instructions depend on the compiler and on the server: they are compared only where both
are those of the table. They differ by some thousandths from run to run (how a hash table is seeded), and a busy machine
adds up to 2 % (a call that arrives in pieces), so the least of three runs counts, or of fewer if they are near it.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import IO, Any

from bench.server import Server

ROOT = Path(__file__).resolve().parent.parent
TABLE = ROOT / "bench" / "guard.json"
# The server does as little by itself as it can.
QUIET = ["--hz", "1", "--activerehashing", "no"]
# How far a figure may be from the table; what is not named must be the same.
TOLERANCE = {
    "bytes_in": 0.01,
    "bytes_out": 0.01,
    "allocations": 0.01,
    "client_instructions": 0.03,
    "server_instructions": 0.03,
}
INSTRUCTIONS = ("client_instructions", "server_instructions")
# Runs whose instructions are counted, at most.
MOST_RUNS = 3

Cost = dict[str, Any]


def callgrind(folder: Path, name: str) -> list[str]:
    return ["valgrind", "--tool=callgrind", f"--callgrind-out-file={folder / name}"]


def tell_callgrind(pid: int, *words: str) -> None:
    subprocess.run(
        ["callgrind_control", *words, str(pid)], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )


def run_phases(guard: Path, counted: str) -> dict[str, Cost]:
    """All phases once. `counted`: `keys`, `commands`, or whose instructions are counted, `client` or `server`."""
    costs: dict[str, Cost] = {}
    with tempfile.TemporaryDirectory(prefix="duly-guard-") as name:
        folder = Path(name)
        with Server(options=QUIET, under=callgrind(folder, "server") if counted == "server" else None) as server:
            command = [str(guard), server.url, *(["--monitor"] if counted == "keys" else [])]
            if counted == "client":
                command = [*callgrind(folder, "client"), *command]
            with subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
            ) as client:
                pid = {"client": client.pid, "server": server.pid}.get(counted)
                assert client.stdout is not None
                assert client.stdin is not None
                assert client.stderr is not None
                for line in client.stdout:
                    said = json.loads(line)
                    if pid and "begin" in said:
                        tell_callgrind(pid, "--zero")
                    elif pid and "end" in said:
                        tell_callgrind(pid, f"--dump={said['end']}")
                    elif "phase" in said:
                        costs[said.pop("phase")] = said
                    answer(client.stdin)
                if client.wait() != 0:
                    sys.exit(f"guard: {command[0]} failed: {client.stderr.read().strip()}")
        if pid:
            for phase, instructions in dumps(folder, counted).items():
                costs[phase] = {"calls": costs[phase]["calls"], f"{counted}_instructions": instructions}
    return costs


def answer(stdin: IO[str]) -> None:
    try:
        stdin.write("\n")
        stdin.flush()
    except BrokenPipeError:
        pass  # it was the last line


def dumps(folder: Path, name: str) -> dict[str, int]:
    """What callgrind wrote at the end of each phase."""
    found = {}
    for file in folder.glob(f"{name}.*"):
        text = file.read_text()
        trigger = re.search(r"^desc: Trigger: dump (\S+)$", text, re.M)
        summary = re.search(r"^summary: (\d+)", text, re.M)
        if trigger and summary:
            found[trigger[1]] = int(summary[1])
    return found


def measure(guard: Path, table: dict[str, Cost]) -> dict[str, Cost]:
    """The cost of one call of each phase. No further run is made once all instructions are near the `table`."""
    costs: dict[str, Cost] = {}
    for counted in ("keys", "commands"):
        print(f"guard: counting {counted}", file=sys.stderr, flush=True)
        for phase, counts in run_phases(guard, counted).items():
            calls = counts.pop("calls")
            cost = costs.setdefault(phase, {})
            for what, count in counts.items():
                cost[what] = (
                    {name: each(n, calls) for name, n in count.items()} if what == "commands" else each(count, calls)
                )
    for counted in ("client", "server"):
        print(f"guard: counting the instructions of the {counted}", file=sys.stderr, flush=True)
        what = f"{counted}_instructions"
        for _ in range(MOST_RUNS):
            for phase, counts in run_phases(guard, counted).items():
                now = each(counts[what], counts["calls"])
                costs[phase][what] = min(costs[phase].get(what, now), now)
            if all(phase in table and is_near(what, table[phase].get(what), costs[phase][what]) for phase in costs):
                break
    return costs


def is_near(what: str, before: Any, after: Any) -> bool:
    allowed = TOLERANCE.get(what, 0)
    if before is None or after is None or isinstance(before, dict) or not allowed:
        return bool(before == after)
    return bool(abs(after - before) <= allowed * before)


def each(count: float, calls: int) -> float | int:
    """One call's part, without a fraction where there is none of weight."""
    part = count / calls
    return round(part) if part >= 1000 or part == round(part) else round(part, 2)


def versions() -> dict[str, str]:
    def first_line(*command: str) -> str:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()[0]

    server = re.search(r"v=(\S+)", first_line(shutil.which("redis-server") or "valkey-server", "--version"))
    return {
        "server": server[1] if server else "?",
        "rustc": first_line("rustc", "--version").split()[1],
        "machine": os.uname().machine,
    }


def differences(table: dict[str, Cost], now: dict[str, Cost], alike: bool) -> list[str]:
    """What is not as the table says, a line each."""
    found = [f"{phase}: is in one of the two only" for phase in table.keys() ^ now.keys()]
    for phase in table.keys() & now.keys():
        for what in sorted(table[phase].keys() | now[phase].keys()):
            if what in INSTRUCTIONS and not alike:
                continue
            before, after = table[phase].get(what), now[phase].get(what)
            if not is_near(what, before, after):
                found.append(f"{phase}: {what} was {before}, is {after}")
    return sorted(found)


def show(costs: dict[str, Cost]) -> None:
    columns = ("commands", "keys", "bytes_in", "bytes_out", "allocations", *INSTRUCTIONS)
    print(f"{'a call of':16}" + "".join(f"{column.replace('_', ' '):>21}" for column in columns))
    for phase, cost in costs.items():
        cells = [round(sum(cost["commands"].values()), 2), *(cost[column] for column in columns[1:])]
        print(f"{phase:16}" + "".join(f"{cell:>21,}" for cell in cells))


def main() -> int:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    for program in ("valgrind", "callgrind_control"):
        if shutil.which(program) is None:
            sys.exit(f"guard: {program} is missing: run tools/setup.sh")
    # In release mode, a build of its own: the instructions of a debug build say nothing about what users get.
    subprocess.run(
        ["cargo", "build", "--release", "--quiet", "-p", "duly-bench", "--bin", "duly-guard"], cwd=ROOT, check=True
    )
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    table, writes = json.loads(TABLE.read_text()), "--write" in sys.argv[1:]
    costs, made_with = measure(target / "release" / "duly-guard", {} if writes else table["a_call_of"]), versions()
    show(costs)
    if writes:
        TABLE.write_text(json.dumps({"made_with": made_with, "a_call_of": costs}, indent=2) + "\n")
        return 0
    alike = table["made_with"] == made_with
    if not alike:
        print(f"instructions are not compared: the table is of {table['made_with']}, this is {made_with}")
    found = differences(table["a_call_of"], costs, alike)
    for line in found:
        print(line)
    if found:
        print("if that is meant: python -m bench.guard --write, and say why in a line of the commit")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
