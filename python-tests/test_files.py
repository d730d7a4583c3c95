"""The example that distributes files: whatever is killed, damaged or late, each receiver has each file once."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duly
import pytest
from support import Server, until

from receive import Receiver
from send import MissingReceiversError, Sender
from transfer import chunk, content_of, replies_of

FOLDER = Path(__file__).parent.parent / "examples" / "files"
KIB = 1024
SEED = int(os.environ.get("DULY_KILL_SEED", "24301"))


class Killed(BaseException):
    """In place of a signal."""


@contextlib.contextmanager
def receiving(client: duly.Client, names: list[str], folder: Path) -> Iterator[None]:
    """Receivers, each in a thread."""
    over = threading.Event()
    failed: list[BaseException] = []

    def receive(receiver: Receiver) -> None:
        try:
            while not over.is_set():
                receiver.run_once(wait=0.05)
        except BaseException as error:  # noqa: BLE001 - the test says so
            failed.append(error)
        finally:
            receiver.close()

    receivers = [Receiver(client, "files", name, folder / name) for name in names]
    threads = [threading.Thread(target=receive, args=[receiver]) for receiver in receivers]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        over.set()
        for thread in threads:
            thread.join(60)
    assert failed == []


def a_file(folder: Path, name: str, size: int) -> Path:
    path = folder / name
    path.write_bytes(random.Random(size).randbytes(size))
    return path


def sender(client: duly.Client, *receivers: str, timeout: float = 30) -> Sender:
    return Sender(client, "files", receivers, chunk_bytes=4 * KIB, window=32 * KIB, timeout=timeout)


def left(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_files_of_any_size_reach_all_receivers_and_nothing_is_left(client: duly.Client, tmp_path: Path) -> None:
    paths = [a_file(tmp_path, f"f{size}", size) for size in (0, 1, 4 * KIB, 4 * KIB + 1, 200 * KIB)]
    with receiving(client, ["a", "b"], tmp_path):
        largest = 0
        for path in paths:
            sender(client).send(path)
            largest = max(largest, client.topic("files").info().bytes)
        until(lambda: client.topic("files").info().messages == 0, "the topic is not empty")
    for name in ("a", "b"):
        assert left(tmp_path / name) == [".lock", "f0", "f1", "f204800", "f4096", "f4097"]
        for path in paths:
            assert (tmp_path / name / path.name).read_bytes() == path.read_bytes()
    assert not list(tmp_path.glob(".*.sending"))
    assert client.topics_of("a") == ["files"]


def test_chunks_are_compressed_and_damage_is_seen() -> None:
    message = chunk("0" * 32, "a", 0, 0, b"x" * 100_000)
    assert len(message["data"]) < 1000
    assert content_of(message) == b"x" * 100_000
    for damage in ({"data": message["data"][:-8]}, {"data": "AAAA"}, {"data": "ä"}, {"sha256": "0" * 64}):
        with pytest.raises(ValueError, match=r"."):
            content_of({**message, **damage})


def test_the_sender_waits_for_the_slowest_and_memory_stays_bounded(client: duly.Client, tmp_path: Path) -> None:
    topic, path = client.topic("files"), a_file(tmp_path, "f", 300 * KIB)
    seen: list[int] = []
    over = threading.Event()

    def watch() -> None:
        while not over.is_set():
            seen.append(topic.info().bytes)

    watching = threading.Thread(target=watch)
    slow = Receiver(client, "files", "slow", tmp_path / "slow")
    sending = threading.Thread(target=sender(client, "slow", "fast").send, args=[path])
    with receiving(client, ["fast"], tmp_path):
        watching.start()
        sending.start()
        until(lambda: topic.info().bytes > 20 * KIB, "nothing was sent")
        while sending.is_alive():
            slow.run_once(wait=0.01)
        over.set()
        watching.join()
    slow.close()
    assert 20 * KIB < max(seen) <= 32 * KIB, "300 KiB have passed"
    assert (tmp_path / "slow" / "f").read_bytes() == path.read_bytes()


def test_who_sends_ends_what_senders_that_were_given_up_would_keep(client: duly.Client, tmp_path: Path) -> None:
    replies = replies_of(client, "files")
    with receiving(client, ["here"], tmp_path):
        for name in ("given_up", "changed", "goes_on"):
            with pytest.raises(MissingReceiversError):
                sender(client, "here", "never", timeout=0.2).send(a_file(tmp_path, name, 10))
        given_up = [one.name for one in replies.members()]
        assert len(given_up) == 3
        (tmp_path / "changed").write_bytes(b"another one")
        with pytest.raises(MissingReceiversError):
            sender(client, "here", "never", timeout=0.2).send(tmp_path / "changed")
        assert len(replies.members()) == 3, "that of the old content has ended"
        # Silent for longer than that; the one that goes on says what it needs to know again.
        later = Sender(client, "files", ["here"], chunk_bytes=4 * KIB, abandoned=0)
        later.send(a_file(tmp_path, "f", 10))
        assert replies.members() == []
        assert [client.topics_of(name) for name in given_up] == [[], [], []]
    with receiving(client, ["here", "never"], tmp_path):
        sender(client, "here", "never").send(tmp_path / "goes_on")
    assert replies.members() == []


def test_a_receiver_that_never_comes_is_named_and_may_come_later(client: duly.Client, tmp_path: Path) -> None:
    with receiving(client, ["here"], tmp_path):
        for size in (10, 100 * KIB):  # that waits for an answer, and for room
            path = a_file(tmp_path, f"f{size}", size)
            with pytest.raises(MissingReceiversError, match="is missing at: never") as raised:
                sender(client, "here", "never", timeout=0.3).send(path)
            assert raised.value.names == ["never"]
        note = json.loads((tmp_path / ".f102400.sending").read_text())
        assert 0 < note["next"] < note["chunks"]
    with receiving(client, ["here", "never"], tmp_path):
        for size in (10, 100 * KIB):
            sender(client, "here", "never").send(tmp_path / f"f{size}")
            assert (tmp_path / "never" / f"f{size}").read_bytes() == (tmp_path / f"f{size}").read_bytes()


def test_nobody_receives(client: duly.Client, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="nobody receives"):
        sender(client).send(a_file(tmp_path, "f", 1))
    with pytest.raises(ValueError, match="cannot be the name"):
        sender(client, "a").send(a_file(tmp_path, ".f", 1))


class Dying:
    """Dies before or after the call of this number, of all that it was asked to watch."""

    def __init__(self, at: int) -> None:
        self.left = at

    def __call__(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def called(*arguments: Any, **named: Any) -> Any:
            self.step()
            result = call(*arguments, **named)
            self.step()
            return result

        return called

    def step(self) -> None:
        if self.left == 0:
            raise Killed
        self.left -= 1

    def topic(self, topic: duly.Topic, *verbs: str) -> Any:
        class Wrapped:
            def __getattr__(self, name: str) -> Any:
                return die(getattr(topic, name)) if name in verbs else getattr(topic, name)

        die = self
        return Wrapped()

    def disk(self, patch: pytest.MonkeyPatch) -> None:
        for name in ("fsync", "write", "pwrite", "ftruncate"):
            patch.setattr(os, name, self(getattr(os, name)))
        for name in ("replace", "unlink"):
            patch.setattr(Path, name, self(getattr(Path, name)))


def test_a_receiver_may_die_at_each_step(client: duly.Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = random.Random(1).randbytes(10_000)
    for at in range(1000):
        name, file, folder = f"r{at}", f"{at:032x}", tmp_path / str(at)
        topic, replies = client.topic("files"), replies_of(client, "files")
        received: list[bytes] = []

        def on_file(path: Path, received: list[bytes] = received) -> None:
            received.append(path.read_bytes())

        receiver = Receiver(client, "files", name, folder, on_file)
        replies.subscribe("sender")
        for number, offset in ((0, 0), (2, 8192), (1, 4096), (1, 4096)):  # not in order, and one of them twice
            topic.publish(chunk(file, "f", number, offset, content[offset : offset + 4096]))
        end = {"kind": "end", "file": file, "name": "f", "size": 10_000, "chunks": 3}
        topic.publish({**end, "sha256": hashlib.sha256(content).hexdigest()})
        dying = Dying(at)
        with monkeypatch.context() as patch:
            dying.disk(patch)
            patch.setattr(receiver, "_topic", dying.topic(topic, "pull", "ack"))
            patch.setattr(receiver, "_replies", dying.topic(replies, "publish"))
            try:
                receiver.run_once()
                died = False
            except Killed:
                died = True
        receiver.close()
        if died:
            receiver = Receiver(client, "files", name, folder, on_file)
            receiver.run_once()
            receiver.close()
        assert left(folder) == [f".{file}.done", ".lock", "f"], f"killed at step {at}"
        assert (folder / "f").read_bytes() == content
        assert set(received) == {content}
        messages = replies.pull("sender", lease=60)
        kinds = {(message.data["kind"], message.data["receiver"]) for message in messages}
        assert kinds == {("have", name)}, f"killed at step {at}: {kinds}"
        replies.ack("sender", *messages)
        assert topic.info().messages == 0
        topic.unsubscribe(name)
        if not died:
            assert at > 30, "it died at each step before"
            return
    pytest.fail("it does not come to an end")


def test_a_sender_may_die_at_each_step(client: duly.Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with receiving(client, ["a"], tmp_path):
        for at in range(0, 1000, 5):  # the steps are alike for each chunk
            path = a_file(tmp_path, f"f{at}", 9_000 + at)
            dying, one = Dying(at), sender(client, "a")
            with monkeypatch.context() as patch:
                topic, replies = client.topic("files"), replies_of(client, "files")
                patch.setattr(one, "_topic", dying.topic(topic, "publish", "subscribe", "set_bounds", "info"))
                patch.setattr(one, "_replies", dying.topic(replies, "pull", "ack", "subscribe", "unsubscribe"))
                patch.setattr("send.replace", dying(sys.modules["send"].replace))
                try:
                    one.send(path)
                    died = False
                except Killed:
                    died = True
            if died:
                sender(client, "a").send(path)
            assert (tmp_path / "a" / path.name).read_bytes() == path.read_bytes(), f"killed at step {at}"
            assert not list(tmp_path.glob(".*.sending"))
            if not died:
                assert at > 20, "it died at each step before"
                break
        until(lambda: client.topic("files").info().messages == 0, "the topic is not empty")
    assert not [name for name in left(tmp_path / "a") if name.endswith((".part", ".chunks", ".done"))]


def test_a_damaged_part_is_seen_and_sent_again(client: duly.Client, tmp_path: Path) -> None:
    path = a_file(tmp_path, "f", 60 * KIB)
    chance = random.Random(SEED)
    with pytest.raises(MissingReceiversError):
        sender(client, "a", timeout=0.1).send(path)
    for damage in ("part", "chunks", "running"):
        receiver = Receiver(client, "files", "a", tmp_path / "a")
        receiver.run_once()
        (part,) = (tmp_path / "a").glob(".*.part")
        damaged = part if damage != "chunks" else part.with_suffix(".chunks")
        content = bytearray(damaged.read_bytes())
        for _ in range(3):
            content[chance.randrange(len(content))] ^= 0x55
        with damaged.open("r+b") as file:  # in its place, as a disk would
            file.write(content)
        if damage == "running":
            sending = threading.Thread(target=sender(client, "a").send, args=[path])
            sending.start()
            while sending.is_alive():
                receiver.run_once(wait=0.01)
        else:
            with pytest.raises(MissingReceiversError):
                sender(client, "a", timeout=0.1).send(path)
        receiver.close()
    assert (tmp_path / "a" / "f").read_bytes() == path.read_bytes()


def test_a_server_that_loses_its_data_gets_the_file_again(tmp_path: Path) -> None:
    other = Server()
    try:
        client = duly.Client(other.url)
        path = a_file(tmp_path, "f", 300 * KIB)
        with receiving(client, ["a", "b"], tmp_path):
            sending = threading.Thread(target=sender(client, "a", "b").send, args=[path])
            sending.start()
            until(lambda: client.topic("files").info().published > 20, "nothing was sent")
            other.cli("FLUSHALL")
            sending.join(60)
            assert not sending.is_alive()
        for name in ("a", "b"):
            assert (tmp_path / name / "f").read_bytes() == path.read_bytes()
    finally:
        other.close()


def test_a_file_that_is_changed_before_it_is_sent_again_begins_anew(client: duly.Client, tmp_path: Path) -> None:
    path = a_file(tmp_path, "f", 100 * KIB)
    with pytest.raises(MissingReceiversError):
        sender(client, "a", timeout=0.1).send(path)
    path.write_bytes(b"another")
    with receiving(client, ["a"], tmp_path):
        sender(client, "a").send(path)
        until(lambda: client.topic("files").info().messages == 0, "the topic is not empty")
    assert left(tmp_path / "a") == [".lock", "f"], "nothing of the old one is left"
    assert (tmp_path / "a" / "f").read_bytes() == b"another"


def test_receivers_and_senders_are_killed_at_random(server: Server, tmp_path: Path) -> None:
    chance, topic = random.Random(SEED), f"files-{os.urandom(4).hex()}"
    path = a_file(tmp_path, "f", 600 * KIB)

    def start(*arguments: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, *arguments, "--topic", topic, "--url", server.url]
        return subprocess.Popen(command, cwd=FOLDER, stdout=subprocess.DEVNULL)

    def start_one(name: str) -> subprocess.Popen[bytes]:
        if name == "sender":
            return start("send.py", str(path), "--to", "a,b", "--chunk", str(4 * KIB), "--window", str(24 * KIB))
        return start("receive.py", str(tmp_path / name), "--name", name)

    running = {name: start_one(name) for name in ("sender", "a", "b")}
    try:
        for turn in range(6):
            time.sleep(chance.uniform(0.05, 0.5))
            name = list(running)[turn % 3]
            if running[name].poll() is None:
                running[name].send_signal(signal.SIGKILL)
                running[name].wait()
                running[name] = start_one(name)
        assert running["sender"].wait(60) == 0
    finally:
        for process in running.values():
            process.kill()
            process.wait()
    for name in ("a", "b"):
        assert (tmp_path / name / "f").read_bytes() == path.read_bytes()


def test_a_receiver_in_php_and_one_in_python_go_on_where_the_other_was_killed(server: Server, tmp_path: Path) -> None:
    chance, topic = random.Random(SEED), f"files-{os.urandom(4).hex()}"
    path = a_file(tmp_path, "f", 600 * KIB)
    programs = (["php", "receive.php"], [sys.executable, "receive.py"])

    def receiver(turn: int) -> subprocess.Popen[bytes]:
        command = [*programs[turn % 2], f"--topic={topic}", "--name=a", f"--url={server.url}", str(tmp_path / "a")]
        scan = {"PHP_INI_SCAN_DIR": f":{FOLDER.parent.parent / 'build/php.d'}"}
        return subprocess.Popen(command, cwd=FOLDER, env={**os.environ, **scan}, stdout=subprocess.DEVNULL)

    one = Sender(duly.Client(server.url), topic, ["a"], chunk_bytes=4 * KIB, window=16 * KIB)
    sending = threading.Thread(target=one.send, args=[path])
    sending.start()
    for turn in range(6):
        running = receiver(turn)
        try:
            if turn < 4:
                time.sleep(chance.uniform(0.1, 0.4))
            else:
                sending.join(20)
        finally:
            running.kill()
            running.wait()
        if turn == 4:
            # In PHP to its end, and now in Python, from the beginning.
            assert (tmp_path / "a" / "f").read_bytes() == path.read_bytes()
            path.write_bytes(path.read_bytes()[::-1])
            sending = threading.Thread(target=one.send, args=[path])
            sending.start()
    assert not sending.is_alive()
    assert (tmp_path / "a" / "f").read_bytes() == path.read_bytes()
    assert not [name for name in left(tmp_path / "a") if name.endswith((".part", ".chunks"))]


def test_the_command_says_who_is_missing(server: Server, tmp_path: Path) -> None:
    command = [sys.executable, "send.py", str(a_file(tmp_path, "f", 10)), "--to", "x,y", "--timeout", "0.2"]
    sent = subprocess.run(
        [*command, "--topic", "missing", "--url", server.url], cwd=FOLDER, capture_output=True, text=True, check=False
    )
    assert (sent.returncode, sent.stderr) == (1, "f is missing at: x, y\n")


def test_the_story_ends_exactly(server: Server) -> None:
    command = [sys.executable, "story.py", "--url", server.url, "--kills", "4", "--seed", str(SEED)]
    told = subprocess.run(command, cwd=FOLDER, capture_output=True, text=True, timeout=60, check=False)
    assert told.returncode == 0, told.stdout + told.stderr
    assert told.stdout.endswith("exact\n")
    assert told.stdout.count("killed") >= 3
