"""What the page does to jobs: once, to those that were asked about, and to its end."""

from __future__ import annotations

import re
import shlex
import signal
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from html import unescape
from urllib.parse import urlencode

import duly
import pytest
from slow_lines import Line, slow_lines
from support import Server, until, way_to
from web_client import POLICY, Forms, StartWeb, Web, fail, there


def test_a_job_is_rescheduled_and_cancelled(web: Web, client: duly.Client) -> None:
    queue = client.queue("orders")
    queue.push(1, id="a b", delay=60)
    page = "/job?queue=orders&id=a+b"
    assert web.act(page, "reschedule", delay="2h") == "The job a b has another due time."
    found = queue.find("a b")
    assert found is not None
    assert "waits for its due time, in 7" in found.why
    web.act(page, "reschedule", at="2100-01-01T00:00")
    found = queue.find("a b")
    assert found is not None
    assert found.at == 4102444800.0
    form = web.form(page, "reschedule")
    for wrong in (
        {},
        {"delay": "soon"},
        {"at": "soon"},
        {"delay": "1h", "at": "2100-01-01T00:00"},
        {"delay": "999999d"},
    ):
        # What did nothing may be sent again.
        assert web.post(form.action, {**form.fields, **wrong}).status == 400, wrong
    web.act(page, "run-now")
    assert queue.counts().ready == 1
    asked = "/ask-cancel?queue=orders&parts=0&id=a+b"
    assert asked in [unescape(link) for link in Forms(web.ask("GET", page).text).links]
    form = web.form(asked, "cancel")
    assert web.act(asked, "cancel") == "The job a b is cancelled."
    assert web.post(form.action, form.fields).status == 404
    assert queue.counts().ready == 0


def test_a_form_that_is_refused_says_so(web: Web, client: duly.Client) -> None:
    queue = client.queue("orders")
    queue.push(1, id="a", delay=60)
    form = web.form("/job?queue=orders&id=a", "reschedule")
    queue.cancel("a")
    answer = web.post(form.action, {**form.fields, "delay": "2h"})
    assert (answer.status, "<h1>This is refused</h1>" in answer.text) == (404, True), answer.text


def test_of_a_queue_with_partitions_the_newest_failed_jobs_come_first(web: Web, client: duly.Client) -> None:
    mail = client.partitions("mail", 4)
    for number in range(60):
        fail(mail, f"job-{number:02}", key=str(number))
    failed_at = {job.id: job.at or 0 for job in mail.peek("failed", limit=1000)}
    assert [part.counts().failed > 0 for part in mail.parts] == [True] * 4
    seen: list[str] = []
    page = "/queue?queue=mail&state=failed"
    while page:
        text = web.ask("GET", page).text
        seen += re.findall(r'class="id" href="[^"]*id=(job-\d+)"', text)
        following = re.search(r'rel="next" href="([^"]*)"', text)
        page = there(unescape(following[1])) if following else ""
    assert set(seen) == set(failed_at)
    assert [failed_at[id_] for id_ in seen] == sorted(failed_at.values(), reverse=True)
    newest = re.findall(r'class="id" href="[^"]*id=(job-\d+)"', web.get("/failed").text)
    assert newest == seen[:5]


def test_failed_jobs_run_again_and_are_removed(web: Web, client: duly.Client) -> None:
    queue = client.queue("orders")
    for name in ("a", "b", "c", "d"):
        fail(queue, name)
    # The newest first.
    assert re.findall(r'class="id" href="job\?queue=orders&amp;parts=0&amp;id=(.)"', web.get("/failed").text) == [
        "d",
        "c",
        "b",
        "a",
    ]
    assert web.act("/job?queue=orders&id=a", "requeue") == "The job a is ready again."
    assert web.act("/queue?queue=orders&state=failed", "requeue") == "The job d is ready again."
    asked = web.get("/ask-requeue-all", queue="orders")
    assert "Run all 2 failed jobs of orders again?" in asked.text
    assert web.act("/ask-requeue-all?queue=orders&from=failed", "requeue-all") == "2 jobs are ready again."
    assert queue.counts().ready == 4
    assert "Remove all 4 ready jobs of orders?" in web.get("/ask-purge", queue="orders", state="ready").text
    assert web.act("/ask-purge?queue=orders&state=ready", "purge") == "4 jobs are removed."
    assert "There is none any more" in web.get("/ask-purge", queue="orders", state="ready").text
    assert queue.counts().ready == 0


