"""`duly metrics`, as a scraper reads it, and the dashboard, alerts and scaling that are built on it."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import duly
import pytest
import yaml
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from prometheus_client.parser import text_string_to_metric_families as older_form
from support import Server, running, until

OPERATE = Path(__file__).resolve().parent.parent / "docs" / "operate"
FILES = sorted(OPERATE.glob("*.[!p]*"))
# What node_exporter adds to the files that it reads.
OF_NODE_EXPORTER = {"node_textfile_mtime_seconds"}

Values = dict[tuple[str, frozenset[tuple[str, str]]], float]
Metrics = Callable[..., tuple[int, str, str]]


def values_of(text: str) -> Values:
    """Each sample, which is there once."""
    values: Values = {}
    parse: Any = text_string_to_metric_families
    for family in parse(text):
        for sample in family.samples:
            key = (sample.name, frozenset(sample.labels.items()))
            assert key not in values
            values[key] = sample.value
    older = {sample.name for family in older_form(text) for sample in family.samples}
    assert older == {name for name, _ in values}
    return values


def value(values: Values, name: str, /, **labels: str) -> float:
    return values[name, frozenset(labels.items())]


@pytest.fixture
def metrics(server: Server, prefix: str) -> Metrics:
    def run(*queues: str, url: str = server.url) -> tuple[int, str, str]:
        command = [sys.executable, "-m", "duly", "metrics", *queues, "--url", url, "--prefix", prefix]
        ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
        return ended.returncode, ended.stdout, ended.stderr

    return run


def provoke_all(client: duly.Client) -> None:
    """A known load: the queue `orders` in each state, with limits; `mail` in parts; `calm` without anything."""
    orders = client.queue("orders")
    orders.push_many([duly.NewJob(number) for number in range(7)])
    for _ in range(2):
        done = orders.reserve()
        assert done is not None
        done.ack()
    failed = orders.reserve()
    assert failed is not None
    failed.fail("no", final=True)
    assert orders.reserve(lease=600) is not None
    orders.push(1, delay=600)
    orders.push(2, delay=0.001)
    orders.set_limits(concurrency=1, rate=(90, 60))
    client.partitions("mail", 2).push(1, key="k")
    client.partitions("mail", 2).pause()
    calm = client.queue("calm")
    calm.cancel(calm.push(1))


def test_metrics_show_a_known_load(metrics: Metrics, client: duly.Client) -> None:
    provoke_all(client)
    orders = client.queue("orders")
    until(lambda: orders.counts().overdue, "it is not due")
    status, text, err = metrics()
    assert (status, err) == (0, "")
    values = values_of(text)
    assert value(values, "duly_up") == 1
    states = {"delayed": 2, "ready": 3, "reserved": 1, "failed": 1}
    for state, count in states.items():
        assert value(values, "duly_jobs", queue="orders", state=state) == count
    totals = {"pushed": 9, "acked": 2, "failed": 1, "cancelled": 0}
    for name, total in totals.items():
        assert value(values, f"duly_jobs_{name}_total", queue="orders") == total
    assert value(values, "duly_jobs_cancelled_total", queue="calm") == 1
    counts = orders.counts()
    for name, now in (
        ("duly_oldest_ready_seconds", counts.oldest_ready_age),
        ("duly_overdue_seconds", counts.overdue),
    ):
        assert now is not None
        assert 0 < value(values, name, queue="orders") <= now
        assert value(values, name, queue="calm") == 0
    assert value(values, "duly_concurrency_limit_jobs", queue="orders") == 1
    assert value(values, "duly_rate_limit_jobs_per_second", queue="orders") == 1.5
    assert ("duly_concurrency_limit_jobs", frozenset({("queue", "calm")})) not in values
    assert value(values, "duly_queue_held", queue="orders") == 1
    assert value(values, "duly_queue_paused", queue="orders") == 0
    assert value(values, "duly_queue_paused", queue="mail", partitioned="yes") == 1
    assert value(values, "duly_jobs", queue="mail", partitioned="yes", state="ready") == 1
    assert value(values, "duly_workers", queue="orders") == 0


def test_metrics_show_workers_and_what_they_run(metrics: Metrics, client: duly.Client) -> None:
    may_end = threading.Event()
    worker = duly.Worker(client, ["a", "b"], concurrency=3)

    @worker.on("wait")
    def wait(_job: duly.Job) -> None:
        may_end.wait(60)

    client.queue("a").push_many([duly.NewJob(number, name="wait") for number in range(2)])
    client.queue("b").push(1, delay=600)
    with running(worker):
        until(lambda: sum(len(one.running) for one in client.queue("a").workers()) == 2, "they do not run")
        values = values_of(metrics()[1])
        may_end.set()
    assert [value(values, "duly_workers", queue=queue) for queue in ("a", "b")] == [1, 1]
    # One worker of two queues.
    assert [value(values, "duly_worker_slots", state=state) for state in ("busy", "free")] == [2, 1]


def test_metrics_count_runs_and_how_long_they_and_their_jobs_took(metrics: Metrics, client: duly.Client) -> None:
    orders = client.queue("orders")
    orders.push_many([duly.NewJob(number, name="good") for number in range(3)])
    orders.push(1, name='bad"\\name', max_retries=0)
    orders.push(2)
    worker = duly.Worker(client, ["orders"], max_jobs=5)
    worker.on("good", lambda _: time.sleep(0.06))
    worker.run()
    values = values_of(metrics()[1])
    runs = {"name": "good", "queue": "orders"}
    assert value(values, "duly_job_runs_total", outcome="done", **runs) == 3
    assert value(values, "duly_job_runs_total", outcome="failed", **runs) == 0
    assert value(values, "duly_job_runs_total", outcome="failed", name='bad"\\name', queue="orders") == 1
    # Without a name, and without a handler: it is retried.
    assert value(values, "duly_job_runs_total", outcome="retried", queue="orders") == 1
    for name in ("duly_job_wait_seconds", "duly_job_duration_seconds"):
        assert value(values, f"{name}_count", **runs) == value(values, f"{name}_bucket", le="+Inf", **runs) == 3
    assert value(values, "duly_job_duration_seconds_bucket", le="0.05", **runs) == 0
    assert value(values, "duly_job_duration_seconds_bucket", le="5.0", **runs) == 3
    assert 0.18 <= value(values, "duly_job_duration_seconds_sum", **runs) < 15
    rates = orders.rates()
    first = rates.names[0]
    assert (first.name, first.others, first.counts.done, first.counts.failed) == ("good", False, 3, 0)
    assert rates.total.run.count == 5
    assert rates.names[0].counts.run.p50 is not None
    assert rates.names[0].counts.run.p50 > 0.054
    assert repr(rates) == "<duly.Rates 3 done, 1 failed in 1 windows>" or len(rates.windows) == 2


def test_metrics_of_named_queues_are_those_alone(metrics: Metrics, client: duly.Client) -> None:
    for name in ("orders", "mail"):
        client.queue(name).push(1)
    client.partitions("orders", 4).push(1, key="k")
    values = values_of(metrics("orders", "unused")[1])
    assert {dict(labels).get("queue") for _, labels in values} == {"orders", "unused", None}
    # Two queues have the name.
    assert value(values, "duly_jobs", queue="orders", state="ready") == 1
    assert value(values, "duly_jobs", queue="orders", partitioned="yes", state="ready") == 1
    assert value(values, "duly_jobs", queue="unused", state="ready") == 0
    status, out, err = metrics("orders", "no such name")
    assert (status, out) == (2, "")
    assert "a queue name must have" in err


HOSTILE = [
    'a"} 1\nduly_up 0\n# EOF\n',
    "back\\slash\\n",
    "\x1b[2Jterminal",
    "订单\u202e",
    "x" * 1000,
    "x" * 999 + "y",
    "",
    " ",
    "{tag}",
]


def test_a_queue_that_cannot_be_read_hides_no_other(
    metrics: Metrics, client: duly.Client, server: Server, prefix: str
) -> None:
    for name in ("a", "b", "c"):
        client.queue(name).push(1)
    until(lambda: len(client.queues().queues) == 3, "they are not listed")
    server.cli("DEL", f"{prefix}{{b}}:ready:5")
    server.cli("SET", f"{prefix}{{b}}:ready:5", "foreign")
    status, text, err = metrics()
    values = values_of(text)
    assert status == 1
    assert f"{prefix}{{b}}:ready:5" in err
    assert [value(values, "duly_queue_readable", queue=queue) for queue in ("a", "b", "c")] == [1, 0, 1]
    assert [value(values, "duly_jobs", queue=queue, state="ready") for queue in ("a", "c")] == [1, 1]
    assert not [name for name, labels in values if ("queue", "b") in labels and name != "duly_queue_readable"]
    assert metrics("a", "c")[0] == 0


def test_names_that_others_wrote_cannot_forge_metrics(
    metrics: Metrics, client: duly.Client, server: Server, prefix: str
) -> None:
    client.queue("orders").push(1)
    until(lambda: client.queues().queues, "it is not listed")
    listed = [key for key in server.cli("KEYS", f"{prefix}*queues*").split() if key.endswith("queues")]
    assert len(listed) == 1
    for name in HOSTILE:
        server.cli("ZADD", listed[0], "0", name)
    status, text, err = metrics()
    assert status == 1
    assert "\x1b" not in text + err
    values = values_of(text)
    assert value(values, "duly_up") == 1
    assert value(values, "duly_jobs", queue="orders", state="ready") == 1
    unreadable = {
        dict(labels).get("queue", "") for (name, labels), up in values.items() if "readable" in name and up == 0
    }
    assert unreadable == {
        'a"} 1\\nduly_up 0\\n# EOF\\n',
        "back\\slash\\n",
        "\\u{1b}[2Jterminal",
        "订单\\u{202e}",
        "x" * 128 + "…",
        "",
        " ",
        "{tag}",
    }


def test_a_server_that_is_away_is_a_metric(metrics: Metrics) -> None:
    status, text, err = metrics(url="redis://127.0.0.1:1")
    assert (status, values_of(text)) == (1, {("duly_up", frozenset()): 0})
    assert "refused" in err


def test_a_scrape_of_a_frozen_server_ends(own_server: Server, metrics: Metrics) -> None:
    own_server.freeze()
    status, text, err = metrics(url=own_server.url)
    own_server.thaw()
    assert (status, values_of(text)) == (1, {("duly_up", frozenset()): 0})
    assert err.startswith("duly: ")


def names_in(file: Path) -> set[str]:
    return set(re.findall(r"\b(?:duly|node)_[a-z_]+[a-z]\b", file.read_text("utf-8")))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_all_metrics_that_the_files_name_are_printed(file: Path, metrics: Metrics, client: duly.Client) -> None:
    provoke_all(client)
    printed = {name for name, _ in values_of(metrics()[1])}
    assert len(names_in(file)) > 2
    assert names_in(file) <= printed | OF_NODE_EXPORTER


def documents(file: Path) -> Any:
    text = file.read_text("utf-8")
    return json.loads(text) if file.suffix == ".json" else yaml.safe_load(text)


def expressions() -> Iterator[str]:
    for panel in documents(OPERATE / "grafana.json")["panels"]:
        for target in panel["targets"]:
            yield target["expr"].replace("$__rate_interval", "5m").replace("$queue", "orders|mail")
    for trigger in documents(OPERATE / "keda.yml")["spec"]["triggers"]:
        yield trigger["metadata"]["query"]


def promtool(*arguments: str | Path) -> tuple[int, str]:
    program = shutil.which("promtool")
    assert program, "promtool is missing: run tools/setup.sh"
    ended = subprocess.run([program, *map(str, arguments)], capture_output=True, text=True, check=False)
    return ended.returncode, ended.stdout + ended.stderr


def test_prometheus_understands_all_expressions(tmp_path: Path) -> None:
    rules = [{"record": f"r:{number}", "expr": expression} for number, expression in enumerate(expressions())]
    assert len(rules) > 15
    file = tmp_path / "rules.yml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "all", "rules": rules}]}), "utf-8")
    status, said = promtool("check", "rules", file)
    assert (status, f"{len(rules)} rules found" in said) == (0, True), said
    status, said = promtool("check", "rules", OPERATE / "alerts.yml")
    assert (status, "SUCCESS" in said) == (0, True), said
    rules[0]["expr"] = "duly_up =="
    file.write_text(yaml.safe_dump({"groups": [{"name": "all", "rules": rules}]}), "utf-8")
    assert promtool("check", "rules", file)[0] != 0


HEALTHY = {
    "duly_up": "1x60",
    'duly_queue_readable{queue="q"}': "1x60",
    'duly_workers{queue="q"}': "2x60",
    'duly_oldest_ready_seconds{queue="q"}': "3x60",
    'duly_overdue_seconds{queue="q"}': "0x60",
    'duly_queue_paused{queue="q"}': "0x60",
    'duly_jobs_failed_total{queue="q"}': "5x60",
    'duly_jobs_reclaimed_total{queue="q"}': "5x60",
    'duly_jobs_trimmed_total{queue="q"}': "5x60",
    'node_textfile_mtime_seconds{file="/var/duly.prom"}': "0+60x60",
}
PROVOKED: dict[str, dict[str, str]] = {
    "DulyDown": {"duly_up": "0x60"},
    "DulyMetricsMissing": {"duly_up": "_x60"},
    "DulyMetricsOld": {'node_textfile_mtime_seconds{file="/var/duly.prom"}': "0x60"},
    "DulyQueueUnreadable": {'duly_queue_readable{queue="q"}': "0x60"},
    "DulyNoWorker": {'duly_workers{queue="q"}': "0x60", 'duly_overdue_seconds{queue="q"}': "61x60"},
    "DulyJobsLate": {'duly_oldest_ready_seconds{queue="q"}': "301x60"},
    "DulyJobsFail": {'duly_jobs_failed_total{queue="q"}': "0+1x60"},
    "DulyWorkersDie": {'duly_jobs_reclaimed_total{queue="q"}': "0+1x60"},
    "DulyFailedJobsRemoved": {'duly_jobs_trimmed_total{queue="q"}': "0+1x60"},
    "DulyQueuePaused": {'duly_queue_paused{queue="q"}': "1x90"},
}


def fired(tmp_path: Path, changed: dict[str, str]) -> set[str]:
    """The alerts that fire 65 minutes later: those for which the test that none fires fails."""
    alerts = [rule["alert"] for group in documents(OPERATE / "alerts.yml")["groups"] for rule in group["rules"]]
    series = {**HEALTHY, **changed}
    test = {
        "interval": "1m",
        "input_series": [{"series": name, "values": values.replace("x60", "x70")} for name, values in series.items()],
        "alert_rule_test": [{"eval_time": "65m", "alertname": alert, "exp_alerts": []} for alert in alerts],
    }
    file = tmp_path / "test.yml"
    file.write_text(yaml.safe_dump({"rule_files": [str(OPERATE / "alerts.yml")], "tests": [test]}), "utf-8")
    status, said = promtool("test", "rules", file)
    firing = set(re.findall(r"alertname: (\w+)", said))
    assert (status == 0) == (firing == set()), said
    return firing


def test_an_alert_fires_if_there_is_a_reason(tmp_path: Path) -> None:
    alerts = [rule["alert"] for group in documents(OPERATE / "alerts.yml")["groups"] for rule in group["rules"]]
    assert set(PROVOKED) == set(alerts)
    assert fired(tmp_path, {}) == set()
    for alert, changed in PROVOKED.items():
        assert fired(tmp_path, changed) == {alert}
    paused = {'duly_oldest_ready_seconds{queue="q"}': "301x60", 'duly_queue_paused{queue="q"}': "1x60"}
    assert fired(tmp_path, paused) == {"DulyQueuePaused"}


def test_node_exporter_reads_the_file(metrics: Metrics, client: duly.Client, tmp_path: Path) -> None:
    client.queue("orders").push(1, delay=60)
    (tmp_path / "duly.prom").write_text(metrics()[1], "utf-8")
    program = shutil.which("prometheus-node-exporter")
    assert program, "node_exporter is missing: run tools/setup.sh"
    arguments = ["--collector.disable-defaults", "--collector.textfile", "--web.listen-address=127.0.0.1:0"]
    folder = f"--collector.textfile.directory={tmp_path}"
    with subprocess.Popen([program, *arguments, folder], stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        at = next(found for line in process.stderr if (found := re.search(r"address=(127\.0\.0\.1:\d+)", line)))
        with urlopen(f"http://{at[1]}/metrics") as answer:
            text = answer.read().decode()
        process.terminate()
        process.stderr.read()
    values = {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in older_form(text)
        for sample in family.samples
    }
    assert value(values, "duly_jobs", queue="orders", state="delayed") == 1
    assert value(values, "duly_jobs_pushed_total", queue="orders") == 1
    assert value(values, "node_textfile_scrape_error") == 0
    assert {name for name, _ in values} >= OF_NODE_EXPORTER
