"""A node of a cluster is away: what is on the others is shown, and what cannot be read is named."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial

import duly
import pytest
from support import Server, commands, free_port, until
from terminal import Terminal
from web_client import StartWeb

NAMES = [f"queue{number}" for number in range(12)]


@dataclass
class Away:
    """A cluster with a node that goes away, and what can be read then."""

    url: str
    here: list[str]
    """The queues of the nodes that answer."""
    gone: list[str]
    lost: Server
    others: list[Server]


def all_say(nodes: list[Server], said: str) -> bool:
    return all(said in node.cli("CLUSTER", "INFO") for node in nodes)


@contextmanager
def cluster() -> Iterator[Away]:
    ports = [free_port() for _ in range(3)]
    options = ["--cluster-enabled", "yes", "--cluster-require-full-coverage", "no", "--cluster-node-timeout", "1000"]
    nodes = [Server("--port", str(port), *options) for port in ports]
    try:
        # The first one, which a ping asks, has no list: that of queues is in slot 4777.
        slots = [(0, 4776), (4777, 10922), (10923, 16383)]
        for node, (first, last) in zip(nodes, slots, strict=True):
            node.cli("CLUSTER", "ADDSLOTSRANGE", str(first), str(last))
            node.cli("CLUSTER", "MEET", "127.0.0.1", str(ports[0]))
        for said in ("cluster_state:ok", "cluster_known_nodes:3"):
            until(partial(all_say, nodes, said), f"not all say {said}")
        url = f"redis+cluster://127.0.0.1:{ports[0]},127.0.0.1:{ports[1]},127.0.0.1:{ports[2]}"
        client = duly.Client(url, prefix="away")
        for name in NAMES:
            client.queue(name).push(1)
            client.topic(name).subscribe("all")
        # They are listed a little later.
        until(lambda: len(client.queues().queues) == len(client.topics().topics) == len(NAMES), "they are not listed")
        lists = ("away{queues}:queues", "away{topics}:queues")
        lost = next(node for node in nodes if not any(name in node.cli("KEYS", "*").split() for name in lists))
        kept = [key for node in nodes if node is not lost for key in node.cli("KEYS", "*").split()]
        here = [name for name in NAMES if any("{" + name + "}" in key for key in kept)]
        assert 0 < len(here) < len(NAMES), "some are there, and some are not"
        others = [node for node in nodes if node is not lost]
        yield Away(url, here, [name for name in NAMES if name not in here], lost, others)
    finally:
        for node in nodes:
            node.close()


@pytest.fixture(scope="module")
def away() -> Iterator[Away]:
    with cluster() as away:
        away.lost.kill()
        until(
            lambda: not any("cluster_slots_fail:0" in node.cli("CLUSTER", "INFO") for node in away.others),
            "it is there",
        )
        yield away


def test_commands_show_what_is_on_the_other_nodes(away: Away) -> None:
    given = ("--url", away.url, "--prefix", "away")
    asked = [["queues"], ["counts", "--json"], ["topics"], ["top", "--once"], ["metrics"]]
    with commands() as start:
        # Each waits once for the node.
        started = [start(*command, *given) for command in asked]
        for command, process in zip(asked, started, strict=True):
            said, complained = process.communicate(timeout=100)
            assert process.returncode == 1, command
            for name in away.here:
                assert name in said, command
            for name in away.gone:
                assert f"'{name}'" in complained, command
            if command == ["counts", "--json"]:
                assert [counts["queue"] for counts in json.loads(said)] == sorted(away.here)


def test_top_has_a_row_for_a_queue_that_cannot_be_read(away: Away) -> None:
    terminal = Terminal([sys.executable, "-m", "duly", "top", "--url", away.url, "--prefix", "away"])
    with closing(terminal):
        until(lambda: all(terminal.line(f"{name} ") for name in NAMES), terminal)


def test_the_page_shows_what_is_on_the_other_nodes(away: Away, start_web: StartWeb) -> None:
    web = start_web(away.url, "away")
    web.enter()
    overview = web.get("/")
    assert overview.status == 200
    assert all(f">{name}</a>" in overview.text for name in away.here)
    assert all(f"'{name}'" in overview.text for name in away.gone)
    of_all = ", ".join(sorted(away.gone)) + ": "
    for page in ("/workers", "/schedules"):
        shown = web.get(page)
        assert shown.status == 200
        assert of_all in shown.text
        assert "of this page" not in shown.text, "it does not say that there are none"
    searched = web.get("/search", q="no-such-id")
    assert of_all in searched.text
    assert f"Queues that were searched: {len(away.here)}." in searched.text
    failed = web.get("/failed")
    assert all(f"<h2>{name}</h2>" in failed.text for name in away.gone)


def test_a_search_alone_finds_that_a_node_is_back(start_web: StartWeb) -> None:
    with cluster() as frozen:
        web = start_web(frozen.url, "away")
        web.enter()

        def searches(queues: list[str]) -> bool:
            return f"Queues that were searched: {len(queues)}." in web.get("/search", q="no-such-id").text

        assert searches(NAMES)
        frozen.lost.freeze()
        until(lambda: searches(frozen.here), "it waits for the node")
        frozen.lost.thaw()
        until(lambda: searches(NAMES), "it does not find that the node is back")


def test_a_search_shows_a_job_that_one_of_its_two_calls_has_found(start_web: StartWeb) -> None:
    with cluster() as frozen:
        client = duly.Client(frozen.url, prefix="other", deadline=1)
        parted = client.partitions("parted", 6)
        for number in range(12):
            parted.push(number, id=f"job{number}", key=f"key{number}")
        until(lambda: client.queues().queues, "it is not listed")
        frozen.lost.freeze()
        web = start_web(frozen.url, "other")
        web.enter()

        def is_found(number: int) -> bool:
            try:
                return parted.find(key=f"key{number}") is not None
            except duly.DulyError:
                return False

        found = [number for number in range(12) if is_found(number)]
        assert 0 < len(found) < 12, "some are there, and some are not"
        for number in found:
            assert f"id=job{number}" in web.get("/search", q=f"key{number}").text
        frozen.lost.thaw()