def test_jobs_that_match_run_again_and_are_removed(web: Web, client: duly.Client) -> None:
    queue = client.queue("mail")
    for number in range(130):
        queue.push(number, name=["mail.send", "mail.read"][number % 2], key=f"mail:{number}", max_retries=0)
    for job in queue.reserve_many(130):
        job.fail("Timeout: 1 s" if job.data < 120 else f"no mail {job.data}")
    page = web.get("/jobs", queue="mail", state="failed", name="mail.send", error="Timeout").text
    assert "50 of " in page
    assert page.count('class="id"') == 50
    onward = [link for link in Forms(page).links if "cursor=" in link]
    assert len(onward) == 1
    assert web.ask("GET", onward[0]).text.count('class="id"') == 10
    fields = urlencode({"queue": "mail", "state": "failed", "name": "mail.send", "error": "Timeout"})
    asked = web.ask("GET", f"/ask-requeue-matching?{fields}").text
    assert "Run 60 failed jobs of mail that match again?" in asked
    queue.push(0, key="mail:0")
    notice = "59 jobs are ready again; 1 were not run again: other jobs have their keys, or somebody else was first."
    assert web.act(f"/ask-requeue-matching?{fields}", "requeue-matching") == notice
    fields = urlencode({"queue": "mail", "state": "ready", "key_prefix": "mail:1", "priority": "5"})
    assert web.act(f"/ask-cancel-matching?{fields}", "cancel-matching") == "15 jobs are removed."
    # More than was asked about is not touched.
    fields = urlencode({"queue": "mail", "state": "failed", "name": "mail.read", "error": "no mail"})
    form = web.form(f"/ask-cancel-matching?{fields}", "cancel-matching")
    assert "mail.read" in web.ask("GET", f"/ask-cancel-matching?{fields}").text
    queue.push("later", name="mail.read", max_retries=0)
    while taken := queue.reserve():
        taken.fail("no mail") if taken.data == "later" else taken.ack()
    assert "5 jobs are removed." in web.say_yes(form)
    assert [job.data for job in queue.search("failed", name="mail.read", error="no mail").jobs] == ["later"]
    assert web.get("/ask-requeue-matching", queue="mail", state="ready", name="x").status == 404
    none = web.get("/jobs", queue="mail", state="ready", name="none").text
    assert "None of these jobs matches." in none
    assert "ask-" not in none
    for act, state in (("cancel-matching", "ready"), ("requeue-matching", "failed")):
        asked = web.get(f"/ask-{act}", queue="mail", state=state, name="none").text
        assert f"No {state} job of mail matches<" in asked
        assert "There is nothing to do. Go back" in asked
        assert f"act-{act}" not in asked
    for wrong in ("priority=11", "priority=x", "cursor=1-zz"):
        assert web.ask("GET", f"/jobs?queue=mail&state=failed&{wrong}").status == 400


