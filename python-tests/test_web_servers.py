"""The deadline of a client in a process that answers web requests, if nobody sets one."""

from __future__ import annotations

import builtins
import http.client
import os
import socket
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path
from types import FunctionType

import duly
import pytest
from support import until

WSGI = """
    import os
    import duly

    client = duly.Client(os.environ["URL"])

    def app(environ, start_response):
        said = "pushed"
        try:
            client.queue("q").push(1)
        except duly.DulyError as error:
            said = repr(error)
        start_response("200 OK", [("Content-Type", "text/plain")])
        return [said.encode()]
"""

ASGI = """
    import asyncio
    import os
    import duly
    import duly.aio
    import uvicorn

    sync = duly.Client(os.environ["URL"])
    client = duly.aio.Client(os.environ["URL"])

    async def app(scope, receive, send):
        if scope["type"] == "lifespan":
            return
        said = "pushed"
        try:
            if scope["path"] == "/thread":
                await asyncio.to_thread(sync.queue("q").push, 1)
            else:
                await client.queue("q").push(1)
        except duly.DulyError as error:
            said = repr(error)
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": said.encode()})

    if __name__ == "__main__":
        uvicorn.run(app, uds="web.sock", lifespan="off")
"""

# Its event loop runs in no frame of tornado: only the stack of a handler shows the server.
TORNADO = """
    import asyncio
    import os
    import duly
    import duly.aio
    import tornado.httpserver
    import tornado.netutil
    import tornado.web

    sync = duly.Client(os.environ["URL"])
    client = duly.aio.Client(os.environ["URL"])

    class Shop(tornado.web.RequestHandler):
        async def get(self):
            said = "pushed"
            try:
                if self.request.path == "/blocking":
                    sync.queue("q").push(1)
                else:
                    await client.queue("q").push(1)
            except duly.DulyError as error:
                said = repr(error)
            self.write(said)

    async def main():
        server = tornado.httpserver.HTTPServer(tornado.web.Application([("/.*", Shop)]))
        server.add_socket(tornado.netutil.bind_unix_socket("web.sock"))
        await asyncio.Event().wait()

    asyncio.run(main())
"""


@pytest.fixture
def silent() -> Iterator[str]:
    """Give the URL of a server that takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0), backlog=100) as listener:
        yield f"redis://127.0.0.1:{listener.getsockname()[1]}"


def ask(at: Path, path: str) -> tuple[str, float]:
    """Give what the web server says, and how long that took."""
    began = time.monotonic()
    connection = http.client.HTTPConnection("localhost")
    connection.sock = socket.socket(socket.AF_UNIX)
    connection.sock.settimeout(30)
    connection.sock.connect(str(at))
    connection.request("GET", path, headers={"Connection": "close"})
    body = connection.getresponse().read().decode()
    connection.close()
    return body, time.monotonic() - began


def is_listening(at: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as connection:
        return connection.connect_ex(str(at)) == 0


@pytest.mark.parametrize(
    ("code", "path", "command"),
    [
        (WSGI, "/", ("-m", "gunicorn", "--bind", "unix:web.sock", "shop:app")),
        (WSGI, "/", ("-m", "gunicorn", "--preload", "--threads", "2", "--bind", "unix:web.sock", "shop:app")),
        (ASGI, "/", ("-m", "uvicorn", "--uds", "web.sock", "--lifespan", "off", "shop:app")),
        (ASGI, "/", ("shop.py",)),
        (ASGI, "/thread", ("shop.py",)),
        (TORNADO, "/", ("shop.py",)),
        (TORNADO, "/blocking", ("shop.py",)),
    ],
    ids=[
        "gunicorn",
        "gunicorn-preload-threads",
        "uvicorn",
        "uvicorn-run",
        "uvicorn-run-thread",
        "tornado",
        "tornado-blocking",
    ],
)
def test_a_web_request_waits_for_two_seconds_at_most_and_the_next_one_fails_at_once(
    code: str, path: str, command: tuple[str, ...], silent: str, tmp_path: Path
) -> None:
    (tmp_path / "shop.py").write_text(textwrap.dedent(code))
    environment = {name: value for name, value in os.environ.items() if name != "DULY_DEADLINE"} | {"URL": silent}
    with subprocess.Popen(
        [sys.executable, *command], cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as web:
        try:
            until(lambda: web.poll() is not None or is_listening(tmp_path / "web.sock"), "it does not listen")
            said, _ = ask(tmp_path / "web.sock", path)
            assert "2 s" in said, said
            said, took = ask(tmp_path / "web.sock", path)
            assert "UnreachableError" in said, said
            assert took < 1, said
        finally:
            web.terminate()


SCRIPT = """
    import threading, uvicorn, gunicorn.app.base
    from duly._core import _serves_requests as serves_requests
    assert not serves_requests()
    import uvicorn.server, duly

    def imports():  # as while a server imports its application
        assert serves_requests()
    exec("def run(then): then()", vars(uvicorn.server))
    uvicorn.server.run(imports)

    worker = duly.Worker(duly.Client("redis://127.0.0.1:1"), ["q"])
    worker.on("a", lambda job: None)
    exec("def run(then): then()", vars(duly.worker))
    duly.worker.run(lambda: uvicorn.server.run(lambda: None if not serves_requests() else 1 / 0))
