"""`/metrics` of the page."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import time
from base64 import b64encode
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from urllib.request import urlopen

import duly
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from support import Server, until
from web_client import PASSWORD, StartWeb, Web


def basic(password: str, user: str = "duly") -> dict[str, str]:
    return {"Authorization": "Basic " + b64encode(f"{user}:{password}".encode()).decode()}


def samples(text: str) -> dict[str, float]:
    parse: Any = text_string_to_metric_families
    return {
        " ".join([sample.name, *sorted(sample.labels.values())]): sample.value
        for family in parse(text)
        for sample in family.samples
    }


def test_scrapers_get_the_metrics_by_the_password(
    start_web: StartWeb, client: duly.Client, server: Server, prefix: str
) -> None:
    client.queue("orders").push(1, delay=60)
    web = start_web(server.url, prefix, "--read-only", password=PASSWORD)
    for headers in ({}, basic("another password"), basic(""), {"Authorization": f"Bearer {PASSWORD}"}):
        answer = web.ask("GET", "/metrics", headers=headers)
        assert (answer.status, answer.headers["www-authenticate"]) == (401, 'Basic realm="duly", charset="UTF-8"')
        assert "duly_" not in answer.text
    for user in ("duly", "", "prometheus"):
        answer = web.ask("GET", "/metrics", headers=basic(PASSWORD, user))
        assert (answer.status, answer.headers["content-type"].split(";")[0]) == (200, "application/openmetrics-text")
        assert samples(answer.text)["duly_jobs delayed orders"] == 1
        assert not web.cookies
    assert web.ask("HEAD", "/metrics", headers=basic(PASSWORD)).status == 200
    assert web.ask("GET", "/metrics", headers={**basic(PASSWORD), "Host": "evil.example"}).status == 403
    form = {"Sec-Fetch-Site": "same-origin", "Content-Type": "application/x-www-form-urlencoded"}
    assert web.ask("POST", "/metrics", b"a=b", {**basic(PASSWORD), **form}).status == 401
    # It opens nothing else.
    assert web.ask("GET", "/", headers=basic(PASSWORD)).status == 401
    # A scraper with an old password keeps nobody out, and is kept out itself.
    assert [web.ask("GET", "/metrics", headers=basic("old")).status for _ in range(9)] == [401] * 8 + [429]
    assert web.ask("GET", "/metrics", headers=basic(PASSWORD)).status == 429
    assert web.post("/sign-in", {"password": PASSWORD}).status == 303
    assert web.get("/metrics").status == 200
    _, err = web.end()
    assert err.count(": metrics: refused\n") == 10
    assert PASSWORD not in err


def test_without_a_password_only_a_signed_in_browser_gets_the_metrics(web: Web) -> None:
    assert "duly_up 1" in web.get("/metrics").text
    web.cookies = {}
    for password in ("", PASSWORD):
        answer = web.ask("GET", "/metrics", headers=basic(password))
        assert (answer.status, answer.headers["www-authenticate"]) == (401, None)
        assert "DULY_WEB_PASSWORD" in answer.text


def test_scrapes_are_bounded(start_web: StartWeb, own_server: Server) -> None:
    client = duly.Client(own_server.url)
    client.queue("orders").push(1)
    web = start_web(own_server.url, "duly:", password=PASSWORD)
    assert samples(web.ask("GET", "/metrics", headers=basic(PASSWORD)).text)["duly_jobs orders ready"] == 1

    def calls() -> int:
        return int(own_server.cli("INFO", "stats").split("total_commands_processed:")[1].split()[0])

    def one(_number: int) -> int:
        return web.ask("GET", "/metrics", headers=basic(PASSWORD)).status

    costs: list[int] = []

    def is_renewed() -> bool:
        before = calls()
        text = web.ask("GET", "/metrics", headers=basic(PASSWORD)).text
        costs.append(calls() - before)
        return samples(text)["duly_jobs orders ready"] == 2

    client.queue("orders").push(2)
    until(is_renewed, "the text is given again for ever")
    of_one, before = costs[-1], calls()
    with ThreadPoolExecutor(20) as pool:
        assert set(pool.map(one, range(40))) == {200}
    # A slow machine may take more than a second for all.
    assert calls() - before < 10 * of_one
    own_server.freeze()
    began = time.monotonic()
    answers = []

    def is_down() -> bool:
        answers.append(web.ask("GET", "/metrics", headers=basic(PASSWORD)))
        return samples(answers[-1].text) == {"duly_up": 0}

    try:
        until(is_down, "a server that is frozen is up")
    finally:
        own_server.thaw()
    assert answers[-1].status == 200
    assert time.monotonic() - began < 10


def test_prometheus_scrapes_the_page(
    start_web: StartWeb, client: duly.Client, server: Server, prefix: str, tmp_path: Path
) -> None:
    client.queue("orders").push(1, delay=60)
    web = start_web(server.url, prefix, password=PASSWORD)
    page = (Path(__file__).resolve().parent.parent / "docs" / "operate.md").read_text("utf-8")
    found = re.search(r"```text\n(scrape_configs:.*?)```", page, re.DOTALL)
    assert found
    (tmp_path / "password").write_text(f"{PASSWORD}\n", "utf-8")
    config = found[1].replace("/etc/prometheus/duly-password", str(tmp_path / "password"))
    config = config.replace("https", "http").replace("queues.example.com:443", f"127.0.0.1:{web.port}")
    (tmp_path / "prometheus.yml").write_text(f"global: {{scrape_interval: 1s}}\n{config}", "utf-8")
    program = shutil.which("prometheus")
    assert program, "Prometheus is missing: run tools/setup.sh"
    arguments = ["--config.file", tmp_path / "prometheus.yml", "--storage.tsdb.path", tmp_path / "data"]
    command = [program, *map(str, arguments), "--web.listen-address=127.0.0.1:0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            listening = re.compile(r"Listening on.*address=(127\.0\.0\.1:\d+)")
            # It says these two in either order.
            at: re.Match[str] | None = None
            is_ready = False
            while not (at and is_ready):
                line = process.stderr.readline()
                assert line, "Prometheus has ended"
                at = at or listening.search(line)
                is_ready = is_ready or "Server is ready" in line

            def result(query: str) -> list[float]:
                with urlopen(f"http://{at[1]}/api/v1/query?{urlencode({'query': query})}") as answer:
                    return [float(one["value"][1]) for one in json.load(answer)["data"]["result"]]

            until(lambda: result('up{job="duly"}') == [1], "it does not scrape", 30)
            assert result('duly_jobs{queue="orders",state="delayed"}') == [1]
        finally:
            process.terminate()
            process.communicate()
