"""Runs the scenarios of conformance/scenarios; what they mean is written in conformance/README.md."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duly
import pytest
from support import Server

FOLDER = Path(__file__).resolve().parent.parent / "conformance" / "scenarios"
START_S = 1_790_000_000
TOTALS = [
    "pushed",
    "acked",
    "retried",
    "released",
    "failed",
    "reclaimed",
    "cancelled",
    "requeued",
    "purged",
    "trimmed",
    "expired",
]
JOB = [
    "id",
    "name",
    "key",
    "priority",
    "attempt",
    "attempts",
    "max_retries",
    "returns",
    "redelivered",
    "error",
    "headers",
    "token",
    "timeout",
    "expires",
]
VIEW = [
    "id",
    "name",
    "key",
    "priority",
    "attempts",
    "max_retries",
    "error",
    "headers",
    "timeout",
    "expires",
    "state",
    "at",
    "undecodable",
]

numbers = itertools.count()


def scenarios() -> list[Any]:
    found = [(file.stem, one) for file in sorted(FOLDER.glob("*.json")) for one in json.loads(file.read_text("utf-8"))]
    assert found, f"no scenario in {FOLDER}"
    names = [scenario["name"] for _, scenario in found]
    assert len(set(names)) == len(names), "two scenarios have the same name"
    return [pytest.param(scenario, id=f"{topic}/{scenario['name']}") for topic, scenario in found]


class Unexpected(Exception):  # noqa: N818 - it is what the message says
    """A step did not do what it says."""


class Run:
    def __init__(self, server: Server, scenario: dict[str, Any]) -> None:
        allow(scenario, {"name", "steps", "why", "max_data_bytes"})
        self.server = server
        self.prefix = f"c{next(numbers)}:"
        self.settings = {"max_data_bytes": scenario["max_data_bytes"]} if "max_data_bytes" in scenario else {}
        self.clients: dict[str, duly.Client] = {}
        self.kept: dict[str, Any] = {}
        self.now = START_S
        self.steps = scenario["steps"]
        self.client: duly.Client
        self.queue: duly.Queue

    def run(self) -> None:
        self.advance(0)
        for number, step in enumerate(self.steps, 1):
            try:
                self.step(step)
            except Unexpected as error:
                raise AssertionError(f"step {number}, {json.dumps(step)[:300]}: {error}") from error

    def step(self, step: dict[str, Any]) -> None:
        allow(step, {"do", "args", "client", "as", "expect", "error", "job_id", "job_state", "says"})
        name = step.get("client", "a")
        if name not in self.clients:
            self.clients[name] = duly.Client(self.server.url, prefix=self.prefix, manual_clock=True, **self.settings)
        self.client = self.clients[name]
        self.queue = self.client.queue("q")
        verb = VERBS.get(step["do"]) or on_queue(step["do"])
        arguments = self.resolve(step.get("args", {}))
        try:
            result = verb(self, **arguments)
        except duly.DulyError as error:
            self.check_error(step, error)
            return
        except TypeError as error:
            raise Unexpected(f"unknown or wrong argument: {error}") from error
        if "error" in step:
            raise Unexpected(f"it gave {shown(result)!r} and should fail with {step['error']}")
        if "as" in step:
            self.kept[step["as"]] = result
        if "expect" in step:
            match(self.resolve(step["expect"]), shown(result), "")

    def check_error(self, step: dict[str, Any], error: duly.DulyError) -> None:
        if error.kind != step.get("error"):
            raise Unexpected(f"it failed with {error.kind}: {error}")
        if "job_id" in step and error.job_id != self.resolve(step["job_id"]):
            raise Unexpected(f"the error's job id is {error.job_id!r}")
        if error.job_state != step.get("job_state", error.job_state):
            raise Unexpected(f"the error's job state is {error.job_state!r}")
        if step.get("says", "") not in str(error):
            raise Unexpected(f"the message does not say {step['says']!r}: {error}")

    def resolve(self, value: Any) -> Any:
        if isinstance(value, str) and value.startswith("$"):
            name, *path = value[1:].split(".")
            if name not in self.kept:
                raise Unexpected(f"unknown reference {value}")
            found = self.kept[name]
            for step in path:
                found = found[int(step)] if isinstance(found, list) else shown(found)[step]
            return found
        if isinstance(value, dict):
            if value.keys() == {"repeat", "times"}:
                return str(value["repeat"]) * int(value["times"])
            return {name: self.resolve(one) for name, one in value.items()}
        if isinstance(value, list):
            return [self.resolve(one) for one in value]
        return value

    def advance(self, seconds: float) -> None:
        self.now += seconds  # type: ignore[assignment]
        self.redis(["HSET", "{q}:meta", "clock", str(round(self.now * 1000))])

    def redis(self, command: list[str]) -> str:
        spelled = [self.prefix + part if part.startswith("{q}:") else part for part in command]
        try:
            return self.server.cli(*spelled)
        except AssertionError as error:
            raise Unexpected(str(error)) from error


def allow(given: dict[str, Any], words: set[str]) -> None:
    if unknown := given.keys() - words:
        raise Unexpected(f"unknown words {unknown}")


def policy(wire: dict[str, Any]) -> duly.RetryPolicy:
    ((kind, settings),) = wire.items()
    match kind:
        case "linear":
            return duly.RetryPolicy.linear(**settings)
        case "fixed":
            return duly.RetryPolicy.fixed(**settings)
        case "exponential":
            return duly.RetryPolicy.exponential(settings.pop("base"), **{"jitter": False, **settings})
        case "list":
            return duly.RetryPolicy.list(**settings)
    raise Unexpected(f"unknown policy {kind}")


def pushed(arguments: dict[str, Any]) -> dict[str, Any]:
    arguments = {"raw": "1", **arguments}
    arguments["raw"] = arguments["raw"].encode()
    if arguments.get("retry") is not None:
        arguments["retry"] = policy(arguments["retry"])
    return arguments


def push_many(run: Run, jobs: list[dict[str, Any]], times: int = 1) -> Any:
    def numbered(job: dict[str, Any], number: int) -> duly.NewJob:
        fields = {k: v.replace("{i}", str(number)) if k in ("raw", "id", "key") else v for k, v in job.items()}
        return duly.NewJob(**pushed(fields))

    return run.queue.push_many(numbered(job, number) for number in range(times) for job in jobs)


def value_of(spread: duly.Spread, name: str) -> float | None:
    """To three digits."""
    value = getattr(spread, name)
    return value if value is None else round(value, 3)


def shown(value: Any) -> Any:
    """What a verb gave, in the words of the scenarios."""
    if isinstance(value, list):
        return [shown(one) for one in value]
    if isinstance(value, duly.ReservedJob):
        return {**{name: getattr(value, name) for name in JOB}, "raw": value.raw.decode(), "extra": dict(value.extra)}
    if isinstance(value, duly.JobView):
        view = {**{name: getattr(value, name) for name in VIEW}, "raw": value.raw.decode(), "extra": dict(value.extra)}
        view["progress"] = shown(value.progress)
        return {**view, "token": value.token, "why": value.why} if isinstance(value, duly.Found) else view
    if isinstance(value, duly.Progress):
        return {name: getattr(value, name) for name in ("fraction", "text", "at")}
    if isinstance(value, duly.Spread):
        return {name: value_of(value, name) for name in ("count", "mean", "p50", "p95", "p99")}
    if isinstance(value, (duly.Rates, duly.RateWindow, duly.NameRates, duly.RunCounts)):
        return {name: shown(getattr(value, name)) for name in dir(value) if not name.startswith("_")}
    if isinstance(value, (duly.Trace, duly.TraceEvent, duly.TraceRun)):
        return {name: shown(getattr(value, name)) for name in dir(value) if not name.startswith("_")}
    if isinstance(value, duly.WorkerInfo):
        worker = ("id", "host", "pid", "language", "version", "name", "queues", "concurrency", "started_at")
        return {**{name: getattr(value, name) for name in worker}, "running": shown(value.running)}
    if isinstance(value, duly.RunningJob):
        return {name: getattr(value, name) for name in ("id", "name", "started_at")}
    if isinstance(value, duly.Lock):
        # In whole seconds, so that one that was not waited for has waited 0.
        return {"name": value.name, "token": value.token, "waited": int(value.waited)}
    if isinstance(value, duly.Message):
        return {name: getattr(value, name) for name in ("topic", "id", "data", "deliveries")}
    if isinstance(value, duly.Published):
        return {"count": len(value.ids), "cut_off": value.cut_off}
    if isinstance(value, duly.TopicInfo):
        return {name: shown(getattr(value, name)) for name in ("published", "messages", "subscriptions", "cut_off")}
    if isinstance(value, duly.Subscription):
        return {name: getattr(value, name) for name in ("name", "read", "unread", "pulled")}
    if isinstance(value, duly.SubscriptionMember):
        return {name: getattr(value, name) for name in ("name", "subscription", "pulled", "behind", "is_cut_off")}
    if isinstance(value, duly.CutOff):
        return {name: getattr(value, name) for name in ("name", "first", "last")}
    if isinstance(value, duly.ScheduleView):
        names = ("name", "owner", "paused", "next", "last", "fired", "made_at", "changed_at")
        of_schedule = {name: getattr(value.schedule, name) for name in ("cron", "tz", "every")}
        return {**{name: getattr(value, name) for name in names}, **of_schedule, "fires": shown(value.fires)}
    if isinstance(value, duly.Fire):
        return {name: getattr(value, name) for name in ("slot", "at", "outcome", "job_id")}
    if isinstance(value, duly.SyncReport):
        return {name: getattr(value, name) for name in ("created", "changed", "unchanged", "removed")}
    if isinstance(value, duly.PushSummary):
        return {name: getattr(value, name) for name in ("created", "kept", "replaced", "duplicates")}
    if isinstance(value, duly.Cancelled):
        return {"id": value.id, "was": value.was}
    if isinstance(value, duly.SearchPage):
        return {"jobs": shown(value.jobs), "looked_at": value.looked_at, "cursor": value.cursor}
    if isinstance(value, duly.QueuePage):
        return {"queues": shown(value.queues), "cursor": value.cursor}
    if isinstance(value, duly.TopicPage):
        return {"topics": shown(value.topics), "cursor": value.cursor}
    if isinstance(value, duly.ListedTopic):
        return {"name": value.name, "last_used": value.last_used}
    if isinstance(value, duly.QueueInfo):
        return {name: getattr(value, name) for name in ("name", "partitions", "last_used")}
    if isinstance(value, duly.Requeued):
        return value.outcome
    if isinstance(value, duly.Counts):
        states = ("delayed", "ready", "reserved", "failed", "paused", "held")
        spans = ("next_due_in", "overdue", "next_lease_end_in")
        totals = {name: value.totals.get(name, 0) for name in TOTALS}
        return {**{name: getattr(value, name) for name in (*states, *spans)}, "totals": totals}
    if isinstance(value, duly.Limits):
        rate = list(value.rate) if value.rate else None
        of_names = {
            name: {word: list(limit) if isinstance(limit, tuple) else limit for word, limit in limits.items()}
            for name, limits in value.names.items()
        }
        return {"concurrency": value.concurrency, "rate": rate, "names": of_names, "max_length": value.max_length}
    return value


def match(expected: Any, found: Any, where: str) -> None:
    def unless(holds: bool) -> None:
        if not holds:
            raise Unexpected(f"{where or 'the result'} is {found!r} and should be {expected!r}")

    if isinstance(expected, duly.ReservedJob):
        expected = shown(expected)
    if not isinstance(expected, (dict, list)):
        is_number = isinstance(expected, (int, float)) and not isinstance(expected, bool)
        same_type = isinstance(found, (int, float)) and not isinstance(found, bool) if is_number else True
        unless(same_type and (is_number or type(expected) is type(found)) and expected == found)
    elif isinstance(expected, list):
        unless(isinstance(found, list) and len(found) == len(expected))
        for index, (one, other) in enumerate(zip(expected, found, strict=True)):
            match(one, other, f"{where}[{index}]")
    elif isinstance(found, str):
        unless(expected.keys() == {"contains"} and expected["contains"] in found)
    elif isinstance(found, (int, float)) and not isinstance(found, bool):
        unless(expected.keys() == {"greater_than"} and found > expected["greater_than"])
    elif isinstance(found, list):
        for name, one in expected.items():
            if name == "length":
                match(one, len(found), f"{where}.length")
            else:
                unless(int(name) < len(found))
                match(one, found[int(name)], f"{where}[{name}]")
    else:
        unless(isinstance(found, dict))
        for name, one in expected.items():
            unless(name in found)
            match(one, found[name], f"{where}.{name}")


def settle(verb: str) -> Callable[..., Any]:
    def call(_run: Run, job: Any, **arguments: Any) -> Any:
        getattr(job, verb)(**arguments)

    return call


def on_queue(verb: str) -> Callable[..., Any]:
    if not hasattr(duly.Queue, verb):
        raise Unexpected(f"unknown verb {verb!r}")
    return lambda run, **arguments: getattr(run.queue, verb)(**arguments)


def make_queue(run: Run, name: str) -> None:
    run.client.queue(name)


def set_limits(
    run: Run,
    rate: tuple[int, float] | None = None,
    names: dict[str, Any] | None = None,
    **arguments: Any,
) -> None:
    # JSON has no pairs.
    for limits in (names or {}).values():
        if "rate" in limits:
            limits["rate"] = tuple(limits["rate"])
    run.queue.set_limits(rate=None if rate is None else (rate[0], rate[1]), names=names, **arguments)


def lock(run: Run, name: str, **arguments: Any) -> duly.Lock:
    return run.client.lock(name, **arguments)


def unlock(_run: Run, lock: duly.Lock) -> bool:
    return lock.release()


def lock_for_job(_run: Run, job: duly.Job, **arguments: Any) -> duly.Lock | None:
    try:
        return job.lock(**arguments)
    except duly.Release as release:
        job.release(release.after, reason=release.reason)
        return None


def on_topic(verb: str) -> Callable[..., Any]:
    return lambda run, topic, **arguments: getattr(run.client.topic(topic), verb)(**arguments)


def subscribe(run: Run, topic: str, member: str, **arguments: Any) -> bool:
    if "from" in arguments:
        arguments["from_"] = arguments.pop("from")
    return run.client.topic(topic).subscribe(member, **arguments)


def read(run: Run, topic: str, member: str, messages: list[duly.Message]) -> int:
    return run.client.topic(topic).ack(member, *messages)


def made_schedule(job: dict[str, Any] | None = None, **arguments: Any) -> duly.Schedule:
    return duly.Schedule(duly.NewJob(**pushed(job or {})), **arguments)


def put_schedule(run: Run, name: str, schedule: dict[str, Any]) -> str:
    return run.queue.schedules.put(name, made_schedule(**schedule))


def sync_schedules(run: Run, owner: str, schedules: dict[str, dict[str, Any]]) -> duly.SyncReport:
    return run.queue.schedules.sync(owner, {name: made_schedule(**arguments) for name, arguments in schedules.items()})


def on_schedules(verb: str) -> Callable[..., Any]:
    return lambda run, **arguments: getattr(run.queue.schedules, verb)(**arguments)


# All others are methods of the queue, by the same name.
VERBS: dict[str, Callable[..., Any]] = {
    "queue": make_queue,
    "push": lambda run, **arguments: run.queue.push(**pushed(arguments)),
    "push_many": push_many,
    "requeue": lambda run, ids: run.queue.requeue(*ids),
    "set_limits": set_limits,
    "lock": lock,
    "unlock": unlock,
    "lock_for_job": lock_for_job,
    "publish": on_topic("publish_all"),
    "subscribe": subscribe,
    "unsubscribe": on_topic("unsubscribe"),
    "pull": on_topic("pull"),
    "pull_all": lambda run, member, **arguments: run.client.pull(member, **arguments),
    "read": read,
    "topic": on_topic("info"),
    "members": on_topic("members"),
    "bound": on_topic("set_bounds"),
    "queues": lambda run, **arguments: run.client.queues(**arguments),
    "topics": lambda run, **arguments: run.client.topics(**arguments),
    "topics_of": lambda run, member: run.client.topics_of(member),
    "put_schedule": put_schedule,
    "sync_schedules": sync_schedules,
    "get_schedule": on_schedules("get"),
    "remove_schedule": on_schedules("remove"),
    "pause_schedule": on_schedules("pause"),
    "resume_schedule": on_schedules("resume"),
    "run_schedule": on_schedules("run_now"),
    "next_slots": on_schedules("next"),
    "list_schedules": on_schedules("list"),
    "fire_due": on_schedules("fire_due"),
    "advance": Run.advance,
    "redis": Run.redis,
    **{verb: settle(verb) for verb in ("ack", "fail", "release", "extend", "progress", "note_start")},
}


@pytest.mark.parametrize("scenario", scenarios())
def test_scenario(server: Server, scenario: dict[str, Any]) -> None:
    Run(server, scenario).run()
