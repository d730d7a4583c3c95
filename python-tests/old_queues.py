"""What old queues do in Redis, command by command: drivers with redis-py, written after the queues' own sources."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Callable
from typing import Any, cast

import redis

Callback = Callable[[Any], None]


class Packages:
    """`Queue.php` for ThinkPHP, and workerman's and webman's redis-queue, where `queue` is in each package."""

    def __init__(self, server: redis.Redis, ready: str, delayed: str, failed: str, queue: str | None = None) -> None:
        self.redis, self.ready, self.delayed, self.failed, self.queue = server, ready, delayed, failed, queue
        self._numbers = itertools.count(1)

    def send(self, data: object, delay: int = 0) -> None:
        now = time.time()
        package: dict[str, object] = {"id": f"{now:.4f}.{next(self._numbers)}", "time": int(now), "delay": delay}
        package["attempts"] = 0
        if self.queue is not None:
            package["queue"] = self.queue
        text = json.dumps({**package, "data": data}, separators=(",", ":"))
        if delay == 0:
            self.redis.lpush(self.ready, text)
        else:
            self.redis.zadd(self.delayed, {text: int(now) + delay})

    def poll(self, now: float) -> None:
        """The poller, once: with phpredis its limit means nothing."""
        for text in cast("list[bytes]", self.redis.zrevrangebyscore(self.delayed, int(now), "-inf")):
            if self.redis.zrem(self.delayed, text) != 1:
                continue
            package = _decoded(text)
            # workerman: the queue of the package; that of the other one has no other.
            self.redis.lpush(self.ready if package else self.failed, text)

    def consume(self, callback: Callback) -> bool:
        """One job. False if there is none."""
        text = cast("bytes | None", self.redis.rpop(self.ready))
        if text is None:
            return False
        package = _decoded(text)
        if not package:
            self.redis.lpush(self.failed, text)
            return True
        try:
            callback(package["data"])
        except ValueError as error:
            package["max_attempts"], package["error"] = 5, str(error)
            package["attempts"] += 1
            again = json.dumps(package, ensure_ascii=False, indent=4)
            if package["attempts"] > package["max_attempts"]:
                self.redis.lpush(self.failed, again)
            else:
                self.redis.zadd(self.delayed, {again: int(time.time()) + 5 * package["attempts"]})
        return True


class Payloads:
    """think-queue 3 and Laravel."""

    def __init__(self, server: redis.Redis, key: str, retry_after: int = 60, *, notices: bool = False) -> None:
        self.redis, self.key, self.retry_after = server, key, retry_after
        # Laravel's: workers wait by it.
        self.notices = f"{key}:notify" if notices else None
        self._numbers = itertools.count(1)

    def push(self, job: str, data: object, delay: int = 0) -> str:
        identity = f"id-{next(self._numbers)}"
        payload = {"job": job, "maxTries": None, "timeout": None, "data": data, "id": identity, "attempts": 0}
        text = json.dumps(payload, separators=(",", ":")).replace("/", "\\/")
        if delay == 0:
            self._add(text)
        else:
            self.redis.zadd(f"{self.key}:delayed", {text: int(time.time()) + delay})
        return text

    def _add(self, *texts: str | bytes) -> None:
        self.redis.rpush(self.key, *texts)
        if self.notices:
            self.redis.rpush(self.notices, *["1"] * len(texts))

    def pop(self, now: float) -> tuple[dict[str, Any], str] | None:
        """A job, and what is kept of it while it runs."""
        for state in ("delayed", "reserved"):
            over = cast("list[bytes]", self.redis.zrangebyscore(f"{self.key}:{state}", "-inf", int(now)))
            if over:
                self.redis.zremrangebyrank(f"{self.key}:{state}", 0, len(over) - 1)
                self._add(*over)
        text = cast("bytes | None", self.redis.lpop(self.key))
        if text is None:
            return None
        if self.notices:
            self.redis.lpop(self.notices)
        payload: dict[str, Any] = json.loads(text)
        payload["attempts"] += 1
        reserved = json.dumps(payload)
        self.redis.zadd(f"{self.key}:reserved", {reserved: int(now) + self.retry_after})
        return payload, reserved

    def delete(self, reserved: str) -> None:
        self.redis.zrem(f"{self.key}:reserved", reserved)


def _decoded(text: bytes) -> dict[str, Any]:
    try:
        package = json.loads(text)
    except ValueError:
        return {}
    return package if isinstance(package, dict) else {}