def test_a_filter_looks_on_behind_large_jobs(
    web: Web, start_web: StartWeb, client: duly.Client, server: Server, prefix: str
) -> None:
    queue = client.queue("files")
    for number in range(60):
        queue.push("x" * 1_000_000, id=f"large{number}", max_retries=0)
        (job,) = queue.reserve_many(1)
        job.fail("no disk", final=True)
    fail(queue, "wanted", name="mail.send")
    fields = {"queue": "files", "state": "failed", "name": "mail.send"}
    page = web.get("/jobs", **fields).text
    assert re.findall(r'class="id" href="job\?queue=files&amp;parts=0&amp;id=(.*?)"', page) == ["wanted"]
    assert "1 of 61 jobs that were looked at match<" in page
    # On a line that is this late, two seconds are a few calls only.
    with slow_lines(server.socket, [Line(100_000_000, 0.4)]) as (url,):
        far = start_web(url, prefix)
        far.enter()
        link, pages = f"/jobs?{urlencode(fields)}", 0
        while 'class="id"' not in (text := far.ask("GET", link).text):
            looked_at = re.search(r"None of the (\d+) jobs that this page has looked at matches", text)
            assert looked_at is not None, text
            assert 0 < int(looked_at[1]) < 61
            # All that match, on whichever page they are.
            assert '"ask-cancel-matching?' in text
            (link,) = (each for each in Forms(text).links if "cursor=" in each and "lang=" not in each)
            pages += 1
        assert pages > 0
        assert '"ask-requeue-matching?' in text
        assert "本页查看的" in far.get("/jobs", **fields, lang="zh").text
    # The last page, without a job that matches.
    found = queue.search("failed", limit=60)
    fields["name"] = "none"
    last = web.get("/jobs", **fields, cursor=found.cursor or "").text
    assert "It is the last page." in last
    assert '"ask-requeue-matching?' in last


def test_a_filter_shows_jobs_of_one_id_in_several_partitions(web: Web, client: duly.Client) -> None:
    parted = client.partitions("parted", 4)
    for number in range(12):
        parted.push("x" * 900_000, id="same", key=f"k{number}", on_duplicate="keep", delay=3600)
        parted.push("x" * 900_000, id=f"other{number}", delay=3600)
    there = parted.counts().delayed
    assert there > 13, "each partition has one of the id, with the first key that came"
    # A page that was not full in time leads to another one.
    link, shown = "/jobs?queue=parted&parts=4&state=delayed", 0
    while link:
        page = web.ask("GET", link).text
        shown += page.count('class="id"')
        link = next((each for each in Forms(page).links if "cursor=" in each and "lang=" not in each), "")
    assert shown == there


def test_a_yes_means_the_jobs_that_were_asked_about(web: Web, client: duly.Client) -> None:
    queue = client.queue("mail")
    fields = urlencode({"queue": "mail", "state": "failed", "error": "ValueError"})
    for act, said in [("cancel-matching", "1 jobs are removed."), ("requeue-matching", "1 jobs are ready again")]:
        for number in range(3):
            fail(queue, f"{act}{number}")
        form = web.form(f"/ask-{act}?{fields}", act)
        queue.requeue(f"{act}1", f"{act}2")
        for job in queue.reserve_many(2):
            job.ack()
        for number in (3, 4):
            fail(queue, f"{act}{number}")
        assert said in web.say_yes(form)
        assert [job.id for job in queue.peek("failed")] == [f"{act}3", f"{act}4"]
        queue.purge("failed")
        queue.purge("ready")
    # Of ready jobs there is no time to tell by.
    for name in "abc":
        queue.push(name, id=name, name="x")
    ready = urlencode({"queue": "mail", "state": "ready", "name": "x"})
    form = web.form(f"/ask-cancel-matching?{ready}", "cancel-matching")
    queue.cancel("a")
    queue.push("d", id="d", name="x")
    asked = {**form.fields, "name": "y"}
    for wrong in (
        asked,
        {**form.fields, "asked": "x"},
        {**form.fields, "state": "failed"},
        {**form.fields, "asked": ""},
    ):
        answer = web.post(form.action, wrong)
        assert (answer.status, "asked too long ago" in answer.text) == (409, True)
    assert "2 jobs are removed." in web.say_yes(form)
    assert [job.id for job in queue.peek("ready")] == ["d"]


