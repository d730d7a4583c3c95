"""What a server's append-only file says about a queue and its runs: one order of all that happened, kept by the server.

It has each grant and end of a lease, each ack, and each note that a handler made (see noting/worker.py), so it shows
whether a run started after its job's ack. A process may stand still between the start of a handler and its note, longer
than its lease: for such a note, and only for it, counts what it says of when the handler started, by the one clock of
the machine.
"""

from __future__ import annotations

import bisect
import re
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

Command = list[str]
STALL_MS = 300
NOTE = re.compile(r'"data":"(start|end) (\S+) (\d+) (\d+) (\d+)"')


@dataclass
class Life:
    """One job, so far."""

    token: int = 0  # of its last lease
    is_leased: bool = False
    next_end_ms: int = 0  # of the lease that is just granted: a script writes it before the token
    ends_ms: dict[int, int] = field(default_factory=dict)  # of its leases, by token, as granted and extended
    attempts: int = 0
    runs: list[int] = field(default_factory=list)  # their tokens, in order
    returns: dict[int, str] = field(default_factory=dict)  # token of a lease, and how the job came back from it
    started: set[int] = field(default_factory=set)  # tokens of its leases under which a worker said that it starts
    charged: set[int] = field(default_factory=set)  # tokens of its leases that ended and counted as a failure
    acked: bool = False
    failed: bool = False


