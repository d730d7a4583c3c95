"""What old queues do in Redis, command by command: drivers with redis-py, checked against the queues' own sources.

These were walkor/redis-queue, webman-php/redis-queue, top-think/think-queue and laravel/framework, as of 2026.
"""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Callable
from typing import Any, cast

import redis

Callback = Callable[[Any], None]


# As Laravel's own script: what lies in `:reserved` has been read and written by the server's cjson.
LARAVEL_POP = """
local text = redis.call('LPOP', KEYS[1])
if not text then return false end
local payload = cjson.decode(text)
payload.attempts = payload.attempts + 1
local reserved = cjson.encode(payload)
redis.call('ZADD', KEYS[2], ARGV[1], reserved)
redis.call('LPOP', KEYS[3])
return reserved
"""


def php_json(value: object, *, pretty: bool = False) -> str:
    """As PHP writes it: `pretty` is JSON_UNESCAPED_UNICODE | JSON_PRETTY_PRINT."""
    text = json.dumps(value, ensure_ascii=False, indent=4) if pretty else json.dumps(value, separators=(",", ":"))
    return text.replace("/", "\\/")


def php_decoded(text: str | bytes) -> Any:
    """As `json_decode($text, true)`: null if it is no JSON, and an empty object is an empty array."""
    try:
        return json.loads(text, object_hook=lambda fields: fields or [])
    except ValueError:
        return None


class UnretryableError(Exception):
    """`UnretryableException` of newer versions of workerman's redis-queue."""


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
        text = php_json({**package, "data": data})
        if delay == 0:
            self.redis.lpush(self.ready, text)
        else:
            self.redis.zadd(self.delayed, {text: int(now) + delay})

    def send_by_webman(self, data: object, delay: int = 0) -> None:
        """`Webman\\RedisQueue\\Redis::send`: its id is a number, and its `delay` is always 0."""
        now = int(time.time())
        package = {"id": next(self._numbers), "time": now, "delay": 0, "attempts": 0, "queue": self.queue, "data": data}
        if delay:
            self.redis.zadd(self.delayed, {php_json(package): now + delay})
        else:
            self.redis.lpush(self.ready, php_json(package))

    def poll(self, now: float) -> None:
        """The poller, once: with phpredis its limit means nothing."""
        for text in cast("list[bytes]", self.redis.zrevrangebyscore(self.delayed, int(now), "-inf")):
            if self.redis.zrem(self.delayed, text) != 1:
                continue
            package = php_decoded(text)
            ready = self.ready
            if package and self.queue is not None:
                ready = ready.removesuffix(self.queue) + package["queue"]
            self.redis.lpush(ready if package else self.failed, text)

    def consume(self, callback: Callback) -> bool:
        """One job. False if there is none."""
        text = cast("bytes | None", self.redis.rpop(self.ready))
        if text is None:
            return False
        package = php_decoded(text)
        if not package:
            self.redis.lpush(self.failed, text)
            return True
        try:
            callback(package["data"])
        except UnretryableError as error:
            package["max_attempts"], package["error"] = 5, str(error)
            self.redis.lpush(self.failed, php_json(package, pretty=True))
        except ValueError as error:
            package["max_attempts"], package["error"] = 5, str(error)
            package["attempts"] += 1
            again = php_json(package, pretty=True)
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
        text = php_json(payload)
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
        until = int(now) + self.retry_after
        if self.notices:
            keys = (self.key, f"{self.key}:reserved", self.notices)
            popped = cast("bytes | None", self.redis.eval(LARAVEL_POP, 3, *keys, until))
            return (php_decoded(popped), popped.decode()) if popped else None
        text = cast("bytes | None", self.redis.lpop(self.key))
        if text is None:
            return None
        payload: dict[str, Any] = php_decoded(text)
        payload["attempts"] += 1
        reserved = php_json(payload)
        self.redis.zadd(f"{self.key}:reserved", {reserved: until})
        return payload, reserved

    def delete(self, reserved: str) -> None:
        self.redis.zrem(f"{self.key}:reserved", reserved)
