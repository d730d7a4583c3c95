"""Who comes in to the page, by which name, and with which forms."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from html import unescape
from urllib.parse import urlencode

import duly
import pytest
from support import Server
from web_client import PAGES, PASSWORD, POLICY, Forms, StartWeb, Web, fill


def test_a_token_signs_in_one_browser_once(start_web: StartWeb, server: Server, prefix: str) -> None:
    web = start_web(server.url, prefix)
    answer = web.get("/")
    assert (answer.status, "Start `duly web` again" in answer.text) == (401, True)
    assert web.get("/sign-in", token="0" * 48).status == 401
    # Programs that look what is behind a link do not use it up.
    assert web.ask("HEAD", web.entry).status == 401
    answer = web.ask("GET", web.entry)
    cookie = answer.headers["set-cookie"]
    assert (answer.status, answer.location) == (303, "/overview")
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
        assert (answer.status, Forms(answer.text).links) == (404, []), path
    web.cookies = mine
    assert web.get("/search", q="a b", lang="en").status == 200


def test_a_password_is_asked_for(start_web: StartWeb, server: Server, prefix: str) -> None:
    web = start_web(server.url, prefix, password=PASSWORD)
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
        ([], "a long passw\udcffrd", "the password in DULY_WEB_PASSWORD is no text in UTF-8"),
        (["--host", "https://queues.example.com/"], "", "name a host as in https://HOST/, such as queues.example.com"),
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
    assert re.findall(r'(?:src|href)="(?![a-z-]+(?:\.\w+)?["?]|#)', page) == []
    assert re.findall(r"<script(?! defer src)", page) == []


def test_names_that_are_not_its_own_are_refused(start_web: StartWeb, server: Server, prefix: str) -> None:
    web = start_web(server.url, prefix, "--host", "queues.example.com", "--host", "jobs.example.com:8420")
    web.enter()
    for host in ("127.0.0.1:1", "localhost", "[::1]:8420", "queues.example.com", "jobs.example.com"):
        assert web.ask("GET", "/", headers={"Host": host}).status == 200, host
    for host in ("evil.example", f"evil.example:{web.port}", "127.0.0.1.evil.example", ""):
        assert web.ask("GET", "/", headers={"Host": host}).status == 403, host
    # Before anything else: the token is still good elsewhere.
    other = start_web(server.url, prefix)
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
    assert web.post("/act-nothing", form.fields).status == 404
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