@pytest.mark.parametrize("parts", [0, 4])
def test_a_yes_to_all_acts_on_no_more_jobs_than_were_asked_about(web: Web, client: duly.Client, parts: int) -> None:
    queue = client.partitions("mail", parts) if parts else client.queue("mail")
    fields = urlencode({"queue": "mail", "state": "failed", "parts": parts})
    for act, said in (("purge", "3 jobs are removed."), ("requeue-all", "3 jobs are ready again.")):
        for number in range(3):
            fail(queue, f"{act}{number}", key=f"{act}{number}")
        form = web.form(f"/ask-{act}?{fields}", act)
        for number in range(20):
            fail(queue, f"{act}-later{number}", key=f"{act}-later{number}")
        for wrong in ("", "x", "1:1"):
            if parts or wrong != "1:1":
                answer = web.post(form.action, {**form.fields, "asked": wrong})
                assert answer.status in (400, 409), wrong
        assert queue.counts().failed == 23
        assert web.say_yes(form) == f"{said} Jobs that are left in this state: 20."
        assert {job.id.rstrip("0123456789") for job in queue.peek("failed")} == {f"{act}-later"}
        queue.purge("failed")
    assert queue.counts().ready == 3


def test_a_yes_to_failed_jobs_takes_none_that_failed_since(web: Web, client: duly.Client) -> None:
    queue = client.queue("mail")
    for number in range(3):
        fail(queue, f"asked{number}")
    form = web.form("/ask-purge?queue=mail&state=failed", "purge")
    queue.cancel("asked1")
    for number in range(3):
        fail(queue, f"later{number}")
    assert web.say_yes(form) == "2 jobs are removed. Jobs that are left in this state: 3."
    assert {job.id for job in queue.peek("failed")} == {"later0", "later1", "later2"}


def test_a_yes_says_which_jobs_it_takes(web: Web, client: duly.Client) -> None:
    queue = client.queue("mail")
    for number in range(2):
        queue.push(1, id=f"asked{number}", delay=3600)
    page = "/ask-purge?queue=mail&state=delayed"
    assert "delayed ones by their due time" in web.ask("GET", page).text
    assert "延迟任务按到期时间" in web.ask("GET", f"{page}&lang=zh").text
    web.get("/", lang="en")
    form = web.form(page, "purge")
    for number in range(2):
        queue.push(1, id=f"sooner{number}", delay=60)
    assert web.say_yes(form) == "2 jobs are removed. Jobs that are left in this state: 2."
    assert {job.id for job in queue.peek("delayed")} == {"asked0", "asked1"}


def test_what_acts_on_no_job_says_why(web: Web, client: duly.Client) -> None:
    queue = client.queue("mail")
    for act, why in (
        ("purge", "No job is removed: none of those is in this state any more."),
        ("requeue-all", "No job is ready again: none of those is in failed any more."),
        ("cancel-matching", "No job is removed: all of them had left this state, or somebody else had removed them."),
    ):
        for number in range(2):
            fail(queue, f"{act}{number}")
        form = web.form(f"/ask-{act}?queue=mail&state=failed", act)
        queue.purge("failed")
        assert web.say_yes(form).startswith(why)
    for number in range(3):
        fail(queue, f"some{number}")
    form = web.form("/ask-cancel-matching?queue=mail&state=failed", "cancel-matching")
    queue.requeue("some1")
    said = "2 jobs are removed. Jobs that had left this state, or that somebody else had removed: 1."
    assert web.say_yes(form) == said
    assert [job.id for job in queue.peek("ready")] == ["some1"]


def test_groups_of_failed_jobs_run_again_and_are_removed(web: Web, client: duly.Client) -> None:
    queue = client.queue("mail")
    for number in range(9):
        queue.push(number, max_retries=0, name="mail.send" if number < 6 else None)
    for job in queue.reserve_many(9):
        job.fail(f"Timeout: {job.data} s\n  at /srv/mail.py:7 in send" if job.data % 3 else f"no mail {job.data}")
    page = web.get("/groups", queue="mail").text
    assert "Groups: 4. Failed jobs: 9." in page
    assert "Timeout at /srv/mail.py:7 in send" in page
    links = Forms(page).links
    shown = [link for link in links if link.startswith("/jobs?")]
    counts = sorted(web.ask("GET", link).text.count('class="id"') for link in shown)
    assert counts == [1, 2, 2, 4]
    # A group of jobs without a name is no other one's.
    again = next(link for link in links if link.startswith("/ask-requeue-matching?") and "unnamed=1" in link)
    assert web.act(again, "requeue-matching") in ("1 jobs are ready again.", "2 jobs are ready again.")
    for link in Forms(web.get("/groups", queue="mail").text).links:
        if link.startswith("/ask-cancel-matching?"):
            assert web.act(link, "cancel-matching").endswith("are removed.")
    assert queue.counts().failed == 0
    assert "No job has failed for good" in web.get("/groups", queue="mail").text


