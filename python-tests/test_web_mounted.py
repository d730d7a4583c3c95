"""The page in an application (`duly.web`): real HTTP, by uvicorn and by wsgiref, and a real Redis.

The application lets users in by a header, and has another page beside, `/health`.
"""

from __future__ import annotations

import asyncio
import io
import logging
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from html import unescape
from pathlib import Path
from socketserver import ThreadingMixIn
from typing import Any
from urllib.parse import urlencode, urlsplit
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

import duly
import duly.aio
import duly.web
import pytest
import uvicorn
from slow_lines import Line, slow_lines
from support import Server, until
from web_client import HOSTILE, Answer, Forms, Web, fail, fill

MOUNT = "/tools/du ly"
IN_URL = "/tools/du%20ly"
ROLES = {
    "vera": {"view"},
    "otto": {"view", "operate"},
    "ada": {"view", "operate", "admin"},
    HOSTILE: {"view", "operate"},
}
FORM = {"Content-Type": "application/x-www-form-urlencoded"}


class Visitor(Web):
    """A browser without a window, whose user the application knows."""

    def __init__(self, port: int, user: str, mount: str = IN_URL) -> None:
        self.port, self.user, self.mount, self.cookies = port, user, mount, {}

    def ask(self, method: str, path: str, body: bytes = b"", headers: dict[str, str] | None = None) -> Answer:
        return super().ask(method, path, body, {"X-User": self.user, **(headers or {})})


Visit = Callable[..., Visitor]


def of_scope(scope: Any) -> str:
    headers: dict[bytes, bytes] = dict(scope["headers"])
    return headers.get(b"x-user", b"").decode()


def of_environ(environ: Any) -> str:
    return str(environ.get("HTTP_X_USER", ""))


@contextmanager
def asgi(client: duly.Client, **settings: Any) -> Iterator[int]:
    async def can(action: str, scope: Any) -> bool:
        return action in ROLES.get(of_scope(scope), ())

    page = duly.web.asgi(client, **{"can": can, "user": of_scope, **settings})

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["path"] == "/health":
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b"well"})
        else:
            assert scope["path"].startswith(MOUNT)
            await page({**scope, "root_path": MOUNT}, receive, send)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = uvicorn.Server(uvicorn.Config(app, lifespan="off", log_config=None))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            yield listener.getsockname()[1]
        finally:
            server.should_exit = True
            thread.join()


class Threads(ThreadingMixIn, WSGIServer):
    pass


class Silent(WSGIRequestHandler):
    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def wsgi(client: duly.Client, **settings: Any) -> Iterator[int]:
    def can(action: str, environ: Any) -> bool:
        return action in ROLES.get(of_environ(environ), ())

    page = duly.web.wsgi(client, **{"can": can, "user": of_environ, **settings})

    def app(environ: dict[str, Any], start_response: Any) -> Any:
        path = environ["PATH_INFO"]
        if path == "/health":
            start_response("200 OK", [])
            return [b"well"]
        return page({**environ, "SCRIPT_NAME": MOUNT, "PATH_INFO": path.removeprefix(MOUNT)}, start_response)

    with make_server("127.0.0.1", 0, app, Threads, Silent) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture(params=[asgi, wsgi], ids=["asgi", "wsgi"])
def visit(request: pytest.FixtureRequest, client: duly.Client) -> Iterator[Visit]:
    """Mount the page once more for this user, as another process does, and give a browser there."""
    with ExitStack() as mounted:

        def start(user: str = "ada", client: duly.Client = client, **settings: Any) -> Visitor:
            return Visitor(mounted.enter_context(request.param(client, **settings)), user)

        yield start


def elsewhere(browser: Visitor, other: Visitor) -> Visitor:
    """Give the same browser, whose requests another process answers."""
    other.cookies = browser.cookies
    return other


