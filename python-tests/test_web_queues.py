"""What the page does to queues, their limits and schedules."""

from __future__ import annotations

import itertools
import re
from binascii import crc_hqx
from html import unescape

import duly
from support import Server, until
from web_client import Forms, Web, fail


def test_queues_are_paused(web: Web, client: duly.Client) -> None:
    plain, parts = client.queue("mixed"), client.partitions("mixed", 4)
    plain.push(1)
    parts.push(1, key="k")
    assert "no more of its jobs" in web.act("/queue?queue=mixed&parts=4", "pause")
    assert (plain.counts().paused, parts.counts().paused) == (False, True)
    assert "paused" in web.get("/").text
    web.act("/queue?queue=mixed", "pause")
    web.act("/queue?queue=mixed&parts=4", "resume")
    assert (plain.counts().paused, parts.counts().paused) == (True, False)


def test_a_queue_that_is_paused_in_part_can_be_paused_and_resumed(
    web: Web, client: duly.Client, server: Server, prefix: str
) -> None:
    queue = client.partitions("mail", 4)
    queue.push(1)
    page = "/queue?queue=mail&parts=4"

    def pause_parts() -> list[str]:
        """As a pause leaves it that fails behind two of them."""
        for part in (0, 1):
            server.cli("HSET", f"{prefix}{{mail/{part}}}:meta", "paused", "1")
        text = web.ask("GET", page).text
        assert "paused in 2 of 4 partitions" in text
        assert "paused in 2 of 4 partitions" in web.get("/").text
        return sorted(form.action for form in Forms(text).forms if form.action in ("/act-pause", "/act-resume"))

    assert pause_parts() == ["/act-pause", "/act-resume"]
    web.act(page, "pause")
    assert "paused in" not in web.ask("GET", page).text
    web.act(page, "resume")
    assert not queue.counts().paused
    pause_parts()
    web.act(page, "resume")
    assert not queue.counts().paused


def test_a_form_of_a_queue_that_is_gone_touches_no_other_of_its_name(web: Web, client: duly.Client) -> None:
    plain, parts = client.queue("orders"), client.partitions("orders", 4)
    fail(plain, "broken")
    plain.push(1, id="later", delay=600)
    plain.schedules.put("nightly", duly.Schedule(duly.NewJob(name="report"), cron="0 3 * * *"))
    parts.push(1, id="later", delay=600)
    parts.set_limits(concurrency=8)
    assert web.ask("HEAD", "/queue?queue=orders").location == "/queue?queue=orders&parts=0"
    forms = [
        web.form("/queue?queue=orders", "pause"),
        web.form("/queue?queue=orders&state=failed", "requeue"),
        web.form("/ask-limits?queue=orders", "limits"),
        web.form("/ask-purge?queue=orders&state=delayed", "purge"),
        web.form("/ask-cancel?queue=orders&id=later", "cancel"),
        web.form("/ask-cancel-matching?queue=orders&state=delayed&priority=5", "cancel-matching"),
        web.form("/job?queue=orders&id=later", "run-now"),
        web.form("/schedule?queue=orders&name=nightly", "schedule-run"),
    ]
    plain.schedules.remove("nightly")
    forms.append(web.form("/ask-delete?queue=orders", "delete"))
    assert {form.fields["parts"] for form in forms} == {"0"}
    plain.delete(jobs=2)
    before = parts.counts()
    for form in forms:
        answer = web.post(form.action, {**form.fields, "concurrency": "4"})
        assert (answer.status, "There is no such queue" in answer.text) == (404, True), form
        more = "deleted it meanwhile" if form.action == "/act-delete" else "another number of partitions (4)"
        assert more in answer.text, form
        # Nor does a form that does not say which one.
        fields = {name: value for name, value in form.fields.items() if name not in ("parts", "once")}
        assert web.post(form.action, {**fields, "once": "0" * 48}).status == 404
    after = parts.counts()
    assert (after.delayed, after.paused, after.totals) == (before.delayed, False, before.totals)
    assert parts.limits().concurrency == 8
    refresh = {"Duly-Refresh": "1"}
    for page in ("/queue?queue=orders&parts=0", "/job?queue=orders&parts=0&id=later", "/queue?queue=orders"):
        assert web.ask("GET", page, headers=refresh).status == 404, page
    # Who types the address gets the one that is there.
    assert web.get("/job", queue="orders", id="later").status == 200
    _, err = web.end()
    assert "pause queue=orders parts=0: refused, status 404" in err
    assert "pause queue=orders: refused, status 404" in err


