"""Receives the files of a topic into a folder, each complete or not at all.

    python examples/files/receive.py --topic logs --name east folder

A file that is on its way is `.<id>.part`; `.<id>.chunks` lists which of its chunks are on the disk, with their
checksums. A message is acked when what it brought is there. So a receiver that is killed at any moment goes on where
it was: what it has not acked comes again, and a chunk that comes twice does no harm. When the file is complete,
`.<id>.done` says so, and then the file gets its name: once, whatever comes again. The note goes when the sender says
that all have the file.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import json
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import duly

from transfer import FILE_ID, LARGEST_CHUNK, NAME, client_of, content_of, digest_of, replace, replies_of, sync_folder

LEASE, FIRST_LEASE = 30, 0.001


class Part:
    """A file that is on its way."""

    def __init__(self, folder: Path, file: str) -> None:
        """Read what an earlier process has left, and believe only what agrees with its checksum."""
        self.path = folder / f".{file}.part"
        self.list = folder / f".{file}.chunks"
        self.digests: dict[int, tuple[int, int, str]] = {}
        """By number: offset, size, SHA-256."""
        self._handle = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o644)
        listed = self.list.read_text(encoding="ascii", errors="replace").splitlines() if self.list.exists() else []
        for line in listed:
            try:
                number, offset, size, digest = line.split()
                row = (int(offset), int(size), digest)
            except ValueError:
                continue  # the last line of a process that was killed
            if self._is_there(row):
                self.digests[int(number)] = row
        # So that a line of ours does not go on at the end of a torn one.
        self._rows = ["\n"]
        self._list = os.open(self.list, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)

    def _is_there(self, row: tuple[int, int, str]) -> bool:
        offset, size, digest = row
        if offset < 0 or not 0 <= size <= LARGEST_CHUNK:
            return False
        return hashlib.sha256(os.pread(self._handle, size, offset)).hexdigest() == digest

    def write(self, message: dict[str, Any]) -> None:
        """Write a chunk at its place; it is on the disk after `sync`."""
        content = content_of(message)
        _write_all(content, lambda rest: os.pwrite(self._handle, rest, message["offset"] + len(content) - len(rest)))
        number, row = int(message["number"]), (int(message["offset"]), len(content), str(message["sha256"]))
        self.digests[number] = row
        self._rows.append(f"{number} {row[0]} {row[1]} {row[2]}\n")

    def sync(self) -> None:
        """Bring to the disk what was written: first the chunks, then the list of them."""
        if len(self._rows) < 2:
            return
        os.fsync(self._handle)
        _write_all("".join(self._rows).encode(), lambda rest: os.write(self._list, rest))
        os.fsync(self._list)
        self._rows = ["\n"]

    def missing(self, end: dict[str, Any]) -> list[int]:
        """Give the chunks that are still to come; those that were damaged on the disk are among them."""
        missing = [number for number in range(end["chunks"]) if number not in self.digests]
        if missing:
            return missing
        os.ftruncate(self._handle, end["size"])
        if digest_of(self.path) == end["sha256"]:
            return []
        damaged = [number for number, row in sorted(self.digests.items()) if not self._is_there(row)]
        # Each is what was sent, but not together: the file was changed under the sender's hands.
        damaged = damaged or list(range(end["chunks"]))
        for number in damaged:
            del self.digests[number]
        return damaged

    def close(self) -> None:
        """Bring everything to the disk and close the files."""
        self.sync()
        os.fsync(self._handle)
        os.close(self._handle)
        os.close(self._list)


def _write_all(content: bytes, write: Callable[[bytes], int]) -> None:
    while content:
        content = content[write(content) :]


class Receiver:
    """Receives files into a folder, under a name that only this folder has."""

    def __init__(
        self, client: duly.Client, topic: str, name: str, folder: Path, on_file: Callable[[Path], None] = lambda _: None
    ) -> None:
        """Take over what an earlier process has left. `on_file` is called for each file, perhaps more than once."""
        self._topic = client.topic(topic)
        self._replies = replies_of(client, topic)
        self._name = name
        self._folder = folder
        self._on_file = on_file
        self._parts: dict[str, Part] = {}
        folder.mkdir(parents=True, exist_ok=True)
        # Two processes of one name would each have half of the chunks. Whose process ends has let go of it.
        self._lock = os.open(folder / ".lock", os.O_WRONLY | os.O_CREAT, 0o644)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        self._topic.subscribe(name)
        # What was pulled and not acked by the process before: with the shortest lease it comes at once.
        self._lease = FIRST_LEASE

    def run_once(self, wait: float = 1) -> int:
        """Receive what is there, at most 4 MB, and return how many messages it was."""
        try:
            # The process before may have had that lease until just now, too.
            wait = wait if self._lease == LEASE else 10 * FIRST_LEASE
            messages = self._topic.pull(self._name, wait=wait, lease=self._lease)
            self._lease = LEASE
            self._handle(messages)
        except (duly.CutOffError, duly.errors.NotFoundError):
            # Messages are lost, or all of the server's data: what is missing is asked for at the end of each file.
            self._topic.subscribe(self._name, from_="earliest")
            return 0
        return len(messages)

    def _handle(self, messages: Sequence[duly.Message]) -> None:
        handled: list[duly.Message] = []
        for message in messages:
            kind, file = message.data["kind"], message.data["file"]
            if not FILE_ID.fullmatch(file):
                print(f"{self._name}: {file!r} is no id of a file", file=sys.stderr)
            elif kind == "chunk":
                self._write(message.data)
            else:
                self._sync(handled)
                if kind == "end":
                    self._end(message.data)
                elif kind == "gone":
                    self._forget(file)
            handled.append(message)
        self._sync(handled)

    def close(self) -> None:
        """Let another process of this name go on."""
        os.close(self._lock)

    def _sync(self, handled: list[duly.Message]) -> None:
        """Ack what is on the disk."""
        for part in self._parts.values():
            part.sync()
        if handled:
            self._topic.ack(self._name, *handled)
        handled.clear()

    def _write(self, message: dict[str, Any]) -> None:
        file = message["file"]
        if self._done(file).exists():
            return
        if file not in self._parts:
            self._parts[file] = Part(self._folder, file)
        try:
            self._parts[file].write(message)
        except ValueError as error:
            # It is asked for at the end.
            print(f"{self._name}: {error}", file=sys.stderr)

    def _end(self, message: dict[str, Any]) -> None:
        file, name = message["file"], message["name"]
        if not NAME.fullmatch(name):
            print(f"{self._name}: {name!r} cannot be the name of a file here", file=sys.stderr)
            return
        done = self._done(file)
        if not done.exists():
            part = self._parts.pop(file, None) or Part(self._folder, file)
            if missing := part.missing(message):
                self._parts[file] = part
                for at in range(0, len(missing), 10_000):
                    self._reply("again", file, chunks=missing[at : at + 10_000])
                return
            part.close()
            # It is there: a process that is killed behind this gives it its name, and writes no chunk again.
            replace(done, {"name": name})
        self._name_it(file, json.loads(done.read_text(encoding="utf-8"))["name"])
        self._reply("have", file)

    def _name_it(self, file: str, name: str) -> None:
        path = self._folder / name
        part = self._folder / f".{file}.part"
        if part.exists():
            part.replace(path)
            sync_folder(self._folder)
        if path.exists():
            self._on_file(path)
        (self._folder / f".{file}.chunks").unlink(missing_ok=True)

    def _forget(self, file: str) -> None:
        if part := self._parts.pop(file, None):
            part.close()
        for kind in ("done", "part", "chunks"):
            (self._folder / f".{file}.{kind}").unlink(missing_ok=True)

    def _done(self, file: str) -> Path:
        return self._folder / f".{file}.done"

    def _reply(self, kind: str, file: str, **more: Any) -> None:
        self._replies.publish({"kind": kind, "file": file, "receiver": self._name, **more})


def main() -> None:
    """Receive until the process is ended."""
    parser = argparse.ArgumentParser(description="Receives the files of a topic into a folder.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--topic", default="files")
    parser.add_argument("--name", required=True, help="of this receiver; no other one has it")
    parser.add_argument("--url")
    given = parser.parse_args()
    received: set[Path] = set()

    def on_file(path: Path) -> None:
        if path not in received:
            print(f"{given.name}: received {path.name}", flush=True)
        received.add(path)

    receiver = Receiver(client_of(given.url), given.topic, given.name, given.folder, on_file)
    while True:
        receiver.run_once()


if __name__ == "__main__":
    main()