def test_every_page_lies_in_the_folder_of_its_mount(visit: Visit, client: duly.Client) -> None:
    fill(client)
    web = visit()
    assert web.ask("GET", "").headers["location"] == "./du%20ly/overview"
    seen: set[str] = set()
    left = ["/"]
    while left:
        page = left.pop()
        if page in seen or "#" in page:
            continue
        seen.add(page)
        answer = web.ask("GET", page)
        assert answer.status == 200, (page, answer.text)
        assert not re.search(r'(href|src|action)="/', answer.text), page
        left += Forms(answer.text).links
    expected = {"queue", "job", "package", "failed", "schedules", "schedule", "workers", "jobs", "groups", "overview"}
    asking = {"ask-cancel", "ask-purge", "ask-limits", "ask-delete", "ask-requeue-all", "ask-schedule-remove"}
    assert expected | asking <= {urlsplit(page).path.removeprefix("/") for page in seen}
    page = web.get("/").text
    for asset in re.findall(r'(?:href|src)="((?:style|script|icon)[^"]+)"', page):
        assert web.ask("GET", f"/{asset}").headers["cache-control"] == "max-age=86400"
    answer = web.ask("HEAD", "/")
    assert (answer.status, answer.text) == (200, "")
    assert answer.headers["content-security-policy"].startswith("default-src 'none'")


def test_what_only_the_command_has_is_not_there(visit: Visit) -> None:
    web = visit()
    assert "sign-out" not in web.get("/").text
    for path in ("/metrics", "/sign-in", "/sign-in?token=x", "/a/b", "/nothing"):
        assert web.ask("GET", path).status == 404, path
    token = web.cookies["duly_web"]
    assert web.post("/sign-out", {"form_token": token}).status == 404
    assert web.post("/sign-in", {"form_token": token, "password": "x"}).status == 404


def test_it_is_closed_to_whoever_may_nothing(visit: Visit, client: duly.Client) -> None:
    client.queue("orders").push({"secret": 4711})
    web = visit("nobody")
    for path in ("/", "/queue?queue=orders&parts=0", "/style.css", "/nothing"):
        answer = web.ask("GET", path)
        assert (answer.status, answer.headers["set-cookie"]) == (403, None), path
        assert "orders" not in answer.text
    assert web.post("/act-pause", {"queue": "orders", "parts": "0"}).status == 403
    # Also where others are led on, and what is no form, or too large.
    assert web.ask("GET", "").status == 403
    assert web.ask("POST", "/act-pause", b"{}").status == 403
    assert web.post("/act-pause", {"more": "x" * 65536}).status == 403
    # `can` that is forgotten, or is no function, or says neither yes nor no.
    makers: tuple[Callable[..., object], ...] = (duly.web.asgi, duly.web.wsgi, duly.web.Page)
    for make in makers:
        with pytest.raises(TypeError, match="can"):
            make(client)
        with pytest.raises(TypeError, match="can must be a function"):
            make(client, can=True)


def test_an_answer_that_is_no_bool_allows_nothing(client: duly.Client) -> None:
    async def says_yes(_action: str, _who: object) -> bool:
        return True

    for can in (says_yes, lambda _action, _who: "no", lambda _action, _who: None):
        page = duly.web.Page(client, can=can)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="can must return True or False for 'view'"):
            page.handle("GET", "/")
    with pytest.raises(TypeError, match=r"duly\.Client"):
        duly.web.Page("redis://", can=lambda _action, _who: True)  # type: ignore[arg-type]


def actions_of(web: Visitor) -> set[str]:
    """What the pages offer."""
    pages = ["/queue?queue=orders&state=failed", "/job?queue=orders&id=broken", "/job?queue=orders&id=later"]
    pages += [
        "/schedule?queue=orders&name=nightly",
        "/groups?queue=orders",
        "/jobs?queue=orders&state=failed",
        "/failed",
    ]
    offered: set[str] = set()
    for page in pages:
        read = Forms(web.ask("GET", page).text)
        paths = [form.action for form in read.forms] + [urlsplit(link).path for link in read.links]
        offered |= {path[5:] for path in paths if path.startswith(("/act-", "/ask-"))}
    return offered


