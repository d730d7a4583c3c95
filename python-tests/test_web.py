"""The page of `duly web`: a real process, real HTTP, a real Redis; in a real browser: test_web_browser.py."""

from __future__ import annotations

import http.client
import itertools
import json
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time
from base64 import b64encode
from binascii import crc_hqx
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit
from urllib.request import urlopen

import duly
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from slow_lines import Line, slow_lines
from support import Server, running, until, way_to

HOSTILE = "<script>alert(1)</script>"
PASSWORD = "a long password"
POLICY = "default-src 'none'; script-src 'self'; style-src 'self'"


@dataclass
class Answer:
    status: int
    headers: http.client.HTTPMessage
    text: str

    @property
    def location(self) -> str:
        return self.headers["location"] or ""


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
            self.forms.append(Form(given["action"]))
        elif tag == "input" and self.forms and given.get("type") == "hidden":
            self.forms[-1].fields[given["name"]] = given["value"]
        elif tag == "a":
            self.links.append(given.get("href", ""))


class Web:
    """`duly web`, and a browser without a window."""

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
            connection.request(method, path, body or None, {**cookies, **(headers or {})})
            answer = connection.getresponse()
            for cookie in answer.headers.get_all("set-cookie", []):
                name, _, value = cookie.partition(";")[0].partition("=")
                self.cookies[name] = value
            text = answer.read().decode()
        finally:
            connection.close()
        # An address without the number of partitions leads to one with it.
        location = answer.headers["location"] or ""
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
        found = [form for form in Forms(answer.text).forms if form.action == f"/act/{act}"]
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


Start = Callable[..., Web]


@pytest.fixture
def start() -> Iterator[Start]:
    started: list[Web] = []

    def run(url: str, prefix: str, *arguments: str, password: str = "") -> Web:
        started.append(Web(url, prefix, *arguments, password=password))
        return started[-1]

    yield run
    for web in started:
        web.process.kill()
        web.process.communicate()


@pytest.fixture
def web(start: Start, server: Server, prefix: str) -> Web:
    web = start(server.url, prefix)
    web.enter()
    return web


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


PAGES = ("/", "/queue?queue=orders", "/failed", "/schedules", "/workers", "/search", "/search?q=later")


def test_a_token_signs_in_one_browser_once(start: Start, server: Server, prefix: str) -> None:
    web = start(server.url, prefix)
    answer = web.get("/")
    assert (answer.status, "Start `duly web` again" in answer.text) == (401, True)
    assert web.get("/sign-in", token="0" * 48).status == 401
    answer = web.ask("GET", web.entry)
    cookie = answer.headers["set-cookie"]
    assert (answer.status, answer.location) == (303, "/")
    assert "; HttpOnly; SameSite=Strict" in cookie
    assert web.get("/").status == 200
    # Whoever is in may load it again; nobody else comes in by it.
    assert web.ask("GET", web.entry).status == 303
    mine, web.cookies = web.cookies, {}
    answer = web.ask("GET", web.entry)
    assert (answer.status, "set-cookie" in answer.headers) == (401, False)
    web.cookies = mine
    form = Forms(web.get("/").text).forms[-1]
    assert web.post("/sign-out", form.fields).status == 303
    web.cookies = mine
    assert web.get("/").status == 401


def test_without_a_session_nothing_is_shown_or_done(web: Web, client: duly.Client) -> None:
    fill(client)
    form = web.form("/queue?queue=orders", "pause")
    web.cookies = {}
    for page in [*PAGES, "/job?queue=orders&id=later", "/package?queue=orders&id=later", "/nothing"]:
        answer = web.ask("GET", page)
        assert (answer.status, "close" in answer.text) == (401, False), page
    assert web.post(form.action, form.fields).status == 401
    assert not client.queue("orders").counts().paused


def test_a_link_of_another_page_leads_in(web: Web) -> None:
    # Browsers keep the cookie back for it, and send it with the next link.
    mine, web.cookies = web.cookies, {}
    answer = web.ask("GET", "/search?q=a+b&lang=en", headers={"Sec-Fetch-Site": "cross-site"})
    assert answer.status == 401
    assert "/search?q=a+b&lang=en" in map(unescape, Forms(answer.text).links)
    assert "go on" not in web.get("/").text
    for path in ("//evil.example/x", "/\\evil.example/x", "///evil.example"):
        answer = web.ask("GET", path, headers={"Sec-Fetch-Site": "cross-site"})
        assert all(link.startswith(("/?", "#")) or link == "/" for link in Forms(answer.text).links), path
    web.cookies = mine
    assert web.get("/search", q="a b", lang="en").status == 200


def test_a_password_is_asked_for(start: Start, server: Server, prefix: str) -> None:
    web = start(server.url, prefix, password=PASSWORD)
    assert web.entry == "/"
    assert 'type="password"' in web.get("/").text
    assert web.post("/sign-in", {"password": "another one"}).status == 401
    assert web.post("/sign-in", {"password": ""}).status == 401
    assert web.get("/").status == 401
    assert web.post("/sign-in", {"password": PASSWORD}, Sec_Fetch_Site="cross-site").status == 403
    assert web.post("/sign-in", {"password": PASSWORD}, X_Forwarded_For="10.0.0.7").status == 303
    assert web.get("/").status == 200
    assert [web.post("/sign-in", {"password": "wrong"}).status for _ in range(9)] == [401] * 8 + [429]
    assert web.post("/sign-in", {"password": PASSWORD}).status == 429
    assert web.get("/").status == 200
    ends = [line.partition(" session ")[2] for line in web.end()[1].splitlines()]
    assert [end.partition(" from ")[0] for end in ends].count("none") == 10
    assert re.search(r"[0-9a-f]{8} from 127.0.0.1:\d+ for 10.0.0.7: sign in: done", "\n".join(ends))
    assert PASSWORD not in "\n".join(ends)


@pytest.mark.parametrize(
    ("arguments", "password", "said"),
    [
        (["--listen", "0.0.0.0:0"], "", "put a password of 12 characters or more into DULY_WEB_PASSWORD"),
        (["--listen", "[::]:0"], "", "others can reach ::"),
        ([], "short", "fewer than 12 characters"),
        (["--listen", "nowhere"], "", "invalid value 'nowhere'"),
    ],
)
def test_it_is_open_to_nobody_by_default(server: Server, arguments: list[str], password: str, said: str) -> None:
    command = [sys.executable, "-m", "duly", "web", "--url", server.url, *arguments]
    env = {**os.environ, "DULY_WEB_PASSWORD": password}
    ended = subprocess.run(command, capture_output=True, text=True, env=env, check=False, timeout=20)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert said in ended.stderr


def test_an_address_in_use_is_said(web: Web, server: Server) -> None:
    command = [sys.executable, "-m", "duly", "web", "--url", server.url, "--listen", f"127.0.0.1:{web.port}"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=20)
    assert (ended.returncode, "choose another address with --listen" in ended.stderr) == (2, True)


@pytest.mark.parametrize("page", PAGES)
def test_every_page_is_there_without_data(web: Web, client: duly.Client, page: str) -> None:
    if "queue=" in page:
        client.queue("orders").push(1, id="one")
        client.queue("orders").cancel("one")
    assert web.ask("GET", page).status == 200


def test_every_page_is_there_and_hides_and_runs_nothing(web: Web, client: duly.Client) -> None:
    fill(client)
    seen: set[str] = set()
    left = list(PAGES)
    while left:
        page = left.pop()
        if page in seen or page.startswith("/ask/"):
            continue
        seen.add(page)
        answer = web.ask("GET", page)
        assert answer.status == 200, (page, answer.text)
        if page.startswith("/package"):
            continue
        assert HOSTILE not in answer.text, page
        assert "\u202e" not in answer.text, page
        left += [link for link in Forms(answer.text).links if link.startswith("/")]
    kinds = {urlsplit(page).path for page in seen}
    expected = {"/", "/queue", "/job", "/package", "/failed", "/schedules", "/schedule", "/workers", "/search"}
    assert kinds == expected | {"/jobs", "/groups"}
    assert len(seen) > 30
    text = web.get("/job", queue="orders", id=HOSTILE).text
    assert "&lt;script&gt;" in text
    assert "⟨202E⟩" in text
    assert "ValueError: &lt;script&gt;" in web.get("/job", queue="orders", id="broken").text


def test_every_answer_is_closed(web: Web) -> None:
    for page in ("/", "/nothing", "/style.css", "/sign-in"):
        headers = web.get(page).headers
        assert headers["content-security-policy"].startswith(POLICY)
        assert "frame-ancestors 'none'" in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "same-origin"
    assert web.get("/").headers["cache-control"] == "no-store"
    page = web.get("/").text
    assert " style=" not in page
    assert re.findall(r'(?:src|href)="(?!/|#)', page) == []
    assert re.findall(r"<script(?! defer src)", page) == []