def test_a_number_of_partitions_that_has_grown_is_no_deletion(
    web: Web, client: duly.Client, server: Server, prefix: str
) -> None:
    client.partitions("orders", 4).push(1, id="a")
    form = web.form("/ask-delete?queue=orders&parts=4", "delete")
    duly.Client(server.url, prefix=prefix).partitions("orders", 8).push(1, key="b")
    until(lambda: client.queues().queues[0].partitions == 8, "it is not listed")
    answer = web.post(form.action, form.fields)
    assert (answer.status, "another number of partitions (8)" in answer.text) == (404, True)
    assert "deleted it meanwhile" not in answer.text


def limits_of(queue: duly.Queue, name: str = "") -> tuple[int | None, tuple[int, float] | None]:
    limits = queue.limits()
    if not name:
        return (limits.concurrency, limits.rate)
    of_name = limits.names.get(name, {})
    return (of_name.get("concurrency"), of_name.get("rate"))


def test_limits_are_shown_and_changed(web: Web, client: duly.Client) -> None:
    queue = client.queue("orders")
    queue.push(1)
    page, changed = "/queue?queue=orders", "The limits are changed."
    assert "This queue has no limits." in web.ask("GET", page).text
    whole, of_new = "/ask-limits?queue=orders&parts=0", "/ask-limits?queue=orders&parts=0&of=new"
    assert {whole, of_new} <= {unescape(link) for link in Forms(web.ask("GET", page).text).links}
    assert web.act(whole, "limits", concurrency=" 20 ", rate="none") == changed
    assert limits_of(queue) == (20, None)
    assert web.act(of_new, "limits", name=" mail.send ", concurrency="", rate="100/1s") == changed
    assert limits_of(queue, "mail.send") == (None, (100, 1.0))
    assert limits_of(queue) == (20, None)
    text = web.ask("GET", page).text
    assert "100 in 1 s" in text
    of_name = "/ask-limits?queue=orders&parts=0&name=mail.send"
    assert of_name in {unescape(link) for link in Forms(text).links}
    # What is set stands in the form, as the command takes it.
    queue.set_limits(concurrency=20, names={"mail.send": {"concurrency": 5, "rate": (5, 600.0)}})
    text = web.ask("GET", of_name).text
    assert 'name="concurrency" value="5"' in text
    assert 'name="rate" value="5/10m"' in text
    assert web.act(of_name, "limits", concurrency="5", rate="5/600").startswith("The limits were these before")
    assert web.act(of_name, "limits", concurrency="none", rate=" ") == changed
    assert queue.limits().names == {}
    assert web.act(whole, "limits", max_length="500") == changed
    assert queue.limits().max_length == 500
    assert limits_of(queue) == (None, None)
    assert "takes 500 jobs at the most" in web.ask("GET", page).text
    assert 'name="max_length" value="500"' in web.ask("GET", whole).text
    assert web.act(whole, "limits") == changed
    assert queue.limits().max_length is None
    _, err = web.end()
    assert "limits queue=orders parts=0 concurrency=20 rate=none max_length=none: done" in err
    assert "limits queue=orders parts=0 name= mail.send  concurrency=none rate=100/1s: done" in err
    assert "limits queue=orders parts=0 concurrency=none rate=none max_length=none: done" in err


def test_wrong_limits_are_refused(web: Web, client: duly.Client) -> None:
    queue = client.queue("orders")
    queue.set_limits(concurrency=20)
    form = web.form("/ask-limits?queue=orders", "limits")
    of_new = web.form("/ask-limits?queue=orders&of=new", "limits")
    for fields, said in [
        ({"concurrency": "many"}, "it is a number of jobs, or none"),
        ({"concurrency": "-1"}, "it is a number of jobs, or none"),
        ({"rate": "fast"}, "a rate is such as 100/1s or 5/10m, or none"),
        ({"concurrency": "0"}, "use pause to stop a queue"),
        ({"concurrency": "1000001"}, "1 to 1000000 jobs"),
        ({"rate": "0/1s"}, "rate"),
        ({"max_length": "many"}, "Most jobs: it is a number of jobs, or none."),
        ({"max_length": "0"}, "the length of a queue is 1 to"),
    ]:
        # What did nothing may be sent again.
        answer = web.post(form.action, {**form.fields, **fields})
        assert (answer.status, said in answer.text) == (400, True), (fields, answer.text)
    for name in ("", " "):
        answer = web.post(of_new.action, {**of_new.fields, "name": name, "concurrency": "1"})
        assert (answer.status, "Say the name" in answer.text) == (400, True)
    answer = web.post(of_new.action, {**of_new.fields, "name": "a\nb", "concurrency": "1"})
    assert answer.status == 400
    assert limits_of(queue) == (20, None)
    queue.set_limits(concurrency=20, max_length=7)
    answer = web.post(form.action, {**form.fields, "concurrency": "9"})
    assert (answer.status, "concurrency 20, rate none, most jobs 7." in answer.text) == (409, True)
    parts = client.partitions("clicks", 4)
    parts.push(1, key="k")
    form = web.form("/ask-limits?queue=clicks&parts=4", "limits")
    answer = web.post(form.action, {**form.fields, "concurrency": "3"})
    assert (answer.status, "a limit is 4 jobs at least" in answer.text) == (400, True)
    assert web.act("/ask-limits?queue=clicks&parts=4", "limits", concurrency="8") == "The limits are changed."
    assert parts.limits().concurrency == 8


