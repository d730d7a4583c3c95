"""TCP lines that are slow: so many bytes a second each way, and each of them late by the same time.

`slow_lines.py <unix socket of a server> <line>...` says the port of each line, and carries until it is ended. A line is
`<bytes a second>:<seconds late, each way>`, or `slow`, `near` or `far`. All connections of a line share its bytes.
`core/tests/support/slow_line.rs` is its sibling.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

CHUNK = 4096  # carried at once
BUFFER = 64 * 1024  # read ahead at most, or most of a call would be on its way at once


class Line(NamedTuple):
    """What a line is like."""

    bytes_per_s: int
    round_trip: float  # seconds


SLOW = Line(150_000, 0.01)  # as over a busy mobile network
NEAR = Line(1_250_000, 0.05)  # 10 Mbit/s
FAR = Line(1_250_000, 0.3)  # the other side of the earth
NAMED = {"slow": SLOW, "near": NEAR, "far": FAR}


@contextmanager
def slow_lines(server: Path, lines: Sequence[Line]) -> Iterator[list[str]]:
    """Give the URLs at which the server of this socket is behind these lines; a process of its own carries."""
    each = map(described, lines)
    process = subprocess.Popen([sys.executable, __file__, str(server), *each], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield [f"redis://127.0.0.1:{port}" for port in process.stdout.readline().split()]
    finally:
        process.kill()
        process.communicate()


def described(line: Line) -> str:
    """Give the line as the program takes it."""
    return f"{line.bytes_per_s}:{line.round_trip / 2}"


class Pace:
    """When one way of a line is free again."""

    def __init__(self, bytes_per_s: int) -> None:
        self._bytes_per_s = bytes_per_s
        self._free_at = 0.0

    async def take(self, count: int) -> None:
        now = asyncio.get_running_loop().time()
        self._free_at = max(self._free_at, now) + count / self._bytes_per_s
        await asyncio.sleep(self._free_at - now)


async def one_way(source: asyncio.StreamReader, target: asyncio.StreamWriter, pace: Pace, late: float) -> None:
    """Carry until the source ends, and end the target then, behind what is on its way."""
    now = asyncio.get_running_loop().time
    on_the_way: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()

    async def arrive() -> None:
        with suppress(OSError):
            while True:
                at, data = await on_the_way.get()
                await asyncio.sleep(at - now())
                if not data:
                    return target.write_eof()
                target.write(data)
                await target.drain()

    arriving = asyncio.create_task(arrive())
    data = b"not the end"
    while data and not arriving.done():
        try:
            data = await source.read(CHUNK)
        except OSError:
            data = b""
        await pace.take(len(data))
        on_the_way.put_nowait((now() + late, data))
    await arriving


async def carry(server: str, bytes_per_s: int, late: float) -> int:
    """Start a line, and give its port."""
    up, down = Pace(bytes_per_s), Pace(bytes_per_s)

    async def connected(from_client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        try:
            from_server, to_server = await asyncio.open_unix_connection(server, limit=BUFFER // 2)
        except OSError:  # the server was killed
            to_client.close()
            return
        try:
            await asyncio.gather(one_way(from_client, to_server, up, late), one_way(from_server, to_client, down, late))
        finally:
            to_client.close()
            to_server.close()

    line = await asyncio.start_server(connected, "127.0.0.1", 0, limit=BUFFER // 2, backlog=1024)
    port: int = line.sockets[0].getsockname()[1]
    return port


async def main() -> None:
    """Carry until it is ended."""
    server, *lines = sys.argv[1:]
    each = ((described(NAMED[line]) if line in NAMED else line).split(":") for line in lines)
    ports = [await carry(server, int(bytes_per_s), float(late)) for bytes_per_s, late in each]
    sys.stdout.write(" ".join(map(str, ports)) + "\n")
    sys.stdout.flush()
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())