def test_names_that_are_not_its_own_are_refused(start: Start, server: Server, prefix: str) -> None:
    web = start(server.url, prefix, "--host", "queues.example.com")
    web.enter()
    for host in ("127.0.0.1:1", "localhost", "[::1]:8420", "queues.example.com"):
        assert web.ask("GET", "/", headers={"Host": host}).status == 200, host
    for host in ("evil.example", f"evil.example:{web.port}", "127.0.0.1.evil.example", ""):
        assert web.ask("GET", "/", headers={"Host": host}).status == 403, host
    # Before anything else: the token is still good elsewhere.
    other = start(server.url, prefix)
    assert other.ask("GET", other.entry, headers={"Host": "evil.example"}).status == 403
    other.enter()


def test_forms_of_others_are_refused(web: Web, client: duly.Client) -> None:
    queue = client.queue("orders")
    queue.push(1)
    form = web.form("/queue?queue=orders", "pause")
    own = f"http://127.0.0.1:{web.port}"
    for site, origin in [
        ("cross-site", own),
        ("same-site", own),
        ("none", own),
        ("", "http://evil.example"),
        ("", "null"),
        ("", ""),
    ]:
        headers = {"Sec_Fetch_Site": site, "Origin": origin}
        assert web.post(form.action, form.fields, **headers).status == 403, headers
    for wrong in ({"form_token": ""}, {"form_token": "0" * 48}, {"once": ""}):
        assert web.post(form.action, {**form.fields, **wrong}).status == 403, wrong
    assert not queue.counts().paused
    # A browser without Sec-Fetch-Site says where the form comes from.
    assert web.post(form.action, form.fields, Sec_Fetch_Site="", Origin=own).status == 303
    assert queue.counts().paused


def test_only_the_right_methods_act(web: Web, client: duly.Client) -> None:
    queue = client.queue("orders")
    queue.push(1)
    form = web.form("/queue?queue=orders", "pause")
    for method in ("PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"):
        answer = web.ask(method, "/")
        assert (answer.status, answer.headers["allow"]) == (405, "GET, HEAD, POST")
    assert web.get(form.action, **form.fields).status == 404
    answer = web.ask("HEAD", "/")
    assert (answer.status, answer.text) == (200, "")
    headers = {"Content-Type": "text/plain", "Sec-Fetch-Site": "same-origin"}
    assert web.ask("POST", form.action, urlencode(form.fields).encode(), headers).status == 415
    assert web.post("/act/nothing", form.fields).status == 404
    assert web.post("/", form.fields).status == 404
    assert not queue.counts().paused


def test_requests_are_bounded(web: Web) -> None:
    assert web.post("/sign-in", {"password": "x" * 100_000}).status == 413
    assert web.ask("GET", f"/search?q={'x' * 20_000}").status in (414, 431)
    assert web.ask("GET", "/", headers={f"X-{index}": "1" for index in range(200)}).status == 431
    # Connections that say nothing do not hold up others for long.
    silent = [socket.create_connection(("127.0.0.1", web.port)) for _ in range(80)]
    try:
        assert web.get("/").status == 200
    finally:
        for one in silent:
            one.close()


def test_what_is_not_there_is_said(web: Web, client: duly.Client) -> None:
    client.queue("orders").push(1, id="one")
    for page in (
        "/nothing",
        "/ask/nothing?queue=orders",
        "/queue",
        "/queue?queue=none",
        "/queue?queue=orders&parts=4",
        "/queue?queue=a/b",
        "/queue?queue=orders&state=lost",
        "/job?queue=orders&id=two",
        "/job?queue=orders",
        "/job?queue=orders&id=%0a",
        "/schedule?queue=orders&name=none",
        "/package?queue=orders&id=two",
        "/%2e%2e/etc/passwd",
    ):
        assert web.ask("GET", page).status == 404, page
    assert web.ask("GET", "/queue?queue=orders&offset=-1").status == 200
    assert web.ask("GET", f"/queue?queue=orders&offset={2**64 - 1}").status == 200
    assert web.ask("GET", "/queue?queue=orders&offset=99999999999999999999").status == 200
    assert "These jobs have moved on" in web.ask("GET", "/queue?queue=orders&offset=500").text


def test_a_job_is_rescheduled_and_cancelled(web: Web, client: duly.Client) -> None:
    queue = client.queue("orders")
    queue.push(1, id="a b", delay=60)
    page = "/job?queue=orders&id=a+b"
    assert web.act(page, "reschedule", delay="2h") == "The job a b has another due time."
    found = queue.find("a b")
    assert found is not None
    assert "waits for its due time, in 7" in found.why
    web.act(page, "reschedule", at="2100-01-01T00:00")
    found = queue.find("a b")
    assert found is not None
    assert found.at == 4102444800.0
    form = web.form(page, "reschedule")
    for wrong in (
        {},
        {"delay": "soon"},
        {"at": "soon"},
        {"delay": "1h", "at": "2100-01-01T00:00"},
        {"delay": "999999d"},
    ):
        # What did nothing may be sent again.
        assert web.post(form.action, {**form.fields, **wrong}).status == 400, wrong
    web.act(page, "run-now")
    assert queue.counts().ready == 1
    asked = "/ask/cancel?queue=orders&parts=0&id=a+b"
    assert asked in [unescape(link) for link in Forms(web.ask("GET", page).text).links]
    form = web.form(asked, "cancel")
    assert web.act(asked, "cancel") == "The job a b is cancelled."
    assert web.post(form.action, form.fields).status == 404
    assert queue.counts().ready == 0


def test_failed_jobs_run_again_and_are_removed(web: Web, client: duly.Client) -> None:
    queue = client.queue("orders")
    for name in ("a", "b", "c", "d"):
        fail(queue, name)
    # The newest first.
    assert re.findall(r'class="id" href="/job\?queue=orders&amp;parts=0&amp;id=(.)"', web.get("/failed").text) == [
        "d",
        "c",
        "b",
        "a",
    ]
    assert web.act("/job?queue=orders&id=a", "requeue") == "The job a is ready again."
    assert web.act("/queue?queue=orders&state=failed", "requeue") == "The job d is ready again."
    asked = web.get("/ask/requeue-all", queue="orders")
    assert "Run all 2 failed jobs of orders again?" in asked.text
    assert web.act("/ask/requeue-all?queue=orders&from=failed", "requeue-all") == "2 jobs are ready again."
    assert queue.counts().ready == 4
    assert "Remove all 4 ready jobs of orders?" in web.get("/ask/purge", queue="orders", state="ready").text
    assert web.act("/ask/purge?queue=orders&state=ready", "purge") == "4 jobs are removed."
    assert "There is none any more" in web.get("/ask/purge", queue="orders", state="ready").text
    assert queue.counts().ready == 0


def test_jobs_that_match_run_again_and_are_removed(web: Web, client: duly.Client) -> None:
    queue = client.queue("mail")
    for number in range(130):
        queue.push(number, name=["mail.send", "mail.read"][number % 2], key=f"mail:{number}", max_retries=0)
    for job in queue.reserve_many(130):
        job.fail("Timeout: 1 s" if job.data < 120 else f"no mail {job.data}")
    page = web.get("/jobs", queue="mail", state="failed", name="mail.send", error="Timeout").text
    assert "50 of " in page
    assert page.count('class="id"') == 50
    onward = [link for link in Forms(page).links if "cursor=" in link]
    assert len(onward) == 1
    assert web.ask("GET", onward[0]).text.count('class="id"') == 10
    fields = urlencode({"queue": "mail", "state": "failed", "name": "mail.send", "error": "Timeout"})
    asked = web.ask("GET", f"/ask/requeue-matching?{fields}").text
    assert "Run 60 failed jobs of mail that match again?" in asked
    queue.push(0, key="mail:0")
    notice = "59 jobs are ready again; 1 were not run again: other jobs have their keys, or somebody else was first."
    assert web.act(f"/ask/requeue-matching?{fields}", "requeue-matching") == notice
    fields = urlencode({"queue": "mail", "state": "ready", "key_prefix": "mail:1", "priority": "5"})
    assert web.act(f"/ask/cancel-matching?{fields}", "cancel-matching") == "15 jobs are removed."
    # More than was asked about is not touched.
    fields = urlencode({"queue": "mail", "state": "failed", "name": "mail.read", "error": "no mail"})
    form = web.form(f"/ask/cancel-matching?{fields}", "cancel-matching")
    assert "mail.read" in web.ask("GET", f"/ask/cancel-matching?{fields}").text
    queue.push("later", name="mail.read", max_retries=0)
    while taken := queue.reserve():
        taken.fail("no mail") if taken.data == "later" else taken.ack()
    assert "5 jobs are removed." in web.say_yes(form)
    assert [job.data for job in queue.search("failed", name="mail.read", error="no mail").jobs] == ["later"]
    assert web.get("/ask/requeue-matching", queue="mail", state="ready", name="x").status == 404
    none = web.get("/jobs", queue="mail", state="ready", name="none").text
    assert "None of these jobs matches." in none
    assert "/ask/" not in none
    for act, state in (("cancel-matching", "ready"), ("requeue-matching", "failed")):
        asked = web.get(f"/ask/{act}", queue="mail", state=state, name="none").text
        assert f"No {state} job of mail matches<" in asked
        assert "There is nothing to do. Go back" in asked
        assert f"/act/{act}" not in asked
    for wrong in ("priority=11", "priority=x", "cursor=1-zz"):
        assert web.ask("GET", f"/jobs?queue=mail&state=failed&{wrong}").status == 400