def test_limits_that_have_reached_some_partitions_are_completed(
    web: Web, client: duly.Client, server: Server, prefix: str
) -> None:
    queue = client.partitions("mail", 4)
    queue.push(1)
    queue.set_limits(concurrency=4)

    def written() -> list[str]:
        return [server.cli("HGET", f"{prefix}{{mail/{part}}}:meta", "limits") for part in range(4)]

    # As a change leaves it that fails behind the first one.
    whole = written()
    assert "1" in whole[0]
    for part in (1, 2, 3):
        server.cli("HDEL", f"{prefix}{{mail/{part}}}:meta", "limits")
    notice = "The limits are set in every partition. Those of the first one were these before."
    assert web.act("/ask-limits?queue=mail&parts=4", "limits", concurrency="4") == notice
    assert written() == whole


def test_limits_that_a_later_partition_refuses_are_said_to_be_done_in_part(
    web: Web, client: duly.Client, server: Server, prefix: str
) -> None:
    queue = client.partitions("mail", 2)

    def use(begin: str) -> list[str]:
        names = [f"{begin}{number}" for number in range(100)]
        queue.set_limits(names={name: {"concurrency": 2} for name in names})
        # All in the second part.
        ids = (f"{begin}-{number}" for number in itertools.count())
        wanted = (one for one in ids if crc_hqx(one.encode(), 0) % 2)
        for name in names:
            queue.push(1, name=name, id=next(wanted))
        while queue.reserve_many(100, lease=600):
            pass
        return names

    use("a")
    queue.set_limits(names={name: {"concurrency": 2} for name in use("b")[1:]})
    form = web.form("/ask-limits?queue=mail&parts=2&of=new", "limits")
    answer = web.post(form.action, {**form.fields, "name": "new", "concurrency": "4"})
    assert (answer.status, "Only a part of this was done" in answer.text) == (409, True), answer.text
    assert "it was done to 1 of 2 parts" in answer.text
    has = ["new" in server.cli("HGET", f"{prefix}{{mail/{part}}}:meta", "limits") for part in range(2)]
    assert has == [True, False]
    answer = web.post(form.action, {**form.fields, "name": "new", "concurrency": "4"})
    assert (answer.status, "acted once" in answer.text) == (409, True)


def test_limits_that_another_has_changed_stay(web: Web, client: duly.Client) -> None:
    queue = client.queue("orders")
    queue.set_limits(concurrency=20)
    form = web.form("/ask-limits?queue=orders", "limits")
    queue.set_limits(concurrency=3, rate=(100, 60.0), names={"mail": {"concurrency": 1}})
    answer = web.post(form.action, {**form.fields, "concurrency": "30"})
    assert (answer.status, "Somebody else has changed these limits" in answer.text) == (409, True)
    assert "They are: concurrency 3, rate 100/1m, most jobs none." in answer.text
    assert limits_of(queue) == (3, (100, 60.0))
    # Limits of another name are no reason.
    form = web.form("/ask-limits?queue=orders", "limits")
    queue.set_limits(concurrency=3, rate=(100, 60.0), names={"mail": {"concurrency": 2}})
    assert web.say_yes(form, concurrency="30") == "The limits are changed."
    assert (limits_of(queue), limits_of(queue, "mail")) == ((30, None), (2, None))
    answer = web.post(form.action, {**form.fields, "concurrency": "40"})
    assert (answer.status, "acted once" in answer.text) == (409, True)
    of_new = web.form("/ask-limits?queue=orders&of=new", "limits")
    answer = web.post(of_new.action, {**of_new.fields, "name": "mail", "concurrency": "9"})
    assert (answer.status, "This name has limits already" in answer.text) == (409, True)
    assert limits_of(queue, "mail") == (2, None)
    form = web.form("/ask-limits?queue=orders", "limits")
    queue.delete()
    assert web.post(form.action, {**form.fields, "concurrency": "40"}).status == 404


