"""A server whose append-only file is on a full disk, and workers of every language that wait for space."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import duly
import pytest
from fleet import COMMANDS, Worker, what_is_missing
from support import Server, say, until


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(disk)], capture_output=True, text=True, check=False
    )
    if mounted.returncode != 0:
        pytest.skip(f"a small disk cannot be mounted here, which takes root: {mounted.stderr.strip()}")
    yield disk
    subprocess.run(["umount", "--lazy", str(disk)], check=True)


@pytest.fixture
def server(small_disk: Path) -> Iterator[Server]:
    server = Server("--appendonly", "yes", "--appendfsync", "everysec", "--dir", str(small_disk))
    yield server
    server.close()


def hear(worker: Worker, text: str) -> None:
    until(lambda: text in worker.log.read_text(), f"{worker.what} does not say '{text}'")


def fill(disk: Path) -> Path:
    filler = disk / "filler"
    with filler.open("wb", buffering=0) as file:
        for size in (65536, 1):
            try:
                while True:
                    file.write(bytes(size))
            except OSError:
                pass
    return filler


def test_a_full_disk_is_told_once_and_waited_out(
    server: Server, small_disk: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (missing := what_is_missing()) is None, f"{missing}: run tools/build.sh --dev"
    queue = duly.Client(server.url, deadline=2).queue("orders")
    pushed = 0

    def push(seconds: float) -> bool:
        nonlocal pushed
        try:
            # A handler whose own note is refused fails, and runs again.
            queue.push({"do": "work", "seconds": seconds}, name="work", retry=duly.RetryPolicy.fixed(0.1))
        except duly.DulyError as error:
            if error.kind == "timeout":
                raise  # perhaps it was pushed
            return False
        pushed += 1
        return True

    def acked() -> int:
        return queue.counts().totals.get("acked", 0)

    workers = [Worker(what, server, tmp_path / f"{what}.log") for what in COMMANDS]
    try:
        for _ in range(100):
            assert push(0.01)
        until(lambda: acked() == pushed, "the first jobs are not done")
        for _ in workers:
            assert push(1.0)  # handlers that run when the disk is full

        filler = fill(small_disk)
        until(lambda: not push(0.0), "the server writes on")
        for worker in workers:
            hear(worker, "keeps trying")

        filler.unlink()
        freed = time.monotonic()
        until(lambda: push(0.0), "the server does not go on")
        took = time.monotonic() - freed
        until(lambda: acked() == pushed, "jobs were lost")
        say(capsys, f"the server wrote again after {took:.2f} s, all was acked after {time.monotonic() - freed:.2f} s")
        for worker in workers:
            hear(worker, "answers again")
            worker.end_having_told_one_outage()
    finally:
        for worker in workers:
            worker.process.kill()
            worker.process.wait()

    # What the file has is what was answered.
    server.kill()
    server.start()
    counts = queue.counts()
    assert (counts.ready, counts.reserved, counts.delayed, counts.failed) == (0, 0, 0, 0)
    assert (counts.totals["pushed"], acked()) == (pushed, pushed)
    assert queue.audit().clean
