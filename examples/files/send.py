"""Sends a file of any size to all receivers of a topic, and waits until each of them has it.

    python examples/files/send.py --topic logs --to east,west --timeout 60 access.log

It goes in chunks, and never more of it is in Redis than `--window` bytes: the sender waits until the slowest receiver
has read on. Beside the file it keeps `<file>.sending`, so that a sender that was killed goes on at its last chunk
when it is started again. It ends with 0 when all have the file; with 1 and the names of those that have not when none
of them got any further for `--timeout` seconds.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, BinaryIO

import duly

from transfer import NAME, chunk, client_of, digest_of, replace, replies_of

CHUNK = 256 * 1024
WINDOW = 8 * 1024 * 1024
LOOK_AGAIN = 0.02
SENDER = "sender-"
ABANDONED = 3600
"""Who was silent for so long hears no answers any more, unless it goes on."""


class MissingReceiversError(Exception):
    """Some receivers have not got the file, and got no further for too long."""

    def __init__(self, file: str, names: Iterable[str]) -> None:
        """Name the file and the receivers."""
        self.names = sorted(names)
        super().__init__(f"{file} is missing at: {', '.join(self.names)}")


class Sender:
    """Sends files to the receivers with these names, or to those that have subscribed by now."""

    def __init__(
        self,
        client: duly.Client,
        topic: str,
        receivers: Iterable[str] = (),
        *,
        chunk_bytes: int = CHUNK,
        window: int = WINDOW,
        timeout: float = 60,
        abandoned: float = ABANDONED,
    ) -> None:
        """Take the settings; nothing is sent."""
        self._topic = client.topic(topic)
        self._replies = replies_of(client, topic)
        self._receivers = list(receivers)
        self._chunk_bytes = chunk_bytes
        self._window = window
        self._timeout = timeout
        self._abandoned = abandoned

    def send(self, path: Path) -> None:
        """Send a file and return when all receivers have it.

        Raises:
            MissingReceiversError: some have it not, and none of these got any further for the timeout. Sending the
                file again goes on.

        """
        if not NAME.fullmatch(path.name):
            raise ValueError(f"{path.name} cannot be the name of a file here")
        note = path.with_name(f".{path.name}.sending")
        with path.open("rb") as file:
            # Two senders of a file would use one note. Whose process ends has let go of it.
            fcntl.flock(file, fcntl.LOCK_EX)
            state = self._begin(path, note)
            while state["next"] < state["chunks"]:
                self._wait_for_room(state)
                self._publish_chunk(file, state, state["next"])
                # Killed before this is written, it sends this chunk once more: receivers know it by its number.
                state["next"] += 1
                replace(note, state)
            self._wait_for_all(file, state, note)
            self._topic.publish({"kind": "gone", "file": state["file"]})
            note.unlink()

    def _begin(self, path: Path, note: Path) -> dict[str, Any]:
        sha256, size = digest_of(path), path.stat().st_size
        # One that is not there yet gets what is sent before it comes, too.
        for name in self._receivers:
            self._topic.subscribe(name)
        state = _read(note)
        if state and state["sha256"] == sha256:
            self._replies.subscribe(_member(state))
            return state
        if state:
            # The file is another one by now: what receivers have of the old one is of no use.
            self._replies.unsubscribe(_member(state))
            self._topic.publish({"kind": "gone", "file": state["file"]})
        self._forget_abandoned()
        receivers = self._receivers or [one.name for one in self._topic.info().subscriptions]
        if not receivers:
            raise ValueError("nobody receives files of this topic: start receivers, or name them")
        state = {
            "file": os.urandom(16).hex(),
            "name": path.name,
            "size": size,
            "sha256": sha256,
            "chunk_bytes": self._chunk_bytes,
            "chunks": -(-size // self._chunk_bytes),
            "next": 0,
            "receivers": receivers,
            "have": [],
        }
        # The bounds hold also where a sender counts wrongly. A receiver that is cut off asks for what it has lost.
        self._topic.set_bounds(bytes=4 * max(self._window, self._chunk_bytes))
        self._replies.set_bounds(messages=100_000, age=24 * 3600)
        replace(note, state)
        self._replies.subscribe(_member(state))
        return state

    def _forget_abandoned(self) -> None:
        """End what senders that were given up would keep. One that goes on all the same subscribes and asks again."""
        for member in self._replies.members():
            if member.name.startswith(SENDER) and member.silent_for > self._abandoned:
                self._replies.unsubscribe(member.name)

    def _publish_chunk(self, file: BinaryIO, state: dict[str, Any], number: int) -> None:
        offset = number * state["chunk_bytes"]
        file.seek(offset)
        content = file.read(state["chunk_bytes"])
        if len(content) != min(state["chunk_bytes"], state["size"] - offset):
            raise ValueError(f"{state['name']} has changed while it was sent")
        self._topic.publish(chunk(state["file"], state["name"], number, offset, content))

    def _wait_for_room(self, state: dict[str, Any]) -> None:
        """Wait until the slowest receiver has read so much that another chunk fits into the window."""
        patience = Patience(self._timeout)
        while True:
            info = self._topic.info()
            # In base64 a chunk that cannot be compressed is a third larger.
            if info.bytes == 0 or info.bytes + 2 * state["chunk_bytes"] <= self._window:
                return
            if patience.is_over(sum(one.read for one in info.subscriptions)):
                read = dict.fromkeys(state["receivers"], 0) | {one.name: one.read for one in info.subscriptions}
                raise MissingReceiversError(state["name"], (name for name in read if read[name] == min(read.values())))
            time.sleep(LOOK_AGAIN)

    def _wait_for_all(self, file: BinaryIO, state: dict[str, Any], note: Path) -> None:
        end = {key: state[key] for key in ("file", "name", "size", "chunks", "sha256")} | {"kind": "end"}
        patience, say = Patience(self._timeout), 0.0
        while missing := set(state["receivers"]) - set(state["have"]):
            if time.monotonic() >= say:
                # Whoever has it says so again, if its answer was lost.
                self._topic.publish(end)
                say = time.monotonic() + min(5.0, self._timeout / 2)
            try:
                replies = self._replies.pull(_member(state), wait=min(0.5, self._timeout), lease=1)
            except (duly.CutOffError, duly.errors.NotFoundError):
                self._replies.subscribe(_member(state))
                say = 0.0
                continue
            for reply in (message.data for message in replies):
                if reply["file"] != state["file"]:
                    continue  # of another file, or of an earlier sending of this one
                if reply["kind"] == "have":
                    state["have"] = sorted({*state["have"], reply["receiver"]})
                elif reply["kind"] == "again":
                    for number in reply["chunks"]:
                        self._wait_for_room(state)
                        self._publish_chunk(file, state, number)
                    say = 0.0
            if replies:
                replace(note, state)
                self._replies.ack(_member(state), *replies)
            read = sum(one.read for one in self._topic.info().subscriptions if one.name in missing)
            if patience.is_over((read, len(state["have"]))):
                raise MissingReceiversError(state["name"], set(state["receivers"]) - set(state["have"]))
        self._replies.unsubscribe(_member(state))


class Patience:
    """Is over when nothing has changed for so many seconds."""

    def __init__(self, seconds: float) -> None:
        """Begin now."""
        self._seconds = seconds
        self._seen: object = None
        self._until = 0.0

    def is_over(self, seen: object) -> bool:
        """Say what is seen now."""
        if seen != self._seen:
            self._seen, self._until = seen, time.monotonic() + self._seconds
        return time.monotonic() > self._until


def _member(state: dict[str, Any]) -> str:
    return SENDER + str(state["file"])


def _read(note: Path) -> dict[str, Any] | None:
    """Read what an earlier process noted. Without it, or if it is damaged, the sending begins anew."""
    try:
        state: dict[str, Any] = json.loads(note.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return state if isinstance(state, dict) and {"file", "sha256", "next", "chunks", "have"} <= state.keys() else None


def main() -> int:
    """Send the files that the command line names."""
    parser = argparse.ArgumentParser(description="Sends files to all receivers of a topic.")
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--topic", default="files")
    parser.add_argument(
        "--to", default="", help="names of receivers, with ',' between; default: those that have subscribed"
    )
    parser.add_argument("--timeout", type=float, default=60, help="seconds in which a receiver must get any further")
    parser.add_argument("--window", type=int, default=WINDOW, help="the most bytes that are in Redis")
    parser.add_argument("--chunk", type=int, default=CHUNK, help="bytes of a chunk, before it is compressed")
    parser.add_argument("--url")
    given = parser.parse_args()
    receivers = [name for name in given.to.split(",") if name]
    sender = Sender(
        client_of(given.url),
        given.topic,
        receivers,
        chunk_bytes=given.chunk,
        window=given.window,
        timeout=given.timeout,
    )
    for path in given.files:
        try:
            sender.send(path)
        except MissingReceiversError as missing:
            print(missing, file=sys.stderr)
            return 1
        print(f"all have {path.name}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
