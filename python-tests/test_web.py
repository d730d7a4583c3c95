"""The page of `duly web`: a real process, real HTTP, a real Redis; in a real browser: test_web_browser.py."""

from __future__ import annotations

import json
import re
import signal
import socket
from html import unescape
from urllib.parse import parse_qsl, urlencode, urlsplit

import duly
import pytest
from support import Server, running, until, way_to
from web_client import HOSTILE, PAGES, Forms, StartWeb, Web, fill, there


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
        if page in seen or "#" in page or page.startswith("/ask-"):
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
    assert kinds == expected | {"/jobs", "/groups", "/overview", "/topics", "/topic", "/server", "/actions"}
    assert len(seen) > 30
    text = web.get("/job", queue="orders", id=HOSTILE).text
    assert "&lt;script&gt;" in text
    assert "⟨202E⟩" in text
    assert "ValueError: &lt;script&gt;" in web.get("/job", queue="orders", id="broken").text


def test_what_is_not_there_is_said(web: Web, client: duly.Client) -> None:
    client.queue("orders").push(1, id="one")
    for page in (
        "/nothing",
        "/ask-nothing?queue=orders",
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


def test_what_reads_much_is_not_refreshed(web: Web, client: duly.Client) -> None:
    fill(client)
    large = ("/jobs?queue=orders&state=failed", "/groups?queue=orders")
    live = {page for page in (*PAGES, *large) if re.search(r"<main [^>]*data-live", web.ask("GET", page).text)}
    assert live == set(PAGES) - {"/search", "/search?q=later", "/server"}


def test_what_holds_jobs_back_is_shown_as_text(web: Web, orders: duly.Queue) -> None:
    orders.set_limits(names={"a\u202eb": {"concurrency": 1}})
    for _ in range(2):
        orders.push(1, name="a\u202eb")
    assert orders.reserve() is not None
    text = web.get("/").text
    assert r"the name &#39;a\u{202e}b&#39;" in text.replace("'", "&#39;")
    assert "\u202e" not in text


def test_long_lists_are_paged(web: Web, client: duly.Client) -> None:
    queue = client.queue("orders")
    queue.push_many([duly.NewJob(n, id=f"job-{n:03}", delay=1000 + n) for n in range(120)])
    seen: list[str] = []
    page = "/queue?queue=orders&state=delayed"
    while page:
        text = web.ask("GET", page).text
        seen += re.findall(r'class="id" href="[^"]*id=(job-\d+)"', text)
        following = re.search(r'rel="next" href="([^"]*)"', text)
        page = there(unescape(following[1])) if following else ""
    assert seen == [f"job-{n:03}" for n in range(120)]
    for number in range(60):
        client.queue(f"q{number:02}").push(1)
    text = web.get("/").text
    following = re.search(r'rel="next" href="([^"]*)"', text)
    assert following
    other = web.ask("GET", there(unescape(following[1]))).text
    names = re.findall(r'class="title"><a href="queue\?queue=([^"&]*)', text + other)
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
    assert "queue?queue=clicks&amp;parts=4" in web.get("/search", q="click").text
    assert "job?" not in web.get("/search", q="later", queue="clicks", parts="4").text
    assert "Nothing found" in web.get("/search", q="nothing at all").text
    assert web.get("/search", q="\x1b" * 300).status == 200


def test_read_only_shows_everything_and_does_nothing(
    start_web: StartWeb, server: Server, prefix: str, client: duly.Client
) -> None:
    fill(client)
    writer = start_web(server.url, prefix)
    writer.enter()
    web = start_web(server.url, prefix, "--read-only")
    web.enter()
    for page in [
        *PAGES,
        "/job?queue=orders&id=later",
        "/job?queue=orders&id=broken",
        "/schedule?queue=orders&name=nightly",
    ]:
        answer = web.ask("GET", page)
        assert answer.status == 200
        assert "act-" not in answer.text
        assert "ask-" not in answer.text
        assert ">read-only<" in answer.text
    form = writer.form("/queue?queue=orders", "pause")
    token = Forms(web.get("/").text).forms[-1].fields["form_token"]
    assert web.post(form.action, {**form.fields, "form_token": token}).status == 403
    for asked in ("purge", "limits", "delete"):
        assert web.get(f"/ask-{asked}", queue="orders", state="failed").status == 403
    assert not client.queue("orders").counts().paused


def test_each_action_is_logged(web: Web, client: duly.Client) -> None:
    client.queue("orders").push({"secret": "4711"}, id=HOSTILE, delay=60)
    web.act("/queue?queue=orders", "pause")
    web.act(f"/ask-cancel?{urlencode({'queue': 'orders', 'id': HOSTILE})}", "cancel")
    form = web.form("/queue?queue=orders", "resume")
    assert web.post("/act-cancel", {**form.fields, "id": "a\x1b[2Jb\nc"}).status == 400
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


def test_a_server_that_is_down_is_said_and_comes_back(start_web: StartWeb, own_server: Server) -> None:
    client = duly.Client(own_server.url)
    client.queue("orders").push(1, id="one", delay=60)
    web = start_web(own_server.url, "duly:")
    web.enter()
    form = web.form("/queue?queue=orders", "pause")
    own_server.kill()
    for page in PAGES[:-2]:
        answer = web.ask("GET", page)
        assert (answer.status, "does not answer" in answer.text) == (503, True), page
    refused = web.post(form.action, form.fields)
    assert (refused.status, "This page comes back" in refused.text) == (503, False), "nobody sends it again"
    assert "Go on from the overview when the server is back" in refused.text
    package = web.ask("GET", "/package?queue=orders&parts=0&id=one")
    assert (
        package.status,
        "comes back" in package.text,
        "data-live" in package.text.split("<main")[1].split(">")[0],
    ) == (
        503,
        False,
        False,
    )
    own_server.start()
    until(lambda: web.get("/").status == 200, "the page does not come back")
    client.queue("orders").push(1, id="one", delay=60)
    # It did nothing, and may be sent again.
    assert web.post(form.action, form.fields).status == 303


@pytest.mark.parametrize("act", ["purge", "delete"])
def test_what_was_done_before_an_outage_is_said_and_not_done_again(
    start_web: StartWeb, own_server: Server, act: str
) -> None:
    queue = duly.Client(own_server.url).partitions("mail", 2)
    queue.push_many([duly.NewJob(number) for number in range(40)])
    # One of its keys is in no call before that which removes jobs of this part.
    with way_to(own_server, b"{mail/1}:returned", own_server.kill) as url:
        web = start_web(url, "duly:")
        web.enter()
        form = web.form(f"/ask-{act}?queue=mail&parts=2&state=ready", act)
        answer = web.post(form.action, form.fields)
        text = unescape(re.sub("<.*?>", "", answer.text))
        assert (answer.status, "Nothing is lost" in text) == (503, False), text
        assert "Only a part of this was done" in text
        assert re.search(r"; (\d+ jobs were|one of its parts was) removed before that", text), text
        answer = web.post(form.action, form.fields)
        assert (answer.status, "sent before" in answer.text) == (409, True)
        _, err = web.end()
    assert "removed before that" in err


def test_a_server_that_hangs_is_said(start_web: StartWeb, own_server: Server) -> None:
    web = start_web(own_server.url, "duly:")
    web.enter()
    assert web.get("/").status == 200
    own_server.freeze()
    assert web.get("/").status == 503
    own_server.thaw()
    until(lambda: web.get("/").status == 200, "the page does not come back")


def test_it_starts_without_its_server(start_web: StartWeb, own_server: Server) -> None:
    own_server.kill()
    web = start_web(own_server.url, "duly:")
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
    assert "queue?queue=good" in text
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


@pytest.mark.parametrize("ignored", [signal.SIGHUP, signal.SIGINT, signal.SIGTERM])
def test_a_signal_that_is_ignored_ends_nothing(
    start_web: StartWeb, server: Server, prefix: str, ignored: signal.Signals
) -> None:
    before = signal.signal(ignored, signal.SIG_IGN)
    try:
        web = start_web(server.url, prefix)
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