def test_a_filter_looks_on_behind_large_jobs(
    web: Web, start: Start, client: duly.Client, server: Server, prefix: str
) -> None:
    queue = client.queue("files")
    for number in range(60):
        queue.push("x" * 1_000_000, id=f"large{number}", max_retries=0)
        (job,) = queue.reserve_many(1)
        job.fail("no disk", final=True)
    fail(queue, "wanted", name="mail.send")
    fields = {"queue": "files", "state": "failed", "name": "mail.send"}
    page = web.get("/jobs", **fields).text
    assert re.findall(r'class="id" href="/job\?queue=files&amp;parts=0&amp;id=(.*?)"', page) == ["wanted"]
    assert "1 of 61 jobs that were looked at match<" in page
    # On a line that is this late, two seconds are a few calls only.
    with slow_lines(server.socket, [Line(100_000_000, 0.4)]) as (url,):
        far = start(url, prefix)
        far.enter()
        link, pages = f"/jobs?{urlencode(fields)}", 0
        while 'class="id"' not in (text := far.ask("GET", link).text):
            looked_at = re.search(r"None of the (\d+) jobs that this page has looked at matches", text)
            assert looked_at is not None, text
            assert 0 < int(looked_at[1]) < 61
            # All that match, on whichever page they are.
            assert "/ask/cancel-matching?" in text
            (link,) = (each for each in Forms(text).links if "cursor=" in each and "lang=" not in each)
            pages += 1
        assert pages > 0
        assert "/ask/requeue-matching?" in text
        assert "本页查看的" in far.get("/jobs", **fields, lang="zh").text
    # The last page, without a job that matches.
    found = queue.search("failed", limit=60)
    fields["name"] = "none"
    last = web.get("/jobs", **fields, cursor=found.cursor or "").text
    assert "It is the last page." in last
    assert "/ask/requeue-matching?" in last


def test_a_yes_means_the_jobs_that_were_asked_about(web: Web, client: duly.Client) -> None:
    queue = client.queue("mail")
    fields = urlencode({"queue": "mail", "state": "failed", "error": "ValueError"})
    for act, said in [("cancel-matching", "1 jobs are removed."), ("requeue-matching", "1 jobs are ready again")]:
        for number in range(3):
            fail(queue, f"{act}{number}")
        form = web.form(f"/ask/{act}?{fields}", act)
        queue.requeue(f"{act}1", f"{act}2")
        for job in queue.reserve_many(2):
            job.ack()
        for number in (3, 4):
            fail(queue, f"{act}{number}")
        assert said in web.say_yes(form)
        assert [job.id for job in queue.peek("failed")] == [f"{act}3", f"{act}4"]
        queue.purge("failed")
        queue.purge("ready")
    # Of ready jobs there is no time to tell by.
    for name in "abc":
        queue.push(name, id=name, name="x")
    ready = urlencode({"queue": "mail", "state": "ready", "name": "x"})
    form = web.form(f"/ask/cancel-matching?{ready}", "cancel-matching")
    queue.cancel("a")
    queue.push("d", id="d", name="x")
    asked = {**form.fields, "name": "y"}
    for wrong in (
        asked,
        {**form.fields, "asked": "x"},
        {**form.fields, "state": "failed"},
        {**form.fields, "asked": ""},
    ):
        answer = web.post(form.action, wrong)
        assert (answer.status, "asked too long ago" in answer.text) == (409, True)
    assert "2 jobs are removed." in web.say_yes(form)
    assert [job.id for job in queue.peek("ready")] == ["d"]


@pytest.mark.parametrize("parts", [0, 4])
def test_a_yes_to_all_acts_on_no_more_jobs_than_were_asked_about(web: Web, client: duly.Client, parts: int) -> None:
    queue = client.partitions("mail", parts) if parts else client.queue("mail")
    fields = urlencode({"queue": "mail", "state": "failed", "parts": parts})
    for act, said in (("purge", "3 jobs are removed."), ("requeue-all", "3 jobs are ready again.")):
        for number in range(3):
            fail(queue, f"{act}{number}", key=f"{act}{number}")
        form = web.form(f"/ask/{act}?{fields}", act)
        for number in range(20):
            fail(queue, f"{act}-later{number}", key=f"{act}-later{number}")
        for wrong in ("", "x", "1:1"):
            if parts or wrong != "1:1":
                answer = web.post(form.action, {**form.fields, "asked": wrong})
                assert answer.status in (400, 409), wrong
        assert queue.counts().failed == 23
        assert web.say_yes(form) == f"{said} Jobs that are left in this state: 20."
        assert {job.id.rstrip("0123456789") for job in queue.peek("failed")} == {f"{act}-later"}
        queue.purge("failed")
    assert queue.counts().ready == 3


def test_a_yes_to_failed_jobs_takes_none_that_failed_since(web: Web, client: duly.Client) -> None:
    queue = client.queue("mail")
    for number in range(3):
        fail(queue, f"asked{number}")
    form = web.form("/ask/purge?queue=mail&state=failed", "purge")
    queue.cancel("asked1")
    for number in range(3):
        fail(queue, f"later{number}")
    assert web.say_yes(form) == "2 jobs are removed. Jobs that are left in this state: 3."
    assert {job.id for job in queue.peek("failed")} == {"later0", "later1", "later2"}


def test_a_yes_says_which_jobs_it_takes(web: Web, client: duly.Client) -> None:
    queue = client.queue("mail")
    for number in range(2):
        queue.push(1, id=f"asked{number}", delay=3600)
    page = "/ask/purge?queue=mail&state=delayed"
    assert "delayed ones by their due time" in web.ask("GET", page).text
    assert "延迟任务按到期时间" in web.ask("GET", f"{page}&lang=zh").text
    web.get("/", lang="en")
    form = web.form(page, "purge")
    for number in range(2):
        queue.push(1, id=f"sooner{number}", delay=60)
    assert web.say_yes(form) == "2 jobs are removed. Jobs that are left in this state: 2."
    assert {job.id for job in queue.peek("delayed")} == {"asked0", "asked1"}


def test_what_acts_on_no_job_says_why(web: Web, client: duly.Client) -> None:
    queue = client.queue("mail")
    for act, why in (
        ("purge", "No job is removed: none of those is in this state any more."),
        ("requeue-all", "No job is ready again: none of those is in failed any more."),
        ("cancel-matching", "No job is removed: all of them had left this state, or somebody else had removed them."),
    ):
        for number in range(2):
            fail(queue, f"{act}{number}")
        form = web.form(f"/ask/{act}?queue=mail&state=failed", act)
        queue.purge("failed")
        assert web.say_yes(form).startswith(why)
    for number in range(3):
        fail(queue, f"some{number}")
    form = web.form("/ask/cancel-matching?queue=mail&state=failed", "cancel-matching")
    queue.requeue("some1")
    said = "2 jobs are removed. Jobs that had left this state, or that somebody else had removed: 1."
    assert web.say_yes(form) == said
    assert [job.id for job in queue.peek("ready")] == ["some1"]


def test_groups_of_failed_jobs_run_again_and_are_removed(web: Web, client: duly.Client) -> None:
    queue = client.queue("mail")
    for number in range(9):
        queue.push(number, max_retries=0, name="mail.send" if number < 6 else None)
    for job in queue.reserve_many(9):
        job.fail(f"Timeout: {job.data} s\n  at /srv/mail.py:7 in send" if job.data % 3 else f"no mail {job.data}")
    page = web.get("/groups", queue="mail").text
    assert "4 groups of 9 failed jobs" in page
    assert "Timeout at /srv/mail.py:7 in send" in page
    links = Forms(page).links
    shown = [link for link in links if link.startswith("/jobs?")]
    counts = sorted(web.ask("GET", link).text.count('class="id"') for link in shown)
    assert counts == [1, 2, 2, 4]
    # A group of jobs without a name is no other one's.
    again = next(link for link in links if link.startswith("/ask/requeue-matching?") and "unnamed=1" in link)
    assert web.act(again, "requeue-matching") in ("1 jobs are ready again.", "2 jobs are ready again.")
    for link in Forms(web.get("/groups", queue="mail").text).links:
        if link.startswith("/ask/cancel-matching?"):
            assert web.act(link, "cancel-matching").endswith("are removed.")
    assert queue.counts().failed == 0
    assert "No job has failed for good" in web.get("/groups", queue="mail").text


