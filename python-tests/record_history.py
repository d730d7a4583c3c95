"""Many threads push, run, cancel, move and replace jobs while connections are cut, and note the answers.

    python python-tests/record_history.py [--seed N] [--seconds S] [--sabotage]

Prints what `history.check` finds, and ends with "N passed, N failed": a round of ten seconds is one. `--sabotage` is
the negative control: a stranger makes delayed jobs due at once, removes ready ones or gives running ones to somebody
else, in turn, and each round must be found to be wrong for that.
"""

from __future__ import annotations

import argparse
import itertools
import random
import sys
import threading
import time
from collections.abc import Callable, Set
from contextlib import suppress

import duly
from history import Operation, What, check
from support import Server

ROUND_S = 10.0
LEASE_S = 0.4
KEYS = 20


class Recorder:
    """Calls that are noted with their times, and what can be said of them."""

    def __init__(self) -> None:
        self.operations: list[Operation] = []

    def note(self, what: What, job: str, start: float, ok: bool | None = True, **more: object) -> None:
        self.operations.append(Operation(what, job, start, time.time(), ok, **more))  # type: ignore[arg-type]


def record(
    server: Server, *, seed: int, seconds: float, sabotage: str | None = None, kinds: Set[What] = frozenset()
) -> list[Operation]:
    """One round on a server of its own, with all jobs ended by the time it returns.

    It takes `seconds`, and on a busy machine up to a minute more, until there was an operation of each of `kinds`.
    """
    recorder, chance = Recorder(), random.Random(seed)
    ids = itertools.count()
    over = threading.Event()
    failures: list[BaseException] = []
    actors: list[Callable[[random.Random, duly.Queue], None]] = [
        *[_Producer(recorder, ids) for _ in range(3)],
        *[lambda chance, queue: _consume(recorder, chance, queue)] * 4,
        lambda chance, queue: _operate(recorder, chance, queue),
        lambda chance, _: _cut(server, chance),
    ]
    if sabotage is not None:
        actors.append(lambda *_: _sabotage(server, sabotage))

    def act(actor: Callable[[random.Random, duly.Queue], None], own: random.Random, queue: duly.Queue) -> None:
        try:
            while not over.is_set():
                actor(own, queue)
        except BaseException as error:  # noqa: BLE001
            failures.append(error)
            over.set()

    def connected() -> duly.Queue:
        # Before connections are cut: a client that never worked is not patient.
        client = duly.Client(server.url)
        client.ping()
        return client.queue("orders")

    threads = [
        threading.Thread(target=act, args=(actor, random.Random(chance.random()), connected())) for actor in actors
    ]
    for thread in threads:
        thread.start()
    began = time.monotonic()
    over.wait(seconds)
    while not kinds <= {operation.what for operation in list(recorder.operations)} and time.monotonic() - began < 60:
        over.wait(0.1)
    over.set()
    for thread in threads:
        thread.join(60)
    if failures:
        raise failures[0]
    _drain(recorder, duly.Client(server.url).queue("orders"))
    return recorder.operations


class _Producer:
    """Pushes with keys that no other producer has, so that it knows which job a push replaces."""

    def __init__(self, recorder: Recorder, ids: itertools.count[int]) -> None:
        self._recorder, self._ids = recorder, ids
        self._keys = [f"k{next(ids)}" for _ in range(KEYS)]
        self._holders: dict[str, str] = {}

    def __call__(self, chance: random.Random, queue: duly.Queue) -> None:
        job = f"j{next(self._ids)}"
        delay = chance.choice([0.0, 0.0, chance.uniform(0, 0.5)])
        index = chance.randrange(KEYS)
        key = self._keys[index] if chance.random() < 0.5 else None
        new = duly.NewJob(
            {"n": job},
            id=job,
            key=key,
            delay=delay,
            on_duplicate=chance.choice(["refuse", "keep", "replace"]),
            max_retries=1000,
            retry=duly.RetryPolicy.fixed(0.02),
            result_ttl=30,
        )
        holder = self._holders.get(key) if key else None
        start = time.time()
        try:
            summary = queue.push_many([new], ids=True)
        except duly.DulyTimeoutError:
            self._recorder.note("push", job, start, ok=None, delay=delay, key=key, replaced=holder)
            # Nobody knows any more which job has this key.
            self._keys[index] = f"k{next(self._ids)}"
            return
        assert summary.ids is not None
        if summary.duplicates:
            self._recorder.note("push", job, start, ok=False)
        elif summary.kept:
            self._recorder.note("push", job, start, kept=summary.ids[0])
        else:
            self._recorder.note("push", job, start, delay=delay, key=key, replaced=holder if summary.replaced else None)
            if key is not None:
                self._holders[key] = job
        time.sleep(chance.uniform(0, 0.004))


