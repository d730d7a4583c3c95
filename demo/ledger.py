"""Keeps the books of the demo: when each job was due, when it ran, how it ended. And judges."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Run:
    who: str
    attempt: int
    token: int
    started: float
    due: float
    outcome: str = "running"

    @property
    def late_ms(self) -> float:
        return (self.started - self.due) * 1000


@dataclass
class Entry:
    about: str
    due: float
    runs: list[Run] = field(default_factory=list)
    cancelled: bool = False


class Ledger:
    def __init__(self) -> None:
        self.jobs: dict[str, Entry] = {}

    def pushed(self, job: str, about: str, due: float) -> None:
        self.jobs[job] = Entry(about, due)

    def due_again(self, job: str, due: float) -> None:
        self.jobs[job].due = due

    def cancelled(self, job: str) -> None:
        self.jobs[job].cancelled = True

    def started(self, job: str, who: str, attempt: int, token: int, at: float) -> Run:
        entry = self.jobs[job]
        run = Run(who, attempt, token, at, entry.due)
        entry.runs.append(run)
        return run

    def ended(self, job: str, token: int, outcome: str) -> None:
        for run in self.jobs[job].runs:
            if run.token == token:
                run.outcome = outcome

    def problems(self) -> list[str]:
        """Everything that a queue must not do."""
        found = []
        for job, entry in self.jobs.items():
            name = f"{entry.about} (job {job})"
            done = [run for run in entry.runs if run.outcome == "done"]
            if entry.cancelled and entry.runs:
                found.append(f"{name} ran although it was cancelled")
            if not entry.cancelled and not done:
                found.append(f"{name} was lost: it never came to its end")
            if len(done) > 1:
                found.append(f"{name} was done {len(done)} times")
            if done and entry.runs[-1] is not done[0]:
                found.append(f"{name} ran again after it was done")
            for earlier, later in zip(entry.runs, entry.runs[1:], strict=False):
                if later.token <= earlier.token:
                    found.append(f"{name} got the token {later.token} after {earlier.token}")
            found.extend(f"{name} started {-run.late_ms:.1f} ms early" for run in entry.runs if run.late_ms < 0)
        return found

    def lateness_ms(self) -> list[float]:
        return sorted(run.late_ms for entry in self.jobs.values() for run in entry.runs)
