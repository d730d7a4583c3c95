"""The page of `duly web` in Chromium: what only a browser can say."""

from __future__ import annotations

import http.client
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TypeVar
from urllib.parse import urlsplit

import duly
import pytest
from selenium import webdriver
from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement
from support import Server, until
from test_web_mounted import IN_URL, asgi
from web_client import HOSTILE, PAGES, Web, fill

pytestmark = pytest.mark.xdist_group("browser")  # one for all: it takes seconds to start

CHROMIUM = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--window-size=1280,900",
)

T = TypeVar("T")

ASKED = "performance.getEntriesByType('resource').length"
"""How many requests the page has made."""


class Browser:
    """Chromium, signed in."""

    def __init__(self, driver: webdriver.Chrome) -> None:
        self.driver = driver
        self.home = ""

    def enter(self, web: Web) -> None:
        self.driver.execute_cdp_cmd("Network.clearBrowserCookies", {})
        self.driver.get(web.address)
        self.home = f"http://127.0.0.1:{web.port}"

    def go(self, page: str) -> None:
        self.driver.get(self.home + page)

    def found(self, by: str, what: str, use: Callable[[WebElement], T]) -> T:
        """Use that element; the page may put another one in its place between two calls, as it is refreshed."""
        for _ in range(5):
            with suppress(StaleElementReferenceException):
                return use(self.driver.find_element(by, what))
        return use(self.driver.find_element(by, what))

    def text(self) -> str:
        return self.found(By.TAG_NAME, "main", lambda main: main.text)

    def run(self, script: str) -> object:
        return self.driver.execute_script(script)

    def number(self, expression: str) -> int:
        value = self.run(f"return {expression}")
        assert isinstance(value, int)
        return value

    def live(self) -> str:
        return self.driver.find_element(By.ID, "live").text

    def press(self, label: str) -> None:
        """Press the button, or follow the link, of that label."""
        both = f"//main//*[self::button or self::a][normalize-space()='{label}']"
        self.found(By.XPATH, both, lambda button: button.click())

    def type(self, name: str, text: str) -> None:
        """Put that text into the field of the page."""

        def put(field: WebElement) -> None:
            field.clear()
            field.send_keys(text)

        self.found(By.XPATH, f"//main//input[@name='{name}'][not(@type='hidden')]", put)

    def emulate(self, **media: str) -> None:
        features = [{"name": name.replace("_", "-"), "value": value} for name, value in media.items()]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})

    def size(self, pixels: int, height: int = 844) -> None:
        metrics = {"width": pixels, "height": height, "deviceScaleFactor": 1, "mobile": pixels < 600}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)

    def problems(self) -> list[str]:
        """What the console has said since it was last asked."""
        return [entry["message"] for entry in self.driver.get_log("browser")]  # type: ignore[no-untyped-call]


@contextmanager
def chromium() -> Iterator[webdriver.Chrome]:
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or "chromium"
    for argument in CHROMIUM:
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver") or "chromedriver"))
    try:
        yield driver
    finally:
        driver.quit()


@pytest.fixture(scope="module")
def chrome() -> Iterator[webdriver.Chrome]:
    with chromium() as driver:
        yield driver


@pytest.fixture
def driver(chrome: webdriver.Chrome) -> Iterator[webdriver.Chrome]:
    """Chromium at an empty page, without cookies or errors: the last test's page would go on with asking its server."""
    chrome.get("about:blank")
    chrome.execute_cdp_cmd("Network.clearBrowserCookies", {})
    chrome.get_log("browser")  # type: ignore[no-untyped-call]
    yield chrome
    chrome.get("about:blank")


@pytest.fixture
def web(server: Server, prefix: str) -> Iterator[Web]:
    web = Web(server.url, prefix)
    yield web
    web.process.kill()
    web.process.communicate()


@pytest.fixture
def browser(driver: webdriver.Chrome, web: Web, client: duly.Client) -> Iterator[Browser]:
    fill(client)
    browser = Browser(driver)
    browser.enter(web)
    browser.problems()
    yield browser
    browser.emulate()
    driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_the_console_has_nothing_to_say_on_any_page(browser: Browser) -> None:
    seen: set[str] = set()
    left = list(PAGES)
    while left:
        page = left.pop()
        if page in seen or page.startswith("/package"):
            continue
        seen.add(page)
        browser.go(page)
        assert browser.problems() == [], page
        links = browser.run("return [...document.querySelectorAll('a')].map((link) => link.href)")
        assert isinstance(links, list)
        ours = [urlsplit(link) for link in links if link.startswith(browser.home) and "lang=" not in link]
        left += [f"{link.path}?{link.query}" if link.query else link.path for link in ours]
    assert len(seen) > 20
    assert "/ask-purge" in {urlsplit(page).path for page in seen}
    requests = browser.run("return performance.getEntriesByType('resource').map((entry) => entry.name)")
    assert isinstance(requests, list)
    assert all(request.startswith(browser.home) for request in requests)


