"""What the sender and the receivers of files share: the messages, and the ways to write what a crash must not lose.

On the topic `<name>` go, as JSON:

    {"kind": "chunk", "file": id, "name": "a.log", "number": 0, "offset": 0, "sha256": of the bytes,
     "data": zlib in base64}
    {"kind": "end", "file": id, "name": "a.log", "size": 123, "chunks": 1, "sha256": of the whole file}
    {"kind": "gone", "file": id}                       the sender is through with it

On the topic `<name>.replies`, for the sender:

    {"kind": "have", "file": id, "receiver": "a"}
    {"kind": "again", "file": id, "receiver": "a", "chunks": [3, 4]}

Each message may come twice, and chunks in any order: whoever gets them notes what it has.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import duly

NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,199}")
"""Of a file: no way out of the receiver's folder, and none of its own files, which begin with a dot."""

FILE_ID = re.compile(r"[0-9a-f]{32}")

LARGEST_CHUNK = 1 << 26


def client_of(url: str | None) -> duly.Client:
    """Give a client of this server, by default that of DULY_URL, or else a private one."""
    return duly.Client(url or os.environ.get("DULY_URL", "embedded:"))


def replies_of(client: duly.Client, topic: str) -> duly.Topic:
    """Give the topic on which receivers answer."""
    return client.topic(f"{topic}.replies")


def chunk(file: str, name: str, number: int, offset: int, content: bytes) -> dict[str, Any]:
    """Make the message of a chunk."""
    data = base64.b64encode(zlib.compress(content)).decode()
    digest = hashlib.sha256(content).hexdigest()
    return {
        "kind": "chunk",
        "file": file,
        "name": name,
        "number": number,
        "offset": offset,
        "sha256": digest,
        "data": data,
    }


def content_of(message: Mapping[str, Any]) -> bytes:
    """Read the bytes of a chunk; ValueError if they are not what was sent."""
    try:
        unpack = zlib.decompressobj()
        content = unpack.decompress(base64.b64decode(message["data"], validate=True), LARGEST_CHUNK)
    except zlib.error as error:
        raise ValueError(f"chunk {message['number']} cannot be unpacked") from error
    if not unpack.eof or hashlib.sha256(content).hexdigest() != message["sha256"]:
        raise ValueError(f"chunk {message['number']} is not what was sent")
    return content


def digest_of(path: Path) -> str:
    """Give the SHA-256 of a file."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def sync_folder(folder: Path) -> None:
    """Make what was created and renamed in a folder outlive a power failure."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def replace(path: Path, content: Mapping[str, Any]) -> None:
    """Write a small JSON file: after a crash it has the old content or the new one."""
    beside = path.with_name(path.name + ".new")
    with beside.open("w", encoding="utf-8") as file:
        json.dump(content, file)
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)
    sync_folder(path.parent)