def test_a_failed_job_whose_key_is_taken_stays(web: Web, client: duly.Client) -> None:
    queue = client.queue("orders")
    fail(queue, "old", key="k")
    form = web.form("/job?queue=orders&id=old", "requeue")
    queue.push(2, id="new", key="k")
    answer = web.post(form.action, form.fields)
    assert (answer.status, "its key belongs to the job new now" in answer.text) == (409, True)
    client.queue("orders").cancel("new")
    # It did nothing, and may be sent again.
    assert web.post(form.action, form.fields).status == 303


def test_a_second_click_does_nothing(web: Web, client: duly.Client) -> None:
    queue = client.queue("orders")
    queue.schedules.put("tick", duly.Schedule(duly.NewJob(), every=3600))
    form = web.form("/schedule?queue=orders&name=tick", "schedule-run")
    assert web.post(form.action, form.fields).status == 303
    answer = web.post(form.action, form.fields)
    assert (answer.status, "acted once" in answer.text) == (409, True)
    assert queue.counts().ready == 1
    web.act("/schedule?queue=orders&name=tick", "schedule-run")
    assert queue.counts().ready == 2


def test_a_second_click_on_what_is_under_way_says_so(start: Start, own_server: Server) -> None:
    queue = duly.Client(own_server.url).queue("orders")
    queue.push(1)
    web = start(own_server.url, "duly:")
    web.enter()
    form = web.form("/ask/delete?queue=orders", "delete")
    # So the first one is refused.
    queue.push(2)
    own_server.freeze()
    with ThreadPoolExecutor() as pool:
        first = pool.submit(web.post, form.action, form.fields)
        time.sleep(0.5)
        answer = web.post(form.action, form.fields)
        own_server.thaw()
        assert (answer.status, "what it asks for is under way" in answer.text) == (409, True)
        assert "is not deleted" in first.result().text
    # It did nothing, and may be sent again.
    assert "is not deleted" in web.post(form.action, form.fields).text


def fail_all(queue: duly.Queue, count: int) -> None:
    queue.push_many([duly.NewJob(number, max_retries=0) for number in range(count)])
    for _ in range(0, count, 100):
        for job in queue.reserve_many(100):
            job.fail("Timeout: 1 s", final=True)


@pytest.mark.parametrize(
    ("act", "reset"),
    [
        ("requeue-all", False),
        ("requeue-matching", False),
        ("requeue-matching", True),
        ("cancel-matching", False),
        ("purge", False),
    ],
)
def test_a_browser_that_goes_away_ends_no_action(
    start: Start, client: duly.Client, server: Server, prefix: str, *, act: str, reset: bool
) -> None:
    queue = client.queue("mail")
    count = 300 if "matching" in act else 1500
    fail_all(queue, count)
    # Each of its calls takes as long, so the browser is gone before the first one ends.
    with slow_lines(server.socket, [Line(100_000_000, 0.1)]) as (url,):
        web = start(url, prefix)
        web.enter()
        form = web.form(f"/ask/{act}?queue=mail&state=failed", act)
        # So all of it, its end too, is there when the page reads it. Of one that is reset by then, it may read nothing.
        if not reset:
            web.process.send_signal(signal.SIGSTOP)
        web.send_and_go(form, reset=reset)
        web.process.send_signal(signal.SIGCONT)
        until(lambda: queue.counts().failed == 0, f"{queue.counts().failed} jobs stay", 20)
        assert queue.counts().ready == (count if "requeue" in act else 0)
        # Its notice waits for the next page.
        said = f"{count:,} jobs are "
        until(lambda: said in web.get("/").text, "there is no notice", 10)
        answer = web.post(form.action, form.fields)
        assert (answer.status, "acted once" in answer.text) == (409, True)
        _, err = web.end()
    assert [line for line in err.splitlines() if f": {act} queue=mail" in line and line.endswith(": done")], err


def test_what_was_not_done_is_said_though_the_browser_has_gone(start: Start, own_server: Server) -> None:
    queue = duly.Client(own_server.url).queue("orders")
    queue.push(1)
    web = start(own_server.url, "duly:")
    web.enter()
    form = web.form("/ask/delete?queue=orders", "delete")
    queue.push(2)
    own_server.freeze()
    web.send_and_go(form)
    time.sleep(0.5)
    own_server.thaw()
    said = "What you asked for before (delete queue=orders parts=0 jobs=1) was not done: The queue is not deleted"
    until(lambda: said in unescape(web.get("/").text), "it is not said")
    assert said not in unescape(web.get("/").text)
    # Who sees it at once gets no notice of it.
    assert "is not deleted" in web.post(form.action, form.fields).text
    assert "What you asked for before" not in web.get("/").text


def test_a_notice_waits_for_a_page_that_is_seen(web: Web, client: duly.Client) -> None:
    client.queue("orders").push(1)
    form = web.form("/queue?queue=orders", "pause")
    assert web.post(form.action, form.fields).status == 303
    # What a browser asks for that goes elsewhere, or beside a page.
    for method, path, status in (
        ("GET", "/favicon.ico", 404),
        ("GET", "/apple-touch-icon.png", 404),
        ("HEAD", "/", 200),
        ("GET", "/queue?queue=gone", 404),
    ):
        assert web.ask(method, path).status == status
    assert "The queue is paused: no more" in web.get("/schedules").text
    assert "The queue is paused: no more" not in web.get("/schedules").text


@pytest.mark.parametrize("what", ["refuses", "is silent"])
def test_what_ends_an_action_on_jobs_that_match_is_said(start: Start, own_server: Server, what: str) -> None:
    queue = duly.Client(own_server.url).queue("mail")
    queue.push_many([duly.NewJob(number, id=f"job-{number:03}") for number in range(250)])

    def act() -> None:
        if what == "is silent":
            own_server.freeze()
            return
        own_server.cli("DEL", "duly:{mail}:returned")
        own_server.cli("SET", "duly:{mail}:returned", "foreign")

    # The first job of the second call.
    with way_to(own_server, b"job-100", act) as url:
        web = start(url, "duly:")
        web.enter()
        form = web.form("/ask/cancel-matching?queue=mail&state=ready&priority=5", "cancel-matching")
        answer = web.post(form.action, form.fields)
        assert answer.status == 303, answer.text
        if what == "is silent":
            assert web.ask("GET", answer.location).status == 503
            own_server.thaw()
        # It was not said on a page that could not be shown.
        while (page := web.get("/schedules")).status != 200:
            time.sleep(0.1)
        text = unescape(page.text)
        notice = text.partition('class="notice"')[2].partition("</p>")[0]
        assert "100 jobs are removed. 150 of them are left: do it again to go on. Then it ended: " in notice, text
        assert ("The jobs of the last call may be done, too." in notice) == (what == "is silent")
        _, err = web.end()
    assert (
        "cancel-matching queue=mail parts=0 state=ready priority=5: done in part, and not yet to 150 of the jobs: "
        in err
    )


def test_half_a_form_does_nothing(web: Web, client: duly.Client) -> None:
    client.queue("orders").push(1)
    form = web.form("/queue?queue=orders", "pause")
    form.fields["more"] = "x" * 100
    whole = urlencode(form.fields)
    cut = socket.create_connection(("127.0.0.1", web.port))
    head = f"POST {form.action} HTTP/1.1\r\nHost: localhost:{web.port}\r\nSec-Fetch-Site: same-origin\r\n"
    cookie = "; ".join(f"{name}={value}" for name, value in web.cookies.items())
    kind = "Content-Type: application/x-www-form-urlencoded"
    cut.sendall(f"{head}Cookie: {cookie}\r\n{kind}\r\nContent-Length: {len(whole)}\r\n\r\n{whole[:-50]}".encode())
    cut.close()
    _, err = web.end()
    assert not client.queue("orders").counts().paused
    assert "pause" not in err


@pytest.mark.parametrize("act", ["requeue-matching", "cancel-matching"])
def test_an_action_ends_in_good_order_with_the_program(
    start: Start, client: duly.Client, server: Server, prefix: str, act: str
) -> None:
    queue = client.queue("mail")
    fail_all(queue, 1500)
    with slow_lines(server.socket, [Line(100_000_000, 0.3)]) as (url,):
        web = start(url, prefix)
        web.enter()
        form = web.form(f"/ask/{act}?queue=mail&state=failed", act)
        web.send_and_go(form)
        until(lambda: queue.counts().failed < 1500, "nothing is done", 10)
        began = time.monotonic()
        _, err = web.end()
    left = queue.counts().failed
    assert time.monotonic() - began < 5
    assert 0 < left < 1500
    assert left % 100 == 0
    assert f"done in part, and not yet to {left} of the jobs" in err


