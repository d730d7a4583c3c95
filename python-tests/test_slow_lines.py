"""The slow lines of the random kills are as slow as they say; how much slower they are is the machine's."""

from __future__ import annotations

import time

import duly
import pytest
from slow_lines import FAR, NEAR, SLOW, Line, slow_lines
from support import Server


@pytest.mark.parametrize("line", [SLOW, NEAR, FAR])
def test_a_line_takes_its_time(server: Server, prefix: str, line: Line) -> None:
    data = "x" * (line.bytes_per_s // 5)
    with slow_lines(server.socket, [line]) as (url,), duly.Client(url, prefix=prefix) as client:
        queue = client.queue("q")
        client.ping()
        began = time.monotonic()
        client.ping()
        pinged = time.monotonic()
        job_id = queue.push(data)
        pushed = time.monotonic()
        job = queue.find(job_id)
        found = time.monotonic()
    assert job is not None
    assert job.data == data
    assert pinged - began >= line.round_trip
    assert pushed - pinged >= line.round_trip + 0.2
    assert found - pushed >= line.round_trip + 0.2