def test_a_job_named_as_a_script_is_a_text(browser: Browser) -> None:
    for page in ("/queue?queue=orders&state=ready", "/failed", f"/search?q={HOSTILE}"):
        browser.go(page)
        assert HOSTILE in browser.text(), page
        assert browser.run("return document.querySelectorAll('script:not([src])').length") == 0
    browser.press(HOSTILE)
    assert HOSTILE in browser.text()
    assert browser.problems() == []
    # The policy holds, even if a text were not escaped: the browser refuses the script.
    browser.run("document.body.insertAdjacentHTML('beforeend', '<img src=x onerror=\"document.title = 1\">')")
    until(lambda: any("Content Security Policy" in problem for problem in browser.problems()), "the script ran")


def test_the_page_follows_what_happens(browser: Browser, client: duly.Client) -> None:
    browser.go("/queue?queue=orders&state=ready")
    client.queue("orders").push(1, id="another one")
    until(lambda: "another one" in browser.text(), "the page is not refreshed", seconds=10)
    # Not while somebody reads a selection. Turns come faster now, and are counted.
    browser.run(
        "window.turns = 0; const real = setTimeout;"
        "window.setTimeout = (each) => real(() => { turns += 1; each(); }, 20)"
    )
    browser.run("getSelection().selectAllChildren(document.querySelector('h1'))")
    until(lambda: browser.number("turns") > 0 and browser.live() == "On hold", "it is not held", seconds=10)
    client.queue("orders").push(1, id="a third one")
    asked, turns = browser.number(ASKED), browser.number("turns")
    until(lambda: browser.number("turns") > turns + 5, "there are no turns", seconds=10)
    assert browser.number(ASKED) == asked
    assert "a third one" not in browser.text()
    browser.run("getSelection().removeAllRanges()")
    until(lambda: "a third one" in browser.text(), "the page is not refreshed again", seconds=10)
    assert browser.problems() == []


def test_buttons_act(browser: Browser, client: duly.Client) -> None:
    orders = client.queue("orders")
    browser.go("/job?queue=orders&id=broken")
    browser.press("Run again")
    until(lambda: orders.counts().failed == 0, "it is not requeued")
    browser.go("/job?queue=orders&id=later")
    browser.press("Cancel")
    assert "Cancel this job?" in browser.text()
    assert orders.find("later") is not None
    browser.press("Yes, do it")
    until(lambda: orders.find("later") is None, "it is not cancelled")
    # The job is gone before the answer is there.
    until(lambda: "The job later is cancelled." in browser.driver.page_source, "there is no notice", 10)
    assert browser.problems() == []


@pytest.mark.parametrize("has_scripts", [True, False])
def test_limits_are_changed_and_a_queue_is_deleted(browser: Browser, client: duly.Client, *, has_scripts: bool) -> None:
    orders = client.queue("orders")
    orders.schedules.remove("nightly")
    browser.driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": not has_scripts})
    browser.size(390)
    try:
        browser.go("/queue?queue=orders")
        browser.press("Set limits")
        browser.type("concurrency", "20")
        browser.press("Save")
        until(lambda: orders.limits().concurrency == 20, "no limit is set")
        until(lambda: "The limits are changed." in browser.driver.page_source, "there is no notice", 10)
        browser.press("Limit a name")
        browser.type("name", "close")
        browser.type("rate", "5/10m")
        browser.press("Save")
        until(lambda: orders.limits().names.get("close", {}).get("rate") == (5, 600.0), "no rate is set")
        until(lambda: "5 in 600 s" in browser.text(), "the limit is not shown", 10)
        browser.press("Delete the queue")
        assert "Its 3 jobs are lost" in browser.text()
        browser.press("Yes, do it")
        until(lambda: orders.counts().failed == 0, "it is not deleted")
        until(lambda: "The queue orders is deleted" in browser.driver.page_source, "there is no notice", 10)
    finally:
        browser.driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})
    assert browser.problems() == []


def test_a_phone_scrolls_in_one_direction(browser: Browser, client: duly.Client) -> None:
    client.queue("orders").push({"text": "x" * 500}, id="i" * 128, name="n" * 128, key="k" * 256)
    client.queue("orders").set_limits(concurrency=5, names={"n" * 128: {"rate": (1000, 600.0)}})
    browser.size(390)
    for page in [
        *PAGES,
        f"/job?queue=orders&id={'i' * 128}",
        "/schedule?queue=orders&name=nightly",
        "/ask-purge?queue=orders&state=ready",
        "/ask-limits?queue=orders",
        f"/ask-limits?queue=orders&name={'n' * 128}",
        "/ask-limits?queue=orders&of=new",
        "/ask-delete?queue=orders",
    ]:
        browser.go(page)
        assert browser.run("return document.documentElement.scrollWidth <= innerWidth"), page


def test_it_is_dark_where_the_browser_is(browser: Browser) -> None:
    colours = set()
    for scheme in ("light", "dark"):
        browser.emulate(prefers_color_scheme=scheme)
        browser.go("/")
        colours.add(browser.run("return getComputedStyle(document.body).backgroundColor"))
    assert colours == {"rgb(246, 247, 249)", "rgb(17, 22, 29)"}