@pytest.mark.parametrize("by", [signal.SIGTERM, signal.SIGHUP])
def test_an_action_that_does_not_end_is_cut_off_and_said(start: Start, own_server: Server, by: signal.Signals) -> None:
    queue = duly.Client(own_server.url).queue("orders")
    queue.push_many([duly.NewJob(number) for number in range(10_000)])
    # On such a line, that takes longer than the program waits for it.
    with slow_lines(own_server.socket, [Line(100_000_000, 0.7)]) as (url,):
        web = start(url, "duly:")
        web.enter()
        web.send_and_go(web.form("/ask/purge?queue=orders&state=ready", "purge"))
        until(lambda: queue.counts().ready < 10_000, "nothing is done", 30)
        began = time.monotonic()
        status, err = web.end(by)
    assert (status, time.monotonic() - began < 9) == (0, True)
    assert "purge queue=orders parts=0 state=ready: cut off, as duly web ended" in err
    assert queue.audit().findings == []


def test_queues_are_paused(web: Web, client: duly.Client) -> None:
    plain, parts = client.queue("mixed"), client.partitions("mixed", 4)
    plain.push(1)
    parts.push(1, key="k")
    assert "no more of its jobs" in web.act("/queue?queue=mixed&parts=4", "pause")
    assert (plain.counts().paused, parts.counts().paused) == (False, True)
    assert "paused" in web.get("/").text
    web.act("/queue?queue=mixed", "pause")
    web.act("/queue?queue=mixed&parts=4", "resume")
    assert (plain.counts().paused, parts.counts().paused) == (True, False)


def test_a_queue_that_is_paused_in_part_can_be_paused_and_resumed(
    web: Web, client: duly.Client, server: Server, prefix: str
) -> None:
    queue = client.partitions("mail", 4)
    queue.push(1)
    page = "/queue?queue=mail&parts=4"

    def pause_parts() -> list[str]:
        """As a pause leaves it that fails behind two of them."""
        for part in (0, 1):
            server.cli("HSET", f"{prefix}{{mail/{part}}}:meta", "paused", "1")
        text = web.ask("GET", page).text
        assert "paused in 2 of 4 partitions" in text
        assert "paused in 2 of 4 partitions" in web.get("/").text
        return sorted(form.action for form in Forms(text).forms if form.action in ("/act/pause", "/act/resume"))

    assert pause_parts() == ["/act/pause", "/act/resume"]
    web.act(page, "pause")
    assert "paused in" not in web.ask("GET", page).text
    web.act(page, "resume")
    assert not queue.counts().paused
    pause_parts()
    web.act(page, "resume")
    assert not queue.counts().paused


def test_a_form_of_a_queue_that_is_gone_touches_no_other_of_its_name(web: Web, client: duly.Client) -> None:
    plain, parts = client.queue("orders"), client.partitions("orders", 4)
    fail(plain, "broken")
    plain.push(1, id="later", delay=600)
    plain.schedules.put("nightly", duly.Schedule(duly.NewJob(name="report"), cron="0 3 * * *"))
    parts.push(1, id="later", delay=600)
    parts.set_limits(concurrency=8)
    assert web.ask("HEAD", "/queue?queue=orders").location == "/queue?queue=orders&parts=0"
    forms = [
        web.form("/queue?queue=orders", "pause"),
        web.form("/queue?queue=orders&state=failed", "requeue"),
        web.form("/ask/limits?queue=orders", "limits"),
        web.form("/ask/purge?queue=orders&state=delayed", "purge"),
        web.form("/ask/cancel?queue=orders&id=later", "cancel"),
        web.form("/ask/cancel-matching?queue=orders&state=delayed&priority=5", "cancel-matching"),
        web.form("/job?queue=orders&id=later", "run-now"),
        web.form("/schedule?queue=orders&name=nightly", "schedule-run"),
    ]
    plain.schedules.remove("nightly")
    forms.append(web.form("/ask/delete?queue=orders", "delete"))
    assert {form.fields["parts"] for form in forms} == {"0"}
    plain.delete(jobs=2)
    before = parts.counts()
    for form in forms:
        answer = web.post(form.action, {**form.fields, "concurrency": "4"})
        assert (answer.status, "There is no such queue" in answer.text) == (404, True), form
        more = "deleted it meanwhile" if form.action == "/act/delete" else "another number of partitions (4)"
        assert more in answer.text, form
        # Nor does a form that does not say which one.
        fields = {name: value for name, value in form.fields.items() if name not in ("parts", "once")}
        assert web.post(form.action, {**fields, "once": "0" * 48}).status == 404
    after = parts.counts()
    assert (after.delayed, after.paused, after.totals) == (before.delayed, False, before.totals)
    assert parts.limits().concurrency == 8
    refresh = {"Duly-Refresh": "1"}
    for page in ("/queue?queue=orders&parts=0", "/job?queue=orders&parts=0&id=later", "/queue?queue=orders"):
        assert web.ask("GET", page, headers=refresh).status == 404, page
    # Who types the address gets the one that is there.
    assert web.get("/job", queue="orders", id="later").status == 200
    _, err = web.end()
    assert "pause queue=orders parts=0: refused, status 404" in err
    assert "pause queue=orders: refused, status 404" in err


def test_a_number_of_partitions_that_has_grown_is_no_deletion(
    web: Web, client: duly.Client, server: Server, prefix: str
) -> None:
    client.partitions("orders", 4).push(1, id="a")
    form = web.form("/ask/delete?queue=orders&parts=4", "delete")
    duly.Client(server.url, prefix=prefix).partitions("orders", 8).push(1, key="b")
    until(lambda: client.queues().queues[0].partitions == 8, "it is not listed")
    answer = web.post(form.action, form.fields)
    assert (answer.status, "another number of partitions (8)" in answer.text) == (404, True)
    assert "deleted it meanwhile" not in answer.text


def limits_of(queue: duly.Queue, name: str = "") -> tuple[int | None, tuple[int, float] | None]:
    limits = queue.limits()
    if not name:
        return (limits.concurrency, limits.rate)
    of_name = limits.names.get(name, {})
    return (of_name.get("concurrency"), of_name.get("rate"))


def test_limits_are_shown_and_changed(web: Web, client: duly.Client) -> None:
    queue = client.queue("orders")
    queue.push(1)
    page, changed = "/queue?queue=orders", "The limits are changed."
    assert "This queue has no limits." in web.ask("GET", page).text
    whole, of_new = "/ask/limits?queue=orders&parts=0", "/ask/limits?queue=orders&parts=0&of=new"
    assert {whole, of_new} <= {unescape(link) for link in Forms(web.ask("GET", page).text).links}
    assert web.act(whole, "limits", concurrency=" 20 ", rate="none") == changed
    assert limits_of(queue) == (20, None)
    assert web.act(of_new, "limits", name=" mail.send ", concurrency="", rate="100/1s") == changed
    assert limits_of(queue, "mail.send") == (None, (100, 1.0))
    assert limits_of(queue) == (20, None)
    text = web.ask("GET", page).text
    assert "100 in 1 s" in text
    of_name = "/ask/limits?queue=orders&parts=0&name=mail.send"
    assert of_name in {unescape(link) for link in Forms(text).links}
    # What is set stands in the form, as the command takes it.
    queue.set_limits(concurrency=20, names={"mail.send": {"concurrency": 5, "rate": (5, 600.0)}})
    text = web.ask("GET", of_name).text
    assert 'name="concurrency" value="5"' in text
    assert 'name="rate" value="5/10m"' in text
    assert web.act(of_name, "limits", concurrency="5", rate="5/600").startswith("The limits were these before")
    assert web.act(of_name, "limits", concurrency="none", rate=" ") == changed
    assert queue.limits().names == {}
    assert web.act(whole, "limits") == changed
    assert limits_of(queue) == (None, None)
    _, err = web.end()
    assert "limits queue=orders parts=0 concurrency=20 rate=none: done" in err
    assert "limits queue=orders parts=0 name= mail.send  concurrency=none rate=100/1s: done" in err


def test_wrong_limits_are_refused(web: Web, client: duly.Client) -> None:
    queue = client.queue("orders")
    queue.set_limits(concurrency=20)
    form = web.form("/ask/limits?queue=orders", "limits")
    of_new = web.form("/ask/limits?queue=orders&of=new", "limits")
    for fields, said in [
        ({"concurrency": "many"}, "it is a number of jobs, or none"),
        ({"concurrency": "-1"}, "it is a number of jobs, or none"),
        ({"rate": "fast"}, "a rate is such as 100/1s or 5/10m, or none"),
        ({"concurrency": "0"}, "use pause to stop a queue"),
        ({"concurrency": "1000001"}, "1 to 1000000 jobs"),
        ({"rate": "0/1s"}, "rate"),
    ]:
        # What did nothing may be sent again.
        answer = web.post(form.action, {**form.fields, **fields})
        assert (answer.status, said in answer.text) == (400, True), (fields, answer.text)
    for name in ("", " "):
        answer = web.post(of_new.action, {**of_new.fields, "name": name, "concurrency": "1"})
        assert (answer.status, "Say the name" in answer.text) == (400, True)
    answer = web.post(of_new.action, {**of_new.fields, "name": "a\nb", "concurrency": "1"})
    assert answer.status == 400
    assert limits_of(queue) == (20, None)
    parts = client.partitions("clicks", 4)
    parts.push(1, key="k")
    form = web.form("/ask/limits?queue=clicks&parts=4", "limits")
    answer = web.post(form.action, {**form.fields, "concurrency": "3"})
    assert (answer.status, "a limit is 4 jobs at least" in answer.text) == (400, True)
    assert web.act("/ask/limits?queue=clicks&parts=4", "limits", concurrency="8") == "The limits are changed."
    assert parts.limits().concurrency == 8


