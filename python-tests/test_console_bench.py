"""`duly bench`: what it measures, and that it leaves nothing."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys

import duly
import pytest
from slow_lines import FAR, slow_lines
from support import Command, Server, Start, until


def test_a_bench_measures_and_leaves_nothing(duly_command: Command, client: duly.Client) -> None:
    status, out, err = duly_command("bench", "--each", "50ms", "--data-bytes", "1000", "--json")
    figures = {figure["what"]: figure for figure in json.loads(out)}
    assert status == 0, err
    assert len(figures) == 6
    for figure in figures.values():
        assert figure["count"] > 0
        assert 0 < figure["p50_us"] <= figure["p99_us"] <= figure["max_us"]
    assert figures["delayed jobs: how late"] == {**figures["delayed jobs: how late"], "count": 50, "per_second": None}
    assert not client.queues().queues

    status, out, err = duly_command("bench", "--each", "20ms")
    assert (status, out.splitlines()[0].split()[:2]) == (0, ["WHAT", "COUNT"])
    assert re.fullmatch(r"duly: it measures in the queue duly-bench-[0-9a-f]{8}, which is removed at the end\n", err)
    assert duly_command("bench", "--quick", "--each", "1s")[0] == 2


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_bench_that_is_ended_leaves_nothing(start: Start, client: duly.Client, number: signal.Signals) -> None:
    bench = start("bench", "--each", "30s")
    until(lambda: client.queues().queues, "it does not begin")
    bench.send_signal(number)
    out, err = bench.communicate(timeout=30)
    assert bench.returncode == {signal.SIGINT: 130, signal.SIGTERM: 143}[number], err
    assert out == ""  # the first figure was not whole
    assert not client.queues().queues


def test_a_bench_of_a_server_that_goes_away_says_what_may_be_left(own_server: Server) -> None:
    client = duly.Client(own_server.url)
    command = [sys.executable, "-m", "duly", "bench", "--each", "30s", "--url", own_server.url]
    bench = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    until(lambda: client.queues().queues, "it does not begin")
    own_server.close()
    _, err = bench.communicate(timeout=60)
    assert bench.returncode == 1
    assert "may be left" in err
    assert "is the server running?" in err


def test_a_bench_over_a_slow_line_does_not_take_its_pushes_for_lateness(server: Server, prefix: str) -> None:
    with slow_lines(server.socket, [FAR]) as [url]:
        command = [sys.executable, "-m", "duly", "bench", "--each", "50ms", "--json", "--url", url, "--prefix", prefix]
        ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert ended.returncode == 0, ended.stderr
    late = json.loads(ended.stdout)[-1]
    assert (late["what"], late["count"]) == ("delayed jobs: how late", 50)
    # One by one, the pushes would take fifty round trips.
    assert late["max_us"] < 25 * FAR.round_trip * 1_000_000
