"""Topics whose members are killed at random: no subscription loses a message, and none is pulled behind its ack.

Each member writes down what it has read, and then acks it. The server's append-only file has each pull and each ack in
the order in which they were executed. `DULY_TOPIC_KILLS` makes it longer, `DULY_KILL_SEED` takes other random numbers
than the usual ones, or repeats a run.
"""

from __future__ import annotations

import os
import random
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

import duly
import pytest
from journal import command_at
from support import Program, Server, programs, say

KILLS = int(os.environ.get("DULY_TOPIC_KILLS", "25"))
SEED = int(os.environ.get("DULY_KILL_SEED", "24301"))
TOPICS = ("x", "y")
# Each with its subscription, and whether it leaves and comes back.
MEMBERS = {
    "a": ("a", False),
    "b": ("b", False),
    "s0": ("shared", False),
    "s1": ("shared", True),
    "s2": ("shared", True),
}
MEMBER = """
import os, random
from time import sleep

client = duly.Client(URL, prefix=PREFIX)
topics = [client.topic(name) for name in TOPICS]
log = os.open(LOG, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
chance = random.Random(SEED)
for topic in topics:
    topic.subscribe(MEMBER, subscription=SUBSCRIPTION)
print("reads", flush=True)
while True:
    topic = chance.choice(topics)
    if LEAVES and chance.random() < 0.05:
        topic.unsubscribe(MEMBER)
        topic.subscribe(MEMBER, subscription=SUBSCRIPTION)
    puller = client if chance.random() < 0.5 else topic
    messages = puller.pull(MEMBER, max=20, wait=0.1, lease=0.5)
    sleep(chance.random() * 0.02)
    os.write(log, "".join(f"{one.topic} {one.data}\\n" for one in messages).encode())
    if chance.random() < 0.05:
        sleep(0.7)  # behind its lease
    for topic in topics:
        topic.ack(MEMBER, *[one for one in messages if one.topic == topic.name])
"""


class Deliveries:
    """What the append-only file says of them, by topic and subscription."""

    def __init__(self, file: Path, prefix: str) -> None:
        self._file = file.open("rb")
        self._unread = b""
        self._topics = {f"{prefix}{{{name}}}:messages": name for name in TOPICS}
        self.counts: Counter[str] = Counter()
        self.acked: set[tuple[str, str, str]] = set()
        self.wrong: list[str] = []

    def read(self) -> None:
        data = self._unread + self._file.read()
        position = 0
        while (parsed := command_at(data, position)) is not None:
            command, position = parsed
            match command:
                case ["XCLAIM", key, subscription, member, _, *rest] if key in self._topics:
                    self._pulled(self._topics[key], subscription, member, rest)
                case ["XACK", key, subscription, *ids] if key in self._topics:
                    self.counts["acked"] += len(ids)
                    self.acked |= {(self._topics[key], subscription, one) for one in ids}
        self._unread = data[position:]

    def _pulled(self, topic: str, subscription: str, member: str, rest: list[str]) -> None:
        for one in rest:
            if "-" not in one:
                return
            self.counts["pulled"] += 1
            if (topic, subscription, one) in self.acked:
                self.wrong.append(f"{member} of {subscription} got {one} of {topic} behind its ack")

    def close(self) -> None:
        self._file.close()


@pytest.mark.timeout(120 + 5 * KILLS)
def test_nothing_is_lost_and_nothing_comes_behind_its_ack_whichever_members_die(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    say(capsys, f"DULY_KILL_SEED={SEED} DULY_TOPIC_KILLS={KILLS}")
    chance = random.Random(SEED)
    with ExitStack() as stack:
        server = Server("--appendonly", "yes", "--appendfsync", "no", "--auto-aof-rewrite-percentage", "0")
        stack.callback(server.close)
        prefix = "kills:"
        client = duly.Client(server.url, prefix=prefix)
        topics = [client.topic(name) for name in TOPICS]
        for member, (subscription, _) in MEMBERS.items():
            for topic in topics:
                topic.subscribe(member, subscription=subscription)
        deliveries = Deliveries(next(server.folder.glob("**/*.incr.aof"), server.folder / "appendonly.aof"), prefix)
        stack.callback(deliveries.close)
        program = stack.enter_context(programs(server, prefix))

        def start(member: str) -> Program:
            subscription, leaves = MEMBERS[member]
            settings = {"MEMBER": member, "SUBSCRIPTION": subscription, "LEAVES": leaves, "TOPICS": TOPICS}
            settings |= {"LOG": str(tmp_path / member), "SEED": chance.random()}
            return program("\n".join(f"{name} = {value!r}" for name, value in settings.items()) + MEMBER)

        running = {member: start(member) for member in MEMBERS}
        published = Counter[str]()
        kills, next_kill = 0, time.monotonic() + 1
        while kills < KILLS:
            topic = chance.choice(topics)
            size = chance.randrange(1, 4)
            topic.publish_all(range(published[topic.name] + 1, published[topic.name] + size + 1))
            published[topic.name] += size
            deliveries.read()
            assert deliveries.wrong == [], deliveries.wrong[:10]
            if time.monotonic() > next_kill:
                member = chance.choice([*MEMBERS])
                assert running[member].process.poll() is None, running[member].end()
                running[member].process.kill()
                running[member].process.wait()
                running[member] = start(member)
                kills, next_kill = kills + 1, time.monotonic() + chance.uniform(0.05, 0.4)
            time.sleep(0.005)
        while any(topic.info().messages for topic in topics):
            assert all(one.process.poll() is None for one in running.values()), "a member has ended"
            time.sleep(0.01)
        for one in running.values():
            one.process.kill()
            one.process.wait()
        deliveries.read()
        lost = {}
        for subscription in {subscription for subscription, _ in MEMBERS.values()}:
            logs = [tmp_path / member for member, (of, _) in MEMBERS.items() if of == subscription]
            read = {line for log in logs for line in log.read_text().splitlines()}
            expected = {f"{name} {number + 1}" for name in TOPICS for number in range(published[name])}
            lost[subscription] = expected - read
            assert read <= expected
        say(capsys, f"{published.total()} messages, {KILLS} kills, {dict(deliveries.counts)}; lost={lost}")
        assert not any(lost.values()), lost
        assert deliveries.wrong == []
        assert len(deliveries.acked) == 3 * published.total()
        assert deliveries.counts["pulled"] > 3 * published.total(), "some came back"