def test_limits_that_have_reached_some_partitions_are_completed(
    web: Web, client: duly.Client, server: Server, prefix: str
) -> None:
    queue = client.partitions("mail", 4)
    queue.push(1)
    queue.set_limits(concurrency=4)

    def written() -> list[str]:
        return [server.cli("HGET", f"{prefix}{{mail/{part}}}:meta", "limits") for part in range(4)]

    # As a change leaves it that fails behind the first one.
    whole = written()
    assert "1" in whole[0]
    for part in (1, 2, 3):
        server.cli("HDEL", f"{prefix}{{mail/{part}}}:meta", "limits")
    notice = "The limits are set in every partition. Those of the first one were these before."
    assert web.act("/ask/limits?queue=mail&parts=4", "limits", concurrency="4") == notice
    assert written() == whole


def test_limits_that_a_later_partition_refuses_are_said_to_be_done_in_part(
    web: Web, client: duly.Client, server: Server, prefix: str
) -> None:
    queue = client.partitions("mail", 2)

    def use(begin: str) -> list[str]:
        names = [f"{begin}{number}" for number in range(100)]
        queue.set_limits(names={name: {"concurrency": 2} for name in names})
        # All in the second part.
        ids = (f"{begin}-{number}" for number in itertools.count())
        wanted = (one for one in ids if crc_hqx(one.encode(), 0) % 2)
        for name in names:
            queue.push(1, name=name, id=next(wanted))
        while queue.reserve_many(100, lease=600):
            pass
        return names

    use("a")
    queue.set_limits(names={name: {"concurrency": 2} for name in use("b")[1:]})
    form = web.form("/ask/limits?queue=mail&parts=2&of=new", "limits")
    answer = web.post(form.action, {**form.fields, "name": "new", "concurrency": "4"})
    assert (answer.status, "Only a part of this was done" in answer.text) == (409, True), answer.text
    assert "it was done to 1 of 2 parts" in answer.text
    has = ["new" in server.cli("HGET", f"{prefix}{{mail/{part}}}:meta", "limits") for part in range(2)]
    assert has == [True, False]
    answer = web.post(form.action, {**form.fields, "name": "new", "concurrency": "4"})
    assert (answer.status, "acted once" in answer.text) == (409, True)


def test_limits_that_another_has_changed_stay(web: Web, client: duly.Client) -> None:
    queue = client.queue("orders")
    queue.set_limits(concurrency=20)
    form = web.form("/ask/limits?queue=orders", "limits")
    queue.set_limits(concurrency=3, rate=(100, 60.0), names={"mail": {"concurrency": 1}})
    answer = web.post(form.action, {**form.fields, "concurrency": "30"})
    assert (answer.status, "Somebody else has changed these limits" in answer.text) == (409, True)
    assert "They are: concurrency 3, rate 100/1m." in answer.text
    assert limits_of(queue) == (3, (100, 60.0))
    # Limits of another name are no reason.
    form = web.form("/ask/limits?queue=orders", "limits")
    queue.set_limits(concurrency=3, rate=(100, 60.0), names={"mail": {"concurrency": 2}})
    assert web.say_yes(form, concurrency="30") == "The limits are changed."
    assert (limits_of(queue), limits_of(queue, "mail")) == ((30, None), (2, None))
    answer = web.post(form.action, {**form.fields, "concurrency": "40"})
    assert (answer.status, "acted once" in answer.text) == (409, True)
    of_new = web.form("/ask/limits?queue=orders&of=new", "limits")
    answer = web.post(of_new.action, {**of_new.fields, "name": "mail", "concurrency": "9"})
    assert (answer.status, "This name has limits already" in answer.text) == (409, True)
    assert limits_of(queue, "mail") == (2, None)
    form = web.form("/ask/limits?queue=orders", "limits")
    queue.delete()
    assert web.post(form.action, {**form.fields, "concurrency": "40"}).status == 404


def test_a_queue_is_deleted_with_its_jobs(web: Web, client: duly.Client) -> None:
    queue = client.queue("orders")
    fail(queue, "broken")
    queue.push(1, delay=60)
    queue.push_many([duly.NewJob(number) for number in range(3)])
    queue.reserve()
    queue.set_limits(concurrency=5)
    asked = "/ask/delete?queue=orders&parts=0"
    assert asked in [unescape(link) for link in Forms(web.get("/queue", queue="orders").text).links]
    text = re.sub("<.*?>", "", web.ask("GET", asked).text)
    for said in (
        "Delete the queue orders?",
        "Ready: 2",
        "Reserved: 1",
        "Delayed: 1",
        "Failed: 1",
        "Its 5 jobs are lost",
    ):
        assert said in text, said
    assert "删除队列 orders" in web.get("/ask/delete", queue="orders", lang="zh").text
    web.get("/", lang="en")
    form = web.form(asked, "delete")
    for number in (6, 7):
        queue.push(number, id=str(number))
    answer = web.post(form.action, form.fields)
    assert (answer.status, "you were asked about 5, and there are 7 now" in answer.text) == (409, True)
    assert "nothing was removed" in answer.text
    assert queue.counts().ready == 4
    again = [link for link in map(unescape, Forms(answer.text).links) if link == asked]
    assert again
    form = web.form(again[0], "delete")
    assert web.say_yes(form) == "The queue orders is deleted. It had 7 jobs."
    assert "/queue?queue=orders" not in unescape(web.get("/").text)
    assert client.queues().queues == []
    # A second click, and a tab of somebody else.
    answer = web.post(form.action, form.fields)
    assert (answer.status, "acted once" in answer.text) == (409, True)
    answer = web.post(form.action, {**form.fields, "once": "0" * 48})
    assert (answer.status, "Somebody else has deleted it meanwhile." in answer.text) == (404, True)
    assert web.ask("GET", asked).status == 404
    _, err = web.end()
    lines = [line.partition(": ")[2].partition(": ")[2] for line in err.splitlines() if ": delete queue=orders" in line]
    assert lines[1] == "delete queue=orders parts=0 jobs=7: done", err
    assert lines[0].startswith("delete queue=orders parts=0 jobs=5: refused"), err


def test_an_empty_queue_and_one_with_partitions_are_deleted(web: Web, client: duly.Client) -> None:
    plain, parts = client.queue("mixed"), client.partitions("mixed", 4)
    plain.push(1, id="one")
    plain.cancel("one")
    for number in range(9):
        parts.push(number, key=str(number))
    asked = "/ask/delete?queue=mixed"
    assert "It has no jobs." in web.ask("GET", asked).text
    form = web.form(asked, "delete")
    for wrong in ("", "many", "-1"):
        assert web.post(form.action, {**form.fields, "jobs": wrong}).status == 400
    plain.push(2, id="two")
    answer = web.post(form.action, form.fields)
    assert (answer.status, "you were asked about 0, and there are 1 now" in answer.text) == (409, True)
    plain.cancel("two")
    assert web.act(asked, "delete") == "The queue mixed is deleted. It had 0 jobs."
    assert parts.counts().ready == 9
    assert web.act(f"{asked}&parts=4", "delete") == "The queue mixed is deleted. It had 9 jobs."
    assert client.queues().queues == []


def test_a_queue_with_schedules_is_not_deleted(web: Web, client: duly.Client) -> None:
    queue = client.queue("orders")
    queue.push(1, id="one")
    form = web.form("/ask/delete?queue=orders", "delete")
    queue.schedules.put("nightly", duly.Schedule(duly.NewJob(), cron="0 3 * * *"))
    answer = web.post(form.action, form.fields)
    for status, text in ((409, answer.text), (200, web.get("/ask/delete", queue="orders").text)):
        assert "It has schedules (1), which would push new jobs: remove them first." in text, status
        assert "/schedule?queue=orders&parts=0&name=nightly" in map(unescape, Forms(text).links)
        assert "/act/delete" not in text
    assert answer.status == 409
    queue.schedules.remove("nightly")
    assert web.say_yes(form) == "The queue orders is deleted. It had 1 jobs."