def test_a_page_offers_what_the_user_may_do(visit: Visit, client: duly.Client) -> None:
    fill(client)
    operate = {"pause", "limits", "keep-history", "run-now", "reschedule", "requeue", "requeue-all", "requeue-matching"}
    operate |= {"schedule-run", "schedule-pause", "requeue-with"}
    admin = {"cancel", "purge", "delete", "cancel-matching", "schedule-remove"}
    vera, otto, ada = (visit(user) for user in ("vera", "otto", "ada"))
    assert actions_of(vera) == set()
    assert ">read-only<" in vera.get("/").text
    assert actions_of(otto) == operate
    assert ">read-only<" not in otto.get("/").text
    assert actions_of(ada) == operate | admin
    for act in ("purge", "delete", "cancel"):
        assert otto.get(f"/ask-{act}", queue="orders", id="later", state="failed").status == 403


def test_a_form_does_what_its_user_may_do(visit: Visit, client: duly.Client) -> None:
    fill(client)
    queue = client.queue("orders")
    ada, otto, vera = visit("ada"), visit("otto"), visit("vera")
    purge = ada.form("/ask-purge?queue=orders&state=failed", "purge")
    pause = ada.form("/queue?queue=orders", "pause")
    for browser, form in ((otto, purge), (vera, purge), (vera, pause)):
        refused = elsewhere(ada, browser).post(form.action, form.fields)
        assert (refused.status, "the application that shows this page decides" in refused.text) == (403, True)
    assert (queue.counts().failed, queue.counts().paused) == (1, False)
    # They are as they were: nobody has sent them.
    assert elsewhere(ada, otto).say_yes(pause).startswith("The queue is paused")
    assert ada.say_yes(purge) == "1 jobs are removed."


def test_a_form_of_another_page_does_nothing(visit: Visit, client: duly.Client) -> None:
    client.queue("orders").push(1)
    web = visit()
    form = web.form("/queue?queue=orders", "pause")
    own = f"http://127.0.0.1:{web.port}"
    refused: list[dict[str, str]] = [
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site", "Origin": own},
        {"Sec-Fetch-Site": "same-origin", "Origin": "http://evil.example"},
        {"Sec-Fetch-Site": "", "Origin": f"http://127.0.0.1:{web.port + 1}"},
        {"Sec-Fetch-Site": ""},
    ]
    for headers in refused:
        assert web.post(form.action, form.fields, **headers).status == 403, headers
    for token in ("", "x", "0" * 48):
        assert web.post(form.action, {**form.fields, "form_token": token}).status == 403
    cookies, web.cookies = web.cookies, {}
    assert web.post(form.action, form.fields).status == 403
    web.cookies = {"duly_web": "0" * 48}
    assert web.post(form.action, form.fields).status == 403
    web.cookies = cookies
    for once in ("", "x", form.fields["once"].partition("-")[0] + "-1"):
        assert web.post(form.action, {**form.fields, "once": once}).status in (403, 409)
    assert web.ask("POST", form.action, b"{}", {"Sec-Fetch-Site": "same-origin"}).status == 415
    assert web.post(form.action, {**form.fields, "more": "x" * 65536}).status == 413
    assert not client.queue("orders").counts().paused
    assert web.post(form.action, form.fields, Origin=own).status == 303
    assert client.queue("orders").counts().paused


def test_a_second_click_does_nothing_in_another_process_either(visit: Visit, client: duly.Client) -> None:
    queue = client.queue("orders")
    queue.schedules.put("tick", duly.Schedule(duly.NewJob(), every=3600))
    web = visit()
    other = elsewhere(web, visit())
    form = web.form("/schedule?queue=orders&name=tick", "schedule-run")
    with ThreadPoolExecutor(8) as pool:
        sent = list(pool.map(lambda browser: browser.post(form.action, form.fields), [web, other] * 4))
    assert sorted(answer.status for answer in sent) == [303] + [409] * 7
    assert all("This form was sent before" in answer.text for answer in sent if answer.status == 409)
    assert queue.counts().ready == 1
    assert other.act("/schedule?queue=orders&name=tick", "schedule-run").endswith("is pushed.")
    assert queue.counts().ready == 2


SHOP = """
import logging, os, duly, duly.web

logging.basicConfig(level=logging.INFO, format="%(message)s")
client = duly.Client(os.environ["URL"], prefix=os.environ["PREFIX"])
app = duly.web.wsgi(client, can=lambda _action, _environ: True, user=lambda _environ: str(os.getpid()))
"""


