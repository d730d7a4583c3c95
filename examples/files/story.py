"""Visits by day and city, counted from log files that reach their counters in pieces, while everything is killed.

    python examples/files/story.py [--url redis://...] [--seed 7] [--kills 8]

Four processes: `web` writes log files and sends each to all receivers; `east` and `west` receive them, count the
visits of their half of the cities by day, and publish the counts; `totals` adds them up. This file starts them, kills
each again and again with SIGKILL, and at the end compares the totals with a plain count of all logs. It ends with 0
if they are equal. (The story is that of chapter 6.6 of *Redis in Action* by Josiah Carlson, where a counter says who
is through with a file: a process that starts again counts twice there.)
"""

from __future__ import annotations

import argparse
import collections
import itertools
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import duly

from receive import Receiver
from send import Sender
from transfer import client_of, replace

CITIES = {"east": ["Berlin", "Lagos", "Osaka", "Pune"], "west": ["Bogota", "Boston", "Lima", "Quito"]}
FEWEST_FILES = 4
MOST_SECONDS = 60


def write_log(path: Path, seed: int) -> None:
    """Write a log of some days, the same for the same seed."""
    chance = random.Random(seed)
    cities = [city for half in CITIES.values() for city in half]
    beside = path.with_name(path.name + ".new")
    with beside.open("w", encoding="utf-8") as file:
        for number in range(chance.randint(3_000, 6_000)):
            day, city = chance.randint(1, 5), chance.choice(cities)
            file.write(
                f"2026-11-{day:02} {number:06} {city} 203.0.113.{chance.randint(1, 254)} /{chance.getrandbits(64):x}\n"
            )
    beside.replace(path)


def visits(path: Path, cities: Sequence[str]) -> dict[str, int]:
    """Count the visits of these cities by day."""
    counts: collections.Counter[str] = collections.Counter()
    with path.open(encoding="utf-8") as file:
        for line in file:
            day, _, city, *_ = line.split()
            if city in cities:
                counts[f"{day} {city}"] += 1
    return dict(counts)


def web(client: duly.Client, name: str, folder: Path, seed: int) -> None:
    """Write logs and send them, one after the other, until it is enough."""
    sender = Sender(client, f"{name}.logs", CITIES, chunk_bytes=16 * 1024, window=128 * 1024, timeout=MOST_SECONDS)
    logs, sent = folder / "logs", folder / "sent"
    for number in itertools.count():
        path, mark = logs / f"{number:04}.log", sent / f"{number:04}"
        if number >= FEWEST_FILES and (folder / "enough").exists() and not path.exists():
            return
        if not path.exists():
            write_log(path, seed + number)
        # Killed before the mark is there, it sends the file once more: counters know it by its name.
        if not mark.exists():
            sender.send(path)
            mark.touch()
            print(f"web: all have {path.name}", flush=True)


def counter(client: duly.Client, name: str, folder: Path, half: str) -> None:
    """Receive logs, count what is in them, and publish the counts."""
    counts = client.topic(f"{name}.counts")

    def on_file(path: Path) -> None:
        counts.publish({"file": path.name, "half": half, "visits": visits(path, CITIES[half])})

    receiver = Receiver(client, f"{name}.logs", half, folder / half, on_file)
    while True:
        receiver.run_once()


def totals(client: duly.Client, name: str, folder: Path) -> None:
    """Add the counts up, those of each file and half once."""
    topic, path = client.topic(f"{name}.counts"), folder / "totals.json"
    state: dict[str, Any] = {"counted": [], "visits": {}}
    if path.exists():
        state = json.loads(path.read_text(encoding="utf-8"))
    counted, lease = set(state["counted"]), 0.001  # what the process before had comes at once
    while True:
        messages = topic.pull("totals", wait=1, lease=lease)
        lease = 30
        for message in messages:
            key = f"{message.data['file']} {message.data['half']}"
            if key in counted:
                continue
            counted.add(key)
            for day_and_city, count in message.data["visits"].items():
                state["visits"][day_and_city] = state["visits"].get(day_and_city, 0) + count
        if messages:
            replace(path, {**state, "counted": sorted(counted)})
            topic.ack("totals", *messages)