def test_schedules_are_paused_and_removed(web: Web, client: duly.Client) -> None:
    schedules = client.queue("orders").schedules
    schedules.put("nightly", duly.Schedule(duly.NewJob(), cron="0 3 * * *", tz="Europe/Berlin"))
    page = "/schedule?queue=orders&name=nightly"
    assert web.ask("GET", page).text.count("<li><time") == 5
    assert web.act(page, "schedule-pause") == "The schedule is paused."
    assert "It has no next slot" in web.ask("GET", page).text
    assert web.act(page, "schedule-resume") == "The schedule fires again."
    form = web.form(page, "schedule-pause")
    assert web.act("/ask/schedule-remove?queue=orders&name=nightly", "schedule-remove") == "The schedule is removed."
    assert schedules.list() == []
    assert web.post(form.action, form.fields).status == 404


def test_fires_and_workers_are_shown(web: Web, client: duly.Client) -> None:
    queue = client.queue("orders")
    queue.schedules.put("tick", duly.Schedule(duly.NewJob(name="tick"), every=0.5))
    worker = duly.Worker(client, ["orders"], name="one of many")
    worker.on("tick")(lambda _: None)
    with running(worker):
        until(lambda: "one of many" in web.get("/workers").text, "the worker is not shown")
        until(lambda: ">pushed<" in web.get("/schedule", queue="orders", name="tick").text, "no fire is shown")


def test_a_job_is_shown_as_it_is(web: Web, client: duly.Client) -> None:
    queue = client.queue("orders")
    data = {"text": HOSTILE, "big": 12345678901234567890, "zh": "订单"}
    queue.push(data, id="one", key="close:42", headers={"tenant": "acme\t1"}, delay=60)
    text = web.get("/job", queue="orders", id="one").text
    for shown in ("waits for its due time, in", "12345678901234567890", "订单", "acme", "close:42"):
        assert shown in text, shown
    answer = web.get("/package", queue="orders", id="one")
    assert json.loads(answer.text)["data"] == data
    assert answer.headers["content-type"] == "application/octet-stream"
    assert "attachment" in answer.headers["content-disposition"]
    queue.push("x" * 200_000, id="large")
    answer = web.get("/job", queue="orders", id="large")
    assert "The first 65,536 of 200,002 characters are shown." in answer.text
    assert len(answer.text) < 100_000


def test_long_lists_are_paged(web: Web, client: duly.Client) -> None:
    queue = client.queue("orders")
    queue.push_many([duly.NewJob(n, id=f"job-{n:03}", delay=1000 + n) for n in range(120)])
    seen: list[str] = []
    page = "/queue?queue=orders&state=delayed"
    while page:
        text = web.ask("GET", page).text
        seen += re.findall(r'class="id" href="[^"]*id=(job-\d+)"', text)
        following = re.search(r'rel="next" href="([^"]*)"', text)
        page = unescape(following[1]) if following else ""
    assert seen == [f"job-{n:03}" for n in range(120)]
    for number in range(60):
        client.queue(f"q{number:02}").push(1)
    text = web.get("/").text
    following = re.search(r'rel="next" href="([^"]*)"', text)
    assert following
    other = web.ask("GET", unescape(following[1])).text
    names = re.findall(r'class="title"><a href="/queue\?queue=([^"&]*)', text + other)
    assert names == sorted({"orders", *(f"q{number:02}" for number in range(60))})


def test_jobs_are_found_by_id_and_by_key(web: Web, client: duly.Client) -> None:
    fill(client)
    for text, id_ in (
        ("later", "later"),
        ("close:42", "later"),
        ("k", "click"),
        ("click", "click"),
        (HOSTILE, HOSTILE),
    ):
        answer = web.get("/search", q=text)
        wanted = dict(
            parse_qsl(urlsplit(next(link for link in Forms(answer.text).links if link.startswith("/job"))).query)
        )
        assert wanted["id"] == id_, text
    assert "/queue?queue=clicks&amp;parts=4" in web.get("/search", q="click").text
    assert "/job" not in web.get("/search", q="later", queue="clicks", parts="4").text
    assert "Nothing found" in web.get("/search", q="nothing at all").text
    assert web.get("/search", q="\x1b" * 300).status == 200


def test_read_only_shows_everything_and_does_nothing(
    start: Start, server: Server, prefix: str, client: duly.Client
) -> None:
    fill(client)
    writer = start(server.url, prefix)
    writer.enter()
    web = start(server.url, prefix, "--read-only")
    web.enter()
    for page in [
        *PAGES,
        "/job?queue=orders&id=later",
        "/job?queue=orders&id=broken",
        "/schedule?queue=orders&name=nightly",
    ]:
        answer = web.ask("GET", page)
        assert answer.status == 200
        assert "/act/" not in answer.text
        assert "/ask/" not in answer.text
        assert ">read-only<" in answer.text
    form = writer.form("/queue?queue=orders", "pause")
    token = Forms(web.get("/").text).forms[-1].fields["form_token"]
    assert web.post(form.action, {**form.fields, "form_token": token}).status == 403
    for asked in ("purge", "limits", "delete"):
        assert web.get(f"/ask/{asked}", queue="orders", state="failed").status == 403
    assert not client.queue("orders").counts().paused


def test_each_action_is_logged(web: Web, client: duly.Client) -> None:
    client.queue("orders").push({"secret": "4711"}, id=HOSTILE, delay=60)
    web.act("/queue?queue=orders", "pause")
    web.act(f"/ask/cancel?{urlencode({'queue': 'orders', 'id': HOSTILE})}", "cancel")
    form = web.form("/queue?queue=orders", "resume")
    assert web.post("/act/cancel", {**form.fields, "id": "a\x1b[2Jb\nc"}).status == 400
    status, err = web.end()
    assert status == 0
    start = r"duly: \d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ session ([0-9a-f]{8}) from 127\.0\.0\.1:\d+: "
    lines = err.splitlines()
    assert lines.pop(0).endswith(": sign in: done")
    assert len(lines) == 3
    ends = (
        "pause queue=orders parts=0: done",
        f"cancel queue=orders parts=0 id={HOSTILE}: done",
        r"cancel queue=orders parts=0 id=a\u{1b}[2Jb\nc: ",
    )
    for line, end in zip(lines, ends, strict=True):
        found = re.match(start, line)
        assert found, line
        assert line[found.end() :].startswith(end), line
    assert "4711" not in err


def test_a_server_that_is_down_is_said_and_comes_back(start: Start, own_server: Server) -> None:
    client = duly.Client(own_server.url)
    client.queue("orders").push(1, id="one", delay=60)
    web = start(own_server.url, "duly:")
    web.enter()
    form = web.form("/queue?queue=orders", "pause")
    own_server.kill()
    for page in PAGES[:-2]:
        answer = web.ask("GET", page)
        assert (answer.status, "does not answer" in answer.text) == (503, True), page
    assert web.post(form.action, form.fields).status == 503
    own_server.start()
    until(lambda: web.get("/").status == 200, "the page does not come back")
    client.queue("orders").push(1, id="one", delay=60)
    # It did nothing, and may be sent again.
    assert web.post(form.action, form.fields).status == 303


@pytest.mark.parametrize("act", ["purge", "delete"])
def test_what_was_done_before_an_outage_is_said_and_not_done_again(start: Start, own_server: Server, act: str) -> None:
    queue = duly.Client(own_server.url).partitions("mail", 2)
    queue.push_many([duly.NewJob(number) for number in range(40)])
    # One of its keys is in no call before that which removes jobs of this part.
    with way_to(own_server, b"{mail/1}:returned", own_server.kill) as url:
        web = start(url, "duly:")
        web.enter()
        form = web.form(f"/ask/{act}?queue=mail&parts=2&state=ready", act)
        answer = web.post(form.action, form.fields)
        text = unescape(re.sub("<.*?>", "", answer.text))
        assert (answer.status, "Nothing is lost" in text) == (503, False), text
        assert "Only a part of this was done" in text
        assert re.search(r"; (\d+ jobs were|one of its parts was) removed before that", text), text
        answer = web.post(form.action, form.fields)
        assert (answer.status, "sent before" in answer.text) == (409, True)
        _, err = web.end()
    assert "removed before that" in err


def test_a_server_that_hangs_is_said(start: Start, own_server: Server) -> None:
    web = start(own_server.url, "duly:")
    web.enter()
    assert web.get("/").status == 200
    own_server.freeze()
    assert web.get("/").status == 503
    own_server.thaw()
    until(lambda: web.get("/").status == 200, "the page does not come back")


def test_it_starts_without_its_server(start: Start, own_server: Server) -> None:
    own_server.kill()
    web = start(own_server.url, "duly:")
    web.enter()
    assert web.get("/").status == 503
    own_server.start()
    until(lambda: web.get("/").status == 200, "the page does not come back")


def test_a_queue_that_cannot_be_read_hides_no_other(web: Web, client: duly.Client, server: Server, prefix: str) -> None:
    client.queue("good").push(1)
    client.queue("bad").push(1, delay=60)
    server.cli("set", f"{prefix}{{bad}}:delayed", "mine")
    for page in ("/", "/failed", "/schedules", "/workers", "/search?q=x"):
        assert web.ask("GET", page).status == 200, page
    text = web.get("/").text
    assert "/queue?queue=good" in text
    assert "{bad}:delayed" in text
    assert web.get("/queue", queue="bad").status == 500


