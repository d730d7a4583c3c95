"""`duly web --api` and a client of it, which compares each answer with the description of the API."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from jsonschema import Draft202012Validator

ROOT = Path(__file__).resolve().parent.parent
DESCRIPTION: dict[str, Any] = json.loads((ROOT / "console" / "src" / "api" / "openapi.json").read_text("utf-8"))
ROLES = ("view", "work", "operate", "admin")
TOKENS = {role: f"{role}-0123456789abcdef0123" for role in ROLES}
IN_ENVIRONMENT = ", ".join(f"{role}:{token}" for role, token in TOKENS.items())
METHODS = ("get", "post", "patch", "delete")


def operations() -> list[tuple[str, str, dict[str, Any]]]:
    """List the method, the path and the description of all operations but that of the description itself."""
    return [
        (method, path, item[method])
        for path, item in DESCRIPTION["paths"].items()
        for method in METHODS
        if method in item and "x-duly-role" in item[method]
    ]


def operation_of(method: str, path: str) -> dict[str, Any] | None:
    """Give the description of what a request asks for; None if there is none."""
    segments = path.partition("?")[0].split("/")
    for template, item in DESCRIPTION["paths"].items():
        parts = template.split("/")
        if len(parts) == len(segments) and all(
            part.startswith("{") or part == segment for part, segment in zip(parts, segments, strict=True)
        ):
            described: dict[str, Any] | None = item.get(method.lower())
            return described
    return None


def validator(schema: dict[str, Any]) -> Draft202012Validator:
    return Draft202012Validator({**schema, "components": DESCRIPTION["components"]})


def compare(method: str, path: str, sent: object, status: int, said: object) -> None:
    """Fail if the description says something else of this request or of its answer."""
    operation = operation_of(method, path)
    if operation is None or status >= 400:
        schema = {"$ref": "#/components/schemas/Error"}
    else:
        # What is taken is described; what is refused may be described, too: an id that another job has.
        if "requestBody" in operation and sent is not None:
            validator(operation["requestBody"]["content"]["application/json"]["schema"]).validate(sent)
        schema = operation["responses"][str(status)]["content"]["application/json"]["schema"]
    validator(schema).validate(said)


@dataclass
class Answer:
    status: int
    headers: http.client.HTTPMessage
    text: str

    @property
    def value(self) -> Any:
        return json.loads(self.text)

    @property
    def kind(self) -> str:
        kind: str = self.value["error"]["kind"]
        return kind

    @property
    def message(self) -> str:
        message: str = self.value["error"]["message"]
        return message


class Api:
    """`duly web --api`, and a client."""

    def __init__(self, url: str, prefix: str, *arguments: str, tokens: str = IN_ENVIRONMENT) -> None:
        command = [sys.executable, "-m", "duly", "web", "--url", url, "--prefix", prefix, "--listen", "127.0.0.1:0"]
        env = {**os.environ, "DULY_API_TOKENS": tokens, "DULY_WEB_PASSWORD": ""}
        self.process = subprocess.Popen(
            [*command, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env
        )
        assert self.process.stdout is not None
        self.page = self.process.stdout.readline().strip()
        self.port = urlsplit(self.page).port or 0

    def connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)

    def ask(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        token: str = TOKENS["admin"],
        connection: http.client.HTTPConnection | None = None,
        headers: dict[str, str] | None = None,
        **query: object,
    ) -> Answer:
        """Ask for a path below /api/v1/. A body of bytes is sent as it is."""
        path = f"/api/v1/{path}" + (f"?{urlencode(query)}" if query else "")
        given = {"Authorization": f"Bearer {token}"} if token else {}
        if body is not None:
            given["Content-Type"] = "application/json"
        sent = body if isinstance(body, bytes) else (None if body is None else json.dumps(body).encode())
        own = connection or self.connect()
        try:
            own.request(method, path, sent, {**given, **(headers or {})})
            answer = own.getresponse()
            text = answer.read().decode()
        finally:
            if connection is None:
                own.close()
        assert answer.headers["content-type"] == "application/json", text
        assert "access-control-allow-origin" not in answer.headers
        sent_value = None if isinstance(body, bytes) else body
        compare(method, path, sent_value, answer.status, json.loads(text))
        return Answer(answer.status, answer.headers, text)

    def done(self, method: str, path: str, body: object = None, **query: object) -> Any:
        """Ask for what is to succeed, and give what it says."""
        answer = self.ask(method, path, body, **query)  # type: ignore[arg-type]
        assert answer.status in (200, 201), answer.text
        return answer.value

    def refused(self, method: str, path: str, body: object = None, **query: object) -> tuple[int, str]:
        answer = self.ask(method, path, body, **query)  # type: ignore[arg-type]
        return answer.status, answer.kind

    def reserve(self, queue: str = "orders", **options: object) -> list[dict[str, Any]]:
        jobs: list[dict[str, Any]] = self.done("POST", f"queues/{queue}/reserve", options)["jobs"]
        return jobs

    def settle(self, job: dict[str, Any], verb: str, queue: str = "orders", **options: object) -> Any:
        path = f"queues/{queue}/jobs/{quote(job['id'], safe='')}/{verb}"
        return self.done("POST", path, {"token": job["token"], **options})

    def end(self, by: signal.Signals = signal.SIGTERM) -> tuple[int, str]:
        self.process.send_signal(by)
        _, err = self.process.communicate(timeout=20)
        return self.process.returncode, err


StartApi = Callable[..., Api]


def placed(path: str) -> str:
    """Give a path of the description as a request has it, below /api/v1/."""
    return re.sub(r"\{(\w+)\}", r"\1", path.removeprefix("/api/v1/"))


def raw(path: str, body: bytes, *headers: str) -> bytes:
    """Write a POST of a worker, as it goes over a connection."""
    head = [
        f"POST /api/v1/{path} HTTP/1.1",
        "Host: x",
        f"Authorization: Bearer {TOKENS['work']}",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
        *headers,
    ]
    return "\r\n".join([*head, "", ""]).encode() + body