"""


def test_a_program_that_has_only_imported_a_web_server_and_a_worker_have_the_long_deadline() -> None:
    ran = subprocess.run([sys.executable, "-c", textwrap.dedent(SCRIPT)], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr


def serves_with(module: str) -> bool:
    """Tell whether requests are answered in a process that runs a function of this module."""
    from duly._core import _serves_requests

    run = FunctionType((lambda then: then()).__code__, {"__name__": module, "__builtins__": builtins})
    return bool(run(_serves_requests))


@pytest.mark.parametrize(
    "module",
    [
        "aiohttp.web",
        "aiohttp.web_app",
        "aiohttp.web_protocol",
        "bjoern",
        "cheroot.workers.threadpool",
        "cherrypy.process.wspbus",
        "daphne.server",
        "django.core.servers.basehttp",
        "granian.server.mp",
        "gunicorn.arbiter",
        "hypercorn.asyncio.run",
        "sanic.server.runners",
        "tornado.httpserver",
        "tornado.web",
        "uvicorn.server",
        "waitress.server",
        "werkzeug.serving",
    ],
)
def test_a_web_server_shows_by_the_modules_that_it_runs(module: str) -> None:
    assert serves_with(module)


@pytest.mark.parametrize(
    "module",
    [
        "aiohttp",
        "aiohttp.client",
        "aiohttp.connector",
        "aiohttp.webhooks",
        "django.core.management",
        "sanic_testing.testing",
        "tornado.httpclient",
        "tornado.ioloop",
        "tornado.platform.asyncio",
        "tornado.websocket",
        "werkzeug.test",
    ],
)
def test_a_client_and_an_event_loop_of_such_packages_are_no_web_server(module: str) -> None:
    assert not serves_with(module)


@pytest.mark.parametrize("module", ["uwsgi", "mod_wsgi"])
def test_the_modules_of_servers_that_are_no_python_say_so(module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from duly._core import _serves_requests as serves_requests

    assert not serves_requests()
    stand_in = type(duly)(module)
    stand_in.process_group = ""  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module, stand_in)
    assert serves_requests()


def test_a_signal_that_comes_while_that_is_decided_is_not_lost() -> None:
    """Python handles signals in its own code alone, and there an exception of a handler would have nowhere to go."""
    from duly._core import _serves_requests

    calls = list[str]()
    sys.setprofile(lambda frame, event, _: calls.append(f"{event} {frame.f_code.co_name}"))
    _serves_requests()
    sys.setprofile(None)
    assert [call for call in calls if call.startswith("call")] == []