def test_the_processes_of_a_web_server_do_it_once_together(
    server: Server, prefix: str, client: duly.Client, tmp_path: Path
) -> None:
    queue = client.queue("orders")
    queue.schedules.put("tick", duly.Schedule(duly.NewJob(), every=3600))
    (tmp_path / "shop.py").write_text(SHOP)
    log = tmp_path / "log"
    with socket.create_server(("127.0.0.1", 0)) as listener, log.open("w") as lines:
        command = ["-m", "gunicorn", "--preload", "--workers", "3", "--bind", f"fd://{listener.fileno()}", "shop:app"]
        environment = {**os.environ, "URL": server.url, "PREFIX": prefix}
        shop = subprocess.Popen(
            [sys.executable, *command], cwd=tmp_path, env=environment, stderr=lines, pass_fds=[listener.fileno()]
        )
        web = Visitor(listener.getsockname()[1], "", mount="")
        try:
            page = "/schedule?queue=orders&name=tick"
            rounds = 0

            def processes() -> set[str]:
                return set(re.findall(r"user (\d+) from .*: schedule-run .*: done", log.read_text()))

            while len(processes()) < 2:
                form = web.form(page, "schedule-run")
                with ThreadPoolExecutor(8) as pool:
                    sent = list(pool.map(lambda _, form=form: web.post(form.action, form.fields).status, range(8)))
                assert sorted(sent) == [303] + [409] * 7
                rounds += 1
                assert queue.counts().ready == rounds
                assert rounds < 200, "one process answers everything"
        finally:
            shop.terminate()
            shop.wait()
    assert log.read_text().count(": done") == rounds


def test_what_did_nothing_may_be_sent_again(visit: Visit, client: duly.Client) -> None:
    queue = client.queue("orders")
    fail(queue, "old", key="k")
    web = visit()
    other = elsewhere(web, visit())
    form = web.form("/job?queue=orders&id=old", "requeue")
    queue.push(2, id="new", key="k")
    for browser in (web, other, web):
        assert "its key belongs to the job new now" in browser.post(form.action, form.fields).text
    queue.cancel("new")
    assert other.post(form.action, form.fields).status == 303


def test_a_question_about_jobs_that_match_is_answered_in_another_process(visit: Visit, client: duly.Client) -> None:
    queue = client.partitions("mail", 4)
    queue.push_many([duly.NewJob(n, id=f"a b & 订单 {n}", delay=900 + n, priority=n % 2) for n in range(40)])
    web = visit()
    form = web.form("/ask-cancel-matching?queue=mail&parts=4&state=delayed&priority=1", "cancel-matching")
    # Nobody was asked about this one.
    queue.push(1, id="later", delay=900, priority=1)
    assert elsewhere(web, visit()).say_yes(form) == "20 jobs are removed."
    left = {job.id for part in queue.parts for job in part.peek("delayed", limit=100)}
    assert left == {"later", *(f"a b & 订单 {n}" for n in range(0, 40, 2))}
    for wrong in ("", "=", "=x", "=1\n9 a", "=1\n0 \x07"):
        again = web.form("/ask-cancel-matching?queue=mail&parts=4&state=delayed&priority=0", "cancel-matching")
        assert web.post(again.action, {**again.fields, "asked": wrong}).status == 409, wrong
    assert queue.counts().delayed == 21


@pytest.mark.parametrize(("length", "found"), [(8, 1000), (128, None)], ids=["short-ids", "long-ids"])
def test_a_question_is_about_as_many_jobs_as_a_form_can_hold(
    visit: Visit, client: duly.Client, length: int, found: int | None
) -> None:
    queue = client.queue("mail")
    for start in range(0, 2000, 500):
        queue.push_many([duly.NewJob(n, id=f"订{n:0{length - 3}}") for n in range(start, start + 500)])
    web = visit()
    page = "/ask-cancel-matching?queue=mail&state=ready"
    text = web.ask("GET", page).text
    asked = re.search(r"Remove at least ([\d,]+) ready jobs of mail that match", unescape(text))
    assert asked, text
    count = int(asked[1].replace(",", ""))
    assert 300 < count < 1000 if found is None else count == found
    form = web.form(page, "cancel-matching")
    assert len(urlencode(form.fields)) < 64 * 1024
    notice = web.say_yes(form)
    assert notice.startswith(f"{count:,} jobs are removed.")
    assert "do it again to go on" in notice
    assert queue.counts().ready == 2000 - count