def test_it_works_without_scripts(browser: Browser, client: duly.Client) -> None:
    browser.driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        browser.go("/queue?queue=orders")
        browser.press("Pause")
        until(lambda: client.queue("orders").counts().paused, "it is not paused")
    finally:
        browser.driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})


def test_an_outage_is_shown_and_is_over(driver: webdriver.Chrome, own_server: Server) -> None:
    duly.Client(own_server.url).queue("orders").push(1)
    web = Web(own_server.url, "duly:")
    browser = Browser(driver)
    try:
        browser.enter(web)
        own_server.kill()
        until(lambda: "does not answer" in browser.text(), "the outage is not shown", seconds=20)
        own_server.start()
        duly.Client(own_server.url).queue("back").push(1)
        until(lambda: "back" in browser.text(), "the page does not come back", seconds=20)
    finally:
        web.process.kill()
        web.process.communicate()
    until(lambda: browser.live() == "Not reached", "nobody says so", seconds=20)


ASKS = "/ask-purge?queue=orders&parts=0&state=ready"


@pytest.mark.parametrize("page", ["/queue?queue=orders", "/jobs?queue=orders", "/overview", ASKS])
def test_a_page_that_is_opened_in_an_outage_comes_back(driver: webdriver.Chrome, own_server: Server, page: str) -> None:
    duly.Client(own_server.url).queue("orders").push(1, id="the one")
    web = Web(own_server.url, "duly:")
    browser = Browser(driver)
    try:
        browser.enter(web)
        own_server.freeze()
        browser.go(page)
        assert "does not answer" in browser.text()
        of_outage = driver.title
        assert "does not answer" in of_outage
        own_server.thaw()
        # What is in the page cannot be read while it is loaded again.
        until(lambda: driver.title not in ("", of_outage), "the page does not come back", seconds=30)
        until(lambda: "orders" in browser.text(), "the page is empty")
        assert "There is no such queue" not in browser.text()
    finally:
        own_server.thaw()
        web.process.kill()
        web.process.communicate()


@contextmanager
def gateway(port: int) -> Iterator[int]:
    """A proxy in front of that port, which answers itself while nobody listens there. Give its own one."""

    class Passes(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
            try:
                connection.request("GET", self.path, headers=dict(self.headers))
                answer = connection.getresponse()
                status, headers, body = answer.status, answer.getheaders(), answer.read()
            except OSError:
                status, headers, body = 502, [("Content-Type", "text/html")], b"<h1>Bad Gateway</h1>"
            self.send_response(status)
            for name, value in headers:
                if name.lower() not in ("content-length", "connection"):
                    self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Passes) as proxy:
        thread = threading.Thread(target=proxy.serve_forever)
        thread.start()
        try:
            yield proxy.server_port
        finally:
            proxy.shutdown()
            thread.join()


@pytest.mark.parametrize("opened_in_an_outage", [False, True])
def test_a_proxy_that_answers_while_the_page_is_gone_is_no_page(
    driver: webdriver.Chrome, own_server: Server, *, opened_in_an_outage: bool
) -> None:
    duly.Client(own_server.url).queue("orders").push(1)
    web = Web(own_server.url, "duly:")
    browser = Browser(driver)
    with gateway(web.port) as port:
        try:
            browser.enter(web)
            browser.home = f"http://127.0.0.1:{port}"
            if opened_in_an_outage:
                own_server.freeze()
            browser.go("/overview")
            assert ("does not answer" if opened_in_an_outage else "orders") in browser.text()
            if not opened_in_an_outage:
                until(lambda: browser.live() == "Live", "it is not refreshed")
        finally:
            own_server.thaw()
            web.process.kill()
            web.process.communicate()
        until(lambda: browser.live() == "Not reached", "nobody says so", seconds=20)
        # Two turns of the script later it is the same page.
        asked = browser.number(ASKED)
        until(lambda: browser.number(ASKED) >= asked + 2, "it does not ask again", seconds=20)
        assert browser.live() == "Not reached"


def test_a_page_in_an_application_works_in_its_folder(driver: webdriver.Chrome, client: duly.Client) -> None:
    fill(client)
    browser = Browser(driver)
    with asgi(client, can=lambda _action, _scope: True) as port:
        browser.home = f"http://127.0.0.1:{port}{IN_URL}"
        browser.go("")
        assert driver.current_url == f"{browser.home}/overview"
        browser.go("/queue?queue=orders&state=ready")
        browser.press("Pause")
        notice = "//p[@class='notice']"
        until(lambda: "The queue is paused" in driver.page_source, "there is no notice")
        cookies = {cookie["name"]: cookie["path"] for cookie in driver.get_cookies()}
        # That of the notice went with it. The others belong to this page, and to no other of the application.
        assert cookies == {"duly_web": IN_URL}
        browser.go("/overview")
        assert driver.find_elements(By.XPATH, notice) == []
        # What is shown is kept up to date, and its forms work.
        browser.go("/queue?queue=orders&state=delayed")
        client.queue("orders").push(1, id="another", delay=900)
        until(lambda: "another" in browser.text(), "the page is not refreshed")
        browser.press("Resume")
        until(lambda: not client.queue("orders").counts().paused, "the button does nothing")
        assert browser.problems() == []