def _consume(recorder: Recorder, chance: random.Random, queue: duly.Queue) -> None:
    start = time.time()
    try:
        jobs = queue.reserve_many(chance.choice([1, 1, 5]), wait=0.05, lease=LEASE_S)
    except duly.DulyTimeoutError:
        return
    for job in jobs:
        recorder.note("run", job.id, start, token=job.token, lease=LEASE_S)
    for job in jobs:
        what = chance.choices(["ack", "fail", "forget", "late"], [10, 3, 1, 1])[0]
        if what == "late":
            time.sleep(LEASE_S * 1.2)
        start = time.time()
        ok: bool | None = True
        try:
            if what in ("ack", "late"):
                job.ack(job.token)
            elif what == "fail":
                job.fail("by chance")
        except duly.LeaseLostError:
            ok = False
        except duly.DulyTimeoutError:
            ok = None
        if what in ("ack", "late"):
            recorder.note("ack", job.id, start, ok, token=job.token, value=job.token)
        elif what == "fail":
            recorder.note("fail", job.id, start, ok, token=job.token)


def _operate(recorder: Recorder, chance: random.Random, queue: duly.Queue) -> None:
    what = chance.choice(["cancel", "reschedule", "result"])
    # Of jobs that were just pushed a busy machine has no result yet.
    of = "ack" if what == "result" and chance.random() < 0.5 else "push"
    jobs = [operation.job for operation in recorder.operations[-200:] if operation.what == of and operation.ok]
    if not jobs:
        return
    job = chance.choice(jobs)
    start = time.time()
    if what == "cancel":
        ok: bool | None = None
        with suppress(duly.DulyTimeoutError):
            ok = queue.cancel(job) is not None
        recorder.note("cancel", job, start, ok=ok)
    elif what == "reschedule":
        delay = chance.uniform(0, 0.5)
        try:
            queue.reschedule(job, delay=delay)
            ok = True
        except duly.DulyTimeoutError:
            ok = None
        except duly.NotFoundError:
            ok = False
        recorder.note("reschedule", job, start, ok=ok, delay=delay)
    else:
        with suppress(duly.DulyTimeoutError, duly.NoResultError, duly.JobFailedError):
            recorder.note("result", job, start, value=queue.wait_result(job, timeout=0.05))


def _cut(server: Server, chance: random.Random) -> None:
    time.sleep(chance.uniform(0.05, 0.3))
    with suppress(AssertionError):  # it may cut itself
        server.cli("client", "kill", "type", "normal", "skipme", "yes")


# What a stranger does behind the queue's back: what is found then, a key, and what is done to it.
SABOTAGES = {
    "early": (
        "before it was due",
        "delayed",
        "for _, id in ipairs(redis.call('ZRANGE', KEYS[1], -50, -1)) do redis.call('ZADD', KEYS[1], 'XX', 1, id) end",
    ),
    "lost": (
        "was lost",
        "ready:5",
        "local id = redis.call('LINDEX', KEYS[1], -1) if id then redis.call('HDEL', ARGV[1] .. 'jobs', id) end",
    ),
    "twice": (
        "ran again while another one had its lease",
        "reserved",
        "for _, id in ipairs(redis.call('ZRANGE', KEYS[1], -3, -1)) do"
        " redis.call('ZREM', KEYS[1], id) redis.call('LPUSH', ARGV[1] .. 'ready:5', id) end",
    ),
}


def _sabotage(server: Server, kind: str) -> None:
    time.sleep(0.02)
    _, key, text = SABOTAGES[kind]
    with suppress(AssertionError):  # it may be cut, too
        server.cli("eval", text, "1", f"duly:{{orders}}:{key}", "duly:{orders}:")


def _drain(recorder: Recorder, queue: duly.Queue) -> None:
    """Run all that is left."""
    until = time.time() + 60
    while True:
        start = time.time()
        for job in queue.reserve_many(100, wait=0.2, lease=5):
            recorder.note("run", job.id, start, token=job.token)
            start_of_ack = time.time()
            try:
                job.ack(job.token)
                ok = True
            except duly.LeaseLostError:  # a stranger gave it away twice, or this machine was too busy
                ok = False
            recorder.note("ack", job.id, start_of_ack, ok, token=job.token, value=job.token)
        counts = queue.counts()
        if counts.delayed + counts.ready + counts.reserved + counts.failed == 0:
            return
        assert time.time() < until, f"the queue does not get empty: {counts}"


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seed", type=int, default=random.SystemRandom().getrandbits(32))
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--sabotage", action="store_true")
    arguments = parser.parse_args()
    passed = failed = 0
    began = time.monotonic()
    for seed in itertools.count(arguments.seed):
        if passed + failed and time.monotonic() - began + ROUND_S > arguments.seconds:
            break
        sabotage = [*SABOTAGES][(seed - arguments.seed) % len(SABOTAGES)] if arguments.sabotage else None
        server = Server("--appendonly", "yes", "--appendfsync", "no")
        try:
            history = record(server, seed=seed, seconds=ROUND_S, sabotage=sabotage)
            wrong = check(history)
        finally:
            server.close()
        _say(f"seed {seed}{f', {sabotage}' if sabotage else ''}: {len(history)} operations, {len(wrong)} wrong")
        for line in wrong[:10]:
            _say(f"    {line}")
        good = any(SABOTAGES[sabotage][0] in line for line in wrong) if sabotage else not wrong
        passed, failed = passed + good, failed + (not good)
    _say(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