def test_a_failed_job_runs_again_with_other_data(web: Web, client: duly.Client) -> None:
    queue = client.queue("orders")
    queue.push(
        {"order": "</textarea><script>"}, id="a", name="close", key="k", priority=2, max_retries=0, headers={"h": "1"}
    )
    job = queue.reserve()
    assert job is not None
    job.fail("no such order")
    page = "/job?queue=orders&parts=0&id=a"
    text = web.ask("GET", page).text
    assert "&lt;/textarea&gt;&lt;script&gt;" in text
    form = web.form(page, "requeue-with")
    assert "data" not in form.fields, "it is what the operator writes"
    for wrong in ("", "{", "NaN", "1 2"):
        assert web.post(form.action, {**form.fields, "data": wrong}).status == 400, wrong
    assert web.act(page, "requeue-with", data='{ "order": 7654321.0 }') == "The job a is ready again."
    job = queue.reserve()
    assert job is not None
    assert (job.raw, job.name, job.key, job.priority) == (b'{ "order": 7654321.0 }', "close", "k", 2)
    assert (job.attempts, job.headers) == (0, {"h": "1"})
    assert web.post(form.action, {**form.fields, "data": "1"}).status in (404, 409)
    queue.push("x" * 20_000, id="large", max_retries=0)
    job = queue.reserve()
    assert job is not None
    job.fail("no")
    assert "requeue-with" not in web.get("/job", queue="orders", id="large").text
    _, err = web.end()
    assert "requeue-with queue=orders parts=0 id=a: done" in err
    assert "7654321" not in err


def test_a_failed_job_whose_key_is_taken_stays(web: Web, client: duly.Client) -> None:
    queue = client.queue("orders")
    fail(queue, "old", key="k")
    form = web.form("/job?queue=orders&id=old", "requeue")
    queue.push(2, id="new", key="k")
    answer = web.post(form.action, form.fields)
    assert (answer.status, "its key belongs to the job new now" in answer.text) == (409, True)
    client.queue("orders").cancel("new")
    # It did nothing, and may be sent again.
    assert web.post(form.action, form.fields).status == 303


def test_a_second_click_does_nothing(web: Web, client: duly.Client) -> None:
    queue = client.queue("orders")
    queue.schedules.put("tick", duly.Schedule(duly.NewJob(), every=3600))
    form = web.form("/schedule?queue=orders&name=tick", "schedule-run")
    assert web.post(form.action, form.fields).status == 303
    answer = web.post(form.action, form.fields)
    assert (answer.status, "acted once" in answer.text) == (409, True)
    assert queue.counts().ready == 1
    web.act("/schedule?queue=orders&name=tick", "schedule-run")
    assert queue.counts().ready == 2


def test_a_second_click_on_what_is_under_way_says_so(start_web: StartWeb, own_server: Server) -> None:
    queue = duly.Client(own_server.url).queue("orders")
    queue.push(1)
    web = start_web(own_server.url, "duly:")
    web.enter()
    form = web.form("/ask-delete?queue=orders", "delete")
    # So the first one is refused.
    queue.push(2)
    own_server.freeze()
    with ThreadPoolExecutor() as pool:
        first = pool.submit(web.post, form.action, form.fields)
        time.sleep(0.5)
        answer = web.post(form.action, form.fields)
        own_server.thaw()
        assert (answer.status, "what it asks for is under way" in answer.text) == (409, True)
        assert "is not deleted" in first.result().text
    # It did nothing, and may be sent again.
    assert "is not deleted" in web.post(form.action, form.fields).text


