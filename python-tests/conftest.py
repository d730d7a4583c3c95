from __future__ import annotations

import itertools
from collections.abc import Iterator

import duly
import pytest
from api_client import IN_ENVIRONMENT, Api, StartApi
from support import Command, Server, Start, StartProgram, commands, programs
from web_client import StartWeb, Web

numbers = itertools.count()

LONGEST = [
    *("random_kills", "late_exceptions", "schedule_zones", "schedule_jumps", "schedule_kills", "api_waiting"),
    *("threads_left", "bridge_kills", "web_jobs", "web_browser", "console_bench", "demo", "supervisor", "doctor"),
]
"""Files whose tests begin first, or processors would wait for them at the end."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    order = {f"test_{name}": index for index, name in enumerate(LONGEST)}
    items.sort(key=lambda item: order.get(item.path.stem, len(order)))


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    server = Server()
    yield server
    server.close()


@pytest.fixture
def own_server() -> Iterator[Server]:
    """For tests that kill it."""
    server = Server()
    yield server
    server.close()


@pytest.fixture
def prefix() -> str:
    return f"t{next(numbers)}:"


@pytest.fixture
def client(server: Server, prefix: str) -> duly.Client:
    return duly.Client(server.url, prefix=prefix)


@pytest.fixture
def queue(client: duly.Client) -> duly.Queue:
    return client.queue("q")


@pytest.fixture
def program(server: Server, prefix: str) -> Iterator[StartProgram]:
    with programs(server, prefix) as start:
        yield start


@pytest.fixture
def own_program(own_server: Server) -> Iterator[StartProgram]:
    """Start programs on a server that may be taken away from them."""
    with programs(own_server, "duly:") as start:
        yield start


@pytest.fixture
def start(server: Server, prefix: str) -> Iterator[Start]:
    """Begin a command of the program `duly` on the server."""
    with commands("--url", server.url, "--prefix", prefix) as run:
        yield run


@pytest.fixture
def orders(client: duly.Client) -> duly.Queue:
    return client.queue("orders")


@pytest.fixture
def duly_command(start: Start) -> Command:
    """Run a command of the program `duly`: its exit status, output and errors."""

    def run(*arguments: str) -> tuple[int, str, str]:
        command = start(*arguments)
        out, err = command.communicate(timeout=60)
        return command.returncode, out, err

    return run


@pytest.fixture
def start_web() -> Iterator[StartWeb]:
    started: list[Web] = []

    def run(url: str, prefix: str, *arguments: str, password: str = "") -> Web:
        started.append(Web(url, prefix, *arguments, password=password))
        return started[-1]

    yield run
    for web in started:
        web.process.kill()
        web.process.communicate()


@pytest.fixture
def web(start_web: StartWeb, server: Server, prefix: str) -> Web:
    web = start_web(server.url, prefix)
    web.enter()
    return web


@pytest.fixture
def start_api() -> Iterator[StartApi]:
    started: list[Api] = []

    def run(url: str, prefix: str, *arguments: str, tokens: str = IN_ENVIRONMENT) -> Api:
        started.append(Api(url, prefix, *(arguments or ("--api",)), tokens=tokens))
        return started[-1]

    yield run
    for api in started:
        api.process.kill()
        api.process.communicate()


@pytest.fixture
def api(start_api: StartApi, server: Server, prefix: str) -> Api:
    return start_api(server.url, prefix)
