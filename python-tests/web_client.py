"""`duly web` and a browser without a window, for its tests."""

from __future__ import annotations

import http.client
import os
import re
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from html import unescape
from html.parser import HTMLParser
from urllib.parse import urlencode, urljoin, urlsplit

import duly

HOSTILE = "<script>alert(1)</script>"
PASSWORD = "a long password"
POLICY = "default-src 'none'; script-src 'self'; style-src 'self'"


def there(link: str) -> str:
    """The path of a link, as a browser reads it: a page lies in no folder here."""
    assert not link.startswith("/"), f"{link} leads elsewhere where the page lies in a folder"
    return urljoin("/", link) if link else ""


@dataclass
class Answer:
    status: int
    headers: http.client.HTTPMessage
    text: str

    @property
    def location(self) -> str:
        return there(self.headers["location"] or "")


@dataclass
class Form:
    action: str
    fields: dict[str, str] = field(default_factory=dict)


class Forms(HTMLParser):
    """The forms that act, and the links, of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.forms: list[Form] = []
        self.links: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if tag == "form" and given.get("method") == "post":
            self.forms.append(Form(there(given["action"])))
        elif tag == "input" and self.forms and given.get("type") == "hidden":
            self.forms[-1].fields[given["name"]] = given["value"]
        elif tag == "a":
            self.links.append(there(given.get("href", "")))


class Web:
    """`duly web`, and a browser without a window."""

    mount = ""

    def __init__(self, url: str, prefix: str, *arguments: str, password: str = "") -> None:
        command = [sys.executable, "-m", "duly", "web", "--url", url, "--prefix", prefix, "--listen", "127.0.0.1:0"]
        env = {**os.environ, "DULY_WEB_PASSWORD": password}
        self.process = subprocess.Popen(
            [*command, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env
        )
        assert self.process.stdout is not None
        self.address = self.process.stdout.readline().strip()
        self.port = urlsplit(self.address).port or 0
        self.cookies: dict[str, str] = {}

    @property
    def entry(self) -> str:
        return self.address.removeprefix(f"http://127.0.0.1:{self.port}")

    def ask(self, method: str, path: str, body: bytes = b"", headers: dict[str, str] | None = None) -> Answer:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        cookies = {"Cookie": "; ".join(f"{name}={value}" for name, value in self.cookies.items())}
        try:
            connection.request(method, self.mount + path, body or None, {**cookies, **(headers or {})})
            answer = connection.getresponse()
            for cookie in answer.headers.get_all("set-cookie", []):
                name, _, value = cookie.partition(";")[0].partition("=")
                self.cookies[name] = value
            text = answer.read().decode()
        finally:
            connection.close()
        # An address without the number of partitions leads to one with it.
        location = there(answer.headers["location"] or "")
        if method == "GET" and answer.status == 303 and location.partition("?")[0] == path.partition("?")[0]:
            assert "parts=" in location
            assert "parts=" not in path
            return self.ask(method, location, body, headers)
        return Answer(answer.status, answer.headers, text)

    def get(self, path: str, **fields: str) -> Answer:
        return self.ask("GET", path + (f"?{urlencode(fields)}" if fields else ""))

    def post(self, path: str, fields: dict[str, str], **headers: str) -> Answer:
        kind = {"Content-Type": "application/x-www-form-urlencoded", "Sec-Fetch-Site": "same-origin"}
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        return self.ask("POST", path, urlencode(fields).encode(), {**kind, **given})

    def enter(self) -> None:
        assert self.get(self.entry).status == 303

    def send_and_go(self, form: Form, *, reset: bool = False) -> None:
        """Send that form as a browser does whose user closes the tab at once."""
        body = urlencode(form.fields).encode()
        head = [
            f"POST {form.action} HTTP/1.1",
            f"Host: 127.0.0.1:{self.port}",
            "Cookie: " + "; ".join(f"{name}={value}" for name, value in self.cookies.items()),
            "Content-Type: application/x-www-form-urlencoded",
            "Sec-Fetch-Site: same-origin",
            f"Content-Length: {len(body)}",
        ]
        connection = socket.create_connection(("127.0.0.1", self.port))
        if reset:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.sendall("\r\n".join([*head, "", ""]).encode() + body)
        connection.close()

    def form(self, page: str, act: str) -> Form:
        """The form for `act` on that page."""
        answer = self.ask("GET", page)
        found = [form for form in Forms(answer.text).forms if form.action == f"/act-{act}"]
        assert found, (page, act, answer.text)
        return found[0]

    def act(self, page: str, act: str, **more: str) -> str:
        """Press that button, and give what the next page says."""
        return self.say_yes(self.form(page, act), **more)

    def say_yes(self, form: Form, **more: str) -> str:
        answer = self.post(form.action, {**form.fields, **more})
        assert answer.status == 303, answer.text
        text = self.ask("GET", answer.location).text
        notice = re.search(r'<p class="notice" role="status">(.*?)</p>', text)
        assert notice, text
        return unescape(re.sub("<.*?>", "", notice[1]))

    def end(self, by: signal.Signals = signal.SIGTERM) -> tuple[int, str]:
        self.process.send_signal(by)
        _, err = self.process.communicate(timeout=20)
        return self.process.returncode, err


StartWeb = Callable[..., Web]


def fail(queue: duly.Queue, id: str, **options: str) -> None:  # noqa: A002
    queue.push({"n": 1}, id=id, max_retries=0, **options)  # type: ignore[arg-type]
    job = queue.reserve()
    assert job is not None
    job.fail(f"ValueError: {HOSTILE}\n  at line 7", final=True)


def fill(client: duly.Client) -> None:
    """Something of everything."""
    orders = client.queue("orders")
    fail(orders, "broken", name=HOSTILE)
    orders.push(
        {"order": 42}, id="later", name="close", key="close:42", delay=1800, headers={"tenant": "acme"}, timeout=30
    )
    orders.push({"text": HOSTILE}, id=HOSTILE, name=HOSTILE, key="a\u202eb")
    orders.schedules.put("nightly", duly.Schedule(duly.NewJob(name="report"), cron="0 3 * * *", tz="Europe/Berlin"))
    client.partitions("clicks", 4).push(1, id="click", key="k")
    client.topic("prices").subscribe("shop")
    client.topic("prices").publish(HOSTILE)


PAGES = (
    "/",
    "/queue?queue=orders",
    "/failed",
    "/schedules",
    "/workers",
    "/topics",
    "/server",
    "/actions",
    "/search",
    "/search?q=later",
)
