"""What the command `duly` says and does: real processes."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import duly
import pytest
from support import Command, Server, Start, asks, commands, until, way_to


def test_counts_shows_queues(start: Start, orders: duly.Queue) -> None:
    orders.push({"text": "one"}, name="note", delay=60)
    said, _ = start("counts", "orders").communicate(timeout=20)
    assert said == "orders: delayed 1  ready 0  reserved 0  failed 0\n"


def test_queues_are_listed_with_what_is_in_them(duly_command: Command, client: duly.Client) -> None:
    assert duly_command("queues") == (0, "no queue was used under this prefix\n", "")
    client.queue("orders").push(1, delay=60)
    client.partitions("mail", 2).push(1, key="k")
    status, out, _ = duly_command("queues")
    rows = [line.split() for line in out.splitlines()]
    assert (status, rows[0][:5]) == (0, ["QUEUE", "DELAYED", "READY", "RESERVED", "FAILED"])
    assert [row[:5] for row in rows[1:]] == [["mail", "0", "1", "0", "0"], ["orders", "1", "0", "0", "0"]]
    mail, orders = json.loads(duly_command("queues", "--json")[1])
    assert (mail["queue"], mail["partitions"], mail["ready"], orders["delayed"]) == ("mail", 2, 1, 1)
    # How many parts a queue has is on the list.
    assert duly_command("counts")[1].splitlines()[0] == "mail: delayed 0  ready 1  reserved 0  failed 0"
    assert json.loads(duly_command("counts", "mail", "--json")[1])[0]["ready"] == 1
    client.queue("orders").pause()
    assert duly_command("queues")[1].splitlines()[2].endswith("  paused")


def test_a_queue_that_is_paused_in_part_is_said_to_be(
    duly_command: Command, client: duly.Client, server: Server, prefix: str
) -> None:
    queue = client.partitions("mail", 4)
    queue.push_many([duly.NewJob(number) for number in range(40)])
    queue.pause()
    # As a resume leaves it that fails behind two of them.
    for part in (0, 1):
        server.cli("HDEL", f"{prefix}{{mail/{part}}}:meta", "paused")
    assert queue.counts().paused
    assert 0 < len(queue.reserve_many(40)) < 40
    said = "paused in 2 of 4 partitions"
    assert duly_command("queues")[1].splitlines()[1].endswith(said)
    assert duly_command("counts", "mail")[1].endswith(f"  {said}\n")
    (value,) = json.loads(duly_command("counts", "mail", "--json")[1])
    assert (value["paused"], value["paused_parts"]) == (True, 2)
    assert said in duly_command("top", "--once", "--interval", "100ms")[1]
    advice = "`duly resume mail` hands out its jobs again; `duly pause mail` pauses the other partitions too"
    doctor = duly_command("doctor")[1]
    assert f"it is {said}" in doctor
    assert advice in doctor
    assert 'duly_queue_paused{queue="mail",partitioned="yes"} 1' in duly_command("metrics")[1]
    assert duly_command("resume", "mail")[0] == 0
    assert "paused" not in duly_command("queues")[1]


def completions(shell: str) -> str:
    command = [sys.executable, "-m", "duly", "completions", shell]
    environment = {**os.environ, "DULY_URL": "redis://127.0.0.1:1"}
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=20, env=environment)
    assert (ended.returncode, ended.stderr) == (0, "")
    return ended.stdout


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("duly requ", ["requeue"]),
        ("duly purge --yes mail fa", ["failed"]),
        ("duly requeue --older", ["--older-than"]),
        ("duly completions ", ["bash", "fish", "zsh"]),
    ],
)
def test_bash_completes_the_command(tmp_path: Path, typed: str, offered: list[str]) -> None:
    script = tmp_path / "duly.bash"
    script.write_text(completions("bash"), "utf-8")
    words = typed.split(" ")
    program = (
        'set -eu; source "$1"; shift; complete -p duly; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); set +eu; '
        '_duly duly "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    command = ["bash", "--norc", "-c", program, "bash", str(script), *words]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=20)
    registered, *found = ended.stdout.split("\n")[:-1]
    assert registered.startswith("complete "), ended.stderr
    assert registered.endswith(" duly")
    assert set(offered) <= set(found), (found, ended.stderr)
    assert all(word.startswith(words[-1]) for word in found)


@pytest.mark.parametrize(("shell", "part"), [("zsh", "#compdef duly"), ("fish", "complete -c duly")])
def test_other_shells_have_a_script_too(shell: str, part: str) -> None:
    script = completions(shell)
    assert part in script
    assert "requeue" in script
    if program := shutil.which(shell):
        assert subprocess.run([program, "-n"], input=script, text=True, check=False, timeout=20).returncode == 0


def test_of_two_queues_of_one_name_the_command_asks_which(duly_command: Command, client: duly.Client) -> None:
    client.queue("mixed").push(1)
    client.partitions("mixed", 4).push(1, key="k")
    for arguments in (["pause", "mixed"], ["counts", "mixed"], ["purge", "mixed", "ready", "--yes"]):
        status, out, err = duly_command(*arguments)
        assert (status, out) == (2, "")
        assert "say `--partitions 4` for the one with partitions, `--partitions 0` for the other one" in err
    assert duly_command("pause", "mixed", "--partitions", "4")[0] == 0
    assert (client.queue("mixed").counts().paused, client.partitions("mixed", 4).counts().paused) == (False, True)
    assert duly_command("pause", "mixed", "--partitions", "0")[0] == 0
    assert client.queue("mixed").counts().paused


def test_who_may_use_one_queue_alone_says_how_many_partitions_it_has(own_server: Server) -> None:
    own_server.cli("ACL", "SETUSER", "shop", "on", ">secret", "~duly:{orders}:*", "+@all")
    url = own_server.url.replace("unix://", "unix://shop:secret@")
    duly.Client(url).queue("orders").push(1)
    with commands("--url", url) as start:
        for verb in ("counts", "limits"):
            err = start(verb, "orders").communicate(timeout=60)[1]
            assert "give `--partitions`, 0 if it has none" in err
            command = start(verb, "orders", "--partitions", "0")
            err = command.communicate(timeout=60)[1]
            assert (command.returncode, err) == (0, "")


def test_another_number_of_partitions_than_the_list_has_is_refused(duly_command: Command, client: duly.Client) -> None:
    orders, mail = client.partitions("orders", 8), client.queue("mail")
    for number in range(10):
        orders.push(number, key=f"k{number}")
    mail.push(1)
    for command in (
        ["counts", "orders"],
        ["delete", "orders", "--jobs", "3", "--yes"],
        ["peek", "orders"],
        ["pause", "orders"],
        ["push", "orders", "1"],
        ["purge", "orders", "ready", "--yes"],
    ):
        status, out, err = duly_command(*command, "--partitions", "4")
        assert (status, out) == (2, ""), command
        assert "the queue orders has 8 partitions, not 4: say `--partitions 8`, or leave it out" in err
    assert orders.counts().ready == 10
    for command in (["push", "orders", "1", "--partitions", "0"], ["push", "mail", "1", "--partitions", "2"]):
        assert duly_command(*command)[0] == 2, command
    for name in ("orders", "mail"):
        assert duly_command("push", name, "1", "--partitions", "8" if name == "orders" else "0")[0] == 0
    # One that is not listed yet has the number that is said.
    assert duly_command("push", "new", "1", "--partitions", "2")[0] == 0
    assert client.partitions("new", 2).counts().ready == 1
    assert duly_command("delete", "orders", "--jobs", "11", "--yes")[0] == 0


def test_output_that_cannot_be_written_is_no_success(orders: duly.Queue, server: Server, prefix: str) -> None:
    orders.push(1)
    command = [sys.executable, "-m", "duly", "queues", "--url", server.url, "--prefix", prefix]
    with open("/dev/full", "w") as full:  # noqa: PTH123
        ended = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert ended.returncode == 1
    assert "the output could not be written: No space left on device" in ended.stderr


def test_an_argument_that_is_no_text_is_refused(server: Server) -> None:
    command = [sys.executable.encode(), b"-m", b"duly", b"find", b"orders", b"\xff", b"--url", server.url.encode()]
    ended = subprocess.run(command, capture_output=True, check=False)
    assert (ended.returncode, b"invalid UTF-8" in ended.stderr, b"Traceback" in ended.stderr) == (2, True, False)


def test_jobs_are_pushed_found_and_changed(duly_command: Command, orders: duly.Queue) -> None:
    push = ["push", "orders", '{"order":42}', "--name", "close", "--key", "42", "--delay", "30m", "--max-retries", "1"]
    status, out, _ = duly_command(*push, "--header", "tenant=acme", "--timeout", "90s", "--id", "a", "--priority", "2")
    assert (status, out) == (0, "a\n")
    job = orders.find("a")
    assert job is not None
    assert (job.data, job.name, job.key, job.headers) == ({"order": 42}, "close", "42", {"tenant": "acme"})
    assert (job.timeout, job.priority, job.max_retries) == (90.0, 2, 1)
    status, _, err = duly_command(*push)
    assert status == 1
    assert "'a'" in err
    status, out, _ = duly_command("find", "orders", "--key", "42")
    assert status == 0
    assert "waits for its due time, in 1" in out
    assert out.splitlines()[-1] == 'data        {"order":42}'
    assert duly_command("reschedule", "orders", "a", "--now")[0] == 0
    assert orders.counts().ready == 1
    status, out, _ = duly_command("peek", "orders", "--data")
    heading, row = out.splitlines()
    assert heading.split() == ["ID", "NAME", "KEY", "PRIORITY", "FAILURES", "ERROR", "DATA"]
    assert row.split() == ["a", "close", "42", "2", "0/2", '{"order":42}']
    found = json.loads(duly_command("find", "orders", "a", "--json")[1])
    assert (found["state"], found["package"]["data"]) == ("ready", {"order": 42})
    assert duly_command("cancel", "orders", "a", "--only", "failed")[0] == 1
    assert duly_command("cancel", "orders", "a") == (0, "a is cancelled; it was ready\n", "")
    status, _, err = duly_command("find", "orders", "a")
    assert (status, err) == (1, "duly: no job of orders has this id: it is done, was cancelled, or never was there\n")
    status, out, _ = duly_command("push", "orders", "1", "--at", "2100-01-01T00:00:00Z")
    found = orders.find(out.strip())
    assert found is not None
    assert found.at == 4102444800.0


def test_a_job_that_was_moved_away_and_back_is_found_once(duly_command: Command, orders: duly.Queue) -> None:
    for number in range(6):
        orders.push(number, id=f"a{number}")
    for number in range(0, 6, 2):
        orders.reschedule(f"a{number}", delay=60)
        orders.reschedule(f"a{number}", delay=0)
    _, out, _ = duly_command("find", "orders", "--state", "ready", "--json")
    assert sorted(job["id"] for job in json.loads(out)) == [f"a{number}" for number in range(6)]


def test_jobs_of_one_id_in_several_partitions_are_all_found(duly_command: Command, client: duly.Client) -> None:
    parted = client.partitions("parted", 4)
    for number in range(12):
        parted.push(number, id="a", key=f"k{number}", on_duplicate="keep")
    there = parted.counts().ready
    assert there > 1, "each partition has one, with the first key that came"
    _, out, _ = duly_command("find", "parted", "--state", "ready", "--json")
    assert len(json.loads(out)) == there


@pytest.mark.parametrize("key", ["close:42", "close order 42", "it's $(42)", "-42"])
def test_a_key_of_a_failed_job_is_told_of(duly_command: Command, orders: duly.Queue, key: str) -> None:
    orders.push(1, id="a", key=key, max_retries=0)
    job = orders.reserve()
    assert job is not None
    job.fail("no")
    for command in ("find", "why", "cancel"):
        status, _, said = duly_command(command, "orders", f"--key={key}")
        assert (status, "no live job of orders has this key: it is done, has failed" in said) == (1, True), command
        program, *advised = shlex.split(said.split("`")[1])
        assert (program, advised[:3]) == ("duly", ["find", "--state", "failed"])
        assert "a  " in duly_command(*advised)[1]


def test_each_job_that_is_named_is_cancelled_or_said_not_to_be(duly_command: Command, orders: duly.Queue) -> None:
    def push() -> None:
        for name in ("a", "c"):
            orders.push(1, id=name, delay=60)
        orders.push(1, id="b")

    push()
    status, out, err = duly_command("cancel", "orders", "a", "b", "x", "c", "--only", "delayed")
    assert (status, out) == (1, "a is cancelled; it was delayed\nc is cancelled; it was delayed\n")
    other_state, absent = err.splitlines()
    assert other_state == "duly: b is not cancelled: it is ready"
    assert absent == "duly: there is no job x in such a state"
    assert orders.cancel("b")
    push()
    status, out, err = duly_command("cancel", "orders", "a", "no\nid", "b", "c")
    assert (status, out.count("is cancelled")) == (2, 3)
    assert err.startswith("duly: no\\nid is not cancelled: ")
    assert "a job id must have " in err
    assert len(err.splitlines()) == 1


def test_failed_jobs_run_again_and_are_removed(duly_command: Command, orders: duly.Queue) -> None:
    for name in ("a", "b", "c"):
        orders.push(name, id=name)
        job = orders.reserve()
        assert job is not None
        job.fail("no such \x1b[31morder", final=True)
    status, out, _ = duly_command("peek", "orders", "failed")
    assert [line.split()[0] for line in out.splitlines()[1:]] == ["a", "b", "c"]
    assert "\x1b" not in out
    assert "no such \\u{1b}[31morder" in out
    status, out, err = duly_command("requeue", "orders", "a", "x")
    assert (status, out, err) == (1, "a is ready again\n", "duly: there is no failed job x\n")
    # Nobody is there to be asked.
    status, _, err = duly_command("requeue", "orders", "--all")
    assert status == 2
    assert "add --yes" in err
    assert orders.counts().failed == 2
    assert duly_command("requeue", "orders", "--all", "--yes")[1] == "2 of 2 failed jobs are ready again\n"
    status, _, err = duly_command("purge", "orders", "ready")
    assert (status, orders.counts().ready) == (2, 3), err
    assert duly_command("purge", "orders", "ready", "-y")[1] == "3 ready jobs of orders are removed\n"
    assert duly_command("purge", "orders", "ready") == (0, "0 ready jobs of orders are removed\n", "")
    # Its limits would go with it.
    assert duly_command("delete", "orders")[0] == 2
    assert duly_command("delete", "orders", "--yes")[1] == "the queue orders is removed\n"
    assert duly_command("queues")[1] == "no queue was used under this prefix\n"


def test_a_queue_that_is_not_there_is_not_removed(duly_command: Command, client: duly.Client) -> None:
    client.queue("orders").push(1)
    client.partitions("orders", 2).push(1, key="k")
    for name, *more in (["nosuch"], ["nosuch", "--partitions", "4"], ["nosuch", "--jobs", "7"]):
        status, out, err = duly_command("delete", name, *more, "--yes")
        assert (status, out) == (1, "")
        assert err == (
            f"duly: there is no queue {name}, or it was removed before: `duly queues` shows those that there are\n"
        )
    assert duly_command("delete", "orders", "--partitions", "0", "--jobs", "1", "--yes")[0] == 0
    # Once more, as after an answer that was lost. The other queue of the name stays.
    status, _, err = duly_command("delete", "orders", "--partitions", "0", "--jobs", "1", "--yes")
    assert (status, "or it was removed before" in err) == (1, True)
    assert client.partitions("orders", 2).counts().ready == 1


@pytest.mark.parametrize("is_listed", [True, False])
def test_a_queue_that_is_removed_by_half_is_removed_with_the_next_call(
    duly_command: Command, client: duly.Client, server: Server, prefix: str, *, is_listed: bool
) -> None:
    queue = client.partitions("mail", 2)
    for number in range(20):
        queue.push(number, key=f"k{number}")
    keys = [key for key in server.cli("KEYS", f"{prefix}*").split() if "mail" in key]
    tags = sorted({key[key.index("{") : key.index("}") + 1] for key in keys})
    assert len(tags) == 2
    server.cli("DEL", *[key for key in keys if tags[0] in key])
    if not is_listed:
        server.cli("DEL", f"{prefix}{{queues}}:queues")
    left = queue.counts().ready
    assert 0 < left < 20
    more = () if is_listed else ("--partitions", "2")
    assert duly_command("delete", "mail", "--jobs", str(left), "--yes", *more)[1] == "the queue mail is removed\n"
    assert duly_command("delete", "mail", "--yes", *more)[0] == 1


def test_a_failed_job_runs_again_with_other_data(duly_command: Command, orders: duly.Queue) -> None:
    orders.push({"order": 42}, id="a", max_retries=0)
    job = orders.reserve()
    assert job is not None
    job.fail("no such order")
    status, _, err = duly_command("requeue", "orders", "a", "--data", "{")
    assert status == 2, err
    assert duly_command("requeue", "orders", "a", "b", "--data", "1")[0] == 2
    assert duly_command("requeue", "orders", "a", "--data", '{"order": 43}') == (0, "a is ready again\n", "")
    job = orders.reserve()
    assert job is not None
    assert (job.data, job.attempts, job.error) == ({"order": 43}, 0, "")
    assert duly_command("requeue", "orders", "a", "--data", "1")[0] == 1


def test_other_data_is_for_one_job_that_is_named(duly_command: Command, orders: duly.Queue) -> None:
    orders.push({"order": 42}, id="a", name="order.close", max_retries=0)
    job = orders.reserve()
    assert job is not None
    job.fail("no such order")
    for which in (("--name", "order.close"), ("--error", "no such order"), ("a", "b"), ()):
        status, _, err = duly_command("requeue", "orders", *which, "--data", "1", "--yes")
        assert (status, "--data is for one job: give its id" in err) == (2, True), (which, err)
    assert orders.counts().failed == 1


def test_a_failed_job_that_cannot_run_again_is_no_success(duly_command: Command, orders: duly.Queue) -> None:
    orders.push(1, id="a", key="k")
    job = orders.reserve()
    assert job is not None
    job.fail("no", final=True)
    orders.push(2, id="b", key="k")
    status, out, err = duly_command("requeue", "orders", "--all", "--yes")
    assert (status, out) == (1, "0 of 1 failed jobs are ready again\n")
    assert "other jobs have their keys" in err


@pytest.fixture
def failed_mails(client: duly.Client) -> duly.Queue:
    """Give 12 failed jobs of two names, which failed in two ways, and one that is ready."""
    mail = client.queue("mail")
    for number in range(12):
        mail.push(number, name=["mail.send", "mail.read"][number % 2], key=f"mail:{number}", max_retries=0)
    for job in mail.reserve_many(12):
        job.fail(f"Timeout: {job.data} s\n  at /srv/mail.py:7 in send" if job.data < 6 else f"no mail {job.data}")
    mail.push(12, name="mail.send", key="mail:12")
    return mail


def test_jobs_are_found_by_what_they_have(duly_command: Command, failed_mails: duly.Queue) -> None:
    failed_mails.push("later", name="mail.send", delay=3600)
    status, out, err = duly_command("find", "mail", "--name", "mail.send")
    assert (status, err) == (0, "")
    assert [line.split()[0] for line in out.splitlines()] == ["STATE", "delayed", "ready", *["failed"] * 6]
    found = json.loads(duly_command("find", "mail", "--state", "failed", "--error", "no mail", "--json")[1])
    assert [job["package"]["data"] for job in found] == [6, 7, 8, 9, 10, 11]
    status, out, err = duly_command("find", "mail", "--state", "failed", "--limit", "2")
    assert (status, len(out.splitlines())) == (0, 3)
    assert err.startswith("duly: these are the first 2 ("), err
    twice = ("--state", "failed", "--state", "ready", "--state", "failed")
    assert duly_command("find", "mail", *twice, "--name", "none")[1] == "no job of mail matches (13 were looked at)\n"
    assert duly_command("find", "mail", "--limit", "0")[0] == 2
    assert duly_command("find", "mail", "--name", "none") == (0, "no job of mail matches (14 were looked at)\n", "")
    assert duly_command("find", "mail", "--key-prefix", "mail:1", "--priority", "5", "--state", "ready")[0] == 0
    for wrong in (["x", "--name", "y"], [], ["--state", "ready", "--since", "2026-12-01T00:00:00Z", "--error", ""]):
        status, out, err = duly_command("find", "mail", *wrong)
        assert (status, out) == (2, ""), (wrong, err)


def test_failed_jobs_come_in_groups_that_run_again(duly_command: Command, failed_mails: duly.Queue) -> None:
    groups = json.loads(duly_command("failed", "mail", "--json")[1])
    kinds = sorted((group["name"], group["kind"], group["count"]) for group in groups)
    timeout = "Timeout at /srv/mail.py:7 in send"
    assert kinds == [
        ("mail.read", timeout, 3),
        ("mail.read", "no mail #", 3),
        ("mail.send", timeout, 3),
        ("mail.send", "no mail #", 3),
    ]
    status, out, err = duly_command("failed", "mail", "--limit", "1")
    assert (status, len(out.splitlines())) == (0, 2)
    assert err == "duly: 9 of 12 failed jobs are in other groups: --limit shows more\n"
    group = ("--name", "mail.send", "--group", timeout)
    status, _, err = duly_command("requeue", "mail", *group)
    assert status == 2
    assert "Run 3 failed jobs of mail again? There is no terminal to ask on: add --yes" in err
    failed_mails.push("newer", name="mail.send", key="mail:2")
    status, out, err = duly_command("requeue", "mail", *group, "--yes")
    assert (status, out) == (1, "2 of 3 jobs are ready again\n")
    assert "other jobs have their keys" in err
    assert duly_command("purge", "mail", "failed", *group, "--yes")[1] == "1 of 1 jobs are removed\n"
    assert duly_command("requeue", "mail", *group, "--yes") == (0, "no failed job of mail matches\n", "")
    assert failed_mails.counts().failed == 9
    assert duly_command("failed", "other") == (0, "no job of other has failed for good\n", "")


def test_all_that_match_are_cancelled_or_rescheduled(duly_command: Command, orders: duly.Queue) -> None:
    for number in range(300):
        orders.push(number, name=["order.close", "order.ship"][number % 2], delay=3600 if number < 200 else 0)
    out = duly_command("reschedule", "orders", "--name", "order.close", "--delay", "2h", "--yes")[1]
    assert out == "150 of 150 jobs have another due time\n"
    assert orders.counts().delayed == 250
    out = duly_command("cancel", "orders", "--only", "delayed", "--name", "order.close", "--yes")[1]
    assert out == "150 of 150 jobs are removed\n"
    counts = orders.counts()
    assert (counts.delayed, counts.ready) == (100, 50)
    for wrong in (["--name", "x"], [], ["some-id", "--name", "x", "--only", "ready"]):
        assert duly_command("cancel", "orders", *wrong)[0] == 2, wrong
    assert duly_command("requeue", "orders")[0] == 2
    assert duly_command("reschedule", "orders", "--now")[0] == 2


@pytest.mark.parametrize(
    ("act", "look"),
    [
        (["cancel", "--only", "delayed", "--only", "ready"], b"ready"),
        # Delayed jobs are looked at first, whatever the order.
        (["cancel", "--only", "ready", "--only", "delayed"], b"delayed"),
        (["reschedule", "--delay", "2h"], b"ready"),
    ],
)
def test_a_job_that_becomes_ready_between_two_looks_is_counted_once(
    orders: duly.Queue, server: Server, prefix: str, act: list[str], look: bytes
) -> None:
    for name in "abc":
        orders.push(name, id=name, name="x", delay=3600)
    command = [sys.executable, "-m", "duly", act[0], "orders", *act[1:], "--name", "x", "--yes", "--prefix", prefix]
    # Before the look at jobs of that state.
    with way_to(server, b"\r\n%b\r\n" % look, lambda: orders.reschedule("b", delay=0)) as url:
        ended = subprocess.run([*command, "--url", url], capture_output=True, text=True, check=False)
    done = {"cancel": "are removed", "reschedule": "have another due time"}[act[0]]
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, f"3 of 3 jobs {done}\n", "")
    counts = orders.counts()
    assert (counts.delayed, counts.ready) == ((0, 0) if act[0] == "cancel" else (3, 0))


def test_a_queue_that_cannot_be_read_hides_no_other(
    duly_command: Command, client: duly.Client, server: Server, prefix: str
) -> None:
    for name in ("a", "b", "c"):
        client.queue(name).push(1)
    until(lambda: len(client.queues().queues) == 3, "they are not listed")
    server.cli("DEL", f"{prefix}{{b}}:ready:5")
    server.cli("SET", f"{prefix}{{b}}:ready:5", "foreign")
    # A hash that is none, and a name that is none.
    server.cli("SET", f"{prefix}{{d}}:meta", "foreign")
    for name in ("d", "\x1b[31mno name"):
        server.cli("ZADD", f"{prefix}{{queues}}:queues", "0", name)
        server.cli(
            "HSET", f"{prefix}{{queues}}:queues_used", name, server.cli("HGET", f"{prefix}{{queues}}:queues_used", "a")
        )
    for command in ("queues", "counts"):
        status, out, err = duly_command(command)
        assert (status, len(out.splitlines())) == (1, 3 if command == "queues" else 2), out
        assert f"{prefix}{{b}}:ready:5" in err
        assert len(err.splitlines()) == 3, err
        assert "\\u{1b}[31mno name" in err, err
    assert duly_command("counts", "no name")[0] == 2


def test_what_is_set_for_a_queue_that_was_never_used_is_set_and_said(duly_command: Command, orders: duly.Queue) -> None:
    orders.push(1)
    unused = "duly: no queue order was used so far: `duly queues` shows those that were\n"
    assert duly_command("pause", "order") == (0, "order is paused\n", unused)
    assert duly_command("resume", "order")[2] == "", "it is on the list now"
    assert "no queue mails was used so far" in duly_command("limits", "mails", "--concurrency", "5")[2]
    assert duly_command("limits", "mail") == (0, duly_command("limits", "orders")[1], "")
    assert duly_command("pause", "orders")[2] == ""


def test_queues_are_paused_limited_and_audited(
    duly_command: Command, orders: duly.Queue, server: Server, prefix: str
) -> None:
    orders.push(1, id="a")
    assert duly_command("pause", "orders")[1] == "orders is paused\n"
    assert orders.counts().paused
    assert duly_command("resume", "orders")[1] == "orders hands out jobs again\n"
    assert not orders.counts().paused
    duly_command("limits", "orders", "--concurrency", "5")
    duly_command("limits", "orders", "--name", "mail.send", "--rate", "100/m", "--concurrency", "2")
    status, out, _ = duly_command("limits", "orders")
    assert [line.split() for line in out.splitlines()[1:]] == [
        ["(the", "whole", "queue)", "5", "-"],
        ["mail.send", "2", "100", "in", "60", "s"],
    ]
    duly_command("limits", "orders", "--name", "mail.send", "--rate", "100/.5s")
    assert "100 in 0.5 s" in duly_command("limits", "orders")[1]
    duly_command("limits", "orders", "--name", "mail.send", "--rate", "none", "--concurrency", "none")
    (limits,) = json.loads(duly_command("limits", "orders", "--json")[1])
    assert limits == {"name": None, "concurrency": 5, "rate": None, "max_length": None}
    assert duly_command("limits", "orders", "--max-length", "3")[1].endswith("the queue takes 3 jobs at the most\n")
    # Each changes what it names.
    duly_command("limits", "orders", "--concurrency", "7")
    (limits,) = json.loads(duly_command("limits", "orders", "--json")[1])
    assert (limits["concurrency"], limits["max_length"]) == (7, 3)
    assert duly_command("push", "orders", "1")[0] == 0
    assert duly_command("push", "orders", "1")[0] == 0
    status, out, err = duly_command("push", "orders", "1")
    assert (status, out) == (1, "")
    assert "takes 3 jobs at the most" in err
    assert duly_command("limits", "orders", "--max-length", "many")[0] == 2
    assert duly_command("limits", "orders", "--name", "a", "--max-length", "5")[0] == 2
    duly_command("limits", "orders", "--max-length", "none")
    assert duly_command("push", "orders", "1")[0] == 0
    duly_command("purge", "orders", "ready", "--yes")
    orders.push(1, id="a")
    assert duly_command("workers", "orders")[1] == "no worker serves orders\n"
    assert duly_command("audit", "orders") == (0, "1 jobs were looked at: nothing is broken\n", "")
    server.cli("DEL", f"{prefix}{{orders}}:ready:5")
    status, out, _ = duly_command("audit", "orders")
    assert (status, out.splitlines()[-1]) == (1, "--repair mends them")
    assert duly_command("audit", "orders", "--repair")[0] == 0
    assert orders.counts().ready == 1


def test_rates_say_what_runs_came_to(duly_command: Command, client: duly.Client, orders: duly.Queue) -> None:
    status, out, _ = duly_command("rates", "orders")
    assert (status, out[:32]) == (0, "no run of orders ended since 202")
    orders.push_many([duly.NewJob(name="good") for _ in range(3)])
    orders.push(name="bad", max_retries=0)
    worker = duly.Worker(client, ["orders"], max_jobs=4)
    worker.on("good", lambda _: None)
    worker.run()
    status, out, _ = duly_command("rates", "orders", "--within", "8h")
    rows = [line.split() for line in out.splitlines()]
    assert (status, rows[0][:5]) == (0, ["NAME", "DONE", "FAILED", "RETRIED", "RELEASED"])
    assert [row[:5] for row in rows[1:]] == [
        ["good", "3", "0", "0", "0"],
        ["bad", "0", "1", "0", "0"],
        ["(all)", "3", "1", "0", "0"],
    ]
    by_minute = duly_command("rates", "orders", "--windows")[1].splitlines()
    assert by_minute[0].split()[:3] == ["SINCE", "(UTC)", "DONE"]
    assert by_minute[-1].split()[:3] == ["(all)", "3", "1"]
    rates = json.loads(duly_command("rates", "orders", "--json")[1])
    assert (rates["total"]["done"], rates["total"]["wait"]["count"], rates["names"][0]["name"]) == (3, 4, "good")
    assert duly_command("rates", "orders", "--within", "4d")[0] == 2


def test_schedules_are_shown_and_acted_on(duly_command: Command, orders: duly.Queue) -> None:
    assert duly_command("schedules", "orders")[1] == "orders has no schedules\n"
    orders.schedules.put("daily", duly.Schedule(duly.NewJob(name="report"), cron="0 6 * * *", tz="Asia/Shanghai"))
    orders.schedules.put("often", duly.Schedule(duly.NewJob(name="sync"), every=3600))
    status, out, _ = duly_command("schedules", "orders")
    assert status == 0
    assert "0 6 * * * (Asia/Shanghai)" in out
    assert "every 1h 0m" in out
    assert duly_command("schedules", "orders", "daily", "--pause")[1] == "daily is paused\n"
    assert duly_command("schedules", "orders", "daily")[1].splitlines()[1].endswith("paused")
    assert duly_command("schedules", "orders", "daily", "--resume")[1] == "daily fires again\n"
    for act in ("pause", "resume"):
        done = json.loads(duly_command("schedules", "orders", "daily", f"--{act}", "--json")[1])
        assert done == {"name": "daily", "done": f"{act}d"}
    shown = json.loads(duly_command("schedules", "orders", "daily", "--json")[1])
    assert len(shown["next_slots"]) == 5
    ran = json.loads(duly_command("schedules", "orders", "daily", "--run-now", "--json")[1])
    assert ran["name"] == "daily"
    assert orders.find(ran["job"]) is not None
    orders.cancel(ran["job"])
    job = orders.find(duly_command("schedules", "orders", "daily", "--run-now")[1].strip())
    assert job is not None
    assert job.name == "report"
    assert duly_command("schedules", "orders", "daily", "--remove")[0] == 2
    assert duly_command("schedules", "orders", "daily", "--remove", "--yes")[1] == "daily is removed\n"
    status, _, err = duly_command("schedules", "orders", "daily")
    assert status == 1
    assert "there is no schedule 'daily'" in err


def test_a_terminal_is_asked_before_jobs_are_removed(server: Server, prefix: str, orders: duly.Queue) -> None:
    orders.push(1)
    command = [sys.executable, "-m", "duly", "purge", "orders", "ready", "--url", server.url, "--prefix", prefix]
    for answer, left in ((b"n\n", 1), (b"y\n", 0)):
        ours, theirs = os.openpty()
        with subprocess.Popen(command, stdin=theirs, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            os.close(theirs)
            os.write(ours, answer)
            _, err = process.communicate(timeout=60)
        os.close(ours)
        assert err.startswith(
            b"Remove all 1 ready jobs of orders? If others come before you answer, as many of all of them"
        )
        assert b": those that are to run first. [y/N] " in err
        assert (process.returncode, orders.counts().ready) == (left, left)


@pytest.mark.parametrize("parts", [0, 4])
def test_a_yes_acts_on_no_more_jobs_than_were_asked_about(
    server: Server, prefix: str, client: duly.Client, parts: int
) -> None:
    queue = client.partitions("orders", parts) if parts else client.queue("orders")

    def fail(begin: str, count: int) -> None:
        for number in range(count):
            queue.push(number, id=f"{begin}{number}", key=f"{begin}{number}")
            job = queue.reserve()
            assert job is not None
            job.fail("no", final=True)

    def answer(*arguments: str, come: str) -> tuple[int, str, str]:
        command = [sys.executable, "-m", "duly", *arguments, "--url", server.url, "--prefix", prefix]
        with asks(command) as (process, ours):
            fail(come, 40)
            os.write(ours, b"y\n")
            out, err = process.communicate(timeout=60)
        return process.returncode, out.decode(), err.decode()

    left = "duly: jobs that are left in failed: 40\n"
    fail("purged", 3)
    assert answer("purge", "orders", "failed", come="b") == (0, "3 failed jobs of orders are removed\n", left)
    assert queue.find("purged0") is None
    queue.purge("failed")
    fail("again", 3)
    status, out, err = answer("requeue", "orders", "--all", come="d")
    assert (status, out, err) == (0, "3 of 3 failed jobs are ready again\n", left)
    assert {job.id for job in queue.peek("ready")} == {"again0", "again1", "again2"}


def test_what_was_removed_before_an_error_is_said(client: duly.Client, server: Server, prefix: str) -> None:
    queue = client.partitions("mail", 2)
    queue.push_many([duly.NewJob(number) for number in range(40)])
    key = f"{prefix}{{mail/1}}:returned"
    with way_to(server, key.encode(), lambda: server.cli("SET", key, "foreign")) as url:
        command = [sys.executable, "-m", "duly", "purge", "mail", "ready", "--yes", "--url", url, "--prefix", prefix]
        ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)
    left = queue.counts().ready
    assert (ended.returncode, ended.stdout) == (1, "")
    assert f"; {40 - left} jobs were removed before that" in ended.stderr
    assert 0 < left < 40


def test_help_shows_all_commands() -> None:
    shown = subprocess.run([sys.executable, "-m", "duly", "--help"], capture_output=True, text=True, check=True).stdout
    for name in (
        "queues",
        "peek",
        "find",
        "push",
        "requeue",
        "schedules",
        "top",
        "metrics",
        "doctor",
        "audit",
        "bench",
        "bridge",
        "worker",
    ):
        assert f"  {name} " in shown


def test_the_command_is_a_function(
    server: Server, prefix: str, orders: duly.Queue, capfd: pytest.CaptureFixture[str]
) -> None:
    orders.push(1)
    assert duly.command(["counts", "orders", "--url", server.url, "--prefix", prefix]) == 0
    assert capfd.readouterr().out == "orders: delayed 0  ready 1  reserved 0  failed 0\n"
    assert duly.command(("bridge", "drain")) == 2
    assert "--from" in capfd.readouterr().err


def test_bridge_takes_over_the_jobs_of_another_queue(
    start: Start, orders: duly.Queue, server: Server, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def bridge(mode: str, *more: str) -> tuple[int, str, str]:
        command = start("bridge", mode, "--from", "list", "--ready", f"{prefix}old", "--to", "orders", *more)
        out, err = command.communicate(timeout=60)
        return command.returncode, out, err

    server.cli("rpush", f"{prefix}old", '{"order":1}', "two")
    status, out, _ = bridge("dry-run")
    assert (status, out.splitlines()[-1]) == (0, "nothing was moved")
    status, out, _ = bridge("drain", "--name", "close")
    assert (status, out.splitlines()[-1]) == (0, "counts before and after agree: nothing is left")
    assert [(job.name, job.data) for job in orders.peek("ready")] == [("close", {"order": 1}), ("close", "two")]

    follow = start("bridge", "follow", "--from", "list", "--ready", f"{prefix}old", "--to", "orders")
    server.cli("rpush", f"{prefix}old", "3")
    until(lambda: orders.counts().ready == 3, "it does not come over")
    follow.send_signal(signal.SIGINT)
    out, err = follow.communicate(timeout=30)
    assert (follow.returncode, err) == (0, "")
    assert "1" in out

    status, _, err = bridge("drain", "--source", "redis://127.0.0.1:1")
    assert status == 1
    assert err.startswith("duly: bridge: ")
    # A password on the command line is seen by every user of the machine.
    monkeypatch.setenv("DULY_SOURCE_URL", "redis://127.0.0.1:1")
    assert bridge("drain")[:2] == (1, "")
    monkeypatch.setenv("DULY_SOURCE_URL", "")
    assert bridge("dry-run")[0] == 0
    status, _, err = bridge("all")
    assert status == 2
    assert "dry-run" in err


def test_a_bridge_takes_the_number_of_partitions_from_the_list(
    duly_command: Command, client: duly.Client, server: Server, prefix: str
) -> None:
    orders = client.partitions("orders", 4)
    orders.push(0)
    server.cli("rpush", f"{prefix}old", *map(str, range(20)))
    options = ["--from", "list", "--ready", f"{prefix}old", "--to", "orders"]
    for mode in ("dry-run", "drain", "follow"):
        for given, said in (("2", "not 2"), ("1", "not 0"), ("0", "not 0")):
            status, out, err = duly_command("bridge", mode, *options, "--partitions", given)
            assert (status, out) == (2, "")
            assert f"the queue orders has 4 partitions, {said}: say `--partitions 4`, or leave it out" in err
    assert server.cli("llen", f"{prefix}old").strip() == "20"
    status, _, err = duly_command("bridge", "drain", "--from", "think-queue", "--queue", "mail", "--queue", "orders")
    assert (status, "run a bridge for each number" in err) == (2, True)
    assert duly_command("bridge", "drain", *options)[0] == 0
    assert orders.counts().ready == 21
    assert [queue.partitions for queue in client.queues().queues] == [4]
    server.cli("rpush", f"{prefix}old", "1")
    # A queue that is not listed yet has the number that is said, in the next run, too, whichever parts jobs came into.
    for ready in (1, 2):
        assert duly_command("bridge", "drain", *options[:-1], "new", "--partitions", "3")[0] == 0
        assert client.partitions("new", 3).counts().ready == ready
        server.cli("rpush", f"{prefix}old", "1")
    assert duly_command("bridge", "drain", *options[:-1], "new")[0] == 0
    assert client.partitions("new", 3).counts().ready == 3
    # It has fewer by now.
    assert client.partitions("new", 3).purge("ready") == 3
    server.cli("rpush", f"{prefix}old", "1")
    fewer = ["bridge", "drain", *options[:-1], "new", "--partitions", "2"]
    assert "when it is empty: `duly delete new`" in duly_command(*fewer)[2]
    assert duly_command("delete", "new", "--yes")[0] == 0
    assert duly_command(*fewer)[0] == 0
    assert client.partitions("new", 2).counts().ready == 1


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (
            ["--from", "list", "--ready", "a", "--queue", "b"],
            "--queue is no option of --from list, but of think-queue,",
        ),
        (["--from", "thinkphp", "--newest-first"], "--newest-first is no option of --from thinkphp, but of list"),
        (["--from", "celery", "--queue", "a", "--name", "b"], "--name is no option of --from celery"),
        (["--from", "gmq"], "say which queues: --queue NAME"),
        (["--from", "sorted-set"], "say which key it is: --delayed KEY"),
        (["--from", "thinkphp", "--durability", "often"], "durability must be 'none', 'fsync', or 'wait:<n>'"),
    ],
)
def test_an_option_that_means_nothing_is_refused(start: Start, arguments: list[str], says: str) -> None:
    command = start("bridge", "drain", *arguments)
    out, err = command.communicate(timeout=20)
    assert (command.returncode, out) == (2, "")
    assert says in err


def test_a_job_counts_as_taken_over_when_it_is_as_durable_as_was_asked(
    start: Start, orders: duly.Queue, server: Server, prefix: str
) -> None:
    server.cli("rpush", f"{prefix}old", "1")
    # The server of the tests has no replica.
    options = ["--from", "list", "--ready", f"{prefix}old", "--to", "orders"]
    command = start("bridge", "drain", *options, "--durability", "wait:1")
    _, err = command.communicate(timeout=60)
    assert command.returncode == 1
    assert "wait:1" in err or "replica" in err
    command = start("bridge", "drain", *options)
    out, _ = command.communicate(timeout=60)
    assert command.returncode == 0, out
    assert orders.counts().ready == 1


def test_what_is_given_back_is_as_durable_as_was_asked(
    start: Start, orders: duly.Queue, server: Server, prefix: str
) -> None:
    orders.push(1)
    keys = ["--ready", f"{prefix}old", "--delayed", f"{prefix}delayed", "--failed", f"{prefix}failed"]
    options = ["--from", "thinkphp", "--to", "orders", *keys]
    server.cli("set", f"{prefix}old", "foreign")
    assert start("bridge", "drain", "--back", *options).wait(60) == 1
    server.cli("del", f"{prefix}old")
    # The server of the tests has no replica.
    command = start("bridge", "give-back", *options, "--durability", "wait:1")
    _, err = command.communicate(timeout=60)
    assert command.returncode == 1, err
    command = start("bridge", "give-back", *options)
    out, err = command.communicate(timeout=60)
    assert (command.returncode, out) == (0, "1 job is in duly again\n"), err
    assert orders.counts().ready == 1