def test_a_queue_is_deleted_with_its_jobs(web: Web, client: duly.Client) -> None:
    queue = client.queue("orders")
    fail(queue, "broken")
    queue.push(1, delay=60)
    queue.push_many([duly.NewJob(number) for number in range(3)])
    queue.reserve()
    queue.set_limits(concurrency=5)
    asked = "/ask-delete?queue=orders&parts=0"
    assert asked in [unescape(link) for link in Forms(web.get("/queue", queue="orders").text).links]
    text = re.sub("<.*?>", "", web.ask("GET", asked).text)
    for said in (
        "Delete the queue orders?",
        "Ready: 2",
        "Reserved: 1",
        "Delayed: 1",
        "Failed: 1",
        "Its 5 jobs are lost",
    ):
        assert said in text, said
    assert "删除队列 orders" in web.get("/ask-delete", queue="orders", lang="zh").text
    web.get("/", lang="en")
    form = web.form(asked, "delete")
    for number in (6, 7):
        queue.push(number, id=str(number))
    answer = web.post(form.action, form.fields)
    assert (answer.status, "you were asked about 5, and there are 7 now" in answer.text) == (409, True)
    assert "nothing was removed" in answer.text
    assert queue.counts().ready == 4
    again = [link for link in map(unescape, Forms(answer.text).links) if link == asked]
    assert again
    form = web.form(again[0], "delete")
    assert web.say_yes(form) == "The queue orders is deleted. It had 7 jobs."
    assert "queue?queue=orders" not in unescape(web.get("/").text)
    assert client.queues().queues == []
    # A second click, and a tab of somebody else.
    answer = web.post(form.action, form.fields)
    assert (answer.status, "acted once" in answer.text) == (409, True)
    answer = web.post(form.action, {**form.fields, "once": "0" * 48})
    assert (answer.status, "Somebody else has deleted it meanwhile." in answer.text) == (404, True)
    assert web.ask("GET", asked).status == 404
    _, err = web.end()
    lines = [line.partition(": ")[2].partition(": ")[2] for line in err.splitlines() if ": delete queue=orders" in line]
    assert lines[1] == "delete queue=orders parts=0 jobs=7: done", err
    assert lines[0].startswith("delete queue=orders parts=0 jobs=5: refused"), err


def test_an_empty_queue_and_one_with_partitions_are_deleted(web: Web, client: duly.Client) -> None:
    plain, parts = client.queue("mixed"), client.partitions("mixed", 4)
    plain.push(1, id="one")
    plain.cancel("one")
    for number in range(9):
        parts.push(number, key=str(number))
    asked = "/ask-delete?queue=mixed"
    assert "It has no jobs." in web.ask("GET", asked).text
    form = web.form(asked, "delete")
    for wrong in ("", "many", "-1"):
        assert web.post(form.action, {**form.fields, "jobs": wrong}).status == 400
    plain.push(2, id="two")
    answer = web.post(form.action, form.fields)
    assert (answer.status, "you were asked about 0, and there are 1 now" in answer.text) == (409, True)
    plain.cancel("two")
    assert web.act(asked, "delete") == "The queue mixed is deleted. It had 0 jobs."
    assert parts.counts().ready == 9
    assert web.act(f"{asked}&parts=4", "delete") == "The queue mixed is deleted. It had 9 jobs."
    assert client.queues().queues == []


def test_a_queue_with_schedules_is_not_deleted(web: Web, client: duly.Client) -> None:
    queue = client.queue("orders")
    queue.push(1, id="one")
    form = web.form("/ask-delete?queue=orders", "delete")
    queue.schedules.put("nightly", duly.Schedule(duly.NewJob(), cron="0 3 * * *"))
    answer = web.post(form.action, form.fields)
    for status, text in ((409, answer.text), (200, web.get("/ask-delete", queue="orders").text)):
        assert "It has schedules (1), which would push new jobs: remove them first." in text, status
        assert "/schedule?queue=orders&parts=0&name=nightly" in map(unescape, Forms(text).links)
        assert "act-delete" not in text
    assert answer.status == 409
    queue.schedules.remove("nightly")
    assert web.say_yes(form) == "The queue orders is deleted. It had 1 jobs."


def test_schedules_are_paused_and_removed(web: Web, client: duly.Client) -> None:
    schedules = client.queue("orders").schedules
    schedules.put("nightly", duly.Schedule(duly.NewJob(), cron="0 3 * * *", tz="Europe/Berlin"))
    page = "/schedule?queue=orders&name=nightly"
    assert web.ask("GET", page).text.count("<li><time") == 5
    assert web.act(page, "schedule-pause") == "The schedule is paused."
    assert "It has no next slot" in web.ask("GET", page).text
    assert web.act(page, "schedule-resume") == "The schedule fires again."
    form = web.form(page, "schedule-pause")
    assert web.act("/ask-schedule-remove?queue=orders&name=nightly", "schedule-remove") == "The schedule is removed."
    assert schedules.list() == []
    assert web.post(form.action, form.fields).status == 404