class Stage:
    """The processes, which are started again when they were killed."""

    def __init__(self, url: str | None, name: str, folder: Path, seed: int) -> None:
        """Start all of them."""
        self._command = [sys.executable, __file__, "--name", name, "--folder", str(folder), "--seed", str(seed)]
        self._command += ["--url", url] if url else []
        self.processes = {role: self._start(role) for role in ("web", "east", "west", "totals")}

    def _start(self, role: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen([*self._command, "--role", role])

    def kill(self, role: str) -> bool:
        """Kill a process and start it again; False if it has ended by itself."""
        process = self.processes[role]
        process.send_signal(signal.SIGKILL)
        if process.wait() != -signal.SIGKILL:
            return False
        self.processes[role] = self._start(role)
        return True

    def check(self) -> None:
        """Raise if one has failed."""
        for role, process in self.processes.items():
            if process.poll() not in (None, 0):
                raise SystemExit(f"{role} has ended with {process.returncode}")

    def end(self) -> None:
        """Kill all for good."""
        for process in self.processes.values():
            process.kill()
            process.wait()


def tell(url: str | None, seed: int, kills: int) -> int:
    """Tell the whole story in a folder of its own."""
    chance, name = random.Random(seed), f"story-{os.urandom(4).hex()}"
    client = client_of(url)
    counts = client.topic(f"{name}.counts")
    counts.subscribe("totals")
    with tempfile.TemporaryDirectory(prefix="duly-story-") as given:
        folder = Path(given)
        for one in ("logs", "sent"):
            (folder / one).mkdir()
        stage = Stage(url, name, folder, seed)
        try:
            for turn in range(kills):
                time.sleep(chance.uniform(0.2, 0.7))
                stage.check()
                role = list(stage.processes)[turn % 4]
                if stage.kill(role):
                    print(f"killed {role}", flush=True)
            (folder / "enough").touch()
            until = time.monotonic() + MOST_SECONDS
            while stage.processes["web"].poll() is None or not _all_counted(folder):
                stage.check()
                if time.monotonic() > until:
                    raise SystemExit("it does not come to an end")
                time.sleep(0.05)
        finally:
            stage.end()
        for topic in (f"{name}.logs", f"{name}.logs.replies", f"{name}.counts"):
            client.topic(topic).delete()
        return _judge(folder)


def _all_counted(folder: Path) -> bool:
    path = folder / "totals.json"
    counted = json.loads(path.read_text(encoding="utf-8"))["counted"] if path.exists() else []
    return len(counted) == len(CITIES) * len(list((folder / "sent").iterdir()))


def _judge(folder: Path) -> int:
    expected: collections.Counter[str] = collections.Counter()
    logs = sorted((folder / "logs").glob("*.log"))
    for path in logs:
        expected.update(visits(path, [city for half in CITIES.values() for city in half]))
    found = json.loads((folder / "totals.json").read_text(encoding="utf-8"))["visits"]
    for half in CITIES:
        for path in logs:
            if (folder / half / path.name).read_bytes() != path.read_bytes():
                print(f"{half} has another {path.name}")
                return 1
    for day_and_city in sorted(expected.keys() | found.keys()):
        if expected[day_and_city] != found.get(day_and_city):
            print(f"{day_and_city}: {found.get(day_and_city)}, and should be {expected[day_and_city]}")
            return 1
    print(f"{len(logs)} files, {sum(expected.values())} visits, {len(expected)} days and cities: exact")
    return 0


def main() -> int:
    """Tell the story, or be one of its processes."""
    parser = argparse.ArgumentParser(description="Counts visits by day and city while everything is killed.")
    parser.add_argument("--url")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--kills", type=int, default=8)
    parser.add_argument("--role", choices=["web", "east", "west", "totals"], help=argparse.SUPPRESS)
    parser.add_argument("--name", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.role is None:
        return tell(given.url, given.seed, given.kills)
    client = client_of(given.url)
    if given.role == "web":
        web(client, given.name, given.folder, given.seed)
    elif given.role == "totals":
        totals(client, given.name, given.folder)
    else:
        counter(client, given.name, given.folder, given.role)
    return 0


if __name__ == "__main__":
    sys.exit(main())