def test_a_notice_is_said_once_and_runs_nothing(visit: Visit, client: duly.Client) -> None:
    queue = client.queue("orders")
    queue.push(1, id=HOSTILE)
    web = visit()
    page = f"/ask-cancel?{urlencode({'queue': 'orders', 'id': HOSTILE})}"
    form = web.form(page, "cancel")
    location = web.post(form.action, form.fields).location
    # What a browser asks for beside it.
    assert web.ask("GET", "/favicon.ico").status == 404
    assert 'class="notice"' not in web.ask("GET", location, headers={"Duly-Refresh": "1"}).text
    text = web.ask("GET", location).text
    assert HOSTILE not in text
    assert "The job &lt;script&gt;alert(1)&lt;/script&gt; is cancelled." in text
    assert 'class="notice"' not in web.ask("GET", location).text
    web.cookies["duly_notice"] = "_w"
    assert 'class="notice"' not in web.ask("GET", location).text


def test_data_is_hidden_from_those_who_may_only_look(visit: Visit, client: duly.Client) -> None:
    queue = client.queue("orders")
    queue.push({"secret": "4711"}, id="one", headers={"tenant": "0815"}, delay=60)
    template = duly.NewJob({"secret": "4711"}, headers={"tenant": "0815"})
    queue.schedules.put("nightly", duly.Schedule(template, every=3600))
    pages = ("/job?queue=orders&id=one", "/schedule?queue=orders&name=nightly")
    for user, hide_data, is_shown in (("vera", True, False), ("otto", True, True), ("vera", False, True)):
        web = visit(user, hide_data=hide_data)
        for page in pages:
            text = web.ask("GET", page).text
            assert ("4711" in text, "are hidden from those who may only look" in text) == (is_shown, not is_shown)
        assert ("0815" in web.ask("GET", pages[0]).text) == is_shown
        package = web.get("/package", queue="orders", id="one")
        assert (package.status, "4711" in package.text) == ((200, True) if is_shown else (403, False))


def test_each_action_is_a_line_with_the_name_of_the_user(
    visit: Visit, client: duly.Client, caplog: pytest.LogCaptureFixture
) -> None:
    client.queue("orders").push({"secret": 4711}, id="one", delay=60)
    caplog.set_level(logging.INFO, "duly.web")
    web = visit("ada")
    web.act("/queue?queue=orders", "pause")
    web.act("/ask-cancel?queue=orders&id=one", "cancel")
    form = web.form("/queue?queue=orders", "resume")
    assert elsewhere(web, visit("vera")).post(form.action, form.fields).status == 403
    lines = [record.getMessage() for record in caplog.records if record.name == "duly.web"]
    assert len(lines) == 2
    for line, what in zip(lines, ("pause queue=orders parts=0", "cancel queue=orders parts=0 id=one"), strict=True):
        assert re.fullmatch(rf"user ada from 127\.0\.0\.1(:\d+)?: {what}: done", line), line


def test_a_user_writes_no_lines_of_others(client: duly.Client, caplog: pytest.LogCaptureFixture) -> None:
    client.queue("orders").push(1)
    caplog.set_level(logging.INFO, "duly.web")
    page = duly.web.Page(client, can=lambda _action, _who: True, user=lambda who: who)
    action, headers, body = sent_form(page, "/queue?queue=orders&parts=0", "pause")
    headers.append(("X-Forwarded-For", "1.2.3.4"))
    sent = page.handle("POST", action, headers=headers, body=body, who="a\nb\x1b", peer="::1", secure=True)
    assert sent.status == 303
    assert dict(sent.headers)["set-cookie"].endswith("; Secure")
    assert [record.getMessage() for record in caplog.records] == [
        r"user a\nb\u{1b} from ::1 for 1.2.3.4: pause queue=orders parts=0: done"
    ]