def fail_all(queue: duly.Queue, count: int) -> None:
    queue.push_many([duly.NewJob(number, max_retries=0) for number in range(count)])
    for _ in range(0, count, 100):
        for job in queue.reserve_many(100):
            job.fail("Timeout: 1 s", final=True)


@pytest.mark.parametrize(
    ("act", "reset"),
    [
        ("requeue-all", False),
        ("requeue-matching", False),
        ("requeue-matching", True),
        ("cancel-matching", False),
        ("purge", False),
    ],
)
def test_a_browser_that_goes_away_ends_no_action(
    start_web: StartWeb, client: duly.Client, server: Server, prefix: str, *, act: str, reset: bool
) -> None:
    queue = client.queue("mail")
    count = 300 if "matching" in act else 1500
    fail_all(queue, count)
    # Each of its calls takes as long, so the browser is gone before the first one ends.
    with slow_lines(server.socket, [Line(100_000_000, 0.1)]) as (url,):
        web = start_web(url, prefix)
        web.enter()
        form = web.form(f"/ask-{act}?queue=mail&state=failed", act)
        # So all of it, its end too, is there when the page reads it. Of one that is reset by then, it may read nothing.
        if not reset:
            web.process.send_signal(signal.SIGSTOP)
        web.send_and_go(form, reset=reset)
        web.process.send_signal(signal.SIGCONT)
        until(lambda: queue.counts().failed == 0, f"{queue.counts().failed} jobs stay", 20)
        assert queue.counts().ready == (count if "requeue" in act else 0)
        # Its notice waits for the next page.
        said = f"{count:,} jobs are "
        until(lambda: said in web.get("/").text, "there is no notice", 10)
        answer = web.post(form.action, form.fields)
        assert (answer.status, "acted once" in answer.text) == (409, True)
        _, err = web.end()
    assert [line for line in err.splitlines() if f": {act} queue=mail" in line and line.endswith(": done")], err


def test_what_was_not_done_is_said_though_the_browser_has_gone(start_web: StartWeb, own_server: Server) -> None:
    queue = duly.Client(own_server.url).queue("orders")
    queue.push(1)
    web = start_web(own_server.url, "duly:")
    web.enter()
    form = web.form("/ask-delete?queue=orders", "delete")
    queue.push(2)
    own_server.freeze()
    web.send_and_go(form)
    time.sleep(0.5)
    own_server.thaw()
    said = "What you asked for before (delete queue=orders parts=0 jobs=1) was not done: The queue is not deleted"
    until(lambda: said in unescape(web.get("/").text), "it is not said")
    assert said not in unescape(web.get("/").text)
    # Who sees it at once gets no notice of it.
    assert "is not deleted" in web.post(form.action, form.fields).text
    assert "What you asked for before" not in web.get("/").text


def test_a_notice_waits_for_a_page_that_is_seen(web: Web, client: duly.Client) -> None:
    client.queue("orders").push(1)
    form = web.form("/queue?queue=orders", "pause")
    assert web.post(form.action, form.fields).status == 303
    # What a browser asks for that goes elsewhere, or beside a page.
    for method, path, status in (
        ("GET", "/favicon.ico", 404),
        ("GET", "/apple-touch-icon.png", 404),
        ("HEAD", "/", 200),
        ("GET", "/queue?queue=gone", 404),
    ):
        assert web.ask(method, path).status == status
    assert "The queue is paused: no more" in web.get("/schedules").text
    assert "The queue is paused: no more" not in web.get("/schedules").text


