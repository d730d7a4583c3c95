"""Topics in Python, and in asyncio."""

from __future__ import annotations

import asyncio
import threading
from datetime import timedelta

import duly
import duly.aio
import pytest
from support import Server

MINUTE = 60


def test_every_subscription_gets_every_message(client: duly.Client) -> None:
    topic = client.topic("logs")
    assert str(topic) == '<duly.Topic "logs">'
    assert topic.subscribe("a")
    assert not topic.subscribe("a")
    assert topic.subscribe("b", subscription="readers", from_="earliest")
    published = topic.publish({"line": 1})
    assert published.id is not None
    assert published.ids == [published.id]
    assert published.cut_off == []
    more = topic.publish_all(["two", 3.0])
    assert len(more.ids) == 2
    assert more.id == more.ids[1]
    topic.publish(raw=b"[4]")
    for member in ("a", "b"):
        messages = topic.pull(member, max=10, lease=timedelta(minutes=1))
        assert [message.data for message in messages] == [{"line": 1}, "two", 3.0, [4]]
        first = messages[0]
        assert (first.id, first.topic, first.deliveries) == (published.id, "logs", 1)
        assert messages[3].raw == b"[4]"
        assert int(first.published_at * 1000) == int(first.id.split("-")[0])
        assert first.ack()
        assert not first.ack()
        assert topic.ack(member, *messages[1:3], messages[3].id) == 3
    info = topic.info()
    assert (info.published, info.messages, info.bytes, info.oldest_at) == (4, 0, 0, None)
    assert (info.max_age, info.max_messages, info.max_bytes) == (7 * 24 * 3600, 1_000_000, 100_000_000)
    one, readers = info.subscriptions
    assert (one.name, one.read, one.unread, one.pulled) == ("a", 4, 0, 0)
    assert [(member.name, member.pulled) for member in readers.members] == [("b", 0)]
    assert readers.members[0].silent_for >= 0
    assert topic.unsubscribe("a")
    assert not topic.unsubscribe("a")
    with pytest.raises(duly.errors.NotFoundError, match="'a' is no member: subscribe first"):
        topic.pull("a")


def test_members_say_who_is_there_and_how_far_behind(client: duly.Client) -> None:
    topic = client.topic("logs")
    assert topic.members() == []
    topic.set_bounds(messages=2)
    topic.subscribe("silent")
    topic.subscribe("p", subscription="parsers")
    topic.publish_all([1, 2])
    topic.pull("p", max=1)
    p, silent = topic.members()
    assert repr(p) == '<duly.SubscriptionMember "p" of "parsers": 2 behind>'
    assert (p.name, p.subscription, p.pulled, p.behind, p.is_cut_off) == ("p", "parsers", 1, 2, False)
    assert 0 <= p.silent_for < MINUTE
    assert (silent.name, silent.behind, silent.is_cut_off) == ("silent", 2, False)
    assert topic.publish(3).cut_off == ["parsers", "silent"]
    assert [(one.behind, one.is_cut_off) for one in topic.members()] == [(3, True), (3, True)]


def test_a_silent_subscription_is_cut_off(client: duly.Client) -> None:
    topic = client.topic("logs")
    topic.set_bounds(age=timedelta(days=1), messages=2, bytes=1000)
    topic.subscribe("silent")
    assert topic.publish_all([1, 2]).cut_off == []
    assert topic.publish(3).cut_off == ["silent"]
    with pytest.raises(duly.CutOffError, match=r"lost 1 message \(1\).*subscribe again") as raised:
        topic.pull("silent")
    assert raised.value.kind == "cut_off"
    assert not raised.value.transient
    (cut,) = topic.info().cut_off
    assert (cut.name, cut.first, cut.last) == ("silent", 1, 1)
    assert cut.at > 0
    assert topic.subscribe("silent")
    topic.publish(4)
    assert [message.data for message in topic.pull("silent")] == [4]
    topic.delete()
    assert topic.info().published == 0


def test_all_topics_of_a_member_are_pulled_from_and_waited_for(client: duly.Client) -> None:
    for name in ("x", "y"):
        client.topic(name).subscribe("m")
    assert client.topics_of("m") == ["x", "y"]
    assert client.pull("m") == []
    got: list[object] = []

    def wait() -> None:
        messages = client.pull("m", wait=MINUTE)
        got.extend(message.data for message in messages)
        assert all(message.ack() for message in messages)

    waiting = threading.Thread(target=wait)
    waiting.start()
    client.topic("y").publish("came")
    waiting.join(MINUTE)
    assert got == ["came"]
    client.topic("x").publish(1)
    (message,) = client.pull("m")
    assert (message.topic, message.data) == ("x", 1)
    with pytest.raises(duly.InvalidArgumentError, match="is of the topic 'x', not of 'y'"):
        client.topic("y").ack("m", message)


def test_wrong_arguments_are_refused_where_they_are(client: duly.Client) -> None:
    topic = client.topic("logs")
    for wrong in (
        lambda: client.topic("a b"),
        lambda: topic.publish(float("nan")),
        lambda: topic.publish(raw=b"{"),
        lambda: topic.publish_all([]),
        lambda: topic.subscribe(""),
        lambda: topic.subscribe("a", from_="middle"),  # type: ignore[arg-type]
        lambda: topic.pull("a", max=0),
        lambda: topic.pull("a", lease=0),
        lambda: topic.pull("a", wait=-1),
        lambda: topic.ack("a", "nonsense"),
        lambda: topic.set_bounds(messages=0),
        lambda: topic.set_bounds(age=0.5),
    ):
        with pytest.raises(duly.InvalidArgumentError):
            wrong()
    one: object
    for one in ("abc", b"abc", bytearray(b"abc"), {"a": 1}):
        with pytest.raises(TypeError, match="takes several messages, such as a list, not one"):
            topic.publish_all(one)
    assert topic.info().published == 0
    with pytest.raises(TypeError, match="messages or their ids"):
        topic.ack("a", 5)  # type: ignore[arg-type]
    with pytest.raises(duly.TooLargeError):
        topic.publish("x" * (1 << 21))


def test_asyncio(server: Server) -> None:
    async def main() -> None:
        async with duly.aio.Client(server.url, prefix="topics:") as client:
            topic = client.topic("logs")
            assert str(topic) == '<duly.aio.Topic "logs">'
            assert await topic.subscribe("a")
            waiting = asyncio.create_task(topic.pull("a", wait=MINUTE))
            also = asyncio.create_task(client.pull("a", wait=MINUTE))
            await topic.publish({"n": 1})
            done, _ = await asyncio.wait([waiting, also], return_when=asyncio.FIRST_COMPLETED)
            (message,) = done.pop().result()
            assert isinstance(message, duly.aio.Message)
            assert message.data == {"n": 1}
            waiting.cancel()
            also.cancel()
            assert await topic.ack("a", message) == 1
            assert not await message.ack()
            assert await client.topics_of("a") == ["logs"]
            assert (await topic.info()).messages == 0
            assert [(one.name, one.behind) for one in await topic.members()] == [("a", 0)]

    asyncio.run(main())
