"""`duly topics` and the pages of topics: what a topic keeps, who reads it, and how far behind each is."""

from __future__ import annotations

import json
import re

import duly
from support import Command, Server
from web_client import HOSTILE, Web


def fill(client: duly.Client) -> None:
    """Topics that nobody reads, that two read, and of which one has lost messages."""
    client.topic("logs").publish("a line")
    prices = client.topic("prices")
    prices.subscribe("shop-1", subscription="shop")
    prices.subscribe("shop-2", subscription="shop")
    prices.subscribe("report")
    for price in range(5):
        prices.publish(price)
    prices.ack("report", *prices.pull("report"))
    prices.pull("shop-1", max=2)
    small = client.topic("small")
    small.set_bounds(messages=1)
    small.subscribe("slow")
    small.publish(1)
    small.publish(2)


def rows(out: str) -> list[list[str]]:
    return [re.split(r"  +", line.strip()) for line in out.splitlines()]


def test_topics_are_listed_with_who_is_behind(duly_command: Command, client: duly.Client) -> None:
    assert duly_command("topics") == (0, "no topic was used under this prefix\n", "")
    fill(client)
    client.queue("orders").push(1)
    status, out, err = duly_command("topics")
    assert (status, err) == (0, "")
    head, logs, prices, small = rows(out)
    assert head[:4] == ["TOPIC", "MESSAGES", "BYTES", "OLDEST (UTC)"]
    assert [logs[0], logs[1], *logs[4:7]] == ["logs", "1", "0", "0", "-"]
    assert [prices[0], prices[1], *prices[4:7]] == ["prices", "5", "2", "5", "shop"]
    assert [small[0], small[1], *small[4:7], small[8]] == ["small", "1", "0", "0", "-", "1 cut off"]
    values = json.loads(duly_command("topics", "--json")[1])
    assert [value["topic"] for value in values] == ["logs", "prices", "small"]
    report, shop = values[1]["subscriptions"]
    assert (report["behind"], report["read"], report["members"]) == (0, 5, ["report"])
    expected = {"name": "shop", "read": 0, "behind": 5, "unread": 3, "pulled": 2, "members": ["shop-1", "shop-2"]}
    assert shop == expected
    assert values[2]["bounds"]["messages"] == 1


def test_one_topic_is_shown_with_its_subscriptions_and_members(duly_command: Command, client: duly.Client) -> None:
    fill(client)
    status, out, err = duly_command("topics", "prices")
    assert (status, err) == (0, "")
    lines = rows(out)
    assert lines[0][0] == "messages"
    assert lines[1] == ["published", "5"]
    assert lines[2] == ["keeps", "7d 0h, 1000000 messages and 95.3 MiB at the most"]
    assert ["SUBSCRIPTION", "READ UP TO", "BEHIND", "NOT PULLED", "NOT ACKED", "MEMBERS"] in lines
    assert ["shop", "0", "5", "3", "2", "2"] in lines
    (member,) = [line for line in lines if line[0] == "shop-1"]
    assert member[:4] == ["shop-1", "shop", "5", "2"]
    out = duly_command("topics", "small")[1]
    assert ["slow", "slow", "2", "0"] in [line[:4] for line in rows(out)]
    assert [line for line in rows(out) if line[0] == "slow"][1][2:] == ["1", "1"]
    value = json.loads(duly_command("topics", "small", "--json")[1])
    assert [(one["name"], one["cut_off"]) for one in value["members"]] == [("slow", True)]
    assert [(one["name"], one["first"], one["last"]) for one in value["cut_off"]] == [("slow", 1, 1)]
    status, out, err = duly_command("topics", "none")
    assert (status, out, err) == (1, "", "duly: there is no topic 'none'\n")
    assert duly_command("topics", "a/b")[0] == 2


def test_a_topic_that_cannot_be_read_hides_no_other(
    duly_command: Command, client: duly.Client, server: Server, prefix: str, web: Web
) -> None:
    fill(client)
    server.cli("SET", f"{prefix}{{prices}}:floors", "mine")
    for name in (HOSTILE, "a\x1b[2J"):
        server.cli("ZADD", f"{prefix}{{topics}}:queues", "0", name)
    status, out, err = duly_command("topics")
    assert status == 1
    assert [row[0] for row in rows(out)] == ["TOPIC", "logs", "small"]
    assert len(err.splitlines()) == 3
    for shown in (HOSTILE, "a\\u{1b}[2J", "'prices'"):
        assert shown in err, shown
    answer = web.get("/topics")
    assert answer.status == 200
    assert HOSTILE not in answer.text
    assert "&lt;script&gt;" in answer.text
    assert "topic?name=logs" in answer.text
    assert "wrong kind of value" in answer.text
    assert web.get("/topic", name="prices").status == 500


def test_the_page_shows_topics_and_runs_nothing_of_them(
    web: Web, client: duly.Client, server: Server, prefix: str
) -> None:
    assert "No topic has been used yet" in web.get("/topics").text
    fill(client)
    # Members that another program has put there.
    server.cli("HSET", f"{prefix}{{prices}}:topic", f"member:{HOSTILE}", "shop", f"seen:{HOSTILE}", "5")
    text = web.get("/topics").text
    assert re.findall(r"topic\?name=(\w+)", text) == ["logs", "prices", "small"]
    assert re.search(r'data-name="Behind by">5</td><td data-name="Who is the furthest">shop<', text)
    assert text.count(">cut off<") == 1
    text = web.get("/topic", name="prices").text
    for shown in ("7d 0h, 1,000,000 messages, 95.3 MiB", ">shop-1<", "&lt;script&gt;", 'data-name="Not pulled">3<'):
        assert shown in text, shown
    assert HOSTILE not in text
    text = web.get("/topic", name="small").text
    assert "These have lost messages" in text
    assert 'data-name="First lost">1<' in text
    assert "主题" in web.get("/topics", lang="zh").text
    for name in ("none", "a/b", HOSTILE, ""):
        answer = web.get("/topic", name=name)
        assert (answer.status, HOSTILE in answer.text) == (404, False), name


def test_many_topics_are_paged(web: Web, client: duly.Client) -> None:
    for number in range(60):
        client.topic(f"t{number:02}").publish(number)
    text = web.get("/topics").text
    following = re.search(r'rel="next" href="([^"]*)"', text)
    assert following
    other = web.ask("GET", f"/{following[1]}").text
    names = re.findall(r"topic\?name=(\w+)", text + other)
    assert names == [f"t{number:02}" for number in range(60)]


def test_a_deleted_topic_is_on_no_list(duly_command: Command, client: duly.Client) -> None:
    client.topic("logs").publish(1)
    assert "logs" in duly_command("topics")[1]
    client.topic("logs").delete()
    assert duly_command("topics")[1] == "no topic was used under this prefix\n"