@pytest.mark.parametrize("what", ["refuses", "is silent"])
def test_what_ends_an_action_on_jobs_that_match_is_said(start_web: StartWeb, own_server: Server, what: str) -> None:
    queue = duly.Client(own_server.url).queue("mail")
    queue.push_many([duly.NewJob(number, id=f"job-{number:03}") for number in range(250)])

    def act() -> None:
        if what == "is silent":
            own_server.freeze()
            return
        own_server.cli("DEL", "duly:{mail}:returned")
        own_server.cli("SET", "duly:{mail}:returned", "foreign")

    # The first job of the second call.
    with way_to(own_server, b"job-100", act) as url:
        web = start_web(url, "duly:")
        web.enter()
        form = web.form("/ask-cancel-matching?queue=mail&state=ready&priority=5", "cancel-matching")
        answer = web.post(form.action, form.fields)
        assert answer.status == 303, answer.text
        if what == "is silent":
            assert web.ask("GET", answer.location).status == 503
            own_server.thaw()
        # It was not said on a page that could not be shown.
        while (page := web.get("/schedules")).status != 200:
            time.sleep(0.1)
        text = unescape(page.text)
        notice = text.partition('class="notice"')[2].partition("</p>")[0]
        assert "100 jobs are removed. 150 of them are left: do it again to go on. Then it ended: " in notice, text
        assert ("The jobs of the last call may be done, too." in notice) == (what == "is silent")
        _, err = web.end()
    assert (
        "cancel-matching queue=mail parts=0 state=ready priority=5: done in part, and not yet to 150 of the jobs: "
        in err
    )


def half_a_form(web: Web, *, length: bool) -> socket.socket:
    """Begin to send a form that pauses a queue; the end of it is not sent."""
    form = web.form("/queue?queue=orders", "pause")
    form.fields["more"] = "x" * 100
    whole = urlencode(form.fields)
    cut = socket.create_connection(("127.0.0.1", web.port), timeout=20)
    cookie = "; ".join(f"{name}={value}" for name, value in web.cookies.items())
    lines = [
        f"POST {form.action} HTTP/1.1",
        f"Host: localhost:{web.port}",
        "Sec-Fetch-Site: same-origin",
        f"Cookie: {cookie}",
        "Content-Type: application/x-www-form-urlencoded",
        f"Content-Length: {len(whole)}" if length else "Transfer-Encoding: chunked",
    ]
    begin = whole[:-50] if length else f"{len(whole):x}\r\n{whole[:-50]}"
    cut.sendall("\r\n".join([*lines, "", begin]).encode())
    return cut


@pytest.mark.parametrize("length", [True, False], ids=["of a known length", "in chunks"])
def test_half_a_form_does_nothing(web: Web, client: duly.Client, *, length: bool) -> None:
    client.queue("orders").push(1)
    cut = half_a_form(web, length=length)
    cut.shutdown(socket.SHUT_WR)
    answer = cut.recv(10_000)
    cut.close()
    assert not answer or (b" 400 " in answer and b"the form is not whole" in answer), answer
    _, err = web.end()
    assert not client.queue("orders").counts().paused
    assert "pause" not in err


def test_the_end_waits_for_no_form_that_is_still_to_come(web: Web, client: duly.Client) -> None:
    client.queue("orders").push(1)
    cut = half_a_form(web, length=True)
    # It is read by then, as one connection is accepted after the other.
    assert web.get("/").status == 200
    began = time.monotonic()
    assert web.end()[0] == 0
    # Neither as long as for a form, nor as for what acts.
    assert time.monotonic() - began < 4
    cut.close()
    assert not client.queue("orders").counts().paused


def test_an_action_that_takes_longer_than_a_browser_waits_goes_on(
    start_web: StartWeb, client: duly.Client, server: Server, prefix: str
) -> None:
    client.queue("orders").push_many([duly.NewJob(number) for number in range(10_000)])
    # So the last of its twenty calls comes after more than twelve seconds.
    with slow_lines(server.socket, [Line(100_000_000, 0.8)]) as (url,):
        web = start_web(url, prefix)
        web.enter()
        form = web.form("/ask-purge?queue=orders&state=ready", "purge")
        answer = web.post(form.action, form.fields)
        assert (answer.status, "It goes on" in answer.text) == (202, True)
        assert answer.headers["content-security-policy"].startswith(POLICY)
        until(lambda: "10,000 jobs are " in web.get("/").text, "it does not end", 40)
        again = web.post(form.action, form.fields)
        assert (again.status, "acted once" in again.text) == (409, True)
        _, err = web.end()
    assert "purge queue=orders parts=0 state=ready: done" in err
    assert client.queue("orders").counts().ready == 0


