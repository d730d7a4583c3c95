"""The page of the server: what `duly doctor` finds."""

from __future__ import annotations

import re
from html import unescape

import duly
from support import Server
from web_client import HOSTILE, StartWeb, Web, fail

# A finding: check, level, what it is about, what is so, what to do.
ROW = re.compile(r"<tr><td class=\"title\">(.*?)</td>" + 4 * r"<td[^>]*>(.*?)</td>" + "</tr>")


def findings(text: str) -> dict[str, list[str]]:
    return {row[0]: [unescape(re.sub("<.*?>", "", cell)) for cell in row[1:]] for row in ROW.findall(text)}


def test_the_server_is_shown_with_what_to_do(start_web: StartWeb, own_server: Server) -> None:
    client = duly.Client(own_server.url)
    client.queue("orders").pause()
    own_server.cli("CONFIG", "SET", "save", "")
    web = start_web(own_server.url, "duly:")
    web.enter()
    answer = web.get("/server")
    assert answer.status == 200
    found = findings(answer.text)
    assert {"version", "eviction", "persistence", "memory", "clients", "permissions", "paused"} <= found.keys()
    level, _, what, advice = found["persistence"]
    assert (level, "a restart loses all jobs" in what, "appendonly yes" in advice) == ("problem", True, True)
    assert found["paused"][1] == "orders"
    assert "<code>duly resume orders</code>" in answer.text
    assert next(iter(found)) == "persistence", "the worst comes first"
    assert "Problems: 1. " in answer.text
    # It is not read again and again.
    assert "data-live" not in answer.text.partition("<main")[2].partition(">")[0]
    assert "data-live" in web.get("/").text.partition("<main")[2].partition(">")[0]
    chinese = web.get("/server", lang="zh").text
    assert findings(chinese)["persistence"][0] == "问题"


def test_what_the_user_may_not_ask_is_a_note(start_web: StartWeb, own_server: Server) -> None:
    own_server.cli("ACL", "SETUSER", "shop", "on", ">s3cr3t", "~duly:*", "+@all", "-config", "-info")
    url = own_server.url.replace("unix://", "unix://shop:s3cr3t@")
    web = start_web(url, "duly:")
    web.enter()
    found = findings(web.get("/server").text)
    assert (found["info"][0], found["settings"][0]) == ("note", "note")


def test_names_on_it_run_nothing(web: Web, client: duly.Client, server: Server, prefix: str) -> None:
    fail(client.queue("orders"), "broken")
    server.cli("ZADD", f"{prefix}{{queues}}:queues", "0", HOSTILE)
    answer = web.get("/server")
    assert answer.status == 200
    assert HOSTILE not in answer.text
    assert "&lt;script&gt;" in answer.text


def test_a_server_that_is_away_is_said(start_web: StartWeb, own_server: Server) -> None:
    web = start_web(own_server.url, "duly:")
    web.enter()
    own_server.kill()
    answer = web.get("/server")
    assert (answer.status, "does not answer" in answer.text) == (503, True)


def test_of_very_many_queues_the_first_are_checked(web: Web, client: duly.Client, server: Server, prefix: str) -> None:
    client.queue("a").push(1)
    members = [word for number in range(600) for word in ("0", f"q{number:03}")]
    server.cli("ZADD", f"{prefix}{{queues}}:queues", *members)
    used = [word for number in range(600) for word in (f"q{number:03}", "9999999999999 0")]
    server.cli("HSET", f"{prefix}{{queues}}:queues_used", *used)
    text = web.get("/server").text
    assert "only the first 500 by name were checked; others: 101" in text
    assert "<code>duly doctor</code>" in text
