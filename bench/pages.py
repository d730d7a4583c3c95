"""`python -m bench.pages [jobs]`: the time of each page of `duly web`, of five million delayed jobs and of ten.

Both are on one server, and each page is asked for in turn, so that a busy machine slows both. The times are those of a
client on the same machine: until the last byte of the page is there.
"""

from __future__ import annotations

import http.client
import itertools
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlencode, urlsplit

import duly

from bench.server import Server

MANY, FEW = 5_000_000, 10
BATCH = 200_000
RUNS = 30
BODY = "x" * 170
DAY_S = 86_400
PAGES = {
    "overview": ("/", {}),
    "queue, delayed": ("/queue", {"state": "delayed"}),
    "queue, delayed, ten pages on": ("/queue", {"state": "delayed", "offset": "500"}),
    "jobs by name, first page": ("/jobs", {"state": "delayed", "name": "order.close"}),
    "jobs by name that none has": ("/jobs", {"state": "delayed", "name": "none"}),
    "job": ("/job", {"id": "{id}"}),
    "search by id": ("/search", {"q": "{id}"}),
    "failures in groups": ("/groups", {"state": "failed"}),
}


class Page:
    """`duly web`, and one connection to it."""

    def __init__(self, address: str) -> None:
        parts = urlsplit(address)
        assert parts.port is not None
        self._connection = http.client.HTTPConnection("127.0.0.1", parts.port, timeout=60)
        status, headers, _ = self._ask(f"{parts.path}?{parts.query}" if parts.query else parts.path, "")
        if status != 303:
            sys.exit(f"bench: the page answered its own address with {status}")
        self._cookie = "; ".join(value.partition(";")[0] for value in headers.get_all("set-cookie", []))

    def _ask(self, path: str, cookie: str) -> tuple[int, http.client.HTTPMessage, bytes]:
        self._connection.request("GET", path, headers={"Cookie": cookie})
        answer = self._connection.getresponse()
        return answer.status, answer.headers, answer.read()

    def ms(self, path: str, **fields: str) -> float:
        """The milliseconds until that page is there."""
        asked = path + (f"?{urlencode(fields)}" if fields else "")
        began = time.perf_counter()
        status, _, text = self._ask(asked, self._cookie)
        took = (time.perf_counter() - began) * 1000
        if status != 200:
            sys.exit(f"bench: {asked} was answered with {status}: {text[:300].decode(errors='replace')}")
        return took


@contextmanager
def web(url: str) -> Iterator[Page]:
    """Serve the page until the block ends."""
    command = [sys.executable, "-m", "duly", "web", "--url", url, "--listen", "127.0.0.1:0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield Page(process.stdout.readline().strip())
        finally:
            process.terminate()


def fill(queue: duly.Queue, jobs: int) -> str:
    """Push so many, each due at some moment of the day after tomorrow, and return the id of one in the middle."""
    in_the_middle = ""
    for begin in range(0, jobs, BATCH):
        end = min(begin + BATCH, jobs)
        some = (
            duly.NewJob(
                {"n": number, "body": BODY}, name="order.close", delay=2 * DAY_S + number * 7919 % jobs * DAY_S / jobs
            )
            for number in range(begin, end)
        )
        pushed = queue.push_many(some, ids=begin <= jobs // 2 < end)
        if pushed.ids:
            in_the_middle = pushed.ids[jobs // 2 - begin] or ""
        print(f"bench: {end:,} of {jobs:,} delayed jobs", end="\r", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    return in_the_middle


def main() -> int:
    """Print a line a page: the medians and the longest of both queues."""
    many = int(sys.argv[1]) if len(sys.argv) > 1 else MANY
    with Server() as server:
        client = duly.Client(server.url)
        ids = {name: fill(client.queue(name), jobs) for name, jobs in (("many", many), ("few", FEW))}
        with web(server.url) as page:
            print(f"{'page, ms':32}{f'{many:,} jobs':>16}{'longest':>10}{f'{FEW} jobs':>10}{'longest':>10}")
            for name, (path, fields) in PAGES.items():
                took: dict[str, list[float]] = {queue: [] for queue in ids}
                for _, queue in itertools.product(range(RUNS), ids):
                    given = {key: value.format(id=ids[queue]) for key, value in fields.items()}
                    of_queue = {} if path in ("/", "/search") else {"queue": queue, "parts": "0"}
                    took[queue].append(page.ms(path, **of_queue, **given))
                cells = [figure for queue in ids for figure in (statistics.median(took[queue]), max(took[queue]))]
                print(f"{name:32}{cells[0]:16.1f}{cells[1]:10.1f}{cells[2]:10.1f}{cells[3]:10.1f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