def test_an_application_goes_on_while_the_server_is_away(visit: Visit, own_server: Server) -> None:
    client = duly.Client(own_server.url)
    client.queue("orders").push(1)
    web = visit("ada", client)
    form = web.form("/queue?queue=orders", "pause")
    own_server.freeze()
    health = Visitor(web.port, "ada", mount="")
    with ThreadPoolExecutor() as pool:
        began = time.monotonic()
        waiting = [pool.submit(web.get, "/"), pool.submit(web.post, form.action, form.fields)]
        answered = 0
        while not all(one.done() for one in waiting):
            assert health.ask("GET", "/health").text == "well"
            answered += 1
        took = time.monotonic() - began
    assert [one.result().status for one in waiting] == [503, 503]
    assert "does not answer" in waiting[0].result().text
    # As long as the page waits, and no longer; and it held up nobody.
    assert 2 < took < 12
    assert answered > 20
    own_server.thaw()


def sent_form(page: duly.web.Page, at: str, act: str) -> tuple[str, list[tuple[str, str]], bytes]:
    """Give the address, the headers and the body of that form, as a browser sends it."""
    shown = page.handle("GET", at, headers=[("Host", "h")])
    form = next(form for form in Forms(shown.body.decode()).forms if form.action == f"/act-{act}")
    cookie = dict(shown.headers)["set-cookie"].partition(";")[0]
    headers = [("Host", "h"), ("Origin", "https://h"), ("Cookie", cookie), *FORM.items()]
    return form.action, headers, urlencode(form.fields).encode()


def test_an_action_that_a_signal_ends_is_said(
    server: Server, prefix: str, client: duly.Client, caplog: pytest.LogCaptureFixture
) -> None:
    class EndedError(Exception):
        pass

    def end(*_: object) -> None:
        raise EndedError

    queue = client.queue("orders")
    queue.push_many([duly.NewJob(number) for number in range(10_000)])
    caplog.set_level(logging.INFO, "duly.web")
    before = signal.signal(signal.SIGUSR1, end)
    with slow_lines(server.socket, [Line(100_000_000, 0.3)]) as (url,):
        page = duly.web.Page(duly.Client(url, prefix=prefix), can=lambda _action, _who: True)
        action, headers, body = sent_form(page, "/ask-purge?queue=orders&parts=0&state=ready", "purge")

        def end_it() -> None:
            until(lambda: queue.counts().ready < 10_000, "nothing is done")
            os.kill(os.getpid(), signal.SIGUSR1)

        ending = threading.Thread(target=end_it)
        ending.start()
        with pytest.raises(EndedError):
            page.handle("POST", action, headers=headers, body=body)
        ending.join()
    signal.signal(signal.SIGUSR1, before)
    assert 0 < queue.counts().ready < 10_000
    (line,) = (record.getMessage() for record in caplog.records)
    assert "purge queue=orders parts=0 state=ready: cut off, as the page ended or failed" in line


def test_half_a_form_does_nothing(client: duly.Client) -> None:
    client.queue("orders").push(1)
    can = lambda _action, _who: True  # noqa: E731
    action, headers, body = sent_form(duly.web.Page(client, can=can), "/queue?queue=orders&parts=0", "pause")
    environ = {f"HTTP_{name.upper().replace('-', '_')}": value for name, value in headers}
    environ |= {"REQUEST_METHOD": "POST", "PATH_INFO": action, "CONTENT_TYPE": FORM["Content-Type"]}
    page, statuses = duly.web.wsgi(client, can=can), []
    for length in (len(body) + 1, len(body)):
        asked: dict[str, Any] = {**environ, "CONTENT_LENGTH": str(length), "wsgi.input": io.BytesIO(body)}
        page(asked, lambda status, _: statuses.append(status))
        assert client.queue("orders").counts().paused == (length == len(body))
    assert statuses == ["400 Bad Request", "303 See Other"]


def test_a_page_is_where_it_was_asked_for(client: duly.Client) -> None:
    page = duly.web.Page(client, can=lambda _action, who: who != "nobody")
    for uri in ("/other/", "//duly/", "/dulyer", "http://h/duly/", ""):
        elsewhere = page.handle("GET", uri, mount="/duly")
        assert (elsewhere.status, b"the page lies in '/duly'" in elsewhere.body) == (404, True), uri
        assert page.handle("GET", uri, mount="/duly", who="nobody").status == 403, uri
    for uri in ("/duly/?lang=zh", "/d%75ly/", "/duly%2F"):
        assert page.handle("GET", uri, mount="/duly").status == 200, uri
    client.close()
    with pytest.raises(duly.InvalidArgumentError, match="the client was closed"):
        page.handle("GET", "/")