def test_the_page_is_in_chinese_too(web: Web, client: duly.Client) -> None:
    client.queue("orders").push(1)
    assert '<html lang="en">' in web.get("/").text
    text = web.ask("GET", "/", headers={"Accept-Language": "zh-CN,zh;q=0.9"}).text
    assert '<html lang="zh-CN">' in text
    assert "概览" in text
    assert "概览" in web.get("/", lang="zh").text
    # It is kept.
    assert "概览" in web.get("/").text
    assert '<html lang="en">' in web.get("/", lang="en").text
    assert '<html lang="en">' in web.get("/", lang="xx").text


def test_the_script_gets_the_part_that_changes(web: Web, client: duly.Client) -> None:
    client.queue("orders").push(1)
    answer = web.ask("GET", "/", headers={"Duly-Refresh": "1"})
    assert (answer.status, answer.headers["duly-refresh"]) == (200, "1")
    assert answer.text.startswith("<h1>Overview</h1>")
    # It takes nobody's notice away.
    form = web.form("/queue?queue=orders", "pause")
    location = web.post(form.action, form.fields).location
    assert "paused" not in web.ask("GET", "/", headers={"Duly-Refresh": "1"}).text.split("<table")[0]
    assert 'class="notice"' in web.ask("GET", location).text
    assert 'class="notice"' not in web.ask("GET", location).text
    web.cookies = {}
    answer = web.ask("GET", "/", headers={"Duly-Refresh": "1"})
    assert answer.status == 401


def basic(password: str, user: str = "duly") -> dict[str, str]:
    return {"Authorization": "Basic " + b64encode(f"{user}:{password}".encode()).decode()}


def samples(text: str) -> dict[str, float]:
    parse: Any = text_string_to_metric_families
    return {
        " ".join([sample.name, *sorted(sample.labels.values())]): sample.value
        for family in parse(text)
        for sample in family.samples
    }


def test_scrapers_get_the_metrics_by_the_password(
    start: Start, client: duly.Client, server: Server, prefix: str
) -> None:
    client.queue("orders").push(1, delay=60)
    web = start(server.url, prefix, "--read-only", password=PASSWORD)
    for headers in ({}, basic("another password"), basic(""), {"Authorization": f"Bearer {PASSWORD}"}):
        answer = web.ask("GET", "/metrics", headers=headers)
        assert (answer.status, answer.headers["www-authenticate"]) == (401, 'Basic realm="duly", charset="UTF-8"')
        assert "duly_" not in answer.text
    for user in ("duly", "", "prometheus"):
        answer = web.ask("GET", "/metrics", headers=basic(PASSWORD, user))
        assert (answer.status, answer.headers["content-type"].split(";")[0]) == (200, "application/openmetrics-text")
        assert samples(answer.text)["duly_jobs delayed orders"] == 1
        assert not web.cookies
    assert web.ask("HEAD", "/metrics", headers=basic(PASSWORD)).status == 200
    assert web.ask("GET", "/metrics", headers={**basic(PASSWORD), "Host": "evil.example"}).status == 403
    form = {"Sec-Fetch-Site": "same-origin", "Content-Type": "application/x-www-form-urlencoded"}
    assert web.ask("POST", "/metrics", b"a=b", {**basic(PASSWORD), **form}).status == 401
    # It opens nothing else.
    assert web.ask("GET", "/", headers=basic(PASSWORD)).status == 401
    # A scraper with an old password keeps nobody out, and is kept out itself.
    assert [web.ask("GET", "/metrics", headers=basic("old")).status for _ in range(9)] == [401] * 8 + [429]
    assert web.ask("GET", "/metrics", headers=basic(PASSWORD)).status == 429
    assert web.post("/sign-in", {"password": PASSWORD}).status == 303
    assert web.get("/metrics").status == 200
    _, err = web.end()
    assert err.count(": metrics: refused\n") == 10
    assert PASSWORD not in err


def test_without_a_password_only_a_signed_in_browser_gets_the_metrics(web: Web) -> None:
    assert "duly_up 1" in web.get("/metrics").text
    web.cookies = {}
    for password in ("", PASSWORD):
        answer = web.ask("GET", "/metrics", headers=basic(password))
        assert (answer.status, answer.headers["www-authenticate"]) == (401, None)
        assert "DULY_WEB_PASSWORD" in answer.text


def test_scrapes_are_bounded(start: Start, own_server: Server) -> None:
    client = duly.Client(own_server.url)
    client.queue("orders").push(1)
    web = start(own_server.url, "duly:", password=PASSWORD)
    assert samples(web.ask("GET", "/metrics", headers=basic(PASSWORD)).text)["duly_jobs orders ready"] == 1

    def calls() -> int:
        return int(own_server.cli("INFO", "stats").split("total_commands_processed:")[1].split()[0])

    def one(_number: int) -> int:
        return web.ask("GET", "/metrics", headers=basic(PASSWORD)).status

    costs: list[int] = []

    def is_renewed() -> bool:
        before = calls()
        text = web.ask("GET", "/metrics", headers=basic(PASSWORD)).text
        costs.append(calls() - before)
        return samples(text)["duly_jobs orders ready"] == 2

    client.queue("orders").push(2)
    until(is_renewed, "the text is given again for ever")
    of_one, before = costs[-1], calls()
    with ThreadPoolExecutor(20) as pool:
        assert set(pool.map(one, range(40))) == {200}
    # A slow machine may take more than a second for all.
    assert calls() - before < 10 * of_one
    own_server.freeze()
    began = time.monotonic()
    answers = []

    def is_down() -> bool:
        answers.append(web.ask("GET", "/metrics", headers=basic(PASSWORD)))
        return samples(answers[-1].text) == {"duly_up": 0}

    try:
        until(is_down, "a server that is frozen is up")
    finally:
        own_server.thaw()
    assert answers[-1].status == 200
    assert time.monotonic() - began < 10


def test_prometheus_scrapes_the_page(
    start: Start, client: duly.Client, server: Server, prefix: str, tmp_path: Path
) -> None:
    client.queue("orders").push(1, delay=60)
    web = start(server.url, prefix, password=PASSWORD)
    page = (Path(__file__).resolve().parent.parent / "docs" / "operate.md").read_text("utf-8")
    found = re.search(r"```text\n(scrape_configs:.*?)```", page, re.DOTALL)
    assert found
    (tmp_path / "password").write_text(f"{PASSWORD}\n", "utf-8")
    config = found[1].replace("/etc/prometheus/duly-password", str(tmp_path / "password"))
    config = config.replace("https", "http").replace("queues.example.com:443", f"127.0.0.1:{web.port}")
    (tmp_path / "prometheus.yml").write_text(f"global: {{scrape_interval: 1s}}\n{config}", "utf-8")
    program = shutil.which("prometheus")
    assert program, "Prometheus is missing: run tools/setup.sh"
    arguments = ["--config.file", tmp_path / "prometheus.yml", "--storage.tsdb.path", tmp_path / "data"]
    command = [program, *map(str, arguments), "--web.listen-address=127.0.0.1:0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            listening = re.compile(r"Listening on.*address=(127\.0\.0\.1:\d+)")
            at = next(found for line in process.stderr if (found := listening.search(line)))
            assert any("Server is ready" in line for line in process.stderr)

            def result(query: str) -> list[float]:
                with urlopen(f"http://{at[1]}/api/v1/query?{urlencode({'query': query})}") as answer:
                    return [float(one["value"][1]) for one in json.load(answer)["data"]["result"]]

            until(lambda: result('up{job="duly"}') == [1], "it does not scrape", 30)
            assert result('duly_jobs{queue="orders",state="delayed"}') == [1]
        finally:
            process.terminate()
            process.communicate()


@pytest.mark.parametrize("ignored", [signal.SIGHUP, signal.SIGINT, signal.SIGTERM])
def test_a_signal_that_is_ignored_ends_nothing(
    start: Start, server: Server, prefix: str, ignored: signal.Signals
) -> None:
    before = signal.signal(ignored, signal.SIG_IGN)
    try:
        web = start(server.url, prefix)
    finally:
        signal.signal(ignored, before)
    web.enter()
    web.process.send_signal(ignored)
    assert web.get("/").status == 200
    assert web.end(signal.SIGHUP if ignored == signal.SIGTERM else signal.SIGTERM)[0] == 0


@pytest.mark.parametrize(("by", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 0), (signal.SIGHUP, 0)])
def test_a_signal_ends_it_at_once(web: Web, by: signal.Signals, status: int) -> None:
    idle = socket.create_connection(("127.0.0.1", web.port))
    half = socket.create_connection(("127.0.0.1", web.port))
    half.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n")
    ended, err = web.end(by)
    assert (ended, len(err.splitlines())) == (status, 1)
    idle.close()
    half.close()
