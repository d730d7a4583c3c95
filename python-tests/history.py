"""What was asked of a queue and what it answered, and whether one queue can have given all these answers.

An operation takes effect at some moment between its `start` and its `end`. Only what is wrong whatever these moments
were is reported: an operation surely comes before another one when it ended before the other started. All times are
seconds of one machine's clock, which is also the server's. (The idea of checking histories is from Jepsen, whose
checkers do so for databases.)
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Literal

What = Literal["push", "run", "ack", "fail", "cancel", "reschedule", "result"]


@dataclass(frozen=True)
class Operation:
    """One call. `ok` is None when its answer is not known."""

    what: What
    job: str
    start: float
    end: float
    ok: bool | None = True
    delay: float = 0.0  # of a push and a reschedule
    key: str | None = None  # of a push
    token: int = 0  # of a run, an ack, a failure
    lease: float = 0.0  # of a run: nobody else may get the job for so long
    value: object = None  # of an ack and a result
    replaced: str | None = None  # by a push: the id of the job that was there
    kept: str | None = None  # by a push: the id of the job that stays

    def before(self, other: Operation) -> bool:
        """Whether it surely took effect before the other one."""
        return self.end < other.start


@dataclass
class _Life:
    pushes: list[Operation] = field(default_factory=list)
    runs: list[Operation] = field(default_factory=list)
    acks: list[Operation] = field(default_factory=list)
    fails: list[Operation] = field(default_factory=list)
    cancels: list[Operation] = field(default_factory=list)
    reschedules: list[Operation] = field(default_factory=list)
    results: list[Operation] = field(default_factory=list)
    replacements: list[Operation] = field(default_factory=list)  # the pushes that took its place

    def ends(self) -> list[Operation]:
        """All that may have ended it."""
        ends = [*self.acks, *self.cancels, *self.replacements]
        return [end for end in ends if end.ok is not False]


def check(history: Iterable[Operation], *, drained: bool = True) -> list[str]:
    """List what cannot be. `drained`: the queue was found empty afterwards, so each job must have ended."""
    lives = _lives(history)
    wrong: list[str] = []
    for job, life in lives.items():
        wrong += [f"{job}: {what}" for what in _wrong_with(life, drained)]
    return wrong + list(_wrong_with_keys(lives))


def _lives(history: Iterable[Operation]) -> dict[str, _Life]:
    lives: defaultdict[str, _Life] = defaultdict(_Life)
    for done in history:
        life = lives[done.job]
        match done.what:
            case "push":
                life.pushes.append(done)
                if done.replaced is not None:
                    lives[done.replaced].replacements.append(done)
            case "run":
                life.runs.append(done)
            case "ack":
                life.acks.append(done)
            case "cancel":
                life.cancels.append(done)
            case "reschedule":
                life.reschedules.append(done)
            case "result":
                life.results.append(done)
            case "fail":
                life.fails.append(done)
    return dict(lives)


def _wrong_with(life: _Life, drained: bool) -> Iterator[str]:
    pushed = [push for push in life.pushes if push.ok is not False and push.kept is None]
    acked = [ack for ack in life.acks if ack.ok]
    if not pushed:
        if life.runs:
            yield "ran and was never pushed"
        return
    yield from _early(life, pushed)
    yield from _at_once(life)
    for run in life.runs:
        for end in life.ends():
            if end.ok and end.before(run):
                yield f"ran after its {'replacement' if end.what == 'push' else end.what}"
    yield from _wrong_tokens(life, acked)
    if len(acked) > 1:
        yield f"was acked {len(acked)} times"
    for cancel in life.cancels:
        if cancel.ok is False and _surely_live(life, pushed, cancel):
            yield "was not found by a cancel, and was there"
    for result in life.results:
        if result.ok and not any(
            ack.ok is not False and ack.start < result.end and ack.value == result.value for ack in life.acks
        ):
            yield "has a result that no ack gave"
    ended = life.ends()
    if drained and any(push.ok for push in pushed) and not ended:
        yield "was lost"


def _early(life: _Life, pushed: list[Operation]) -> Iterator[str]:
    for run in life.runs:
        set_before = [one for one in (*pushed, *life.reschedules) if one.ok is not False and one.start <= run.end]
        # Without what another move came behind. A call that got no answer may take effect whenever it likes.
        moves = [move for move in life.reschedules if move.ok and move.before(run)]
        last = [one for one in set_before if not (one.ok and any(one.before(move) for move in moves))]
        if last and all(run.end < one.start + one.delay for one in last):
            was_moved = any(one.what == "reschedule" for one in last)
            yield f"ran before {'the time that it was moved to' if was_moved else 'it was due'}"


def _at_once(life: _Life) -> Iterator[str]:
    """List runs that began while another one had the lease, and had not given it back."""
    runs = sorted(life.runs, key=lambda run: run.token)
    for first, second in itertools.pairwise(runs):
        given_back = [fail for fail in life.fails if fail.token == first.token and fail.ok is not False]
        is_given_back = any(fail.start <= second.end for fail in given_back)
        if second.token > first.token and second.end < first.start + first.lease and not is_given_back:
            yield "ran again while another one had its lease"


def _wrong_tokens(life: _Life, acked: list[Operation]) -> Iterator[str]:
    for first in life.runs:
        for second in life.runs:
            if first.before(second) and first.token >= second.token:
                yield "a later lease had no larger token"
    for ack in acked:
        if not any(run.token == ack.token for run in life.runs):
            yield "was acked under a token that no run had"
        if any(run.token > ack.token and run.before(ack) for run in life.runs):
            yield "was acked by the holder of a lease that was over"


def _surely_live(life: _Life, pushed: list[Operation], at: Operation) -> bool:
    """Whether it was there during the whole of this operation."""
    was_there = any(push.ok and push.before(at) for push in pushed)
    return was_there and not any(end is not at and end.start <= at.end for end in life.ends())


def _wrong_with_keys(lives: dict[str, _Life]) -> Iterator[str]:
    holders: defaultdict[str, list[_Life]] = defaultdict(list)
    for life in lives.values():
        for push in life.pushes:
            if push.key is not None and push.ok is not False and push.kept is None:
                holders[push.key].append(life)
    for key, holding in holders.items():
        for life in holding:
            for push in life.pushes:
                others = [other for other in holding if other is not life]
                if push.ok and push.kept is None and push.replaced is None:
                    for other in others:
                        if _surely_live(other, other.pushes, push):
                            yield f"key {key}: a second job got it"
    for job, life in lives.items():
        for push in life.pushes:
            if push.ok and push.kept is not None:
                kept = lives.get(push.kept)
                if kept is not None and any(end.ok and end.before(push) for end in kept.ends()):
                    yield f"{job}: was given up for {push.kept}, which had ended"
