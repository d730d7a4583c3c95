"""Takes the pictures of `duly web` that the documents show: `make screenshots`."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duly
from support import Server, running, until
from test_web_browser import Browser, chromium
from web_client import Web

FOLDER = Path(__file__).parent.parent / "docs" / "operate"
MOST_BYTES = 200_000
PICTURES = {
    "overview": (620, "/"),
    "queue": (760, "/queue?queue=orders&parts=0"),
    "job": (900, "/job?queue=mail&parts=0&id=welcome-7"),
    "groups": (420, "/groups?queue=mail&parts=0"),
}
"""The height and the address of each page."""
REFRESHED = ("overview", "queue", "job")
"""Those that show by themselves what changes."""
ERROR = "ConnectionError: smtp.example.com: refused\n  at /srv/shop/mail.py:11 in send"


def fill(client: duly.Client) -> None:
    """A shop in the evening."""
    orders, mail, reports = client.queue("orders"), client.queue("mail"), client.queue("reports")
    orders.push_many(
        [duly.NewJob({"order": n}, name="order.close", key=f"close:{n}", delay=600 + 7 * n) for n in range(1, 542)]
    )
    mail.keep_history()
    for n in range(12):
        options: dict[str, Any] = {"id": "welcome-7", "key": "user7"} if n == 7 else {}
        mail.push({"to": f"user{n}@example.com"}, name="mail.send", retry=duly.RetryPolicy.fixed(0), **options)
        for is_last in (False, True):
            job = mail.reserve(wait=5)
            assert job is not None
            job.fail(ERROR, final=is_last)
    mail.push_many([duly.NewJob({"to": f"user{n}@example.com"}, name="mail.send") for n in range(3)])
    clicks = client.partitions("clicks", 8)
    clicks.push_many([duly.NewJob({"shoe": n}, name="click", key=str(n)) for n in range(240)])
    reports.schedules.put(
        "daily", duly.Schedule(duly.NewJob(name="report.daily"), cron="0 3 * * *", tz="Europe/Berlin")
    )
    reports.push({"kind": "daily"}, name="report.daily")
    reports.pause()


@contextmanager
def shop() -> Iterator[Web]:
    """A server, a worker that runs two jobs, and the page."""
    server = Server()
    client = duly.Client(server.url)
    fill(client)
    client.queue("orders").push_many([duly.NewJob(name="order.ship"), duly.NewJob(name="order.ship")])
    worker = duly.Worker(client, ["orders"], concurrency=2)

    taken = threading.Event()

    @worker.on("order.ship")
    def ship(_: duly.Job) -> None:
        taken.wait()

    web = Web(server.url, "duly:")
    try:
        with running(worker):
            try:
                until(lambda: client.queue("orders").counts().reserved == 2, "no job runs")
                yield web
            finally:
                taken.set()
    finally:
        web.process.kill()
        web.process.communicate()
        server.close()


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    with shop() as web, chromium() as driver:
        browser = Browser(driver)
        browser.enter(web)
        for name, (height, path) in PICTURES.items():
            browser.size(1180, height)
            browser.go(path)
            if name in REFRESHED:
                until(lambda: browser.live() == "Live", "the page is not live")
            picture = FOLDER / f"{name}.png"
            driver.save_screenshot(str(picture))
            size = picture.stat().st_size
            assert size < MOST_BYTES, f"{picture} has {size} bytes"


if __name__ == "__main__":
    main()