@pytest.mark.parametrize("act", ["requeue-matching", "cancel-matching"])
def test_an_action_ends_in_good_order_with_the_program(
    start_web: StartWeb, client: duly.Client, server: Server, prefix: str, act: str
) -> None:
    queue = client.queue("mail")
    fail_all(queue, 1500)
    with slow_lines(server.socket, [Line(100_000_000, 0.3)]) as (url,):
        web = start_web(url, prefix)
        web.enter()
        form = web.form(f"/ask-{act}?queue=mail&state=failed", act)
        web.send_and_go(form)
        until(lambda: queue.counts().failed < 1500, "nothing is done", 10)
        began = time.monotonic()
        _, err = web.end()
    left = queue.counts().failed
    assert time.monotonic() - began < 5
    assert 0 < left < 1500
    assert left % 100 == 0
    assert f"done in part, and not yet to {left} of the jobs" in err


@pytest.mark.parametrize("by", [signal.SIGTERM, signal.SIGHUP])
def test_an_action_that_does_not_end_is_cut_off_and_said(
    start_web: StartWeb, own_server: Server, by: signal.Signals
) -> None:
    queue = duly.Client(own_server.url).queue("orders")
    queue.push_many([duly.NewJob(number) for number in range(10_000)])
    # On such a line, that takes longer than the program waits for it.
    with slow_lines(own_server.socket, [Line(100_000_000, 0.7)]) as (url,):
        web = start_web(url, "duly:")
        web.enter()
        web.send_and_go(web.form("/ask-purge?queue=orders&state=ready", "purge"))
        until(lambda: queue.counts().ready < 10_000, "nothing is done", 30)
        began = time.monotonic()
        status, err = web.end(by)
    assert (status, time.monotonic() - began < 9) == (0, True)
    assert "purge queue=orders parts=0 state=ready: cut off, as the page ended" in err
    assert queue.audit().findings == []


def test_a_job_has_its_commands_to_copy(
    start_web: StartWeb, server: Server, prefix: str, web: Web, client: duly.Client
) -> None:
    hostile = "it's <script>alert(1)</script> $(x)"
    queue = client.queue("orders")
    queue.push(1, id=hostile, delay=60)
    queue.push(1, id="a\u202eb", delay=60)
    fail(queue, "broken")
    client.partitions("clicks", 4).push(1, id="click", key="k")

    def commands(of: Web, id_: str, **of_queue: str) -> list[list[str]]:
        text = of.get("/job", **{"queue": "orders", "id": id_, **of_queue}).text
        found = re.search(r"<pre[^>]*><code>(.*?)</code></pre>", text, re.DOTALL)
        return [shlex.split(line) for line in unescape(found[1]).splitlines()] if found else []

    named = ["--prefix", prefix, "orders"]
    looks = [["duly", verb, *named] for verb in ("find", "why", "trace")]
    changes = [["duly", "reschedule", "--prefix", prefix, "--now", "orders"], ["duly", "cancel", *named]]
    assert commands(web, hostile) == [[*command, hostile] for command in looks + changes]
    assert ["duly", "requeue", *named, "broken"] in commands(web, "broken")
    click = commands(web, "click", queue="clicks", parts="4")
    assert click[0] == ["duly", "find", "--partitions", "4", "--prefix", prefix, "clicks", "click"]
    # What a page cannot give to a clipboard as it is.
    assert commands(web, "a\u202eb") == []
    reader = start_web(server.url, prefix, "--read-only")
    reader.enter()
    assert commands(reader, hostile) == [[*command, hostile] for command in looks]
