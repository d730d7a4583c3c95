"""The log of actions: what the command and the page have done, whoever looks, and whatever cannot be noted."""

from __future__ import annotations

import getpass
import json
import re
import socket
import time
from html import unescape
from typing import Any
from urllib.parse import urlencode

import duly
import pytest
from support import Command, Server
from web_client import HOSTILE, StartWeb, Web, fail


@pytest.fixture(autouse=True)
def _operator(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SUDO_USER", raising=False)
    monkeypatch.setenv("USER", "ann")


def noted(duly_command: Command) -> list[dict[str, Any]]:
    status, out, err = duly_command("actions", "--limit", "1000", "--json")
    assert (status, err) == (0, "")
    found: list[dict[str, Any]] = json.loads(out)
    return found


def whats(duly_command: Command) -> list[tuple[str, str]]:
    """Give what was done with what became of it, the oldest first."""
    return [(action["what"], action["outcome"]) for action in reversed(noted(duly_command))]


def test_what_the_command_does_is_noted_with_who_and_when(duly_command: Command, orders: duly.Queue) -> None:
    assert duly_command("actions") == (0, "nothing was done under this prefix\n", "")
    orders.push(1, delay=60)
    before = time.time()
    assert duly_command("pause", "orders") == (0, "orders is paused\n", "")
    (action,) = noted(duly_command)
    assert action["who"] == f"ann@{socket.gethostname()}"
    assert (action["what"], action["outcome"]) == ("pause queue=orders", "done")
    assert before - 1 <= action["at"] <= time.time() + 1
    _, out, _ = duly_command("actions")
    head, row = [re.split("  +", line) for line in out.splitlines()]
    assert head == ["AT (UTC)", "WHO", "WHAT", "OUTCOME"]
    assert row[1:] == [action["who"], "pause queue=orders", "done"]


def test_each_change_is_noted_and_no_look_is(duly_command: Command, client: duly.Client) -> None:
    orders = client.queue("orders")
    for number in range(3):
        fail(orders, f"broken-{number}", name="n")
    orders.push({"secret": "4711"}, id="later", key="k", delay=60)
    for id_ in ("a", "b"):
        orders.push(1, id=id_)
    orders.schedules.put("nightly", duly.Schedule(duly.NewJob(name="report"), cron="0 3 * * *"))
    looks = (
        ["queues"],
        ["peek", "orders"],
        ["find", "orders", "later"],
        ["limits", "orders"],
        ["history", "orders"],
        ["schedules", "orders"],
        ["schedules", "orders", "nightly"],
        ["audit", "orders"],
        ["doctor"],
        ["requeue", "orders", "--name", "none"],
    )
    for arguments in looks:
        duly_command(*arguments)
    # A question that gets no yes, and what is no command line.
    assert duly_command("purge", "orders", "failed")[0] == 2
    assert duly_command("cancel", "orders")[0] == 2
    assert duly_command("push", "orders", "1", "--delay", "1h")[0] == 0
    assert noted(duly_command) == []
    changes: list[tuple[list[str], int, str, str]] = [
        (["cancel", "orders", "a", "gone"], 1, "cancel queue=orders id=a id=gone", "done in part (1 job)"),
        (["cancel", "orders", "gone"], 1, "cancel queue=orders id=gone", "not done"),
        (["requeue", "orders", "broken-0"], 0, "requeue queue=orders id=broken-0", "done (1 job)"),
        (["requeue", "orders", "--name", "n", "--yes"], 0, "requeue queue=orders state=failed name=n", "done (2 jobs)"),
        (["reschedule", "orders", "--key", "k", "--now"], 0, "reschedule queue=orders key=k due=now", "done"),
        (["purge", "orders", "ready", "--yes"], 0, "purge queue=orders state=ready", "done (5 jobs)"),
        (["requeue", "orders", "--all", "--yes"], 0, "requeue --all queue=orders", "not done"),
        (["resume", "orders"], 0, "resume queue=orders", "done"),
        (["limits", "orders", "--rate", "100/1m"], 0, "limits queue=orders rate=100/1m", "done"),
        (["limits", "orders", "--rate", "none"], 0, "limits queue=orders rate=none", "done"),
        (["history", "orders", "--on"], 0, "history queue=orders jobs=1000", "done"),
        (["audit", "orders", "--repair"], 0, "audit --repair queue=orders", "not done"),
        (["schedules", "orders", "nightly", "--pause"], 0, "schedule-pause queue=orders name=nightly", "done"),
        (
            ["schedules", "orders", "nightly", "--remove", "--yes"],
            0,
            "schedule-remove queue=orders name=nightly",
            "done",
        ),
    ]
    for arguments, status, _, _ in changes:
        assert duly_command(*arguments)[0] == status, arguments
    assert whats(duly_command) == [(what, outcome) for _, _, what, outcome in changes]
    assert duly_command("delete", "orders", "--jobs", "7", "--yes")[0] == 2
    what, outcome = whats(duly_command)[-1]
    assert what == "delete queue=orders jobs=7"
    assert "the queue has" in outcome
    assert "4711" not in json.dumps(noted(duly_command))


def test_hostile_ids_are_one_short_line(duly_command: Command, client: duly.Client) -> None:
    client.queue("orders").push(1, id=HOSTILE, delay=60)
    duly_command("cancel", "orders", HOSTILE)
    duly_command("cancel", "orders", "a\x1b[2Jb\nc", "x" * 5000)
    (_, first), (second, _) = (whats(duly_command)[0], whats(duly_command)[1])
    assert first == "done (1 job)"
    assert r"id=a\u{1b}[2Jb\nc" in second
    assert len(second) <= 256
    assert "\x1b" not in duly_command("actions")[1]


def test_the_newest_are_shown_and_a_thousand_kept(
    duly_command: Command, orders: duly.Queue, server: Server, prefix: str, web: Web
) -> None:
    log = f"{prefix}{{actions}}:actions"
    server.cli("RPUSH", log, *(f"5\nbob@host\nold {number:04}\ndone" for number in range(1000)))
    orders.push(1, delay=60)
    duly_command("pause", "orders")
    assert server.cli("LLEN", log) == "1000"
    newest = json.loads(duly_command("actions", "--limit", "3", "--json")[1])
    assert [action["what"] for action in newest] == ["pause queue=orders", "old 0999", "old 0998"]
    assert len(duly_command("actions")[1].splitlines()) == 51
    for limit in ("0", "1001", "x"):
        assert duly_command("actions", "--limit", limit)[0] == 2
    shown: list[str] = []
    page = "/actions"
    while page:
        text = web.ask("GET", page).text
        shown += re.findall(r"<code>(.*?)</code>", text)
        following = re.search(r'rel="next" href="([^"]*)"', text)
        page = f"/{unescape(following[1])}" if following else ""
    assert shown == ["pause queue=orders", *(f"old {number:04}" for number in range(999, 0, -1))]
    assert web.get("/actions", offset="99999999999999999999").status == 200


def test_the_page_notes_what_it_does_and_shows_it(web: Web, client: duly.Client, duly_command: Command) -> None:
    queue = client.queue("orders")
    queue.push({"secret": "4711"}, id=HOSTILE, delay=60)
    for number in range(3):
        fail(queue, f"broken-{number}")
    assert "Nothing was done" in web.get("/actions").text
    web.act("/queue?queue=orders", "pause")
    web.act(f"/ask-cancel?{urlencode({'queue': 'orders', 'id': HOSTILE})}", "cancel")
    web.act("/ask-requeue-all?queue=orders", "requeue-all")
    form = web.form("/queue?queue=orders", "resume")
    assert web.post("/act-cancel", {**form.fields, "id": "gone"}).status == 404
    assert whats(duly_command) == [
        ("pause queue=orders parts=0", "done"),
        (f"cancel queue=orders parts=0 id={HOSTILE}", "done"),
        ("requeue-all queue=orders parts=0", "done (3 jobs)"),
        ("cancel queue=orders parts=0 id=gone", "refused, status 404"),
    ]
    assert all(re.fullmatch(r"session [0-9a-f]{8} from 127\.0\.0\.1:\d+", one["who"]) for one in noted(duly_command))
    text = web.get("/actions").text
    assert "4711" not in text
    assert HOSTILE not in text
    assert text.index("id=gone") < text.index("id=&lt;script&gt;") < text.index("pause queue=orders")
    assert "操作记录" in web.get("/actions", lang="zh").text


def test_what_cannot_be_noted_is_done_all_the_same(
    start_web: StartWeb, server: Server, prefix: str, client: duly.Client, duly_command: Command
) -> None:
    queue = client.queue("orders")
    queue.push(1, delay=60)
    server.cli("SET", f"{prefix}{{actions}}:actions", "somebody's")
    status, out, err = duly_command("pause", "orders")
    assert (status, out) == (0, "orders is paused\n")
    assert err.startswith("duly: this is not in the log of actions, `duly actions`: ")
    assert queue.counts().paused
    web = start_web(server.url, prefix)
    web.enter()
    web.act("/queue?queue=orders", "resume")
    assert not queue.counts().paused
    assert web.get("/actions").status == 500
    _, err = web.end()
    assert "resume queue=orders parts=0: done; this is not in the log of actions" in err
    assert server.cli("GET", f"{prefix}{{actions}}:actions") == "somebody's"


def test_without_a_name_the_number_of_the_user_is_noted(
    duly_command: Command, orders: duly.Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders.push(1, delay=60)
    for name in ("USER", "LOGNAME"):
        monkeypatch.delenv(name, raising=False)
    duly_command("pause", "orders")
    monkeypatch.setenv("USER", "root")
    monkeypatch.setenv("SUDO_USER", getpass.getuser())
    duly_command("resume", "orders")
    resumed, paused = noted(duly_command)
    assert re.fullmatch(r"uid \d+@.*", paused["who"])
    assert resumed["who"].startswith(f"{getpass.getuser()}@")
