"""Runs the vectors of conformance/vectors, each through the server: see docs/wire-format.md."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import duly
import pytest
from support import Server

FOLDER = Path(__file__).resolve().parent.parent / "conformance" / "vectors"


EMPTY = {
    "data": "1", "error": "", "attempts": 0, "max_attempts": 5, "time": 0, "name": None, "key": None, "priority": 5,
    "timeout": None, "headers": {},
}  # fmt: skip


def vectors(file: str) -> list[Any]:
    return [pytest.param(one, id=one["name"]) for one in json.loads((FOLDER / file).read_text("utf-8"))["vectors"]]


def text(parts: Any) -> str:
    if isinstance(parts, str):
        return parts
    return "".join(part if isinstance(part, str) else part["repeat"] * part["times"] for part in parts)


def given(vector: dict[str, Any], field: str) -> bytes:
    coded = vector.get(f"{field}_base64")
    return base64.b64decode(coded) if coded is not None else text(vector[field]).encode()


def check(queue: duly.Queue, server: Server, key: str, vector: dict[str, Any], job_id: str, record: bytes) -> None:
    """Stores the record as somebody else would have, and reads it by the usual way."""
    server.cli("HSET", f"{key}:jobs", job_id, stdin=record) if record else server.cli("HSET", f"{key}:jobs", job_id, "")
    server.cli("RPUSH", f"{key}:ready:5", job_id)
    job = queue.reserve()
    if "error" in vector:
        assert job is None
        if vector["error"] == "format_too_new":
            (view,) = queue.peek("delayed")
            assert view.undecodable
            assert view.package == record, "it is left to newer workers"
            return
        (view,) = queue.peek("failed")
        assert view.id == job_id
        # What is kept beside the record is written anew when the job fails, and can be read from then on.
        assert view.undecodable or view.error.startswith("undecodable record: ")
        if view.undecodable:
            assert view.package == record, "nothing is lost"
        return
    assert job is not None, [view.undecodable for view in queue.peek("failed")]
    expected = vector["decodes_to"]
    assert job.raw.decode() == text(expected["data"])
    assert job.error == text(expected["error"])
    for name, known_as in {"attempts": "attempts", "max_attempts": "max_retries", "time": "pushed_at"}.items():
        # A record without a time takes it from an id that looks like one of duly's own, and a package may have any id.
        if name != "time" or expected["time"]:
            assert getattr(job, known_as) == expected[name], name
    for name in ("name", "key", "priority", "timeout", "headers"):
        assert getattr(job, name) == expected[name], name
    assert job.result_ttl == expected.get("result_ttl")
    assert job.expires == expected.get("expires")


@pytest.mark.parametrize("vector", vectors("packages.json"))
def test_package(queue: duly.Queue, server: Server, prefix: str, vector: dict[str, Any]) -> None:
    job_id = (vector.get("decodes_to") or {}).get("id") or "x"
    check(queue, server, f"{prefix}{{q}}", vector, job_id, given(vector, "package"))


@pytest.mark.parametrize("vector", vectors("records.json"))
def test_record(queue: duly.Queue, server: Server, prefix: str, vector: dict[str, Any]) -> None:
    if vector["came_back"] == "":
        # An empty value says the same as none: nothing was kept.
        vector = {"decodes_to": EMPTY} | {name: one for name, one in vector.items() if name != "error"}
    if vector["came_back"] is not None:
        server.cli("HSET", f"{prefix}{{q}}:returned", vector["id"], vector["came_back"])
    check(queue, server, f"{prefix}{{q}}", vector, vector["id"], given(vector, "record"))


@pytest.mark.parametrize("vector", vectors("data.json"))
def test_data(queue: duly.Queue, vector: dict[str, Any]) -> None:
    raw = given(vector, "data")
    if "error" in vector:
        with pytest.raises(duly.DulyError) as caught:
            queue.push(raw=raw)
        assert caught.value.kind == vector["error"]
        return
    queue.push(raw=raw)
    job = queue.reserve()
    assert job is not None
    assert job.raw == raw
    assert job.data == json.loads(raw)


@pytest.mark.parametrize("vector", vectors("retry.json"))
def test_retry(vector: dict[str, Any]) -> None:
    ((kind, settings),) = vector["policy"].items()
    settings = {"jitter": False, **settings} if kind == "exponential" else settings
    policy = getattr(duly.RetryPolicy, kind)(**settings)
    most = vector["max_retries"]
    waits = [policy.decide(failures, most) for failures in range(1, most + 2)]
    assert waits == [*vector["waits"], None]
