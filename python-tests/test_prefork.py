"""Producers in servers and pools that fork or spawn their processes: a client that was used before goes on in each."""

from __future__ import annotations

import http.client
import os
import socket
import subprocess
import sys
import textwrap
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import duly
import pytest
from support import Server, until

WSGI = """
    import os
    import duly

    client = duly.Client(os.environ["URL"], prefix=os.environ["PREFIX"])
    queue = client.queue("q")
    queue.push([os.getpid(), "import"])  # with --preload: in the process that is forked afterwards

    def app(environ, start_response):
        queue.push([os.getpid(), environ["PATH_INFO"]])
        start_response("200 OK", [("Content-Type", "text/plain")])
        return [str(os.getpid()).encode()]
"""

ASGI = """
    import os
    import duly
    import duly.aio

    duly.Client(os.environ["URL"], prefix=os.environ["PREFIX"]).queue("q").push([os.getpid(), "import"])
    queue = duly.aio.Client(os.environ["URL"], prefix=os.environ["PREFIX"]).queue("q")

    async def app(scope, receive, send):
        if scope["type"] == "lifespan":
            while (await receive())["type"] != "lifespan.shutdown":
                await send({"type": "lifespan.startup.complete"})
            await send({"type": "lifespan.shutdown.complete"})
            return
        await queue.push([os.getpid(), scope["path"]])
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": str(os.getpid()).encode()})
"""

# What a pool of Celery does: its processes end after so many tasks, and others take their place.
POOL = """
    import multiprocessing, os, sys
    import duly

    client = duly.Client(os.environ["URL"], prefix=os.environ["PREFIX"])
    queue = client.queue("q")

    def push(number):
        queue.push([os.getpid(), number])

    if __name__ == "__main__":
        client.ping()
        with multiprocessing.get_context(sys.argv[1]).Pool(3, maxtasksperchild=10) as pool:
            pushed = pool.map_async(push, range(100), chunksize=1)
            for number in range(100, 150):
                push(number)  # the parent's client is in use while others are forked
            pushed.get(60)
            pool.close()
            pool.join()
"""

Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start(server: Server, prefix: str, tmp_path: Path) -> Iterator[Start]:
    started: list[subprocess.Popen[str]] = []

    def run(code: str, *command: str) -> subprocess.Popen[str]:
        (tmp_path / "shop.py").write_text(textwrap.dedent(code))
        started.append(
            subprocess.Popen(
                [sys.executable, *command],
                cwd=tmp_path,
                env={**os.environ, "URL": server.url, "PREFIX": prefix},
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
        )
        return started[-1]

    yield run
    for one in started:
        one.kill()
        one.communicate()


def get(path: str, at: Path) -> int:
    """Ask the web server; the process that answered."""
    connection = http.client.HTTPConnection("localhost", timeout=10)
    connection.sock = socket.socket(socket.AF_UNIX)
    connection.sock.settimeout(10)
    connection.sock.connect(str(at))
    connection.request("GET", path, headers={"Connection": "close"})
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    assert answer.status == 200, body
    return int(body)


def is_listening(at: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as connection:
        return connection.connect_ex(str(at)) == 0


def pushed_by(queue: duly.Queue) -> Counter[tuple[int, object]]:
    """Who pushed what, and how often."""
    return Counter((view.data[0], view.data[1]) for view in queue.peek("ready", limit=1000))


@pytest.mark.parametrize(
    ("code", "command"),
    [
        (WSGI, ("-m", "gunicorn", "--preload", "--workers", "2", "--bind", "unix:web.sock", "shop:app")),
        (
            WSGI,
            ("-m", "gunicorn", "--preload", "--workers", "2", "--threads", "4", "--bind", "unix:web.sock", "shop:app"),
        ),
        (ASGI, ("-m", "uvicorn", "--workers", "2", "--uds", "web.sock", "shop:app")),
        (ASGI, ("-m", "uvicorn", "--uds", "web.sock", "shop:app")),
    ],
    ids=["gunicorn-preload", "gunicorn-preload-threads", "uvicorn-workers", "uvicorn"],
)
def test_each_process_of_a_web_server_pushes(
    code: str, command: tuple[str, ...], start: Start, queue: duly.Queue, tmp_path: Path
) -> None:
    web = start(code, *command)
    until(lambda: web.poll() is not None or is_listening(tmp_path / "web.sock"), "it does not listen")
    wanted_processes = 2 if "--workers" in command else 1
    asked: Counter[tuple[int, object]] = Counter()

    def ask() -> bool:
        path = f"/{len(asked)}"
        asked[(get(path, tmp_path / "web.sock"), path)] += 1
        return len(asked) >= 40 and len({pid for pid, _ in asked}) == wanted_processes

    until(ask, "not every process answers")
    pushed = pushed_by(queue)
    imports = Counter({key: count for key, count in pushed.items() if key[1] == "import"})
    assert pushed - imports == asked
    if "--preload" in command:
        assert imports == {(web.pid, "import"): 1}
        assert web.pid not in {pid for pid, _ in asked}
    web.terminate()
    said, _ = web.communicate(timeout=20)
    assert web.returncode in (0, -15), said
    assert "Traceback" not in said, said


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_each_process_of_a_pool_pushes(method: str, start: Start, queue: duly.Queue) -> None:
    pool = start(POOL, "shop.py", method)
    said, _ = pool.communicate(timeout=60)
    assert (pool.returncode, said) == (0, "")
    pushed = pushed_by(queue)
    assert Counter(number for _, number in pushed) == Counter(range(150))
    by_parent = {number for pid, number in pushed if pid == pool.pid}
    assert by_parent == set(range(100, 150))
    assert len({pid for pid, _ in pushed}) >= 10  # each process of the pool did ten
