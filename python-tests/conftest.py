from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import duly
import pytest
from support import Program, Server

numbers = itertools.count()


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
def program(server: Server, prefix: str) -> Iterator[Callable[[str], Program]]:
    started: list[Program] = []

    def start(code: str) -> Program:
        started.append(Program(server, prefix, code))
        return started[-1]

    yield start
    for one in started:
        one.process.kill()
        one.process.communicate()