def test_a_mount_need_not_be_ascii(client: duly.Client) -> None:
    can = lambda _action, _who: True  # noqa: E731
    # As PEP 3333 has it.
    environ = {"REQUEST_METHOD": "GET", "SCRIPT_NAME": "/订 %".encode().decode("latin-1")}
    said: list[Any] = []
    page = duly.web.wsgi(client, can=can)
    for path in ("", "/"):
        page(
            {**environ, "PATH_INFO": path}, lambda status, headers: said.append((status, dict(headers).get("location")))
        )
    assert said == [("303 See Other", "./%E8%AE%A2%20%25/overview"), ("200 OK", None)]
    for mount in ("/订 单", "/%E8%AE%A2%20%E5%8D%95"):
        answer = duly.web.Page(client, can=can).handle("GET", "/%E8%AE%A2%20%E5%8D%95", mount=mount)
        assert dict(answer.headers)["location"] == "./%E8%AE%A2%20%E5%8D%95/overview", mount


async def asked(page: Any, path: str, root_path: str = "") -> list[Any]:
    """Give what the page sends to one request, as a server of ASGI asks."""
    sent: list[Any] = []

    async def receive() -> Any:
        return {"type": "http.request"}

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "GET", "path": path, "root_path": root_path, "query_string": b"", "headers": []}
    await page(scope, receive, send)
    return sent


@pytest.mark.asyncio
async def test_a_path_may_begin_as_its_mount_does(client: duly.Client) -> None:
    page = duly.web.asgi(client, can=lambda _action, _scope: True)
    # In older versions of ASGI the path does not begin with the mount.
    for path, root_path in (("/o/overview", "/o"), ("/overview", "/o"), ("/overview", "/o/"), ("/订 %/", "/订 %")):
        assert (await asked(page, path, root_path))[0]["status"] == 200, (path, root_path)
    led_on, _ = await asked(page, "/订 %", "/订 %")
    assert (b"location", b"./%E8%AE%A2%20%25/overview") in led_on["headers"]
    assert (await asked(page, "/tools", "/too"))[0]["status"] == 404


@pytest.mark.asyncio
async def test_a_page_takes_no_thread_of_its_application(client: duly.Client) -> None:
    page = duly.web.asgi(client, can=lambda _action, _scope: True)
    loop, is_over = asyncio.get_running_loop(), threading.Event()
    loop.set_default_executor(ThreadPoolExecutor(1))
    busy = loop.run_in_executor(None, is_over.wait, 60)
    try:
        sent = await asyncio.wait_for(asked(page, "/"), 30)
    finally:
        is_over.set()
    assert (sent[0]["status"], await busy) == (200, True)


@pytest.mark.asyncio
async def test_a_client_of_asyncio_serves_as_well(server: Server, prefix: str) -> None:
    async with duly.aio.Client(server.url, prefix=prefix) as client:
        await client.queue("orders").push(1)
        page = duly.web.asgi(client, can=lambda action, _scope: action == "view")
        sent: list[Any] = []

        async def receive() -> Any:
            return {"type": "http.request"}

        async def send(message: Any) -> None:
            sent.append(message)

        await page({"type": "http", "method": "GET", "path": "/", "query_string": b"", "headers": []}, receive, send)
        assert sent[0]["status"] == 200
        assert b"orders" in sent[1]["body"]
        sent.clear()

        async def gone() -> Any:
            return {"type": "http.disconnect"}

        await page({"type": "http", "method": "POST", "path": "/", "query_string": b"", "headers": []}, gone, send)
        assert sent == []
        await page({"type": "websocket"}, receive, send)
        assert sent == [{"type": "websocket.close", "code": 1000}]
        with pytest.raises(ValueError, match="lifespan"):
            await page({"type": "lifespan"}, receive, send)