class Journal:
    """Reads on as the server writes; `wrong` lists what must never happen, as soon as it did."""

    def __init__(self, file: Path, prefix: str = "duly:") -> None:
        self._file = file.open("rb")
        self._unread = b""
        self._orders, self._notes = f"{prefix}{{orders}}:", f"{prefix}{{notes}}:"
        self.lives: dict[str, Life] = {}
        self.running: Counter[int] = Counter()  # runs under way, by pid
        self.counts: Counter[str] = Counter()
        self._taken_back: list[tuple[str, int]] = []  # since the last grant: jobs whose lease ended, and when it had to
        self._came_back: list[tuple[str, int]] = []  # in this script: jobs, and their failures before
        self.latest_start_us = 0  # how late a start was at most, by the end of its lease
        self.wrong: list[str] = []

    def close(self) -> None:
        self._file.close()

    def read(self) -> None:
        """Read on, to where the server is now."""
        data = self._unread + self._file.read()
        position = 0
        while (parsed := command_at(data, position)) is not None:
            command, position = parsed
            self._happened(command)
        self._unread = data[position:]

    def _happened(self, command: Command) -> None:
        match command:
            case ["ZADD", key, "XX", end, job] if key == self._orders + "reserved":
                life = self._life(job)
                life.ends_ms[life.token] = int(end)
            case ["ZADD", key, *rest] if key == self._orders + "reserved":
                for end, job in _pairs(rest):
                    self._life(job).next_end_ms = int(end)
            case ["HSET", key, *rest] if key == self._orders + "leases":
                for job, token in _pairs(rest):
                    self._granted(job, int(token))
            case ["HDEL", key, *jobs] if key == self._orders + "leases":
                for job in jobs:
                    self._life(job).is_leased = False
            case ["HDEL", key, *jobs] if key == self._orders + "jobs":
                for job in jobs:
                    self._acked(job)
            case ["HSET", key, job, note] if key == self._orders + "returned":
                self._note(job, note)
            case ["HINCRBY", key, "reclaimed" | "released" | "retried" | "failed" as why, _] if (
                key == self._orders + "stats"
            ):
                self._counted(why)
            case ["ZADD", key, _, job] if key == self._orders + "failed":
                self._life(job).failed = True
            case ["HSET", key, *rest] if key == self._notes + "jobs":
                for _, record in _pairs(rest):
                    self._noted(record)

    def _granted(self, job: str, token: int) -> None:
        """Take note of a new lease. Its token is the server's time in microseconds, or more than that."""
        life = self._life(job)
        if life.is_leased:
            self.wrong.append(f"{job} was leased to two workers at once")
        if token <= life.token:
            self.wrong.append(f"{job} got the token {token} after {life.token}")
        # No token is before the moment of its grant.
        early = [job for job, end_ms in self._taken_back if token < end_ms * 1000]
        self.wrong += [f"{job} was taken back before its lease was over" for job in early]
        self._taken_back.clear()
        if life.acked or life.failed:
            self.wrong.append(f"{job} was leased after its end")
        life.token, life.is_leased = token, True
        life.ends_ms[token] = life.next_end_ms

    def _note(self, job: str, note: str) -> None:
        """Take note of `<attempts>;<returns>;<last error>`. A zero before the attempts says that the job starts."""
        life = self._life(job)
        attempts = note.split(";", 1)[0]
        if attempts != "0" and attempts.startswith("0"):
            life.started.add(life.token)
            return
        self._came_back.append((job, life.attempts))
        life.attempts = int(attempts)

    def _counted(self, why: str) -> None:
        """Take note of why jobs came back: a script says it behind their notes."""
        for job, before in self._came_back:
            life = self._life(job)
            if why != "reclaimed":
                life.returns[life.token] = "it was given back"
                continue
            life.returns[life.token] = "its lease ended"
            self._taken_back.append((job, life.ends_ms[life.token]))
            self.counts["leases that ended"] += 1
            if life.attempts > before:
                life.charged.add(life.token)
                self.counts["leases that were charged"] += 1
            if (life.token in life.charged) != (life.token in life.started):
                self.wrong.append(f"{job} started: {life.started}, and was charged for {life.charged}")
        self._came_back.clear()

    def _acked(self, job: str) -> None:
        life = self._life(job)
        if life.acked or life.failed:
            self.wrong.append(f"{job} was acked after its end")
        if not life.runs or life.runs[-1] != life.token:
            self.wrong.append(f"{job} was acked without a run under its last lease")
        life.acked = True
        self.counts["acked"] += 1

    def _noted(self, record: str) -> None:
        noted = NOTE.search(record)
        assert noted is not None, record
        what, job, token, pid, at_us = noted[1], noted[2], int(noted[3]), int(noted[4]), int(noted[5])
        life = self._life(job)
        holds = life.is_leased and life.token == token
        if what == "end":
            self.running[pid] -= 1
            if not holds:
                self.counts["runs that ended after their lease"] += 1
            return
        self.running[pid] += 1
        self.counts["runs"] += 1
        if token in life.runs:
            self.wrong.append(f"{job} was run twice under one lease")
        elif not holds and life.returns.get(token) == "its lease ended" and at_us < life.ends_ms[token] * 1000:
            self.counts["late notes"] += 1
            self.counts["duplicates"] += any(later > token for later in life.runs)
        elif self._started_late(life, token, at_us):
            self.counts["late starts"] += 1
            self.latest_start_us = max(self.latest_start_us, at_us - life.ends_ms[token] * 1000)
            self.counts["duplicates"] += any(later > token for later in life.runs)
        else:
            self._started(job, pid, token, at_us)
        bisect.insort(life.runs, token)

    @staticmethod
    def _started_late(life: Life, token: int, at_us: int) -> bool:
        """Say whether the machine may have stalled between the engine's look at the lease and the handler's start."""
        if life.acked or life.returns.get(token) != "its lease ended":
            return False
        return at_us < (life.ends_ms[token] + STALL_MS) * 1000

    def _started(self, job: str, pid: int, token: int, at_us: int) -> None:
        life = self._life(job)
        holds = life.is_leased and life.token == token
        if life.acked:
            self.counts["after ack"] += 1
            self.wrong.append(f"{job} was run by {pid} after its ack")
        elif not holds:
            came_back, late_us = life.returns.get(token), at_us - life.ends_ms.get(token, 0) * 1000
            self.wrong.append(
                f"{job} was run by {pid} without its lease {token}, which came back ({came_back}); it started "
                f"{late_us} us behind the end of that; its last lease is {life.token}"
            )
        if life.runs:
            came_back = life.returns.get(life.runs[-1])
            if came_back is None:
                self.wrong.append(f"{job} was run again by {pid} although its last run held the lease")
            self.counts["duplicates" if came_back == "its lease ended" else "retries"] += 1

    def _life(self, job: str) -> Life:
        return self.lives.setdefault(job, Life())


def _pairs(words: list[str]) -> list[tuple[str, str]]:
    return list(zip(words[::2], words[1::2], strict=True))


def command_at(data: bytes, position: int) -> tuple[Command, int] | None:
    """Give the command at this position and where the next one begins; nothing if it is not there as a whole."""
    end = data.find(b"\r\n", position)
    if end < 0:
        return None
    words = []
    left = int(data[position + 1 : end])
    position = end + 2
    for _ in range(left):
        end = data.find(b"\r\n", position)
        if end < 0:
            return None
        length = int(data[position + 1 : end])
        position = end + 2 + length + 2
        if position > len(data):
            return None
        words.append(data[end + 2 : end + 2 + length].decode())
    return words, position
